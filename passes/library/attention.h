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

/* Operands that are tensors of the attention: behind them are the bias and what is seen. */
static inline uint32_t attention_tensors(const Ins *i)
{
    return i->op == OP_attention ? 3 : 6;
}

/* The operand that is the bias, if there is one. */
static inline uint32_t attention_bias(const Ins *i)
{
    return attention_tensors(i) + i->attrs.sunk;
}

static inline bool is_attention(const Ins *i)
{
    return OP_AMONG(i->op, OP_attention, OP_attention_grad, OP_attention_bias_grad);
}

/* op: types and strides of q, k, v, then, of OP_attention, o and lse; of the gradients o, lse, do,
 * and dq, dk, dv or the bias's gradient. bias: that of scores; seen, first: of how many
 * keys each query sees, and of the first one; or NULL. Fills groups and strides of d; false: they
 * do not step evenly. */
typedef struct AttentionMask {
    const Strided *bias, *seen, *first;
} AttentionMask;
bool attention_match(const Ins *i, const Strided op[], const AttentionMask *mask,
                     mg_attention_desc *d);

/* The operand that says how many keys each query sees, -1: there is none. */
static inline int attention_seen(const Ins *i)
{
    const uint32_t at = attention_bias(i) + i->attrs.biased;
    return at + i->attrs.within < i->nin ? (int)at : -1;
}

#endif
