/* mutate.h - plans with one mistake in them, for the test of the proof. */
#ifndef MGC_TESTS_MUTATE_H
#define MGC_TESTS_MUTATE_H

#include "plan/plan.h"

/* A copy that can be changed without changing the plan; the module is shared. */
Plan *plan_copy(const Plan *p, Arena *a);

/* Changes one thing, drawn from the seed; says what in `what`. False: there is nothing of the kind
 * that was drawn. */
bool plan_mutate(Plan *p, uint64_t *seed, char *what, size_t size);

#endif
