/* check_attention.c - attention and its gradients, whole and over parts of the keys, against plain
 * loops in double; part of check_kernels.
 *
 * The keys of a case are cut into parts, and of each a query sees the first few: from none to all.
 * Each part alone is checked, with o and lse of all keys for its gradients, as an iteration of a
 * ring has them; then the parts together, merged by lse and added up. Where the parts make a whole,
 * without a mask or with a causal one, that is computed by one call, too. */
#include "tests/cuda/check_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static double *copy_of(const double *x, int64_t n)
{
    return memcpy(malloc((size_t)n * sizeof *x), x, (size_t)n * sizeof *x);
}

/* ---- in double ---------------------------------------------------------------------------- */

/* Scores of the keys that a query sees in parts [from, to), others -INFINITY; their lse. */
static double scores(const Case *c, const Row *r, int from, int to, double *z)
{
    const mg_attention_desc *d = &c->d;
    double top = -INFINITY, sum = 0;
    for (int p = from; p < to; p++)
        for (int64_t t = c->begin[p]; t < c->begin[p + 1]; t++) {
            const double x =
                d->scale * dot(&c->q.x[at_row(d->q, r)], &c->k.x[at_key(d->k, r, t)], d->head);
            z[t] = !case_sees(c, p, r->b, r->s, t) ? -INFINITY
                   : d->cap > 0                    ? d->cap * tanh(x / d->cap)
                                                   : x;
            z[t] += d->biased ? c->bias.x[at_bias(d->bias, r, t)] : 0;
            top = fmax(top, z[t]);
        }
    for (int64_t t = c->begin[from]; t < c->begin[to]; t++)
        sum += z[t] == -INFINITY ? 0 : exp(z[t] - top);
    return sum == 0 ? NOTHING : top + log(sum);
}

/* o and lse over parts [from, to). */
static void want_forward(const Case *c, int from, int to, double *o, double *lse)
{
    const mg_attention_desc *d = &c->d;
    double *z = malloc((size_t)d->keys * sizeof *z);
    for (int64_t i = 0; i < rows_of(d); i++) {
        const Row r = row_of(d, i);
        double *mine = &o[at_row(d->o, &r)];
        const double l = lse[at_row(d->lse, &r)] = scores(c, &r, from, to, z);
        memset(mine, 0, (size_t)d->vhead * sizeof *mine);
        for (int64_t t = c->begin[from]; t < c->begin[to]; t++)
            for (int64_t j = 0; j < d->vhead && z[t] != -INFINITY; j++)
                mine[j] += exp(z[t] - l) * c->v.x[at_key(d->v, &r, t) + j];
    }
    free(z);
}

typedef struct Gradients {
    double *dq, *dk, *dv, *dbias;
    double *sizes; /* of dbias: the sum of the sizes of which each is what is left */
} Gradients;

/* Adds those over parts [from, to), of the o and lse that the device has. Returns the largest sum
 * of sizes that a query's gradient is what is left of. */
static double want_backward(const Case *c, int from, int to, Gradients *sum)
{
    const mg_attention_desc *d = &c->d;
    double *z = malloc((size_t)d->keys * sizeof *z), max = 0;
    for (int64_t i = 0; i < rows_of(d); i++) {
        const Row r = row_of(d, i);
        const double *g = &c->g.x[at_row(d->o, &r)], l = c->lse.x[at_row(d->lse, &r)];
        const double D = dot(g, &c->o.x[at_row(d->o, &r)], d->vhead);
        double terms = 0;
        scores(c, &r, from, to, z);
        for (int64_t t = c->begin[from]; t < c->begin[to]; t++) {
            if (z[t] == -INFINITY)
                continue;
            const double e = exp(z[t] - l), dp = dot(g, &c->v.x[at_key(d->v, &r, t)], d->vhead);
            terms += fabs(d->scale) * e * (fabs(dp) + fabs(D));
            for (int64_t j = 0; j < d->vhead; j++)
                sum->dv[at_key(d->dv, &r, t) + j] += e * g[j];
            const double bias = d->biased ? c->bias.x[at_bias(d->bias, &r, t)] : 0;
            const double bent = d->cap > 0 ? (z[t] - bias) / d->cap : 0;
            if (d->biased) {
                sum->dbias[at_bias(d->dbias, &r, t)] += e * (dp - D);
                sum->sizes[at_bias(d->dbias, &r, t)] += e * (fabs(dp) + fabs(D));
            }
            const double ds = d->scale * e * (dp - D) * (1 - bent * bent);
            for (int64_t j = 0; j < d->head; j++) {
                sum->dq[at_row(d->dq, &r) + j] += ds * c->k.x[at_key(d->k, &r, t) + j];
                sum->dk[at_key(d->dk, &r, t) + j] += ds * c->q.x[at_row(d->q, &r) + j];
            }
        }
        max = fmax(max, terms);
    }
    free(z);
    return max;
}

/* ---- on the device ------------------------------------------------------------------------ */

static double terms_of(const mg_attention_desc *d)
{
    return (double)(d->head + d->vhead + d->keys + d->queries * d->group);
}

/* Element 0 of a part's first key. */
static void *part_of(Bench *b, const Case *c, const Array *a, const int64_t stride[3], int p)
{
    return (char *)at(b, a) + c->begin[p] * stride[1] * mg_dtype_bytes(a->t);
}

static const int32_t *indices_at(Bench *b, const int32_t *x, int64_t at)
{
    return x ? (const int32_t *)(b->run.arena + at) : NULL;
}

static bool is_one_call(const Case *c)
{
    return c->kind == ALL || c->kind == CAUSAL;
}

static mg_attention_desc whole(const Case *c)
{
    mg_attention_desc d = c->d;
    d.causal = c->kind == CAUSAL;
    return d;
}

static mg_attention_desc part(const Case *c, int p)
{
    mg_attention_desc d = c->d;
    d.keys = c->begin[p + 1] - c->begin[p];
    d.window = 0; /* is in the part's first keys */
    return d;
}

/* The bias of the keys from `key` on; NULL: there is none. */
static void *bias_at(Bench *b, const Case *c, int64_t key)
{
    const int64_t at_key = key * c->d.bias[4] * mg_dtype_bytes(c->bias.t);
    return c->d.biased ? (char *)at(b, &c->bias) + at_key : NULL;
}

static void part_forward(Bench *b, Case *c, int p)
{
    const mg_attention_desc d = part(c, p);
    mg_attention_part(&b->run, 0, &d, at(b, &c->q), part_of(b, c, &c->k, d.k, p),
                      part_of(b, c, &c->v, d.v, p), at(b, &c->o), at(b, &c->lse),
                      bias_at(b, c, c->begin[p]), indices_at(b, c->seen[p], c->seen_at[p]),
                      indices_at(b, c->first[p], c->first_at[p]));
}

static void part_backward(Bench *b, Case *c, int p)
{
    const mg_attention_desc d = part(c, p);
    mg_attention_part_grad(&b->run, 0, &d, at(b, &c->q), part_of(b, c, &c->k, d.k, p),
                           part_of(b, c, &c->v, d.v, p), at(b, &c->o), at(b, &c->lse), at(b, &c->g),
                           at(b, &c->dq), part_of(b, c, &c->dk, d.dk, p),
                           part_of(b, c, &c->dv, d.dv, p), bias_at(b, c, c->begin[p]),
                           indices_at(b, c->seen[p], c->seen_at[p]),
                           indices_at(b, c->first[p], c->first_at[p]), at(b, &c->work));
}

static double largest(const double *x, int64_t n)
{
    double max = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, fabs(x[i]));
    return max;
}

/* Of a tensor with a row of `size` elements for each query: which are of queries that see nothing
 * of a part. */
static bool *unseen_rows(const Case *c, int p, const Array *a, const int64_t stride[4],
                         int64_t size)
{
    bool *unseen = calloc((size_t)a->n, sizeof *unseen);
    for (int64_t i = 0; i < rows_of(&c->d); i++) {
        const Row r = row_of(&c->d, i);
        bool any = false;
        for (int64_t t = c->begin[p]; t < c->begin[p + 1] && !any; t++)
            any = case_sees(c, p, r.b, r.s, t);
        memset(&unseen[at_row(stride, &r)], !any, (size_t)size);
    }
    return unseen;
}

/* Of one with a row for each key: which are of keys that no query sees. */
static bool *unseen_keys(const Case *c, const Array *a, const int64_t stride[3], int64_t size)
{
    bool *unseen = calloc((size_t)a->n, sizeof *unseen);
    for (int64_t i = 0; i < c->d.batch * c->d.kv; i++) {
        const Row r = {i / c->d.kv, i % c->d.kv, 0, 0};
        for (int p = 0; p < c->parts; p++)
            for (int64_t t = c->begin[p]; t < c->begin[p + 1]; t++) {
                bool any = false;
                for (int64_t s = 0; s < c->d.queries && !any; s++)
                    any = case_sees(c, p, r.b, s, t);
                memset(&unseen[at_key(stride, &r, t)], !any, (size_t)size);
            }
    }
    return unseen;
}

/* want: also of what lies between rows. `zero` is freed. */
static void compare_part(Bench *b, const Case *c, const char *what, const Array *a,
                         const double *want, double roundings, bool *zero)
{
    double *x = download(b, a);
    compare_numbers(b, &(Compared){.what = what,
                                   .t = a->t,
                                   .n = a->n,
                                   .x = x,
                                   .want = want,
                                   .term = c->term,
                                   .terms = terms_of(&c->d),
                                   .roundings = roundings,
                                   .zero = zero});
    free(x);
    free(zero);
}

/* ---- forward ------------------------------------------------------------------------------ */

typedef struct Forward {
    double *o, *lse;
} Forward;

static Forward forward_new(const Case *c)
{
    return (Forward){copy_of(c->o.x, c->o.n), copy_of(c->lse.x, c->lse.n)};
}

static void forward_free(Forward *f)
{
    free(f->o);
    free(f->lse);
}

/* Merges the results of the parts by their lse: a part's weight is e^(lse - the largest). */
static void merge(const Case *c, const Forward *part, Forward *to)
{
    const mg_attention_desc *d = &c->d;
    for (int64_t i = 0; i < rows_of(d); i++) {
        const Row r = row_of(d, i);
        const int64_t lse = at_row(d->lse, &r), o = at_row(d->o, &r);
        double top = -INFINITY, sum = 0;
        for (int p = 0; p < c->parts; p++)
            top = fmax(top, part[p].lse[lse]);
        for (int p = 0; p < c->parts; p++)
            sum += exp(part[p].lse[lse] - top);
        to->lse[lse] = top + log(sum);
        for (int64_t j = 0; j < d->vhead; j++) {
            to->o[o + j] = 0;
            for (int p = 0; p < c->parts; p++)
                to->o[o + j] += exp(part[p].lse[lse] - top) / sum * part[p].o[o + j];
        }
    }
}

/* Each part alone, and all of them; `all`: what that should be. Weights are rounded to halves. */
static void check_parts_forward(Bench *b, Case *c, const Forward *all)
{
    Forward found[PARTS], want = forward_new(c), merged = forward_new(c);
    double max = 0;
    for (int p = 0; p < c->parts; p++) {
        part_forward(b, c, p);
        want_forward(c, p, p + 1, want.o, want.lse);
        compare_part(b, c, "part of attention", &c->o, want.o, 1,
                     unseen_rows(c, p, &c->o, c->d.o, c->d.vhead));
        compare_part(b, c, "part's lse", &c->lse, want.lse, 0, NULL);
        found[p] = (Forward){download(b, &c->o), download(b, &c->lse)};
        max = fmax(max, largest(found[p].o, c->o.n));
    }
    merge(c, found, &merged);
    Compared x = {.what = "parts merged",
                  .t = b->t,
                  .n = c->o.n,
                  .x = merged.o,
                  .want = all->o,
                  .size = max,
                  .terms = terms_of(&c->d),
                  .roundings = 1};
    compare_numbers(b, &x);
    x = (Compared){.what = "parts' lse merged",
                   .t = c->lse.t,
                   .n = c->lse.n,
                   .x = merged.lse,
                   .want = all->lse,
                   .terms = terms_of(&c->d)};
    compare_numbers(b, &x);
    for (int p = 0; p < c->parts; p++)
        forward_free(&found[p]);
    forward_free(&want);
    forward_free(&merged);
}

static void check_forward(Bench *b, Case *c)
{
    Forward all = forward_new(c);
    want_forward(c, 0, c->parts, all.o, all.lse);
    if (is_one_call(c)) {
        const mg_attention_desc d = whole(c);
        if (c->documents || d.biased)
            mg_attention_part(&b->run, 0, &d, at(b, &c->q), at(b, &c->k), at(b, &c->v),
                              at(b, &c->o), at(b, &c->lse), bias_at(b, c, 0), NULL,
                              indices_at(b, c->documents, c->documents_at));
        else
            mg_attention(&b->run, 0, &d, at(b, &c->q), at(b, &c->k), at(b, &c->v), at(b, &c->o),
                         at(b, &c->lse));
        compare_part(b, c, "attention", &c->o, all.o, 1, NULL);
        compare_part(b, c, "attention lse", &c->lse, all.lse, 0, NULL);
    }
    check_parts_forward(b, c, &all);
    free(c->o.x); /* gradients are of these, as the device has them */
    free(c->lse.x);
    c->o.x = all.o;
    c->lse.x = all.lse;
    upload(b, &c->o);
    upload(b, &c->lse);
}

/* ---- gradients ---------------------------------------------------------------------------- */

/* Zeros in the rows, between them what is there. */
static Gradients gradients_new(const Case *c)
{
    const mg_attention_desc *d = &c->d;
    Gradients g = {copy_of(c->dq.x, c->dq.n), copy_of(c->dk.x, c->dk.n), copy_of(c->dv.x, c->dv.n),
                   calloc((size_t)c->dbias.n, sizeof(double)),
                   calloc((size_t)c->dbias.n, sizeof(double))};
    for (int64_t i = 0; i < rows_of(d); i++) {
        const Row r = row_of(d, i);
        memset(&g.dq[at_row(d->dq, &r)], 0, (size_t)d->head * sizeof *g.dq);
        for (int64_t t = 0; t < d->keys && r.s == 0; t++) {
            memset(&g.dk[at_key(d->dk, &r, t)], 0, (size_t)d->head * sizeof *g.dk);
            memset(&g.dv[at_key(d->dv, &r, t)], 0, (size_t)d->vhead * sizeof *g.dv);
        }
    }
    return g;
}

static void gradients_free(Gradients *g)
{
    free(g->dq);
    free(g->dk);
    free(g->dv);
    free(g->dbias);
    free(g->sizes);
}

/* Of queries part by part; what they are together. Keys and values of all parts lie beside each
 * other in the end. */
static void check_parts_backward(Bench *b, Case *c, const Gradients *all)
{
    const mg_attention_desc *d = &c->d;
    double *sum = copy_of(all->dq, c->dq.n), sizes = 0;
    for (int p = 0; p < c->parts; p++) {
        Gradients want = gradients_new(c);
        want_backward(c, p, p + 1, &want);
        part_backward(b, c, p);
        compare_part(b, c, "part of dq", &c->dq, want.dq, 2,
                     unseen_rows(c, p, &c->dq, d->dq, d->head));
        double *found = download(b, &c->dq);
        for (int64_t i = 0; i < rows_of(d); i++) {
            const Row r = row_of(d, i);
            for (int64_t j = at_row(d->dq, &r), n = 0; n < d->head; j++, n++)
                sum[j] = (p ? sum[j] : 0) + found[j];
        }
        sizes += largest(found, c->dq.n);
        free(found);
        gradients_free(&want);
    }
    compare_part(b, c, "parts' dk", &c->dk, all->dk, 2, unseen_keys(c, &c->dk, d->dk, d->head));
    compare_part(b, c, "parts' dv", &c->dv, all->dv, 2, unseen_keys(c, &c->dv, d->dv, d->vhead));
    Compared x = {.what = "parts' dq added up",
                  .t = b->t,
                  .n = c->dq.n,
                  .x = sum,
                  .want = all->dq,
                  .size = sizes,
                  .term = c->term,
                  .terms = terms_of(d),
                  .roundings = 2};
    compare_numbers(b, &x);
    free(sum);
}

/* The gradient of the bias, of all keys. An element is a sum over so many scores as it is added to.
 */
static void check_bias(Bench *b, Case *c, const Gradients *want)
{
    const mg_attention_desc d = whole(c);
    mg_attention_bias_grad(&b->run, 0, &d, at(b, &c->q), at(b, &c->k), at(b, &c->v), at(b, &c->o),
                           at(b, &c->lse), at(b, &c->g), at(b, &c->dbias), bias_at(b, c, 0), NULL,
                           indices_at(b, c->documents, c->documents_at), at(b, &c->work));
    double *x = download(b, &c->dbias);
    const double each = (double)(rows_of(&d) * d.keys) / (double)c->dbias.n;
    compare_numbers(b, &(Compared){.what = "attention dbias",
                                   .t = c->dbias.t,
                                   .n = c->dbias.n,
                                   .x = x,
                                   .want = want->dbias,
                                   .term = largest(want->sizes, c->dbias.n),
                                   .terms = terms_of(&d) + each});
    free(x);
}

static void check_backward(Bench *b, Case *c)
{
    Gradients all = gradients_new(c);
    c->term = want_backward(c, 0, c->parts, &all);
    check_parts_backward(b, c, &all);
    if (is_one_call(c)) {
        const mg_attention_desc d = whole(c);
        if (c->documents || d.biased)
            mg_attention_part_grad(&b->run, 0, &d, at(b, &c->q), at(b, &c->k), at(b, &c->v),
                                   at(b, &c->o), at(b, &c->lse), at(b, &c->g), at(b, &c->dq),
                                   at(b, &c->dk), at(b, &c->dv), bias_at(b, c, 0), NULL,
                                   indices_at(b, c->documents, c->documents_at), at(b, &c->work));
        else
            mg_attention_grad(&b->run, 0, &d, at(b, &c->q), at(b, &c->k), at(b, &c->v),
                              at(b, &c->o), at(b, &c->lse), at(b, &c->g), at(b, &c->dq),
                              at(b, &c->dk), at(b, &c->dv), at(b, &c->work));
        compare_part(b, c, "attention dq", &c->dq, all.dq, 2, NULL);
        compare_part(b, c, "attention dk", &c->dk, all.dk, 2, NULL);
        compare_part(b, c, "attention dv", &c->dv, all.dv, 2, NULL);
    }
    if (is_one_call(c) && c->d.biased)
        check_bias(b, c, &all);
    gradients_free(&all);
}

static void check_kinds(Bench *b)
{
    for (int kind = (int)draw_int(b, 0, 1); kind < KINDS; kind += 2) {
        Case c = draw_case(b, (Kind)kind);
        check_forward(b, &c);
        check_backward(b, &c);
        drop_case(b, &c);
    }
}

/* Of f32 also with products in tf32. */
void check_attention(Bench *b)
{
    const mg_program *program = b->run.program;
    check_kinds(b);
    if (b->t != MG_F32)
        return;
    mg_program rounding = *program;
    rounding.tf32 = true;
    b->run.program = &rounding;
    check_kinds(b);
    b->run.program = program;
}
