/* padding.c - what a function sums over dims that are stored larger than they are leaves the
 * padding out.
 *
 *   before:  %o = dot %h, %down {over=[ffn=704]}                      of which 683 are no padding
 *   after:   %i = iota {dim=ffn=704};  %in = lt %i, 683
 *            %m = select %in, %h, 0;   %o = dot %m, %down {over=[ffn=704]}
 *
 * The invariant: nothing that the padding holds has a part in what lacks the dim, and no gradient
 * reaches the padding. Parameters begin with zeros there, and so keep them.
 *   - A sum and a maximum take 0 and the least float for it. Their gradient there is that of a
 *     select, 0.
 *   - A product over the dim does so with one operand. It need not where both vanish, that is, are
 *     0 in the padding because parameters are: each gradient is then 0, being the other operand
 *     times something.
 *   - An element by element operation hands a gradient of 0 on, if what it is multiplied by is a
 *     number: so nothing may be infinite in the padding. What divides by, or takes a logarithm,
 * root or power of, what may be 0 there is refused (MG0221). What looks along a padded dim in
 * another way is refused where it is called (check_padding). */
#include "grammar/elab.h"

#include <float.h>
#include <string.h>

enum { WORK = 4096 }; /* values that are looked at for one question */

typedef struct Padding {
    Elab *e;
    Module *m;
    Fn *fn;
    int *work; /* values that the question may still look at; then nothing is known */
} Padding;

static bool has(const Padding *p, Value v, Name d)
{
    return type_find(type_of(p->m, v), d) >= 0;
}

static const Ins *def_of(const Padding *p, Value v)
{
    return p->m->values.data[v].def;
}

static bool is_const(const Padding *p, Value v, double *x)
{
    const Ins *def = def_of(p, v);
    if (!def || def->op != OP_const)
        return false;
    *x = def->attrs.value;
    return true;
}

/* ---- what is known of the padding ------------------------------------------------------------
 */

static bool vanishes(const Padding *p, Value v, Name d);

static bool all_vanish(const Padding *p, const Ins *i, uint32_t from, Name d)
{
    for (uint32_t k = from; k < i->nin; k++)
        if (!vanishes(p, i->in[k], d))
            return false;
    return true;
}

static bool any_vanishes(const Padding *p, const Ins *i, Name d)
{
    for (uint32_t k = 0; k < i->nin; k++)
        if (has(p, i->in[k], d) && vanishes(p, i->in[k], d))
            return true;
    return false;
}

static bool result_vanishes(const Padding *p, const Ins *i, Name d)
{
    /* Functions whose value at 0 is 0, and what is linear in its first operand. */
    const bool follows =
        op_is(i->op, LINEAR) || OP_AMONG(i->op, OP_cast, OP_stop, OP_abs, OP_sign, OP_tanh, OP_erf,
                                         OP_sin, OP_gelu_tanh, OP_div, OP_gather);
    if (OP_AMONG(i->op, OP_mul, OP_dot, OP_grouped))
        return any_vanishes(p, i, d);
    if (i->op == OP_select)
        return all_vanish(p, i, 1, d);
    if (i->op == OP_attention)
        return has(p, i->in[2], d) && vanishes(p, i->in[2], d);
    if (op_is(i->op, ADDITIVE))
        return !(i->op == OP_join && i->attrs.dim.name == d) && all_vanish(p, i, 0, d);
    return follows && has(p, i->in[0], d) && vanishes(p, i->in[0], d);
}

/* Is v 0 in the padding of d, since parameters are? A number is the same there as elsewhere. */
static bool vanishes(const Padding *p, Value v, Name d)
{
    double x;
    Value stacked;
    if (is_const(p, v, &x))
        return x == 0;
    if (!has(p, v, d) || --*p->work < 0)
        return false;
    if (slice_loop(p->m, v, &stacked))
        return vanishes(p, stacked, d);
    const Ins *def = def_of(p, v);
    if (def)
        return result_vanishes(p, def, d);
    const int k = p->m->values.data[v].home == p->fn->body ? arg_index(p->m, v) : -1;
    return k >= 0 && p->fn->args.data[k].role == ARG_param;
}

static bool is_above(const Padding *p, Value v, bool or_zero);

/* Of the operands a and b of an addition. */
static bool sum_is_above(const Padding *p, Value a, Value b, bool or_zero)
{
    return is_above(p, a, true) && is_above(p, b, true) &&
           (or_zero || is_above(p, a, false) || is_above(p, b, false));
}

/* Of log(1 + x), as in a softplus. */
static bool log_is_above(const Padding *p, Value of, bool or_zero)
{
    const Ins *i = def_of(p, of);
    double x;
    for (uint32_t k = 0; i && i->op == OP_add && k < 2; k++)
        if (is_const(p, i->in[k], &x) && x >= 1)
            return is_above(p, i->in[1 - k], or_zero);
    return false;
}

static bool result_is_above(const Padding *p, const Ins *i, bool or_zero)
{
    const Value a = i->nin ? i->in[0] : 0, b = i->nin > 1 ? i->in[1] : 0;
    if (OP_AMONG(i->op, OP_exp, OP_sigmoid) || (i->op == OP_abs && or_zero) ||
        (i->op == OP_mul && or_zero && a == b))
        return true;
    if (i->op == OP_const)
        return i->attrs.value > 0 || (or_zero && i->attrs.value == 0);
    if (i->op == OP_add)
        return sum_is_above(p, a, b, or_zero);
    if (i->op == OP_log)
        return log_is_above(p, a, or_zero);
    if (i->op == OP_div)
        return is_above(p, a, or_zero) && is_above(p, b, false);
    if (i->op == OP_max)
        return is_above(p, a, or_zero) || is_above(p, b, or_zero);
    if (OP_AMONG(i->op, OP_mul, OP_min))
        return is_above(p, a, or_zero) && is_above(p, b, or_zero);
    if (i->op == OP_select)
        return is_above(p, b, or_zero) && is_above(p, i->in[2], or_zero);
    return OP_AMONG(i->op, OP_sqrt, OP_rsqrt, OP_cast, OP_copy, OP_stop, OP_rename, OP_sum,
                    OP_rmax) &&
           is_above(p, a, or_zero);
}

/* Is every element of v a number above 0, or (`or_zero`) 0? What is not known is taken for neither.
 */
static bool is_above(const Padding *p, Value v, bool or_zero)
{
    Value stacked;
    if (--*p->work < 0)
        return false;
    if (slice_loop(p->m, v, &stacked))
        return is_above(p, stacked, or_zero);
    return def_of(p, v) && result_is_above(p, def_of(p, v), or_zero);
}

/* The two questions. */
static bool is_never_zero(const Padding *p, Value v)
{
    *p->work = WORK;
    return is_above(p, v, false);
}

static bool vanish_there(const Padding *p, Value v, Name d)
{
    *p->work = WORK;
    return vanishes(p, v, d);
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* The operand that has to be above 0 for the result and its slope to be numbers; or 0. */
static Value touchy(const Ins *i)
{
    return OP_AMONG(i->op, OP_log, OP_sqrt, OP_rsqrt, OP_pow) ? i->in[0]
           : i->op == OP_div                                  ? i->in[1]
                                                              : 0;
}

static bool check_finite(const Padding *p, const Ins *i)
{
    Elab *e = p->e;
    const Value v = touchy(i);
    for (int k = 0; v && k < type_of(p->m, v)->rank; k++) {
        const DimInfo *d = dim_info(e, type_of(p->m, v)->dims[k].name);
        if (!d || d->size == d->valid || is_never_zero(p, v))
            continue;
        fail(e, i->span, 221, "'%s' is padded from %lld to %lld, and %s may be 0 in the padding",
             text(e, d->name), (long long)d->valid, (long long)d->size,
             i->op == OP_div ? "what this divides by" : "what this is of");
        help(e, "add a number above 0 to what is not below 0: sqrt(x * x + 1e-6)");
        return false;
    }
    return true;
}

/* ---- masks ---------------------------------------------------------------------------------- */

/* Has v been given another number in the padding already, as cross_entropy's definition does? */
static bool is_masked(const Padding *p, Value v, const DimInfo *d, double fill)
{
    const Ins *i = def_of(p, v), *is = i && i->op == OP_select ? def_of(p, i->in[0]) : NULL;
    double end, other;
    if (!is || is->op != OP_lt || !is_const(p, is->in[1], &end) || end != (double)d->valid ||
        !is_const(p, i->in[2], &other) || (fill == 0 ? other != 0 : other > -1e30))
        return false;
    const Ins *index = def_of(p, is->in[0]);
    return index && index->op == OP_iota && index->attrs.dim.name == d->name;
}

static Value masked(const Padding *p, Builder *b, Value v, Name dim, double fill)
{
    const DimInfo *d = dim_info(p->e, dim);
    if (is_masked(p, v, d, fill))
        return v;
    const DType t = type_of(p->m, v)->dtype;
    const Dim of = type_of(p->m, v)->dims[type_find(type_of(p->m, v), dim)];
    const Value end = build_const(b, t, (double)d->valid);
    const Value in[] = {build2(b, OP_lt, build_iota(b, t, of), end), v, build_const(b, t, fill)};
    const Value out = build(b, OP_select, NULL, 3, in);
    p->m->values.data[out].name = p->m->values.data[v].name;
    return out;
}

/* The operand of a product that is masked at the least cost: one that is computed element by
 * element is masked as it is; else the smaller one. -1: both vanish. */
static int to_mask(const Padding *p, const Ins *i, Name d)
{
    bool still[2];
    for (int k = 0; k < 2; k++)
        still[k] = vanish_there(p, i->in[k], d);
    if (still[0] && still[1])
        return -1;
    if (still[0] != still[1])
        return still[0];
    for (int k = 0; k < 2; k++) {
        const Ins *def = def_of(p, i->in[k]);
        if (def && op_is(def->op, FUSE))
            return k;
    }
    return type_elements(type_of(p->m, i->in[0])) > type_elements(type_of(p->m, i->in[1]));
}

static void mask_over(const Padding *p, Builder *b, Ins *i, Name d)
{
    const int k = OP_AMONG(i->op, OP_sum, OP_rmax) ? 0 : to_mask(p, i, d);
    if (k >= 0)
        i->in[k] = masked(p, b, i->in[k], d, i->op == OP_rmax ? -(double)FLT_MAX : 0);
}

static bool is_padded(const Padding *p, Name dim)
{
    const DimInfo *d = dim_info(p->e, dim);
    return d && d->size != d->valid;
}

static bool mask_region(const Padding *p, Region *r)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    bool fine = true;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = {.m = p->m, .region = r, .span = i->span};
        fine = fine && check_finite(p, i);
        for (int x = 0; x < i->attrs.over.n && fine; x++)
            if (OP_AMONG(i->op, OP_dot, OP_grouped, OP_sum, OP_rmax, OP_attention) &&
                is_padded(p, i->attrs.over.dim[x].name))
                mask_over(p, &b, i, i->attrs.over.dim[x].name);
        vec_push(p->m->arena, &r->ins, i);
        if (i->body)
            fine = mask_region(p, i->body) && fine;
    }
    return fine;
}

bool mask_padding(Elab *e)
{
    int work;
    const Padding p = {.e = e, .m = e->module, .fn = e->fn, .work = &work};
    bool any = false;
    for (size_t k = 0; k < e->dims.n; k++)
        any |= e->dims.data[k].size != e->dims.data[k].valid;
    return !any || mask_region(&p, e->fn->body);
}
