/* tied.h - gradients of tables that are used at two ends of a pipeline; private to passes/. */
#ifndef MGC_PASSES_TIED_H
#define MGC_PASSES_TIED_H

#include "ir/ir.h"

/* Before the loop over microbatches is made: a gradient that is a sum of what two stages make
 * becomes two results of the function's body, the second one behind all others: by result of the
 * function its number from 1, or 0. */
uint32_t *tied_split(Module *m, Fn *fn, Arena *tmp);
/* Result k of the function by what the loop gives: both of those added up, at the builder's end.
 * other: as above; NULL: nothing was split. */
Value tied_sum(Builder *b, const Value *sums, const uint32_t *other, size_t k);

#endif
