/* context.h - along a dim that is split, whether keys go round a ring or heads are exchanged. */
#ifndef MGC_DECIDE_CONTEXT_H
#define MGC_DECIDE_CONTEXT_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets LayoutRule.ring or .heads of one axis of each rule for a dim that attention runs along,
 * where the layout leaves it open and heads could be exchanged: what plans with both say is faster.
 * The module is as before decision `turns`. */
void context_choose(Module *m, const Device *d);

#endif
