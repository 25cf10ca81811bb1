/* offload.h - what a layout that says `offload auto`, or nothing of it, offloads; see offload.c. */
#ifndef MGC_DECIDE_OFFLOAD_H
#define MGC_DECIDE_OFFLOAD_H

#include "plan/plan.h"

/* Sets Layout.offload to the fastest way that fits the device; left as it is if none does, if the
 * layout leaves nothing open, or if it says nothing and the program fits. If it does not, that is
 * told. m is as it is behind pass precision, and else not changed. True: *kept, in a, is what
 * decision frontier would find then (NULL: the default). missing, in a: what the nearest way lacks,
 * if none fits; else it is left as it is. */
bool offload_choose(Module *m, const Device *d, Arena *a, const KeepPlan **kept,
                    const char **missing);

#endif
