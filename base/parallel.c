/* parallel.c - processes that take the next number and give back bytes through pipes; see
 * parallel.h. A process that ends has the number that it was at in memory that all share. */
#include "base/parallel.h"

#include "base/memo.h"

#include <errno.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
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

/* Processes share it: the next number, and what each is at, plus 1. */
typedef struct Shared {
    atomic_int next, at[MOST];
} Shared;

/* Never returns: the buffers of other streams are the parent's to write. */
static _Noreturn void work(ParallelCall *f, void *ctx, int n, Shared *s, int number, int to)
{
    FILE *out = fdopen(to, "wb");
    in_a_call = true;
    for (int k; out && (k = atomic_fetch_add(&s->next, 1)) < n;) {
        atomic_store(&s->at[number], k + 1);
        Written w = written_by(f, ctx, k);
        if (!w.bytes)
            break;
        fwrite(&(Head){k, w.n}, sizeof(Head), 1, out);
        fwrite(w.bytes, 1, w.n, out);
        fflush(out); /* the next call may end this process */
        free(w.bytes);
    }
    _exit(out && !fclose(out) ? 0 : 1);
}

/* The end of a pipe that is read; -1: there is no process. err: its standard error, or NULL. */
static int begin(ParallelCall *f, void *ctx, int n, Shared *s, int number, FILE *err, pid_t *pid)
{
    int end[2];
    if (pipe(end))
        return -1;
    *pid = fork();
    if (*pid == 0) {
        close(end[0]);
        if (err)
            dup2(fileno(err), STDERR_FILENO);
        work(f, ctx, n, s, number, end[1]);
    }
    close(end[1]);
    if (*pid > 0)
        return end[0];
    close(end[0]);
    return -1;
}

/* Reads the results of a process until it ends. A broken one leaves its result as it is. How it
 * ended, as waitpid says it. */
static int finish(int from, pid_t pid, int n, Arena *a, Written *result)
{
    FILE *in = fdopen(from, "rb");
    Head h;
    int status = 0;
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
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* How a process ended, in words. */
static const char *how_it_ended(int status, FILE *err, Arena *a)
{
    char line[200] = "";
    if (err) {
        rewind(err);
        while (fgets(line, sizeof line, err) && line[0] == '\n')
            ;
        line[strcspn(line, "\n")] = 0;
    }
    const char *end = *line ? "; " : "";
    return WIFSIGNALED(status)
               ? arena_printf(a, "%s%ssignal %d (%s)", line, end, WTERMSIG(status),
                              strsignal(WTERMSIG(status)))
               : arena_printf(a, "%s%sexit code %d", line, end, WEXITSTATUS(status));
}

/* died: NULL, or as parallel_apart has it. */
static void call_apart(int most, int n, ParallelCall *f, void *ctx, Arena *a, Written *result,
                       const char **died)
{
    int from[MOST];
    pid_t pid[MOST];
    FILE *err[MOST] = {NULL};
    Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return;
    if (!depth && !in_a_call)
        outermost_next = &s->next;
    memo_share();
#ifdef __GLIBC__
    malloc_trim(0); /* what is free each process would copy, page by page, before it writes there */
#endif
    fflush(NULL); /* what exit() would write a second time */
    for (int p = 0; p < most; p++) {
        err[p] = died ? tmpfile() : NULL;
        from[p] = begin(f, ctx, n, s, p, err[p], &pid[p]);
    }
    for (int p = 0; p < most; p++) {
        const int status = from[p] < 0 ? 0 : finish(from[p], pid[p], n, a, result);
        const int at = atomic_load(&s->at[p]) - 1;
        if (status && died && at >= 0 && at < n && !result[at].bytes)
            died[at] = how_it_ended(status, err[p], a);
        if (err[p])
            fclose(err[p]);
    }
    if (!depth && !in_a_call) {
        outermost_next = NULL;
        cut |= atomic_load(&s->next) >= STOPPED; /* by another process */
    }
    munmap(s, sizeof *s);
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
        call_apart(most, n, f, ctx, a, result, NULL);
    for (int k = 0; k < n && !(outermost && cut); k++)
        if (!result[k].bytes)
            call_here(f, ctx, k, a, &result[k]);
}

/* Those of some numbers that have neither a result nor an end. */
typedef struct Rest {
    ParallelCall *f;
    void *ctx;
    int n, *number;
} Rest;

static void call_rest(void *ctx, int k, FILE *out)
{
    const Rest *r = ctx;
    r->f(r->ctx, r->number[k], out);
}

/* One pass over the rest, until each process has ended. Whether any number got on. */
static bool pass_over(Rest *r, Arena *a, Written *result, const char **died)
{
    const int processors = parallel_most(), most = r->n < processors ? r->n : processors;
    Written *w = NEW_ARRAY(a, Written, r->n);
    const char **end = NEW_ARRAY(a, const char *, r->n);
    bool any = false;
    call_apart(most, r->n, call_rest, r, a, w, end);
    for (int k = 0; k < r->n; k++) {
        result[r->number[k]] = w[k];
        died[r->number[k]] = end[k];
        any |= w[k].bytes || end[k];
    }
    return any;
}

void parallel_apart(int n, ParallelCall *f, void *ctx, Arena *a, Written *result, const char **died)
{
    const bool outermost = !depth && !in_a_call;
    Rest r = {.f = f, .ctx = ctx, .number = NEW_ARRAY(a, int, n)};
    if (outermost)
        cut = false;
    for (int k = 0; k < n; k++) {
        result[k] = (Written){0};
        died[k] = NULL;
    }
    for (bool on = true; on && !(outermost && cut);) {
        r.n = 0;
        for (int k = 0; k < n; k++)
            if (!result[k].bytes && !died[k])
                r.number[r.n++] = k;
        on = r.n && pass_over(&r, a, result, died);
    }
}
