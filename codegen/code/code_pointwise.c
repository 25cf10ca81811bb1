/* code_pointwise.c - pointwise ops as C expressions. Each primitive of ir/ops.def has a line of the
 * table; composed ops use the text in their rows. */
#include "codegen/code/code.h"

#include "ir/op_text.h"

#include <string.h>

const CodeOperator code_operator[OP_count] = {
    [OP_add] = {"+", ADDED, false},      [OP_sub] = {"-", ADDED, true},
    [OP_mul] = {"*", MULTIPLIED, false}, [OP_div] = {"/", MULTIPLIED, true},
    [OP_lt] = {"<", COMPARED, true},     [OP_le] = {"<=", COMPARED, true},
    [OP_gt] = {">", COMPARED, true},     [OP_ge] = {">=", COMPARED, true},
    [OP_eq] = {"==", COMPARED, true},    [OP_ne] = {"!=", COMPARED, true},
};

/* The text of a primitive with operands x of dtype t. */
typedef Text Write(Code *c, Op op, DType t, const Text *x);

static Text itself(Code *c, Op op, DType t, const Text *x)
{
    (void)c, (void)op, (void)t;
    return x[0];
}

static Text negated(Code *c, Op op, DType t, const Text *x)
{
    (void)op, (void)t;
    return (Text){arena_printf(c->a, "-%s", code_at(c, x[0], CALLED)), SIGNED};
}

static Text function(Code *c, const char *name, DType t, const Text *x)
{
    return (Text){arena_printf(c->a, "%s%s(%s)", name, t == DT_f32 ? "f" : "", x[0].s), CALLED};
}

static Text call(Code *c, Op op, DType t, const Text *x)
{
    return function(c, op_info[op].name, t, x);
}

static Text power(Code *c, Op op, DType t, const Text *x)
{
    (void)op;
    return (Text){arena_printf(c->a, "pow%s(%s, %s)", t == DT_f32 ? "f" : "", x[0].s, x[1].s),
                  CALLED};
}

static Text looked_up(Code *c, Op op, DType t, const Text *x)
{
    (void)op;
    return (Text){arena_printf(c->a, "mg_nf4%s(%s, %s)", t == DT_f32 ? "f" : "", x[0].s, x[1].s),
                  CALLED};
}

static Text infix(Code *c, Op op, DType t, const Text *x)
{
    const CodeOperator *o = &code_operator[op];
    if (op == OP_mul && dtype_is_float(t) && c->dialect->product)
        return (Text){arena_printf(c->a, "%s(%s, %s)", c->dialect->product, x[0].s, x[1].s),
                      CALLED};
    return (Text){arena_printf(c->a, "%s %s %s", code_at(c, x[0], o->level), o->sign,
                               code_at(c, x[1], o->level + 1)),
                  o->level};
}

/* C's comparisons do not chain. */
static Text compared(Code *c, Op op, DType t, const Text *x)
{
    (void)t;
    return (Text){arena_printf(c->a, "%s %s %s", code_at(c, x[0], ADDED), code_operator[op].sign,
                               code_at(c, x[1], ADDED)),
                  COMPARED};
}

static Text absolute(Code *c, Op op, DType t, const Text *x)
{
    (void)op;
    if (dtype_is_float(t))
        return function(c, "fabs", t, x);
    const char *s = code_at(c, x[0], CALLED);
    return (Text){arena_printf(c->a, "%s < 0 ? -%s : %s", s, s, s), CHOICE};
}

static Text sigmoid(Code *c, Op op, DType t, const Text *x)
{
    (void)op;
    const Text one = code_number(c, t, 1), minus = negated(c, OP_neg, t, x);
    const Text sum = infix(c, OP_add, t, (Text[]){one, function(c, "exp", t, &minus)});
    return infix(c, OP_div, t, (Text[]){one, sum});
}

static Text chosen(Code *c, Op op, DType t, const Text *x)
{
    (void)op, (void)t;
    return (Text){arena_printf(c->a, "%s ? %s : %s", code_at(c, x[0], COMPARED),
                               code_at(c, x[1], COMPARED), code_at(c, x[2], COMPARED)),
                  CHOICE};
}

/* The line of each primitive: one that lacks it does not compile. */
#define CODE_copy    itself
#define CODE_neg     negated
#define CODE_abs     absolute
#define CODE_exp     call
#define CODE_log     call
#define CODE_sqrt    call /* CUDA's rsqrt is less exact than 1 / sqrt */
#define CODE_tanh    call
#define CODE_erf     call
#define CODE_sin     call
#define CODE_cos     call
#define CODE_pow     power
#define CODE_nf4     looked_up
#define CODE_sigmoid sigmoid
#define CODE_add     infix
#define CODE_sub     infix
#define CODE_mul     infix
#define CODE_div     infix
#define CODE_lt      compared
#define CODE_le      compared
#define CODE_gt      compared
#define CODE_ge      compared
#define CODE_eq      compared
#define CODE_ne      compared
#define CODE_select  chosen

static Write *const primitives[OP_count] = {
#define PRIMITIVE(name, ...) [OP_##name] = CODE_##name,
#include "ir/ops.def"
};

/* ---- composed ops ------------------------------------------------------------------------- */

static int uses_of(const OpText *text, int operand)
{
    int uses = 0;
    for (int n = 0; n < text->lines; n++)
        for (int k = 0; k < text->line[n].nin; k++)
            uses +=
                text->line[n].in[k].kind == TERM_operand && text->line[n].in[k].index == operand;
    return uses;
}

/* A line with one use is written inside the line that uses it; a line with several uses is a
 * variable. */
static Text composed(Code *c, Op op, DType t, int nin, const Text *in)
{
    const OpText *text = op_value(op);
    Text operand[3] = {0}, done[OP_LINES];
    for (int k = 0; k < nin; k++)
        operand[k] =
            in[k].level < NAMED && uses_of(text, k) > 1 ? code_variable(c, "x", t, in[k]) : in[k];
    for (int n = 0; n < text->lines; n++) {
        const OpLine *line = &text->line[n];
        Text x[3] = {0};
        for (int k = 0; k < line->nin; k++)
            x[k] = line->in[k].kind == TERM_operand ? operand[line->in[k].index]
                   : line->in[k].kind == TERM_line  ? done[line->in[k].index]
                                                    : code_number(c, t, line->in[k].number);
        done[n] = code_pointwise(c, line->op, t, line->nin, x);
        if (line->uses > 1)
            done[n] =
                code_variable(c, line->name, op_is(line->op, CONDITION) ? DT_bool : t, done[n]);
    }
    return done[text->lines - 1];
}

Text code_pointwise(Code *c, Op op, DType t, int nin, const Text *x)
{
    return op_info[op].value ? composed(c, op, t, nin, x) : primitives[op](c, op, t, x);
}
