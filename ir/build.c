/* build.c - the only code that makes an instruction. */
#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void bug(Module *m, Op op, const char *what, int nin, const Value *in)
{
    const char *all = "";
    for (int i = 0; i < nin; i++) {
        const Type *t = type_of(m, in[i]);
        all = arena_printf(m->arena, "%s\n  operand %d '%s': %s[", all, i,
                           name_str(m->names, m->values.data[in[i]].name), dtype_name(t->dtype));
        for (int k = 0; k < t->rank; k++)
            all = arena_printf(m->arena, "%s%s%s=%lld", all, k ? ", " : "",
                               name_str(m->names, t->dims[k].name), (long long)t->dims[k].size);
        all = arena_printf(m->arena, "%s]", all);
    }
    ir_broken(m, NULL, "building %s: %s%s", op_info[op].name, what, all);
}

Ins *build_typed(Builder *b, Op op, const Attrs *attrs, int nin, const Value *in, int nout,
                 const Type *types, Region *body)
{
    Module *m = b->m;
    Ins *i = NEW(m->arena, Ins);
    i->op = op;
    i->nin = (uint32_t)nin;
    i->nout = (uint32_t)nout;
    i->in = NEW_ARRAY(m->arena, Value, nin);
    i->out = NEW_ARRAY(m->arena, Value, nout);
    if (nin)
        memcpy(i->in, in, (size_t)nin * sizeof *in);
    if (attrs)
        i->attrs = *attrs;
    i->body = body;
    if (body)
        body->owner = i;
    i->home = b->region;
    i->span = b->span;
    i->path = b->path;
    i->block = b->block;
    i->backward = b->backward;
    i->again = b->again;
    for (int k = 0; k < nout; k++) {
        i->out[k] = value_new(m, b->region, types[k], name_intern(m->names, op_info[op].name));
        m->values.data[i->out[k]].def = i;
    }
    vec_push(m->arena, &b->region->ins, i);
    return i;
}

/* The dims of a list in the order in which a type has them. */
static void order_as(DimList *l, const Type *t)
{
    DimList in_order = {0};
    for (int i = 0; i < t->rank; i++)
        if (dims_have(l, t->dims[i].name))
            in_order.dim[in_order.n++] = t->dims[i];
    *l = in_order;
}

Ins *build_ins(Builder *b, Op op, const Attrs *attrs, int nin, const Value *in)
{
    Type types[8];
    Attrs a = attrs ? *attrs : (Attrs){0};
    const char *wrong = type_check(b->m, op, &a, nin, in, 8, types);
    if (wrong)
        bug(b->m, op, wrong, nin, in);
    if (op == OP_dot ||
        op == OP_sum) /* sums are made in this order: passes/library/product.h, plan/nest.h */
        order_as(&a.over, type_of(b->m, in[0]));
    return build_typed(b, op, &a, nin, in, op_info[op].results, types, NULL);
}

Value build(Builder *b, Op op, const Attrs *attrs, int nin, const Value *in)
{
    return build_ins(b, op, attrs, nin, in)->out[0];
}

Value build1(Builder *b, Op op, Value x)
{
    return build(b, op, NULL, 1, &x);
}

Value build2(Builder *b, Op op, Value x, Value y)
{
    return build(b, op, NULL, 2, (Value[]){x, y});
}

Value build_const(Builder *b, DType t, double value)
{
    Attrs a = {.value = value};
    return build_typed(b, OP_const, &a, 0, NULL, 1, &(Type){.dtype = t}, NULL)->out[0];
}

Value build_cast(Builder *b, Value x, DType t)
{
    Type type = *type_of(b->m, x);
    if (type.dtype == t)
        return x;
    type.dtype = t;
    return build_typed(b, OP_cast, NULL, 1, &x, 1, &type, NULL)->out[0];
}

Value build_sum(Builder *b, Value x, const DimList *over)
{
    Attrs a = {.over = *over};
    return over->n ? build(b, OP_sum, &a, 1, &x) : x;
}

Value build_dot(Builder *b, Value x, Value y, const DimList *over)
{
    Attrs a = {.over = *over};
    return build(b, OP_dot, &a, 2, (Value[]){x, y});
}

Value build_iota(Builder *b, DType t, Dim d)
{
    Attrs a = {.dim = d};
    Type type = {.dtype = t, .rank = 1, .dims = {d}};
    return build_typed(b, OP_iota, &a, 0, NULL, 1, &type, NULL)->out[0];
}

Value build_as(Builder *b, Value x, Type t)
{
    t.indexes = type_of(b->m, x)->indexes;
    t.level = type_of(b->m, x)->level;
    if (type_equal(type_of(b->m, x), &t))
        return x;
    return build_typed(b, OP_copy, NULL, 1, &x, 1, &t, NULL)->out[0];
}

Value attention_queries(Builder *b, const Attrs *a, Value q, Value k)
{
    const Type *of_q = type_of(b->m, q), *of_k = type_of(b->m, k);
    Type t = {.dtype = of_q->dtype};
    for (int i = 0; i < of_k->rank; i++)
        if (of_k->dims[i].name != attention_keys(a) && type_find(of_q, of_k->dims[i].name) < 0)
            t.dims[t.rank++] = of_k->dims[i];
    if (!t.rank || t.rank + of_q->rank > MAX_RANK)
        return q;
    for (int i = 0; i < of_q->rank; i++)
        t.dims[t.rank++] = of_q->dims[i];
    return build_as(b, q, t);
}
