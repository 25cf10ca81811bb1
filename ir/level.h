/* level.h - on which level of memory instructions compute. */
#ifndef MGC_IR_LEVEL_H
#define MGC_IR_LEVEL_H

#include "ir/ir.h"

/* The level on which a kernel runs: its results are there, and so are its operands (I14). */
static inline Level fused_level(const Module *m, const Ins *fused)
{
    return type_of(m, fused->out[0])->level;
}

#endif
