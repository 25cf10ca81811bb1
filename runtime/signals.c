/* signals.c - handles signals. SIGTERM, SIGHUP and the first SIGINT ask the run to save and stop;
 * SIGUSR1 asks it to save and go on; SIGUSR2 prints where the run is, also if it hangs; a second
 * SIGINT ends the process at once. The other handlers only set a flag, which the loop reads between
 * steps. A handler has no argument, so the flags and the run that they belong to are mutable
 * globals. */
#include "runtime/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, save_signal;
static const mg_run *volatile told_of;

static void on_stop(int number)
{
    if (number == SIGINT && stop_signal == SIGINT) {
        static const char text[] = "\nsecond interrupt: leaving without saving\n";
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        rt_end_group();
        _exit(128 + SIGINT);
    }
    stop_signal = number;
}

static void on_save(int number)
{
    save_signal = number;
}

/* A line of text, built by hand: a signal handler may not use stdio. */
typedef struct line {
    char text[400];
    size_t n;
} line;

static void add_text(line *l, const char *s)
{
    while (*s && l->n < sizeof l->text)
        l->text[l->n++] = *s++;
}

static void add_number(line *l, int64_t x)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + x % 10);
    while ((x /= 10) > 0 && n < 20);
    while (n && l->n < sizeof l->text)
        l->text[l->n++] = digits[--n];
}

static void on_where(int number)
{
    const mg_run *r = told_of;
    int saved = errno, action = r->action;
    line l = {.n = 0};
    struct timespec now;
    (void)number;
    if (r->ranks) {
        add_text(&l, "train: rank ");
        add_number(&l, r->rank);
    } else {
        add_text(&l, "train");
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec - r->step_began) / 1000000;
    if (!r->rank) { /* only the leader knows the step */
        add_text(&l, ": after step ");
        add_number(&l, r->state.step);
        add_text(&l, " of ");
        add_number(&l, r->lr.steps);
    }
    if (action >= 0 && action < r->program->nactions) {
        const mg_action *a = &r->program->actions[action];
        if (!r->rank) {
            add_text(&l, ", ");
            add_number(&l, ms);
            add_text(&l, " ms into the next, in action ");
        } else {
            add_text(&l, ": in action ");
        }
        add_number(&l, action);
        add_text(&l, ", ");
        add_text(&l, a->kind);
        add_text(&l, " ");
        add_text(&l, a->name);
        add_text(&l, " (");
        add_text(&l, a->where);
        add_text(&l, ")");
    } else {
        add_text(&l, r->rank ? ": between programs" : ", between steps");
    }
    l.n = l.n < sizeof l.text ? l.n : sizeof l.text - 1;
    l.text[l.n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, l.text, l.n);
    (void)ignored;
    errno = saved;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction now = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&now.sa_mask);
    /* A signal that nohup or a shell told us to ignore stays ignored. */
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN && handler != SIG_IGN)
        return;
    sigaction(number, &now, NULL);
}

void rt_signals_catch(const mg_run *r)
{
    told_of = r;
    handle(SIGUSR2, on_where);
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
    handle(SIGHUP, on_stop);
    handle(SIGUSR1, on_save);
    handle(SIGXFSZ, SIG_IGN); /* then a file over the limit is a failed save, with a message */
    handle(SIGPIPE, SIG_IGN); /* then a closed pipe on stdout does not end a training run */
}

void rt_signals_follow(const mg_run *r)
{
    static const int leaders[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    told_of = r;
    handle(SIGUSR2, on_where);
    for (size_t i = 0; i < sizeof leaders / sizeof *leaders; i++)
        signal(leaders[i], SIG_IGN);
    handle(SIGXFSZ, SIG_IGN);
    handle(SIGPIPE, SIG_IGN);
}

int rt_signal_stop(void)
{
    return stop_signal;
}

bool rt_signal_save(void)
{
    bool asked = save_signal;
    save_signal = 0;
    return asked;
}
