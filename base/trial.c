/* trial.c - remedies are tried before they are told; see trial.h. */
#include "base/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIALS_MAX = 64 };
/* Of processors: how busy the machine is changes no message, as long as a trial has a fourth of
 * one. */
static const double seconds_max = 10, seconds_each = 4;
enum { BUSY = 4 };

/* The findings of one trial: until its end, or until its time was over. */
typedef struct Outcome {
    VEC(Found) errors;
    int stage; /* the last one that was reached */
    bool ended;
} Outcome;

typedef struct Trials {
    Arena *arena;
    const Diag *diag;
    TrialRun run;
    void *ctx;
    int made;
    double spent, waited; /* seconds of processors, and of the clock */
    bool began;
    Outcome without; /* what is found as it is */
} Trials;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* ---- the child ------------------------------------------------------------------------------- */

static void hand_on(void *ctx, const Found *f)
{
    int fd = *(const int *)ctx;
    if (write(fd, f, sizeof *f) != (ssize_t)sizeof *f)
        _exit(1);
}

static _Noreturn void child(const Trials *t, const Remedy *edits, int fd)
{
    int nowhere = open("/dev/null", O_RDWR);
    for (int k = 0; k < 3 && nowhere >= 0; k++)
        dup2(nowhere, k);
    signal(SIGABRT, SIG_DFL);
    const rlim_t most = (rlim_t)seconds_each;
    setrlimit(RLIMIT_CPU, &(struct rlimit){most, most + 1});
    Arena *a = arena_new();
    t->run(t->ctx, diag_trial(a, edits, hand_on, &fd), edits);
    hand_on(&fd, &(Found){0}); /* the end */
    _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

static void note(Trials *t, Outcome *o, const Found *f)
{
    if (f->code)
        vec_push(t->arena, &o->errors, *f);
    else if (f->stage)
        o->stage = f->stage;
    else
        o->ended = true;
}

/* All that comes until the end of it or of the time. */
static void listen(Trials *t, int fd, double until, Outcome *o)
{
    Found f;
    for (size_t have = 0;;) {
        double left = until - now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)(left * 1e3) + 1) < 0)
            return;
        if (!p.revents)
            continue;
        ssize_t n = read(fd, (char *)&f + have, sizeof f - have);
        if (n <= 0)
            return;
        have += (size_t)n;
        if (have < sizeof f)
            continue;
        have = 0;
        note(t, o, &f);
    }
}

/* False: there is no more time, or no process. */
static bool attempt(Trials *t, const Remedy *edits, Outcome *o)
{
    int fd[2];
    double begin = now();
    if (t->made++ >= TRIALS_MAX || t->spent >= seconds_max || t->waited >= BUSY * seconds_max ||
        pipe(fd))
        return false;
    pid_t pid = fork();
    if (!pid) {
        close(fd[0]);
        child(t, edits, fd[1]);
    }
    close(fd[1]);
    if (pid > 0) {
        double rest = seconds_max - t->waited / BUSY;
        struct rusage used = {0};
        listen(t, fd[0], begin + BUSY * (rest < seconds_each ? rest : seconds_each), o);
        kill(pid, SIGKILL);
        wait4(pid, NULL, 0, &used);
        t->spent += seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    }
    close(fd[0]);
    t->waited += now() - begin;
    return pid > 0;
}

/* The finding with its position in the text before the edits. */
static Found before(const Trials *t, const Remedy *r, Found f)
{
    int64_t longer = 0;
    for (int i = 0; i < r->n; i++) {
        const Edit *e = &r->edit[i];
        int64_t begin = e->at.begin + longer, size = (int64_t)strlen(e->with);
        if (!e->at.file || diag_found(t->diag, 0, e->at).file != f.file)
            continue;
        if (f.begin < begin)
            break;
        if (f.begin < begin + size) {
            f.begin = e->at.begin;
            return f;
        }
        longer += size - (int64_t)(e->at.end - e->at.begin);
    }
    f.begin = (uint32_t)(f.begin - longer);
    return f;
}

static bool same(Found a, Found b)
{
    return a.code == b.code && a.file == b.file && a.begin == b.begin;
}

static bool among(const Outcome *o, Found f)
{
    for (size_t i = 0; i < o->errors.n; i++)
        if (same(o->errors.data[i], f))
            return true;
    return false;
}

static bool works(void *ctx, const Remedy *r, int code, Span at)
{
    Trials *t = ctx;
    Found error = diag_found(t->diag, code, at);
    Outcome with = {0};
    if (!t->began) {
        t->began = true;
        attempt(t, &(Remedy){0}, &t->without);
    }
    if (!among(&t->without, error) || !attempt(t, r, &with))
        return false;
    for (size_t i = 0; i < with.errors.n; i++) {
        Found f = before(t, r, with.errors.data[i]);
        if (same(f, error) || !among(&t->without, f))
            return false;
    }
    return with.ended || with.stage > t->without.stage;
}

void trial_begin(Arena *a, Diag *d, TrialRun run, void *ctx)
{
    Trials *t = NEW(a, Trials);
    *t = (Trials){.arena = a, .diag = d, .run = run, .ctx = ctx};
    diag_on_remedy(d, works, t);
}
