/* pulse.h - the memory that a program shares with its supervisor (supervisor.h): how far it has
 * come, what went wrong, and, of a program that was started again, why that was.
 *
 * The supervisor makes the memory anew for each start, and hands over its descriptor in
 * MGC_SUPERVISOR. The ranks that a program starts itself share it; its first process writes. */
#ifndef MG_PULSE_H
#define MG_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/keeper/keeper.h"

enum { RT_CAUSE = 512 };     /* bytes of a cause, with its end */
#define RT_STEP_UNKNOWN (-1) /* no step was told of */

typedef struct rt_pulse {
    char magic[8];
    _Atomic uint64_t beats; /* heartbeats of its first process */
    _Atomic int64_t step;   /* of the leader: steps done, or RT_STEP_UNKNOWN */
    _Atomic bool began;     /* the run's directory is this run's: a restart goes on from it */
    _Atomic int64_t clean;  /* ... the last step behind which --health found no wrong bit, or
                             * RT_STEP_UNKNOWN */
    _Atomic int accused;    /* the rank whose bits are wrong, or -1: none alone was named */
    _Atomic bool grows;     /* of the supervisor: end behind the next save, more ranks are there */
    _Atomic bool ends;      /* of the leader: it ended for that */
    atomic_flag writing;    /* a process writes `cause` */
    char cause[RT_CAUSE];   /* the last error message of any of its processes */
    /* Written before the start. */
    int restarts, restarts_max; /* this is restart number `restarts`, or 0: the first start */
    int64_t until;              /* go on from no checkpoint of a later step */
    int64_t died;               /* steps done when the start before ended */
    char why[RT_CAUSE];         /* why it ended */
    rt_keepers keepers;
} rt_pulse;

/* The supervisor: makes it; ends the program if there is no memory. The descriptor stays open over
 * exec. */
rt_pulse *rt_pulse_new(int *fd);
void rt_pulse_free(rt_pulse *p, int fd);

/* The program: that of its supervisor; NULL: it has none. From now on its errors are written
 * there. Ends the program if MGC_SUPERVISOR is not what a supervisor sets. */
rt_pulse *rt_pulse_find(void);

/* text.c: from now on the first line of each error is in at[0..size), too. */
void rt_errors_to(char *at, size_t size, atomic_flag *writing);

struct mg_run;
/* Of the leader: training begins, a step is done; the log says why the run was started again. */
void rt_pulse_begin(const struct mg_run *r);
/* Of a follower, before a step: the leader has begun. */
void rt_pulse_follow(const struct mg_run *r);
void rt_pulse_step(const struct mg_run *r);
/* Of the leader: wrong bits were looked for, and there are none; a rank whose bits are wrong, or -1
 * where it is not alone. */
void rt_pulse_clean(const struct mg_run *r);
void rt_pulse_accuse(const struct mg_run *r, int rank);
/* Of the leader, behind a save: true if it is to end now, so that more ranks can begin. */
bool rt_pulse_grows(const struct mg_run *r);
void rt_pulse_log(const struct mg_run *r);

#endif
