/* network.h - where the ranks of a group are, and how long what they send takes; see network.c. */
#ifndef MGC_PLAN_NETWORK_H
#define MGC_PLAN_NETWORK_H

#include "plan/plan.h"

/* How many of the ranks along these axes are in one block of so many neighbours, that of rank 0:
 * ranks count with the last axis the fastest. Of a device's node: block node_ranks. */
int64_t network_block(const Module *m, Axes axes, int64_t block);
int64_t network_node(const Module *m, const Device *d, Axes axes);

/* Seconds until a neighbour along these axes has so many bytes; where some of the neighbours are in
 * another node, or another pod, of those, whom all wait for. */
double network_message(const Module *m, const Device *d, Axes axes, double bytes);

/* Seconds of a collective. */
double network_collective(const Module *m, const Device *d, const mg_comm_desc *c);

#endif
