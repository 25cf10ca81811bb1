/* wire_unit.h - processes that are ranks of a job and meet by TCP, for the tests of the wire. */
#ifndef RUNTIME_WIRE_UNIT_H
#define RUNTIME_WIRE_UNIT_H

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/net/wire.h"

/* Settings of a rank that is started; 0 or NULL stands for the default. */
typedef struct job {
    int size, port, generation;
    const char *host, *secret;
    uint64_t program;
    double limit;
    rt_launcher launcher;
} job;

typedef struct process {
    pid_t pid;
    int said; /* what it writes on its standard error */
} process;

#define SECRET "000102030405060708090a0b0c0d0e0f"

/* In a process of its own. */
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            dprintf(2, "line %d: not %s\n", __LINE__, #x);                                         \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

/* A port at which nobody listens, and which the system gives to nobody who only calls. */
static inline int unit_port(void)
{
    enum { FIRST = 20000, PORTS = 12000 };
    static int turn;
    for (;;) {
        int port = FIRST + ((int)getpid() * 31 + turn++) % PORTS;
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int s = socket(AF_INET, SOCK_STREAM, 0);
        bool is_free = bind(s, (struct sockaddr *)&a, sizeof a) == 0;
        close(s);
        if (is_free)
            return port;
    }
}

static inline void unit_setenv(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static inline rt_wire *unit_open(const job *j, int rank)
{
    static rt_world w;
    char port[16];
    w = (rt_world){.launcher = j->launcher ? j->launcher : RT_TORCHRUN,
                   .rank = rank,
                   .size = j->size,
                   .generation = j->generation,
                   .local_size = 1};
    snprintf(port, sizeof port, "%d", j->port);
    unit_setenv("MASTER_ADDR", j->host ? j->host : "127.0.0.1");
    unit_setenv("MGC_PORT", port);
    unit_setenv("MGC_SECRET", j->secret ? j->secret : SECRET);
    return rt_wire_open(&(rt_wire_terms){
        .world = &w, .gpus = true, .program = j->program, .limit = j->limit ? j->limit : 30});
}

/* A process that does something with its wire, and ends as a rank does. */
static inline process unit_rank(const job *j, int rank, void (*fn)(rt_wire *w, int rank, int size))
{
    process p;
    int pipe_of[2];
    assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
    fflush(NULL);
    p.pid = fork();
    if (!p.pid) {
        dup2(pipe_of[1], STDERR_FILENO);
        rt_speak_for(rank);
        rt_wire *w = unit_open(j, rank);
        if (fn)
            fn(w, rank, j->size);
        rt_wire_close(w, 0);
        _exit(0);
    }
    close(pipe_of[1]);
    p.said = pipe_of[0];
    return p;
}

/* A process's standard error, to be freed, and its exit status: a code, or 256 and a signal. */
static inline char *unit_said(process p, int *code)
{
    size_t n = 0;
    char *said = calloc(1, 1 << 16);
    for (ssize_t more; n < (1 << 16) - 1 && (more = read(p.said, said + n, (1 << 16) - 1 - n)) > 0;)
        n += (size_t)more;
    int status;
    assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
    close(p.said);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    return said;
}

static inline void unit_ends(process p, int code, const char *words)
{
    int found;
    char *said = unit_said(p, &found);
    if (found != code || (words ? !strstr(said, words) : *said))
        fail_msg("it ended with %d and '%s', and not with %d and '%s'", found, said, code,
                 words ? words : "");
    free(said);
}

/* All of them, of one job, which end well and say nothing. */
static inline void unit_job(const job *j, void (*fn)(rt_wire *w, int rank, int size))
{
    process p[64];
    for (int i = 0; i < j->size; i++)
        p[i] = unit_rank(j, i, fn);
    char *all = rt_printf("%s", "");
    for (int i = 0; i < j->size; i++) {
        int code;
        char *said = unit_said(p[i], &code), *more = all;
        all = code || *said ? rt_printf("%srank %d ended with %d: %s\n", all, i, code, said) : more;
        if (all != more)
            free(more);
        free(said);
    }
    if (*all)
        fail_msg("%s", all);
    free(all);
}

static inline void unit_wait(rt_wire *w, const rt_ticket *t)
{
    int peer;
    while (!rt_wire_done(w, t, &peer))
        continue;
}

#endif
