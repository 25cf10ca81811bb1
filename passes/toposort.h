/* toposort.h - see toposort.c; private to passes/. */
#ifndef MGC_PASSES_TOPOSORT_H
#define MGC_PASSES_TOPOSORT_H

#include "ir/ir.h"

void toposort_region(Module *m, Region *r, Arena *tmp);
/* key: per instruction of the region; of those whose operands are there, the one with the least
 * comes first. */
void toposort_by(Module *m, Region *r, const int *key, Arena *tmp);

#endif
