/* vitals.h - what metrics.jsonl has beside the numbers of steps: how the run began and ended, the
 * memory in use, the waits of ranks. Watchers of a run read it (docs/watch.md). */
#ifndef MG_VITALS_H
#define MG_VITALS_H

#include "runtime/run.h"

typedef struct rt_vitals {
    int64_t waited[MG_RANKS_MAX]; /* ns, by rank, when the present span began */
    int64_t step;                 /* steps done then */
    int64_t measured;             /* ns: when memory was last measured, or 0 */
} rt_vitals;

/* The waits of ranks count from here on: after `step`. */
void rt_vitals_begin(rt_vitals *v, const mg_run *r, int64_t step);
/* Of a step's line, each with a comma before it: "wait_ms", milliseconds of a step in which a rank
 * waited for others, by rank of this machine, the mean of the span that ends here; and now and then
 * "memory_used". "" where there is neither. The caller frees it; the next span begins. */
char *rt_vitals_step(rt_vitals *v, const mg_run *r, int64_t step);
/* The lines of the beginning and the end; the caller frees them. why: "done", "stopped". */
char *rt_vitals_start(const mg_run *r, bool resumed);
char *rt_vitals_end(const mg_run *r, const char *why, double median_ms);

int64_t rt_parameters(const mg_run *r); /* how many numbers they are */

#endif
