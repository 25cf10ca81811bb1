/* network.h - where the ranks of a group are, and how long what they send takes; see network.c. */
#ifndef MGC_PLAN_NETWORK_H
#define MGC_PLAN_NETWORK_H

#include "plan/plan.h"

/* How many of the ranks along these axes are in one node of the device, that of rank 0. */
int64_t network_node(const Module *m, const Device *d, Axes axes);
/* Has every group along these axes all of its ranks in one node? */
bool network_within_node(const Module *m, const Device *d, Axes axes);

/* Seconds until a neighbour along these axes has so many bytes; where some of the neighbours are in
 * another node, or another pod, of those, whom all wait for. */
double network_message(const Module *m, const Device *d, Axes axes, double bytes);

/* Seconds of a collective. */
double network_collective(const Module *m, const Device *d, const mg_comm_desc *c);

#endif
