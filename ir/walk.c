/* walk.c - counting uses, replacing values, copying instructions. */
#include "ir/ir.h"

#include <string.h>

static void count_uses(const Region *r, uint32_t *count)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        for (uint32_t k = 0; k < ins->nin; k++)
            count[ins->in[k]]++;
        if (ins->body)
            count_uses(ins->body, count);
    }
    for (size_t i = 0; i < r->results.n; i++)
        count[r->results.data[i]]++;
}

Uses ir_uses(const Module *m, const Region *r, Arena *a)
{
    Uses u = {NEW_ARRAY(a, uint32_t, m->values.n)};
    count_uses(r, u.count);
    return u;
}

void ir_replace(Region *r, const Value *map)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        Ins *ins = r->ins.data[i];
        for (uint32_t k = 0; k < ins->nin; k++)
            if (map[ins->in[k]])
                ins->in[k] = map[ins->in[k]];
        if (ins->body)
            ir_replace(ins->body, map);
    }
    for (size_t i = 0; i < r->results.n; i++)
        if (map[r->results.data[i]])
            r->results.data[i] = map[r->results.data[i]];
}

Value map_get(const ValueMap *map, Value v)
{
    return v < map->n && map->data[v] ? map->data[v] : v;
}

void map_set(Module *m, ValueMap *map, Value from, Value to)
{
    if (from >= map->n) {
        size_t n = m->values.n > from ? m->values.n * 2 : (size_t)from * 2 + 1;
        Value *data = NEW_ARRAY(m->arena, Value, n);
        if (map->n)
            memcpy(data, map->data, map->n * sizeof *data);
        map->data = data;
        map->n = n;
    }
    map->data[from] = to;
}

static Region *clone_region(Builder *b, const Region *r, ValueMap *map)
{
    Module *m = b->m;
    Builder inner = *b;
    inner.region = region_new(m, b->region);
    for (size_t i = 0; i < r->args.n; i++) {
        ValueInfo from = m->values.data[r->args.data[i]];
        map_set(m, map, r->args.data[i], region_arg(m, inner.region, from.type, from.name));
    }
    for (size_t i = 0; i < r->ins.n; i++)
        ir_clone(&inner, r->ins.data[i], map);
    for (size_t i = 0; i < r->results.n; i++)
        vec_push(m->arena, &inner.region->results, map_get(map, r->results.data[i]));
    return inner.region;
}

Ins *ir_clone(Builder *b, const Ins *i, ValueMap *map)
{
    Module *m = b->m;
    Value *in = NEW_ARRAY(m->arena, Value, i->nin);
    Type *types = NEW_ARRAY(m->arena, Type, i->nout);
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = map_get(map, i->in[k]);
    for (uint32_t k = 0; k < i->nout; k++)
        types[k] = *type_of(m, i->out[k]);
    Region *body = i->body ? clone_region(b, i->body, map) : NULL;
    Ins *copy = build_typed(b, i->op, &i->attrs, (int)i->nin, in, (int)i->nout, types, body);
    copy->span = i->span;
    copy->path = i->path;
    copy->block = i->block;
    copy->keep = i->keep;
    copy->exact = i->exact;
    for (uint32_t k = 0; k < i->nout; k++) {
        m->values.data[copy->out[k]].name = m->values.data[i->out[k]].name;
        map_set(m, map, i->out[k], copy->out[k]);
    }
    return copy;
}

bool ir_ends_product(const Module *m, const Ins *i)
{
    const Ins *add = i->op == OP_cast ? m->values.data[i->in[0]].def : NULL;
    if (!add || add->op != OP_add || !dtype_is_half(type_of(m, i->out[0])->dtype))
        return false;
    for (int k = 0; k < 2; k++) {
        const Ins *dot = m->values.data[add->in[k]].def;
        if (dot && dot->op == OP_dot && dtype_is_half(type_of(m, dot->in[0])->dtype) &&
            type_of(m, dot->out[0])->dtype == DT_f32)
            return true;
    }
    return false;
}

int arg_index(const Module *m, Value v)
{
    const ValueInfo *info = &m->values.data[v];
    if (info->def || !info->home)
        return -1;
    for (size_t i = 0; i < info->home->args.n; i++)
        if (info->home->args.data[i] == v)
            return (int)i;
    return -1;
}

const Ins *slice_loop(const Module *m, Value v, Value *stacked)
{
    int k = arg_index(m, v);
    const Ins *loop = k < 0 ? NULL : m->values.data[v].home->owner;
    if (!loop || loop->op != OP_repeat || k < loop->attrs.carried || k >= (int)loop->nin)
        return NULL;
    *stacked = loop->in[k];
    return loop;
}
