/* evaluate.h - how values of @eval depend on the rows that are evaluated; private to evaluate*.c.
 */
#ifndef MGC_PASSES_EVALUATE_H
#define MGC_PASSES_EVALUATE_H

#include "ir/ir.h"

typedef enum Base { NONE, SAME, ROWS, SUM, SO_FAR } Base;

typedef struct Kind {
    Base base;
    int degree;
    Value factor; /* a total that it has yet to be multiplied by, or 0 */
    bool divides; /* divided, that is */
} Kind;

typedef struct Evaluate {
    Module *m;
    Fn *fn;
    Arena *tmp;
    Dim batch;  /* as many as are computed at once */
    Kind *kind; /* per value there was */
    size_t known;
    const Ins *mixes;        /* the first whose rows depend on a sum over rows, or NULL */
    bool counts;             /* an element of a row depends on the number of rows */
    Value rows, whole;       /* f64: n and N */
    Value before;            /* i64: rows before these */
    Value mask;              /* [batch]: which rows count */
    ValueMap total, renamed; /* of a value its total; what stands in its place */
    VEC(Value) out;          /* what becomes of Fn.totals, at the top */
} Evaluate;

/* Finds the kind of every value of @eval; `mixes` and `counts` say that there are values without.
 */
void evaluate_judge(Evaluate *e);
/* Of a value that there was then, or of one made since, which is so far. */
Kind evaluate_kind(const Evaluate *e, Value v);
/* Is i a row times a total, or divided by one? *row: which operand the row is. */
bool evaluate_factor(const Evaluate *e, const Ins *i, uint32_t *row);

/* Are numbers drawn for each row, one row after the other? */
bool evaluate_draws(const Evaluate *e, const Ins *i);

#endif
