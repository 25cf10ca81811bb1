/* vjp.c - the derivatives of the ops that are not pointwise; see vjp.h.
 *
 * The table at the end is made from ops.def: an op without a rule does not compile. */
#include "ir/vjp.h"
#include "ir/vjp_rules.h"

typedef void VjpRule(Vjp *v);

Type type_within(const Type *t, const Type *have)
{
    Type r = {.dtype = t->dtype};
    for (int i = 0; i < t->rank; i++)
        if (type_find(have, t->dims[i].name) >= 0)
            r.dims[r.rank++] = t->dims[i];
    return r;
}

Value build_like(Builder *b, Op op, int nin, const Value *in, const Type *like)
{
    Type given, t;
    const char *error = type_check(b->m, op, NULL, nin, in, 1, &given);
    if (error) /* an internal error, which `build` reports */
        return build(b, op, NULL, nin, in);
    t = type_within(like, &given);
    t.dtype = given.dtype;
    for (int i = 0; i < given.rank; i++)
        if (type_find(&t, given.dims[i].name) < 0)
            t.dims[t.rank++] = given.dims[i];
    return build_typed(b, op, NULL, nin, in, 1, &t, NULL)->out[0];
}

/* ---- helpers ------------------------------------------------------------------------------ */

static Type operand_type(const Vjp *v, int i)
{
    return *type_of(v->b->m, v->ins->in[i]);
}

static Type result_type(const Vjp *v, int i)
{
    return *type_of(v->b->m, v->ins->out[i]);
}

static bool has(const Vjp *v, Value x, Name dim)
{
    return type_find(type_of(v->b->m, x), dim) >= 0;
}

static Value operand(const Vjp *v, int i)
{
    return v->need(v->ctx, v->ins->in[i]);
}

static Value result(const Vjp *v, int i)
{
    return v->need(v->ctx, v->ins->out[i]);
}

/* The cotangent of result i with all its dims, of its dtype: what kernels read. */
static Value whole_cotangent(const Vjp *v, int i)
{
    Type t = result_type(v, i);
    return build_as(v->b, build_cast(v->b, v->ct[i], t.dtype), t);
}

/* With all dims, and as exact as it is. */
static Value all_dims(const Vjp *v, int i)
{
    Type t = result_type(v, i);
    t.dtype = type_of(v->b->m, v->ct[i])->dtype;
    return build_as(v->b, v->ct[i], t);
}

/* A value that is computed with. */
static Value wide(const Vjp *v, Value x)
{
    return build_cast(v->b, x, dtype_wide(type_of(v->b->m, x)->dtype));
}

static Value typed(const Vjp *v, Op op, const Attrs *a, int nin, const Value *in, Type t)
{
    return build_typed(v->b, op, a, nin, in, 1, &t, NULL)->out[0];
}

static Value zero_like(const Vjp *v, Value x)
{
    return build_const(v->b, type_of(v->b->m, x)->dtype, 0);
}

/* ---- leaves, casts, indices --------------------------------------------------------------- */

static void vjp_none(Vjp *v)
{
    v->error = "it has no derivative";
}
#define vjp_const               vjp_none
#define vjp_iota                vjp_none
#define vjp_random              vjp_none
#define vjp_guard               vjp_none
#define vjp_transfer            vjp_none /* pass levels makes it, later */
#define vjp_stochastic_round    vjp_none
#define vjp_fused               vjp_none /* kernels are made after differentiation */
#define vjp_head                vjp_none
#define vjp_head_frozen         vjp_none
#define vjp_conv                vjp_none
#define vjp_dot_scaled          vjp_none
#define vjp_dot_bias            vjp_none
#define vjp_dot_sum             vjp_none
#define vjp_dot_gelu            vjp_none
#define vjp_dot_gelu_aux        vjp_none
#define vjp_dot_gelu_grad       vjp_none
#define vjp_repeat              vjp_none /* the pass itself */
#define vjp_attention_grad      vjp_none
#define vjp_attention_bias_grad vjp_none
#define vjp_put                 vjp_none
#define vjp_top                 vjp_none
#define vjp_slots               vjp_none
#define vjp_ends                vjp_none
#define vjp_tile_scale          vjp_none /* pass quantize makes it, later */
#define vjp_round_tiles         vjp_none
#define vjp_cross_entropy_grad  vjp_none

static void vjp_cast(Vjp *v)
{
    DType t = operand_type(v, 0).dtype, of = result_type(v, 0).dtype;
    /* A cast that rounded has no rounding in its derivative; one that widened has. */
    if (ir_ends_product(v->b->m, v->ins))
        v->grad[0] =
            build_cast(v->b, v->ct[0], of); /* what the product's own derivatives multiply */
    else
        v->grad[0] = v->ct[0];
    bool exact = dtype_is_half(of) || (v->exact && v->exact[0]);
    v->grad[0] = build_cast(v->b, v->grad[0], exact ? dtype_wide(t) : t);
}

static void vjp_rename(Vjp *v)
{
    Attrs back = {.dim = v->ins->attrs.to, .to = v->ins->attrs.dim};
    v->grad[0] = v->ct[0];
    if (has(v, v->ct[0], back.dim.name))
        v->grad[0] = build(v->b, OP_rename, &back, 1, v->grad);
}

static void vjp_split(Vjp *v)
{
    Value g = all_dims(v, 0);
    v->grad[0] = build(v->b, OP_merge, &v->ins->attrs, 1, &g);
}

static void vjp_merge(Vjp *v)
{
    Value g = all_dims(v, 0);
    v->grad[0] = build(v->b, OP_split, &v->ins->attrs, 1, &g);
}

/* Each part gets its indices of the cotangent, in its own order of dims. */
static void vjp_join(Vjp *v)
{
    Builder *b = v->b;
    const Name d = v->ins->attrs.dim.name;
    const bool along = has(v, v->ct[0], d);
    int64_t at = 0;
    for (uint32_t k = 0; k < v->ins->nin; k++) {
        const Type part = operand_type(v, (int)k);
        const int own = type_find(&part, d);
        const Dim dim = own < 0 ? v->ins->attrs.dim : part.dims[own];
        const Attrs a = {.dim = dim, .along = dim, .at = at};
        v->grad[k] = along ? build(b, own < 0 ? OP_pick : OP_window, &a, 1, v->ct) : v->ct[0];
        Type t = type_within(&part, type_of(b->m, v->grad[k]));
        t.dtype = type_of(b->m, v->grad[k])->dtype;
        v->grad[k] = build_as(b, v->grad[k], t);
        at += own < 0 ? 1 : dim.size;
    }
}

/* The place `at` gets the cotangent, the others zero. */
static void vjp_pick(Vjp *v)
{
    Type like = operand_type(v, 0);
    Value i = build_iota(v->b, DT_i32, v->ins->attrs.dim);
    Value here = build2(v->b, OP_eq, i, build_const(v->b, DT_i32, (double)v->ins->attrs.at));
    Value in[] = {here, v->ct[0], zero_like(v, v->ct[0])};
    v->grad[0] = build_like(v->b, OP_select, 3, in, &like);
}

/* Of the outermost dim: zeros, the cotangent, zeros. */
static void window_outermost(Vjp *v, const Type *like, Dim n)
{
    Builder *b = v->b;
    Value g = all_dims(v, 0), part[3];
    int64_t size[] = {v->ins->attrs.at, n.size, like->dims[0].size - v->ins->attrs.at - n.size};
    Attrs a = {.dim = like->dims[0]};
    int parts = 0;
    for (int k = 0; k < 3; k++) {
        Type t = *type_of(b->m, g);
        t.dims[0].size = size[k];
        if (size[k])
            part[parts++] = k == 1 ? g : build_as(b, build_const(b, t.dtype, 0), t);
    }
    v->grad[0] = build(b, OP_join, &a, parts, part);
}

/* Along the dim: at <= i < at + n gets the cotangent, which is the same for all of them. */
static void window_of_one(Vjp *v, const Type *like, Dim n, Dim all)
{
    Builder *b = v->b;
    Value at = build_const(b, DT_i32, (double)v->ins->attrs.at);
    Value last = build_const(b, DT_i32, (double)(n.size - 1));
    Value i = build2(b, OP_sub, build_iota(b, DT_i32, all), at), none = zero_like(v, v->ct[0]);
    Value low[] = {build2(b, OP_ge, i, build_const(b, DT_i32, 0)), v->ct[0], none};
    Value high[] = {build2(b, OP_le, i, last), build_like(b, OP_select, 3, low, like), none};
    v->grad[0] = build_like(b, OP_select, 3, high, like);
}

/* Along the dim: at <= i < at + n gets g[i - at], the rest zero. */
static void vjp_window(Vjp *v)
{
    Builder *b = v->b;
    Type like = operand_type(v, 0), small = result_type(v, 0);
    Dim n = small.dims[type_find(&small, v->ins->attrs.along.name)];
    Dim all = like.dims[type_find(&like, n.name)];
    if (n.size == all.size) {
        v->grad[0] = v->ct[0];
        return;
    }
    if (like.dims[0].name == n.name) {
        window_outermost(v, &like, n);
        return;
    }
    if (!has(v, v->ct[0], n.name)) {
        window_of_one(v, &like, n, all);
        return;
    }
    Attrs back = {.dim = n, .at = -v->ins->attrs.at, .every = 1};
    back.over = (DimList){.n = 1, .dim = {all}};
    back.factors = (Factors){.n = 1, .by = {1}};
    v->grad[0] = build(b, OP_reindex, &back, 1, v->ct);
}

/* The element i of dim gets what its copies got. With p one of the dims that count it and are new,
 * they are at p = (every i - (the other terms) - at) / factor of p, for each index of the others:
 * reindex once more, and a sum over the other new dims. If no dim is new, the one copy is where the
 * sum of all terms is every i. */
static void vjp_reindex(Vjp *v)
{
    Builder *b = v->b;
    const Attrs *a = &v->ins->attrs;
    const Type like = operand_type(v, 0);
    Value g = all_dims(v, 0);
    int p = -1;
    for (int k = 0; k < a->over.n; k++)
        if (a->over.dim[k].name == a->dim.name ||
            (p < 0 && type_find(&like, a->over.dim[k].name) < 0))
            p = k;
    if (p < 0) {
        Value sum = build_const(b, DT_i32, (double)a->at),
              every = build_const(b, DT_i32, (double)a->every);
        for (int k = 0; k < a->over.n; k++) {
            Value by = build_const(b, DT_i32, a->factors.by[k]);
            sum = build2(b, OP_add, build2(b, OP_mul, build_iota(b, DT_i32, a->over.dim[k]), by),
                         sum);
        }
        Value here = build2(b, OP_eq, build2(b, OP_mul, build_iota(b, DT_i32, a->dim), every), sum);
        Value in[] = {here, g, zero_like(v, g)};
        v->grad[0] = build_like(b, OP_select, 3, in, &like);
        return;
    }
    const int32_t sign = a->factors.by[p] < 0 ? -1 : 1;
    Attrs back = {.dim = a->over.dim[p], .at = -sign * a->at, .every = sign * a->factors.by[p]};
    DimList fresh = {0};
    back.over.dim[back.over.n++] = a->dim;
    back.factors.by[back.factors.n++] = sign * (int32_t)a->every;
    for (int k = 0; k < a->over.n; k++) {
        if (k == p)
            continue;
        back.over.dim[back.over.n++] = a->over.dim[k];
        back.factors.by[back.factors.n++] = -sign * a->factors.by[k];
        if (type_find(&like, a->over.dim[k].name) < 0)
            fresh.dim[fresh.n++] = a->over.dim[k];
    }
    g = build(b, OP_reindex, &back, 1, &g);
    v->grad[0] = build_sum(b, wide(v, g), &fresh);
}

/* rotate is a quarter turn of the pairs (i, i + n/2): its transpose turns back. */
static void vjp_rotate(Vjp *v)
{
    Value g = v->ct[0];
    if (!has(v, g, v->ins->attrs.dim.name))
        g = whole_cotangent(v, 0);
    v->grad[0] = build1(v->b, OP_neg, build(v->b, OP_rotate, &v->ins->attrs, 1, &g));
}

/* ---- reductions and products -------------------------------------------------------------- */

static void vjp_sum(Vjp *v)
{
    v->grad[0] = v->ct[0];
}

/* Elements that tie for the maximum share its cotangent equally. */
static void vjp_rmax(Vjp *v)
{
    Builder *b = v->b;
    Type like = operand_type(v, 0);
    Value in[] = {operand(v, 0), result(v, 0)};
    Value top = build_like(b, OP_eq, 2, in, &like);
    Value one[] = {top, build_const(b, like.dtype, 1), build_const(b, like.dtype, 0)};
    Value ties = build_sum(b, build_like(b, OP_select, 3, one, &like), &v->ins->attrs.over);
    Value share[] = {v->ct[0], ties};
    Value part[] = {top, build_like(b, OP_div, 2, share, &like), one[2]};
    v->grad[0] = build_like(b, OP_select, 3, part, &like);
}

/* The cotangent of one factor: g times the other factor, summed over the dims that only the other
 * has. Those of them that g lacks are summed off the other factor alone. */
static Value factor(Vjp *v, int mine, int others)
{
    Type t = operand_type(v, mine), u = operand_type(v, others);
    DType multiplied = u.dtype;
    Attrs a = {.fp8 = v->ins->attrs.fp8 ? FP8_gradient : 0};
    DimList alone = {0};
    for (int i = 0; i < u.rank; i++) {
        if (type_find(&t, u.dims[i].name) >= 0)
            continue;
        DimList *l = has(v, v->ct[0], u.dims[i].name) ? &a.over : &alone;
        l->dim[l->n++] = u.dims[i];
    }
    Value other = operand(v, others);
    if (alone.n || !a.over.n)
        other = build_sum(v->b, wide(v, other), &alone);
    Value in[] = {v->ct[0], other};
    if (!a.over.n) {
        in[0] = wide(v, in[0]);
        return build_like(v->b, OP_mul, 2, in, &t);
    }
    for (int i = 0; i < 2; i++)
        in[i] = build_cast(v->b, in[i], multiplied);
    Type r = {.dtype = v->exact && v->exact[mine] ? dtype_wide(t.dtype) : t.dtype};
    for (int i = 0; i < t.rank; i++)
        if (has(v, in[0], t.dims[i].name) || has(v, in[1], t.dims[i].name))
            r.dims[r.rank++] = t.dims[i];
    return typed(v, OP_dot, &a, 2, in, r);
}

static void vjp_dot(Vjp *v)
{
    if (v->want[0])
        v->grad[0] = factor(v, 0, 1);
    if (v->want[1])
        v->grad[1] = factor(v, 1, 0);
    if (v->ins->nin > 2 && v->want[2])
        v->grad[2] = v->ct[0];
}

/* ---- index arithmetic --------------------------------------------------------------------- */

static void vjp_gather(Vjp *v)
{
    Value in[] = {wide(v, whole_cotangent(v, 0)), operand(v, 1)};
    const Type *index = type_of(v->b->m, v->ins->in[1]);
    const Name dim = v->ins->attrs.dim.name;
    Attrs a = {.dim = v->ins->attrs.dim};
    Type t = operand_type(v, 0);
    t.dtype = dtype_wide(t.dtype);
    for (int i = 0; i < index->rank; i++) /* dims that the table has too stay */
        if (index->dims[i].name == dim || type_find(&t, index->dims[i].name) < 0)
            a.over.dim[a.over.n++] = index->dims[i];
    v->grad[0] = typed(v, OP_scatter_add, &a, 2, in, t);
}

static void vjp_scatter_add(Vjp *v)
{
    Value in[] = {v->ct[0], operand(v, 1)};
    const Attrs a = {.dim = v->ins->attrs.dim};
    if (v->want[0])
        v->grad[0] = has(v, v->ct[0], a.dim.name) ? build(v->b, OP_gather, &a, 2, in) : v->ct[0];
    if (v->ins->nin > 2 && v->want[2])
        v->grad[2] = v->ct[0];
}

/* ---- experts ------------------------------------------------------------------------------ */

/* dispatch and combine, with a weight, are transposes of one another. */
static void sent(Vjp *v, Op back)
{
    bool weighed = v->ins->nin > 3;
    Value g = whole_cotangent(v, 0);
    Value in[] = {g, operand(v, 1), operand(v, 2), weighed ? operand(v, 3) : 0};
    if (v->want[0])
        v->grad[0] = typed(v, back, &v->ins->attrs, 3 + weighed, in, operand_type(v, 0));
    if (!weighed || !v->want[3])
        return;
    Value x = operand(v, 0);
    Value both[] = {back == OP_combine ? g : x, back == OP_combine ? x : g, in[1], in[2]};
    v->grad[3] = typed(v, OP_combine_weight, &v->ins->attrs, 4, both, operand_type(v, 3));
}

static void vjp_dispatch(Vjp *v)
{
    sent(v, OP_combine);
}

static void vjp_combine(Vjp *v)
{
    sent(v, OP_dispatch);
}

static void vjp_combine_weight(Vjp *v)
{
    Value g = whole_cotangent(v, 0), choice[] = {operand(v, 2), operand(v, 3)};
    if (v->want[0]) {
        Value in[] = {operand(v, 1), choice[0], choice[1], g};
        v->grad[0] = typed(v, OP_dispatch, &v->ins->attrs, 4, in, operand_type(v, 0));
    }
    if (v->want[1]) {
        Value in[] = {operand(v, 0), choice[0], choice[1], g};
        v->grad[1] = typed(v, OP_combine, &v->ins->attrs, 4, in, operand_type(v, 1));
    }
}

/* Factors are of the type of the operands; a gradient is as exact as is asked for. */
static Value grouped(Vjp *v, Op op, const Attrs *a, Value first, Value second, int mine)
{
    Type t = operand_type(v, mine);
    t.dtype = v->exact && v->exact[mine] ? dtype_wide(t.dtype) : t.dtype;
    Value in[] = {first, second, operand(v, 2)};
    return typed(v, op, a, 3, in, t);
}

/* Rows times matrices, and the matrices turned: sums are over what the matrices have left. */
static void vjp_grouped(Vjp *v)
{
    const Type w = operand_type(v, 1);
    Type y = result_type(v, 0);
    y.dtype = w.dtype;
    const Value g = build_as(v->b, build_cast(v->b, v->ct[0], w.dtype), y);
    Attrs a = v->ins->attrs;
    a.over.n = 0;
    bool summed_first = false;
    for (int i = 0; i < w.rank; i++) {
        const Dim d = w.dims[i];
        if (d.name == a.dim.name)
            continue;
        if (!dims_have(&v->ins->attrs.over, d.name))
            a.over.dim[a.over.n++] = d;
        else if (!a.over.n)
            summed_first = true;
    }
    if (v->want[0])
        v->grad[0] = grouped(v, OP_grouped, &a, g, operand(v, 1), 0);
    if (v->want[1]) {
        const Value z = operand(v, 0); /* the matrices lie as they do */
        v->grad[1] = grouped(v, OP_grouped_weight, &v->ins->attrs, summed_first ? z : g,
                             summed_first ? g : z, 1);
    }
}

/* Each operand's gradient is a product of the other with the matrices of the cotangent. */
static void vjp_grouped_weight(Vjp *v)
{
    Type t = result_type(v, 0);
    t.dtype = operand_type(v, 0).dtype;
    const Value g = build_as(v->b, build_cast(v->b, v->ct[0], t.dtype), t);
    for (int k = 0; k < 2; k++) {
        const Type other = operand_type(v, 1 - k);
        Attrs a = v->ins->attrs;
        for (int i = 0; i < other.rank; i++)
            if (type_find(&t, other.dims[i].name) >= 0)
                a.over.dim[a.over.n++] = other.dims[i];
        if (v->want[k])
            v->grad[k] = grouped(v, OP_grouped, &a, operand(v, 1 - k), g, k);
    }
    if (v->ins->nin > 3 && v->want[3])
        v->grad[3] = v->ct[0];
}

/* ---- composites --------------------------------------------------------------------------- */

/* A sink has the probability e^(sink - lse), and a value of 0: with D = do . o its score gets
 * -e^(sink - lse) D. Gradients of the other scores are e^(score - lse) (do . v - D) with a sink
 * as without one, since lse counts it. */
static Value sink_cotangent(Vjp *v, Value o, Value lse, Value g)
{
    Builder *b = v->b;
    const Type t = operand_type(v, 2), like = *type_of(b->m, lse);
    const Type keys = operand_type(v, 1);
    const DimList head = attention_value_head(&v->ins->attrs, &keys, &t);
    Value dot = build_sum(b, build2(b, OP_mul, wide(v, g), wide(v, o)), &head);
    Value less[] = {operand(v, 3), lse};
    Value share = build1(b, OP_exp, build_like(b, OP_sub, 2, less, &like));
    Value both[] = {share, dot};
    const Type own = operand_type(v, 3);
    DimList shared = {0}; /* dims of queries that have one sink */
    for (int i = 0; i < like.rank; i++)
        if (type_find(&own, like.dims[i].name) < 0)
            shared.dim[shared.n++] = like.dims[i];
    return build1(b, OP_neg, build_sum(b, build_like(b, OP_mul, 2, both, &like), &shared));
}

static void vjp_attention(Vjp *v)
{
    if (v->ct[1]) {
        v->error = "the log of attention's normaliser has no derivative";
        return;
    }
    Value in[9] = {operand(v, 0), operand(v, 1), operand(v, 2),
                   result(v, 0),  result(v, 1),  whole_cotangent(v, 0)};
    int n = 6;
    Attrs a = v->ins->attrs;
    const int bias = 3 + a.sunk;
    a.sunk = false;
    for (int k = bias; k < (int)v->ins->nin; k++) /* the bias, and what each query sees */
        in[n++] = operand(v, k);
    Type t[] = {operand_type(v, 0), operand_type(v, 1), operand_type(v, 2)};
    Ins *g = build_typed(v->b, OP_attention_grad, &a, n, in, 3, t, NULL);
    for (int i = 0; i < 3; i++)
        v->grad[i] = g->out[i];
    if (v->ins->attrs.sunk && v->want[3])
        v->grad[3] = sink_cotangent(v, in[3], in[4], in[5]);
    if (a.biased && v->want[bias])
        v->grad[bias] = typed(v, OP_attention_bias_grad, &a, n, in, operand_type(v, bias));
}

/* A cotangent per target: one number for all, or all of them. */
static Value target_cotangent(const Vjp *v)
{
    return type_of(v->b->m, v->ct[0])->rank ? whole_cotangent(v, 0) : v->ct[0];
}

static void vjp_cross_entropy(Vjp *v)
{
    if (v->ct[1]) {
        v->error = "the log of cross_entropy's normaliser has no derivative";
        return;
    }
    Value in[] = {operand(v, 0), operand(v, 1), result(v, 1), target_cotangent(v)};
    v->grad[0] = typed(v, OP_cross_entropy_grad, &v->ins->attrs, 4, in, operand_type(v, 0));
}

static void vjp_head_loss(Vjp *v)
{
    Value in[] = {operand(v, 0), operand(v, 1), operand(v, 2), target_cotangent(v)};
    Type t[] = {result_type(v, 0), operand_type(v, 0), operand_type(v, 1)};
    if (v->exact && v->exact[1])
        t[2].dtype = dtype_wide(t[2].dtype);
    Ins *g = build_typed(v->b, OP_head, &v->ins->attrs, 4, in, 3, t, NULL);
    v->grad[0] = g->out[1];
    v->grad[1] = g->out[2];
}

/* ---- the table ---------------------------------------------------------------------------- */

static VjpRule *const rule[OP_count] = {
#define PRIMITIVE(name, ...) [OP_##name] = vjp_pointwise,
#define COMPOSED(name, ...)  [OP_##name] = vjp_pointwise,
#define OP(name, ...)        [OP_##name] = vjp_##name,
/* made after differentiation */
#define COLLECTIVE(name, ...) [OP_##name] = vjp_none,
#include "ir/ops.def"
};

static bool any_gradient(const Vjp *v)
{
    for (uint32_t i = 0; i < v->ins->nin; i++)
        if (v->want[i])
            return true;
    return false;
}

void vjp(Vjp *v)
{
    v->error = NULL;
    if (any_gradient(v))
        rule[v->ins->op](v);
}
