/* supervisor.c - starts the program, passes signals on to it, and sees how it ends; see
 * supervisor.h.
 *
 * Processes that lose their parent become the supervisor's own. So it knows when all ranks of the
 * program are gone: only then are their memory, their GPUs and the lock of --out free. */
#include "runtime/elastic/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECOND_MS = 1000, SWEEP_MS = 2000, NAP_MS = 5 };
#define MS ((int64_t)1000000)

static const int taken[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

void rt_supervisor_open(rt_supervisor *s)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct sigaction now;
        if (taken[i] != SIGCHLD && sigaction(taken[i], NULL, &now) == 0 &&
            now.sa_handler == SIG_IGN)
            continue; /* as nohup told it */
        sigaddset(&set, taken[i]);
    }
    sigprocmask(SIG_BLOCK, &set, &s->before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);
    if (s->signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1))
        rt_die(RT_FAILED, "the program cannot be supervised: %s", strerror(errno));
}

/* ---- the start ------------------------------------------------------------------------------- */

/* The command line, with --resume=auto at its end if `resumes`. */
static char **command(const rt_supervisor *s, bool resumes)
{
    int n = 0;
    while (s->argv[n])
        n++;
    char **argv = rt_alloc((size_t)n + 2, sizeof *argv);
    memcpy(argv, s->argv, (size_t)n * sizeof *argv);
    if (resumes)
        argv[n] = rt_printf("--resume=auto");
    return argv;
}

static _Noreturn void become(const rt_supervisor *s, const rt_start *how, pid_t parent)
{
    /* Ranks that other ranks wait for end with their supervisor; one that has all of them saves. */
    prctl(PR_SET_PDEATHSIG, how->variables ? SIGKILL : SIGTERM);
    if (getppid() != parent)
        _exit(RT_LOST);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    char *fd = rt_printf("%d", s->memory);
    setenv("MGC_SUPERVISOR", fd, 1);
    for (int i = 0; how->variables && how->variables[i]; i++)
        putenv(how->variables[i]);
    rt_programs_become(&s->programs, how->ranks, command(s, how->resumes));
}

void rt_supervisor_start(rt_supervisor *s, const rt_start *how)
{
    const pid_t self = getpid();
    if (s->pulse)
        rt_pulse_free(s->pulse, s->memory);
    s->pulse = rt_pulse_new(&s->memory);
    s->pulse->restarts = how->restarts;
    s->pulse->restarts_max = how->restarts_max;
    s->pulse->died = how->died;
    s->pulse->until = how->until;
    s->pulse->keepers = s->keepers;
    snprintf(s->pulse->why, sizeof s->pulse->why, "%s", how->why ? how->why : "");
    s->beats = 0;
    s->beat_ns = rt_now_ns();
    fflush(NULL);
    s->child = fork();
    if (s->child < 0)
        rt_die(RT_FAILED, "the program could not be started: %s", strerror(errno));
    if (!s->child)
        become(s, how, self);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void obey(rt_supervisor *s, const struct signalfd_siginfo *i)
{
    const int number = (int)i->ssi_signo;
    const int64_t grace = s->run->options->grace;
    /* A terminal has sent it to the program as well, for which a second one means more. */
    const bool of_terminal = i->ssi_code == SI_KERNEL;
    if (s->child && !of_terminal)
        kill(s->child, number);
    if (number == SIGUSR1 || number == SIGUSR2)
        return;
    if (!s->stop && grace != RT_UNSET)
        s->stop_by = rt_now_ns() + grace * SECOND_MS * MS;
    s->stop = number;
}

static void take_signals(rt_supervisor *s)
{
    struct signalfd_siginfo i;
    while (read(s->signals, &i, sizeof i) == sizeof i)
        if (i.ssi_signo != SIGCHLD)
            obey(s, &i);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Looks at the processes that are this one's own, but for coordinator and keeper: the number of
 * those that have not ended. */
static int children_left(const rt_supervisor *s, bool end)
{
    char *path = rt_printf("/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    int left = 0;
    for (int pid; f && fscanf(f, "%d", &pid) == 1;) {
        if (pid == s->coordinator || pid == s->keeper)
            continue;
        if (end)
            kill(pid, SIGKILL);
        left += waitpid(pid, NULL, WNOHANG) == 0;
    }
    if (f)
        fclose(f);
    free(path);
    return left;
}

/* Waits for what the program left: its ranks end with it, other commands get some time. */
static void sweep(const rt_supervisor *s)
{
    const int64_t began = rt_now_ns();
    while (children_left(s, s->overdue || rt_now_ns() - began > SWEEP_MS * MS))
        poll(NULL, 0, NAP_MS);
}

void rt_supervisor_kill(rt_supervisor *s)
{
    if (s->child)
        kill(s->child, SIGKILL);
}

static void note(rt_supervisor *s, const char *text)
{
    if (!*s->pulse->cause)
        snprintf(s->pulse->cause, sizeof s->pulse->cause, "%s", text);
}

/* Kills a program whose first process does not run: other ranks find that out by themselves, as far
 * as they are on its machine. */
static void look_at_pulse(rt_supervisor *s)
{
    enum { LATER = 2 };
    const int64_t limit = s->run->options->hang_after, now = rt_now_ns();
    const uint64_t beats = s->pulse->beats;
    if (beats != s->beats) {
        s->beats = beats;
        s->beat_ns = now;
        return;
    }
    if (!limit || now - s->beat_ns < (limit + limit / 4 + LATER) * SECOND_MS * MS)
        return;
    char *text = rt_printf("%s hangs: its process has not run for %lld s", s->what,
                           (long long)((now - s->beat_ns) / (SECOND_MS * MS)));
    note(s, text);
    free(text);
    rt_supervisor_kill(s);
}

static void judge(const rt_supervisor *s, int status, rt_end *e)
{
    const bool by_signal = WIFSIGNALED(status);
    *e = (rt_end){.code = by_signal ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                  .step = s->pulse->step,
                  .began = s->pulse->began,
                  .clean = s->pulse->clean,
                  .accused = s->pulse->accused};
    e->was = rt_outcome_of(e->code, by_signal);
    if (e->was == RT_ENDED_STOPPED && s->pulse->ends && !s->stop)
        e->was = RT_ENDED_TO_GROW;
    if (by_signal && s->stop && WTERMSIG(status) == s->stop) { /* before it could save */
        e->was = RT_ENDED_STOPPED;
        e->code = RT_STOPPED;
    }
    s->pulse->cause[RT_CAUSE - 1] = 0;
    snprintf(e->cause, sizeof e->cause, "%s", s->pulse->cause);
    if (*e->cause)
        return;
    if (by_signal)
        snprintf(e->cause, sizeof e->cause, "%s was ended by signal %d (%s)", s->what,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(e->cause, sizeof e->cause, "%s ended with %d", s->what, e->code);
}

bool rt_supervisor_look(rt_supervisor *s, rt_end *end)
{
    int status;
    take_signals(s);
    rt_keeper_look(s);
    if (!s->child)
        return false;
    if (s->stop_by && rt_now_ns() >= s->stop_by && !s->overdue) {
        s->overdue = true;
        rt_supervisor_kill(s);
    }
    look_at_pulse(s);
    if (waitpid(s->child, &status, WNOHANG) != s->child)
        return false;
    s->child = 0;
    sweep(s);
    take_signals(s);
    judge(s, status, end);
    return true;
}

void rt_supervisor_wait(const rt_supervisor *s, int fd, short events, int ms)
{
    struct pollfd p[2] = {{s->signals, POLLIN, 0}, {fd, events, 0}};
    poll(p, 2, ms);
}

char *rt_newest_text(const mg_run *r)
{
    int64_t *step = rt_checkpoint_list(r->options->out);
    char *text = step[0] < 0 ? rt_printf("the beginning, for there is no checkpoint yet")
                             : rt_printf("step %lld", (long long)step[0]);
    free(step);
    return text;
}
