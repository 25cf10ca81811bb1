/* casts.h - casts of what loops stack; private to passes/. */
#ifndef MGC_PASSES_CASTS_H
#define MGC_PASSES_CASTS_H

#include "ir/ir.h"

/* In a region and the regions in it: where a cast alone reads what a loop stacks, the loop stacks
 * casts, and the cast is gone. */
void casts_by_iterations(Module *m, Region *r, Arena *tmp);

#endif
