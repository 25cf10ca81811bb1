/* logits.h - how many logits a head computes at once. */
#ifndef MGC_DECIDE_LOGITS_H
#define MGC_DECIDE_LOGITS_H

#include "ir/ir.h"
#include "plan/plan.h"

/* Sets Layout.logits of a module that all passes have gone over, for a GPU whose program has a
 * head: the fastest that fits, of nearly as fast ones the smallest. It stays 0 where the planner's
 * default is that, or where nothing fits. */
void logits_choose(Module *m, const Device *d);

#endif
