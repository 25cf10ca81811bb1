/* offload.h - what a layout that says `offload auto`, or nothing of it, offloads; see offload.c. */
#ifndef MGC_DECIDE_OFFLOAD_H
#define MGC_DECIDE_OFFLOAD_H

#include "decide/settled.h"

typedef struct OffloadFound {
    const KeepPlan *kept;   /* what decision frontier would find then; NULL: the default */
    const Settled *settled; /* what all later decisions would; NULL: they were not made */
    const char *missing;    /* what the nearest way lacks, if none fits; else NULL */
} OffloadFound;

/* Sets Layout.offload to the fastest way that fits the device; left as it is if none does, if the
 * layout leaves nothing open, or if it says nothing and the program fits. If it does not, that is
 * told. m is as it is behind pass precision, and else not changed. *found: in a. False: its `kept`
 * says nothing. */
bool offload_choose(Module *m, const Device *d, Arena *a, OffloadFound *found);

#endif
