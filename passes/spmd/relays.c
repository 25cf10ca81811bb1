/* relays.c - the loops over the layers that a microbatch goes through become one; see shard.h.
 *
 *   before:  %a = repeat %x, %w {dim=layers, relay} { ... }     online(x)
 *            %b = repeat %y, %v {dim=layers, relay} { ... }     target(y)
 *   after:   %a, %b = repeat %x, %y, %w, %v {dim=layers, carried=2, relay} { ... }
 *
 * A microbatch goes through the stages once each way, so all that layers hand on goes along
 * together: of several calls of blocks with layers, and backwards the gradients of several losses.
 * That can be where neither needs what the other gives, but of an iteration what the same iteration
 * of the other stacks (a sum that both add to, in the order in which they stood). A sum over layers
 * that the second begins with what the first gives begins with 0 instead, and is added behind. All
 * that needs the first loop then stands behind both. */
#include "passes/simplify/accumulate.h"
#include "passes/spmd/shard.h"
#include "passes/walk.h"

typedef struct Join {
    Module *m;
    Region *home; /* of both */
    bool *late;   /* per value: it needs the first loop */
    Uses uses;
    Ins *to, *from;
    VEC(Ins *) starts; /* of sums that begin with 0 */
    VEC(Ins *) sums;   /* ... and are added behind */
    bool needs;        /* something does */
    Arena *tmp;
} Join;

/* The number of the result that the loop stacks as v; 0: there is none. */
static uint32_t stacked_as(const Ins *loop, Value v)
{
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nout; k++)
        if (loop->out[k] == v)
            return k;
    return 0;
}

static void note_late(void *ctx, Value *use)
{
    Join *j = ctx;
    j->needs |= j->late[*use];
}

static bool needs_first(Join *j, Ins *i)
{
    j->needs = false;
    each_use(i, note_late, j);
    return j->needs;
}

/* v, or what the first loop was given as v: it may hand a value on as it came, as the gradient of a
 * sum that goes through both. */
static Value passed_on(const Ins *to, Value v)
{
    for (uint32_t k = 0; k < (uint32_t)to->attrs.carried; k++)
        if (to->out[k] == v && to->body->results.data[k] == to->body->args.data[k])
            return to->in[k];
    return v;
}

/* Does the second loop need what the first gives, in another way than iteration by iteration, or
 * as what a sum begins with? */
static bool depends(Join *j)
{
    const Ins *from = j->from;
    j->needs = false;
    for (uint32_t k = 0; k < from->nin; k++)
        if (k < (uint32_t)from->attrs.carried ? !loop_adds(j->m, &j->uses, from, k)
                                              : !stacked_as(j->to, from->in[k]))
            note_late(j, &from->in[k]);
    bool any = j->needs;
    for (size_t k = 0; k < j->from->body->ins.n; k++)
        any |= needs_first(j, j->from->body->ins.data[k]);
    return any;
}

/* The instructions between the two loops that need the first: they come behind both. False: the
 * second loop does, too. */
static bool find_late(Join *j, size_t a, size_t b)
{
    Ins **all = j->home->ins.data;
    j->late = NEW_ARRAY(j->tmp, bool, j->m->values.n);
    j->uses = ir_uses(j->m, j->home, j->tmp);
    j->to = all[a];
    j->from = all[b];
    for (uint32_t k = 0; k < j->to->nout; k++)
        j->late[j->to->out[k]] = true;
    for (size_t k = a + 1; k < b; k++)
        if (needs_first(j, all[k]))
            for (uint32_t o = 0; o < all[k]->nout; o++)
                j->late[all[k]->out[o]] = true;
    for (uint32_t k = 0; k < (uint32_t)j->from->attrs.carried; k++)
        j->from->in[k] = passed_on(j->to, j->from->in[k]);
    return !depends(j);
}

/* Takes the last instruction off the region. */
static Ins *taken(Join *j)
{
    return j->home->ins.data[--j->home->ins.n];
}

/* Sums over layers that begin with what needs the first loop begin with 0. */
static void start_anew(Join *j)
{
    Module *m = j->m;
    Ins *from = j->from;
    j->starts.n = j->sums.n = 0;
    for (uint32_t k = 0; k < (uint32_t)from->attrs.carried; k++) {
        const Value start = from->in[k], sum = from->out[k];
        if (!j->late[start])
            continue;
        Builder b = builder_at(m, j->home, from);
        const size_t before = j->home->ins.n;
        from->in[k] = build_filled(&b, *type_of(m, start), 0);
        for (size_t n = before; n < j->home->ins.n; n++)
            vec_push(j->tmp, &j->starts, j->home->ins.data[n]);
        j->home->ins.n = before;
        const Type t = *type_of(m, sum);
        build_typed(&b, OP_add, NULL, 2, (Value[]){start, sum}, 1, &t, NULL);
        vec_push(j->tmp, &j->sums, taken(j));
    }
    Value *map = NEW_ARRAY(j->tmp, Value, m->values.n);
    for (size_t k = 0; k < j->sums.n; k++)
        map[j->sums.data[k]->in[1]] = j->sums.data[k]->out[0];
    ir_replace(j->home, map);
}

static void take_instructions(Join *j)
{
    Module *m = j->m;
    Region *body = j->to->body, *old = j->from->body;
    for (size_t k = 0; k < old->ins.n; k++) {
        Ins *i = old->ins.data[k];
        i->home = body;
        if (i->body)
            i->body->parent = body;
        for (uint32_t o = 0; o < i->nout; o++)
            m->values.data[i->out[o]].home = body;
        vec_push(m->arena, &body->ins, i);
    }
}

typedef VEC(Value) Values;

static void push_all(Join *j, Values *to, const Value *of, size_t from, size_t end)
{
    for (size_t k = from; k < end; k++)
        vec_push(j->m->arena, to, of[k]);
}

/* The operands of the second loop that are taken slice by slice; those of the first are there. map:
 * per value of the second body what it is in the first. */
static void take_slices(Join *j, Values *in, Values *args, Value *map)
{
    const Ins *to = j->to, *from = j->from;
    for (uint32_t k = (uint32_t)from->attrs.carried; k < from->nin; k++) {
        const Value arg = from->body->args.data[k];
        const uint32_t result = stacked_as(to, from->in[k]);
        uint32_t same = (uint32_t)to->attrs.carried;
        while (same < to->nin && to->in[same] != from->in[k])
            same++;
        if (result)
            map[arg] = to->body->results.data[result];
        else if (same < to->nin)
            map[arg] = to->body->args.data[same];
        else {
            vec_push(j->m->arena, in, from->in[k]);
            vec_push(j->m->arena, args, arg);
        }
    }
}

/* The second loop becomes part of the first. */
static void join(Join *j)
{
    Module *m = j->m;
    Ins *to = j->to, *from = j->from;
    Region *body = to->body, *old = from->body;
    const size_t a = (size_t)to->attrs.carried, b = (size_t)from->attrs.carried;
    const Value index = body->args.data[to->nin];
    Value *map = NEW_ARRAY(j->tmp, Value, m->values.n);
    Values in = {0}, args = {0}, out = {0}, results = {0};
    push_all(j, &in, to->in, 0, a);
    push_all(j, &in, from->in, 0, b);
    push_all(j, &in, to->in, a, to->nin);
    push_all(j, &args, body->args.data, 0, a);
    push_all(j, &args, old->args.data, 0, b);
    push_all(j, &args, body->args.data, a, to->nin);
    take_slices(j, &in, &args, map);
    vec_push(m->arena, &args, index);
    map[old->args.data[from->nin]] = index;
    take_instructions(j);
    push_all(j, &out, to->out, 0, a);
    push_all(j, &out, from->out, 0, b);
    push_all(j, &out, to->out, a, to->nout);
    push_all(j, &out, from->out, b, from->nout);
    push_all(j, &results, body->results.data, 0, a);
    push_all(j, &results, old->results.data, 0, b);
    push_all(j, &results, body->results.data, a, to->nout);
    push_all(j, &results, old->results.data, b, from->nout);
    for (size_t k = 0; k < args.n; k++)
        m->values.data[args.data[k]].home = body;
    for (size_t k = 0; k < out.n; k++)
        m->values.data[out.data[k]].def = to;
    to->in = in.data, to->nin = (uint32_t)in.n;
    to->out = out.data, to->nout = (uint32_t)out.n;
    to->attrs.carried = (int64_t)(a + b);
    body->args.data = args.data, body->args.n = args.n, body->args.cap = args.cap;
    body->results.data = results.data, body->results.n = results.n, body->results.cap = results.cap;
    ir_replace(body, map);
}

static void put(Join *j, Ins *const *of, size_t from, size_t end)
{
    for (size_t k = from; k < end; k++)
        vec_push(j->m->arena, &j->home->ins, of[k]);
}

/* The order afterwards: what does not need the first loop, the loop, the rest. */
static void put_behind(Join *j, size_t a, size_t b)
{
    Ins **all = j->home->ins.data, **behind = NEW_ARRAY(j->tmp, Ins *, b);
    const size_t n = j->home->ins.n;
    size_t late = 0;
    j->home->ins.data = NULL;
    j->home->ins.n = j->home->ins.cap = 0;
    put(j, all, 0, a);
    for (size_t k = a + 1; k < b; k++)
        if (all[k]->nout && j->late[all[k]->out[0]])
            behind[late++] = all[k];
        else
            put(j, all, k, k + 1);
    put(j, j->starts.data, 0, j->starts.n);
    put(j, &j->to, 0, 1);
    put(j, behind, 0, late);
    put(j, j->sums.data, 0, j->sums.n);
    put(j, all, b + 1, n);
}

static bool is_relay(const Module *m, const Ins *i, bool reverse)
{
    return ir_is_staged(m, i) && i->attrs.relay && i->attrs.reverse == reverse;
}

/* Joins the relays of one direction, from the first to the last; one that needs another stays. */
static void join_relays(Join *j, bool reverse)
{
    const Region *r = j->home;
    for (size_t a = 0; a < r->ins.n; a++)
        for (size_t b = a + 1; b < r->ins.n && is_relay(j->m, r->ins.data[a], reverse); b++) {
            if (!is_relay(j->m, r->ins.data[b], reverse) || !find_late(j, a, b))
                continue;
            start_anew(j);
            join(j);
            put_behind(j, a, b);
            b = a; /* another instruction is there: the joined loop comes later */
        }
}

void relays_join(Module *m, Fn *fn, Arena *tmp)
{
    for (size_t k = 0; k < fn->body->ins.n; k++) {
        Join j = {.m = m, .home = fn->body->ins.data[k]->body, .tmp = tmp};
        if (!j.home || ir_is_staged(m, fn->body->ins.data[k]))
            continue;
        join_relays(&j, false);
        join_relays(&j, true);
    }
}
