/* times.h - see times.c. */
#ifndef MGC_PLAN_TIMES_H
#define MGC_PLAN_TIMES_H

#include "plan/plan.h"

/* Sets how often each action is executed. */
void plan_times(Plan *p);

#endif
