/* once.h - whether what an update gives of layers' parameters is gathered behind it, or by the next
 * step's first microbatch. */
#ifndef MGC_DECIDE_ONCE_H
#define MGC_DECIDE_ONCE_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets Layout.once, where the rules split state alone and plans with both say that the step is
 * faster. The module is as before pass `recompute`; what the backward part keeps is chosen. */
void once_choose(Module *m, const Device *d);

/* Has each phase of a pipeline's rounds the layers of one stage alone? Not where a gradient is made
 * in parts along an axis and gathered as a stack of all layers of a rank, behind the stage's own:
 * an axis that splits products by a rule, beside state and no sequences, has those. */
bool once_has_phases(const Module *m);

#endif
