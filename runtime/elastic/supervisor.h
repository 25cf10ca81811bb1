/* supervisor.h - a process that starts the program, watches it, and starts it again when a rank is
 * gone or hangs: --max-restarts. It computes nothing, and shares nothing with the program but its
 * pulse (pulse.h). Private to this folder, but for rt_elastic.
 *
 * In a start without a launcher one supervisor has all ranks (alone.c). With torchrun's variables
 * each process that was started is the supervisor of one rank, a member (member.c), and a
 * coordinator lets the members' ranks begin together (coordinator.c). */
#ifndef MG_SUPERVISOR_H
#define MG_SUPERVISOR_H

#include <signal.h>
#include <sys/types.h>

#include "runtime/elastic/program.h"
#include "runtime/elastic/pulse.h"
#include "runtime/elastic/rule.h"

/* How the program ended. */
typedef struct rt_end {
    int code;       /* its exit code, or 128 + the signal that ended it */
    rt_outcome was; /* rule.h */
    int64_t step;   /* steps done, or RT_STEP_UNKNOWN */
    bool began;     /* see rt_pulse */
    int64_t clean;  /* see rt_pulse, */
    int accused;    /* likewise */
    char cause[RT_CAUSE];
} rt_end;

typedef struct rt_supervisor {
    mg_run *run;
    char **argv;
    char what[24]; /* it starts: "the program" or "rank 2" */
    rt_programs programs;
    int signals; /* descriptor of those that it takes */
    sigset_t before;
    int stop;          /* the signal that asked it to save and stop, or 0 */
    int64_t stop_by;   /* ns: --grace is over, or 0: no limit */
    bool overdue;      /* ... and the program was killed */
    pid_t child;       /* 0: none */
    pid_t coordinator; /* this member's (member.c); 0: none */
    pid_t keeper;      /* of in-memory checkpoints; 0: none */
    int keeper_door;   /* where it listens; -1: none */
    rt_keepers
        keepers; /* for the next program; of a member its own key alone, and those of others */
    int memory;
    rt_pulse *pulse;
    uint64_t beats;  /* last seen, */
    int64_t beat_ns; /* ... at that time */
} rt_supervisor;

/* The program that is to begin: of so many ranks, with these variables ("NAME=VALUE", NULL ends
 * them). */
typedef struct rt_start {
    int ranks;
    bool resumes; /* go on from the newest checkpoint, whatever the command line says */
    int restarts, restarts_max;
    int64_t died, until; /* until: go on from no checkpoint of a later step */
    const char *why;
    char *const *variables;
} rt_start;

void rt_supervisor_open(rt_supervisor *s);
void rt_supervisor_start(rt_supervisor *s, const rt_start *how);
/* Takes signals, passes them on, and looks at the program. True: it has ended, all of its processes
 * are gone, and *end says how. */
bool rt_supervisor_look(rt_supervisor *s, rt_end *end);
void rt_supervisor_kill(
    rt_supervisor *s); /* the program, at once; rt_supervisor_look tells of it */
/* Waits until there is a signal, or `fd` (-1: none) has `events`; at most ms. */
void rt_supervisor_wait(const rt_supervisor *s, int fd, short events, int ms);
/* The newest checkpoint of --out: "step 40"; the caller frees it. */
char *rt_newest_text(const mg_run *r);

/* In-memory checkpoints, if the options say so: opens the door of this supervisor's keeper, at an
 * address of this machine and any port, which it returns (0: none); rt_supervisor_look starts the
 * process, and again when it is gone. rt_keeper_end ends it, and with it the memory. */
union rt_address;
int rt_keeper_open(rt_supervisor *s, const union rt_address *near);
void rt_keeper_look(rt_supervisor *s);
void rt_keeper_end(rt_supervisor *s);

int rt_supervise_alone(rt_supervisor *s);  /* returns the exit code */
int rt_supervise_member(rt_supervisor *s); /* likewise */

/* Finds out whether this process is a supervisor, or has to become another program of this
 * executable. True: it was a supervisor, and ends with *code. */
bool rt_elastic(mg_run *r, char **argv, int *code);

#endif
