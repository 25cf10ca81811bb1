/* small.h - small collectives: the largest number of ranks, of which a scale of fp8 is made.
 *
 * A layer in fp8 waits for several of them, each of a few bytes. In one stream with all that is
 * sent, a number would stand behind the rows of experts, and what needs it would wait for those. On
 * GPUs they have a stream and communicators of their own. So they run beside any other collective,
 * and keep their order among themselves. docs/gpu.md says why ranks cannot wait for each other for
 * ever; check_small.c and check_streams.c prove what that takes. */
#ifndef MGC_PLAN_SMALL_H
#define MGC_PLAN_SMALL_H

#include "plan/plan.h"

/* Sets c->small where the device can have it so. After copies_choose. */
void small_choose(const Module *m, const Device *d, mg_comm_desc *c);

#endif
