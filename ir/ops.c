/* ops.c - ops.def as data: names, arities, flags. */
#include "ir/ir.h"

#include <string.h>

/* The attribute list of a row, as bits: BITS(over, along) is bit(over) | bit(along). More than
 * BITS12 has room for do not compile. */
enum {
#define ATTR(name, kind) BIT_##name = 1ull << ATTR_##name,
#include "ir/attrs.def"
    BIT_ = 0
};
#define NOTHING_LEFT(bit) (0 * sizeof(char[(bit) ? -1 : 1]))
#define BITS12(a, b, c, d, e, f, g, h, i, j, k, l, left, ...)                                      \
    (BIT_##a | BIT_##b | BIT_##c | BIT_##d | BIT_##e | BIT_##f | BIT_##g | BIT_##h | BIT_##i |     \
     BIT_##j | BIT_##k | BIT_##l | NOTHING_LEFT(BIT_##left))
#define BITS(...) BITS12(__VA_ARGS__, , , , , , , , , , , , , )

#define COLLECTIVE(name, kind, flags, sends, formula, bytes, steps, ...)                           \
    _Static_assert(BITS(__VA_ARGS__) & BIT_axes, #name " has no attribute axes");
#include "ir/ops.def"

const OpInfo op_info[OP_count] = {
    [OP_none] = {.name = "none"},
#define POINTWISE_ROW(n, operands, takes, flags, flops, value, vjp)                                \
    [OP_##n] = {#n, operands,      operands, 1,     POINTWISE | CHEAP | FUSE | flags,              \
                0,  TAKES_##takes, flops,    value, vjp},
#define PRIMITIVE(n, operands, takes, flags, flops, value, vjp)                                    \
    POINTWISE_ROW(n, operands, takes, flags, flops, NULL, vjp)
#define COMPOSED POINTWISE_ROW
#define OP(n, min, max, results, flags, ...)                                                       \
    [OP_##n] = {#n, min, max, results, flags, BITS(__VA_ARGS__), 0, 0, NULL, NULL},
#include "ir/ops.def"
};

Op op_find(const char *name)
{
    for (int i = 1; i < OP_count; i++)
        if (strcmp(op_info[i].name, name) == 0)
            return (Op)i;
    return OP_none;
}

int ins_added(const Ins *i)
{
    if (i->op == OP_dot_scaled)
        return i->nin == 5 ? 4 : -1;
    if (i->op == OP_dot || i->op == OP_dot_sum || i->op == OP_scatter_add || i->op == OP_conv)
        return i->nin == 3 ? 2 : -1;
    if (i->op == OP_put)
        return 2;
    if (i->op == OP_grouped_weight)
        return i->nin == 4 ? 3 : -1;
    return i->op == OP_head && i->nin == 5 ? 4 : -1;
}
