/* shard_stage_set.c - where values are along the axis of stages; see shard.h and ir/stage_set.c.
 *
 * Outside of the loops over microbatches values go to all ranks where that is needed:
 *
 *   %a: f64[] = sum of squares of the embedding's gradient     at the first rank
 *   %b: f64[] = add %a, sum of squares of the layers' ...      needed by all
 *   ->  %c = broadcast %a {at=0, axes=pp};  %b = add %c, ...
 *
 * as late as that can be, as long as they are tensors; of numbers each is sent. */
#include "passes/spmd/shard.h"
#include "passes/walk.h"

typedef struct Sender {
    Module *m;
    Builder b;
    StageSet *at, *need; /* per value that there was before */
    size_t known;
    ValueMap map;
} Sender;

static StageSet at(const Sender *s, Value v)
{
    return v < s->known ? s->at[v] : AT_ALL;
}

static Value sent(Sender *s, Value v)
{
    const Module *m = s->m;
    Axes axis = m->layout.pipeline.axis;
    if (map_get(&s->map, v) != v)
        return map_get(&s->map, v);
    int64_t last = mesh_size(m, axis) - 1;
    Attrs a = {.axes = axis, .at = at(s, v) & AT_FIRST ? 0 : last};
    Value y = build(&s->b, OP_broadcast, &a, 1, &v);
    s->m->values.data[y].name = m->values.data[v].name;
    map_set(s->m, &s->map, v, y);
    return y;
}

/* The stages that have all operands, of those operands that are sent. */
static StageSet meet(const Sender *s, const Ins *i)
{
    StageSet all = AT_ALL;
    for (uint32_t k = 0; k < i->nin; k++)
        all &= at(s, i->in[k]);
    return all;
}

static bool has_tensor(const Sender *s, const Ins *i)
{
    bool any = false;
    for (uint32_t k = 0; k < i->nin; k++)
        any |= at(s, i->in[k]) != AT_ALL && type_of(s->m, i->in[k])->rank > 0;
    return any;
}

static void instruction(Sender *s, Ins *i)
{
    StageSet where = meet(s, i), needed = op_is(i->op, EFFECT) ? AT_ALL : 0;
    for (uint32_t k = 0; k < i->nout; k++)
        needed |= s->need[i->out[k]];
    s->b.span = i->span, s->b.path = i->path, s->b.block = i->block, s->b.backward = i->backward;
    bool later = where && has_tensor(s, i) && i->nout;
    for (uint32_t k = 0; (needed & ~where) && !later && k < i->nin; k++)
        if (at(s, i->in[k]) != AT_ALL)
            i->in[k] = sent(s, i->in[k]);
    where = meet(s, i);
    for (uint32_t k = 0; k < i->nout; k++)
        s->at[i->out[k]] = where;
    vec_push(s->m->arena, &s->b.region->ins, i);
}

/* Layers are everywhere; all else has no place yet. */
static void place_layers(Module *m)
{
    for (size_t k = 0; k < m->tensors.n; k++) {
        Tensor *t = &m->tensors.data[k];
        t->at = type_find(&t->type, m->layout.pipeline.dim) >= 0 ? AT_ALL : 0;
    }
}

/* Only what all ranks end up with is needed by all. */
void shard_broadcast(Module *m, Fn *fn, Arena *tmp)
{
    place_layers(m);
    Region *r = fn->body;
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    Sender s = {.m = m, .b = {.m = m, .region = r}, .known = m->values.n};
    s.at = ir_available(m, r, fn, tmp);
    s.need = ir_stage_set(m, fn, tmp);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++)
        if (old[k]->op == OP_repeat)
            vec_push(m->arena, &r->ins, old[k]);
        else
            instruction(&s, old[k]);
    s.b = (Builder){.m = m, .region = r};
    for (size_t k = 0; k < r->results.n; k++) {
        Value *v = &r->results.data[k];
        if (s.need[*v] == AT_ALL && fn->results.data[k].role < RES_grad && at(&s, *v) != AT_ALL)
            *v = sent(&s, *v);
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct Sent {
    Ins *ins; /* the broadcast */
    Value v;
} Sent;

/* Sums of the microbatches' loop go to the other ranks that need them, behind the loop: a parameter
 * that is read before and after the layers may have all of its gradient from one side. True: there
 * are some. */
static bool send_sums(Module *m, Fn *fn, Arena *tmp)
{
    Region *r = fn->body;
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    Sender s = {.m = m, .b = {.m = m, .region = r, .backward = true}, .known = m->values.n};
    VEC(Sent) all = {0};
    s.at = ir_available(m, r, fn, tmp);
    s.need = ir_stage_set(m, fn, tmp);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        const Ins *i = old[k];
        vec_push(m->arena, &r->ins, old[k]);
        s.b.span = i->span;
        for (uint32_t o = 0; i->op == OP_repeat && !ir_is_staged(m, i) && o < i->nout; o++)
            if (s.at[i->out[o]] && (s.need[i->out[o]] & ~s.at[i->out[o]])) {
                sent(&s, i->out[o]);
                vec_push(tmp, &all, ((Sent){r->ins.data[r->ins.n - 1], i->out[o]}));
            }
    }
    Value *map = NEW_ARRAY(tmp, Value, m->values.n);
    for (size_t k = 0; k < all.n; k++)
        map[all.data[k].v] = all.data[k].ins->out[0];
    ir_replace(r, map);
    for (size_t k = 0; k < all.n; k++)
        all.data[k].ins->in[0] = all.data[k].v;
    return all.n > 0;
}

/* Parameters are where they are needed, and what belongs to them is there too. */
static bool spread(Module *m, Arena *tmp)
{
    bool changed = false;
    for (size_t f = 0; f < m->fns.n; f++) {
        Fn *fn = m->fns.data[f];
        changed |= send_sums(m, fn, tmp);
        const StageSet *need = ir_stage_set(m, fn, tmp);
        for (size_t k = 0; k < fn->args.n; k++) {
            if (fn->args.data[k].role > ARG_state)
                continue;
            Tensor *t = &m->tensors.data[m->tensors.data[fn->args.data[k].tensor].parameter];
            StageSet more = need[fn->body->args.data[k]] & ~t->at;
            t->at |= more;
            changed |= more != 0;
        }
    }
    for (size_t k = 0; k < m->tensors.n; k++)
        m->tensors.data[k].at = m->tensors.data[m->tensors.data[k].parameter].at;
    return changed;
}

void shard_places(Module *m, Arena *tmp)
{
    place_layers(m);
    while (spread(m, tmp))
        ;
    for (size_t k = 0; k < m->tensors.n; k++)
        if (!m->tensors.data[k].at) /* nothing needs it: all may have it, and it what it follows */
            m->tensors.data[k].at = AT_ALL;
    while (spread(m, tmp))
        ;
}
