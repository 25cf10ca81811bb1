/* interp.c - the reference interpreter: the meaning of the IR, in double precision.
 *
 * Nothing here is clever: an instruction is a loop over the indices of its dims. Its results are
 * what every pass, the plan and the emitted program are compared with. */
#include "ir/interp.h"
#include "runtime/dynamic8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- walking indices ------------------------------------------------------------------------ */

int64_t type_stride(const Type *t, int i)
{
    int64_t s = 1;
    for (int k = i + 1; k < t->rank; k++)
        s *= t->dims[k].size;
    return s;
}

Walk walk_start(void)
{
    return (Walk){0};
}

void walk_dim(Walk *w, Dim d)
{
    for (int i = 0; i < w->n; i++)
        if (w->dim[i].name == d.name)
            return;
    w->dim[w->n++] = d;
}

void walk_dims(Walk *w, const Type *t)
{
    for (int i = 0; i < t->rank; i++)
        walk_dim(w, t->dims[i]);
}

void walk_tensor(Walk *w, const Type *t)
{
    for (int i = 0; i < w->n; i++) {
        int at = type_find(t, w->dim[i].name);
        w->stride[w->tensors][i] = at < 0 ? 0 : type_stride(t, at);
    }
    w->tensors++;
}

bool walk_next(Walk *w)
{
    for (int i = w->n - 1; i >= 0; i--) {
        bool more = ++w->index[i] < w->dim[i].size;
        int64_t move = more ? 1 : 1 - w->dim[i].size;
        for (int t = 0; t < w->tensors; t++)
            w->at[t] += move * w->stride[t][i];
        if (more)
            return true;
        w->index[i] = 0;
    }
    return false;
}

int64_t walk_index(const Walk *w, Name d)
{
    for (int i = 0; i < w->n; i++)
        if (w->dim[i].name == d)
            return w->index[i];
    return 0;
}

/* ---- values --------------------------------------------------------------------------------- */

void *interp_alloc(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (!p) {
        fputs("mgc: out of memory in the interpreter\n", stderr);
        exit(70);
    }
    return p;
}

double *interp_set(Interp *in, Value v, const double *data)
{
    Tensor64 *t = &in->value[v];
    t->type = *type_of(in->m, v);
    size_t n = (size_t)type_elements(&t->type);
    free(t->data);
    t->data = interp_alloc((int64_t)n, sizeof(double));
    if (data)
        memcpy(t->data, data, n * sizeof(double));
    return t->data;
}

double *interp_out(Interp *in, const Ins *i, uint32_t k)
{
    return interp_set(in, i->out[k], NULL);
}

const double *interp_in(const Interp *in, const Ins *i, uint32_t k)
{
    return in->value[i->in[k]].data;
}

static const Type *in_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->in[k]);
}

static const Type *out_type(const Interp *in, const Ins *i)
{
    return type_of(in->m, i->out[0]);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void interp_pointwise(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x[3] = {0};
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i));
    walk_tensor(&w, out_type(in, i));
    for (uint32_t k = 0; k < i->nin; k++) {
        x[k] = interp_in(in, i, k);
        walk_tensor(&w, in_type(in, i, k));
    }
    do
        y[w.at[0]] =
            op_evaluate(i->op, x[0][w.at[1]], x[1] ? x[1][w.at[2]] : 0, x[2] ? x[2][w.at[3]] : 0);
    while (walk_next(&w));
}

static void interp_const(Interp *in, const Ins *i)
{
    interp_out(in, i, 0)[0] = i->attrs.value;
}

static void interp_iota(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    for (int64_t k = 0; k < i->attrs.dim.size; k++)
        y[k] = (double)interp_position(in, i->attrs.dim, k);
}

/* The nearest number with so many bits, of which the lowest is never below 2^least; ties to even.
 * top: the largest finite one. */
static double narrow(double x, int bits, int least, double top)
{
    int exponent;
    if (!isfinite(x) || x == 0)
        return x;
    frexp(x, &exponent); /* |x| is in [2^(exponent - 1), 2^exponent) */
    int unit = exponent - bits < least ? least : exponent - bits;
    double y = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(y) > top ? copysign(INFINITY, x) : y;
}

/* Of fp8 the largest number stands for all beyond it. */
static double saturated(double x, DType t)
{
    return fabs(x) > dtype_largest(t) ? copysign(dtype_largest(t), x) : x;
}

/* The nearest of the numbers of a dynamic type, as runtime/dynamic8.h says it. */
static double nearest_dynamic(double x, DType t)
{
    const bool with_sign = t == DT_dynamic8, below = with_sign && x < 0;
    const float *size = with_sign ? mg_dynamic8 : mg_udynamic8;
    const double a = !(fabs(x) <= 1) ? 1 : !with_sign && x < 0 ? 0 : fabs(x);
    int k = 0;
    for (const int last = below ? 127 : with_sign ? 128 : 255; k < last; k++) {
        const double middle = (double)((size[k] + size[k + 1]) * 0.5f);
        if (below ? a < middle : a <= middle)
            break;
    }
    return below && k ? -(double)size[k] : (double)size[k];
}

double interp_rounded(double x, DType t)
{
    switch (t) {
    case DT_f32:
        return (double)(float)x;
    case DT_bf16:
        return narrow(x, 8, -133, 0x1.fep127);
    case DT_f16:
        return narrow(x, 11, -24, 65504);
    case DT_e4m3:
        return narrow(saturated(x, t), 4, -9, 448);
    case DT_e5m2:
        return narrow(saturated(x, t), 3, -16, 57344);
    case DT_e8m0:
        return interp_power(x);
    case DT_dynamic8:
    case DT_udynamic8:
        return nearest_dynamic(x, t);
    case DT_bool:
        return x != 0;
    case DT_i32:
    case DT_i64:
    case DT_u8:
        return trunc(x);
    case DT_f64:
    case DT_none:
    case DT_count:
        break;
    }
    return x;
}

#define interp_transfer interp_cast
static void interp_cast(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0);
    DType t = out_type(in, i)->dtype;
    bool exact = dtype_is_float(t) && !in->round;
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i));
    walk_tensor(&w, out_type(in, i));
    walk_tensor(&w, in_type(in, i, 0));
    do
        y[w.at[0]] = exact ? x[w.at[1]] : interp_rounded(x[w.at[1]], t);
    while (walk_next(&w));
}

/* Neumaier's compensated sum: exact to the last bits however many terms there are, so that what is
 * compared with it is judged by its own rounding. */
static void interp_sum(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0);
    int64_t n = type_elements(out_type(in, i));
    double *lost = interp_alloc(n, sizeof *lost);
    Walk w = walk_start();
    walk_dims(&w, in_type(in, i, 0));
    walk_tensor(&w, out_type(in, i));
    walk_tensor(&w, in_type(in, i, 0));
    do {
        double s = y[w.at[0]], term = x[w.at[1]], sum = s + term;
        lost[w.at[0]] += fabs(s) >= fabs(term) ? s - sum + term : term - sum + s;
        y[w.at[0]] = sum;
    } while (walk_next(&w));
    for (int64_t k = 0; k < n; k++)
        if (isfinite(lost[k])) /* not where a term or the sum is infinite */
            y[k] += lost[k];
    free(lost);
}

static void interp_rmax(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0);
    for (int64_t k = type_elements(out_type(in, i)) - 1; k >= 0; k--)
        y[k] = -INFINITY;
    Walk w = walk_start();
    walk_dims(&w, in_type(in, i, 0));
    walk_tensor(&w, out_type(in, i));
    walk_tensor(&w, in_type(in, i, 0));
    do
        if (!(x[w.at[1]] <= y[w.at[0]]) && !isnan(y[w.at[0]])) /* a NaN wins, and stays */
            y[w.at[0]] = x[w.at[1]];
    while (walk_next(&w));
}

/* ---- control -------------------------------------------------------------------------------- */

static void run_region(const Group *g, const Region *r);

/* The body's next values become the arguments of the next iteration: all are copied first, since
 * one may be another's argument. */
static void carry(Interp *in, const Ins *i)
{
    const Region *b = i->body;
    int64_t carried = i->attrs.carried;
    double **next = interp_alloc(carried, sizeof *next);
    for (int64_t k = 0; k < carried; k++) {
        int64_t n = type_elements(type_of(in->m, b->args.data[k]));
        next[k] = interp_alloc(n, sizeof(double));
        memcpy(next[k], in->value[b->results.data[k]].data, (size_t)n * sizeof(double));
    }
    for (int64_t k = 0; k < carried; k++) {
        interp_set(in, b->args.data[k], next[k]);
        free(next[k]);
    }
    free(next);
}

static void repeat_begin(Interp *in, const Ins *i)
{
    uint32_t carried = (uint32_t)i->attrs.carried;
    for (uint32_t k = carried; k < i->nout; k++)
        interp_out(in, i, k);
    for (uint32_t k = 0; k < carried; k++)
        interp_set(in, i->body->args.data[k], interp_in(in, i, k));
}

static void iteration_begin(Interp *in, const Ins *i, int64_t at)
{
    const Region *b = i->body;
    double index = (double)at;
    if (ir_is_staged(in->m, i) && in->m->layout.pipeline.max_layers && !in->m->local)
        index = (double)mesh_layer(in->m, in->rank, at);
    for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nin; k++)
        interp_set(in, b->args.data[k],
                   interp_in(in, i, k) + at * type_elements(type_of(in->m, b->args.data[k])));
    interp_set(in, b->args.data[i->nin], &index);
}

static void iteration_end(Interp *in, const Ins *i, int64_t at)
{
    for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nout; k++) {
        Value res = i->body->results.data[k];
        int64_t size = type_elements(type_of(in->m, res));
        memcpy(in->value[i->out[k]].data + at * size, in->value[res].data,
               (size_t)size * sizeof(double));
    }
    carry(in, i);
}

/* Iterations [first, first + n), the last first where the loop runs in reverse. */
void interp_iterations(const Group *g, const Ins *i, int64_t first, int64_t n)
{
    for (int64_t step = 0; step < n; step++) {
        int64_t at = first + (i->attrs.reverse ? n - 1 - step : step);
        for (int64_t r = 0; r < g->n; r++)
            iteration_begin(&g->rank[r], i, at);
        run_region(g, i->body);
        for (int64_t r = 0; r < g->n; r++)
            iteration_end(&g->rank[r], i, at);
    }
}

static void repeat(const Group *g, const Ins *i)
{
    const Module *m = g->rank->m;
    for (int64_t r = 0; r < g->n; r++)
        repeat_begin(&g->rank[r], i);
    if (ir_is_staged(m, i) && m->layout.pipeline.max_layers)
        interp_stages(g, i);
    else
        interp_iterations(g, i, 0, i->attrs.dim.size);
    for (int64_t r = 0; r < g->n; r++)
        for (uint32_t k = 0; k < (uint32_t)i->attrs.carried; k++)
            interp_set(&g->rank[r], i->out[k], g->rank[r].value[i->body->args.data[k]].data);
}

static void fused(const Group *g, const Ins *i)
{
    for (int64_t r = 0; r < g->n; r++)
        for (uint32_t k = 0; k < i->nin; k++)
            interp_set(&g->rank[r], i->body->args.data[k], interp_in(&g->rank[r], i, k));
    run_region(g, i->body);
    for (int64_t r = 0; r < g->n; r++)
        for (uint32_t k = 0; k < i->nout; k++)
            interp_set(&g->rank[r], i->out[k], g->rank[r].value[i->body->results.data[k]].data);
}

static void interp_guard(Interp *in, const Ins *i)
{
    (void)in, (void)i; /* whoever runs a step looks at loss and norm */
}

/* Collectives have no entry in the table: all ranks execute them together, by the table of
 * comm.c. */
#define interp_repeat NULL
#define interp_fused  NULL
static InterpFn *const table[OP_count] = {
#define OP(name, ...) [OP_##name] = interp_##name,
#define COLLECTIVE(name, ...)
#include "ir/ops.def"
};

static void round_results(Interp *in, const Ins *i)
{
    for (uint32_t k = 0; k < i->nout; k++) {
        Tensor64 *t = &in->value[i->out[k]];
        if (!dtype_is_float(t->type.dtype))
            continue;
        for (int64_t n = type_elements(&t->type) - 1; n >= 0; n--)
            t->data[n] = interp_rounded(t->data[n], t->type.dtype);
    }
}

static double rounding_unit(DType t)
{
    return t == DT_f64           ? DBL_EPSILON
           : t == DT_f32         ? FLT_EPSILON
           : t == DT_e4m3        ? 0x1p-3
           : t == DT_e5m2        ? 0x1p-2
           : t == DT_e8m0        ? 0x1p0
           : t == DT_bf16        ? 0x1p-7
           : dtype_is_dynamic(t) ? 0x1p-1 /* of small numbers */
                                 : 0x1p-10;
}

/* Ops whose results are numbers of their operands, or come from the ops of their body. */
static bool rounds_nothing(Op op)
{
    static const Op as_they_are[] = {
        OP_iota,   OP_random, OP_copy,    OP_neg,  OP_abs,    OP_max,      OP_min,    OP_select,
        OP_rotate, OP_join,   OP_reindex, OP_rmax, OP_gather, OP_transfer, OP_repeat, OP_fused};
    for (size_t k = 0; k < sizeof as_they_are / sizeof *as_they_are; k++)
        if (op == as_they_are[k])
            return true;
    return op_is(op, VIEW) || (op_is(op, COMM) && !op_is(op, SUMS));
}

/* Is x what any machine computes there? A maximum is one of its operands. Whole numbers are exact:
 * with an exponent of 3 - 1 that is not 2 a square would be NaN. */
static bool is_exact(const Ins *i, double x, DType t)
{
    if (rounds_nothing(i->op) || (x == trunc(x) && fabs(x) < 0x1p20))
        return true;
    return OP_AMONG(i->op, OP_cast, OP_const) && interp_rounded(x, t) == x;
}

/* In [-1, 1), by the op and its result alone: two copies of a computation are off by the same. */
static double drawn_from(uint64_t seed, Op op, double x)
{
    uint64_t h;
    memcpy(&h, &x, sizeof h);
    h = (h ^ seed ^ (uint64_t)op << 56) * 0x9e3779b97f4a7c15U;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9U;
    h = (h ^ h >> 32) * 0x94d049bb133111ebU;
    return (double)(h >> 11) * 0x1p-52 - 1;
}

/* Makes the numbers of i's value t inexact, each by up to `times` the rounding of its type. */
static void shake(const Interp *in, const Ins *i, Tensor64 *t, double times)
{
    double unit = times * rounding_unit(t->type.dtype);
    if (!dtype_is_float(t->type.dtype))
        return;
    for (int64_t n = type_elements(&t->type) - 1; n >= 0; n--)
        if (!is_exact(i, t->data[n], t->type.dtype))
            t->data[n] *= 1 + unit * drawn_from(in->seed, i->op, t->data[n]);
}

/* A sum rounds once a term, either way: its error grows with the square root of the terms. */
static void shake_results(Interp *in, const Ins *i)
{
    double terms = 1;
    for (int k = 0; OP_AMONG(i->op, OP_sum, OP_dot) && k < i->attrs.over.n; k++)
        terms *= (double)i->attrs.over.dim[k].size;
    for (uint32_t k = 0; k < i->nout; k++)
        shake(in, i, &in->value[i->out[k]], sqrt(terms));
}

static void one(Interp *in, const Ins *i)
{
    if (op_is(i->op, POINTWISE))
        interp_pointwise(in, i);
    else
        table[i->op](in, i);
}

/* Sums, products and calls round on their way as well, and a shaken result does not show that if
 * terms cancel. So their operands are shaken, too, while they run; then they are put back, the last
 * one first: one value may be read twice. */
static void one_shaken(Interp *in, const Ins *i)
{
    double *kept[RULE_OPERANDS] = {0};
    const bool inside = OP_AMONG(i->op, OP_dot, OP_sum) || op_is(i->op, CALL);
    for (uint32_t k = 0; k < i->nin && inside; k++) {
        Tensor64 *t = &in->value[i->in[k]];
        const int64_t n = type_elements(&t->type);
        kept[k] = interp_alloc(n, sizeof(double));
        memcpy(kept[k], t->data, (size_t)n * sizeof(double));
        shake(in, i, t, 1);
    }
    one(in, i);
    for (uint32_t k = i->nin; k-- > 0 && inside;) {
        Tensor64 *t = &in->value[i->in[k]];
        memcpy(t->data, kept[k], (size_t)type_elements(&t->type) * sizeof(double));
        free(kept[k]);
    }
}

/* Attention whose keys are on several ranks. */
static bool is_ring(const Ins *i)
{
    return OP_AMONG(i->op, OP_attention, OP_attention_grad) && i->attrs.along.axes &&
           !i->attrs.keys.name;
}

/* The result of a `stop` is noted, or is what was noted. */
static void hold(Interp *in, const Ins *i)
{
    Tensor64 *t = &in->value[i->out[0]];
    const size_t bytes = (size_t)type_elements(&t->type) * sizeof *t->data;
    if (in->held->noted) {
        memcpy(t->data, in->held->given.data[in->held->next++], bytes);
        return;
    }
    double *given = arena_alloc(in->notes, bytes);
    vec_push(in->notes, &in->held->given, memcpy(given, t->data, bytes));
}

static void run_region(const Group *g, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if (i->op == OP_repeat)
            repeat(g, i);
        else if (i->op == OP_fused)
            fused(g, i);
        else if (op_is(i->op, COMM))
            interp_comm(g->rank, g->n, i);
        else if (is_ring(i))
            interp_ring(g->rank, g->n, i);
        for (int64_t n = 0; n < g->n; n++) {
            Interp *in = &g->rank[n];
            if (!i->body && !op_is(i->op, COMM) && !is_ring(i) && interp_takes_part(g, in, i))
                in->seed ? one_shaken(in, i) : one(in, i);
            interp_forget_others(g, in, i);
            if (in->held && i->op == OP_stop)
                hold(in, i);
            if (in->round)
                round_results(in, i);
            if (in->seed)
                shake_results(in, i);
        }
    }
}

/* args and results: those of rank 0, then of rank 1, ... */
static void interpret(Interp like, int64_t ranks, const Fn *fn, const Tensor64 *args,
                      Tensor64 *results, Arena *a)
{
    const Module *m = like.m;
    const Region *b = fn->body;
    Group g = {.rank = interp_alloc(ranks, sizeof *g.rank), .n = ranks};
    Arena *tmp = arena_new();
    StageSet *at = ranks > 1 ? ir_stage_set(m, fn, tmp) : NEW_ARRAY(tmp, StageSet, m->values.n);
    if (ranks == 1) /* it is told everything */
        memset(at, AT_ALL, m->values.n * sizeof *at);
    g.at = at;
    for (int64_t r = 0; r < ranks; r++) {
        g.rank[r] = like;
        g.rank[r].rank = r;
        g.rank[r].value = interp_alloc((int64_t)m->values.n, sizeof *like.value);
        for (size_t i = 0; i < b->args.n; i++)
            if (g.at[b->args.data[i]] & mesh_stage_set(m, r))
                interp_set(&g.rank[r], b->args.data[i], args[(size_t)r * b->args.n + i].data);
            else
                interp_forget(&g.rank[r], b->args.data[i]);
    }
    run_region(&g, b);
    for (int64_t r = 0; r < ranks; r++) {
        for (size_t i = 0; i < b->results.n; i++) {
            const Tensor64 *t = &g.rank[r].value[b->results.data[i]];
            Tensor64 *to = &results[(size_t)r * b->results.n + i];
            to->type = t->type;
            to->data = NEW_ARRAY(a, double, type_elements(&t->type));
            memcpy(to->data, t->data, (size_t)type_elements(&t->type) * sizeof(double));
        }
        for (size_t v = 0; v < m->values.n; v++)
            free(g.rank[r].value[v].data);
        free(g.rank[r].value);
    }
    free(g.rank);
    arena_free(tmp);
}

void ir_interpret_ranks(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results,
                        Arena *a)
{
    interpret((Interp){.m = m}, mesh_ranks(m), fn, args, results, a);
}

void ir_interpret(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results, Arena *a,
                  bool round)
{
    interpret((Interp){.m = m, .round = round}, 1, fn, args, results, a);
}

void ir_interpret_shaken(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results,
                         Arena *a, uint64_t seed)
{
    interpret((Interp){.m = m, .seed = seed}, 1, fn, args, results, a);
}

void ir_interpret_held(const Module *m, const Fn *fn, const Tensor64 *args, Tensor64 *results,
                       Arena *a, Held *h)
{
    h->next = 0;
    interpret((Interp){.m = m, .held = h, .notes = a}, 1, fn, args, results, a);
    h->noted = true;
}
