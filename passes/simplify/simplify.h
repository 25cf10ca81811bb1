/* simplify.h - the parts of simplify; private to passes/. Each returns whether it changed anything.
 * None changes a number that the program computes, but for constants, which are folded in double
 * and rounded once, and for the place where an accumulated sum starts. */
#ifndef MGC_PASSES_SIMPLIFY_H
#define MGC_PASSES_SIMPLIFY_H

#include "ir/ir.h"

/* fold.c: constants are computed, exact identities applied, copies read through. */
bool simplify_fold(Module *m, Fn *fn);
/* share.c: what is computed twice is computed once; forward and backward are kept apart. */
bool simplify_share(Module *m, Fn *fn, Arena *a);
/* hoist.c: tables that depend on nothing leave the loops. */
bool simplify_hoist(Module *m, Fn *fn, Arena *a);
/* drop.c: what nothing uses goes: instructions, carried values, slices, stacked results. */
bool simplify_drop(Module *m, Fn *fn, Arena *a);

#endif
