/* whole.h - see whole.c. */
#ifndef MGC_PASSES_WHOLE_H
#define MGC_PASSES_WHOLE_H

#include "plan/plan.h"

enum { AXES_SETS = 16 };

/* Communication among the ranks along some axes: seconds of a step, and those of them in which
 * nothing else runs. */
typedef struct AxesTime {
    Axes axes;
    double seconds, exposed;
} AxesTime;

/* A step of all ranks of the mesh together; seconds, but for what is said. */
typedef struct Whole {
    double step;
    double bubble;            /* part of the step that ranks wait for other stages */
    int64_t microbatches;     /* of a rank */
    double forward, backward; /* of one microbatch */
    double before, after;     /* of the step, outside of the microbatches */
    double slower;            /* what `step` grows by if one rank computes a tenth slower */
    /* The step, where ranks are as slow as the device's are spread: in half of all meshes it takes
     * no longer than the first, in 19 of 20 than the second. 0: one rank, or no spread is known. */
    double half, most;
    AxesTime along[AXES_SETS]; /* in the order in which the step first uses them */
    int naxes;
} Whole;

/* After plan_timeline. Runs the timeline once more, of a copy. */
Whole plan_whole(const Plan *p);
/* The same without what a slower rank does, `slower`, `half` and `most`, which takes longer than
 * all the rest where a pipeline has many microbatches. */
Whole plan_parts(const Plan *p);
/* "2.1 s forward, 4.2 s backward; 8 microbatches, and 0.3 s outside of them" */
const char *whole_microbatches_text(const Whole *w, Arena *a);
/* "ranks differ by 1.5%: the slowest of 64 makes it 2.1 s, in one of 20 meshes 2.13 s"; of one with
 * `most`. */
const char *whole_stragglers_text(const Plan *p, const Whole *w, Arena *a);

#endif
