/* signals.c - SIGTERM, SIGHUP and the first SIGINT ask the run to save and stop; SIGUSR1 to save
 * and go on; a second SIGINT leaves at once. A handler only sets a flag, which the loop reads
 * between steps. The flags are the only mutable globals of the runtime: a handler has no argument.
 */
#include "runtime/run.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, save_signal;

static void on_stop(int number)
{
    if (number == SIGINT && stop_signal == SIGINT) {
        static const char text[] = "\nsecond interrupt: leaving without saving\n";
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        _exit(128 + SIGINT);
    }
    stop_signal = number;
}

static void on_save(int number)
{
    save_signal = number;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction now = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&now.sa_mask);
    /* What nohup or a shell told us to ignore stays ignored. */
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN && handler != SIG_IGN)
        return;
    sigaction(number, &now, NULL);
}

void rt_signals_catch(void)
{
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
    handle(SIGHUP, on_stop);
    handle(SIGUSR1, on_save);
    handle(SIGXFSZ, SIG_IGN); /* a file over the limit is a failed save, with a message */
    handle(SIGPIPE, SIG_IGN); /* a closed pipe on stdout must not end a training run */
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
