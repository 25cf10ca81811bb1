/* shard_convert.c - from one way to lie over the mesh to another, a step at a time, each the
 * cheapest there is: what is partial is added up into its parts where it is to be split; what is
 * split along the wrong dim changes places; what all ranks have is cut; what is left is gathered
 * or added up whole. */
#include <stdio.h>
#include <stdlib.h>

#include "passes/spmd/shard.h"

/* ---- in how many bits ------------------------------------------------------------------------ */

/* Is x, on each rank, a sum of halves of this type, wider than they are? */
static bool sums_halves(const Module *m, Value x, DType half, int deep)
{
    const Ins *def = m->values.data[x].def;
    if (!def || !deep)
        return false;
    if (def->op == OP_cast)
        return type_of(m, def->in[0])->dtype == half;
    if (!OP_AMONG(def->op, OP_add, OP_sub, OP_neg, OP_copy, OP_join, OP_window))
        return false;
    for (uint32_t k = 0; k < def->nin; k++)
        if (!sums_halves(m, def->in[k], half, deep - 1))
            return false;
    return true;
}

/* The type that is sent for x: where x was widened, that of before. It is the same number where it
 * is moved. Where parts of ranks are added up, and all of them are sums of halves, their sum is
 * rounded as each of them was (accelerators' frameworks add up activations so). DT_none: x itself.
 */
static DType narrower(const Module *m, Op op, Value x)
{
    enum { DEEP = 16 };
    const Ins *def = m->values.data[x].def;
    const DType half = m->train.half;
    if (!def || !dtype_is_float(type_of(m, x)->dtype) || dtype_is_narrow(type_of(m, x)->dtype))
        return DT_none;
    if (op_is(op, SUMS))
        return half && !m->train.wide_partials && sums_halves(m, x, half, DEEP) ? half : DT_none;
    const DType was = def->op == OP_cast ? type_of(m, def->in[0])->dtype : DT_none;
    return dtype_is_half(was) ? was : DT_none;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static Value step(Builder *b, Op op, Value x, Name dim, Name to, Axes axes)
{
    const DType wide = type_of(b->m, x)->dtype, narrow = narrower(b->m, op, x);
    if (narrow) {
        const Ins *def = b->m->values.data[x].def;
        x = def->op == OP_cast ? def->in[0] : build_cast(b, x, narrow);
        return build_cast(b, step(b, op, x, dim, to, axes), wide);
    }
    const Type *t = type_of(b->m, x);
    bool sums = op_is(op, SUMS);
    Attrs a = {.axes = axes, .tree = sums && (t->partial & axes & mesh_tree_of(b->m, t))};
    if (dim)
        a.dim = t->dims[type_find(t, dim)];
    if (to)
        a.to = t->dims[type_find(t, to)];
    if (op == OP_all_gather) {
        a.zigzag = (a.dim.zigzag & axes) != 0;
        a.blocks = a.dim.blocks; /* its last axis is the one */
    } else if (op == OP_reduce_scatter || op == OP_shard) {
        const Dim ruled = mesh_ruled(b->m, dim, axes);
        a.zigzag = ruled.zigzag != 0;
        a.blocks = ruled.blocks;
    }
    Name hint = b->m->values.data[x].name;
    Value y = build(b, op, &a, 1, &x);
    b->m->values.data[y].name = hint;
    return y;
}

/* The lowest axis of a set, as a set: the outermost. */
static Axes first_of(Axes axes)
{
    return axes & -axes;
}

static Axes last_of(Axes axes)
{
    while (axes & (axes - 1))
        axes &= axes - 1;
    return axes;
}

/* The axis that a dim may be split on next: those it is split on are the outer ones of the wanted,
 * and none of them is wanted inside of another that is missing. */
static Axes next_axis(Dim now, Dim wanted)
{
    const Axes missing = wanted.axes & ~now.axes, outer = missing & ~wanted.inner;
    if (!missing || (now.axes & ~wanted.axes) || now.inner || (outer && now.axes & wanted.inner))
        return 0;
    const Axes next = first_of(outer ? outer : missing);
    return !outer || now.axes < next ? next : 0;
}

/* Dim of t that is split on an axis, if it is the innermost of those it is split on; or -1. */
static int gives_up(const Type *t, Axes axis)
{
    for (int i = 0; i < t->rank; i++)
        if ((t->dims[i].inner ? t->dims[i].inner : last_of(t->dims[i].axes)) == axis)
            return i;
    return -1;
}

/* Parts in zigzag order, or in blocks, do not change places with others: they are gathered. */
static bool in_order(const Module *m, Name dim, Axes axis)
{
    const Dim d = mesh_ruled(m, dim, axis);
    return !d.zigzag && !d.blocks;
}

/* One dim more is split as wanted. */
static Value split_more(Builder *b, Value x, const Type *to)
{
    const Type *t = type_of(b->m, x);
    for (int want = 0; want < 3; want++)
        for (int i = 0; i < t->rank; i++) {
            Dim d = t->dims[i];
            Axes axis = next_axis(d, to->dims[type_find(to, d.name)]);
            int from = axis ? gives_up(t, axis) : -1;
            if (!axis)
                continue;
            if (want == 0 && (t->partial & axis))
                return step(b, OP_reduce_scatter, x, d.name, 0, axis);
            if (want == 1 && !((type_axes(t) | t->partial) & axis))
                return step(b, OP_shard, x, d.name, 0, axis);
            if (want == 2 && from >= 0 && in_order(b->m, d.name, axis) &&
                in_order(b->m, t->dims[from].name, axis))
                return step(b, OP_all_to_all, x, t->dims[from].name, d.name, axis);
        }
    return 0;
}

/* One dim less is split otherwise than wanted. */
static Value gather_one(Builder *b, Value x, const Type *to)
{
    const Type *t = type_of(b->m, x);
    for (int i = 0; i < t->rank; i++) {
        Dim d = t->dims[i];
        const Dim wanted = to->dims[type_find(to, d.name)];
        const bool blocked = /* what is split on is another axis, or a later one */
            (d.axes & ~wanted.axes) || d.inner != (d.inner & wanted.inner) ||
            (d.axes != wanted.axes && !next_axis(d, wanted)) ||
            (d.axes == wanted.axes && d.inner != wanted.inner);
        if (blocked)
            return step(b, OP_all_gather, x, d.name, 0, d.inner ? d.inner : last_of(d.axes));
    }
    return 0;
}

/* The axis of a tree is reduced first, by itself: the result has the same bits for any number of
 * ranks on it. Other axes follow. */
static Value tree_first(Builder *b, Value x, const Type *to)
{
    const Type *t = type_of(b->m, x);
    Axes tree = mesh_tree_of(b->m, t) & t->partial & ~to->partial;
    for (int i = 0; i < t->rank && tree; i++) {
        Dim d = t->dims[i];
        if (next_axis(d, to->dims[type_find(to, d.name)]) == tree)
            return step(b, OP_reduce_scatter, x, d.name, 0, tree);
    }
    return tree ? step(b, OP_all_reduce, x, 0, 0, tree) : 0;
}

Value convert(Builder *b, Value x, const Type *to)
{
    for (int n = 0; n < 4 * MAX_AXES; n++) {
        const Type *t = type_of(b->m, x);
        if (t->max) {
            x = step(b, OP_all_reduce, x, 0, 0, t->max);
            continue;
        }
        Value y = tree_first(b, x, to);
        if (!y)
            y = split_more(b, x, to);
        if (!y)
            y = gather_one(b, x, to);
        if (!y && (t->partial & ~to->partial))
            y = step(b, OP_all_reduce, x, 0, 0, t->partial & ~to->partial);
        if (!y)
            return x;
        x = y;
    }
    ir_broken(b->m, NULL, "shard: no way from one layout to another");
}
