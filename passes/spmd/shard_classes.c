/* shard_classes.c - cross-entropy whose classes are split: by its definition, in which every
 * maximum and sum over the classes is an instruction of its own. Logits are never gathered: three
 * numbers a target are. Part of pass shard, on whole sizes. */
#include "passes/spmd/shard.h"
#include "passes/spmd/shard_classes.h"
#include "passes/walk.h"

typedef struct Expand {
    Module *m;
    ValueMap map;
} Expand;

static bool classes_are_split(const Module *m, const Ins *i)
{
    const Type *t = type_of(m, i->in[0]);
    bool fixed[MAX_RANK] = {false};
    Axes axes[MAX_RANK];
    mesh_walk(m, t->dims, t->rank, fixed, axes);
    return axes[type_find(t, i->attrs.over.dim[0].name)] != 0;
}

/* Is a logit the target's; is its class one that is counted? */
static Value is_target(Builder *b, const Ins *i)
{
    Value number = build_iota(b, DT_i32, i->attrs.over.dim[0]);
    return build2(b, OP_eq, number, i->in[1]);
}

/* Logits in the type of losses; those of padding are minus infinity. */
static Value scores(Builder *b, const Ins *i)
{
    Dim d = i->attrs.over.dim[0];
    DType t = dtype_wide(type_of(b->m, i->in[0])->dtype);
    Value z = build_cast(b, i->in[0], t);
    if (i->attrs.valid == d.size)
        return z;
    Value valid = build_const(b, DT_i32, (double)i->attrs.valid);
    Value counts = build2(b, OP_lt, build_iota(b, DT_i32, d), valid);
    Value in[3] = {counts, z, build_const(b, t, -1e30)};
    return build(b, OP_select, NULL, 3, in);
}

static Value reduce(Builder *b, Op op, Value x, const DimList *over)
{
    Attrs a = {.over = *over};
    return build(b, op, &a, 1, &x);
}

static void losses(Builder *b, const Ins *i, Value out[2])
{
    Value z = scores(b, i), top = reduce(b, OP_rmax, z, &i->attrs.over);
    Value e = build1(b, OP_exp, build2(b, OP_sub, z, top));
    Value sum = reduce(b, OP_sum, e, &i->attrs.over);
    Value none = build_const(b, type_of(b->m, z)->dtype, 0);
    Value in[3] = {is_target(b, i), z, none};
    Value hit = reduce(b, OP_sum, build(b, OP_select, NULL, 3, in), &i->attrs.over);
    out[1] = build2(b, OP_add, build1(b, OP_log, sum), top);
    out[0] = build2(b, OP_sub, out[1], hit);
}

static Value gradient(Builder *b, const Ins *i)
{
    Value z = scores(b, i), lse = i->in[2], dloss = i->in[3];
    Value p = build1(b, OP_exp, build2(b, OP_sub, z, lse));
    Value one = build_cast(b, is_target(b, i), type_of(b->m, p)->dtype);
    Value dz = build2(b, OP_mul, build2(b, OP_sub, p, one), dloss);
    return build_cast(b, dz, type_of(b->m, i->in[0])->dtype);
}

static void expand_region(Expand *e, Region *r)
{
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Value out[2];
        for (uint32_t x = 0; x < i->nin; x++)
            i->in[x] = map_get(&e->map, i->in[x]);
        if (i->body)
            expand_region(e, i->body);
        bool loss = i->op == OP_cross_entropy;
        if ((!loss && i->op != OP_cross_entropy_grad) || !classes_are_split(e->m, i)) {
            vec_push(e->m->arena, &r->ins, i);
            continue;
        }
        Builder b = builder_at(e->m, r, i);
        if (loss)
            losses(&b, i, out);
        else
            out[0] = gradient(&b, i);
        for (uint32_t x = 0; x < i->nout; x++)
            map_set(e->m, &e->map, i->out[x], build_as(&b, out[x], *type_of(e->m, i->out[x])));
    }
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&e->map, r->results.data[k]);
}

void shard_classes(Module *m, Fn *fn)
{
    Expand e = {.m = m};
    expand_region(&e, fn->body);
}
