/* eval.h - numbers known at compile time: exact integers while they stay so, else doubles. */
#ifndef MGC_EVAL_H
#define MGC_EVAL_H

#include "grammar/ast.h"
#include "ir/ir.h"

typedef struct Number {
    bool exact; /* i holds it; d is its nearest double */
    int64_t i;
    double d;
    int rows; /* the power of the batch's size that is a factor of it: 1 / (batch * seq) has -1. An
                 evaluation has as many rows as its data (as_tensor). */
} Number;

Number number_int(int64_t i);
Number number_real(double d);
Number number_literal(const char *text, double value);
Number number_inverse(Number n); /* 1 / n, n not 0 */
/* True and *i for a number that is an integer: 4096, 1e3, 8 / 2. */
bool number_integer(Number n, int64_t *i);
/* "4096" or "0.5", in `a`. */
const char *number_text(Arena *a, Number n);

/* Each returns NULL, or what is wrong ("it overflows"). Comparisons give 0 or 1. */
const char *number_negate(Number a, Number *r);
const char *number_binary(BinaryOp op, Number a, Number b, Number *r);
/* A pointwise op of n operands. */
const char *number_op(Op op, int n, const Number *x, Number *r);

/* a * b of sizes: false on overflow or beyond 2^62. */
bool size_multiply(int64_t a, int64_t b, int64_t *r);

#endif
