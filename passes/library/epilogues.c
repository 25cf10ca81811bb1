/* epilogues.c - what is done at the end of a product, or on its way.
 *
 *   %y = dot %x, %w                                  %r = dot_bias %x, %w, %b
 *   %s = add %y, cast %b                      ->
 *   %r = cast %s
 *
 *   %dw = dot %dy, %x [, %acc]                       %dw, %db = dot_sum %dy, %x [, %acc]
 *   %db = sum cast %dy                        ->
 *
 *   %z = dot_bias %x, %w, %b                  ->     %h, %z = dot_gelu_aux %x, %w, %b
 *   %h = cast gelu_tanh cast %z                      (dot_gelu where nobody else reads %z)
 *
 *   %y = dot %x, %w                           ->     %r = dot_gelu_grad %x, %w, %z
 *   %r = cast mul cast %y, gelu_tanh_slope cast %z
 *
 *   %y: f32 = dot %q, %u      (of fp8)        ->     %r = dot_scaled %q, %u, %s, %t
 *   %r = [cast] mul %y, (mul %s, %t)
 *
 * For programs in halves. Nothing is rounded that was not rounded before: the sum with the bias is
 * f32, and so is what gelu_tanh is computed from; the sums of dy are of the halves that it
 * multiplies. Bias and sums lie along the columns of the product as it will be called, so that this
 * is checked here. */
#include "passes/toposort.h"
#include "passes/passes.h"
#include "passes/library/product.h"
#include "passes/view.h"

typedef struct Epilogues {
    Module *m;
    Region *r;
    Uses uses;
    Ins **gone; /* instructions that are part of others now */
    size_t ngone;
} Epilogues;

static const Type *type_at(const Epilogues *e, Value v)
{
    return type_of(e->m, v);
}

/* The instruction of this region that defines v, if it is op. */
static Ins *made_by(const Epilogues *e, Value v, Op op)
{
    Ins *i = e->m->values.data[v].def;
    return i && i->op == op && i->home == e->r ? i : NULL;
}

/* The half that v is, widened; 0 if it is none. */
static Value narrow(const Epilogues *e, Value v)
{
    const Ins *i = made_by(e, v, OP_cast);
    return i && dtype_is_half(type_at(e, i->in[0])->dtype) ? i->in[0] : 0;
}

static void drop(Epilogues *e, Ins *i)
{
    e->gone[e->ngone++] = i;
}

/* A value that only what is replaced reads goes too. */
static void drop_if_single(Epilogues *e, Value v)
{
    Ins *i = e->m->values.data[v].def;
    if (e->uses.count[v] == 1 && i && i->home == e->r)
        drop(e, i);
}

/* Is a dot of a and b one product whose columns are those dims of operand `of` (0: a) that are not
 * summed, and does v lie along them as the result's innermost dims do? */
static bool along_columns(const Epilogues *e, Value a, Value b, const DimList *over,
                          const Type *result, int of, Value v)
{
    const Module *m = e->m;
    Strided x = strided_of(m, a), y = strided_of(m, b), z = {.type = result}, w = strided_of(m, v);
    const Type *columns = type_at(e, of ? b : a), *other = type_at(e, of ? a : b);
    Product p;
    strides_dense(result, z.stride);
    if (!product_match(&x, &y, &z, over, &p) || p.desc.batch != 1 || p.swap != (of == 0))
        return false;
    for (int i = 0; i < result->rank; i++) {
        Name d = result->dims[i].name;
        bool column = type_find(columns, d) >= 0 && type_find(other, d) < 0;
        int at = type_find(w.type, d);
        if (result->dims[i].size > 1 && column != (at >= 0))
            return false;
        if (at >= 0 && result->dims[i].size > 1 && w.stride[at] != z.stride[i])
            return false;
    }
    return true;
}

/* ---- bias -------------------------------------------------------------------------------------
 */

static bool take_bias(Epilogues *e, Ins *cast)
{
    Ins *add = made_by(e, cast->in[0], OP_add);
    const Type *t = type_at(e, cast->out[0]);
    if (!add || !dtype_is_half(t->dtype) || e->uses.count[cast->in[0]] != 1)
        return false;
    for (int k = 0; k < 2; k++) {
        Ins *dot = made_by(e, add->in[k], OP_dot);
        Value bias = narrow(e, add->in[1 - k]);
        if (!dot || !bias || dot->nin != 2 || e->uses.count[dot->out[0]] != 1 ||
            type_at(e, dot->in[0])->dtype != t->dtype || type_at(e, bias)->dtype != t->dtype ||
            !type_same_dims(type_at(e, dot->out[0]), t) ||
            !along_columns(e, dot->in[0], dot->in[1], &dot->attrs.over, t, 1, bias))
            continue;
        Value *in = NEW_ARRAY(e->m->arena, Value, 3);
        in[0] = dot->in[0];
        in[1] = dot->in[1];
        in[2] = bias;
        drop(e, add);
        drop(e, dot);
        drop_if_single(e, add->in[1 - k]);
        cast->op = OP_dot_bias;
        cast->attrs = dot->attrs;
        cast->in = in;
        cast->nin = 3;
        return true;
    }
    return false;
}

/* ---- sums -------------------------------------------------------------------------------------
 */

static bool same_set(const DimList *a, const DimList *b)
{
    bool same = a->n == b->n;
    for (int i = 0; i < a->n; i++)
        same &= dims_have(b, a->dim[i].name);
    return same;
}

/* Does a product round what it is added to? Its sums would be halves, too. */
static bool is_rounded_sum(const Epilogues *e, const Ins *dot)
{
    RoundedSum s;
    for (size_t k = 0; e->m->train.sums_nearest && k < e->r->ins.n; k++)
        if (rounded_sum(e->m, &e->uses, e->r->ins.data[k], &s) && s.dot == dot)
            return true;
    return false;
}

static bool take_sum(Epilogues *e, Ins *sum)
{
    Value dy = sum->op == OP_sum ? narrow(e, sum->in[0]) : 0;
    for (size_t k = 0; dy && k < e->r->ins.n; k++) {
        Ins *dot = e->r->ins.data[k];
        if (dot->op != OP_dot || (dot->in[0] != dy && dot->in[1] != dy) ||
            dot->in[0] == dot->in[1] || type_at(e, dot->out[0])->dtype != DT_f32 ||
            !same_set(&dot->attrs.over, &sum->attrs.over) || is_rounded_sum(e, dot))
            continue;
        Value x = dot->in[dot->in[0] == dy];
        if (!along_columns(e, dy, x, &dot->attrs.over, type_at(e, dot->out[0]), 0, sum->out[0]))
            continue;
        Value *out = NEW_ARRAY(e->m->arena, Value, 2);
        out[0] = dot->out[0];
        out[1] = sum->out[0];
        dot->op = OP_dot_sum;
        dot->in[0] = dy;
        dot->in[1] = x;
        dot->out = out;
        dot->nout = 2;
        e->m->values.data[out[1]].def = dot;
        drop(e, sum);
        drop_if_single(e, sum->in[0]);
        return true;
    }
    return false;
}

/* ---- scales ------------------------------------------------------------------------------------
 */

/* The product of two numbers that v is, of which one is for each of its operands. */
static const Ins *scale(const Epilogues *e, Value v)
{
    const Ins *i = type_at(e, v)->rank ? NULL : made_by(e, v, OP_mul);
    return i && !type_at(e, i->in[0])->rank && !type_at(e, i->in[1])->rank ? i : NULL;
}

/* mul: a product's result times its scales; last: that, or what rounds it. */
static bool take_scales(Epilogues *e, Ins *mul, Ins *last)
{
    for (int k = 0; k < 2; k++) {
        const Ins *s = scale(e, mul->in[1 - k]);
        Ins *dot = s ? made_by(e, mul->in[k], OP_dot) : NULL;
        if (!dot || dot->nin != 2 || e->uses.count[dot->out[0]] != 1 ||
            !dtype_is_fp8(type_at(e, dot->in[0])->dtype))
            continue;
        Value *in = NEW_ARRAY(e->m->arena, Value, 4);
        in[0] = dot->in[0];
        in[1] = dot->in[1];
        in[2] = s->in[0];
        in[3] = s->in[1];
        drop(e, dot);
        drop_if_single(e, mul->in[1 - k]);
        if (last != mul)
            drop(e, mul);
        last->op = OP_dot_scaled;
        last->attrs = (Attrs){.over = dot->attrs.over};
        last->exact = dot->exact;
        last->in = in;
        last->nin = 4;
        return true;
    }
    return false;
}

static bool take_rounded(Epilogues *e, Ins *cast)
{
    Ins *mul = made_by(e, cast->in[0], OP_mul);
    return mul && dtype_is_half(type_at(e, cast->out[0])->dtype) &&
           e->uses.count[cast->in[0]] == 1 && take_scales(e, mul, cast);
}

/* ---- gelu -------------------------------------------------------------------------------------
 */

/* Does the product of a dot give the result where it lies, and x lie like the result? */
static bool alike(const Epilogues *e, const Ins *dot, const Type *result, Value x)
{
    const Value a = dot->in[0], b = dot->in[1];
    const DimList *over = &dot->attrs.over;
    Strided u = strided_of(e->m, a), v = strided_of(e->m, b), w = strided_of(e->m, x),
            z = {.type = result};
    Product p, q;
    strides_dense(result, z.stride);
    return type_equal(type_at(e, x), result) && product_match(&u, &v, &z, over, &p) &&
           product_match(&u, &v, &w, over, &q) && p.desc.batch == 1 && q.desc.batch == 1 &&
           p.swap == q.swap;
}

/* The half that v is the only reader of, widened for f, of what v is cast from. */
static Value narrow_of(const Epilogues *e, Value v, Op f)
{
    const Ins *i = made_by(e, v, f);
    return i && e->uses.count[v] == 1 ? narrow(e, i->in[0]) : 0;
}

static bool take_gelu(Epilogues *e, Ins *cast)
{
    const Value h = cast->out[0], z = narrow_of(e, cast->in[0], OP_gelu_tanh);
    Ins *dot = z ? e->m->values.data[z].def : NULL;
    if (!dot || dot->home != e->r || !type_equal(type_at(e, z), type_at(e, h)) ||
        !(dot->op == OP_dot_bias || (dot->op == OP_dot && dot->nin == 2)) ||
        type_at(e, dot->in[0])->dtype != type_at(e, z)->dtype || !alike(e, dot, type_at(e, z), z))
        return false;
    Ins *gelu = e->m->values.data[cast->in[0]].def;
    const bool alone = e->uses.count[z] == 1 && e->uses.count[gelu->in[0]] == 1;
    Value *out = NEW_ARRAY(e->m->arena, Value, 2);
    out[0] = h;
    out[1] = z;
    dot->op = alone ? OP_dot_gelu : OP_dot_gelu_aux;
    dot->out = out;
    dot->nout = alone ? 1 : 2;
    e->m->values.data[h].def = dot;
    drop(e, cast);
    drop(e, gelu);
    drop_if_single(e, gelu->in[0]);
    return true;
}

static bool take_gelu_grad(Epilogues *e, Ins *cast)
{
    Ins *mul = made_by(e, cast->in[0], OP_mul);
    const Type *t = type_at(e, cast->out[0]);
    for (int k = 0; k < 2 && mul && e->uses.count[cast->in[0]] == 1; k++) {
        const Value y = narrow(e, mul->in[k]), z = narrow_of(e, mul->in[1 - k], OP_gelu_tanh_slope);
        Ins *dot = y ? made_by(e, y, OP_dot) : NULL;
        if (!dot || !z || dot->nin != 2 || e->uses.count[y] != 1 ||
            e->uses.count[mul->in[k]] != 1 || type_at(e, dot->in[0])->dtype != t->dtype ||
            !type_equal(type_at(e, y), t) || !alike(e, dot, t, z))
            continue;
        Value *in = NEW_ARRAY(e->m->arena, Value, 3);
        in[0] = dot->in[0];
        in[1] = dot->in[1];
        in[2] = z;
        Ins *slope = e->m->values.data[mul->in[1 - k]].def;
        drop(e, mul);
        drop(e, dot);
        drop(e, slope);
        drop_if_single(e, mul->in[k]);
        drop_if_single(e, slope->in[0]);
        cast->op = OP_dot_gelu_grad;
        cast->attrs = dot->attrs;
        cast->in = in;
        cast->nin = 3;
        return true;
    }
    return false;
}

/* ---- the pass ---------------------------------------------------------------------------------
 */

static bool is_gone(const Epilogues *e, const Ins *i)
{
    for (size_t k = 0; k < e->ngone; k++)
        if (e->gone[k] == i)
            return true;
    return false;
}

static void epilogues_in(Module *m, Region *r, Arena *tmp)
{
    Epilogues e = {.m = m, .r = r, .uses = ir_uses(m, r, tmp)};
    size_t kept = 0;
    bool moved = false;
    e.gone = arena_array(tmp, 5 * r->ins.n + 1, sizeof *e.gone);
    for (size_t i = 0; i < r->ins.n; i++) {
        Ins *ins = r->ins.data[i];
        if (ins->op == OP_repeat)
            epilogues_in(m, ins->body, tmp);
        if (ins->op == OP_cast && !take_bias(&e, ins) && !take_gelu(&e, ins) &&
            !take_gelu_grad(&e, ins))
            take_rounded(&e, ins);
        moved |= take_sum(&e, ins);
    }
    for (size_t i = 0; i < r->ins.n && m->train.fp8_products; i++)
        if (r->ins.data[i]->op == OP_mul && !is_gone(&e, r->ins.data[i]))
            take_scales(&e, r->ins.data[i], r->ins.data[i]);
    for (size_t i = 0; i < r->ins.n; i++)
        if (!is_gone(&e, r->ins.data[i]))
            r->ins.data[kept++] = r->ins.data[i];
    r->ins.n = kept;
    if (moved)
        toposort_region(m, r, tmp); /* the sums are there when their products are */
}

PassStatus pass_epilogues(Job *j)
{
    for (size_t i = 0; j->m->train.half && i < j->m->fns.n; i++)
        epilogues_in(j->m, j->m->fns.data[i]->body, j->tmp);
    return PASS_ok;
}
