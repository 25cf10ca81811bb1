/* split_wgrad.c - pass weights: the gradients of a stage's weights in a loop of their own.
 *
 *   before:  g, dw = repeat layers (g, slice x, slice w, slice dw), reverse, relay {
 *                dw += x' g;  g = g w'
 *            }
 *   after:   g, gs = repeat layers (g, slice w), reverse, relay { g = g w';  stacks g }
 *            dw = repeat layers (slice x, slice gs, slice dw), reverse { dw += x' gs }
 *
 * Some schedules of pipelines do W apart from I (zb-h1): what the stage before waits for is the
 * gradient of a stage's input alone. What that needs stays in the relay; all else is moved to a
 * loop that carries nothing, and that stands behind everything that does not need it. What it reads
 * of the relay is stacked there, but for what can be computed once more from slices alone. A sum
 * that the relay itself reads stays there.
 *
 * why here: collectives are instructions, and go where what needs them goes. */
#include "passes/passes.h"
#include "pipeline/pipe_layout.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

#include <string.h>

typedef struct Split {
    Module *m;
    Arena *tmp;
    Ins *relay, *weights;
    bool *input; /* per value: the relay computes it for what it carries */
    Value *map;  /* per value of the relay's body: what it is in the weights' loop, or 0 */
    size_t nmap;
} Split;

/* ---- what is needed for what is carried ----------------------------------------------------- */

static void need(Split *s, Value v);

static void need_use(void *ctx, Value *use)
{
    need(ctx, *use);
}

static void need(Split *s, Value v)
{
    const ValueInfo *i = &s->m->values.data[v];
    if (i->home != s->relay->body || s->input[v])
        return;
    s->input[v] = true;
    for (uint32_t k = 0; i->def && k < i->def->nout; k++)
        s->input[i->def->out[k]] = true;
    if (i->def)
        each_use(i->def, need_use, s);
}

static bool is_input(const Split *s, const Ins *i)
{
    return s->input[i->out[0]];
}

/* The number of the sum of gradients that the loop around the relay carries, and that the relay has
 * as slice k; or -1. */
static int64_t sum_of(const Split *s, size_t k)
{
    const Region *around = s->relay->home;
    const int64_t carried = around->owner ? around->owner->attrs.carried : 0;
    for (int64_t c = 0; c < carried; c++)
        if (around->args.data[c] == s->relay->in[k])
            return c;
    return -1;
}

typedef struct Into {
    Split *s;
    bool *seen; /* per value */
} Into;

/* All results of the relay that a value around it is made of are needed. */
static void need_all_of(void *ctx, Value *use)
{
    const Into *to = ctx;
    Split *s = to->s;
    const ValueInfo *i = &s->m->values.data[*use];
    if (to->seen[*use] || !i->def || i->home != s->relay->home)
        return;
    to->seen[*use] = true;
    if (i->def != s->relay) {
        each_use(i->def, need_all_of, ctx);
        return;
    }
    for (uint32_t k = 0; k < i->def->nout; k++)
        if (i->def->out[k] == *use)
            need(s, s->relay->body->results.data[k]);
}

/* A sum that the relay reads, as a loop over experts does which adds to it and computes what is
 * carried, too, is written there as well: otherwise another microbatch would read it in between. */
static void need_sums(Split *s)
{
    const Region *around = s->relay->home;
    bool *done = NEW_ARRAY(s->tmp, bool, s->relay->nin + 1), more = true;
    while (more) {
        more = false;
        for (size_t k = (size_t)s->relay->attrs.carried; k < s->relay->nin; k++) {
            const int64_t c = sum_of(s, k);
            if (done[k] || c < 0 || !s->input[s->relay->body->args.data[k]])
                continue;
            Into to = {.s = s, .seen = NEW_ARRAY(s->tmp, bool, s->m->values.n)};
            Value sum = around->results.data[c];
            need_all_of(&to, &sum);
            more = done[k] = true;
        }
    }
}

/* ---- the weights' loop ---------------------------------------------------------------------- */

static bool is_carried(const Split *s, Value v)
{
    for (int64_t k = 0; k < s->relay->attrs.carried; k++)
        if (s->relay->body->args.data[k] == v)
            return true;
    return false;
}

/* Can v be computed once more from what is given slice by slice? */
static bool is_cheap(const Split *s, Value v)
{
    const ValueInfo *i = &s->m->values.data[v];
    if (i->home != s->relay->body)
        return true;
    if (!i->def)
        return !is_carried(s, v);
    if (i->def->body || i->def->nout > 1 || !op_is(i->def->op, POINTWISE | CHEAP) ||
        op_is(i->def->op, COMM | CALL))
        return false;
    for (uint32_t k = 0; k < i->def->nin; k++)
        if (!is_cheap(s, i->def->in[k]))
            return false;
    return true;
}

static Value moved(Split *s, Value v);

static void move_use(void *ctx, Value *use)
{
    *use = moved(ctx, *use);
}

static void take_over(Split *s, Ins *i)
{
    each_use(i, move_use, s);
    i->home = s->weights->body;
    if (i->body)
        i->body->parent = s->weights->body;
    for (uint32_t k = 0; k < i->nout; k++)
        s->m->values.data[i->out[k]].home = s->weights->body;
    vec_push(s->m->arena, &s->weights->body->ins, i);
}

static Value again(Split *s, const Ins *i)
{
    Value in[RULE_OPERANDS];
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = moved(s, i->in[k]);
    Builder b = builder_at(s->m, s->weights->body, i);
    b.again = true;
    Value v = build_typed(&b, i->op, &i->attrs, (int)i->nin, in, 1, type_of(s->m, i->out[0]), NULL)
                  ->out[0];
    s->m->values.data[v].name = s->m->values.data[i->out[0]].name;
    return v;
}

/* The value in the weights' loop that stands for one of the relay's body. */
static Value moved(Split *s, Value v)
{
    Module *m = s->m;
    const Region *from = s->relay->body;
    if (v >= s->nmap || m->values.data[v].home != from)
        return v;
    if (s->map[v])
        return s->map[v];
    const Ins *def = m->values.data[v].def;
    Value to = 0;
    size_t k = 0;
    while (!def && from->args.data[k] != v)
        k++;
    if (!def && k == s->relay->nin)
        to = s->weights->body->args.data[s->weights->body->args.n - 1];
    else if (!def && k >= (size_t)s->relay->attrs.carried)
        to = repeat_slice(m, s->weights, s->relay->in[k]);
    else if (def && is_cheap(s, v))
        to = again(s, def);
    else
        to = repeat_slice(m, s->weights, repeat_stack(m, s->relay, v));
    return s->map[v] = to;
}

/* The instructions that nothing carried needs, in their order. */
static void move_weights(Split *s)
{
    Region *body = s->relay->body;
    size_t kept = 0;
    for (size_t k = 0; k < body->ins.n; k++) {
        Ins *i = body->ins.data[k];
        if (i->nout && !is_input(s, i))
            take_over(s, i);
        else
            body->ins.data[kept++] = i;
    }
    body->ins.n = kept;
}

/* Results that are computed in the weights' loop now are its results. */
static void move_results(Split *s)
{
    Module *m = s->m;
    Ins *r = s->relay, *w = s->weights;
    size_t kept = (size_t)r->attrs.carried;
    w->out = NEW_ARRAY(m->arena, Value, r->nout + 1);
    for (size_t k = kept; k < r->nout; k++) {
        Value v = r->body->results.data[k];
        if (m->values.data[v].home == w->body) {
            vec_push(m->arena, &w->body->results, v);
            w->out[w->nout++] = r->out[k];
            m->values.data[r->out[k]].def = w;
        } else {
            r->body->results.data[kept] = v;
            r->out[kept++] = r->out[k];
        }
    }
    r->nout = (uint32_t)kept;
    r->body->results.n = kept;
}

/* ---- where it stands ------------------------------------------------------------------------ */

typedef struct Reads {
    const bool *late;
    bool any;
} Reads;

static void note_late(void *ctx, Value *use)
{
    Reads *r = ctx;
    r->any |= r->late[*use];
}

/* Behind all that does not need it. */
static void put_last(Split *s, Region *r)
{
    size_t n = r->ins.n, early = 0;
    bool *late = NEW_ARRAY(s->tmp, bool, s->m->values.n);
    VEC(Ins *) behind = {0};
    for (uint32_t k = 0; k < s->weights->nout; k++)
        late[s->weights->out[k]] = true;
    for (size_t k = 0; k < n; k++) {
        Ins *i = r->ins.data[k];
        Reads reads = {.late = late};
        each_use(i, note_late, &reads);
        if (!reads.any) {
            r->ins.data[early++] = i;
            continue;
        }
        for (uint32_t j = 0; j < i->nout; j++)
            late[i->out[j]] = true;
        vec_push(s->tmp, &behind, i);
    }
    r->ins.n = early;
    vec_push(s->m->arena, &r->ins, s->weights);
    for (size_t k = 0; k < behind.n; k++)
        vec_push(s->m->arena, &r->ins, behind.data[k]);
}

static void split(Module *m, Ins *relay, Arena *tmp)
{
    Region *home = relay->home;
    Split s = {.m = m, .tmp = tmp, .relay = relay, .nmap = m->values.n};
    s.input = NEW_ARRAY(tmp, bool, m->values.n);
    s.map = NEW_ARRAY(tmp, Value, m->values.n);
    for (int64_t k = 0; k < relay->attrs.carried; k++)
        need(&s, relay->body->results.data[k]);
    need_sums(&s);
    Builder b = builder_at(m, home, relay);
    Region *body = region_new(m, home);
    const Value index = relay->body->args.data[relay->nin];
    region_arg(m, body, *type_of(m, index), m->values.data[index].name);
    Attrs attrs = relay->attrs;
    attrs.relay = false;
    attrs.carried = 0;
    s.weights = build_typed(&b, OP_repeat, &attrs, 0, NULL, 0, NULL, body);
    home->ins.n--;
    move_weights(&s);
    move_results(&s);
    if (s.weights->nout)
        put_last(&s, home);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void find_relays(void *ctx, Ins *i)
{
    Ins **found = ctx;
    if (i->op == OP_repeat && i->attrs.relay && i->attrs.reverse)
        *found = i;
}

PassStatus pass_split_wgrad(Job *j)
{
    Module *m = j->m;
    Fn *fn = module_fn(m, "train");
    Ins *relay = NULL;
    bool splits;
    if (!fn || !m->layout.pipeline.axis)
        return PASS_ok;
    if (!pipe_layout_splits_wgrad(m, &splits))
        return PASS_error;
    each_ins(fn->body, find_relays, &relay);
    if (!relay || !splits)
        return PASS_ok;
    split(m, relay, j->tmp);
    simplify_cse(m, fn, j->tmp);
    simplify_dce(m, fn, j->tmp);
    return PASS_ok;
}
