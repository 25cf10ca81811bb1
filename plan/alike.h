/* alike.h - see alike.c. */
#ifndef MGC_PLAN_ALIKE_H
#define MGC_PLAN_ALIKE_H

#include "plan/plan.h"

/* By Action.id: does it make the same on all ranks along the batch's axes, if they have the same
 * rows there, and are told the same place along these axes? False for all that is not of the step,
 * or not before its guard; NULL: no axis of the batch has ranks. In `a`. */
bool *plan_alike(Arena *a, const Plan *p);

#endif
