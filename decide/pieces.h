/* pieces.h - into how many pieces collectives are cut with the products beside them. */
#ifndef MGC_DECIDE_PIECES_H
#define MGC_DECIDE_PIECES_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets Layout.pieces, and LayoutRule.blocks, of a module whose numbers have their types, if it has
 * a mesh and the device can compute while it sends. A number of pieces that is there is given. */
void pieces_choose(Module *m, const Device *d);

#endif
