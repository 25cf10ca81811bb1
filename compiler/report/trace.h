/* trace.h - the predicted timeline of one training step, slice by slice: see trace_walk.c. */
#ifndef MGC_TRACE_H
#define MGC_TRACE_H

#include "plan/plan.h"
#include "pipeline/pipeline.h"

typedef struct TraceSlice {
    const Action *action;  /* of a loop its ACT_loop; NULL: a phase or a message of a pipeline */
    const Loop *loop;      /* NULL: an action */
    int64_t iterations;    /* of a loop */
    bool rest;             /* of a loop or a pipeline: `iterations` that are not shown one by one */
    const PipeAction *of;  /* the phase, or the send or receive; NULL: neither */
    double begin, seconds; /* from the beginning of the step */
    int depth;             /* loops around */
    int rank;              /* the place along the axis of stages; 0 without a pipeline */
} TraceSlice;
typedef void TraceFn(void *ctx, const TraceSlice *s);

enum { TRACE_all = -1, TRACE_each = -2 };

/* How much of a step is told. */
typedef struct TraceScope {
    int rank; /* along the axis of stages; TRACE_all of them; of TRACE_each that differs one */
    int iterations; /* of a loop that are told one by one */
    int phases;     /* of a pipeline: phases and messages of all that are told, at most */
} TraceScope;
/* All ranks, four iterations of each loop, 65,536 phases. */
extern const TraceScope trace_all;

/* Tells each slice of the step; those of a rank on end, what is around others before them. */
void trace_walk(const Plan *p, TraceScope scope, TraceFn *tell, void *ctx);
/* Places along the axis of stages; 1 without a pipeline. */
int trace_ranks(const Plan *p);
/* One of them that does what most do: where there are three, the second, since the first and the
 * last may have tables alone. */
int trace_typical(const Plan *p);

/* Neighbours along the axis of stages that do the same, though at other times; one is told for all.
 */
typedef struct TraceAlike {
    int first, last, told;
} TraceAlike;
/* All of a step's, in the arena; returns how many. The typical rank is told of its own. */
int trace_alike(const Plan *p, Arena *a, TraceAlike **all);

/* A lane of the timeline: what runs one after the other. Each stream that is used is one, but
 * transfers have one for each level of memory that they come from or go to. */
typedef struct TraceLane {
    int stream;
    Level level; /* of transfers; else LEVEL_device */
} TraceLane;
typedef struct TraceLanes {
    int n;
    TraceLane lane[MAX_STREAMS * LEVEL_count];
} TraceLanes;
/* Those of the step, by stream, then by level. */
TraceLanes trace_lanes(const Plan *p);
int trace_lane_of(const TraceLanes *all, const Action *a);
/* "compute", "transfers in, from the host" */
const char *trace_lane_name(const TraceLane *l, Arena *a);

#endif
