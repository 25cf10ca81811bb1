/* ops.c - ops.def as data: names, arities, flags, and the meaning of pointwise ops on doubles. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* The attribute list of a row, as bits: BITS(over, along) is bit(over) | bit(along). More than
 * BITS8 has room for do not compile. */
enum {
#define ATTR(name, kind) BIT_##name = 1u << ATTR_##name,
#include "ir/attrs.def"
    BIT_ = 0
};
#define NOTHING_LEFT(bit) (0 * sizeof(char[(bit) ? -1 : 1]))
#define BITS8(a, b, c, d, e, f, g, h, left, ...)                                                   \
    (BIT_##a | BIT_##b | BIT_##c | BIT_##d | BIT_##e | BIT_##f | BIT_##g | BIT_##h |               \
     NOTHING_LEFT(BIT_##left))
#define BITS(...) BITS8(__VA_ARGS__, , , , , , , , , )

const OpInfo op_info[OP_count] = {
    [OP_none] = {"none", 0, 0, 0, 0, 0, 0, NULL},
#define PW1(n, fl, value, vjp)  [OP_##n] = {#n, 1, 1, 1, POINTWISE | CHEAP | FUSE, 0, fl, vjp},
#define PW2(n, fl, value, vjp)  [OP_##n] = {#n, 2, 2, 1, POINTWISE | CHEAP | FUSE, 0, fl, vjp},
#define CMP2(n, fl, value, vjp) [OP_##n] = {#n, 2, 2, 1, POINTWISE | CHEAP | FUSE, 0, fl, vjp},
#define PW3(n, fl, value, vjp)  [OP_##n] = {#n, 3, 3, 1, POINTWISE | CHEAP | FUSE, 0, fl, vjp},
#define OP(n, least, most, results, flags, ...)                                                    \
    [OP_##n] = {#n, least, most, results, flags, BITS(__VA_ARGS__), 0, NULL},
#include "ir/ops.def"
};

Op op_find(const char *name)
{
    for (int i = 1; i < OP_count; i++)
        if (strcmp(op_info[i].name, name) == 0)
            return (Op)i;
    return OP_none;
}

/* Hendrycks and Gimpel (2016): x Phi(x) by tanh. Its slope, with u = x (c + ck x^2), is
 * (1 + tanh u) / 2 + x (1 - tanh^2 u) du/dx / 2. */
static const double gelu_c = 0.7978845608028654, gelu_k = 0.044715;

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(gelu_c * (x + gelu_k * x * x * x)));
}

static double gelu_tanh_slope(double x)
{
    double t = tanh(gelu_c * (x + gelu_k * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_c * (1 + 3 * gelu_k * x * x);
}

double op_evaluate(Op op, double a, double b, double c)
{
    (void)b, (void)c;
    switch (op) {
#define PW1(n, fl, value, vjp)                                                                     \
    case OP_##n:                                                                                   \
        return value;
#define PW2(n, fl, value, vjp)                                                                     \
    case OP_##n:                                                                                   \
        return value;
#define CMP2(n, fl, value, vjp)                                                                    \
    case OP_##n:                                                                                   \
        return value;
#define PW3(n, fl, value, vjp)                                                                     \
    case OP_##n:                                                                                   \
        return value;
#define OP(n, ...) case OP_##n:
#include "ir/ops.def"
    case OP_none:
    case OP_count:
        break;
    }
    return NAN; /* not pointwise: the callers ask op_is(op, POINTWISE) first */
}

int ins_added(const Ins *i)
{
    if (i->op == OP_dot || i->op == OP_dot_sum || i->op == OP_scatter_add)
        return i->nin == 3 ? 2 : -1;
    return i->op == OP_head && i->nin == 5 ? 4 : -1;
}
