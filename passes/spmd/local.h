/* local.h - private to local*.c and ring.c: the program of one rank, which is told its place. */
#ifndef MGC_PASSES_LOCAL_H
#define MGC_PASSES_LOCAL_H

#include "ir/ir.h"

typedef struct Local {
    const Dim *rows;     /* per value that there was: its outermost dim as it was split */
    const Axes *partial; /* and the axes over which it was partial */
    Module *m;
    Fn *fn;
    ValueMap map;
} Local;

/* The rank's place along these axes, i32: an argument of the function, added if there is none. */
Value local_place(Local *l, Axes axes);

/* local_index.c. d: a dim as it was, with the axes that it is split on. */
/* The index in the whole dim of each element that the rank has: t[d]. */
Value local_positions(Local *l, Builder *b, Dim d, DType t);
/* The layer of the whole model that is number `index` (i32, of any dims) of what the rank has. */
Value local_layer(Local *l, Builder *b, Value index);
/* A gather of what the ranks have of the pipeline's dim, in the order of stages. */
Value local_in_order(Local *l, Builder *b, const Ins *gather);
/* How many of the elements that a rank has come before index `end` (i32) of the whole. place: of
 * that rank, per axis of the mesh; NULL: of this one. */
Value local_below(Local *l, Builder *b, Dim d, Value end, const Value *place);

/* ring.c: attention along a dim that is split, or its gradient, in iterations; i's operands are
 * new, along is the dim as it was. out: per result. */
void ring_attention(Local *l, Builder *b, const Ins *i, Dim along, Value *out);

#endif
