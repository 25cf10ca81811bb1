/* cuda_pointwise.c - pointwise ops as C expressions: a line of the table for each primitive of
 * ir/ops.def, and composed ops by the text in their rows. */
#include "codegen/cuda/cuda_gen.h"

#include "ir/op_text.h"

/* How tightly an expression holds together, so that it stands in brackets only where it must. */
typedef enum Binds {
    LOOSE, /* a choice */
    INFIX,
    TIGHT /* a name, a number, a call */
} Binds;

typedef struct Text {
    const char *text;
    Binds binds;
} Text;

/* How a primitive is written, of operands x of dtype t. */
typedef struct Primitive Primitive;
typedef const char *Write(CudaGen *g, const Primitive *p, DType t, const char **x);
struct Primitive {
    Write *write;
    const char *name;   /* of the function or sign */
    Binds binds, needs; /* what it is, and what its operands must be */
};

static const char *itself(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    (void)g, (void)p, (void)t;
    return x[0];
}

static const char *negated(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    (void)p, (void)t;
    return arena_printf(g->a, "-(%s)", x[0]);
}

static const char *call(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    return arena_printf(g->a, "%s%s(%s)", p->name, t == DT_f32 ? "f" : "", x[0]);
}

static const char *call2(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    return arena_printf(g->a, "%s%s(%s, %s)", p->name, t == DT_f32 ? "f" : "", x[0], x[1]);
}

static const char *absolute(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    return dtype_is_float(t) ? call(g, p, t, x)
                             : arena_printf(g->a, "%s < 0 ? -(%s) : %s", x[0], x[0], x[0]);
}

static const char *sigmoid(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    const char *one = cuda_number(g, t, 1), *minus = arena_printf(g->a, "-(%s)", x[0]);
    return arena_printf(g->a, "%s / (%s + %s)", one, one, call(g, p, t, &minus));
}

static const char *infix(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    (void)t;
    return arena_printf(g->a, "%s %s %s", x[0], p->name, x[1]);
}

static const char *chosen(CudaGen *g, const Primitive *p, DType t, const char **x)
{
    (void)p, (void)t;
    return arena_printf(g->a, "%s ? %s : %s", x[0], x[1], x[2]);
}

/* The line of each primitive: one that lacks it does not compile. */
#define CODE_copy    {itself, NULL, TIGHT, TIGHT}
#define CODE_neg     {negated, NULL, TIGHT, LOOSE}
#define CODE_abs     {absolute, "fabs", LOOSE, TIGHT}
#define CODE_exp     {call, "exp", TIGHT, LOOSE}
#define CODE_log     {call, "log", TIGHT, LOOSE}
#define CODE_sqrt    {call, "sqrt", TIGHT, LOOSE} /* CUDA's rsqrt is less exact than 1 / sqrt */
#define CODE_tanh    {call, "tanh", TIGHT, LOOSE}
#define CODE_erf     {call, "erf", TIGHT, LOOSE}
#define CODE_sin     {call, "sin", TIGHT, LOOSE}
#define CODE_cos     {call, "cos", TIGHT, LOOSE}
#define CODE_pow     {call2, "pow", TIGHT, LOOSE}
#define CODE_sigmoid {sigmoid, "exp", INFIX, LOOSE}
#define CODE_add     {infix, "+", INFIX, TIGHT}
#define CODE_sub     {infix, "-", INFIX, TIGHT}
#define CODE_mul     {infix, "*", INFIX, TIGHT}
#define CODE_div     {infix, "/", INFIX, TIGHT}
#define CODE_lt      {infix, "<", INFIX, TIGHT}
#define CODE_le      {infix, "<=", INFIX, TIGHT}
#define CODE_gt      {infix, ">", INFIX, TIGHT}
#define CODE_ge      {infix, ">=", INFIX, TIGHT}
#define CODE_eq      {infix, "==", INFIX, TIGHT}
#define CODE_ne      {infix, "!=", INFIX, TIGHT}
#define CODE_select  {chosen, NULL, LOOSE, INFIX}

static const Primitive primitives[OP_count] = {
#define PRIMITIVE(name, ...) [OP_##name] = CODE_##name,
#include "ir/ops.def"
};

static Text composed(CudaGen *g, Op op, DType t, const Text *operand);

static Text written(CudaGen *g, Op op, DType t, int nin, const Text *in)
{
    if (op_info[op].value)
        return composed(g, op, t, in);
    const Primitive *p = &primitives[op];
    const char *x[3] = {0};
    for (int k = 0; k < nin; k++)
        x[k] = in[k].binds < p->needs ? arena_printf(g->a, "(%s)", in[k].text) : in[k].text;
    return (Text){p->write(g, p, t, x), p->binds};
}

/* A line that one other uses is written inside it; what several use is a variable. */
static Text composed(CudaGen *g, Op op, DType t, const Text *operand)
{
    const OpText *text = op_value(op);
    Text done[OP_LINES];
    for (int n = 0; n < text->lines; n++) {
        const OpLine *line = &text->line[n];
        Text x[3] = {0};
        for (int k = 0; k < line->nin; k++)
            x[k] = line->in[k].kind == TERM_operand ? operand[line->in[k].index]
                   : line->in[k].kind == TERM_line
                       ? done[line->in[k].index]
                       : (Text){cuda_number(g, t, line->in[k].number), TIGHT};
        done[n] = written(g, line->op, t, line->nin, x);
        if (line->uses > 1) {
            const char *name = cuda_temp(g, "v");
            cuda_line(g, "const %s %s = %s;", op_is(line->op, CONDITION) ? "bool" : cuda_type(t),
                      name, done[n].text);
            done[n] = (Text){name, TIGHT};
        }
    }
    return done[text->lines - 1];
}

const char *cuda_pointwise(CudaGen *g, Op op, DType t, int nin, const char *const *x)
{
    Text in[3] = {0};
    for (int k = 0; k < nin; k++)
        in[k] = (Text){x[k], TIGHT};
    return written(g, op, t, nin, in).text;
}
