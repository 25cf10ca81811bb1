/* step_json.h - a step of training as pages draw it (timeline.js), and --plan=json has it. */
#ifndef MGC_STEP_JSON_H
#define MGC_STEP_JSON_H

#include <jansson.h>

#include "compiler/report/trace.h"

/* Adds to an object, seconds from the begin of the step:
 *   seconds  of the step
 *   kinds    names of kinds of actions, that with the most seconds first
 *   by_kind  [kind, seconds of a step]
 *   lanes    what runs one after the other: "compute", "collectives", ...
 *   actions  {name, kind, class, line, times, time, flops, bytes, backward, again, exposed}; class
 * 0 computes, 1 sends among ranks, 2 is a transfer between levels of memory; exposed: of one
 *            execution
 *   slices   [action, begin, seconds, lane, rank]
 *   loops    [name, begin, seconds, depth, iterations, rank, first, last]: loops, and phases of a
 *            pipeline (first -1); first and last of the plan's actions
 *   shown    iterations of a loop that have slices
 *   depth    of the loops
 *   typical  the rank that stands for most
 *   ranks    of a pipeline, neighbours that do the same: {name, first, last, rank: the one that is
 *            told where the scope has one of each, computes: its seconds in all microbatches}
 * and, if `places`, `at`: [begin, end] of each of the plan's actions on the first rank, of a loop's
 * begin and end of the whole loop; what never runs there has the time of what stands before it. */
void step_json(const Plan *p, TraceScope scope, bool places, Arena *a, json_t *to);

/* The file that most of the step comes from, of which each `line` is; 0: none. */
uint32_t step_source(const Plan *p);

#endif
