/* simplify.h - the parts of simplify; private to passes/. Each returns whether it changed anything.
 * None changes a number that the program computes, but for constants, which are folded in double
 * and rounded once, and for the place where an accumulated sum starts. */
#ifndef MGC_PASSES_SIMPLIFY_H
#define MGC_PASSES_SIMPLIFY_H

#include "ir/ir.h"

/* fold.c: constants are computed, exact identities applied, copies read through. */
bool simplify_fold(Module *m, Fn *fn);
/* cse.c: what is computed twice is computed once; forward and backward are kept apart. */
bool simplify_cse(Module *m, Fn *fn, Arena *a);
/* licm.c: tables that depend on nothing leave the loops. */
bool simplify_licm(Module *m, Fn *fn, Arena *a);
/* dce.c: what nothing uses goes: instructions, carried values, slices, stacked results. */
bool simplify_dce(Module *m, Fn *fn, Arena *a);

#endif
