/* convolution.h - how long a GPU computes a convolution; see convolution.c. */
#ifndef MGC_PLAN_CONVOLUTION_H
#define MGC_PLAN_CONVOLUTION_H

#include "plan/plan.h"

/* Seconds of an action that is a convolution on a GPU. */
double convolution_seconds(const Plan *p, const Action *a);

/* The same of a grouped product. */
double grouped_seconds(const Plan *p, const Action *a);

#endif
