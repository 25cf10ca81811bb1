/* transfer.c - what computes has its operands on the device.
 *
 *   before:  y: [layers] on host = repeat layers (x, slice w on host) { x1 = dot x, w } -> x1, x
 *   after:   y: [layers] on host = repeat layers (x, slice w on host) {
 *                w1 = transfer w {device};  x1 = dot x, w1;  x2 = transfer x {host}
 *            } -> x1, x2
 *
 * A value is transferred once in the region that reads it, where it is read first. What is as large
 * as all layers is transferred in pieces (cut.c), unless something needs it as a whole. */
#include "passes/levels/levels.h"
#include "passes/view.h"
#include "passes/walk.h"

typedef struct Transfer {
    Module *m;
    Arena *tmp;
    DimList depth;
    VEC(Value) here; /* per value of another level: what it is on the device, or 0 */
    VEC(Value) set;  /* of which of those, in the regions that are open */
    Builder b;
    const Level *want; /* per result of the region that is open */
} Transfer;

static Value transfer(Builder *b, Value v, Level to)
{
    Attrs a = {.level = to};
    Value y = build(b, OP_transfer, &a, 1, &v);
    b->m->values.data[y].name = b->m->values.data[v].name;
    return y;
}

Value levels_bring(Builder *b, Value v, Level to)
{
    const Level from = type_of(b->m, v)->level;
    if (from == to)
        return v;
    if (from && to) /* every transfer begins or ends on the device */
        v = transfer(b, v, LEVEL_device);
    return transfer(b, v, to);
}

const Ins *levels_gaps(const Module *m, Value v, Name apart)
{
    const Ins *def = m->values.data[v].def;
    const Type *t = type_of(m, v);
    for (int k = 0; def && def->op == OP_window && k < t->rank; k++) {
        if (t->dims[k].name == def->attrs.along.name)
            return NULL;
        if (t->dims[k].name != apart && t->dims[k].size > 1)
            return def;
    }
    return NULL;
}

static Value fetched(Transfer *t, Value v)
{
    if (!type_of(t->m, v)->level)
        return v;
    while (t->here.n <= v)
        vec_push(t->tmp, &t->here, 0);
    if (t->here.data[v])
        return t->here.data[v];
    const Ins *inner = levels_gaps(t->m, v, 0);
    Value y;
    if (inner) { /* all of it is brought, once for all its windows, and they are taken there */
        const Value all = fetched(t, inner->in[0]);
        y = build(&t->b, OP_window, &inner->attrs, 1, &all);
        t->m->values.data[y].name = t->m->values.data[v].name;
    } else {
        y = transfer(&t->b, v, LEVEL_device);
    }
    t->here.data[v] = y;
    vec_push(t->tmp, &t->set, v);
    return y;
}

/* A constant that fills a value of all layers is put there a layer at a time. */
static Value filled(Transfer *t, Value v, Level to)
{
    Module *m = t->m;
    double number;
    const Type *type = type_of(m, v);
    if (!value_is_const(m, v, &number) || !levels_stacked(&t->depth, type))
        return levels_bring(&t->b, v, to);
    Region *body = region_new(m, t->b.region);
    region_arg(m, body, (Type){.dtype = DT_i32}, type->dims[0].name);
    Attrs attrs = {.dim = type->dims[0]};
    Ins *loop = build_typed(&t->b, OP_repeat, &attrs, 0, NULL, 0, NULL, body);
    Builder in = {.m = m, .region = body, .backward = t->b.backward};
    Value one = build_filled(&in, type_without(type_of(m, v), attrs.dim.name), number);
    Value all = repeat_stack(m, loop, levels_bring(&in, one, to));
    m->values.data[all].name = m->values.data[v].name;
    return all;
}

static void region(Transfer *t, Region *r, const Level *want, bool windows);

static void loop(Transfer *t, Region *r, Ins *i)
{
    Module *m = t->m;
    const uint32_t carried = (uint32_t)i->attrs.carried;
    Level *want = NEW_ARRAY(t->tmp, Level, i->nout + 1);
    for (uint32_t k = 0; k < i->nin; k++) {
        const Level l = type_of(m, i->body->args.data[k])->level;
        if (type_of(m, i->in[k])->level != l)
            i->in[k] = l ? filled(t, i->in[k], l) : fetched(t, i->in[k]);
    }
    for (uint32_t k = 0; k < i->nout; k++)
        want[k] = type_of(m, k < carried ? i->body->args.data[k] : i->out[k])->level;
    vec_push(m->arena, &r->ins, i);
    region(t, i->body, want, false);
}

/* A result of the region goes to its level once it is known. */
static void give(Transfer *t, Region *r, Value v)
{
    for (size_t k = 0; k < r->results.n; k++)
        if (r->results.data[k] == v && t->want[k])
            r->results.data[k] = levels_bring(&t->b, v, t->want[k]);
}

static void rest(void *ctx, Region *r, Ins *i)
{
    Transfer *t = ctx;
    Module *m = t->m;
    t->b = builder_at(m, r, i);
    for (size_t k = 0; !r->ins.n && k < r->args.n; k++)
        give(t, r, r->args.data[k]);
    if (i->op == OP_repeat) {
        loop(t, r, i);
        return;
    }
    const Level seen =
        op_is(i->op, VIEW) || i->op == OP_join ? type_of(m, i->out[0])->level : LEVEL_device;
    for (uint32_t k = 0; k < i->nin; k++)
        i->in[k] = seen ? levels_bring(&t->b, i->in[k], seen) : fetched(t, i->in[k]);
    vec_push(m->arena, &r->ins, i);
    for (uint32_t k = 0; k < i->nout; k++)
        give(t, r, i->out[k]);
}

/* want: the level of each result. */
static void region(Transfer *t, Region *r, const Level *want, bool windows)
{
    const size_t open = t->set.n;
    const Level *outside = t->want;
    LevelUse use = {.ctx = t, .rest = rest};
    t->want = want;
    levels_cut(t->m, r, want, windows, &t->depth, &use, t->tmp);
    t->want = outside;
    for (size_t k = 0; k < r->results.n; k++) {
        t->b = (Builder){.m = t->m, .region = r, .block = t->b.block};
        Value *v = &r->results.data[k];
        *v = want[k] ? levels_bring(&t->b, *v, want[k]) : fetched(t, *v);
    }
    while (t->set.n > open)
        t->here.data[t->set.data[--t->set.n]] = 0;
}

void levels_transfer(Module *m, Fn *fn, Arena *tmp)
{
    Transfer t = {.m = m, .tmp = tmp, .depth = levels_depth(m)};
    Level *want = NEW_ARRAY(tmp, Level, fn->results.n + 1);
    for (size_t k = 0; k < fn->results.n; k++)
        if (fn->results.data[k].role == RES_update)
            want[k] = m->tensors.data[fn->results.data[k].tensor].type.level;
    region(&t, fn->body, want, true);
}
