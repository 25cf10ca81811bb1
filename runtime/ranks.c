/* ranks.c - see ranks.h. */
#include "runtime/ranks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, END = RT_PROGRAMS };

/* In shared memory. */
typedef struct control {
    int command; /* an rt_program, or END */
    bool agreed;
    int64_t groups;
    pthread_barrier_t barrier[]; /* per set of axes, per group */
} control;

struct rt_ranks {
    int n;
    char *arenas;
    control *shared;
    pid_t pid[MG_RANKS_MAX];
    int64_t *first; /* per set of axes: its first barrier */
    volatile sig_atomic_t ending;
};

static struct rt_ranks *told_of; /* a handler has no argument */

/* ---- the mesh -------------------------------------------------------------------------------- */

int rt_ranks_of(const mg_program *p, uint32_t axes)
{
    int64_t n = 1;
    for (int i = 0; i < p->naxes; i++)
        n *= axes >> i & 1 ? p->axes[i].size : 1;
    return (int)n;
}

/* A rank's place among those along some axes, the first the outermost. */
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

static uint32_t all_axes(const mg_program *p)
{
    return ((uint32_t)1 << p->naxes) - 1;
}

/* ---- meeting --------------------------------------------------------------------------------- */

void rt_meet(mg_run *r, uint32_t axes)
{
    const mg_program *p = r->program;
    const struct rt_ranks *k = r->ranks;
    axes &= all_axes(p);
    int group = rt_place_of(p, r->rank, all_axes(p) & ~axes);
    pthread_barrier_wait(&k->shared->barrier[k->first[axes] + group]);
}

static void make_barriers(struct rt_ranks *k, const mg_program *p)
{
    int64_t sets = (int64_t)1 << p->naxes, n = 0;
    k->first = rt_alloc((size_t)sets, sizeof *k->first);
    for (int64_t axes = 0; axes < sets; axes++) {
        k->first[axes] = n;
        n += k->n / rt_ranks_of(p, (uint32_t)axes);
    }
    size_t bytes = sizeof *k->shared + (size_t)n * sizeof *k->shared->barrier;
    k->shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k->shared == MAP_FAILED)
        rt_die(RT_FAILED, "no shared memory for %d ranks: %s", k->n, strerror(errno));
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    for (int64_t axes = 0; axes < sets; axes++) {
        int members = rt_ranks_of(p, (uint32_t)axes);
        for (int g = 0; g < k->n / members; g++)
            pthread_barrier_init(&k->shared->barrier[k->first[axes] + g], &shared,
                                 (unsigned)members);
    }
    pthread_barrierattr_destroy(&shared);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

/* With a page that may not be touched behind each. */
int64_t rt_arena_stride(const mg_program *p)
{
    return (p->arena_bytes + PAGE + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *rt_of_rank(const mg_run *r, const void *at, int rank)
{
    return (char *)(uintptr_t)at + (rank - r->rank) * rt_arena_stride(r->program);
}

static void map_arenas(struct rt_ranks *k, const mg_program *p)
{
    int64_t stride = rt_arena_stride(p), used = (p->arena_bytes + PAGE - 1) / PAGE * PAGE;
    size_t size = (size_t)(stride * k->n + HUGE_PAGE);
    char *base = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    k->arenas = (char *)(((uintptr_t)base + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    for (int i = 0; i < k->n; i++)
        if (base == MAP_FAILED ||
            mprotect(k->arenas + i * stride, (size_t)used, PROT_READ | PROT_WRITE))
            rt_die(RT_FAILED, "the arenas of %d ranks could not be mapped: %s", k->n,
                   strerror(errno));
}

/* ---- followers ------------------------------------------------------------------------------- */

static _Noreturn void follow(mg_run *r)
{
    void (*const program[])(mg_run *) = {r->step, r->eval, r->sample};
    r->pool = rt_pool_new(r->threads, false);
    rt_arena_map(r);
    for (;;) {
        rt_meet(r, RT_ALL_AXES);
        int command = r->ranks->shared->command;
        if (command == END)
            _exit(RT_DONE);
        program[command](r);
        rt_meet(r, RT_ALL_AXES);
    }
}

static void say(const char *s)
{
    ssize_t ignored = write(STDERR_FILENO, s, strlen(s));
    (void)ignored;
}

/* A rank is gone that nobody sent home: the others wait for it in vain. */
static void on_child(int number)
{
    const struct rt_ranks *k = told_of;
    int status;
    (void)number;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 1; i < k->n && !k->ending; i++) {
            if (k->pid[i] != pid)
                continue;
            char digits[] = {(char)('0' + i / 100), (char)('0' + i / 10 % 10), (char)('0' + i % 10),
                             0};
            say("train: error: rank ");
            say(digits + (i < 10 ? 2 : i < 100 ? 1 : 0));
            say(" is gone: all ranks end here\n");
            _exit(RT_LOST);
        }
}

void rt_ranks_start(mg_run *r)
{
    const mg_program *p = r->program;
    int n = rt_ranks_of(p, RT_ALL_AXES);
    if (n == 1)
        return;
    struct rt_ranks *k = r->ranks = rt_alloc(1, sizeof *k);
    pid_t leader = getpid();
    k->n = n;
    told_of = k;
    map_arenas(k, p);
    make_barriers(k, p);
    struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigemptyset(&child.sa_mask);
    sigaction(SIGCHLD, &child, NULL);
    fflush(NULL);
    for (int i = 1; i < n; i++) {
        k->pid[i] = fork();
        if (k->pid[i] < 0)
            rt_die(RT_FAILED, "rank %d could not be started: %s", i, strerror(errno));
        if (k->pid[i])
            continue;
        /* Signals that ask to stop are for the leader, whose end is that of all. */
        signal(SIGCHLD, SIG_DFL);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        signal(SIGUSR1, SIG_IGN);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != leader)
            _exit(RT_LOST);
        r->rank = i;
        follow(r);
    }
}

/* ---- the leader ------------------------------------------------------------------------------ */

static void command(mg_run *r, int what)
{
    r->ranks->shared->command = what;
    rt_meet(r, RT_ALL_AXES);
}

void rt_ranks_run(mg_run *r, rt_program which)
{
    void (*const program[])(mg_run *) = {r->step, r->eval, r->sample};
    command(r, which);
    program[which](r);
    rt_meet(r, RT_ALL_AXES);
}

void rt_ranks_end(mg_run *r)
{
    struct rt_ranks *k = r->ranks;
    if (!k || r->rank)
        return;
    k->ending = true;
    command(r, END);
    for (int i = 1; i < k->n; i++)
        while (waitpid(k->pid[i], NULL, 0) < 0 && errno == EINTR)
            ;
    free(k->first);
    free(k);
    r->ranks = NULL;
}

bool rt_ranks_agree(mg_run *r, bool mine)
{
    if (!r->rank)
        r->ranks->shared->agreed = mine;
    rt_meet(r, RT_ALL_AXES);
    bool agreed = r->ranks->shared->agreed;
    rt_meet(r, RT_ALL_AXES); /* it is not written again before all have read it */
    return agreed;
}

char *rt_ranks_arena(const mg_run *r)
{
    return r->ranks->arenas + r->rank * rt_arena_stride(r->program);
}
