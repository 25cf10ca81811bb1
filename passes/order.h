/* order.h - see order.c; private to passes/. */
#ifndef MGC_PASSES_ORDER_H
#define MGC_PASSES_ORDER_H

#include "ir/ir.h"

void order_region(Module *m, Region *r, Arena *tmp);

#endif
