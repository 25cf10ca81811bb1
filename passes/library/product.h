/* product.h - a contraction as one call of mg_gemm.
 *
 * The dims of dot(a, b) over K fall into four groups by where they occur: batch (a, b, result),
 * M (a, result), N (b, result), K (a, b). A group is one index of the product if its dims merge to
 * one stride in every tensor that has them; some of M or N may be made batch dims instead, with
 * stride 0 in the other operand. */
#ifndef MGC_PASSES_PRODUCT_H
#define MGC_PASSES_PRODUCT_H

#include "ir/ir.h"
#include "passes/view.h"
#include "passes/walk.h"
#include "runtime/abi.h"

typedef struct Product {
    mg_gemm_desc desc; /* beta 0 */
    bool swap;         /* the first matrix is b, the second a: the result is stored transposed */
} Product;

/* The product that computes dot(a, b) over these dims into c where they lie; false if none does. It
 * adds up in the order of `over`, the last dim fastest, however the operands lie: so a product that
 * is computed again, from operands that lie otherwise, has the same bits. */
bool product_match(const Strided *a, const Strided *b, const Strided *c, const DimList *over,
                   Product *p);
mg_dtype abi_dtype(DType t);

/* Are the matrices w of a grouped product turned: do what is summed lie inside of what is not? */
bool grouped_turned(const Attrs *a, const Type *w);

/* A product that is added to a sum, which is kept in halves and rounded to the nearest:
 *   %w = cast %sum;  %a = add %w, %dot;  %next = cast %a */
typedef struct RoundedSum {
    Ins *dot;
    Value wide, added; /* %w, or 0: the sum begins with the product; %a, or 0 then */
    Value sum;         /* of exactly the type of %next, or 0 then */
} RoundedSum;

/* rounded_sum.c: what `next` gives, if it is such a sum, of values that nothing else reads. */
bool rounded_sum(const Module *m, const Uses *uses, const Ins *next, RoundedSum *r);

/* calls.c: own + start, of type `want`; own is wide, so that the sum is rounded once. */
Value sum_apart(Builder *b, Value own, Value start, const Type *want);
/* Appends a library call to b's region, after the copies its operands need. Results that
 * come in another order are copied back, and entered into map. */
void fit_call(Builder *b, Ins *i, ValueMap *map);
/* Can a conv write its result where and in the order in which it is wanted? */
bool conv_lies(const Module *m, const Ins *i);

#endif
