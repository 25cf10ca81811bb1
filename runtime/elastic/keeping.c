/* keeping.c - the keeper of a supervisor: a process that outlives the program (keeper/keeper.h). */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/elastic/supervisor.h"
#include "runtime/net/wire_tcp.h"

static bool are_wanted(const rt_supervisor *s)
{
    const rt_every *e = &s->run->options->memory_save_every;
    return e->steps || e->seconds > 0;
}

static void start(rt_supervisor *s)
{
    const pid_t self = getpid();
    fflush(NULL);
    s->keeper = fork();
    if (s->keeper < 0)
        rt_die(RT_FAILED, "the process of in-memory checkpoints could not be started: %s",
               strerror(errno));
    if (s->keeper)
        return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != self)
        _exit(RT_LOST);
    rt_keeper_run(s->keeper_door, s->keepers.key);
}

int rt_keeper_open(rt_supervisor *s, const rt_address *near)
{
    rt_doors d = {0};
    if (!are_wanted(s) || s->keeper_door >= 0)
        return 0;
    const rt_spot at = rt_doors_open(&d, near);
    s->keeper_door = d.fd[0];
    start(s);
    return (int)at.port;
}

void rt_keeper_look(rt_supervisor *s)
{
    int status;
    if (s->keeper_door < 0 || waitpid(s->keeper, &status, WNOHANG) != s->keeper)
        return;
    rt_warn("the process that had in-memory checkpoints is gone (%s): another one has none yet",
            WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended");
    start(s);
}

void rt_keeper_end(rt_supervisor *s)
{
    if (s->keeper_door < 0)
        return;
    kill(s->keeper, SIGKILL);
    while (waitpid(s->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    close(s->keeper_door);
    s->keeper_door = -1;
}
