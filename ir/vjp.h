/* vjp.h - the derivative of one instruction: cotangents of its results to those of its operands.
 *
 * A cotangent of a value has the value's dtype and some of its dims, in the value's order; along a
 * dim that it lacks it is the same everywhere. So the derivative of `sum` costs nothing, and a mean
 * over a million targets sends back one number. Whoever needs all dims expands it (build_as). The
 * cotangent of a half may be f32: it is rounded by whoever multiplies it, and for a parameter's
 * rounded copy it is never rounded at all.
 *
 * Pointwise rules are the IR text in ops.def; the others are functions vjp_NAME in vjp.c. */
#ifndef MGC_VJP_H
#define MGC_VJP_H

#include "ir/op_text.h"

enum { VJP_OPERANDS = RULE_OPERANDS };

/* The rule of a pointwise op, read. */
typedef struct VjpText {
    OpText text;
    int gradient[3]; /* the line that defines ga, gb, gc; -1: no derivative */
} VjpText;

/* Reads a rule of a pointwise op (op_info[op].vjp). NULL, or (in `a`) what is wrong with it. */
const char *vjp_read(Op op, const char *text, VjpText *out, Arena *a);

/* One application of a rule. The caller fills all but `grad` and `error`. */
typedef struct Vjp {
    Builder *b;        /* where the derivative is written */
    const Ins *ins;    /* what is differentiated: not a repeat or a fused kernel */
    const Value *ct;   /* per result: its cotangent, or 0 */
    const bool *want;  /* per operand */
    const bool *exact; /* per operand: a half whose cotangent is wanted in f32 */
    Value *grad;       /* per operand: set to its cotangent; left alone where there is none */
    /* Gives the value that stands for an operand or result of the instruction where the builder is.
     * Rules ask for the values they read alone, so that no others have to be kept. */
    Value (*need)(void *ctx, Value v);
    void *ctx;
    const char *error; /* why there is no derivative, if there is none */
} Vjp;
void vjp(Vjp *v);

/* A pointwise instruction whose result has its dims in the order of `like`. */
Value build_like(Builder *b, Op op, int nin, const Value *in, const Type *like);
/* `have`'s dims that `t` has, in t's order, with t's dtype. */
Type type_within(const Type *t, const Type *have);

#endif
