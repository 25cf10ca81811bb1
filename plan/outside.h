/* outside.h - the memory of a GPU that a program takes beside its arena; see outside.c. */
#ifndef MGC_PLAN_OUTSIDE_H
#define MGC_PLAN_OUTSIDE_H

#include "plan/plan.h"

/* Sets Plan.outside, from actions and tables; neither order nor places matter. */
void plan_outside(Plan *p);
/* Bytes of all items, for one rank. */
int64_t outside_bytes(const Plan *p);
/* Nodes of the graphs of program `number` (Plan.programs), on the rank that has most. */
int64_t outside_nodes(const Plan *p, int number);
/* The name of an item: "CUDA graphs". */
const char *outside_name(OutsideItem i);
/* All items, for a message: "644 MB the CUDA context, ...". In the arena; NULL: there are none. */
const char *outside_text(const Plan *p, Arena *a);

#endif
