/* attend.h - how fast a GPU computes attention, by the class of its kernel; see attend.c. */
#ifndef MGC_PLAN_ATTEND_H
#define MGC_PLAN_ATTEND_H

#include "plan/plan.h"

/* FLOP/s of the attention of an action (or its gradient), of the FLOPs of the heads that the
 * program has; keys: twice those that a query sees on average. */
double attention_rate(const Device *d, const Train *t, const Action *a, double keys);
/* Is false, after an error, if a head is longer than a GPU's kernels take. Warns of attention that
 * takes the slow ones, with what that costs of a step. */
bool attention_built(const Plan *p);

#endif
