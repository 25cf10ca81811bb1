/* generate_loop.c - repeats of @generate: over layers, with caches of each; along the sequence,
 * whose state goes on from where it was. See generate.h. */
#include "passes/model/generate.h"
#include "passes/walk.h"

#include <string.h>

/* Has operand k of a loop, and what becomes of it, a use? */
static bool used(const Generate *g, const Ins *i, uint32_t k)
{
    const Region *b = i->body;
    const bool carried = k < (uint32_t)i->attrs.carried;
    return (k < i->nin && g->live[b->args.data[k]]) || (carried && g->live[i->out[k]]);
}

/* The type that a carried value has: what may differ between sequences has their dim. */
static Type carried_type(const Generate *g, const Type *t, bool scan)
{
    const Type r = generate_type(g, t, NEAR);
    const bool has = type_find(&r, g->batch.name) >= 0;
    return has || !(scan || type_find(&r, g->seq) >= 0) ? r : type_stacked(&r, g->batch);
}

/* x in the order and with the dims of t, which it may lack. */
static Value as(Generate *g, Builder *b, Value x, Type t)
{
    t.dtype = type_of(g->m, x)->dtype;
    return build_as(b, x, t);
}

typedef struct State {
    Value was;     /* what the cache had; 0: it is no state of a sequence */
    size_t number; /* of the cache */
} State;

/* The value with which a state begins: what was left, or, of a text that begins, its own. */
static Value begins(Generate *g, Frame *f, Builder *b, Value own, const Type *t, State *s)
{
    s->was = generate_cache(g, f, t, &s->number);
    g->cuts = 0;
    return build_as(b, build(b, OP_select, NULL, 3, (Value[]){g->fresh, own, s->was}), *t);
}

static void ends(Generate *g, Frame *f, Builder *b, Value v, const State *s)
{
    const Type t = *type_of(g->m, s->was);
    v = build(b, OP_select, NULL, 3, (Value[]){g->active, v, s->was});
    generate_leave(g, f, s->number, build_as(b, v, t));
}

/* The only iteration, within the frame around. */
static bool iteration(Generate *g, Frame *f, const Ins *i, const Value *start, State *s)
{
    Module *m = g->m;
    const Region *body = i->body;
    const Dim one = {.name = g->seq, .size = 1};
    Frame in = {.outer = f, .from = body, .to = f->to};
    Builder b = builder_at(m, f->to, i);
    for (uint32_t k = 0; k < i->nin; k++)
        if (start[k])
            map_set(m, &g->image[NEAR], body->args.data[k],
                    k < (uint32_t)i->attrs.carried
                        ? start[k]
                        : build(&b, OP_pick, &(Attrs){.dim = one}, 1, &start[k]));
    if (g->live[body->args.data[i->nin]])
        map_set(m, &g->image[NEAR], body->args.data[i->nin], g->begin);
    for (uint32_t k = 0; k < i->nout; k++) {
        const bool carried = k < (uint32_t)i->attrs.carried;
        if (carried ? !used(g, i, k) : !g->live[i->out[k]])
            continue;
        Value v = generate_image(g, &in, body->results.data[k], NEAR);
        if (!v)
            return false;
        if (carried) {
            v = as(g, &b, v, *type_of(m, start[k]));
            ends(g, f, &b, v, &s[k]);
        } else {
            const Type t = type_stacked(type_of(m, v), one);
            v = build_as(&b, v, t);
        }
        map_set(m, &g->image[NEAR], i->out[k], v);
    }
    return true;
}

/* The loop is the last of its region: what its operands are made of came before. */
static void put_last(Region *r, Ins *loop)
{
    size_t kept = 0;
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k] != loop)
            r->ins.data[kept++] = r->ins.data[k];
    r->ins.data[kept] = loop;
}

/* The arguments of the body, and where they are in it. */
static void open_body(Generate *g, const Ins *i, Ins *loop, const Value *start)
{
    Module *m = g->m;
    Region *body = loop->body;
    for (uint32_t k = 0; k < i->nin; k++) {
        if (!start[k])
            continue;
        Type t = *type_of(m, start[k]);
        if (k >= (uint32_t)i->attrs.carried)
            t = type_without(&t, i->attrs.dim.name);
        const Value was = i->body->args.data[k];
        map_set(m, &g->image[NEAR], was, region_arg(m, body, t, m->values.data[was].name));
    }
    const Value index = i->body->args.data[i->nin];
    const Value own = region_arg(m, body, *type_of(m, index), m->values.data[index].name);
    Builder b = builder_at(m, body, i);
    if (g->live[index] && i->attrs.dim.name == g->seq)
        map_set(m, &g->image[NEAR], index, build2(&b, OP_add, g->begin, own));
    else
        map_set(m, &g->image[NEAR], index, own);
}

/* The results of the body, and of the loop. */
static bool close_body(Generate *g, Frame *in, const Ins *i, const Value *start)
{
    Module *m = g->m;
    Ins *loop = in->loop;
    uint32_t to = 0;
    for (uint32_t k = 0; k < i->nout; k++) {
        const bool carried = k < (uint32_t)i->attrs.carried;
        if (carried ? !used(g, i, k) : !g->live[i->out[k]])
            continue;
        Value v = generate_image(g, in, i->body->results.data[k], NEAR);
        if (!v)
            return false;
        if (!carried) {
            map_set(m, &g->image[NEAR], i->out[k], repeat_stack(m, loop, v));
            continue;
        }
        Builder b = builder_at(m, in->to, i);
        loop->body->results.data[to] = as(g, &b, v, *type_of(m, start[k]));
        map_set(m, &g->image[NEAR], i->out[k], loop->out[to++]);
    }
    return true;
}

static bool around(Generate *g, Frame *f, const Ins *i, const Value *start, State *s)
{
    Module *m = g->m;
    Value in[250];
    Type types[250];
    uint32_t n = 0, carried = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        if (start[k]) {
            if (k < (uint32_t)i->attrs.carried)
                types[carried++] = *type_of(m, start[k]);
            in[n++] = start[k];
        }
    Attrs a = generate_attrs(g, &i->attrs, NEAR);
    a.carried = carried;
    Builder b = builder_at(m, f->to, i);
    Region *body = region_new(m, f->to);
    Ins *loop = build_typed(&b, OP_repeat, &a, (int)n, in, (int)carried, types, body);
    for (uint32_t k = 0; k < carried; k++)
        vec_push(m->arena, &body->results, 0);
    open_body(g, i, loop, start);
    Frame inner = {.outer = f, .from = i->body, .to = body, .loop = loop};
    if (!close_body(g, &inner, i, start))
        return false;
    put_last(f->to, loop);
    for (uint32_t k = 0; k < (uint32_t)i->attrs.carried; k++)
        if (s[k].was)
            ends(g, f, &b, map_get(&g->image[NEAR], i->out[k]), &s[k]);
    return true;
}

bool generate_loop(Generate *g, Frame *f, const Ins *i)
{
    Module *m = g->m;
    const bool scan = i->attrs.dim.name == g->seq;
    Value *start = NEW_ARRAY(g->tmp, Value, i->nin);
    State *s = NEW_ARRAY(g->tmp, State, i->nin);
    if (scan && i->attrs.reverse)
        return generate_refuse(g, i, "it goes from the last position to the first");
    for (uint32_t k = 0; k < i->nin; k++) {
        if (!used(g, i, k))
            continue;
        Value v = generate_image(g, f, i->in[k], NEAR);
        if (!v)
            return false;
        Builder b = builder_at(m, f->to, i);
        if (k < (uint32_t)i->attrs.carried) {
            const Type t = carried_type(g, type_of(m, i->in[k]), scan);
            v = as(g, &b, v, t);
            if (scan)
                v = begins(g, f, &b, v, &t, &s[k]);
        } else if (type_of(m, v)->dims[0].name !=
                   i->attrs.dim.name) { /* slices are of the outermost dim */
            const Type *was = type_of(m, v);
            const Dim d = was->dims[type_find(was, i->attrs.dim.name)];
            const Type rest = type_without(was, d.name);
            v = as(g, &b, v, type_stacked(&rest, d));
        }
        start[k] = v;
    }
    g->whole |= scan;
    return scan && g->n == 1 ? iteration(g, f, i, start, s) : around(g, f, i, start, s);
}
