/* chunks.h - how many positions of a linear recurrence are computed at once. */
#ifndef MGC_DECIDE_CHUNKS_H
#define MGC_DECIDE_CHUNKS_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets Layout.chunk of a module as it is before all passes, if it has a scan that can be computed
 * in chunks and the layout does not say. */
void chunks_choose(Module *m, const Device *d);

#endif
