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
    Arena *tmp;
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

/* The part of v that is of one end, as a value of its type. */
static Value part(Splitter *s, Value v, int end)
{
    const Type t = *type_of(s->b.m, v);
    const Value x = split(s, v)->sum[end];
    return x ? build_as(&s->b, x, t) : build_filled(&s->b, t, 0);
}

/* Has one of these operands a part that is of this end? */
static bool has_part(Splitter *s, const Ins *i, const bool *parts, int end)
{
    bool any = false;
    for (uint32_t k = 0; k < i->nin; k++)
        any |= parts[k] && split(s, i->in[k])->sum[end];
    return any;
}

/* The instruction with the part of its operands that is of one end; 0: they have none. All operands
 * in which it is not linear are at both ends. */
static Value at_end(Splitter *s, const Ins *i, uint32_t result, int end, const bool *parts)
{
    ValueMap map = {0};
    if (!has_part(s, i, parts, end))
        return 0;
    for (uint32_t k = 0; k < i->nin; k++)
        if (parts[k])
            map_set(s->b.m, &map, i->in[k], part(s, i->in[k], end));
    Builder b = builder_at(s->b.m, s->b.region, i);
    return ir_clone(&b, i, &map)->out[result];
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
    to->mixed |= OP_AMONG(i->op, OP_dot, OP_scatter_add, OP_grouped_weight) && ins_added(i) >= 0;
    for (int e = 0; e < 2 && !to->mixed; e++)
        to->sum[e] = at_end(s, i, result, e, parts);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static bool is_zero(const Module *m, Value v)
{
    double x;
    return value_is_const(m, v, &x) && x == 0;
}

/* Is i linear in those of its operands that are marked, taken together? None may be. */
static bool linear_together(const Module *m, const Ins *i, const bool *linear)
{
    uint32_t n = 0, alone = 0, added = 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        const bool adds = ins_adds(i, k), here = linear[i->in[k]];
        n += here;
        alone += here && !adds;
        added += adds && !here && !is_zero(m, i->in[k]);
        if (here && !ins_is_linear(m, i, k))
            return false;
    }
    const bool product =
        OP_AMONG(i->op, OP_dot, OP_scatter_add, OP_grouped_weight) && ins_added(i) >= 0;
    return !n || (alone <= 1 && !added && (!product || alone == 1));
}

/* Is all that a loop carries, and v of what it stacks, linear in what it begins with and in the
 * operands that are marked? So it is of gradients; the other operands are what they are taken at.
 */
static bool loop_is_linear(const Splitter *s, const Ins *loop, const bool *parts, Arena *tmp)
{
    const Module *m = s->b.m;
    const Region *r = loop->body;
    bool *linear = NEW_ARRAY(tmp, bool, m->values.n);
    for (uint32_t k = 0; k < loop->nin; k++)
        linear[r->args.data[k]] = parts[k];
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        bool any = false;
        for (uint32_t k = 0; k < i->nin; k++) {
            any |= linear[i->in[k]];
            if (m->values.data[i->in[k]].home != r && !at_both_ends(s, i->in[k]))
                return false;
        }
        if (i->body || !linear_together(m, i, linear))
            return false;
        for (uint32_t k = 0; k < i->nout; k++)
            linear[i->out[k]] = any;
    }
    for (uint32_t k = 0; k < loop->nout; k++)
        if (!linear[r->results.data[k]] && !is_zero(m, r->results.data[k]) &&
            (k < (uint32_t)loop->attrs.carried || !s->at[loop->out[k]]))
            return false;
    return true;
}

/* A loop of gradients, before the layers: one for each end, which goes through its part. */
static void split_loop(Splitter *s, const Ins *loop)
{
    bool *parts = NEW_ARRAY(s->tmp, bool, loop->nin);
    bool mixed = false;
    for (uint32_t k = 0; k < loop->nin; k++) {
        parts[k] = k < (uint32_t)loop->attrs.carried || !at_both_ends(s, loop->in[k]);
        mixed |= parts[k] && split(s, loop->in[k])->mixed;
    }
    mixed = mixed || !loop_is_linear(s, loop, parts, s->tmp);
    for (uint32_t k = 0; k < loop->nout && mixed; k++)
        s->ends[loop->out[k]].mixed = true;
    for (int e = 0; e < 2 && !mixed; e++) {
        Value *in = NEW_ARRAY(s->tmp, Value, loop->nin);
        if (!has_part(s, loop, parts, e))
            continue;
        for (uint32_t k = 0; k < loop->nin; k++)
            in[k] = parts[k] ? part(s, loop->in[k], e) : loop->in[k];
        Builder b = builder_at(s->b.m, s->b.region, loop);
        const Ins *copy = repeat_part(&b, loop, loop->attrs.dim.size, in, 0);
        for (uint32_t k = 0; k < loop->nout; k++)
            if (!s->at[loop->out[k]])
                s->ends[loop->out[k]].sum[e] = copy->out[k];
    }
}

static const Ends *split(Splitter *s, Value v)
{
    const Ins *i = s->b.m->values.data[v].def;
    Ends *to = &s->ends[v];
    if (to->known)
        return to;
    for (uint32_t k = 0; i && k < i->nout; k++)
        s->ends[i->out[k]].known |= i->op == OP_repeat && !s->at[i->out[k]];
    to->known = true;
    if (s->at[v])
        to->sum[s->at[v] & AT_FIRST ? 0 : 1] = v;
    else if (!i || i->home != s->b.region || ir_is_staged(s->b.m, i))
        to->mixed = true;
    else if (i->op == OP_repeat)
        split_loop(s, i);
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
                  .ends = NEW_ARRAY(tmp, Ends, m->values.n),
                  .tmp = tmp};
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

Value tied_sum(Builder *b, const Value *sums, const uint32_t *other, size_t k)
{
    Builder backward = *b;
    backward.backward = true;
    return other && other[k] ? build2(&backward, OP_add, sums[k], sums[other[k] - 1]) : sums[k];
}
