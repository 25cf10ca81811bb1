/* parallel.c - processes that take the next number and give back bytes through pipes; see
 * parallel.h. A process that ends has the number that it was at in memory that all share.
 *
 * All maps that are inside each other share the processors of the outermost. The process that maps
 * has one, and takes numbers like all others. Whoever has none left to take leaves its processor to
 * the others: the next number that is begun, by any map, begins a process more. */
#include "base/parallel.h"

#include "base/memo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* STOPPED: a next number behind all, to which each process may add. */
enum { MOST = 16, STOPPED = INT_MAX / 2, PIPE = 1 << 20 };

/* Processes of one map share it: the next number, and what each is at, plus 1. */
typedef struct Shared {
    atomic_int next, at[MOST];
    atomic_int unused; /* processors; those of the outermost map count */
} Shared;

/* The outermost map, of which each process has this; NULL: none is under way. */
static Shared *_Atomic outermost;

/* How many maps are around in this process; and whether the outermost begins no more calls. */
static int depth;
static atomic_bool cut;

void parallel_stop(void)
{
    Shared *s = outermost;
    cut = true;
    if (s)
        atomic_store(&s->next, STOPPED);
}

static int processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    return CPU_COUNT(&set) < MOST ? CPU_COUNT(&set) : MOST;
}

int parallel_most(void)
{
    const Shared *s = outermost;
    const int unused = s ? atomic_load(&s->unused) : processors() - 1;
    return 1 + (unused > 0 ? unused : 0);
}

/* False: all processors are used. */
static bool take_processor(void)
{
    atomic_int *unused = &((Shared *)outermost)->unused;
    int n = atomic_load(unused);
    while (n > 0)
        if (atomic_compare_exchange_weak(unused, &n, n - 1))
            return true;
    return false;
}

static void leave_processor(void)
{
    atomic_fetch_add(&((Shared *)outermost)->unused, 1);
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

/* Another process of a map. */
typedef struct Member {
    pid_t pid;
    int from;  /* the end of its pipe that is read */
    FILE *err; /* its standard error; NULL: the same as here */
} Member;

/* A map, and all that it has begun. */
typedef struct ParallelMap {
    int n;
    ParallelCall *f;
    void *ctx;
    Arena *a;
    Written *result;
    const char **died; /* as parallel_apart has it; NULL: calls run here, too */
    Shared *shared;    /* NULL: nothing is begun elsewhere */
    bool first;        /* the outermost */
    int members;
    Member member[MOST];
} Map;

/* Never returns: the buffers of other streams are the parent's to write. */
static _Noreturn void work(const Map *m, int number, int to)
{
    FILE *out = fdopen(to, "wb");
    depth++;
    for (int k; out && (k = atomic_fetch_add(&m->shared->next, 1)) < m->n;) {
        atomic_store(&m->shared->at[number], k + 1);
        Written w = written_by(m->f, m->ctx, k);
        if (!w.bytes)
            break;
        fwrite(&(Head){k, w.n}, sizeof(Head), 1, out);
        fwrite(w.bytes, 1, w.n, out);
        fflush(out); /* the next call may end this process */
        free(w.bytes);
    }
    if (!out || fclose(out))
        _exit(1);
    leave_processor();
    _exit(0);
}

/* False: there is no process. */
static bool begin(Map *m)
{
    Member *one = &m->member[m->members];
    int end[2];
    if (pipe(end))
        return false;
    *one = (Member){.from = end[0], .err = m->died ? tmpfile() : NULL};
#ifdef __GLIBC__
    malloc_trim(0); /* what is free the process would copy, page by page, before it writes there */
#endif
    fflush(NULL); /* what exit() would write a second time */
    one->pid = arena_fork();
    if (one->pid == 0) {
        close(end[0]);
        if (one->err)
            dup2(fileno(one->err), STDERR_FILENO);
        work(m, m->members, end[1]);
    }
    close(end[1]);
#ifdef F_SETPIPE_SZ
    fcntl(end[0], F_SETPIPE_SZ, PIPE); /* results wait there while a call runs here */
#endif
    m->members += one->pid > 0;
    if (one->pid > 0)
        return true;
    close(end[0]);
    if (one->err)
        fclose(one->err);
    return false;
}

/* Begins processes for numbers that nobody has taken, but for as many as are taken here. */
static void begin_unused(Map *m, int here)
{
    while (m->members < MOST && m->n - atomic_load(&m->shared->next) > here &&
           m->members + here < m->n && take_processor())
        if (!begin(m)) {
            leave_processor();
            return;
        }
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

/* Takes numbers until there are none. */
static void call_next(Map *m)
{
    for (;;) {
        begin_unused(m, 1);
        const int k = atomic_fetch_add(&m->shared->next, 1);
        if (k >= m->n)
            return;
        call_here(m->f, m->ctx, k, m->a, &m->result[k]);
    }
}

/* A process has ended, or is waited for: its results, and how it ended, if not by return. */
static void hear(const Map *m, int number)
{
    const Member *one = &m->member[number];
    const int status = finish(one->from, one->pid, m->n, m->a, m->result);
    const int at = atomic_load(&m->shared->at[number]) - 1;
    if (status)
        leave_processor();
    if (status && m->died && at >= 0 && at < m->n && !m->result[at].bytes)
        m->died[at] = how_it_ended(status, one->err, m->a);
    if (one->err)
        fclose(one->err);
}

/* False: there is no memory to share. */
static bool start(Map *m)
{
    Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return false;
    m->shared = s;
    m->first = !outermost;
    s->unused = processors() - 1;
    if (m->first)
        outermost = s;
    memo_share();
    return true;
}

/* Of a map that all have left. */
static void end(Map *m)
{
    if (m->first)
        outermost = NULL;
    munmap(m->shared, sizeof *m->shared);
    m->shared = NULL;
}

/* Takes what is left to take, and waits for what others have taken. */
static void call_all(Map *m)
{
    if (!m->died)
        call_next(m);
    if (!m->died || !begin(m))
        leave_processor(); /* while others are waited for */
    if (m->died)
        begin_unused(m, 0);
    for (int k = 0; k < m->members; k++)
        hear(m, k);
    atomic_fetch_sub(&((Shared *)outermost)->unused, 1);
    if (m->first)
        cut |= atomic_load(&m->shared->next) >= STOPPED; /* by another process */
    end(m);
}

/* here: calls that are left to this process, at least. */
static Map *begin_map(int n, ParallelCall *f, void *ctx, int here, Arena *a)
{
    Map *m = NEW(a, Map);
    *m = (Map){.n = n, .f = f, .ctx = ctx, .a = a, .result = NEW_ARRAY(a, Written, n + 1)};
    if (!outermost && !depth)
        cut = false;
    if (n > 1 && (outermost || processors() > 1) && start(m))
        begin_unused(m, here);
    return m;
}

ParallelMap *parallel_begin(int n, ParallelCall *f, void *ctx, Arena *a)
{
    return begin_map(n, f, ctx, 0, a);
}

const Written *parallel_finish(ParallelMap *m)
{
    const bool first = m->shared ? m->first : !outermost && !depth;
    if (m->shared)
        call_all(m);
    for (int k = 0; k < m->n && !(first && cut); k++)
        if (!m->result[k].bytes)
            call_here(m->f, m->ctx, k, m->a, &m->result[k]);
    return m->result;
}

void parallel_drop(ParallelMap *m)
{
    for (int k = 0; k < m->members; k++) {
        const Member *one = &m->member[k];
        int status;
        kill(one->pid, SIGKILL);
        while (waitpid(one->pid, &status, 0) < 0 && errno == EINTR)
            ;
        close(one->from);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            leave_processor();
    }
    if (m->shared)
        end(m);
}

void parallel_map(int n, ParallelCall *f, void *ctx, Arena *a, Written *result)
{
    const Written *w = parallel_finish(begin_map(n, f, ctx, 1, a));
    if (n > 0)
        memcpy(result, w, (size_t)n * sizeof *w);
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
    Written *w = NEW_ARRAY(a, Written, r->n);
    const char **end = NEW_ARRAY(a, const char *, r->n);
    bool any = false;
    Map m = {.n = r->n, .f = call_rest, .ctx = r, .a = a, .result = w, .died = end};
    if (start(&m))
        call_all(&m);
    for (int k = 0; k < r->n; k++) {
        result[r->number[k]] = w[k];
        died[r->number[k]] = end[k];
        any |= w[k].bytes || end[k];
    }
    return any;
}

void parallel_apart(int n, ParallelCall *f, void *ctx, Arena *a, Written *result, const char **died)
{
    const bool first = !outermost && !depth;
    Rest r = {.f = f, .ctx = ctx, .number = NEW_ARRAY(a, int, n)};
    if (first)
        cut = false;
    for (int k = 0; k < n; k++) {
        result[k] = (Written){0};
        died[k] = NULL;
    }
    for (bool on = true; on && !(first && cut);) {
        r.n = 0;
        for (int k = 0; k < n; k++)
            if (!result[k].bytes && !died[k])
                r.number[r.n++] = k;
        on = r.n && pass_over(&r, a, result, died);
    }
}
