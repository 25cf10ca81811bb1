/* random_model.c - programs that look like models, drawn from a seed.
 *
 * x[batch, seq, hid] = embedding; repeat layers { x = block(x) ... }; loss. The blocks cover what
 * real ones use: products with stacked and with shared weights, norms, softmax, attention with
 * rotary angles, dropout, picks and windows, loops in loops, a carried sum beside x. */
#include "tests/passes/model.h"

#include <stdio.h>

typedef struct Draw {
    Model *t;
    Builder *b;
    uint64_t rng;
    int names;
    Dim batch, seq, hid, ffn, layers, inner, vocab;
    DType f;
    Value seed, step; /* 0 until dropout wants them */
} Draw;

static Value op1(Draw *d, Op op, Value x)
{
    return build1(d->b, op, x);
}
static Value op2(Draw *d, Op op, Value x, Value y)
{
    return build2(d->b, op, x, y);
}
static Value num(Draw *d, double x)
{
    return build_const(d->b, d->f, x);
}
static Value dot1(Draw *d, Value x, Value y, Dim over)
{
    return build_dot(d->b, x, y, &(DimList){1, {over}});
}
static Value sum1(Draw *d, Value x, Dim over)
{
    return build_sum(d->b, x, &(DimList){1, {over}});
}
static Value rename_dim(Draw *d, Value x, Dim from, Dim to)
{
    Attrs a = {.dim = from, .to = to};
    return build(d->b, OP_rename, &a, 1, &x);
}

static Value param(Draw *d, Type type, int stacked)
{
    char name[16];
    snprintf(name, sizeof name, "p%d", d->names++);
    return add_param(d->t, name, type, stacked);
}

/* A loop under construction: where x and the stacked weights of its blocks come from. */
typedef struct Loop {
    Dim dim;
    Region *body;
    VEC(Value) in, arg;
} Loop;

static Value slice(Draw *d, Loop *l, Value stacked)
{
    Type t = *type_of(d->t->m, stacked), u = {.dtype = t.dtype, .rank = t.rank - 1};
    for (int i = 1; i < t.rank; i++)
        u.dims[i - 1] = t.dims[i];
    vec_push(d->t->a, &l->in, stacked);
    vec_push(d->t->a, &l->arg, value_new(d->t->m, l->body, u, 0));
    return l->arg.data[l->arg.n - 1];
}

/* A weight of each iteration of the loop; without a loop, one weight. */
static Value weight(Draw *d, Loop *l, Type t)
{
    if (!l)
        return param(d, t, 0);
    Type s = {.dtype = t.dtype, .rank = t.rank + 1, .dims = {l->dim}};
    for (int i = 0; i < t.rank; i++)
        s.dims[i + 1] = t.dims[i];
    return slice(d, l, param(d, s, 1));
}

/* ---- blocks: x -> x ---------------------------------------------------------------------------
 */

static Value norm(Draw *d, Loop *l, Value x)
{
    Value mean = op2(d, OP_div, sum1(d, op2(d, OP_mul, x, x), d->hid), num(d, (double)d->hid.size));
    Value r = op1(d, OP_rsqrt, op2(d, OP_add, mean, num(d, 0.1)));
    return op2(d, OP_mul, op2(d, OP_mul, x, r), weight(d, l, TYPE(d->f, d->hid)));
}

static Value activation(Draw *d, Value x)
{
    static const Op ops[] = {OP_tanh, OP_sigmoid, OP_erf, OP_sin, OP_cos, OP_exp, OP_neg};
    Value y = op1(d, ops[draw_int(&d->rng, 7)], x);
    return draw_int(&d->rng, 2) ? op2(d, OP_mul, x, op1(d, OP_sigmoid, y)) : y;
}

static Value mlp(Draw *d, Loop *l, Value x)
{
    Value up = dot1(d, norm(d, l, x), weight(d, l, TYPE(d->f, d->hid, d->ffn)), d->hid);
    Value down = weight(d, l, TYPE(d->f, d->ffn, d->hid));
    return op2(d, OP_add, x, dot1(d, activation(d, up), down, d->ffn));
}

/* The angles are computed in the loop, from nothing but positions. */
static Value rope(Draw *d, Value x, Dim head)
{
    Value i = build_iota(d->b, d->f, head), p = build_iota(d->b, d->f, d->seq);
    Value angle = op2(d, OP_mul, p, op2(d, OP_pow, num(d, 0.3), i));
    Attrs a = {.dim = head};
    Value turned = op2(d, OP_mul, build(d->b, OP_rotate, &a, 1, &x), op1(d, OP_sin, angle));
    return op2(d, OP_add, op2(d, OP_mul, x, op1(d, OP_cos, angle)), turned);
}

/* A window, a cap, and documents: in the second sequence one begins at position 2, or in all. */
static void mask(Draw *d, Attrs *a, Value *first)
{
    a->window = a->causal && draw_int(&d->rng, 2) ? 1 + draw_int(&d->rng, 3) : 0;
    a->cap = draw_int(&d->rng, 2) ? 0.5 : 0;
    a->within = draw_int(&d->rng, 2);
    if (!a->within)
        return;
    Value two = build_const(d->b, DT_i32, 2), none = build_const(d->b, DT_i32, 0);
    Value begins = build2(d->b, OP_ge, build_iota(d->b, DT_i32, d->seq), two);
    *first = build(d->b, OP_select, NULL, 3, (Value[]){begins, two, none});
    if (draw_int(&d->rng, 2))
        *first = build2(d->b, OP_mul, build_iota(d->b, DT_i32, d->batch), *first);
}

/* Keys with a dim of their own, and a bias that a parameter is a factor of. */
static void biased(Draw *d, Loop *l, Attrs *a, Dim kv, Dim group, Value in[4])
{
    const Dim key = dim_of(d->t, "key", d->seq.size);
    const Attrs to = {.dim = d->seq, .to = key};
    for (int k = 1; k < 3; k++)
        in[k] = build(d->b, OP_rename, &to, 1, &in[k]);
    const Type some[] = {TYPE(d->f, kv, group), TYPE(d->f, group), TYPE(d->f, kv)};
    in[3] = op2(d, OP_mul, build_iota(d->b, d->f, d->seq), build_iota(d->b, d->f, key));
    in[3] = op2(d, OP_mul, weight(d, l, some[draw_int(&d->rng, 3)]), in[3]);
    if (draw_int(&d->rng, 2)) /* of each sequence its own */
        in[3] = op2(d, OP_mul, build_iota(d->b, d->f, d->batch), in[3]);
    a->keys = key;
    a->biased = true;
}

static Value attend(Draw *d, Loop *l, Value x)
{
    Dim kv = dim_of(d->t, "kv", 2), group = dim_of(d->t, "group", 2),
        head = dim_of(d->t, "head", 2);
    Value y = norm(d, l, x);
    Value q = dot1(d, y, weight(d, l, TYPE(d->f, d->hid, kv, group, head)), d->hid);
    Value k = dot1(d, y, weight(d, l, TYPE(d->f, d->hid, kv, head)), d->hid);
    Attrs a = {.along = d->seq, .over = {1, {head}}, .causal = draw_int(&d->rng, 2), .scale = 0.7};
    const Dim own = draw_int(&d->rng, 2) ? dim_of(d->t, "vhead", 3) : head;
    Value in[5] = {rope(d, q, head), rope(d, k, head),
                   dot1(d, y, weight(d, l, TYPE(d->f, d->hid, kv, own)), d->hid)};
    if (draw_int(&d->rng, 3) == 0)
        biased(d, l, &a, kv, group, in);
    if (draw_int(&d->rng, 2))
        mask(d, &a, &in[3 + a.biased]);
    Value o = build(d->b, OP_attention, &a, 3 + a.biased + a.within, in);
    DimList over = {3, {kv, group, own}};
    Value wo = weight(d, l, TYPE(d->f, kv, group, own, d->hid));
    return op2(d, OP_add, x, build_dot(d->b, o, wo, &over));
}

static Value soft(Draw *d, Loop *l, Value x)
{
    Attrs a = {.over = {1, {d->hid}}};
    Value e = op1(d, OP_exp, op2(d, OP_sub, x, build(d->b, OP_rmax, &a, 1, &x)));
    Value p = op2(d, OP_div, e, sum1(d, e, d->hid));
    return op2(d, OP_add, x, op2(d, OP_mul, p, weight(d, l, TYPE(d->f, d->hid))));
}

static Value dropout(Draw *d, Value slot, Value x)
{
    Attrs a = {.key = name_intern(d->t->m->names, draw_int(&d->rng, 2) ? "drop" : "drop2")};
    Value in[] = {d->seed, d->step, slot};
    Value u = build_typed(d->b, OP_random, &a, 3, in, 1, type_of(d->t->m, x), NULL)->out[0];
    Value keep = op2(d, OP_ge, u, num(d, 0.2));
    Value some[] = {keep, op2(d, OP_div, x, num(d, 0.8)), num(d, 0)};
    return build(d->b, OP_select, NULL, 3, some);
}

static Value picked(Draw *d, Loop *l, Value x)
{
    Attrs a = {.dim = d->hid, .at = 1}, w = {.along = d->hid, .at = 1};
    w.along.size = 2;
    Value one = build(d->b, OP_pick, &a, 1, &x), two = build(d->b, OP_window, &w, 1, &x);
    Value s = sum1(d, op2(d, OP_mul, two, two), w.along);
    Value y = op2(d, OP_mul, x, op1(d, OP_sigmoid, op2(d, OP_sub, one, s)));
    return op2(d, OP_add, y, weight(d, l, TYPE(d->f, d->hid)));
}

/* A product with a weight that all iterations share. */
static Value with_shared(Draw *d, Value shared, Value x)
{
    Dim out = dim_of(d->t, "out", d->hid.size), other = dim_of(d->t, "hid2", d->hid.size);
    if (draw_int(&d->rng, 2)) /* seen through another name */
        shared = rename_dim(d, shared, out, other);
    else
        other = out;
    Value y = op1(d, OP_tanh, dot1(d, x, shared, d->hid));
    return op2(d, OP_add, x, rename_dim(d, y, other, d->hid));
}

typedef struct Context {
    Loop *loop;
    Value slot, shared;
    Value sum; /* a scalar that grows along the way and is added to the loss */
} Context;

static Value block(Draw *d, Context *c, Value x);

static Value blocks(Draw *d, Context *c, Value x, int n)
{
    for (int k = 0; k < n; k++)
        x = block(d, c, x);
    if (draw_int(&d->rng, 2)) {
        Value more = op2(d, OP_mul, sum_all(d->b, op2(d, OP_mul, x, x)), num(d, 0.01));
        c->sum = op2(d, OP_add, c->sum, more);
    }
    return x;
}

/* Runs blocks in a loop that carries x and the sum, and sometimes stacks what is then added up. */
static Value looped(Draw *d, Context *c, Value x, Dim dim, int n)
{
    Module *m = d->t->m;
    Arena *a = d->t->a;
    Builder *outer = d->b, inner = *outer;
    Loop l = {.dim = dim, .body = region_new(m, outer->region)};
    inner.region = l.body;
    Value carried[] = {region_arg(m, l.body, *type_of(m, x), 0),
                       region_arg(m, l.body, *type_of(m, c->sum), 0)};
    Value index = value_new(m, l.body, SCALAR(DT_i32), 0);
    Context in = {&l, index, c->shared, carried[1]};
    vec_push(a, &l.in, x);
    vec_push(a, &l.in, c->sum);
    d->b = &inner;
    Value y = blocks(d, &in, carried[0], n);
    Value results[] = {y, in.sum, op1(d, OP_tanh, y)};
    d->b = outer;
    for (size_t k = 0; k < l.arg.n; k++)
        vec_push(a, &l.body->args, l.arg.data[k]);
    vec_push(a, &l.body->args, index);
    int nout = 2 + draw_int(&d->rng, 2);
    for (int k = 0; k < nout; k++)
        vec_push(a, &l.body->results, results[k]);
    Type types[] = {*type_of(m, x), *type_of(m, c->sum), TYPE(d->f, dim, d->batch, d->seq, d->hid)};
    Attrs attrs = {.dim = dim, .carried = 2};
    Ins *loop = build_typed(outer, OP_repeat, &attrs, (int)l.in.n, l.in.data, nout, types, l.body);
    c->sum = loop->out[1];
    return nout == 2 ? loop->out[0] : op2(d, OP_add, loop->out[0], sum1(d, loop->out[2], dim));
}

static Value block(Draw *d, Context *c, Value x)
{
    bool within = c->loop && c->loop->dim.name == d->inner.name; /* no loop over a dim in its own */
    switch (draw_int(&d->rng, within ? 6 : 7)) {
    case 0:
        return mlp(d, c->loop, x);
    case 1:
        return attend(d, c->loop, x);
    case 2:
        return soft(d, c->loop, x);
    case 3:
        return d->seed ? dropout(d, c->slot, x) : mlp(d, c->loop, x);
    case 4:
        return picked(d, c->loop, x);
    case 5:
        return with_shared(d, c->shared, x);
    default:
        return looped(d, c, x, d->inner, 1);
    }
}

/* ---- the program ------------------------------------------------------------------------------
 */

static Value embedded(Draw *d, Value tokens, Value table)
{
    Attrs now = {.along = d->seq}, dim = {.dim = d->vocab};
    Value in[] = {table, build(d->b, OP_window, &now, 1, &tokens)};
    Value x = build(d->b, OP_gather, &dim, 2, in);
    return draw_int(&d->rng, 2) ? op2(d, OP_add, x, param(d, TYPE(d->f, d->seq, d->hid), 0)) : x;
}

static Value mean_loss(Draw *d, Value tokens, Value logits)
{
    Attrs next = {.along = d->seq, .at = 1}, ce = {.over = {1, {d->vocab}}, .valid = d->vocab.size};
    Value in[] = {logits, build(d->b, OP_window, &next, 1, &tokens)};
    Value each = build(d->b, OP_cross_entropy, &ce, 2, in);
    Value total = sum_all(d->b, build_cast(d->b, each, DT_f64));
    double n = (double)(d->batch.size * d->seq.size);
    return build2(d->b, OP_mul, total, build_const(d->b, DT_f64, 1 / n));
}

void random_model(Model *t, uint64_t seed)
{
    Draw d = {.t = t, .b = &t->b, .rng = seed * 7919 + 1, .f = DT_f32};
    d.batch = dim_of(t, "batch", 4);
    d.seq = dim_of(t, "seq", 4);
    d.hid = dim_of(t, "hid", 4);
    d.ffn = dim_of(t, "ffn", 6);
    d.layers = dim_of(t, "layers", 3);
    d.inner = dim_of(t, "inner", 2);
    d.vocab = dim_of(t, "vocab", 7);
    t->m->batch = d.batch;
    t->m->seq = d.seq;
    t->m->vocab = 7;
    t->m->layout.microbatch = 4;
    Value tokens = add_arg(t, ARG_tokens, TYPE(DT_i32, d.batch, dim_of(t, "seq", 5)), "tokens");
    if (draw_int(&d.rng, 2)) {
        d.seed = add_arg(t, ARG_seed, SCALAR(DT_i64), "seed");
        d.step = add_arg(t, ARG_step, SCALAR(DT_i64), "step");
    }
    Value embed = param(&d, TYPE(d.f, d.vocab, d.hid), 0);
    Value shared = param(&d, TYPE(d.f, d.hid, dim_of(t, "out", 4)), 0);
    Value x = embedded(&d, tokens, embed);
    Context c = {NULL, build_const(d.b, DT_i32, 0), shared, num(&d, 0)};
    x = looped(&d, &c, with_shared(&d, shared, x), d.layers, 1 + draw_int(&d.rng, 3));
    x = blocks(&d, &c, x, draw_int(&d.rng, 2));
    Value unembed = draw_int(&d.rng, 2) ? embed : param(&d, TYPE(d.f, d.vocab, d.hid), 0);
    Value loss = mean_loss(&d, tokens, dot1(&d, norm(&d, NULL, x), unembed, d.hid));
    loss = build2(d.b, OP_add, loss, build_cast(d.b, c.sum, DT_f64));
    if (draw_int(&d.rng, 2)) { /* a term that does not depend on the batch */
        Value all = sum_all(d.b, op2(&d, OP_mul, shared, shared));
        loss =
            build2(d.b, OP_add, loss, build_cast(d.b, op2(&d, OP_mul, all, num(&d, 0.3)), DT_f64));
    }
    add_loss(t, loss);
}
