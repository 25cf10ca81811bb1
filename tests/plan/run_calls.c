/* run_calls.c - what each library call of runtime/abi.h means, in loops; see run_plan.h. */
#include "tests/plan/run_calls.h"

#include <math.h>
#include <stdlib.h>

#include "tests/plan/run_plan.h"

DType type_of_code(mg_dtype t)
{
    return t == MG_F64    ? DT_f64
           : t == MG_BF16 ? DT_bf16
           : t == MG_F16  ? DT_f16
           : t == MG_E4M3 ? DT_e4m3
           : t == MG_E5M2 ? DT_e5m2
           : t == MG_E8M0 ? DT_e8m0
                          : DT_f32;
}

/* Of losses and normalisers. */
static mg_dtype statistic(mg_dtype t)
{
    return t == MG_F64 ? MG_F64 : MG_F32;
}

static double get(mg_dtype t, const void *p, int64_t i)
{
    return number_at(p, type_of_code(t), i);
}

static void put(mg_dtype t, void *p, int64_t i, double x)
{
    number_put(p, type_of_code(t), i, x);
}

void run_gemm(const mg_gemm_desc *d, void *const *p)
{
    void *aux = d->epilogue & (MG_AUX | MG_GELU_GRAD) ? p[d->epilogue & MG_BIAS ? 4 : 3] : NULL;
    const mg_dtype second = d->other ? d->other : d->dtype;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0; i < d->m; i++)
            for (int64_t j = 0; j < d->n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < d->k; k++)
                    sum +=
                        get(d->dtype, p[0], b * d->sa + (d->ta ? k * d->lda + i : i * d->lda + k)) *
                        get(second, p[1], b * d->sb + (d->tb ? j * d->ldb + k : k * d->ldb + j)) *
                        (d->epilogue & MG_SCALES ? run_scales(d, p + 3, i, j, k) : 1);
                int64_t at = b * d->sc + i * d->ldc + j;
                double c = d->beta != 0 ? get(d->out, p[2], at) : 0;
                if (d->epilogue & MG_BIAS)
                    c = get(d->dtype, p[3], j);
                sum = d->alpha * sum + c;
                if (d->epilogue & MG_AUX)
                    put(d->out, aux, i * d->ldx + j, sum);
                if (d->epilogue & MG_GELU)
                    sum = op_evaluate(OP_gelu_tanh, sum, 0, 0);
                if (d->epilogue & MG_GELU_GRAD)
                    sum *= op_evaluate(OP_gelu_tanh_slope, get(d->out, aux, i * d->ldx + j), 0, 0);
                put(d->out, p[2], at, sum);
            }
    for (int64_t j = 0; d->epilogue == MG_SUM && j < d->n; j++) {
        double sum = 0;
        for (int64_t k = 0; k < d->k; k++)
            sum += get(d->dtype, p[1], d->tb ? j * d->ldb + k : k * d->ldb + j);
        put(statistic(d->dtype), p[3], j, sum);
    }
}

/* The place of x at some indices; -1: outside of it. */
static int64_t conv_x(const mg_conv_desc *d, int n, const int64_t *index)
{
    int64_t at = 0;
    for (int k = 0; k < n; k++)
        at += index[k] * d->x[k];
    for (int a = 0; a < d->axes; a++) {
        int64_t p = d->axis[a].at;
        for (int k = 0; k < n; k++)
            p += d->axis[a].by[k] * index[k];
        if (p < 0 || p % d->axis[a].every || p / d->axis[a].every >= d->axis[a].size)
            return -1;
        at += p / d->axis[a].every * d->axis[a].stride;
    }
    return at;
}

/* Goes to the next indices of dims [first, end); false: they were the last. */
static bool conv_next(const mg_conv_desc *d, int first, int end, int64_t *index)
{
    for (int k = end - 1; k >= first; k--) {
        if (++index[k] < d->size[k])
            return true;
        index[k] = 0;
    }
    return false;
}

void run_conv(const mg_conv_desc *d, void *const *p)
{
    const int term = d->batch + d->rows + d->columns, n = term + d->terms;
    int64_t index[MG_CONV_DIMS] = {0};
    do {
        int64_t y = 0;
        for (int k = 0; k < term; k++)
            y += index[k] * d->y[k];
        double sum = d->accumulate ? get(d->out, p[2], y) : 0;
        do {
            int64_t w = 0;
            const int64_t x = conv_x(d, n, index);
            for (int k = 0; k < n; k++)
                w += index[k] * d->w[k];
            if (x >= 0)
                sum += get(d->dtype, p[0], x) * get(d->dtype, p[1], w);
        } while (conv_next(d, term, n, index));
        put(d->out, p[2], y, sum);
    } while (conv_next(d, 0, term, index));
}

/* ---- attention ------------------------------------------------------------------------------- */

/* One query: offsets into the tensors, and the keys [first, keys) that it sees. */
typedef struct Query {
    int64_t q, k, v, o, lse, first, keys, dq, dk, dv, of_bias, dbias;
    const void *bias;
} Query;

static int64_t first_key(const mg_attention_desc *d, int64_t b, int64_t s, const int32_t *first)
{
    const int64_t near = d->window > 0 ? s - d->window + 1 : 0;
    const int64_t own = first ? first[b * d->first[0] + s * d->first[1]] : 0;
    return near > own ? near : own > 0 ? own : 0;
}

static Query query_at(const mg_attention_desc *d, int64_t b, int64_t h, int64_t g, int64_t s,
                      const Sight *see)
{
    const int32_t *seen = see->seen;
    const int64_t *bias = d->bias, *dbias = d->dbias;
    return (Query){.q = b * d->q[0] + s * d->q[1] + h * d->q[2] + g * d->q[3],
                   .k = b * d->k[0] + h * d->k[2],
                   .v = b * d->v[0] + h * d->v[2],
                   .o = b * d->o[0] + s * d->o[1] + h * d->o[2] + g * d->o[3],
                   .lse = b * d->lse[0] + s * d->lse[1] + h * d->lse[2] + g * d->lse[3],
                   .dq = b * d->dq[0] + s * d->dq[1] + h * d->dq[2] + g * d->dq[3],
                   .dk = b * d->dk[0] + h * d->dk[2],
                   .dv = b * d->dv[0] + h * d->dv[2],
                   .of_bias = b * bias[0] + s * bias[1] + h * bias[2] + g * bias[3],
                   .dbias = b * dbias[0] + s * dbias[1] + h * dbias[2] + g * dbias[3],
                   .bias = see->bias,
                   .first = first_key(d, b, s, see->first),
                   .keys = seen                           ? seen[b * d->seen[0] + s * d->seen[1]]
                           : d->causal && s + 1 < d->keys ? s + 1
                                                          : d->keys};
}

/* The scaled score under the cap. */
static double capped(const mg_attention_desc *d, const Query *x, int64_t t, const void *q,
                     const void *k)
{
    double sum = 0;
    for (int64_t i = 0; i < d->head; i++)
        sum += get(d->dtype, q, x->q + i) * get(d->dtype, k, x->k + t * d->k[1] + i);
    sum *= d->scale;
    return d->cap > 0 ? d->cap * tanh(sum / d->cap) : sum;
}

static double score(const mg_attention_desc *d, const Query *x, int64_t t, const void *q,
                    const void *k)
{
    const double bias =
        x->bias ? get(statistic(d->dtype), x->bias, x->of_bias + t * d->bias[4]) : 0;
    return capped(d, x, t, q, k) + bias;
}

typedef void QueryFn(const mg_attention_desc *d, const Query *x, void *const *p);

static void each_query(const mg_attention_desc *d, void *const *p, const Sight *see, QueryFn *f)
{
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->kv; h++)
            for (int64_t g = 0; g < d->group; g++)
                for (int64_t s = 0; s < d->queries; s++) {
                    Query x = query_at(d, b, h, g, s, see);
                    f(d, &x, p);
                }
}

/* p: q k v o lse. The output does not go by lse, which rounds where scores are large: the gradient
 * takes differences of it. */
static void attend(const mg_attention_desc *d, const Query *x, void *const *p)
{
    double max = -INFINITY, sum = 0;
    for (int64_t t = x->first; t < x->keys; t++)
        max = fmax(max, score(d, x, t, p[0], p[1]));
    for (int64_t t = x->first; t < x->keys; t++)
        sum += exp(score(d, x, t, p[0], p[1]) - max);
    double lse = x->keys > x->first ? max + log(sum) : -1e30;
    put(statistic(d->dtype), p[4], x->lse, lse);
    for (int64_t i = 0; i < d->vhead; i++) {
        double o = 0;
        for (int64_t t = x->first; t < x->keys; t++)
            o +=
                exp(score(d, x, t, p[0], p[1]) - max) * get(d->dtype, p[2], x->v + t * d->v[1] + i);
        put(d->dtype, p[3], x->o + i, x->keys > x->first ? o / sum : 0);
    }
}

static void add(mg_dtype t, void *p, int64_t i, double x)
{
    put(t, p, i, get(t, p, i) + x);
}

/* p: q k v o lse do dq dk dv */
static void attend_back(const mg_attention_desc *d, const Query *x, void *const *p)
{
    double delta = 0;
    for (int64_t i = 0; i < d->vhead; i++)
        delta += get(d->dtype, p[3], x->o + i) * get(d->dtype, p[5], x->o + i);
    for (int64_t t = x->first; t < x->keys; t++) {
        const double y = score(d, x, t, p[0], p[1]), lse = get(statistic(d->dtype), p[4], x->lse);
        const double bent = capped(d, x, t, p[0], p[1]);
        const double slope = d->cap > 0 ? 1 - bent * bent / (d->cap * d->cap) : 1;
        double w = exp(y - lse), dp = 0;
        int64_t k = x->k + t * d->k[1], v = x->v + t * d->v[1];
        for (int64_t i = 0; i < d->vhead; i++) {
            double g = get(d->dtype, p[5], x->o + i);
            dp += g * get(d->dtype, p[2], v + i);
            add(d->dtype, p[8], x->dv + t * d->dv[1] + i, w * g);
        }
        double ds = d->scale * w * (dp - delta) * slope;
        for (int64_t i = 0; i < d->head; i++) {
            add(d->dtype, p[6], x->dq + i, ds * get(d->dtype, p[1], k + i));
            add(d->dtype, p[7], x->dk + t * d->dk[1] + i, ds * get(d->dtype, p[0], x->q + i));
        }
    }
}

void run_attention(const mg_attention_desc *d, void *const *p, const Sight *see)
{
    each_query(d, p, see, attend);
}

/* Gradients are overwritten: they start from zero. */
static void clear(const mg_attention_desc *d, const Query *x, void *const *p)
{
    for (int64_t i = 0; i < d->head; i++)
        put(d->dtype, p[6], x->dq + i, 0);
    for (int64_t t = 0; t < d->keys; t++) {
        for (int64_t i = 0; i < d->head; i++)
            put(d->dtype, p[7], x->dk + t * d->dk[1] + i, 0);
        for (int64_t i = 0; i < d->vhead; i++)
            put(d->dtype, p[8], x->dv + t * d->dv[1] + i, 0);
    }
}

void run_attention_grad(const mg_attention_desc *d, void *const *p, const Sight *see)
{
    each_query(d, p, see, clear);
    each_query(d, p, see, attend_back);
}

static void clear_bias(const mg_attention_desc *d, const Query *x, void *const *p)
{
    for (int64_t t = 0; t < d->keys; t++)
        put(statistic(d->dtype), p[6], x->dbias + t * d->dbias[4], 0);
}

/* p: q k v o lse do dbias */
static void attend_bias(const mg_attention_desc *d, const Query *x, void *const *p)
{
    double delta = 0;
    for (int64_t i = 0; i < d->vhead; i++)
        delta += get(d->dtype, p[3], x->o + i) * get(d->dtype, p[5], x->o + i);
    for (int64_t t = x->first; t < x->keys; t++) {
        double dp = 0, lse = get(statistic(d->dtype), p[4], x->lse);
        for (int64_t i = 0; i < d->vhead; i++)
            dp += get(d->dtype, p[5], x->o + i) * get(d->dtype, p[2], x->v + t * d->v[1] + i);
        add(statistic(d->dtype), p[6], x->dbias + t * d->dbias[4],
            exp(score(d, x, t, p[0], p[1]) - lse) * (dp - delta));
    }
}

void run_attention_bias_grad(const mg_attention_desc *d, void *const *p, const Sight *see)
{
    each_query(d, p, see, clear_bias);
    each_query(d, p, see, attend_bias);
}

/* ---- cross-entropy --------------------------------------------------------------------------- */

static int32_t target_of(const mg_xent_desc *d, const int32_t *t, int64_t row)
{
    return t[row / d->target_inner * d->target_outer + row % d->target_inner];
}

static double row_lse(const mg_xent_desc *d, const double *z)
{
    double max = -INFINITY, sum = 0;
    for (int64_t c = 0; c < d->valid; c++)
        max = fmax(max, z[c]);
    for (int64_t c = 0; c < d->valid; c++)
        sum += exp(z[c] - max);
    return max + log(sum);
}

static double row_gradient(const mg_xent_desc *d, double z, double lse, double dloss, int64_t c,
                           int32_t target)
{
    return c >= d->valid ? 0 : dloss * (exp(z - lse) - (c == target));
}

/* p: z target loss lse */
void run_xent(const mg_xent_desc *d, void *const *p)
{
    double *z = malloc((size_t)d->vocab * sizeof *z);
    for (int64_t r = 0; r < d->rows; r++) {
        for (int64_t c = 0; c < d->vocab; c++)
            z[c] = get(d->dtype, p[0], r * d->vocab + c);
        double lse = row_lse(d, z);
        put(statistic(d->dtype), p[3], r, lse);
        put(statistic(d->dtype), p[2], r, lse - z[target_of(d, p[1], r)]);
    }
    free(z);
}

/* p: z target lse dloss dz */
void run_xent_grad(const mg_xent_desc *d, void *const *p)
{
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t c = 0; c < d->vocab; c++) {
            double z = get(d->dtype, p[0], r * d->vocab + c);
            double lse = get(statistic(d->dtype), p[2], r);
            double dloss = get(statistic(d->dtype), p[3], r * d->dloss_stride);
            put(d->dtype, p[4], r * d->vocab + c,
                row_gradient(d, z, lse, dloss, c, target_of(d, p[1], r)));
        }
}

/* p: x w target dloss loss dx dw work, without dw if w is frozen; without gradients: x w target
 * loss work */
void run_head(const mg_head_desc *d, void *const *p, bool gradients)
{
    const mg_xent_desc *xd = &d->xent;
    int64_t wc = d->w_by_vocab ? d->hidden : 1, wh = d->w_by_vocab ? 1 : xd->vocab;
    double *z = malloc((size_t)xd->vocab * sizeof *z);
    if (gradients && !d->dw_accumulate && !d->frozen)
        for (int64_t i = 0; i < xd->vocab * d->hidden; i++)
            put(d->dw, p[6], i, 0);
    for (int64_t r = 0; r < xd->rows; r++) {
        int32_t target = target_of(xd, p[2], r);
        for (int64_t c = 0; c < xd->vocab; c++) {
            z[c] = 0;
            for (int64_t h = 0; h < d->hidden; h++)
                z[c] +=
                    get(xd->dtype, p[0], r * d->hidden + h) * get(xd->dtype, p[1], c * wc + h * wh);
        }
        double lse = row_lse(xd, z);
        put(statistic(xd->dtype), p[gradients ? 4 : 3], r, lse - z[target]);
        for (int64_t h = 0; gradients && h < d->hidden; h++) {
            double dx = 0, dloss = get(statistic(xd->dtype), p[3], r * xd->dloss_stride);
            for (int64_t c = 0; c < xd->vocab; c++) {
                double g = row_gradient(xd, z[c], lse, dloss, c, target);
                dx += g * get(xd->dtype, p[1], c * wc + h * wh);
                if (!d->frozen)
                    add(d->dw, p[6], c * wc + h * wh, g * get(xd->dtype, p[0], r * d->hidden + h));
            }
            put(xd->dtype, p[5], r * d->hidden + h, dx);
        }
    }
    free(z);
}

/* ---- gather -------------------------------------------------------------------------- */

static int64_t index_of(const mg_gather_desc *d, const int32_t *index, int64_t i)
{
    return index[i / d->index_inner * d->index_outer + i % d->index_inner];
}

/* The row of the table of index i, for `outer` o. */
static int64_t row_of(const mg_gather_desc *d, const int32_t *index, int64_t i, int64_t o)
{
    const int64_t table = i / (d->indices / d->tables);
    return (table * d->outer + o) * d->n + index_of(d, index, i);
}

/* p: table index y */
void run_gather(const mg_gather_desc *d, void *const *p)
{
    for (int64_t i = 0; i < d->indices; i++)
        for (int64_t o = 0; o < d->outer; o++)
            for (int64_t j = 0; j < d->inner; j++)
                put(d->dtype, p[2], (i * d->outer + o) * d->inner + j,
                    get(d->dtype, p[0], row_of(d, p[1], i, o) * d->inner + j));
}

/* p: dy index dtable */
void run_scatter_add(const mg_gather_desc *d, void *const *p)
{
    for (int64_t e = 0; !d->accumulate && e < d->tables * d->outer * d->n * d->inner; e++)
        put(d->dtype, p[2], e, 0);
    for (int64_t i = 0; i < d->indices; i++)
        for (int64_t o = 0; o < d->outer; o++)
            for (int64_t j = 0; j < d->inner; j++)
                add(d->dtype, p[2], row_of(d, p[1], i, o) * d->inner + j,
                    get(d->dtype, p[0], (i * d->outer + o) * d->inner + j));
}

/* p: x index table */
void run_put(const mg_gather_desc *d, void *const *p)
{
    for (int64_t i = 0; i < d->indices; i++)
        for (int64_t o = 0; o < d->outer && index_of(d, p[1], i) >= 0; o++)
            for (int64_t j = 0; j < d->inner; j++)
                put(d->dtype, p[2], row_of(d, p[1], i, o) * d->inner + j,
                    get(d->dtype, p[0], (i * d->outer + o) * d->inner + j));
}

/* ---- random ---------------------------------------------------------------------------------- */

/* p: seed step slot out */
void run_random(const mg_random_desc *d, void *const *p)
{
    uint64_t seed = (uint64_t)*(int64_t *)p[0], step = (uint64_t)*(int64_t *)p[1];
    uint64_t slot = (uint64_t)*(int32_t *)p[2];
    for (int64_t e = 0; e < d->elements; e++)
        put(d->dtype, p[3], e,
            ir_random(seed, step, d->key, slot * (uint64_t)d->elements + (uint64_t)e));
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* A collective as one rank sees it: the ranks of its group, in their order, and its place there. */
typedef struct Group {
    const mg_comm_desc *d;
    DType t;
    int64_t n, place;
    void *const *x; /* per rank of the mesh */
    int64_t rank[64];
} Group;

static Group group_of(const Module *m, const mg_comm_desc *d, DType t, int64_t rank, void *const *x)
{
    Group g = {.d = d, .t = t, .n = d->n, .place = mesh_place(m, rank, d->axes), .x = x};
    for (int64_t r = 0; r < mesh_ranks(m); r++) {
        bool same = true;
        for (size_t i = 0; i < m->layout.mesh.n; i++)
            same &= d->axes >> i & 1 ||
                    mesh_coordinate(m, r, (int)i) == mesh_coordinate(m, rank, (int)i);
        if (same)
            g.rank[mesh_place(m, r, d->axes)] = r;
    }
    return g;
}

/* Index in a whole dim of element i of the part of `size` that is at a place. */
static int64_t of_part(const Group *g, int64_t place, int64_t size, int64_t i)
{
    int64_t half = size / 2;
    return !g->d->zigzag ? place * size + i
           : i < half    ? place * half + i
                         : (2 * g->n - 1 - place) * half + i - half;
}

static double at_place(const Group *g, int64_t place, int64_t e)
{
    return number_at(g->x[g->rank[place]], g->t, e);
}

/* Element e of what all add up to. */
static double reduced(const Group *g, int64_t e)
{
    double part[64] = {0};
    for (int64_t k = 0; k < g->n; k++)
        part[k] = at_place(g, k, e);
    for (int64_t step = 1; g->d->tree && step < g->n; step *= 2)
        for (int64_t k = 0; k + step < g->n; k += 2 * step)
            part[k] += part[k + step];
    double y = part[0];
    for (int64_t k = 1; k < g->n && !g->d->tree; k++)
        y = g->d->max ? fmax(y, part[k]) : y + part[k];
    return y;
}

/* [outer, size, inner] of what is cut or put together, whole; element e of the rank's part of it is
 * that of `fn` in the whole. */
static void cut(const Group *g, int64_t outer, int64_t size, int64_t inner,
                double fn(const Group *, int64_t), void *y)
{
    int64_t part = size / g->n;
    for (int64_t o = 0, e = 0; o < outer; o++)
        for (int64_t s = 0; s < part; s++)
            for (int64_t i = 0; i < inner; i++, e++)
                number_put(y, g->t, e,
                           fn(g, (o * size + of_part(g, g->place, part, s)) * inner + i));
}

static double mine(const Group *g, int64_t e)
{
    return at_place(g, g->place, e);
}

/* Element e of all parts put together. */
static double gathered(const Group *g, int64_t e)
{
    const mg_comm_desc *d = g->d;
    int64_t inner = e % d->inner, s = e / d->inner % (d->size * d->n);
    int64_t outer = e / d->inner / (d->size * d->n);
    for (int64_t k = 0; k < g->n; k++)
        for (int64_t i = 0; i < d->size; i++)
            if (of_part(g, k, d->size, i) == s)
                return at_place(g, k, (outer * d->size + i) * d->inner + inner);
    return NAN;
}

static void run_on(const Group *g, void *y)
{
    const mg_comm_desc *d = g->d;
    int64_t n = d->outer * d->size * d->inner;
    bool outside = d->outer * d->size <= d->to_outer; /* all_to_all: of the dim that is cut */
    switch (d->kind) {
    case MG_ALL_REDUCE:
        for (int64_t e = 0; e < n; e++)
            number_put(y, g->t, e, reduced(g, e));
        break;
    case MG_REDUCE_SCATTER:
        cut(g, d->outer, d->size, d->inner, reduced, y);
        break;
    case MG_ALL_GATHER:
        for (int64_t e = 0; e < n * g->n; e++)
            number_put(y, g->t, e, gathered(g, e));
        break;
    case MG_ALL_TO_ALL:
        cut(g, d->to_outer * (outside ? g->n : 1), d->to_size, d->to_inner * (outside ? 1 : g->n),
            gathered, y);
        break;
    case MG_SHARD:
        cut(g, d->outer, d->size, d->inner, mine, y);
        break;
    case MG_RING_SHIFT:
        for (int64_t e = 0; e < n; e++)
            number_put(y, g->t, e, at_place(g, (g->place + g->n - 1) % g->n, e));
        break;
    case MG_BROADCAST:
        for (int64_t e = 0; e < n; e++)
            number_put(y, g->t, e, at_place(g, d->root, e));
        break;
    }
}

void run_comm(const Module *m, const mg_comm_desc *d, DType t, void *const *x, void *const *y)
{
    for (int64_t r = 0; r < mesh_ranks(m); r++) {
        Group g = group_of(m, d, t, r, x);
        run_on(&g, y[r]);
    }
}
