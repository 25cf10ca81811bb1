/* trace.h - what is recorded for --trace, and how it is written; shared by trace.c, trace_write.c
 * and orders.c. */
#ifndef MG_TRACE_H
#define MG_TRACE_H

#include "runtime/run.h"

enum { RT_EVENT_STEP = -1, RT_EVENT_PHASE = -2 }; /* instead of an action */

typedef struct rt_event {
    int64_t begin, end, step; /* ns of the rank's own clock */
    int32_t action;           /* in mg_program.actions; a message's has `kind` set, too */
    int32_t microbatch;
    uint16_t stage;
    uint8_t kind, of; /* of a pipeline's operation: mg_pipe_op.step and .of; else 0 */
    float at, lasts;  /* a phase, as it is predicted: us from the beginning of its step */
} rt_event;

/* A rank's clock beside that of rank 0, at one time. */
typedef struct rt_clock {
    int64_t at;    /* of rank 0's clock, ns */
    int64_t ahead; /* the other's less rank 0's, ns, give or take `error` */
    int64_t error;
} rt_clock;

/* What a rank has recorded. */
typedef struct rt_record {
    rt_event *event; /* owned */
    int64_t n, left_out;
    rt_clock clock[2]; /* before the first traced step and after the last; of rank 0 nothing */
} rt_record;

int64_t rt_trace_now(const rt_trace *t); /* ns: the clock that events have */
rt_record *rt_trace_record(rt_trace *t);

/* orders.c: asks another rank for its clock, or for what it has recorded, which it then forgets;
 * events are the caller's. */
rt_clock rt_ranks_clock(mg_run *r, int rank);
rt_record rt_ranks_record(mg_run *r, int rank);

/* trace_write.c: one rank after another, from 0 on, into a file that is open. Times are told from
 * `origin` on, ns of rank 0's clock. */
void rt_trace_head(FILE *f, int ranks);
void rt_trace_rank(FILE *f, const mg_program *p, int rank, const rt_record *of, int64_t origin);
void rt_trace_tail(FILE *f);

#endif
