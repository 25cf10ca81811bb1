/* child.c - a function in a process of its own; see child.h. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

static _Noreturn void child(ChildRun run, void *ctx, int fd, pid_t parent)
{
    const int nowhere = open("/dev/null", O_RDWR);
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    signal(SIGPIPE, SIG_DFL);
    FILE *out = getppid() == parent ? fdopen(fd, "w") : NULL;
    if (!out || nowhere < 0)
        _exit(1);
    for (int k = 0; k < 3; k++)
        dup2(nowhere, k);
    run(ctx, out);
    _exit(fflush(out) ? 1 : 0);
}

bool child_start(Child *c, ChildRun run, void *ctx)
{
    int fd[2];
    const pid_t parent = getpid();
    *c = (Child){.fd = -1};
    if (pipe2(fd, O_CLOEXEC))
        return false;
    const pid_t pid = fork();
    if (!pid) {
        close(fd[0]);
        child(run, ctx, fd[1], parent);
    }
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return false;
    }
    setpgid(pid, pid); /* whoever comes first */
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    *c = (Child){pid, fd[0]};
    return true;
}

/* Those that were ended, and may not be gone yet: until then their numbers are nobody else's. */
static struct {
    pid_t pid[64];
    int n;
} ended;

static bool is_gone(pid_t pid, bool wait)
{
    pid_t said;
    while ((said = waitpid(pid, NULL, wait ? 0 : WNOHANG)) < 0 && errno == EINTR)
        ;
    return said != 0;
}

void child_reap(void)
{
    int n = 0;
    for (int i = 0; i < ended.n; i++)
        if (!is_gone(ended.pid[i], false))
            ended.pid[n++] = ended.pid[i];
    ended.n = n;
}

void child_end(Child *c)
{
    enum { MOST = sizeof ended.pid / sizeof *ended.pid };
    if (!c->pid)
        return;
    kill(-c->pid, SIGKILL);
    child_reap();
    if (ended.n == MOST && is_gone(ended.pid[0], true))
        ended.pid[0] = ended.pid[--ended.n];
    ended.pid[ended.n++] = c->pid;
    close(c->fd);
    *c = (Child){.fd = -1};
}
