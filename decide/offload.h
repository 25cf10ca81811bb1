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

/* ---- offload_text.c -------------------------------------------------------------------------- */

/* Tells what is offloaded where nothing was said, and the bytes that the plan needs without. */
void offload_tell(const Module *m, const Device *d, const Level level[OFFLOAD_count],
                  int64_t bytes);
/* Warns of each class that the layout names and of which there is nothing (MG0559). */
void offload_tell_empty(const Plan *p);
/* "offloaded it needs at least 9 bytes (9 B) of the device's 8 (8 B), ...", on each level. */
const char *offload_needs_text(const int64_t needs[LEVEL_count], const int64_t there[LEVEL_count],
                               Arena *a);

#endif
