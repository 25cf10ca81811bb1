/* runner.h - a run of a plan's actions: private to run_plan.c and run_pipe.c. */
#ifndef MGC_TESTS_RUNNER_H
#define MGC_TESTS_RUNNER_H

#include "tests/passes/model.h"
#include "tests/plan/run_calls.h"
#include "tests/plan/run_plan.h"

typedef struct Runner {
    const Plan *p;
    const Program *prog;
    unsigned char *const *arenas; /* of each rank */
    int64_t ranks;
    unsigned char *arena;   /* of the rank that runs */
    const mg_pipe_op *op;   /* of a pipeline, which runs */
    const mg_pipe_op *pair; /* of whose two operations Pipe.join's actions are, while they run */
    int stage;              /* of a pipeline: along its axis, the one whose ranks run; -1: all do */
    int64_t *iteration;     /* per loop: its index now */
    KernelRun *kernel;
    void *ctx;
    uint64_t *order;
    struct Sent *sent; /* collectives in the queue: begun, not run */
    int nsent;
    int64_t begun, *number; /* how many; per action: which it was the last time */
    int64_t after;          /* what is put there next runs when those up to it are done */
    bool sooner;            /* some run sooner than they have to */
} Runner;

/* The place of a rank along the axis of a pipeline. */
int place_of(const Runner *r, int64_t rank);
void run_together(Runner *r, const Action *act);
bool run_one(Runner *r, const Action *act);
/* Actions [from, to) of several streams, in a random order that these allow. */
void run_disordered(Runner *r, int from, int to);
bool run_range(Runner *r, int from, int to);
/* run_pipe.c: all places along the axis of stages walk through the table. */
void run_pipe(Runner *r);

#endif
