/* facts.c - each rank tells of itself and its host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/levels.h"
#include "runtime/log/sha256.h"
#include "runtime/preflight/flight.h"
#include "runtime/sizes.h"

extern char **environ;

__attribute__((format(printf, 3, 4))) static void put(char *to, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(to, size, fmt, ap);
    va_end(ap);
    to[size - 1] = 0;
}
#define PUT(to, ...) put(to, sizeof(to), __VA_ARGS__)

/* The text of an executable that cannot be read is empty. */
static void digest_self(char hex[65])
{
    enum { PIECE = 1 << 16 };
    char *piece = rt_alloc(PIECE, 1);
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    rt_sha256 s;
    ssize_t n;
    rt_sha256_begin(&s);
    while (fd >= 0 && (n = read(fd, piece, PIECE)) > 0)
        rt_sha256_add(&s, piece, (size_t)n);
    rt_sha256_end(&s, hex);
    if (fd < 0)
        hex[0] = 0;
    else
        close(fd);
    free(piece);
}

static void name_processor(char *to, size_t size)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    put(to, size, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            char *from = strchr(line, ':') + 2;
            from[strcspn(from, "\n")] = 0;
            put(to, size, "%s", from);
            break;
        }
    if (f)
        fclose(f);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Variables that have to be the same for all ranks, in one order. */
static void list_settings(char *to, size_t size)
{
    static const char *const begins[] = {"NCCL_", "OMPI_MCA_btl", "OMPI_MCA_pml", "UCX_", "FI_"};
    const char *all[256];
    int n = 0;
    size_t at = 0;
    for (char **e = environ; *e && n < 256; e++)
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            if (strncmp(*e, begins[i], strlen(begins[i])) == 0)
                all[n++] = *e;
    qsort(all, (size_t)n, sizeof *all, by_text);
    to[0] = 0;
    for (int i = 0; i < n && at + 1 < size; i++, at = strlen(to))
        put(to + at, size - at, "%s%s", i ? " " : "", all[i]);
}

static bool has_address(const char *name)
{
    struct addrinfo *found = NULL;
    const bool has = getaddrinfo(name, NULL, NULL, &found) == 0;
    if (found)
        freeaddrinfo(found);
    return has;
}

static int64_t hard_limit(int which)
{
    struct rlimit l;
    return getrlimit((__rlimit_resource_t)which, &l) || l.rlim_max == RLIM_INFINITY
               ? INT64_MAX
               : (int64_t)l.rlim_max;
}

static int64_t soft_limit(int which)
{
    struct rlimit l;
    return getrlimit((__rlimit_resource_t)which, &l) || l.rlim_cur == RLIM_INFINITY
               ? INT64_MAX
               : (int64_t)l.rlim_cur;
}

static bool has_infiniband(void)
{
    DIR *d = opendir("/sys/class/infiniband");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n > 2; /* . and .. */
}

/* Bytes of /dev/shm that libraries take for the ranks of a host: NCCL's buffers each way of a
 * channel, where ranks meet in its memory; what an MPI puts there for each rank. mgc's own ranks
 * need none. */
static int64_t shm_needed(const mg_run *r, int here)
{
    enum { CHANNELS = 8 }; /* that NCCL takes through the memory of a host */
    const int64_t mpi = (int64_t)16 << 20;
    const rt_launcher by = r->world.launcher;
    if (here < 2)
        return 0;
    if (r->program->cuda_kernels)
        return here * 2 * CHANNELS * MG_NCCL_BUFFER;
    return r->ranks->wire && (by == RT_OPENMPI || by == RT_HYDRA) ? here * mpi : 0;
}

static void limits_of(mg_run *r, rt_about *a)
{
    enum { OWN = 128, EACH = 3 }; /* connections to each other rank, while they are made */
    struct statvfs v;
    a->shm_needed = shm_needed(r, a->here);
    a->shm = statvfs("/dev/shm", &v) ? 0 : (int64_t)v.f_bavail * (int64_t)v.f_frsize;
    a->files = hard_limit(RLIMIT_NOFILE);
    a->files_needed = OWN + (r->ranks && r->ranks->wire ? EACH * r->ranks->n : 0);
    a->locked = hard_limit(RLIMIT_MEMLOCK);
    a->infiniband = has_infiniband();
    a->longest = soft_limit(RLIMIT_FSIZE);
}

static void room_of(const mg_run *r, rt_about *a)
{
    const rt_memory m = rt_memory_plan(r);
    a->planned = m.total;
    a->available = m.available;
    PUT(a->limit, "%s", m.limit);
    for (int l = MG_LEVEL_HOST; l < MG_LEVELS && !a->level_code; l++) {
        rt_exit code;
        char *text = rt_levels_room(r, l, a->here, &code);
        if (text) {
            a->level_code = (int32_t)code;
            PUT(a->level, "%s", text);
        }
        free(text);
    }
}

static void versions_of(rt_about *a, const mg_program *p)
{
    struct utsname u;
    uname(&u);
    digest_self(a->file);
    PUT(a->compiler, "%s, ABI %u", p->compiler, p->abi);
    PUT(a->system, "%s %s %s", u.sysname, u.release, u.machine);
    PUT(a->libc, "glibc %s", gnu_get_libc_version());
    PUT(a->products, "%s", mg_products_name());
    name_processor(a->processor, sizeof a->processor);
    list_settings(a->settings, sizeof a->settings);
}

/* Opens the device if that can be done: memory is asked of the device that the rank will have. */
void rt_about_fill(mg_run *r, rt_about *a)
{
    const mg_program *p = r->program;
    *a = (rt_about){.machine = rt_host_id(&r->world),
                    .program = rt_program_key(p),
                    .cores = rt_default_threads(),
                    .threads = r->threads,
                    .here = rt_ranks_here(r),
                    .by_cores = !p->cuda_kernels};
    if (gethostname(a->host, sizeof a->host - 1))
        PUT(a->host, "unknown");
    a->knows_itself = has_address(a->host);
    versions_of(a, p);
    char *lacks = rt_cpu_lacks(p->cpu_features), *gpu = rt_device_text(&a->gpu_there);
    PUT(a->lacks, "%s", lacks ? lacks : "");
    PUT(a->gpu, "%s", gpu ? gpu : "");
    if (!lacks && (!gpu || a->gpu_there)) {
        rt_device_open(r);
        a->opened = true;
        char *versions = rt_device_versions(r);
        PUT(a->versions, "%s", versions ? versions : "");
        free(versions);
    }
    free(lacks);
    free(gpu);
    limits_of(r, a);
    room_of(r, a);
}
