/* offload.h - what a layout that says `offload auto` offloads; see offload.c. */
#ifndef MGC_DECIDE_OFFLOAD_H
#define MGC_DECIDE_OFFLOAD_H

#include "plan/plan.h"

/* Sets Layout.offload to the fastest way that fits the device; to nothing if none does, or if the
 * layout leaves nothing open. m is as it is behind pass precision, and else not changed. True:
 * *kept, in a, is what decision frontier would find then (NULL: the default). */
bool offload_choose(Module *m, const Device *d, Arena *a, const KeepPlan **kept);

#endif
