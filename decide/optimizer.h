/* optimizer.h - where kernels run that update what is on the host of a GPU. */
#ifndef MGC_DECIDE_OPTIMIZER_H
#define MGC_DECIDE_OPTIMIZER_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets Layout.optimizer of a module whose kernels are made, where the layout leaves it open: what
 * plans with both say is faster; on the device, where nothing could run on the host. */
void optimizer_choose(Module *m, const Device *d);

/* The same for plans that other decisions compare, by bytes and rates alone: the host, where an
 * update takes less time there than transfers of what it reads and writes. */
OptimizerAt optimizer_guess(const Module *m, const Device *d);

#endif
