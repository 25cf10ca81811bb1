/* stage_set.c - on which ranks along the axis of stages values are known, and needed.
 *
 * The iterations of a relay are stages on several ranks: what it carries begins on the first of
 * them (in reverse: the last) and ends on the last. All else is computed where it is needed. */
#include "ir/ir.h"

const char *const stage_names[3] = {"first", "middle", "last"};

bool ir_is_staged(const Module *m, const Ins *i)
{
    const Pipeline *p = &m->layout.pipeline;
    return i->op == OP_repeat && p->axis && i->attrs.dim.name == p->dim;
}

bool ir_layers_differ(const Module *m)
{
    const Pipeline *p = &m->layout.pipeline;
    for (size_t k = 0; k < p->layers.n; k++)
        if (p->layers.data[k] != p->max_layers)
            return true;
    return false;
}

/* Does i read one of the first n arguments of a region? */
static bool reads_argument(const Ins *i, const Region *of, int64_t n)
{
    for (uint32_t k = 0; k < i->nin; k++)
        for (int64_t a = 0; a < n; a++)
            if (i->in[k] == of->args.data[a])
                return true;
    for (size_t k = 0; i->body && i->op != OP_fused && k < i->body->ins.n; k++)
        if (reads_argument(i->body->ins.data[k], of, n))
            return true;
    return false;
}

/* Is i a part of a sum that an iteration hands on to the next? */
static bool adds_to_carried(const Ins *i)
{
    const Ins *loop = i->home->owner;
    return i->backward && loop && loop->op == OP_repeat &&
           reads_argument(i, i->home, loop->attrs.carried);
}

const Ins *ir_relay_before(const Ins *i, Ins *const *among, size_t n)
{
    const bool back = i->op == OP_repeat && i->attrs.relay && i->attrs.reverse;
    if (!back && !adds_to_carried(i))
        return NULL;
    for (size_t k = 0; k < n; k++)
        if (among[k]->op == OP_repeat && among[k]->attrs.relay && !among[k]->attrs.reverse)
            return among[k];
    return NULL;
}

static StageSet relay_begin(const Ins *i)
{
    return i->attrs.reverse ? AT_LAST : AT_FIRST;
}

static StageSet relay_end(const Ins *i)
{
    return i->attrs.reverse ? AT_FIRST : AT_LAST;
}

static bool crosses(const Module *m, const Ins *i)
{
    return op_is(i->op, COMM) && (i->attrs.axes & m->layout.pipeline.axis);
}

/* ---- need: from the last instruction to the first ---------------------------------------------
 */

typedef struct Need {
    const Module *m;
    StageSet *at;
    bool changed;
} Need;

static void need(Need *n, Value v, StageSet where)
{
    n->changed |= (where & ~n->at[v]) != 0;
    n->at[v] |= where;
}

static StageSet needed_of(const Need *n, const Ins *i)
{
    StageSet all = op_is(i->op, EFFECT) ? AT_ALL : 0;
    for (uint32_t k = 0; k < i->nout; k++)
        all |= n->at[i->out[k]];
    return all;
}

static void need_region(Need *n, const Region *r);

/* All ranks run their layers, and in each of them what they need. */
static void need_staged(Need *n, const Ins *i)
{
    const Region *b = i->body;
    uint32_t carried = (uint32_t)i->attrs.carried;
    for (uint32_t k = 0; k < i->nout; k++)
        if (n->at[i->out[k]] || (k < carried && n->at[b->args.data[k]]))
            need(n, b->results.data[k], AT_ALL);
    need_region(n, b);
    for (uint32_t k = 0; k < i->nin; k++)
        if (n->at[b->args.data[k]] || (k < carried && n->at[i->out[k]]))
            need(n, i->in[k], k < carried ? relay_begin(i) : AT_ALL);
}

static void need_repeat(Need *n, const Ins *i)
{
    const Region *b = i->body;
    uint32_t carried = (uint32_t)i->attrs.carried;
    for (uint32_t k = 0; k < i->nout; k++) {
        need(n, b->results.data[k], n->at[i->out[k]]);
        if (k < carried)
            need(n, b->results.data[k], n->at[b->args.data[k]]);
    }
    need_region(n, b);
    for (uint32_t k = 0; k < i->nin; k++) {
        need(n, i->in[k], n->at[b->args.data[k]]);
        if (k < carried)
            need(n, i->in[k], n->at[i->out[k]]);
    }
}

/* One kernel: all of it runs, or nothing. */
static void need_fused(Need *n, const Ins *i, StageSet at)
{
    for (size_t k = 0; k < i->body->args.n; k++)
        need(n, i->body->args.data[k], at);
    for (size_t k = 0; k < i->body->ins.n; k++)
        for (uint32_t x = 0; x < i->body->ins.data[k]->nout; x++)
            need(n, i->body->ins.data[k]->out[x], at);
    for (uint32_t k = 0; k < i->nin; k++)
        need(n, i->in[k], at);
}

/* The stages that have a broadcast's operand. */
static StageSet place_of_root(const Module *m, const Ins *i)
{
    int64_t last = mesh_size(m, i->attrs.axes) - 1;
    return i->attrs.at == 0 ? AT_FIRST : i->attrs.at == last ? AT_LAST : AT_MIDDLE;
}

static void need_ins(Need *n, const Ins *i)
{
    if (ir_is_staged(n->m, i)) {
        need_staged(n, i);
        return;
    }
    if (i->op == OP_repeat) {
        need_repeat(n, i);
        return;
    }
    StageSet at = needed_of(n, i);
    if (!at)
        return;
    if (i->op == OP_fused) {
        need_fused(n, i, at);
        return;
    }
    if (crosses(n->m, i)) { /* all ranks take part, and have the result */
        for (uint32_t k = 0; k < i->nout; k++)
            need(n, i->out[k], AT_ALL);
        at = i->op == OP_broadcast ? place_of_root(n->m, i) : AT_ALL;
    }
    for (uint32_t k = 0; k < i->nin; k++)
        need(n, i->in[k], at);
}

static void need_region(Need *n, const Region *r)
{
    for (size_t k = r->ins.n; k-- > 0;)
        need_ins(n, r->ins.data[k]);
}

static StageSet *everywhere(const Module *m, Arena *a)
{
    StageSet *at = NEW_ARRAY(a, StageSet, m->values.n);
    for (size_t v = 0; v < m->values.n; v++)
        at[v] = AT_ALL;
    return at;
}

StageSet *ir_stage_set(const Module *m, const Fn *fn, Arena *a)
{
    if (!m->layout.pipeline.axis)
        return everywhere(m, a);
    Need n = {.m = m, .at = NEW_ARRAY(a, StageSet, m->values.n)};
    for (size_t k = 0; k < fn->results.n; k++) {
        FnResult r = fn->results.data[k];
        need(&n, fn->body->results.data[k],
             r.role < RES_grad ? AT_ALL : m->tensors.data[r.tensor].at);
    }
    do {
        n.changed = false;
        need_region(&n, fn->body);
    } while (n.changed);
    return n.at;
}

/* ---- availability: from the first instruction to the last --------------------------------------
 */

typedef struct Available {
    const Module *m;
    StageSet *at;
} Available;

static void region(Available *a, const Region *r);

static void staged(Available *a, const Ins *i)
{
    uint32_t carried = (uint32_t)i->attrs.carried;
    for (uint32_t k = 0; k < i->nin; k++)
        a->at[i->body->args.data[k]] = k < carried ? AT_ALL : a->at[i->in[k]];
    region(a, i->body);
    for (uint32_t k = 0; k < i->nout; k++)
        a->at[i->out[k]] = k < carried ? relay_end(i) : a->at[i->body->results.data[k]];
}

/* Is result k of the loop over microbatches a sum that each stage of a rank would add to once more?
 * (What has the layers' dim is each stage's own part of it.) */
static bool added_by_each_stage(const Available *a, const Ins *i, uint32_t k)
{
    const Pipeline *p = &a->m->layout.pipeline;
    bool relays = false;
    for (size_t n = 0; n < i->body->ins.n; n++)
        relays |= i->body->ins.data[n]->attrs.relay;
    return relays && p->chunks > 1 && k < (uint32_t)i->attrs.carried &&
           type_find(type_of(a->m, i->out[k]), p->dim) < 0;
}

static void repeat(Available *a, const Ins *i)
{
    const Region *b = i->body;
    uint32_t carried = (uint32_t)i->attrs.carried;
    for (uint32_t k = 0; k < i->nin; k++)
        a->at[b->args.data[k]] = a->at[i->in[k]];
    for (bool changed = true; changed;) {
        changed = false;
        region(a, b);
        for (uint32_t k = 0; k < carried; k++) {
            StageSet both = a->at[b->args.data[k]] & a->at[b->results.data[k]];
            changed |= both != a->at[b->args.data[k]];
            a->at[b->args.data[k]] = both;
        }
    }
    for (uint32_t k = 0; k < i->nout; k++) {
        /* A start is stored there, too, also if no iteration reads it. */
        StageSet at = a->at[b->results.data[k]] & (k < carried ? a->at[b->args.data[k]] : AT_ALL);
        a->at[i->out[k]] = at == AT_ALL && added_by_each_stage(a, i, k) ? AT_LAST : at;
    }
}

static void region(Available *a, const Region *r)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        StageSet at = AT_ALL;
        if (i->op == OP_repeat) {
            ir_is_staged(a->m, i) ? staged(a, i) : repeat(a, i);
            continue;
        }
        for (uint32_t k = 0; k < i->nin && !(i->op == OP_broadcast && crosses(a->m, i)); k++)
            at &= a->at[i->in[k]];
        for (uint32_t k = 0; k < i->nout; k++)
            a->at[i->out[k]] = at;
    }
}

StageSet *ir_available(const Module *m, const Region *r, const Fn *fn, Arena *arena)
{
    Available a = {m, everywhere(m, arena)};
    if (!m->layout.pipeline.axis)
        return a.at;
    for (size_t k = 0; k < fn->args.n && k < r->args.n; k++)
        if (fn->args.data[k].role <= ARG_state && m->tensors.data[fn->args.data[k].tensor].at)
            a.at[r->args.data[k]] = m->tensors.data[fn->args.data[k].tensor].at;
    region(&a, r);
    return a.at;
}
