/* gradient.h - the differentiator's two halves: which values matter, and what is kept for them.
 * Private to differentiate.c, activity.c and keep.c. */
#ifndef MGC_PASSES_GRADIENT_H
#define MGC_PASSES_GRADIENT_H

#include "ir/ir.h"

/* Is this argument a parameter that the loss of a goal changes? */
bool activity_learns(const Module *m, FnArg a, int goal);
/* For each value: is it a float that depends on a parameter of the goal in a way that has a
 * derivative? Only such values have cotangents. */
bool *activity_varied(const Module *m, const Fn *fn, int goal, Arena *a);

/* Finds the carried values of a loop that have a cotangent: they are varied, and lead to a result
 * of the body that has one. known[i]: result i of the loop has a cotangent. Fills
 * active[0..carried). */
void activity_carried(const Module *m, const Ins *loop, const bool *varied, const bool *known,
                      bool *active, Arena *a);

/* Depends on nothing but constants and positions: computed again rather than kept, wherever. */
bool *activity_leaf(const Module *m, const Region *r, Arena *a);

/* A parameter's rounded copy, a slice or a view of it: its cotangent is the parameter's, in f32. */
bool *activity_exact(const Module *m, const Region *r, Arena *a);

/* Computes large cheap values again in the backward part of a function (from instruction `split`
 * on) where that keeps nothing alive that would not be alive without. */
void keep_less(Module *m, Region *r, size_t split, Arena *a);

/* x + y without an addition: both are joins, and each part of the result is zero in one of them. 0
 * if that is not so. */
Value join_added(Builder *b, Value x, Value y, Arena *tmp);
/* Drops the joins of a region that nothing uses: what is in one only is then used once. */
void join_sweep(Module *m, Region *r, Arena *tmp);

#endif
