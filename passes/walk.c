/* walk.c - walking and small builders shared by the passes; see walk.h. */
#include "passes/walk.h"

#include <string.h>

void each_use(Ins *i, UseFn *f, void *ctx)
{
    for (uint32_t k = 0; k < i->nin; k++)
        f(ctx, &i->in[k]);
    if (!i->body)
        return;
    for (size_t k = 0; k < i->body->ins.n; k++)
        each_use(i->body->ins.data[k], f, ctx);
    for (size_t k = 0; k < i->body->results.n; k++)
        f(ctx, &i->body->results.data[k]);
}

void each_ins(Region *r, InsFn *f, void *ctx)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        f(ctx, i);
        if (i->body)
            each_ins(i->body, f, ctx);
    }
}

Builder builder_at(Module *m, Region *r, const Ins *i)
{
    return (Builder){.m = m,
                     .region = r,
                     .span = i->span,
                     .path = i->path,
                     .block = i->block,
                     .backward = i->backward,
                     .again = i->again};
}

Value build_filled(Builder *b, Type t, double value)
{
    t.indexes = 0;
    return build_as(b, build_const(b, t.dtype, value), t);
}

Type type_without(const Type *t, Name d)
{
    Type r = {.dtype = t->dtype,
              .indexes = t->indexes,
              .partial = t->partial,
              .max = t->max,
              .level = t->level};
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].name != d)
            r.dims[r.rank++] = t->dims[i];
    return r;
}

Type type_stacked(const Type *t, Dim d)
{
    Type r = *t;
    memmove(r.dims + 1, r.dims, sizeof *r.dims * (size_t)r.rank);
    r.dims[0] = d;
    r.rank++;
    return r;
}

bool repeat_stacks(const Ins *loop, Value v)
{
    for (size_t k = (size_t)loop->attrs.carried; k < loop->body->results.n; k++)
        if (loop->body->results.data[k] == v)
            return true;
    return false;
}

Value repeat_stack(Module *m, Ins *loop, Value v)
{
    for (size_t i = (size_t)loop->attrs.carried; i < loop->body->results.n; i++)
        if (loop->body->results.data[i] == v)
            return loop->out[i];
    Type t = *type_of(m, v);
    Value stacked =
        value_new(m, loop->home, type_stacked(&t, loop->attrs.dim), m->values.data[v].name);
    m->values.data[stacked].def = loop;
    Value *out = NEW_ARRAY(m->arena, Value, loop->nout + 1);
    memcpy(out, loop->out, sizeof *out * loop->nout);
    out[loop->nout++] = stacked;
    loop->out = out;
    vec_push(m->arena, &loop->body->results, v);
    return stacked;
}

Value repeat_slice(Module *m, Ins *loop, Value stacked)
{
    Region *body = loop->body;
    Type t = type_without(type_of(m, stacked), loop->attrs.dim.name);
    Value index = body->args.data[--body->args.n];
    Value arg = region_arg(m, body, t, m->values.data[stacked].name);
    vec_push(m->arena, &body->args, index);
    Value *in = NEW_ARRAY(m->arena, Value, loop->nin + 1);
    memcpy(in, loop->in, sizeof *in * loop->nin);
    in[loop->nin++] = stacked;
    loop->in = in;
    return arg;
}

/* An array with one more value, at a place. */
static Value *with_one(Module *m, const Value *of, size_t n, size_t at, Value v)
{
    Value *all = NEW_ARRAY(m->arena, Value, n + 1);
    for (size_t k = 0; k <= n; k++)
        all[k] = k < at ? of[k] : k == at ? v : of[k - 1];
    return all;
}

Value repeat_carry(Module *m, Ins *loop, Value start)
{
    Region *body = loop->body;
    const size_t at = (size_t)loop->attrs.carried++;
    const Type t = *type_of(m, start);
    const Name name = m->values.data[start].name;
    Value after = value_new(m, loop->home, t, name), arg = region_arg(m, body, t, name);
    m->values.data[after].def = loop;
    loop->in = with_one(m, loop->in, loop->nin++, at, start);
    loop->out = with_one(m, loop->out, loop->nout++, at, after);
    body->args.data = with_one(m, body->args.data, --body->args.n, at, arg);
    body->args.cap = ++body->args.n;
    body->results.data = with_one(m, body->results.data, body->results.n, at, arg);
    body->results.cap = ++body->results.n;
    return arg;
}

/* A copy's instructions are of the same part of the program as what they are copies of. */
static void copy_marks(const Region *from, Region *to)
{
    for (size_t k = 0; k < from->ins.n; k++) {
        const Ins *i = from->ins.data[k];
        to->ins.data[k]->backward = i->backward;
        to->ins.data[k]->again = i->again;
        if (i->body)
            copy_marks(i->body, to->ins.data[k]->body);
    }
}

void region_copy(Builder *b, const Region *r, ValueMap *map)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        Ins *copy = ir_clone(b, i, map);
        copy->backward = i->backward;
        copy->again = i->again;
        if (i->body)
            copy_marks(i->body, copy->body);
    }
}

Ins *repeat_part(Builder *b, const Ins *loop, int64_t iterations, const Value *in, Value number)
{
    Module *m = b->m;
    ValueMap map = {0};
    Ins *copy = ir_clone(b, loop, &map);
    copy->attrs.dim.size = iterations;
    memcpy(copy->in, in, loop->nin * sizeof *in);
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nout; k++)
        m->values.data[copy->out[k]].type.dims[0].size = iterations;
    copy_marks(loop->body, copy->body);
    if (!number)
        return copy;
    Region *body = copy->body;
    Value index = body->args.data[loop->nin];
    Builder front = builder_at(m, body, loop);
    Value sum = build2(&front, OP_add, index, number);
    Ins *add = body->ins.data[--body->ins.n];
    Value *to = NEW_ARRAY(m->arena, Value, m->values.n);
    to[index] = sum;
    ir_replace(body, to);
    vec_push(m->arena, &body->ins, add);
    memmove(body->ins.data + 1, body->ins.data, (body->ins.n - 1) * sizeof(Ins *));
    body->ins.data[0] = add;
    return copy;
}

bool repeat_counts(Module *m, const Ins *loop)
{
    Arena *tmp = arena_new();
    bool counts = ir_uses(m, loop->body, tmp).count[loop->body->args.data[loop->nin]] > 0;
    arena_free(tmp);
    return counts;
}

static Value seen(Builder *b, Op op, const Attrs *attrs, Value of)
{
    Value v = build(b, op, attrs, 1, &of);
    b->m->values.data[v].name = b->m->values.data[of].name;
    return v;
}

Value build_window(Builder *b, Value stacked, Name dim, int64_t first, int64_t n)
{
    const Attrs w = {.along = {dim, n}, .at = first};
    return seen(b, OP_window, &w, stacked);
}

Value build_pick(Builder *b, Value stacked, Dim dim, int64_t at)
{
    const Attrs p = {.dim = dim, .at = at};
    return seen(b, OP_pick, &p, stacked);
}

void repeat_iteration(Builder *b, const Ins *loop, int64_t at, const Value *in, Value *out)
{
    Module *m = b->m;
    const Dim d = loop->attrs.dim;
    ValueMap here = {0};
    for (uint32_t k = 0; k < loop->nin; k++)
        map_set(m, &here, loop->body->args.data[k],
                k < (uint32_t)loop->attrs.carried ? in[k] : build_pick(b, loop->in[k], d, at));
    const Value index = loop->body->args.data[loop->nin];
    if (repeat_counts(m, loop))
        map_set(m, &here, index, build_const(b, type_of(m, index)->dtype, (double)at));
    region_copy(b, loop->body, &here);
    for (uint32_t k = 0; k < loop->nout; k++)
        out[k] = map_get(&here, loop->body->results.data[k]);
}

int64_t dot_terms(const Module *m, const Ins *dot)
{
    const Type *t = type_of(m, dot->in[0]);
    int64_t n = 1;
    for (int i = 0; i < dot->attrs.over.n; i++)
        n *= t->dims[type_find(t, dot->attrs.over.dim[i].name)].size;
    return n;
}

bool value_is_const(const Module *m, Value v, double *value)
{
    const Ins *i = m->values.data[v].def;
    while (i && i->op == OP_copy)
        i = m->values.data[i->in[0]].def;
    if (!i || i->op != OP_const)
        return false;
    *value = i->attrs.value;
    return true;
}

Value made_ahead_of(const Module *m, Value v)
{
    const Ins *cast = m->values.data[v].def;
    if (!cast || cast->op != OP_cast)
        return v;
    const Ins *mul = m->values.data[cast->in[0]].def;
    if (!dtype_is_fp8(type_of(m, v)->dtype) || !mul || mul->op != OP_mul)
        return cast->in[0];
    for (int k = 0; k < 2; k++) {
        const Ins *wide = m->values.data[mul->in[k]].def;
        if (wide && wide->op == OP_cast && type_same_dims(type_of(m, wide->out[0]), type_of(m, v)))
            return wide->in[0];
    }
    return v;
}

bool rows_multiplied(const Region *r, Name experts)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if ((i->op == OP_grouped && i->attrs.dim.name == experts) ||
            (i->body && rows_multiplied(i->body, experts)))
            return true;
    }
    return false;
}
