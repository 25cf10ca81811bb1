/* ranks.c - starts or joins the ranks of a run, and maps the memory that they share. See
 * ranks.h. */
#include "runtime/net/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/machine.h"
#include "runtime/net/pipe.h"
#include "runtime/preflight/preflight.h"
#include "runtime/sizes.h"

enum { HUGE_PAGE = 2 << 20 };

/* ---- the mesh -------------------------------------------------------------------------------- */

int rt_ranks_of(const mg_program *p, uint32_t axes)
{
    int64_t n = 1;
    for (int i = 0; i < p->naxes; i++)
        n *= axes >> i & 1 ? p->axes[i].size : 1;
    return (int)n;
}

/* A rank's place among the ranks along some axes; the first axis is the outermost. */
int rt_place_of(const mg_program *p, int rank, uint32_t axes)
{
    int64_t behind = rt_ranks_of(p, RT_ALL_AXES), place = 0;
    for (int i = 0; i < p->naxes; i++) {
        behind /= p->axes[i].size;
        if (axes >> i & 1)
            place = place * p->axes[i].size + rank / behind % p->axes[i].size;
    }
    return (int)place;
}

int rt_place_of_rows(const mg_program *p, int rank, const mg_entry *e)
{
    const int outer = rt_place_of(p, rank, e->batch_axes & ~e->batch_inner);
    return outer * rt_ranks_of(p, e->batch_inner) + rt_place_of(p, rank, e->batch_inner);
}

int rt_neighbour(const mg_program *p, int rank, uint32_t axis, int by)
{
    const int n = rt_ranks_of(p, axis), place = rt_place_of(p, rank, axis);
    int behind = rt_ranks_of(p, RT_ALL_AXES);
    for (int i = 0; i < p->naxes && (axis >> i) != 0; i++)
        behind /= (int)p->axes[i].size;
    return rank + ((place + by + n) % n - place) * behind;
}

int mg_place(const mg_run *r, uint32_t axes)
{
    return rt_place_of(r->program, r->rank, axes);
}

bool rt_has_tensor(const mg_program *p, const mg_tensor *t, int rank)
{
    const uint32_t axis = p->stages.axis;
    return !axis || mg_is_at(t->at, rt_place_of(p, rank, axis), rt_ranks_of(p, axis));
}

static uint32_t all_axes(const mg_program *p)
{
    return ((uint32_t)1 << p->naxes) - 1;
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Numbers the barriers of each set of axes; returns how many barriers exist. */
static int64_t number_barriers(struct rt_ranks *k, const mg_program *p)
{
    int64_t sets = (int64_t)1 << p->naxes, n = 0;
    k->first = rt_alloc((size_t)sets, sizeof *k->first);
    for (int64_t axes = 0; axes < sets; axes++) {
        k->first[axes] = n;
        n += k->n / rt_ranks_of(p, (uint32_t)axes);
    }
    return n;
}

static void make_barriers(struct rt_ranks *k, const mg_program *p)
{
    for (uint32_t axes = 0; axes <= all_axes(p); axes++)
        for (int i = 0; i < k->nhere; i++) {
            int group = rt_place_of(p, k->here[i], all_axes(p) & ~axes);
            k->shared->barrier[k->first[axes] + group].members++;
        }
}

/* Includes a guard page behind each arena: an access to it faults. */
int64_t rt_arena_stride(const mg_program *p)
{
    return (p->arena_bytes + rt_page() + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *rt_of_rank(const mg_run *r, const void *at, int rank)
{
    return (char *)(uintptr_t)at + (rank - r->rank) * rt_arena_stride(r->program);
}

bool rt_is_here(const mg_run *r, int rank)
{
    return r->ranks->is_here[rank];
}

bool rt_is_in_reach(const mg_run *r, int rank)
{
    return rt_arenas_are_shared && r->ranks->is_here[rank];
}

char *rt_image(const mg_run *r, int64_t offset, int rank)
{
    return r->ranks->arenas + rank * rt_arena_stride(r->program) + offset;
}

bool rt_is_first_here(const mg_run *r)
{
    return r->ranks->here[0] == r->rank;
}

int rt_ranks_here(const mg_run *r)
{
    const rt_world *w = &r->world;
    return r->ranks                 ? r->ranks->nhere
           : w->launcher == RT_BARE ? rt_ranks_of(r->program, RT_ALL_AXES)
           : w->fake_hosts          ? w->size / w->fake_hosts
                                    : w->local_size;
}

int rt_ranks_pid(const mg_run *r, int i)
{
    return r->ranks->shared->slot[r->ranks->here[i]].pid;
}

static int64_t meetings_bytes(const mg_program *p)
{
    return rt_ranks_of(p, RT_ALL_AXES) * ((int64_t)RT_MEETINGS << p->naxes) *
           (int64_t)sizeof(uint32_t);
}

/* Bytes of the shared memory before the arenas. Sets k->pipes, where the memory of pipelines
 * begins, and k->copying, where that of collectives by copies does; the meetings of async_comm.c
 * are at the end. And k->memory_bytes, of all. */
static int64_t head_bytes(struct rt_ranks *k, const mg_program *p)
{
    int64_t bytes =
        (int64_t)sizeof(rt_machine) + number_barriers(k, p) * (int64_t)sizeof(rt_barrier);
    k->pipes = rt_whole_pages(bytes);
    k->copying = rt_whole_pages(k->pipes + rt_pipe_shared_bytes(p));
    bytes = rt_whole_pages(k->copying + mg_copies_bytes(k->nhere, p->piece));
    bytes += meetings_bytes(p) + (int64_t)sizeof(uint64_t);
    bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    k->memory_bytes = bytes + (rt_arenas_are_shared ? k->nhere * rt_arena_stride(p) : 0);
    return bytes;
}

static int make_memory(const struct rt_ranks *k)
{
    int fd = memfd_create("mgc ranks", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, k->memory_bytes))
        rt_die(RT_FAILED, "no shared memory for %d ranks: %s", k->nhere, strerror(errno));
    return fd;
}

static void *map(void *at, int64_t bytes, int access, int flags, int fd, int64_t offset)
{
    void *p = mmap(at, (size_t)bytes, access, flags, fd, (off_t)offset);
    if (p == MAP_FAILED)
        rt_die(RT_FAILED, "%lld bytes of the ranks' memory could not be mapped: %s",
               (long long)bytes, strerror(errno));
    return p;
}

/* Maps the head, and the arenas (or their images) at their places by rank. */
static void map_memory(struct rt_ranks *k, const mg_program *p, int rank, int fd, int64_t head)
{
    const int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    int64_t stride = rt_arena_stride(p), used = rt_whole_pages(p->arena_bytes);
    k->shared = map(NULL, head, both, MAP_SHARED, fd, 0);
    k->memory = fd;
    k->meetings = (_Atomic uint32_t *)((char *)k->shared + head - meetings_bytes(p));
    k->pipe = rt_pipe_new(p, (char *)k->shared + k->pipes);
    k->copies = (char *)k->shared + k->copying;
    char *base = map(NULL, stride * k->n + HUGE_PAGE, PROT_NONE, own, -1, 0);
    k->arenas = (char *)(((uintptr_t)base + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    for (int i = 0, at = 0; i < k->n; i++) {
        if (rt_arenas_are_shared && k->is_here[i])
            map(k->arenas + i * stride, used, both, MAP_SHARED | MAP_FIXED, fd,
                head + at++ * stride);
        else if (rank == 0)
            map(k->arenas + i * stride, used, both, own | MAP_FIXED, -1, 0);
    }
}

/* The memory that the ranks share becomes longer, and all of them map that. */
char *rt_ranks_memory(mg_run *r, int64_t each)
{
    struct rt_ranks *k = r->ranks;
    const int own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (rt_is_first_here(r) && ftruncate(k->memory, k->memory_bytes + k->nhere * each))
        rt_die(RT_FAILED, "no memory that %d ranks share: %s", k->nhere, strerror(errno));
    rt_meet(r, RT_ALL_AXES);
    char *base = map(NULL, each * k->n, PROT_NONE, own, -1, 0);
    for (int i = 0; i < k->nhere; i++)
        map(base + k->here[i] * each, each, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_FIXED | MAP_NORESERVE, k->memory, k->memory_bytes + i * each);
    return base;
}

char *rt_ranks_arena(const mg_run *r)
{
    return r->ranks->arenas + r->rank * rt_arena_stride(r->program);
}

/* Fills this process's slot, and adds the processors that the process may use. */
static void sign_in(mg_run *r)
{
    struct rt_ranks *k = r->ranks;
    rt_slot *s = &k->shared->slot[r->rank];
    struct stat space = {0};
    cpu_set_t set;
    CPU_ZERO(&set);
    stat("/proc/self/ns/pid", &space);
    s->pid = (int)getpid();
    s->pid_space = space.st_ino;
    s->peer = -1;
    s->action = -1;
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < 1024 && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            k->shared->cpus[i / 64] |= (uint64_t)1 << (i % 64);
}

int rt_ranks_threads(const mg_run *r)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < 1024 && i < CPU_SETSIZE; i++)
        if (r->ranks->shared->cpus[i / 64] >> (i % 64) & 1)
            CPU_SET(i, &set);
    int each = rt_cores_of(&set) / r->ranks->nhere, own = rt_default_threads();
    return each < 1 ? 1 : each < own ? each : own;
}

/* ---- the start ------------------------------------------------------------------------------- */

static struct rt_ranks *new_ranks(mg_run *r)
{
    struct rt_ranks *k = r->ranks = rt_alloc(1, sizeof *k);
    k->n = rt_ranks_of(r->program, RT_ALL_AXES);
    if (k->n > MG_RANKS_MAX)
        rt_die(RT_MISFIT, "this program has %d ranks; the limit is %d", k->n, MG_RANKS_MAX);
    for (int i = 0; i < k->n; i++)
        k->link[i] = -1;
    return k;
}

static void add_here(struct rt_ranks *k, int rank)
{
    k->is_here[rank] = true;
    k->here[k->nhere++] = rank;
}

static const mg_run *told_of; /* the function that rt_die calls has no argument */

/* Shows the other ranks the exit code of this process. */
static void part(rt_exit code)
{
    const mg_run *r = told_of;
    r->ranks->shared->slot[r->rank].parted = (int)code + 1;
    if (r->ranks->wire)
        rt_wire_abort(r->ranks->wire, (int)code);
}

uint64_t rt_program_key(const mg_program *p)
{
    char *text = rt_printf("%s %s %s %s %llx %lld %d %d %u", p->name, p->compiler, p->layout,
                           p->config, (unsigned long long)p->fingerprint, (long long)p->arena_bytes,
                           p->nactions, p->ntensors, p->abi);
    uint64_t key = mg_key(text);
    free(text);
    return key;
}

typedef struct host {
    uint64_t id, nonce;
} host;

uint64_t rt_host_id(const rt_world *w)
{
    char boot[64] = "";
    struct stat net = {0};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(boot, sizeof boot, f))
        gethostname(boot, sizeof boot - 1);
    if (f)
        fclose(f);
    stat("/proc/self/ns/net", &net);
    uint64_t block = w->fake_hosts ? (uint64_t)(w->rank * w->fake_hosts / w->size) : 0;
    return rt_mix64(mg_key(boot) ^ rt_mix64(net.st_ino ^ block << 48));
}

/* Finds the ranks on this machine, over the wire. The job's name is a random number of rank 0. */
static char *find_hosts(mg_run *r)
{
    struct rt_ranks *k = r->ranks;
    const rt_world *w = &r->world;
    host mine = {rt_host_id(w), 0}, *all = rt_alloc((size_t)k->n, sizeof *all);
    if (getrandom(&mine.nonce, sizeof mine.nonce, 0) != sizeof mine.nonce)
        mine.nonce = (uint64_t)rt_now_ns();
    k->wire = rt_wire_open(&(rt_wire_terms){
        .world = w,
        .gpus = r->program->cuda_kernels,
        .program = r->options->preflight ? rt_preflight_key() : rt_program_key(r->program),
        .limit = (double)r->options->hang_after});
    rt_wire_gather(k->wire, &mine, all, sizeof mine);
    for (int i = 0; i < k->n; i++) {
        if (all[i].id == mine.id)
            add_here(k, i);
        while (all[k->host[i]].id != all[i].id)
            k->host[i]++;
    }
    char *job = rt_printf("job %016llx on %016llx", (unsigned long long)all[0].nonce,
                          (unsigned long long)mine.id);
    free(all);
    return job;
}

void rt_ranks_join(mg_run *r)
{
    const mg_program *p = r->program;
    const rt_world *w = &r->world;
    struct rt_ranks *k = new_ranks(r);
    char *job;
    int fd = -1;
    r->rank = w->rank;
    k->launched = true;
    if (rt_world_spread(w)) {
        job = find_hosts(r);
    } else {
        job = rt_printf("%s", w->job);
        for (int i = 0; i < k->n; i++)
            add_here(k, i);
    }
    int64_t head = head_bytes(k, p);
    bool first = k->here[0] == r->rank;
    if (first) {
        fd = make_memory(k);
        map_memory(k, p, r->rank, fd, head);
        make_barriers(k, p);
    }
    rt_rendezvous(k, job, r->rank, rt_program_key(p), (double)r->options->hang_after, &fd);
    if (!first)
        map_memory(k, p, r->rank, fd, head);
    free(job);
    sign_in(r);
    told_of = r;
    rt_at_parting(part);
    k->watchdog = rt_watchdog_new(r);
    rt_meet(r, RT_ALL_AXES);
    if (r->rank == 0)
        rt_images_settle(r);
}

/* A pair of connected sockets: pair[0] for the leader, pair[1] for the follower. */
static void make_link(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        rt_die(RT_FAILED, "no connection to another rank: %s", strerror(errno));
}

static _Noreturn void begin_follower(mg_run *r, pid_t leader, int rank, int link)
{
    struct rt_ranks *k = r->ranks;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != leader)
        _exit(RT_LOST);
    for (int i = 1; i < rank; i++) {
        close(k->link[i]);
        k->link[i] = -1;
    }
    k->link[0] = link;
    r->rank = rank;
    rt_speak_for(rank);
    sign_in(r);
    rt_at_parting(part);
    k->watchdog = rt_watchdog_new(r);
    rt_ranks_follow(r);
}

void rt_ranks_start(mg_run *r)
{
    const mg_program *p = r->program;
    if (r->ranks || rt_ranks_of(p, RT_ALL_AXES) == 1)
        return;
    struct rt_ranks *k = new_ranks(r);
    for (int i = 0; i < k->n; i++)
        add_here(k, i);
    int64_t head = head_bytes(k, p);
    int fd = make_memory(k);
    pid_t leader = getpid();
    map_memory(k, p, 0, fd, head);
    make_barriers(k, p);
    sign_in(r);
    told_of = r;
    rt_at_parting(part);
    fflush(NULL);
    for (int i = 1; i < k->n; i++) {
        int pair[2];
        make_link(pair);
        k->child[i] = fork();
        if (k->child[i] < 0)
            rt_die(RT_FAILED, "rank %d could not be started: %s", i, strerror(errno));
        if (!k->child[i]) {
            close(pair[0]);
            begin_follower(r, leader, i, pair[1]);
        }
        close(pair[1]);
        k->link[i] = pair[0];
    }
    k->watchdog = rt_watchdog_new(r);
    rt_images_settle(r);
}
