/* place.h - where buffers lie in the arena; see place.c. */
#ifndef MGC_PLAN_PLACE_H
#define MGC_PLAN_PLACE_H

#include "plan/plan.h"

/* Sets every offset, arena_bytes and peaks, by the lifetimes of buffers. False: it does not fit,
 * told with the live tensors at the peak; the plan is placed all the same. */
bool plan_place(Plan *p);
/* Bytes that a plan may need: the device's memory, or the limit that the layout asserts. */
int64_t plan_budget(const Module *m, const Device *d);
/* Bytes that a plan needs: the arena, scratch space for each thread, and on a GPU what is taken
 * beside the arena (plan/outside.h). */
int64_t plan_bytes(const Plan *p);

#endif
