/* chunk_build.c - small builders for scans in chunks; see chunk.h. */
#include "passes/model/chunk.h"

#include "passes/walk.h"

bool chunk_has(const Chunk *c, Value v, Name d)
{
    return v && type_find(type_of(c->m, v), d) >= 0;
}

/* The operand with more dims comes first: the result has them in its order. */
static Value commute(Chunk *c, Op op, Value a, Value b)
{
    const bool turn = type_of(c->m, b)->rank > type_of(c->m, a)->rank;
    return build2(&c->b, op, turn ? b : a, turn ? a : b);
}

Value chunk_times(Chunk *c, Value a, Value b)
{
    return a && b ? commute(c, OP_mul, a, b) : a ? a : b;
}

Value chunk_plus(Chunk *c, Value a, Value b)
{
    return a && b ? commute(c, OP_add, a, b) : a ? a : b;
}

Value chunk_signed(Chunk *c, Value v, bool minus)
{
    return v && minus ? build1(&c->b, OP_neg, v) : v;
}

/* v summed over those of some dims that it has and `other` lacks. */
static Value sum_alone(Chunk *c, Value v, Value other, const DimList *over)
{
    DimList alone = {0};
    for (int k = 0; v && k < over->n; k++)
        if (chunk_has(c, v, over->dim[k].name) && !chunk_has(c, other, over->dim[k].name))
            alone.dim[alone.n++] = over->dim[k];
    return v ? build_sum(&c->b, v, &alone) : v;
}

/* Has a value a dim that the other lacks, and that is not summed? */
static bool adds_dim(const Chunk *c, Value v, Value other)
{
    const Type *t = type_of(c->m, v);
    for (int k = 0; k < t->rank; k++)
        if (!chunk_has(c, other, t->dims[k].name))
            return true;
    return false;
}

Value chunk_contract(Chunk *c, Value a, Value b, const DimList *over)
{
    DimList both = {0};
    double missing = 1;
    for (int k = 0; k < over->n; k++) {
        const Name d = over->dim[k].name;
        if (chunk_has(c, a, d) && chunk_has(c, b, d))
            both.dim[both.n++] = over->dim[k];
        else if (!chunk_has(c, a, d) && !chunk_has(c, b, d))
            missing *= (double)over->dim[k].size;
    }
    const Value x = sum_alone(c, a, b, over), y = sum_alone(c, b, a, over);
    Value r;
    if (!both.n)
        r = chunk_times(c, x, y);
    else if (adds_dim(c, x, y) && adds_dim(c, y, x))
        r = build_dot(&c->b, x, y, &both);
    else
        r = build_sum(&c->b, chunk_times(c, x, y), &both);
    if (missing == 1)
        return r;
    return chunk_times(c, r, build_const(&c->b, type_of(c->m, r)->dtype, missing));
}

Value chunk_renamed(Chunk *c, Value v, Dim from, Dim to)
{
    const Attrs a = {.dim = from, .to = to};
    return chunk_has(c, v, from.name) ? build(&c->b, OP_rename, &a, 1, &v) : v;
}

/* v before copies that only changed the order of its dims. */
static Value in_order(const Chunk *c, Value v)
{
    const Ins *i = c->m->values.data[v].def;
    while (i && i->op == OP_copy && type_same_dims(type_of(c->m, v), type_of(c->m, i->in[0]))) {
        v = i->in[0];
        i = c->m->values.data[v].def;
    }
    return v;
}

Value chunk_cut(Chunk *c, Value v, bool from)
{
    ValueMap *map = from ? &c->cut_s : &c->cut_t;
    const Value known = map_get(map, v);
    if (!chunk_has(c, v, c->along.name) || known != v)
        return known;
    const Dim inner = {.name = c->along.name, .size = c->t.size};
    const Attrs a = {.dim = inner, .to = c->n};
    Value x = in_order(c, v);
    const Name name = c->m->values.data[v].name;
    x = build(&c->b, OP_split, &a, 1, &x);
    x = chunk_renamed(c, x, inner, from ? c->s : c->t);
    c->m->values.data[x].name = name;
    map_set(c->m, map, v, x);
    return x;
}

Value chunk_uncut(Chunk *c, Value v, const Type *t)
{
    Type cut = type_stacked(t, c->t);
    cut = type_stacked(&cut, c->n);
    const Dim inner = {.name = c->along.name, .size = c->t.size};
    const Attrs a = {.dim = inner, .to = c->n};
    Value x = chunk_renamed(c, build_as(&c->b, v, cut), c->t, inner);
    return build(&c->b, OP_merge, &a, 1, &x);
}

Value chunk_before(Chunk *c, bool also)
{
    const Value t = build_iota(&c->b, DT_i32, c->t), s = build_iota(&c->b, DT_i32, c->s);
    const bool reverse = c->x->loop->attrs.reverse;
    const Op op = also ? (reverse ? OP_le : OP_ge) : reverse ? OP_lt : OP_gt;
    return build2(&c->b, op, t, s);
}

Value chunk_count(Chunk *c, Dim d, bool also, DType t)
{
    const Value at = build_iota(&c->b, t, d);
    if (!c->x->loop->attrs.reverse)
        return also ? build2(&c->b, OP_add, at, build_const(&c->b, t, 1)) : at;
    const double most = (double)(also ? d.size : d.size - 1);
    return build2(&c->b, OP_sub, build_const(&c->b, t, most), at);
}
