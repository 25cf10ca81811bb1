/* recompute.h - what is known of a program before it is decided what it keeps. */
#ifndef MGC_PASSES_RECOMPUTE_H
#define MGC_PASSES_RECOMPUTE_H

#include "ir/ir.h"

/* What people call an instruction: a product after its parameter, others after their value. */
const char *ins_called(const Module *m, const Ins *i);

#endif
