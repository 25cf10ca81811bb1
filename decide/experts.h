/* experts.h - where grouped products meet: matrices are gathered, or rows are sent. */
#ifndef MGC_DECIDE_EXPERTS_H
#define MGC_DECIDE_EXPERTS_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets LayoutRule.rows or .gather of each rule for a dim of experts' matrices that says neither. */
void experts_choose(Module *m, const Device *device);

#endif
