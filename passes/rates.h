/* rates.h - see rates.c. */
#ifndef MGC_PASSES_RATES_H
#define MGC_PASSES_RATES_H

#include "ir/plan.h"

/* Of the actions [from, end): sets the seconds of products and collectives. What schedule.c set is
 * their roofline; doing it twice changes nothing. */
void rate_actions(const Plan *p, Program *g, int from, int end);
/* Of all programs, and the sums of their seconds. */
void plan_rates(Plan *p);

/* How many of the ranks along these axes are in one node, that of rank 0: ranks count with the last
 * axis the fastest, and a node has neighbours. */
int64_t rate_node_ranks(const Module *m, const Device *d, Axes axes);

#endif
