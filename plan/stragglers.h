/* stragglers.h - see stragglers.c. */
#ifndef MGC_PLAN_STRAGGLERS_H
#define MGC_PLAN_STRAGGLERS_H

#include <stdint.h>

/* By how many deviations the slowest of so many ranks is behind the mean, at most, in this part of
 * all meshes (between 0 and 1, exclusive). ranks: at least 1. */
double stragglers_slowest(int64_t ranks, double part);

#endif
