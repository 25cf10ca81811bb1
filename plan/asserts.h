/* asserts.h - see asserts.c. */
#ifndef MGC_PLAN_ASSERTS_H
#define MGC_PLAN_ASSERTS_H

#include "plan/plan.h"

/* False if the layout asserts a shorter step, told with what takes its time. */
bool plan_asserts(const Plan *p);

/* The actions that take most of a program, loops multiplied out, the first the longest; how many.
 */
typedef struct Costly {
    const Action *a;
    double times, seconds;
} Costly;
int plan_costliest(const Program *p, Costly *top, int limit);

#endif
