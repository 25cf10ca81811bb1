/* rounding.h - what is kept in bf16 is rounded at random, by the place of each element; private to
 * passes/. */
#ifndef MGC_PASSES_ROUNDING_H
#define MGC_PASSES_ROUNDING_H

#include "ir/ir.h"

/* A rule by which elements are rounded. The bits are of the generator of all noise, by the place of
 * the element, under a name, the run's seed and a count. A column is an index along the dim that is
 * innermost as stored, a row one along all others in their external order, padding not counted. So
 * the bits depend neither on how elements lie over ranks nor on what else was drawn. A word of 32
 * bits is shared by two tensors of one name, and a block of four words by four neighbours of a row,
 * so a kernel draws one block for eight roundings. */
typedef struct Rounding {
    const Tensor *tensor;
    Value at[MAX_RANK]; /* i32: the index along each of its dims; 0: all, in order */
    Name key;
    int word; /* 0 or 1: which half of the words under the key */
    Value seed, count;
    bool nearest; /* to the nearest instead: then none of the above but the tensor is there */
    bool sent;    /* ranks send what is added, which is rounded to the nearest for that */
} Rounding;

/* x, which has the dims of the tensor, or those of them that have no index of their own. */
Value round_at_random(Builder *b, Value x, const Rounding *r);

/* "round 0 embed.weight": the external name and, of a part, its place there, behind `what`. */
Name rounding_key(Module *m, const Tensor *t, const char *what);

/* The scalar of a function by its role, i64; it gets one if it has none. args: the function's. */
Value scalar_argument(Module *m, Fn *fn, Region *args, ArgRole role, const char *name);

/* Tells of a tensor that has more rows or columns than can be numbered; false: it did. */
bool rounding_fits(const Module *m, const Tensor *t);

#endif
