/* ring.c - attention whose keys are split over the ranks, and its gradient, as ring attention (Liu,
 * Zaharia, Abbeel 2023): each rank keeps its queries, keys and values go round. Part of pass local.
 *
 *   o, lse = attention(q, k, v)                      of its own keys
 *   repeat n - 1 times:
 *       k, v = those of the rank before              ring_shift
 *       o', lse' = attention(q, k, v, seen)          seen: how many of these keys each query sees
 *       o, lse = both together, by their lse
 *
 * A window, or the first key of each query, is the position of the first key that a query sees; in
 * an iteration it is the number of keys here that come before this position.
 *
 *   dq, dk, dv = attention_grad(q, k, v, o, lse, do)
 *   repeat n - 1 times:
 *       k, v = those of the rank before
 *       dq', dk', dv' = attention_grad(q, k, v, o, lse, do, seen)
 *       dq = dq + dq'
 *       sk, sv = those of (sk + dk', sv + dv') of the rank before
 *   dk + sk, dv + sv
 *
 * The sums for keys go round with them, an iteration behind, and are home after n - 1 shifts. Sums
 * are made in the order of the ring: the same bits in every run. Keys of a rank lie in the order of
 * their positions, so those that a query sees are the first ones, whatever the order in which a dim
 * lies on the axis. Halves are added up in the wide type.
 *
 * With a bias, keys have a dim of their own, which is not split: a rank has all of them. Its
 * attention is then one call, with `seen` in the place of causal. */
#include "passes/spmd/local.h"
#include "passes/walk.h"

#include <string.h>

enum { Q, K, V, O, LSE, DO };

typedef struct Ring {
    Local *l;
    Builder *b; /* around the loop */
    const Ins *i;
    Dim along;   /* as it was */
    Attrs attrs; /* of one iteration's attention */
    int64_t ranks;
    Value position; /* causal: of each query, and 1 more */
    Value first;    /* 0, or the position of the first key that each query sees */
    Builder in;     /* the loop's body */
    Value index;    /* the last argument of the body */
    int carried;
    Value start[8 + MAX_AXES], arg[8 + MAX_AXES], next[8 + MAX_AXES];
    Value source[MAX_AXES]; /* per axis: place of the rank whose keys are here */
    int source_at;          /* the first of them among what is carried */
} Ring;

static DType wide(const Ring *r)
{
    return dtype_wide(type_of(r->l->m, r->i->in[Q])->dtype);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* One more value that goes round the loop; it is known in it by its number. */
static int carry(Ring *r, Value start)
{
    r->start[r->carried] = start;
    return r->carried++;
}

static void open_loop(Ring *r)
{
    Module *m = r->l->m;
    r->source_at = r->carried;
    for (size_t a = 0; (r->i->attrs.causal || r->first) && a < m->layout.mesh.n; a++)
        if (r->along.axes >> a & 1)
            carry(r, local_place(r->l, (Axes)1 << a));
    Region *body = region_new(m, r->b->region);
    for (int k = 0; k < r->carried; k++)
        r->arg[k] = region_arg(m, body, *type_of(m, r->start[k]), m->values.data[r->start[k]].name);
    r->index = region_arg(m, body, (Type){.dtype = DT_i32}, name_intern(m->names, "iteration"));
    r->in = builder_at(m, body, r->i);
}

/* Results are the carried values after the last iteration. */
static Ins *close_loop(Ring *r)
{
    Module *m = r->l->m;
    Type types[8 + MAX_AXES];
    for (int k = 0; k < r->carried; k++) {
        types[k] = *type_of(m, r->start[k]);
        vec_push(m->arena, &r->in.region->results, build_as(&r->in, r->next[k], types[k]));
    }
    Attrs a = {.dim = {.name = name_intern(m->names, RING_ITERATION), .size = r->ranks - 1},
               .carried = r->carried};
    return build_typed(r->b, OP_repeat, &a, r->carried, r->start, r->carried, types, r->in.region);
}

/* ---- an iteration
 * --------------------------------------------------------------------------------- */

static Value shifted(Ring *r, Value x)
{
    Attrs a = {.axes = r->along.axes};
    Value y = build(&r->in, OP_ring_shift, &a, 1, &x);
    r->l->m->values.data[y].name = r->l->m->values.data[x].name;
    return y;
}

/* The rank before, on every axis: of the last axis the place before, and where there is none the
 * last one, and so on with the axis before it. */
static void source_before(Ring *r)
{
    const Module *m = r->l->m;
    Value borrow = build_const(&r->in, DT_i32, 1), none = build_const(&r->in, DT_i32, 0);
    int k = r->carried;
    for (size_t a = m->layout.mesh.n; a-- > 0;) {
        if (!(r->along.axes >> a & 1))
            continue;
        Value less = build2(&r->in, OP_sub, r->arg[--k], borrow);
        Value below = build2(&r->in, OP_lt, less, none);
        Value last = build_const(&r->in, DT_i32, (double)(m->layout.mesh.data[a].size - 1));
        r->next[k] = r->source[a] = build(&r->in, OP_select, NULL, 3, (Value[]){below, last, less});
        Value one = build_const(&r->in, DT_i32, 1);
        borrow = build(&r->in, OP_select, NULL, 3, (Value[]){below, one, none});
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

/* The attention of an iteration, or its gradient, as an instruction on these operands. */
static Ins *compute(Ring *r, Value k, Value v)
{
    Value in[8];
    Attrs a = r->attrs;
    int n = tensors(r);
    memcpy(in, r->i->in, (size_t)n * sizeof *in);
    in[K] = k;
    in[V] = v;
    if (r->i->attrs.causal || r->first)
        source_before(r);
    if (r->i->attrs.causal) { /* how many of the keys that are here each query sees */
        in[n++] = local_below(r->l, &r->in, r->along, r->position, r->source);
        a.causal = false;
        a.share = share(r);
    }
    if (r->first)
        in[n++] = local_below(r->l, &r->in, r->along, r->first, r->source);
    return build_ins(&r->in, r->i->op, &a, n, in);
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

static void forward(Ring *r, Value *out)
{
    Builder *b = r->b;
    Ins *own = compute_own(r);
    DType half = type_of(b->m, own->out[0])->dtype;
    int o = carry(r, build_cast(b, own->out[0], wide(r))), lse = carry(r, own->out[1]);
    int k = carry(r, r->i->in[K]), v = carry(r, r->i->in[V]);
    open_loop(r);
    r->next[k] = shifted(r, r->arg[k]);
    r->next[v] = shifted(r, r->arg[v]);
    Ins *part = compute(r, r->next[k], r->next[v]);
    Value os[2] = {r->arg[o], build_cast(&r->in, part->out[0], wide(r))};
    Value sums[2] = {r->arg[lse], part->out[1]};
    merge(&r->in, os, sums, &r->next[o], &r->next[lse]);
    Ins *all = close_loop(r);
    out[0] = build_cast(b, all->out[o], half);
    out[1] = all->out[lse];
}

/* ---- backward -------------------------------------------------------------------------------- */

static void backward(Ring *r, Value *out)
{
    Builder *b = r->b;
    Ins *own = compute_own(r);
    Value mine[3];
    int sum[3];
    for (int n = 0; n < 3; n++) {
        mine[n] = build_cast(b, own->out[n], wide(r));
        sum[n] = carry(r, n ? build_filled(b, *type_of(b->m, mine[n]), 0) : mine[n]);
    }
    int k = carry(r, r->i->in[K]), v = carry(r, r->i->in[V]);
    open_loop(r);
    r->next[k] = shifted(r, r->arg[k]);
    r->next[v] = shifted(r, r->arg[v]);
    Ins *part = compute(r, r->next[k], r->next[v]);
    for (int n = 0; n < 3; n++) {
        Value more = build_cast(&r->in, part->out[n], wide(r));
        Value now = build2(&r->in, OP_add, r->arg[sum[n]], more);
        r->next[sum[n]] = n ? shifted(r, now) : now;
    }
    Ins *all = close_loop(r);
    for (int n = 0; n < 3; n++) {
        Value x = n ? build2(b, OP_add, mine[n], all->out[sum[n]]) : all->out[sum[n]];
        out[n] = build_cast(b, x, type_of(b->m, own->out[n])->dtype);
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
