/* sample.c - a text is continued from one position: the logits of all others are not computed.
 *
 * at_position pushes the choice of the position back through what maps each position by itself
 * (pointwise ops, products and sums over other dims), so that the head is one row. What compares
 * indices by position is computed for all of them. What computed all positions and is then without
 * use is swept. */
#include "grammar/elab.h"

#include <string.h>

typedef struct Chosen {
    Elab *e;
    Dim along;
    Value pos;
    ValueMap done;
    int nest;
} Chosen;

static Value choose(Chosen *c, Value v);

/* The same instruction on operands that have lost the dim. */
static Value rebuild(Chosen *c, const Ins *i)
{
    Value in[3];
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = choose(c, i->in[k]);
    Type t = *type_of(c->e->module, i->out[0]);
    int at = type_find(&t, c->along.name);
    memmove(&t.dims[at], &t.dims[at + 1], (size_t)(t.rank - at - 1) * sizeof(Dim));
    t.dims[--t.rank] = (Dim){0};
    Builder b = c->e->b;
    b.span = i->span;
    b.path = i->path;
    b.block = i->block;
    return build_typed(&b, i->op, &i->attrs, (int)i->nin, in, 1, &t, NULL)->out[0];
}

static bool maps_each(const Chosen *c, const Ins *def);

/* Numbers can be looked up by position; indices and conditions are what is made of numbers that
 * can. */
static bool can_choose(const Chosen *c, Value v)
{
    const Module *m = c->e->module;
    const Type *t = type_of(m, v);
    return type_find(t, c->along.name) < 0 || dtype_is_float(t->dtype) ||
           maps_each(c, m->values.data[v].def);
}

/* Is each position of the result made of the same position of the operands, one by one? */
static bool maps_each(const Chosen *c, const Ins *def)
{
    if (!def || def->home != c->e->b.region ||
        !(op_is(def->op, POINTWISE) || def->op == OP_cast || def->op == OP_dot ||
          def->op == OP_sum))
        return false;
    for (uint32_t k = 0; k < def->nin; k++)
        if (!can_choose(c, def->in[k]))
            return false;
    return true;
}

static Value choose(Chosen *c, Value v)
{
    enum { DEEPEST = 400 };
    Module *m = c->e->module;
    if (type_find(type_of(m, v), c->along.name) < 0)
        return v;
    Value known = map_get(&c->done, v);
    if (known != v)
        return known;
    const Ins *def = m->values.data[v].def;
    bool deep = c->nest >= DEEPEST && dtype_is_float(type_of(m, v)->dtype);
    Value r;
    if (!deep && maps_each(c, def)) {
        c->nest++;
        r = rebuild(c, def);
        c->nest--;
    } else {
        Attrs attrs = {.dim = c->along};
        r = build(&c->e->b, OP_gather, &attrs, 2, (Value[]){v, c->pos});
    }
    m->values.data[r].name = m->values.data[v].name;
    map_set(m, &c->done, v, r);
    return r;
}

Value at_position(Elab *e, Value v, Dim along, Value pos)
{
    Chosen c = {.e = e, .along = along, .pos = pos};
    return choose(&c, v);
}

/* ---- dropping what has no use ------------------------------------------------------------- */

static void count(const Module *m, const Region *r, int step, uint32_t *uses)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        for (uint32_t k = 0; k < ins->nin; k++)
            uses[ins->in[k]] += (uint32_t)step;
        if (ins->body)
            count(m, ins->body, step, uses);
    }
    for (size_t i = 0; i < r->results.n; i++)
        uses[r->results.data[i]] += (uint32_t)step;
}

/* Drops values that a scan stacks under a name that nobody reads after it. */
static void drop_stacked(Ins *loop, uint32_t *uses)
{
    uint32_t kept = (uint32_t)loop->attrs.carried;
    for (uint32_t k = kept; k < loop->nout; k++) {
        const Value v = loop->body->results.data[k];
        uses[v] -= uses[loop->out[k]] == 0;
        if (!uses[loop->out[k]])
            continue;
        loop->body->results.data[kept] = v;
        loop->out[kept++] = loop->out[k];
    }
    loop->body->results.n = loop->nout = kept;
}

static void drop(const Module *m, Region *r, uint32_t *uses)
{
    size_t kept = r->ins.n;
    for (size_t i = r->ins.n; i-- > 0;) {
        Ins *ins = r->ins.data[i];
        bool used = op_is(ins->op, EFFECT);
        for (uint32_t k = 0; k < ins->nout; k++)
            used |= uses[ins->out[k]] > 0;
        if (used) {
            if (ins->op == OP_repeat)
                drop_stacked(ins, uses);
            if (ins->body)
                drop(m, ins->body, uses);
            r->ins.data[--kept] = ins;
            continue;
        }
        for (uint32_t k = 0; k < ins->nin; k++)
            uses[ins->in[k]]--;
        if (ins->body)
            count(m, ins->body, -1, uses);
    }
    if (!r->ins.n)
        return;
    memmove(r->ins.data, r->ins.data + kept, (r->ins.n - kept) * sizeof *r->ins.data);
    r->ins.n -= kept;
}

void sweep(Elab *e, Region *r)
{
    uint32_t *uses = NEW_ARRAY(e->arena, uint32_t, e->module->values.n + 1);
    count(e->module, r, 1, uses);
    drop(e->module, r, uses);
}
