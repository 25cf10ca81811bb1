/* tied.c - a gradient of which a part is made at each end of a pipeline: of a table that is looked
 * up and multiplied by, or of what is computed before the layers and used before and after them.
 * Layers being stages on several ranks, one part is made on the first of them and one on the last:
 *
 *   before:  give loss, add (scatter_add ...), (dot ...)
 *   after:   give loss, scatter_add ..., dot ...
 *
 * Over the microbatches each is added up where it is made; the sums are added afterwards. What is
 * made of a sum of both parts is linear in it, so that each end makes it of its own part:
 *
 *   before:  give loss, scatter_add (add %a, %b)
 *   after:   give loss, scatter_add %a, scatter_add %b */
#include "passes/simplify/simplify.h"
#include "passes/step/parts.h"
#include "passes/step/tied.h"
#include "passes/walk.h"

/* A value as a sum: of what is known at the first stage (or all), and of the rest; 0: nothing. */
typedef struct Ends {
    Value sum[2];
    bool known, mixed; /* mixed: it is no such sum */
} Ends;

typedef struct Splitter {
    Builder b;
    const StageSet *at;
    Ends *ends; /* per value */
} Splitter;

static const Ends *split(Splitter *s, Value v);

static bool at_both_ends(const Splitter *s, Value v)
{
    return (s->at[v] & AT_FIRST) && (s->at[v] & AT_LAST);
}

static void split_add(Splitter *s, const Ins *i, Ends *to)
{
    const Ends x = *split(s, i->in[0]), y = *split(s, i->in[1]);
    const Type t = *type_of(s->b.m, i->out[0]);
    to->mixed = x.mixed || y.mixed;
    for (int e = 0; e < 2 && !to->mixed; e++)
        if (x.sum[e] && y.sum[e])
            to->sum[e] = build2(&s->b, OP_add, x.sum[e], y.sum[e]);
        else if (x.sum[e] || y.sum[e])
            to->sum[e] = build_as(&s->b, x.sum[e] ? x.sum[e] : y.sum[e], t);
}

/* The instruction with the part of its operands that is of one end; 0: they have none. All operands
 * in which it is not linear are at both ends. */
static Value at_end(Splitter *s, const Ins *i, uint32_t result, int end, const bool *parts)
{
    Module *m = s->b.m;
    ValueMap map = {0};
    bool any = false;
    for (uint32_t k = 0; k < i->nin; k++)
        any |= parts[k] && split(s, i->in[k])->sum[end];
    if (!any)
        return 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        Value part = parts[k] ? split(s, i->in[k])->sum[end] : 0;
        if (parts[k] && !part)
            part = build_filled(&s->b, *type_of(m, i->in[k]), 0);
        if (parts[k])
            map_set(m, &map, i->in[k], build_as(&s->b, part, *type_of(m, i->in[k])));
    }
    Builder b = builder_at(m, s->b.region, i);
    const Ins *copy = ir_clone(&b, i, &map);
    return copy->out[result];
}

/* Operands in which the op is linear together: those that it adds, or one. */
static void split_linear(Splitter *s, const Ins *i, Value v, Ends *to)
{
    bool parts[RULE_OPERANDS] = {false};
    uint32_t n = 0, result = 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        const bool adds = ins_adds(i, k);
        parts[k] = adds || !at_both_ends(s, i->in[k]);
        if (!parts[k])
            continue;
        to->mixed |= !ins_is_linear(s->b.m, i, k) || split(s, i->in[k])->mixed || (!adds && n++);
    }
    while (i->out[result] != v)
        result++;
    to->mixed |= OP_AMONG(i->op, OP_dot, OP_scatter_add) && i->nin == 3;
    for (int e = 0; e < 2 && !to->mixed; e++)
        to->sum[e] = at_end(s, i, result, e, parts);
}

static const Ends *split(Splitter *s, Value v)
{
    const Ins *i = s->b.m->values.data[v].def;
    Ends *to = &s->ends[v];
    if (to->known)
        return to;
    to->known = true;
    if (s->at[v])
        to->sum[s->at[v] & AT_FIRST ? 0 : 1] = v;
    else if (!i || i->home != s->b.region || i->body || i->nin > RULE_OPERANDS)
        to->mixed = true;
    else if (i->op == OP_add)
        split_add(s, i, to);
    else
        split_linear(s, i, v, to);
    return to;
}

uint32_t *tied_split(Module *m, Fn *fn, Arena *tmp)
{
    Region *body = fn->body;
    uint32_t *other = NEW_ARRAY(tmp, uint32_t, fn->results.n);
    Splitter s = {.b = {.m = m, .region = body, .backward = true},
                  .at = ir_available(m, body, fn, tmp),
                  .ends = NEW_ARRAY(tmp, Ends, m->values.n)};
    bool changed = false;
    for (size_t k = 0; k < fn->results.n; k++) {
        Value v = body->results.data[k];
        if (fn->results.data[k].role != RES_grad || s.at[v])
            continue;
        const Ends *e = split(&s, v);
        if (e->mixed || !e->sum[0] || !e->sum[1])
            continue; /* what is wrong is told of the program of all ranks */
        Type t = *type_of(m, v);
        body->results.data[k] = build_as(&s.b, e->sum[0], t);
        vec_push(m->arena, &body->results, build_as(&s.b, e->sum[1], t));
        other[k] = (uint32_t)body->results.n;
        changed = true;
    }
    if (changed)
        simplify_dce(m, fn, tmp); /* the sums */
    return other;
}

Value tied_sum(Builder *b, const Ins *loop, const uint32_t *other, size_t k)
{
    Builder sums = *b;
    sums.backward = true;
    return other && other[k] ? build2(&sums, OP_add, loop->out[k], loop->out[other[k] - 1])
                             : loop->out[k];
}
