/* module.c - the table of lib/mgc/libmgc_watch.so, and how it is ended; see module.h, ends.h. */
#include "compiler/watch/module.h"

#include <signal.h>

#include "compiler/watch/ends.h"
#include "compiler/watch/serve.h"
#include "compiler/watch/terminal.h"

static volatile sig_atomic_t ending;

static void end(int signal)
{
    (void)signal;
    ending = 1;
}

void ends_catch(void)
{
    const struct sigaction a = {.sa_handler = end}; /* calls that wait are interrupted */
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

bool ends_now(void)
{
    return ending;
}

extern const WatchModuleTable mgc_watch_module;
__attribute__((visibility("default")))
const WatchModuleTable mgc_watch_module = {MGC_VERSION, terminal_run, serve_run};
