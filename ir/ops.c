/* ops.c - ops.def as data: names, arities, flags, and the meaning of pointwise ops on doubles. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* The attribute list of a row, as bits: BITS(over, along) is bit(over) | bit(along). */
enum {
#define ATTR(name, kind) BIT_##name = 1u << ATTR_##name,
#include "ir/attrs.def"
    BIT_ = 0
};
#define BITS5(a, b, c, d, e, ...) (BIT_##a | BIT_##b | BIT_##c | BIT_##d | BIT_##e)
#define BITS(...)                 BITS5(__VA_ARGS__, , , , , )

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
#include "ir/ops.def"
    default:
        return NAN; /* not pointwise: the callers ask op_is(op, POINTWISE) first */
    }
}

int ins_added(const Ins *i)
{
    switch (i->op) {
    case OP_dot:
    case OP_dot_sum:
    case OP_scatter_add:
        return i->nin == 3 ? 2 : -1;
    case OP_head:
        return i->nin == 5 ? 4 : -1;
    default:
        return -1;
    }
}
