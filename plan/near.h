/* near.h - near collectives: among ranks of one machine, where there are several machines.
 *
 * Collectives over the network leave the links within a machine idle, and the other way round. In
 * one stream a layer's exchange among eight neighbours would stand behind the gather of parameters
 * over thirty machines. On GPUs whose links are apart from the network those that stay within a
 * machine have a stream of their own: they run beside the others, and keep their order among
 * themselves. Each set of axes has one communicator, so one of a set is near if all are.
 * docs/gpu.md says why ranks cannot wait for each other for ever; check_near.c and check_streams.c
 * prove what that takes.
 */
#ifndef MGC_PLAN_NEAR_H
#define MGC_PLAN_NEAR_H

#include "plan/plan.h"

/* Is a collective near? After copies_choose and small_choose. */
bool near_is(const Module *m, const Device *d, const mg_comm_desc *c);

#endif
