/* parallel.c - processes that take the next number and give back bytes through pipes; see
 * parallel.h. */
#include "base/parallel.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* STOPPED: a next number behind all, to which each process may add. */
enum { MOST = 16, STOPPED = INT_MAX / 2 };

static bool in_a_call;

/* The outermost map's next number, which its processes take theirs from; how many maps are around
 * in this process; and whether the outermost begins no more calls. */
static atomic_int *_Atomic outermost_next;
static int depth;
static atomic_bool cut;

void parallel_stop(void)
{
    atomic_int *next = outermost_next;
    cut = true;
    if (next)
        atomic_store(next, STOPPED);
}

int parallel_most(void)
{
    cpu_set_t set;
    if (in_a_call || sched_getaffinity(0, sizeof set, &set))
        return 1;
    return CPU_COUNT(&set) < MOST ? CPU_COUNT(&set) : MOST;
}

/* A stream of bytes in memory, or NULL bytes: it could not be written. */
static Written written_by(ParallelCall *f, void *ctx, int k)
{
    Written w = {0};
    FILE *out = open_memstream(&w.bytes, &w.n);
    if (!out)
        return w;
    f(ctx, k, out);
    if (fclose(out)) {
        free(w.bytes);
        w = (Written){0};
    }
    return w;
}

static void call_here(ParallelCall *f, void *ctx, int k, Arena *a, Written *result)
{
    depth++;
    Written w = written_by(f, ctx, k);
    depth--;
    *result = (Written){arena_alloc(a, w.n + 1), w.n};
    if (w.n)
        memcpy(result->bytes, w.bytes, w.n);
    free(w.bytes);
}

/* A result in a pipe begins with it. */
typedef struct Head {
    int number;
    size_t n;
} Head;

/* Never returns: the buffers of other streams are the parent's to write. */
static _Noreturn void work(ParallelCall *f, void *ctx, int n, atomic_int *next, int to)
{
    FILE *out = fdopen(to, "wb");
    in_a_call = true;
    for (int k; out && (k = atomic_fetch_add(next, 1)) < n;) {
        Written w = written_by(f, ctx, k);
        if (!w.bytes)
            break;
        fwrite(&(Head){k, w.n}, sizeof(Head), 1, out);
        fwrite(w.bytes, 1, w.n, out);
        free(w.bytes);
    }
    _exit(out && !fclose(out) ? 0 : 1);
}

/* The end of a pipe that is read; -1: there is no process. */
static int begin(ParallelCall *f, void *ctx, int n, atomic_int *next, pid_t *pid)
{
    int end[2];
    if (pipe(end))
        return -1;
    *pid = fork();
    if (*pid == 0) {
        close(end[0]);
        work(f, ctx, n, next, end[1]);
    }
    close(end[1]);
    if (*pid > 0)
        return end[0];
    close(end[0]);
    return -1;
}

/* Reads the results of a process until it ends. A broken one leaves its result as it is. */
static void finish(int from, pid_t pid, int n, Arena *a, Written *result)
{
    FILE *in = fdopen(from, "rb");
    Head h;
    while (in && fread(&h, sizeof h, 1, in) == 1 && h.number >= 0 && h.number < n) {
        Written w = {arena_alloc(a, h.n + 1), h.n};
        if (fread(w.bytes, 1, w.n, in) != w.n)
            break;
        result[h.number] = w;
    }
    if (in)
        fclose(in);
    else
        close(from);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void call_apart(int most, int n, ParallelCall *f, void *ctx, Arena *a, Written *result)
{
    int from[MOST];
    pid_t pid[MOST];
    atomic_int *next =
        mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (next == MAP_FAILED)
        return;
    if (!depth && !in_a_call)
        outermost_next = next;
    for (int p = 0; p < most; p++)
        from[p] = begin(f, ctx, n, next, &pid[p]);
    for (int p = 0; p < most; p++)
        if (from[p] >= 0)
            finish(from[p], pid[p], n, a, result);
    if (!depth && !in_a_call) {
        outermost_next = NULL;
        cut |= atomic_load(next) >= STOPPED; /* by another process */
    }
    munmap(next, sizeof *next);
}

void parallel_map(int n, ParallelCall *f, void *ctx, Arena *a, Written *result)
{
    const int processors = parallel_most(), most = n < processors ? n : processors;
    const bool outermost = !depth && !in_a_call;
    if (outermost)
        cut = false;
    for (int k = 0; k < n; k++)
        result[k] = (Written){0};
    if (most > 1)
        call_apart(most, n, f, ctx, a, result);
    for (int k = 0; k < n && !(outermost && cut); k++)
        if (!result[k].bytes)
            call_here(f, ctx, k, a, &result[k]);
}
