/* optimizers.c - the update rules.
 *
 *   adamw, adam   torch.optim.AdamW, Adam      sgd        torch.optim.SGD, with nesterov
 *   lion          Chen et al. 2023             adafactor  Shazeer and Stern 2018, as transformers'
 *   muon          Jordan 2024, scaled as torch.optim.Muon's match_rms_adamw; matrices without the
 *                 dim of the tokens, everything else by adamw
 *
 * Weight decay is decoupled (p shrinks by lr * decay) but for adam and sgd, where it is added to
 * the gradient. A parameter of a repeat is its layers' matrices side by side: what looks at a whole
 * matrix (adafactor, muon) takes each by itself, in its external form. What is one number for all
 * parameters is computed in f64 and rounded once. */
#include "passes/step/update.h"
#include "passes/walk.h"

#include <math.h>

/* ---- numbers of a step ----------------------------------------------------------------------- */

/* base^t in f64 */
static Value power(Update *u, double base, Value t)
{
    return up1(u, OP_exp, up2(u, OP_mul, t, up_number(u, log(base))));
}

/* 1 - base^t; a base of 0 has no logarithm */
static Value correction(Update *u, double base, Value t)
{
    return base > 0 ? up2(u, OP_sub, up_number(u, 1), power(u, base, t)) : up_number(u, 1);
}

void optimizer_prepare(Update *u)
{
    const Train *tr = &u->m->train;
    if (tr->optimizer == OPT_adamw || tr->optimizer == OPT_adam || tr->optimizer == OPT_muon) {
        Value t = up_time(u);
        u->rate = up2(u, OP_div, u->lr, correction(u, tr->beta1, t));
        u->root2 = up1(u, OP_sqrt, correction(u, tr->beta2, t));
    }
    if (tr->optimizer == OPT_adafactor) { /* 1 - t^-power */
        Value fall = up2(u, OP_mul, up1(u, OP_log, up_time(u)), up_number(u, -tr->power));
        u->keep = up2(u, OP_sub, up_number(u, 1), up1(u, OP_exp, fall));
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static const Tensor *tensor_of(const Update *u, uint32_t tensor)
{
    return &u->m->tensors.data[tensor];
}

/* The learning rate of this parameter. */
static Value rate_of(Update *u, uint32_t tensor, Value lr)
{
    double rate = tensor_of(u, tensor)->rate;
    return rate == 1 ? lr : up2(u, OP_mul, lr, up_number(u, rate));
}

/* p (1 - lr decay) */
static Value decayed(Update *u, uint32_t tensor, Value p)
{
    double decay = tensor_of(u, tensor)->decay;
    if (decay == 0)
        return p;
    Value loss = up2(u, OP_mul, rate_of(u, tensor, u->lr), up_number(u, decay));
    return up_scaled(u, p, up2(u, OP_sub, up_number(u, 1), loss));
}

/* g + decay p */
static Value regularized(Update *u, uint32_t tensor, Value p, Value g)
{
    double decay = tensor_of(u, tensor)->decay;
    return decay == 0 ? g : up2(u, OP_add, g, up_scaled_by(u, p, decay));
}

/* beta * old + (1 - beta) * x */
static Value average(Update *u, double beta, Value old, Value x)
{
    return up2(u, OP_add, up_scaled_by(u, old, beta), up_scaled_by(u, x, 1 - beta));
}

static Value constant(Update *u, Value like, double x)
{
    return build_const(&u->b, type_of(u->m, like)->dtype, x);
}

/* ---- adam, adamw, sgd, lion ------------------------------------------------------------------ */

static void adam(Update *u, uint32_t tensor, Value p, Value g, bool decoupled)
{
    const Train *tr = &u->m->train;
    uint32_t mi, vi;
    if (!decoupled)
        g = regularized(u, tensor, p, g);
    Value m = average(u, tr->beta1, up_state(u, tensor, "exp_avg", NULL, &mi), g);
    Value v =
        average(u, tr->beta2, up_state(u, tensor, "exp_avg_sq", NULL, &vi), up2(u, OP_mul, g, g));
    if (decoupled)
        p = decayed(u, tensor, p);
    DType dt = type_of(u->m, p)->dtype;
    Value root = up2(u, OP_div, up1(u, OP_sqrt, v), build_cast(&u->b, u->root2, dt));
    Value size = up2(u, OP_add, root, constant(u, p, tr->eps));
    Value move = up_scaled(u, up2(u, OP_div, m, size), rate_of(u, tensor, u->rate));
    up_new_value(u, tensor, up2(u, OP_sub, p, move));
    up_new_value(u, mi, m);
    up_new_value(u, vi, v);
}

static void sgd(Update *u, uint32_t tensor, Value p, Value g)
{
    const Train *tr = &u->m->train;
    uint32_t bi = 0;
    g = regularized(u, tensor, p, g);
    Value move = g;
    if (tr->momentum != 0) {
        Value old = up_state(u, tensor, "momentum", NULL, &bi);
        g = up2(u, OP_add, up_scaled_by(u, old, tr->momentum), g);
        move = tr->nesterov ? up2(u, OP_add, move, up_scaled_by(u, g, tr->momentum)) : g;
    }
    move = up_scaled(u, move, rate_of(u, tensor, u->lr));
    up_new_value(u, tensor, up2(u, OP_sub, p, move));
    if (bi)
        up_new_value(u, bi, g);
}

static Value sign(Update *u, Value x)
{
    Value zero = constant(u, x, 0);
    Value negative[] = {up2(u, OP_lt, x, zero), constant(u, x, -1), zero};
    Value below = build(&u->b, OP_select, NULL, 3, negative);
    Value positive[] = {up2(u, OP_gt, x, zero), constant(u, x, 1), below};
    return build(&u->b, OP_select, NULL, 3, positive);
}

static void lion(Update *u, uint32_t tensor, Value p, Value g)
{
    const Train *tr = &u->m->train;
    uint32_t mi;
    Value old = up_state(u, tensor, "exp_avg", NULL, &mi);
    Value move = up_scaled(u, sign(u, average(u, tr->beta1, old, g)), rate_of(u, tensor, u->lr));
    up_new_value(u, tensor, up2(u, OP_sub, decayed(u, tensor, p), move));
    up_new_value(u, mi, average(u, tr->beta2, old, g));
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* The stored dims behind external dim `place`. */
static DimList external_dims(const Tensor *t, int place)
{
    DimList l = {0};
    int from = 0;
    for (int i = 0; i < place; i++)
        from += t->merge[i];
    for (int k = 0; k < t->merge[place]; k++)
        l.dim[l.n++] = t->type.dims[t->order[from + k]];
    return l;
}

static int64_t elements(const DimList *l)
{
    int64_t n = 1;
    for (int i = 0; i < l->n; i++)
        n *= l->dim[i].size;
    return n;
}

static Value mean_over(Update *u, Value x, const DimList *dims)
{
    return up_scaled_by(u, build_sum(&u->b, x, dims), 1 / (double)elements(dims));
}

/* ---- adafactor ------------------------------------------------------------------------------- */

/* keep * old + (1 - keep) * x with the step's f64 number. */
static Value kept(Update *u, Value old, Value x)
{
    Value rest = up2(u, OP_sub, up_number(u, 1), u->keep);
    return up2(u, OP_add, up_scaled(u, old, u->keep), up_scaled(u, x, rest));
}

/* g / sqrt(second moment), the moment kept as the means of its rows and columns. */
static Value factored(Update *u, uint32_t tensor, Value g, Value square)
{
    const Tensor *t = tensor_of(u, tensor);
    DimList rows = external_dims(t, t->external_rank - 2);
    DimList cols = external_dims(t, t->external_rank - 1);
    uint32_t ri, ci;
    Value row = up_state(u, tensor, "exp_avg_sq_row", &cols, &ri);
    Value col = up_state(u, tensor, "exp_avg_sq_col", &rows, &ci);
    row = kept(u, row, mean_over(u, square, &cols));
    col = kept(u, col, mean_over(u, square, &rows));
    up_new_value(u, ri, row);
    up_new_value(u, ci, col);
    Value share = up2(u, OP_div, row, mean_over(u, row, &rows));
    Value scale = up2(u, OP_mul, up1(u, OP_rsqrt, share), up1(u, OP_rsqrt, col));
    return up2(u, OP_mul, g, scale);
}

static void adafactor(Update *u, uint32_t tensor, Value p, Value g)
{
    const Train *tr = &u->m->train;
    uint32_t vi, mi;
    DimList own = {0};
    for (int i = tensor_of(u, tensor)->stacked; i < tensor_of(u, tensor)->type.rank; i++)
        own.dim[own.n++] = tensor_of(u, tensor)->type.dims[i];
    Value square = up2(u, OP_add, up2(u, OP_mul, g, g), constant(u, g, tr->eps));
    Value move;
    if (tensor_of(u, tensor)->external_rank >= 2) {
        move = factored(u, tensor, g, square);
    } else {
        Value v = kept(u, up_state(u, tensor, "exp_avg_sq", NULL, &vi), square);
        up_new_value(u, vi, v);
        move = up2(u, OP_mul, g, up1(u, OP_rsqrt, v));
    }
    Value rms = own.n ? up1(u, OP_sqrt, mean_over(u, up2(u, OP_mul, move, move), &own))
                      : up1(u, OP_abs, move);
    Value over = up2(u, OP_max, up_scaled_by(u, rms, 1 / tr->threshold), constant(u, rms, 1));
    move = up_scaled(u, up2(u, OP_div, move, over), rate_of(u, tensor, u->lr));
    if (tr->beta1 > 0) {
        Value old = up_state(u, tensor, "exp_avg", NULL, &mi);
        move = average(u, tr->beta1, old, move);
        up_new_value(u, mi, move);
    }
    up_new_value(u, tensor, up2(u, OP_sub, decayed(u, tensor, p), move));
}

/* ---- muon ------------------------------------------------------------------------------------ */

static Name primed(Update *u, Name dim, const char *mark)
{
    const char *name = arena_printf(u->m->arena, "%s%s", name_str(u->m->names, dim), mark);
    return name_intern(u->m->names, name);
}

/* x with the dims of l under other names. */
static Value renamed(Update *u, Value x, const DimList *l, const char *from, const char *to)
{
    for (int i = 0; i < l->n; i++) {
        Attrs a = {.dim = {primed(u, l->dim[i].name, from), l->dim[i].size},
                   .to = {primed(u, l->dim[i].name, to), l->dim[i].size}};
        x = build(&u->b, OP_rename, &a, 1, &x);
    }
    return x;
}

static DimList marked(Update *u, const DimList *l, const char *mark)
{
    DimList m = *l;
    for (int i = 0; i < m.n; i++)
        m.dim[i].name = primed(u, l->dim[i].name, mark);
    return m;
}

/* The quintic iteration that brings all singular values of x near 1: with a = x x', x becomes
 * 3.4445 x + (-4.7750 a + 2.0315 a a) x. `in`: the shorter side, over whose indices a goes. */
static Value orthogonal(Update *u, Value x, const DimList *in, const DimList *over,
                        const DimList *own)
{
    enum { ROUNDS = 5 };
    DimList primes = marked(u, in, "'");
    Value norm = up1(u, OP_sqrt, build_sum(&u->b, up2(u, OP_mul, x, x), own));
    x = up2(u, OP_div, x, up2(u, OP_max, norm, constant(u, norm, 1e-7)));
    for (int round = 0; round < ROUNDS; round++) {
        Value a = build_dot(&u->b, x, renamed(u, x, in, "", "'"), over); /* [in, in'] */
        Value b = renamed(u, renamed(u, a, in, "'", "''"), in, "", "'"); /* [in', in''] */
        Value aa = renamed(u, build_dot(&u->b, a, b, &primes), in, "''", "'");
        Value c = up2(u, OP_add, up_scaled_by(u, a, -4.7750), up_scaled_by(u, aa, 2.0315));
        Value move = build_dot(&u->b, c, renamed(u, x, in, "", "'"), &primes);
        x = up2(u, OP_add, up_scaled_by(u, x, 3.4445), move);
    }
    return x;
}

/* Hidden matrices; embeddings and heads have the dim that tokens index. */
static bool hidden_matrix(const Update *u, const Tensor *t)
{
    for (size_t v = 1; v < u->m->values.n; v++) {
        Name indexed = u->m->values.data[v].type.indexes;
        if (indexed && type_find(&t->type, indexed) >= 0)
            return false;
    }
    return t->external_rank == 2;
}

static void muon(Update *u, uint32_t tensor, Value p, Value g)
{
    const Train *tr = &u->m->train;
    const Tensor *t = tensor_of(u, tensor);
    DimList rows = external_dims(t, 0), cols = external_dims(t, 1), own = rows;
    for (int i = 0; i < cols.n; i++)
        own.dim[own.n++] = cols.dim[i];
    int64_t m = elements(&rows), n = elements(&cols);
    uint32_t bi;
    Value buffer = average(u, tr->momentum, up_state(u, tensor, "momentum", NULL, &bi), g);
    Value x = tr->nesterov ? average(u, tr->momentum, buffer, g) : buffer;
    x = m <= n ? orthogonal(u, x, &rows, &cols, &own) : orthogonal(u, x, &cols, &rows, &own);
    Value lr = up2(u, OP_mul, rate_of(u, tensor, u->lr),
                   up_number(u, 0.2 * sqrt((double)(m > n ? m : n))));
    p = decayed(u, tensor, p);
    up_new_value(u, tensor, up2(u, OP_sub, p, up_scaled(u, x, lr)));
    up_new_value(u, bi, buffer);
}

/* ---- all ------------------------------------------------------------------------------------- */

void optimizer_update(Update *u, uint32_t tensor, Value p, Value g)
{
    switch (u->m->train.optimizer) {
    case OPT_sgd:
        sgd(u, tensor, p, g);
        break;
    case OPT_lion:
        lion(u, tensor, p, g);
        break;
    case OPT_adafactor:
        adafactor(u, tensor, p, g);
        break;
    case OPT_muon:
        if (hidden_matrix(u, tensor_of(u, tensor)))
            muon(u, tensor, p, g);
        else
            adam(u, tensor, p, g, true);
        break;
    case OPT_adam:
    case OPT_adamw:
        adam(u, tensor, p, g, u->m->train.optimizer == OPT_adamw);
        break;
    case OPT_count:
        break;
    }
}
