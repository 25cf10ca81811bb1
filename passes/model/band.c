/* band.c - evaluates a mask at each distance of a query and a key; see band.h.
 *
 * A value is a form a i + b j + c, or (a + b = 0, or computed from such values) a number at each
 * distance. A comparison of two forms depends on their difference. So the number of values to look
 * at is the number of distances, not of pairs, and it does not matter how a mask is written.
 * Coefficients and constants are such that f32 and f64 compute the same. */
#include "passes/model/band.h"
#include "passes/walk.h"

#include <math.h>

enum { NODES = 256, EXACT = 1 << 23 };

typedef struct Form {
    bool affine; /* a i + b j + c; else `at` */
    double a, b, c;
    double *at; /* NULL, of no form: v is none of these */
} Form;

typedef struct Eval {
    const Band *b;
    int nodes; /* that may still be looked at: a value may be used often */
} Eval;

static const Form none;

static Form affine(const Eval *e, double a, double b, double c)
{
    const double most = fabs(a) * (double)e->b->query.size + fabs(b) * (double)e->b->key.size;
    const bool moves = most > 0;
    if (moves && (floor(a) < a || floor(b) < b || floor(2 * c) < 2 * c || most + fabs(c) > EXACT))
        return none;
    return (Form){.affine = true, .a = a, .b = b, .c = c};
}

static bool is_number(const Form *f)
{
    return f->affine && !(fabs(f->a) + fabs(f->b) > 0);
}

/* The values at all distances, or NULL. */
static double *values(const Eval *e, const Form *f)
{
    if (!f->affine || fabs(f->a + f->b) > 0)
        return f->at;
    const int64_t n = band_distances(e->b);
    double *at = NEW_ARRAY(e->b->tmp, double, n);
    for (int64_t k = 0; k < n; k++)
        at[k] = f->a * (double)(k - e->b->key.size + 1) + f->c;
    return at;
}

/* As a value of its type. */
static double rounded(const Module *m, DType t, double x)
{
    return t == DT_f32 && m->train.compute == DT_f32 ? (double)(float)x
           : t == DT_bool                            ? x != 0
           : dtype_is_float(t)                       ? x
                                                     : trunc(x);
}

static Form eval(Eval *e, Value v);

/* Of a pointwise op on forms. */
static Form of_forms(const Eval *e, Op op, const Form *x, const Form *y)
{
    const double k = op == OP_sub ? -1 : 1;
    if (op == OP_copy || op == OP_stop)
        return *x;
    if (op == OP_neg)
        return affine(e, -x->a, -x->b, -x->c);
    if (op == OP_add || op == OP_sub)
        return affine(e, x->a + k * y->a, x->b + k * y->b, x->c + k * y->c);
    if (op == OP_mul && is_number(x))
        return affine(e, x->c * y->a, x->c * y->b, x->c * y->c);
    if (op == OP_mul && is_number(y))
        return affine(e, y->c * x->a, y->c * x->b, y->c * x->c);
    return none;
}

/* A comparison says of two forms what it says of their difference and 0. */
static bool compares(Op op)
{
    return OP_AMONG(op, OP_lt, OP_le, OP_gt, OP_ge, OP_eq, OP_ne);
}

static Form pointwise(Eval *e, const Ins *i)
{
    Form x[3] = {0};
    double *at[3] = {0};
    bool forms = true, all = true;
    for (uint32_t k = 0; k < i->nin; k++) {
        x[k] = eval(e, i->in[k]);
        if (!x[k].affine && !x[k].at)
            return none;
        forms &= x[k].affine;
    }
    if (forms) {
        const Form f = of_forms(e, i->op, &x[0], &x[1]);
        if (f.affine)
            return f;
    }
    if (forms && compares(i->op)) {
        x[0] = affine(e, x[0].a - x[1].a, x[0].b - x[1].b, x[0].c - x[1].c);
        x[1] = affine(e, 0, 0, 0);
    }
    for (uint32_t k = 0; k < i->nin; k++) {
        at[k] = values(e, &x[k]);
        all &= at[k] != NULL;
    }
    if (!all)
        return none;
    const int64_t n = band_distances(e->b);
    const DType t = type_of(e->b->m, i->out[0])->dtype;
    Form f = {.at = NEW_ARRAY(e->b->tmp, double, n)};
    for (int64_t d = 0; d < n; d++)
        f.at[d] = rounded(e->b->m, t,
                          op_evaluate(i->op, at[0][d], at[1] ? at[1][d] : 0, at[2] ? at[2][d] : 0));
    return f;
}

/* Forms are whole numbers, or halves: only to an integer or a condition a cast changes them. */
static Form cast(Eval *e, const Ins *i)
{
    const DType t = type_of(e->b->m, i->out[0])->dtype;
    Form f = eval(e, i->in[0]);
    if (f.affine && (dtype_is_float(t) || (t != DT_bool && !(floor(f.c) < f.c))))
        return f;
    const double *at = values(e, &f);
    if (!at)
        return none;
    const int64_t n = band_distances(e->b);
    Form g = {.at = NEW_ARRAY(e->b->tmp, double, n)};
    for (int64_t d = 0; d < n; d++)
        g.at[d] = rounded(e->b->m, t, at[d]);
    return g;
}

static Form eval(Eval *e, Value v)
{
    const Ins *i = e->b->m->values.data[v].def;
    if (!i || --e->nodes < 0)
        return none;
    if (i->op == OP_const)
        return affine(e, 0, 0, rounded(e->b->m, type_of(e->b->m, v)->dtype, i->attrs.value));
    if (i->op == OP_iota)
        return affine(e, i->attrs.dim.name == e->b->query.name, i->attrs.dim.name == e->b->key.name,
                      0);
    if (i->op == OP_cast)
        return cast(e, i);
    return op_is(i->op, POINTWISE) ? pointwise(e, i) : none;
}

const double *band_values(const Band *b, Value v)
{
    Eval e = {b, NODES};
    const Type *t = type_of(b->m, v);
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name != b->query.name && t->dims[k].name != b->key.name)
            return NULL;
    const Form f = eval(&e, v);
    return values(&e, &f);
}

bool band_is_causal(const Band *b, const bool *on, int64_t *window)
{
    const int64_t n = band_distances(b), own = b->key.size - 1;
    int64_t end = own;
    while (end < n && on[end])
        end++;
    for (int64_t k = 0; k < n; k++)
        if (on[k] != (k >= own && k < end))
            return false;
    *window = end < n ? end - own : 0;
    return end > own;
}
