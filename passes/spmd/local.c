/* local.c - pass local: how values lie leaves their types; what is left is the program of one rank.
 *
 * Sizes are those of a rank already. What an op did by its place in the mesh is written down: where
 * a split dim is counted, and which rows of a split table are here. A function that needs its place
 * along some axes is given it (ARG_place), so all ranks run the same text. */
#include "passes/spmd/local.h"
#include "passes/passes.h"
#include "passes/walk.h"

Value local_place(Local *l, Axes axes)
{
    for (size_t k = 0; k < l->fn->args.n; k++)
        if (l->fn->args.data[k].role == ARG_place && l->fn->args.data[k].tensor == axes)
            return l->fn->body->args.data[k];
    vec_push(l->m->arena, &l->fn->args, (FnArg){ARG_place, axes});
    return region_arg(l->m, l->fn->body, (Type){.dtype = DT_i32},
                      name_intern(l->m->names, "place"));
}

/* The rank's place among those that a dim is split on, in the order of its parts. */
static Value place_in(Local *l, Builder *b, Dim d)
{
    if (!d.inner)
        return local_place(l, d.axes);
    const Value ranks = build_const(b, DT_i32, (double)mesh_size(l->m, d.inner));
    const Value outer = build2(b, OP_mul, local_place(l, d.axes & ~d.inner), ranks);
    return build2(b, OP_add, outer, local_place(l, d.inner));
}

/* An index into a split dim as one into the rank's part, kept inside it; *here: does it have it? */
static Value index_here(Local *l, Builder *b, Dim d, Value index, Value *here)
{
    if (d.zigzag || d.inner || d.blocks) {
        Value before = local_below(l, b, d, index, NULL);
        Value next = build2(b, OP_add, index, build_const(b, DT_i32, 1));
        *here = build2(b, OP_gt, local_below(l, b, d, next, NULL), before);
        return build2(b, OP_min, before, build_const(b, DT_i32, (double)(d.size - 1)));
    }
    Value first = build2(b, OP_mul, local_place(l, d.axes), build_const(b, DT_i32, (double)d.size));
    Value at = build2(b, OP_sub, index, first);
    Value inside = build2(b, OP_max, at, build_const(b, DT_i32, 0));
    inside = build2(b, OP_min, inside, build_const(b, DT_i32, (double)(d.size - 1)));
    *here = build2(b, OP_eq, at, inside);
    return inside;
}

static Value where(Builder *b, Value mask, Value x)
{
    Value in[3] = {mask, x, build_const(b, type_of(b->m, x)->dtype, 0)};
    return build(b, OP_select, NULL, 3, in);
}

static Attrs without_axes(const Attrs *a)
{
    Attrs r = *a;
    Dim *const one[] = {&r.dim, &r.to, &r.along, &r.keys};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        *one[i] = dim_lying_as(*one[i], (Dim){0});
    for (int i = 0; i < r.over.n; i++)
        r.over.dim[i] = dim_lying_as(r.over.dim[i], (Dim){0});
    return r;
}

static void region(Local *l, Region *r);

/* The slot that a rank draws its rows at: those of all ranks follow each other, as many on each. */
static Value slot_here(Local *l, Builder *b, const Ins *i)
{
    const Dim rows = l->rows[i->out[0]];
    if (!rows.axes)
        return i->in[2];
    Value ranks = build_const(b, DT_i32, (double)mesh_size(l->m, rows.axes));
    return build2(b, OP_add, build2(b, OP_mul, i->in[2], ranks), place_in(l, b, rows));
}

/* A choice where ranks have experts of their own is numbered among those of this one, and has no
 * slot if it is of another's. d: the rank's part of experts. */
static void choose_here(Local *l, Builder *b, Ins *i, Dim d)
{
    const uint32_t choice = i->op == OP_combine_weight ? 2 : 1;
    Value here;
    d.size *= i->attrs.each ? i->attrs.each : 1;
    i->in[choice] = index_here(l, b, d, i->in[choice], &here);
    Value in[3] = {here, i->in[choice + 1], build_const(b, DT_i32, -1)};
    i->in[choice + 1] = build(b, OP_select, NULL, 3, in);
}

/* Parts of a sum are rounded each by its own numbers, or their errors would be alike. */
static Value seed_here(Local *l, Builder *b, const Ins *i)
{
    const double APART = 1 << 20; /* seeds of neighbours */
    const Axes axes = l->partial[i->out[0]];
    if (!axes)
        return i->in[3];
    const Value place = build_cast(b, local_place(l, axes), DT_i64);
    return build2(b, OP_add, i->in[3], build2(b, OP_mul, place, build_const(b, DT_i64, APART)));
}

static void instruction(Local *l, Region *r, Ins *i)
{
    Builder b = builder_at(l->m, r, i);
    Dim d = i->attrs.dim, along = i->attrs.along;
    Value here, x[3] = {0};
    for (uint32_t k = 0; k < i->nin; k++)
        i->in[k] = map_get(&l->map, i->in[k]);
    if (i->body)
        region(l, i->body);
    i->attrs = without_axes(&i->attrs);
    if (i->op == OP_all_gather && i->attrs.axes == l->m->layout.pipeline.axis)
        x[0] = local_in_order(l, &b, i);
    else if (i->op == OP_iota && d.axes) {
        x[0] = local_positions(l, &b, d, type_of(l->m, i->out[0])->dtype);
    } else if (i->op == OP_random) {
        i->in[2] = slot_here(l, &b, i);
    } else if (i->op == OP_stochastic_round) {
        i->in[3] = seed_here(l, &b, i);
    } else if (i->op == OP_gather && d.axes) {
        Value in[2] = {i->in[0], index_here(l, &b, d, i->in[1], &here)};
        x[0] = where(&b, here, build(&b, OP_gather, &i->attrs, 2, in));
    } else if (i->op == OP_scatter_add && d.axes) {
        i->in[1] = index_here(l, &b, d, i->in[1], &here);
        i->in[0] = where(&b, here, i->in[0]);
    } else if (OP_AMONG(i->op, OP_dispatch, OP_combine, OP_combine_weight) && d.axes) {
        choose_here(l, &b, i, d);
    } else if (OP_AMONG(i->op, OP_attention, OP_attention_grad, OP_attention_bias_grad) &&
               along.axes && (!i->attrs.keys.name || i->attrs.causal)) {
        ring_attention(l, &b, i, along, x);
    }
    if (!x[0])
        vec_push(l->m->arena, &r->ins, i);
    for (uint32_t k = 0; x[0] && k < i->nout; k++) {
        l->m->values.data[x[k]].name = l->m->values.data[i->out[k]].name;
        map_set(l->m, &l->map, i->out[k], build_as(&b, x[k], *type_of(l->m, i->out[k])));
    }
}

/* An iteration of the rank's layers as one of the whole model's. */
static void number_layers(Local *l, Region *r)
{
    const Ins *loop = r->owner;
    Value index = r->args.data[r->args.n - 1];
    Builder b = builder_at(l->m, r, loop);
    map_set(l->m, &l->map, index, local_layer(l, &b, index));
}

static void region(Local *l, Region *r)
{
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    bool counts = r->owner && ir_is_staged(l->m, r->owner) && repeat_counts(l->m, r->owner);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    if (counts)
        number_layers(l, r);
    for (size_t k = 0; k < n; k++)
        instruction(l, r, old[k]);
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&l->map, r->results.data[k]);
}

/* The axes that what is given by sequence is split on. */
static Axes batch_axes(const Module *m, const Fn *fn)
{
    for (size_t k = 0; k < fn->args.n; k++) {
        const Type *t = type_of(m, fn->body->args.data[k]);
        ArgRole role = fn->args.data[k].role;
        int at = type_find(t, m->batch.name);
        if ((role == ARG_tokens || role == ARG_input) && at >= 0)
            return t->dims[at].axes;
    }
    return 0;
}

PassStatus pass_local(Job *j)
{
    Module *m = j->m;
    if (!m->layout.mesh.n)
        return PASS_ok;
    for (size_t v = 1; v < m->values.n; v++) {
        Ins *def = m->values.data[v].def;
        if (def && def->op == OP_all_reduce)
            def->attrs.max = (type_of(m, def->in[0])->max & def->attrs.axes) != 0;
    }
    for (size_t f = 0; f < m->fns.n; f++)
        m->fns.data[f]->batch = batch_axes(m, m->fns.data[f]);
    Dim *rows = NEW_ARRAY(j->tmp, Dim, m->values.n);
    Axes *partial = NEW_ARRAY(j->tmp, Axes, m->values.n);
    for (size_t v = 1; v < m->values.n; v++) {
        const Type *t = type_of(m, (Value)v);
        rows[v] = t->rank ? t->dims[0] : (Dim){0};
        partial[v] = t->partial;
    }
    for (size_t v = 1; v < m->values.n; v++)
        type_strip(&m->values.data[v].type);
    for (size_t t = 0; t < m->tensors.n; t++) {
        Tensor *x = &m->tensors.data[t];
        for (int i = 0; i < x->type.rank; i++)
            x->axes[i] = x->type.dims[i].axes, x->zigzag[i] = x->type.dims[i].zigzag;
        type_strip(&x->type);
    }
    m->local = true;
    for (size_t f = 0; f < m->fns.n; f++) {
        Local l = {.m = m, .fn = m->fns.data[f], .rows = rows, .partial = partial};
        region(&l, l.fn->body);
    }
    return PASS_ok;
}
