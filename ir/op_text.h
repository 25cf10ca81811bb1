/* op_text.h - the text of a row of ops.def: what a composed op computes, and derivatives.
 *
 *   u = mul a 0.5; t = tanh u; r = mul a t
 *
 * Each line names a pointwise op of other rows and its operands: a b c of the op, earlier lines, or
 * numbers; in a derivative also the result r and its cotangent g. */
#ifndef MGC_OP_TEXT_H
#define MGC_OP_TEXT_H

#include "ir/ir.h"

enum { OP_LINES = 32 };

typedef enum OpTermKind {
    TERM_operand,
    TERM_result,
    TERM_cotangent,
    TERM_line,
    TERM_number
} OpTermKind;

typedef struct OpTerm {
    OpTermKind kind;
    int index; /* of the operand or line */
    double number;
} OpTerm;

typedef struct OpLine {
    char name[8];
    Op op;
    int nin, uses; /* uses: by later lines */
    OpTerm in[3];
} OpLine;

typedef struct OpText {
    int lines;
    OpLine line[OP_LINES];
} OpText;

/* Reads the derivative of an op, or its value: that ends with the line r, uses every other line,
 * and has ops of earlier rows only. NULL, or (in `a`) what is wrong with the text. */
const char *op_read_derivative(Op op, const char *text, OpText *out, Arena *a);
const char *op_read_value(Op op, const char *text, OpText *out, Arena *a);

/* The value of a composed op: its last line is the result. */
const OpText *op_value(Op op);

#endif
