/* initial.h - formulas: initial values of elements (Tensor.formula, of a parameter whose init is
 * INIT_formula), and numbers by the step (Tensor.beta).
 *
 * A formula is text, words with blanks between them, in the order of a stack machine that computes
 * one element in double:
 *
 *   0.5              a number
 *   index:24:6       the element's index along a dim of 6, of which one step is 24 elements
 *   uniform:1:16     a number in [1, 16), drawn for this element and this word
 *   normal:0.02      likewise, of mean 0 and deviation 0.02
 *   step             the number of the step, from 0: not in an initial value, and the three words
 *                    before this one only there
 *   log, add, ...    an op on the numbers before it: those of `initial_op`
 *
 * Elements are counted in the external form, row-major, so no layout changes a value. */
#ifndef MGC_IR_INITIAL_H
#define MGC_IR_INITIAL_H

#include "ir/ir.h"

enum { INITIAL_DEPTH = 32, INITIAL_TERMS = 200 };

typedef enum InitialKind {
    INITIAL_number,
    INITIAL_index,
    INITIAL_uniform,
    INITIAL_normal,
    INITIAL_step,
    INITIAL_op
} InitialKind;

typedef struct InitialTerm {
    InitialKind kind;
    Op op;               /* of INITIAL_op */
    double a, b;         /* the number; [a, b); the deviation is a */
    int64_t every, size; /* of an index */
} InitialTerm;

/* Is op one that a formula may have? */
bool initial_op(Op op);
/* How many numbers a term takes. */
int initial_operands(const InitialTerm *t);
/* Reads the word at *s, and goes on behind it. False at the end, and at what is none: then **s is
 * not 0. */
bool initial_next(const char **s, InitialTerm *t);
/* Does it compute one number, within the limits above: an initial value, or a number by the step?
 */
bool initial_valid(const char *formula);
bool step_formula_valid(const char *formula);
/* Is it the number 1? */
bool formula_is_one(const char *formula);

#endif
