/* toposort.h - see order.c; private to passes/. */
#ifndef MGC_PASSES_TOPOSORT_H
#define MGC_PASSES_TOPOSORT_H

#include "ir/ir.h"

void toposort_region(Module *m, Region *r, Arena *tmp);

#endif
