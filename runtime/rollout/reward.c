/* reward.c - the command of --reward: started once, a line of JSON in for each answer, a line with
 * a number out for each, in the same order.
 *
 * Both pipes are driven by one poll, so a command may read all lines before it writes one, or
 * answer each at once. A command that ends, writes something else, writes more lines than it was
 * asked, or says nothing for --reward-timeout seconds ends the run with a message that names the
 * line. Its standard error is that of the run. */
#include "runtime/rollout/rollout.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/json.h"

enum { LINE_MAX_BYTES = 1 << 16 };

struct rt_reward {
    const char *command;
    double timeout; /* seconds */
    pid_t pid;
    int in, out;
    char *got; /* bytes that are no whole line yet */
    size_t ngot;
    int64_t asked, answered; /* lines of the run */
};

static void pipe_of(int both[2])
{
    if (pipe2(both, O_CLOEXEC))
        rt_die(RT_IO, "--reward: a pipe: %s", strerror(errno));
}

/* The environment with PYTHONUNBUFFERED, so that a print of Python is not held back in a pipe. */
static char **unbuffered(void)
{
    static char set[] = "PYTHONUNBUFFERED=1";
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **all = rt_alloc(n + 2, sizeof *all);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], set, sizeof set - 2) != 0)
            all[kept++] = environ[i];
    all[kept] = set;
    return all;
}

rt_reward *rt_reward_start(const mg_run *r)
{
    rt_reward *w = rt_alloc(1, sizeof *w);
    char shell[] = "sh", option[] = "-c", *command = rt_printf("%s", r->options->reward);
    char *const argv[] = {shell, option, command, NULL};
    int to[2], from[2];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t defaults;
    w->command = r->options->reward;
    w->timeout = isnan(r->options->reward_timeout) ? 60 : r->options->reward_timeout;
    pipe_of(to);
    pipe_of(from);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, from[1], STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setpgroup(&attr, 0); /* ^C is the run's, which then ends it */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    char **variables = unbuffered();
    const int wrong = posix_spawn(&w->pid, "/bin/sh", &files, &attr, argv, variables);
    if (wrong)
        rt_die(RT_IO, "--reward '%s' does not start: %s", w->command, strerror(wrong));
    rt_ends_with_us(w->pid); /* it may wait for something, and read its input never again */
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    close(to[0]);
    close(from[1]);
    free(variables);
    free(command);
    w->in = to[1];
    w->out = from[0];
    fcntl(w->in, F_SETFL, O_NONBLOCK);
    fcntl(w->out, F_SETFL, O_NONBLOCK);
    return w;
}

static void stop(const rt_reward *w)
{
    kill(-w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
}

static _Noreturn void refuse(const rt_reward *w, const char *line, size_t n, const char *why)
{
    char *shown = rt_printf("%.*s", n > 100 ? 100 : (int)n, line);
    stop(w);
    rt_die(RT_BAD_DATA,
           "--reward '%s': line %" PRId64 " of its output, '%s', %s; each answer wants one line "
           "with one number, as 0.5",
           w->command, w->answered + 1, shown, why);
}

/* It closed its output: says how it ended. */
static _Noreturn void gone(const rt_reward *w)
{
    enum { TRIES = 100 };
    int status = 0, ended = 0;
    char *how = NULL;
    for (int i = 0; i < TRIES && !ended; i++) { /* its output may be closed a little before */
        ended = waitpid(w->pid, &status, WNOHANG) == w->pid;
        if (!ended)
            usleep(1000);
    }
    if (ended && WIFEXITED(status))
        how = rt_printf("ended with exit code %d", WEXITSTATUS(status));
    else if (ended && WIFSIGNALED(status))
        how =
            rt_printf("was ended by signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        how = rt_printf("closed its output");
    if (!ended)
        stop(w);
    rt_die(RT_FAILED,
           "--reward '%s' %s after %" PRId64 " of %" PRId64
           " answers; it is to read lines until its input ends, and its messages are above",
           w->command, how, w->answered, w->asked);
}

static _Noreturn void late(const rt_reward *w)
{
    stop(w);
    rt_die(RT_FAILED,
           "--reward '%s' gave no number for %g s, after %" PRId64 " of %" PRId64
           " answers; --reward-timeout gives it longer, and a command that keeps back what it "
           "writes has to flush after each line",
           w->command, w->timeout, w->answered, w->asked);
}

static double number_of(const rt_reward *w, const char *line, size_t n)
{
    rt_json j;
    double x = 0;
    rt_json_begin(&j, line, n);
    const bool good = rt_json_number(&j, &x) && rt_json_end(&j);
    if (!good)
        refuse(w, line, n, "is no number");
    rt_json_free(&j);
    if (!isfinite(x))
        refuse(w, line, n, "is not finite");
    return x;
}

/* Takes the whole lines out of what was read, at most `left` of them. */
static int64_t take(rt_reward *w, double *reward, int64_t left)
{
    int64_t n = 0;
    size_t at = 0;
    for (const char *end; (end = memchr(w->got + at, '\n', w->ngot - at)); n++) {
        const size_t size = (size_t)(end - w->got) - at;
        if (n == left)
            refuse(w, w->got + at, size, "is more than was asked for");
        reward[n] = number_of(w, w->got + at, size);
        w->answered++;
        at += size + 1;
    }
    memmove(w->got, w->got + at, w->ngot -= at);
    if (w->ngot > LINE_MAX_BYTES)
        refuse(w, w->got, w->ngot, "has no end");
    return n;
}

/* Reads what there is; true: something was. */
static bool read_some(rt_reward *w)
{
    char bytes[4096];
    const ssize_t n = read(w->out, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        gone(w);
    w->got = rt_grow(w->got, w->ngot + (size_t)n + 1, 1);
    memcpy(w->got + w->ngot, bytes, (size_t)n);
    w->ngot += (size_t)n;
    return true;
}

/* Writes what it takes of a text; that it reads no more is told by its output. */
static size_t write_some(const rt_reward *w, const char *text, size_t n)
{
    const ssize_t done = write(w->in, text, n);
    if (done < 0 && errno == EPIPE)
        return n;
    return done > 0 ? (size_t)done : 0;
}

bool rt_reward_ask(rt_reward *w, char *const *line, int64_t n, double *reward)
{
    enum { LOOK_MS = 100 }; /* between two looks for a signal */
    int64_t sent = 0, have = 0, heard = rt_now_ns();
    size_t at = 0;
    while (read_some(w)) /* what it wrote behind the last answers */
        take(w, reward, 0);
    if (w->ngot)
        refuse(w, w->got, w->ngot, "is more than was asked for");
    w->asked += n;
    while (have < n) {
        struct pollfd p[2] = {{.fd = w->out, .events = POLLIN},
                              {.fd = sent < n ? w->in : -1, .events = POLLOUT}};
        poll(p, 2, LOOK_MS);
        if (rt_signal_stop())
            return false;
        if (p[1].revents) {
            at += write_some(w, line[sent] + at, strlen(line[sent]) - at);
            if (!line[sent][at])
                sent++, at = 0;
        }
        if (p[0].revents && read_some(w)) {
            const int64_t got = take(w, reward + have, n - have);
            have += got;
            heard = got ? rt_now_ns() : heard;
        }
        if ((double)(rt_now_ns() - heard) > w->timeout * 1e9)
            late(w);
    }
    return true;
}

/* Lets it end: its input does. One that does not is killed. */
void rt_reward_end(rt_reward *w)
{
    enum { PATIENCE_MS = 2000 };
    if (!w)
        return;
    close(w->in);
    bool ended = false;
    for (int i = 0; i < PATIENCE_MS && !ended; i++) {
        ended = waitpid(w->pid, NULL, WNOHANG) != 0;
        if (!ended)
            usleep(1000);
    }
    if (!ended)
        stop(w);
    rt_ends_with_us(0);
    close(w->out);
    free(w->got);
    free(w);
}
