/* held.h - see held.c. */
#ifndef MGC_PLAN_HELD_H
#define MGC_PLAN_HELD_H

#include "plan/plan.h"

typedef VEC(mg_held) HeldList;

/* Memory that a step has written before its guard and reads behind it, gradients above all. In `a`.
 */
HeldList plan_held(Arena *a, const Plan *p);

#endif
