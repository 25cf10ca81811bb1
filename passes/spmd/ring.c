/* ring.c - attention whose keys are split over the ranks, and its gradient, as ring attention (Liu,
 * Zaharia, Abbeel 2023): each rank keeps its queries, keys and values go round. Part of pass local.
 *
 *   k', v' = those of the rank before                ring_shift
 *   o, lse = attention(q, k, v)                      of its own keys
 *   repeat n - 2 times:
 *       k, v = k', v'
 *       k', v' = those of the rank before
 *       o', lse' = attention(q, k, v, seen)          seen: how many of these keys each query sees
 *       o, lse = both together, by their lse
 *   and so with the last k', v', which go no further
 *
 * Keys and values are sent an iteration before they are used: no iteration needs what it sends, so
 * the shift runs beside its attention. They arrive in a second buffer.
 *
 * A window, or the first key of each query, is the position of the first key that a query sees; in
 * an iteration it is the number of keys here that come before this position.
 *
 *   k', v' = those of the rank before
 *   dq, dk, dv = attention_grad(q, k, v, o, lse, do)
 *   n - 1 times, k', v' and the rest as above:
 *       sk, sv = those of the rank before            from the second time on; 0 the first time
 *       dq', dk', dv' = attention_grad(q, k, v, o, lse, do, seen)
 *       dq = dq + dq'
 *       sk, sv = sk + dk', sv + dv'
 *   dk + sk, dv + sv of the rank before
 *
 * The sums for keys go round with them, an iteration behind: while an iteration's gradients are
 * computed, the sums arrive to which they are added. They are home after n - 1 shifts. Sums are
 * made in the order of the ring: the same bits in every run. Keys of a rank lie in the order of
 * their positions, so those that a query sees are the first ones, whatever the order in which a dim
 * lies on the axis. Halves are added up in the wide type.
 *
 * With a bias, keys have a dim of their own, which is not split: a rank has all of them. Its
 * attention is then one call, with `seen` in the place of causal. */
#include "passes/spmd/local.h"
#include "passes/walk.h"

#include <string.h>

enum { Q, K, V, O, LSE, DO };

/* Values that go from iteration to iteration. FIRST_SUM: o and lse, or the sums of dq, dk, dv. */
enum {
    KEYS,
    VALUES,
    FIRST_SUM,
    RING_SUMS = 3,
    SOURCE = FIRST_SUM + RING_SUMS,
    CARRIED = SOURCE + MAX_AXES
};

typedef struct Ring {
    Local *l;
    Builder *b; /* around the loop */
    const Ins *i;
    Dim along;   /* as it was */
    Attrs attrs; /* of one iteration's attention */
    int64_t ranks;
    Value position;     /* causal: of each query, and 1 more */
    Value first;        /* 0, or the position of the first key that each query sees */
    Value now[CARRIED]; /* before the next iteration; 0: there is none. SOURCE and so on, per axis:
                           place of the rank whose keys the iteration before had */
} Ring;

/* An iteration of the ring, in the loop or beside it. */
typedef struct Turn {
    Builder *b;
    bool fresh; /* the first: no sums of gradients are on their way */
    bool ahead; /* not the last: its keys go further */
    const Value *now;
    Value *next;
} Turn;

static DType wide(const Ring *r)
{
    return dtype_wide(type_of(r->l->m, r->i->in[Q])->dtype);
}

/* ---- an iteration
 * --------------------------------------------------------------------------------- */

static Value shifted(const Ring *r, Builder *b, Value x)
{
    Attrs a = {.axes = r->along.axes};
    Value y = build(b, OP_ring_shift, &a, 1, &x);
    r->l->m->values.data[y].name = r->l->m->values.data[x].name;
    return y;
}

static bool follows_source(const Ring *r)
{
    return r->i->attrs.causal || r->first;
}

/* The rank before, on every axis: of the last axis the place before, and where there is none the
 * last one, and so on with the axis before it. */
static void source_before(const Ring *r, Turn *t)
{
    const Module *m = r->l->m;
    Value borrow = build_const(t->b, DT_i32, 1), none = build_const(t->b, DT_i32, 0);
    for (size_t a = m->layout.mesh.n; a-- > 0;) {
        if (!(r->along.axes >> a & 1))
            continue;
        Value less = build2(t->b, OP_sub, t->now[SOURCE + a], borrow);
        Value below = build2(t->b, OP_lt, less, none);
        Value last = build_const(t->b, DT_i32, (double)(m->layout.mesh.data[a].size - 1));
        t->next[SOURCE + a] = build(t->b, OP_select, NULL, 3, (Value[]){below, last, less});
        Value one = build_const(t->b, DT_i32, 1);
        borrow = build(t->b, OP_select, NULL, 3, (Value[]){below, one, none});
    }
}

/* The operands but those that say what is seen. */
static int tensors(const Ring *r)
{
    return (int)r->i->nin - r->i->attrs.within;
}

/* The part of all pairs of a causal ring that the rank which sees most sees in an iteration. With
 * all of it in zigzag order every rank sees half of the pairs of each iteration; else one sees all
 * of them. Of a window that is shorter than what a rank has all see as much together, in one
 * iteration or another. */
static double share(const Ring *r)
{
    const int64_t all = dim_whole(r->l->m, r->along), window = r->i->attrs.window;
    const double causal = r->along.zigzag == r->along.axes ? 0.5 : 1;
    const double part = (double)window / (double)all;
    return window > 0 && window < all && part < causal ? part : causal;
}

/* The attention of an iteration, or its gradient: of the keys that are here. Those for the next
 * iteration are sent meanwhile. */
static Ins *compute(const Ring *r, Turn *t)
{
    Value in[8];
    Attrs a = r->attrs;
    int n = tensors(r);
    memcpy(in, r->i->in, (size_t)n * sizeof *in);
    for (int k = KEYS; k <= VALUES; k++) {
        in[K + k - KEYS] = t->now[k];
        t->next[k] = t->ahead ? shifted(r, t->b, t->now[k]) : 0;
    }
    if (follows_source(r))
        source_before(r, t);
    if (r->i->attrs.causal) { /* how many of the keys that are here each query sees */
        in[n++] = local_below(r->l, t->b, r->along, r->position, &t->next[SOURCE]);
        a.causal = false;
        a.share = share(r);
    }
    if (r->first)
        in[n++] = local_below(r->l, t->b, r->along, r->first, &t->next[SOURCE]);
    return build_ins(t->b, r->i->op, &a, n, in);
}

/* That of the rank's own keys. */
static Ins *compute_own(Ring *r)
{
    Value in[8];
    int n = tensors(r);
    memcpy(in, r->i->in, (size_t)n * sizeof *in);
    if (r->first)
        in[n++] = local_below(r->l, r->b, r->along, r->first, NULL);
    return build_ins(r->b, r->i->op, &r->attrs, n, in);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* o and lse of two parts of the keys together: the weights of each are e^(lse - the larger). */
static void merge(Builder *b, Value o[2], Value lse[2], Value *out, Value *sum)
{
    Value top = build2(b, OP_max, lse[0], lse[1]), e[2];
    for (int k = 0; k < 2; k++)
        e[k] = build1(b, OP_exp, build2(b, OP_sub, lse[k], top));
    Value both = build2(b, OP_add, e[0], e[1]);
    for (int k = 0; k < 2; k++)
        e[k] = build2(b, OP_mul, o[k], build2(b, OP_div, e[k], both));
    *out = build2(b, OP_add, e[0], e[1]);
    *sum = build2(b, OP_add, top, build1(b, OP_log, both));
}

static void forward_turn(const Ring *r, Turn *t)
{
    const Ins *part = compute(r, t);
    Value o[2] = {t->now[FIRST_SUM], build_cast(t->b, part->out[0], wide(r))};
    Value lse[2] = {t->now[FIRST_SUM + 1], part->out[1]};
    merge(t->b, o, lse, &t->next[FIRST_SUM], &t->next[FIRST_SUM + 1]);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void backward_turn(const Ring *r, Turn *t)
{
    const Ins *part = compute(r, t);
    for (int n = 0; n < RING_SUMS; n++) {
        const bool travels = n && !t->fresh; /* dq stays */
        Value more = build_cast(t->b, part->out[n], wide(r)), sum = t->now[FIRST_SUM + n];
        t->next[FIRST_SUM + n] = build2(t->b, OP_add, travels ? shifted(r, t->b, sum) : sum, more);
    }
}

/* ---- the iterations --------------------------------------------------------------------------
 */

static void turn(const Ring *r, Turn *t)
{
    (r->i->op == OP_attention ? forward_turn : backward_turn)(r, t);
}

/* One iteration by itself. */
static void turn_once(Ring *r, bool fresh, bool ahead)
{
    Value next[CARRIED] = {0};
    turn(r, &(Turn){.b = r->b, .fresh = fresh, .ahead = ahead, .now = r->now, .next = next});
    memcpy(r->now, next, sizeof next);
}

/* As many that are neither the first nor the last, as a loop. */
static void turn_often(Ring *r, int64_t times)
{
    Module *m = r->l->m;
    Region *body = region_new(m, r->b->region);
    Value arg[CARRIED] = {0}, next[CARRIED] = {0}, start[CARRIED];
    Type types[CARRIED];
    int carried = 0;
    for (int k = 0; k < CARRIED; k++)
        if (r->now[k]) {
            types[carried] = *type_of(m, r->now[k]);
            arg[k] = region_arg(m, body, types[carried], m->values.data[r->now[k]].name);
            start[carried++] = r->now[k];
        }
    region_arg(m, body, (Type){.dtype = DT_i32}, name_intern(m->names, "iteration"));
    Builder in = builder_at(m, body, r->i);
    turn(r, &(Turn){.b = &in, .ahead = true, .now = arg, .next = next});
    for (int k = 0, n = 0; k < CARRIED; k++)
        if (r->now[k])
            vec_push(m->arena, &body->results, build_as(&in, next[k], types[n++]));
    Attrs a = {.dim = {.name = name_intern(m->names, RING_ITERATION), .size = times},
               .carried = carried};
    const Ins *all = build_typed(r->b, OP_repeat, &a, carried, start, carried, types, body);
    for (int k = 0, n = 0; k < CARRIED; k++)
        if (r->now[k])
            r->now[k] = all->out[n++];
}

/* All of them. first: is the first one unlike the others? */
static void go_round(Ring *r, bool first)
{
    int64_t left = r->ranks - 1;
    if (first && left > 1) {
        turn_once(r, true, true);
        left--;
        first = false;
    }
    if (left > 1)
        turn_often(r, left - 1);
    turn_once(r, first, false);
}

/* The keys of the rank before, which the first iteration needs, leave before anything else. */
static void depart(Ring *r)
{
    for (int k = KEYS; k <= VALUES; k++)
        r->now[k] = shifted(r, r->b, r->i->in[K + k - KEYS]);
    for (size_t a = 0; follows_source(r) && a < r->l->m->layout.mesh.n; a++)
        if (r->along.axes >> a & 1)
            r->now[SOURCE + a] = local_place(r->l, (Axes)1 << a);
}

static void forward(Ring *r, Value *out)
{
    Builder *b = r->b;
    depart(r);
    const Ins *own = compute_own(r);
    r->now[FIRST_SUM] = build_cast(b, own->out[0], wide(r));
    r->now[FIRST_SUM + 1] = own->out[1];
    go_round(r, false);
    out[0] = build_cast(b, r->now[FIRST_SUM], type_of(b->m, own->out[0])->dtype);
    out[1] = r->now[FIRST_SUM + 1];
}

static void backward(Ring *r, Value *out)
{
    Builder *b = r->b;
    Value mine[RING_SUMS];
    depart(r);
    const Ins *own = compute_own(r);
    for (int n = 0; n < RING_SUMS; n++) {
        mine[n] = build_cast(b, own->out[n], wide(r));
        r->now[FIRST_SUM + n] = n ? build_filled(b, *type_of(b->m, mine[n]), 0) : mine[n];
    }
    go_round(r, true);
    for (int n = 0; n < RING_SUMS; n++) {
        Value sum = r->now[FIRST_SUM + n];
        if (n)
            sum = build2(b, OP_add, mine[n], shifted(r, b, sum));
        out[n] = build_cast(b, sum, type_of(b->m, own->out[n])->dtype);
    }
}

/* The position of the first key that each query sees, by the window and by what is given. */
static Value first_keys(Ring *r)
{
    const Attrs *a = &r->i->attrs;
    const Value own = a->within ? r->i->in[r->i->nin - 1] : 0;
    if (!a->window)
        return own;
    Value last = build_const(r->b, DT_i32, (double)a->window);
    Value near =
        build2(r->b, OP_max, build2(r->b, OP_sub, r->position, last), build_const(r->b, DT_i32, 0));
    return own ? build2(r->b, OP_max, own, near) : near;
}

/* Attention of a rank's queries and all keys. */
static void whole_keys(Ring *r, Value *out)
{
    Value in[9];
    int n = tensors(r);
    memcpy(in, r->i->in, (size_t)n * sizeof *in);
    if (r->i->attrs.causal) {
        in[n++] = r->position;
        r->attrs.causal = false;
        r->attrs.share = share(r);
    }
    if (r->first)
        in[n++] = r->first;
    const Ins *own = build_ins(r->b, r->i->op, &r->attrs, n, in);
    for (uint32_t k = 0; k < own->nout; k++)
        out[k] = own->out[k];
}

void ring_attention(Local *l, Builder *b, const Ins *i, Dim along, Value *out)
{
    Ring r = {.l = l, .b = b, .i = i, .along = along, .attrs = i->attrs};
    r.ranks = mesh_size(l->m, along.axes);
    if (i->attrs.causal) {
        Value at = local_positions(l, b, along, DT_i32);
        r.position = build2(b, OP_add, at, build_const(b, DT_i32, 1));
    }
    r.first = first_keys(&r);
    r.attrs.window = 0;
    r.attrs.within = r.first != 0;
    if (i->attrs.keys.name)
        whole_keys(&r, out);
    else if (i->op == OP_attention)
        forward(&r, out);
    else
        backward(&r, out);
}
