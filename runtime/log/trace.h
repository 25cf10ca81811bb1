/* trace.h - the records of --trace, and how they are written; shared by trace.c, trace_write.c and
 * commands.c. */
#ifndef MG_TRACE_H
#define MG_TRACE_H

#include "runtime/run.h"

enum { RT_EVENT_STEP = -1, RT_EVENT_PHASE = -2 }; /* values of `action` that are not actions */

typedef struct rt_event {
    int64_t begin, end, step; /* ns of the rank's own clock */
    int32_t action;           /* in mg_program.actions; a message also has `kind` set */
    int32_t microbatch;
    uint16_t stage;
    uint8_t kind, of; /* of a pipeline operation: mg_pipe_op.step and .of; else 0 */
    uint8_t lane;     /* 1 + the way (transfers.h) of a transfer that ran beside the rest; else 0 */
    float at, lasts;  /* of a phase, as predicted: us from the beginning of its step */
} rt_event;

/* The offset of a rank's clock from the clock of rank 0, at one time. */
typedef struct rt_clock {
    int64_t at;    /* time on rank 0's clock, ns */
    int64_t ahead; /* the rank's clock minus rank 0's clock, ns, to within `error` */
    int64_t error;
} rt_clock;

/* The record of a rank. */
typedef struct rt_record {
    rt_event *event; /* owned */
    int64_t n, left_out;
    rt_clock clock[2]; /* before the first traced step and after the last; unused for rank 0 */
} rt_record;

int64_t rt_trace_now(const rt_trace *t); /* ns: the clock of events */
rt_record *rt_trace_record(rt_trace *t);
/* A transfer of the step that is over: ns of rt_now_ns. */
void rt_trace_transfer(rt_trace *t, int way, int action, int64_t begin, int64_t end);

/* commands.c: asks another rank for its clock, or for its record, which that rank then frees; the
 * caller owns the events. */
rt_clock rt_ranks_clock(mg_run *r, int rank);
rt_record rt_ranks_record(mg_run *r, int rank);

/* trace_write.c: is it what the thread that computes does for a transfer that runs beside it: to
 * begin it, and to wait for it? */
bool rt_trace_waits(const mg_program *p, const rt_event *e);
/* Write the head, then each rank from 0 on, then the tail into an open file. Times
 * are relative to `origin`, ns of rank 0's clock. */
void rt_trace_head(FILE *f, int ranks);
void rt_trace_rank(FILE *f, const mg_program *p, int rank, const rt_record *of, int64_t origin);
void rt_trace_tail(FILE *f);

#endif
