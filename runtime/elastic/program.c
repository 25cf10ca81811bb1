/* program.c - finds the programs of this executable, and becomes one of them. */
#include "runtime/elastic/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files.h"
#include "runtime/net/ranks.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif
enum { CHUNK = 1 << 20 };

/* Reads the list at the end of the file, if there is one. False: it is damaged. */
static bool read_list(rt_programs *e, int64_t size)
{
    mg_variants_end end;
    const int64_t behind = size - (int64_t)sizeof end;
    if (behind < 0 || !rt_read_at(e->fd, &end, sizeof end, behind) ||
        memcmp(end.magic, MG_VARIANTS_MAGIC, sizeof end.magic))
        return true;
    const int64_t bytes = end.n * (int64_t)sizeof *e->of;
    if (end.n < 1 || end.n > MG_VARIANTS_MAX || bytes > behind ||
        !rt_read_at(e->fd, e->of, (size_t)bytes, behind - bytes) ||
        mg_variant_sum(MG_VARIANT_SUM, e->of, (size_t)bytes) != end.sum)
        return false;
    for (int i = 0; i < end.n; i++)
        if (e->of[i].offset < 0 || e->of[i].bytes < 1 || e->of[i].offset > behind - bytes ||
            e->of[i].bytes > behind - bytes - e->of[i].offset || e->of[i].ranks < 1 ||
            e->of[i].ranks > MG_RANKS_MAX || (i && e->of[i].ranks >= e->of[i - 1].ranks))
            return false;
    e->n = (int)end.n;
    return true;
}

void rt_programs_find(rt_programs *e, const mg_run *r)
{
    const int own = rt_ranks_of(r->program, RT_ALL_AXES);
    struct stat s;
    *e = (rt_programs){.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), .n = 1};
    e->of[0].ranks = own;
    if (e->fd < 0 || fstat(e->fd, &s))
        return; /* without /proc it is one program */
    if (!read_list(e, s.st_size) || e->of[0].ranks < own)
        rt_die(RT_MISFIT, "this executable is damaged: compile it again");
    if (e->of[0].ranks != own) /* this process runs one of the others, which is alone in its file */
        rt_die(RT_MISFIT, "the programs of this executable are not its own: compile it again");
}

void rt_programs_close(rt_programs *e)
{
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
}

int rt_programs_most(const rt_programs *e, int ranks)
{
    for (int i = 0; i < e->n; i++)
        if (e->of[i].ranks <= ranks)
            return (int)e->of[i].ranks;
    return 0;
}

bool rt_programs_have(const rt_programs *e, int ranks)
{
    return rt_programs_most(e, ranks) == ranks;
}

char *rt_programs_text(const rt_programs *e)
{
    char *text = rt_printf("%s", "");
    for (int i = e->n - 1; i >= 0; i--) {
        char *before = text;
        text = rt_printf("%s%s%lld", before,
                         i == e->n - 1 ? ""
                         : i           ? ", "
                                       : " or ",
                         (long long)e->of[i].ranks);
        free(before);
    }
    return text;
}

/* A file in memory with the executable. */
static int copy_out(const rt_programs *e, const mg_variant *v)
{
    char *chunk = rt_alloc(CHUNK, 1);
    uint64_t sum = MG_VARIANT_SUM;
    int fd = memfd_create("mgc program", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
        fd = memfd_create("mgc program", MFD_CLOEXEC);
    bool good = fd >= 0;
    for (int64_t at = 0, n; good && at < v->bytes; at += n) {
        n = v->bytes - at < CHUNK ? v->bytes - at : CHUNK;
        good = rt_read_at(e->fd, chunk, (size_t)n, v->offset + at) &&
               rt_write_at(fd, chunk, (size_t)n, at);
        sum = mg_variant_sum(sum, chunk, (size_t)n);
    }
    if (!good)
        rt_die(RT_FAILED, "no memory for the program of %lld ranks: %s", (long long)v->ranks,
               strerror(errno));
    if (sum != v->sum)
        rt_die(RT_MISFIT,
               "the program of %lld ranks in this executable is damaged: compile it again",
               (long long)v->ranks);
    free(chunk);
    return fd;
}

void rt_programs_become(const rt_programs *e, int ranks, char *const *argv)
{
    int i = 0;
    while (e->of[i].ranks != ranks)
        i++;
    if (!i) /* the file itself: another one may have its name now */
        execv("/proc/self/exe", argv);
    else
        fexecve(copy_out(e, &e->of[i]), argv, environ);
    rt_die(RT_MISFIT, "the program of %d ranks cannot be started%s: %s", ranks,
           i ? " from memory (a system may forbid that: vm.memfd_noexec)" : "", strerror(errno));
}
