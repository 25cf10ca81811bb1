/* class.h - see class.c. */
#ifndef MGC_PLAN_CLASS_H
#define MGC_PLAN_CLASS_H

#include "plan/plan.h"

/* The classes of all actions by id, NULL for those without one; in `a`. */
const char **plan_classes(const Plan *p, Arena *a);

#endif
