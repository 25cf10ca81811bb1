/* stacks.h - what is computed of stacks of loops is computed by their iterations; private to
 * passes/. */
#ifndef MGC_PASSES_STACKS_H
#define MGC_PASSES_STACKS_H

#include "ir/ir.h"

/* In a region and the regions in it: where a cast alone reads what a loop stacks, the loop stacks
 * casts, and the cast is gone. sums: so is the sum of what a loop stacks and what is there before
 * that loop, or stacked by it, too, if nothing else reads either. */
void stacks_by_iterations(Module *m, Region *r, bool sums, Arena *tmp);

#endif
