/* apart.h - along which axes of the mesh the largest number of ranks is found apart. */
#ifndef MGC_DECIDE_APART_H
#define MGC_DECIDE_APART_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets Axis.apart of the mesh's axes. */
void apart_choose(Module *m, const Device *d);

#endif
