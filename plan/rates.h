/* rates.h - see rates.c. */
#ifndef MGC_PASSES_RATES_H
#define MGC_PASSES_RATES_H

#include "plan/plan.h"

/* Prices the plan: sets the seconds of collectives, and on GPUs of products (all others' are their
 * roofline, which schedule.c set), and the sums of all seconds of each program. Twice is as once.
 */
void plan_rates(Plan *p);

/* How many of the ranks along these axes are in one node, that of rank 0: ranks count with the last
 * axis the fastest, and a node has neighbours. */
int64_t rate_node_ranks(const Module *m, const Device *d, Axes axes);
/* Seconds until a neighbour along these axes has so many bytes; where some of the neighbours are in
 * another node, of those, whom all wait for. */
double rate_message(const Module *m, const Device *d, Axes axes, double bytes);

/* Seconds of a collective. */
double rate_collective(const Module *m, const Device *d, const mg_comm_desc *c);

/* Bytes of the logits of a row of a head. */
int64_t rate_logits(const mg_head_desc *h);

#endif
