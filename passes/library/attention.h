/* attention.h - attention as its descriptor has it (runtime/abi.h): which dims of the queries are
 * batch, heads of the keys and groups of a head, each with one stride in every operand. Shared by
 * the pass `products`, which copies what does not lie so, and the scheduler. */
#ifndef MGC_PASSES_ATTENTION_H
#define MGC_PASSES_ATTENTION_H

#include "passes/view.h"
#include "runtime/abi.h"

typedef struct Group {
    int n;
    Dim dim[MAX_RANK];
} Group;

/* Its stride in a value of that type and strides, if that steps through it evenly. */
bool group_stride(const Type *t, const int64_t *stride, const Group *g, int64_t *out);

/* op: types and strides of q, k, v, then, of OP_attention, o and lse; of OP_attention_grad o, lse,
 * do, dq, dk, dv. first: of the first key of each query, or NULL. Fills groups and strides of d;
 * false: they do not step evenly. */
bool attention_match(const Ins *i, const Strided op[], const Strided *first, mg_attention_desc *d);

#endif
