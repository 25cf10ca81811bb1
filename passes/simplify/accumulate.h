/* accumulate.h - sums that are made in place; private to passes/. */
#ifndef MGC_PASSES_ACCUMULATE_H
#define MGC_PASSES_ACCUMULATE_H

#include "ir/ir.h"

/* Makes g compute acc + g, without an addition of its own, by handing acc to what computes g: as
 * third operand of a product, as start of a loop's sum, as slices of what a loop stacks. False, and
 * nothing changed, where that is not possible. g is computed in region r, after acc; if acc is an
 * argument of r, or from outside, what g is the sum of is looked through as well. */
bool accumulate_into(Module *m, const Region *r, const Uses *uses, Value g, Value acc);

/* Is carried value k of a loop what it begins with and a sum, at which nothing else in the body
 * looks, before or after an iteration adds to it? Then any start may be added to. */
bool loop_adds(const Module *m, const Uses *uses, const Ins *loop, uint32_t k);

/* All additions of the backward part of a region and the regions in it; true if one was merged. */
bool accumulate_all(Module *m, Region *r, Arena *a);

#endif
