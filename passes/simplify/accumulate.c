/* accumulate.c - sums that are made in place.
 *
 *   %d = dot %a, %b over k                          %s = dot %a, %b, %acc over k
 *   %s = add %acc, %d                        ->
 *
 * A product that adds to what is there costs no traffic beyond its own, an addition reads and
 * writes a whole tensor. Gradients are where it matters: those of a microbatch, of a tied weight,
 * of a weight used in every layer. Only what the differentiator made is changed: forward, the
 * operand of an addition mostly lives on. */
#include "passes/simplify/accumulate.h"
#include "passes/walk.h"

#include <string.h>

static void append_operand(Module *m, Ins *i, Value v)
{
    Value *in = NEW_ARRAY(m->arena, Value, i->nin + 1);
    memcpy(in, i->in, sizeof *in * i->nin);
    in[i->nin++] = v;
    i->in = in;
}

/* Result k of a loop, which it stacks: each iteration adds its slice of acc. */
static bool into_stacked(Module *m, Ins *loop, uint32_t k, Value acc)
{
    Value part = loop->body->results.data[k];
    if (type_of(m, acc)->dims[0].name != loop->attrs.dim.name)
        return false;
    Builder b = builder_at(m, loop->body, loop);
    Type t = *type_of(m, part);
    Value in[] = {repeat_slice(m, loop, acc), part};
    loop->body->results.data[k] = build_typed(&b, OP_add, NULL, 2, in, 1, &t, NULL)->out[0];
    return true;
}

/* Does result k of a loop add to what it is carried in as? */
static bool is_running_sum(const Module *m, const Ins *loop, uint32_t k)
{
    Value arg = loop->body->args.data[k], next = loop->body->results.data[k];
    const Ins *i = m->values.data[next].def;
    if (!i || i->home != loop->body || i->exact)
        return false;
    if (i->op == OP_add)
        return i->in[0] == arg || i->in[1] == arg;
    return OP_AMONG(i->op, OP_dot, OP_scatter_add, OP_grouped_weight) && ins_added(i) >= 0 &&
           i->in[ins_added(i)] == arg;
}

bool loop_adds(const Module *m, const Uses *uses, const Ins *loop, uint32_t k)
{
    const Region *b = loop->body;
    return is_running_sum(m, loop, k) && uses->count[b->args.data[k]] == 1 &&
           uses->count[b->results.data[k]] == 1;
}

static uint32_t result_number(const Ins *i, Value v)
{
    uint32_t k = 0;
    while (i->out[k] != v)
        k++;
    return k;
}

/* acc is there from the first instruction of r on. */
static bool from_the_start(const Module *m, const Region *r, Value acc)
{
    const ValueInfo *v = &m->values.data[acc];
    return !v->def || v->home != r;
}

static bool into_repeat(Module *m, const Uses *uses, Ins *loop, uint32_t k, Value acc)
{
    double start;
    if (k >= (uint32_t)loop->attrs.carried)
        return into_stacked(m, loop, k, acc);
    if (loop->attrs.relay) /* it would go through all stages, and the next one wait for it */
        return false;
    if (!loop_adds(m, uses, loop, k))
        return false;
    if (value_is_const(m, loop->in[k], &start) && start == 0) {
        loop->in[k] = acc;
        return true;
    }
    return from_the_start(m, loop->home, acc) &&
           accumulate_into(m, loop->home, uses, loop->in[k], acc);
}

bool accumulate_into(Module *m, const Region *r, const Uses *uses, Value g, Value acc)
{
    Ins *i = m->values.data[g].def;
    if (!i || i->home != r || uses->count[g] != 1 || !type_equal(type_of(m, g), type_of(m, acc)))
        return false;
    bool early = from_the_start(m, r, acc);
    if (i->exact)
        return false;
    if (i->op == OP_add)
        return early && (accumulate_into(m, r, uses, i->in[0], acc) ||
                         accumulate_into(m, r, uses, i->in[1], acc));
    if (i->op == OP_repeat)
        return into_repeat(m, uses, i, result_number(i, g), acc);
    if (!OP_AMONG(i->op, OP_dot, OP_scatter_add, OP_grouped_weight))
        return false;
    if (ins_added(i) >= 0)
        return early && accumulate_into(m, r, uses, i->in[ins_added(i)], acc);
    append_operand(m, i, acc);
    return true;
}

/* ---- all additions of a region -------------------------------------------------------------- */

typedef struct All {
    Module *m;
    Uses uses;
    size_t *place; /* per value: its instruction's number in its region, from 1 */
    ValueMap map;
    bool changed;
} All;

/* Is `before` there when the instruction that defines v runs? Both are used by one instruction. */
static bool there_before(const All *a, Value before, Value v)
{
    const ValueInfo *x = &a->m->values.data[before], *y = &a->m->values.data[v];
    return x->home != y->home || !x->def || a->place[before] < a->place[v];
}

/* v is computed in region r, and everything that computes it may be changed. */
static bool own(const All *a, const Region *r, Value v)
{
    const Ins *i = a->m->values.data[v].def;
    return i && i->home == r && i->backward;
}

/* The sum of two stacks of one loop is the stack of the iterations' sums. */
static bool sum_in_iterations(All *a, const Ins *i)
{
    Value x = i->in[0], y = i->in[1];
    Ins *loop = a->m->values.data[x].def;
    if (x == y || !own(a, i->home, x) || a->m->values.data[y].def != loop ||
        loop->op != OP_repeat || a->uses.count[x] != 1)
        return false;
    const uint32_t k = result_number(loop, x), n = result_number(loop, y);
    if (k < (uint32_t)loop->attrs.carried || n < (uint32_t)loop->attrs.carried)
        return false;
    Value *parts = loop->body->results.data, in[] = {parts[k], parts[n]};
    Builder b = builder_at(a->m, loop->body, loop);
    Type t = *type_of(a->m, parts[k]);
    parts[k] = build_typed(&b, OP_add, NULL, 2, in, 1, &t, NULL)->out[0];
    map_set(a->m, &a->map, i->out[0], x);
    a->uses.count[x] = a->uses.count[i->out[0]];
    return true;
}

/* A half, widened for an addition: the sum is not in the place of what it is added to. */
static bool is_widened(const Module *m, Value v)
{
    const Ins *i = m->values.data[v].def;
    return i && i->op == OP_cast && dtype_is_half(type_of(m, i->in[0])->dtype);
}

static bool merge(All *a, const Ins *i, uint32_t k)
{
    Value g = i->in[k], acc = i->in[1 - k];
    if (is_widened(a->m, acc))
        return false;
    if (g == acc || !own(a, i->home, g) || a->uses.count[acc] != 1 || !there_before(a, acc, g))
        return false;
    if (!accumulate_into(a->m, i->home, &a->uses, g, acc))
        return false;
    map_set(a->m, &a->map, i->out[0], g);
    a->uses.count[g] = a->uses.count[i->out[0]]; /* who read the sum reads g */
    return true;
}

static void merge_region(All *a, Region *r)
{
    size_t kept = 0;
    for (size_t n = 0; n < r->ins.n; n++)
        for (uint32_t k = 0; k < r->ins.data[n]->nout; k++)
            a->place[r->ins.data[n]->out[k]] = n + 1;
    for (size_t n = 0; n < r->ins.n; n++) {
        Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nin; k++)
            i->in[k] = map_get(&a->map, i->in[k]);
        if (i->body)
            merge_region(a, i->body);
        bool typed = i->op == OP_add && i->backward && !i->exact &&
                     type_equal(type_of(a->m, i->in[0]), type_of(a->m, i->out[0])) &&
                     type_equal(type_of(a->m, i->in[1]), type_of(a->m, i->out[0]));
        if (typed && (sum_in_iterations(a, i) || merge(a, i, 1) || merge(a, i, 0))) {
            a->changed = true;
            continue;
        }
        r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
    for (size_t n = 0; n < r->results.n; n++)
        r->results.data[n] = map_get(&a->map, r->results.data[n]);
}

bool accumulate_all(Module *m, Region *r, Arena *a)
{
    All all = {.m = m, .uses = ir_uses(m, r, a), .place = NEW_ARRAY(a, size_t, m->values.n)};
    merge_region(&all, r);
    return all.changed;
}
