/* op_value.c - what pointwise ops compute, on doubles: that of a primitive is the C expression in
 * its row, that of a composed op the text. */
#include "ir/op_text.h"
#include "runtime/nf4.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

typedef double Primitive(double a, double b, double c);

#define PRIMITIVE(name, operands, takes, flags, flops, value, vjp)                                 \
    static double value_##name(double a, double b, double c)                                       \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        return value;                                                                              \
    }
#include "ir/ops.def"

static Primitive *const primitives[OP_count] = {
#define PRIMITIVE(name, ...) [OP_##name] = value_##name,
#include "ir/ops.def"
};

/* ---- composed ops ------------------------------------------------------------------------- */

static OpText texts[OP_count];
static once_flag texts_read = ONCE_FLAG_INIT;

static void read_texts(void)
{
    Arena *a = arena_new();
    for (Op op = OP_none + 1; op < OP_count; op++) {
        const char *text = op_info[op].value;
        const char *wrong = text ? op_read_value(op, text, &texts[op], a) : NULL;
        if (wrong)
            ir_broken(NULL, NULL, "the value of '%s' in ir/ops.def: %s", op_info[op].name, wrong);
    }
    arena_free(a);
}

const OpText *op_value(Op op)
{
    call_once(&texts_read, read_texts);
    return &texts[op];
}

static double composed(Op op, double a, double b, double c)
{
    const OpText *t = op_value(op);
    const double operand[3] = {a, b, c};
    double done[OP_LINES];
    for (int n = 0; n < t->lines; n++) {
        double x[3] = {0};
        for (int k = 0; k < t->line[n].nin; k++) {
            const OpTerm *in = &t->line[n].in[k];
            x[k] = in->kind == TERM_operand ? operand[in->index]
                   : in->kind == TERM_line  ? done[in->index]
                                            : in->number;
        }
        done[n] = op_evaluate(t->line[n].op, x[0], x[1], x[2]);
    }
    return done[t->lines - 1];
}

double op_evaluate(Op op, double a, double b, double c)
{
    return primitives[op] ? primitives[op](a, b, c) : composed(op, a, b, c);
}
