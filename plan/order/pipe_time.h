/* pipe_time.h - a pipeline as it will run: see pipe_time.c. */
#ifndef MGC_PASSES_PIPE_TIME_H
#define MGC_PASSES_PIPE_TIME_H

#include "plan/plan.h"
#include "pipeline/pipeline.h"

/* The table of a program that has a pipeline, run with what its phases and messages cost; seconds,
 * from the beginning of the loop over microbatches. In the arena; NULL: it cannot be run, which its
 * proof excludes. */
const PipeClock *pipe_run(const Plan *p, const Program *g, Arena *a);

/* A plan's pipeline, to be run with its layers cut otherwise: each takes what it takes in the plan,
 * and so does what is before them, behind them and outside of the loop over microbatches. After
 * plan_timeline, in a; NULL: there is no pipeline. */
typedef struct PipeCuts PipeCuts;
PipeCuts *pipe_cuts(const Plan *p, Arena *a);
/* Seconds of a step whose stages have so many layers; and of a microbatch on a rank. */
double pipe_cut_seconds(PipeCuts *c, const int64_t *layers);
double pipe_cut_work(const PipeCuts *c, const int64_t *layers, int rank);

/* Is an action done at place `at` of n: in the loop over microbatches stages, outside of it ranks?
 */
bool pipe_does(StageSet on, int at, int n);
/* Iterations of a loop that a stage does: of that over layers its share; none if nothing in it is
 * done there. */
int64_t pipe_iterations(const Plan *p, const Program *g, const Loop *l, int stage);
/* Seconds that an action of a phase adds to it. */
double pipe_adds(const Action *a);

#endif
