/* check_attention.c - attention and its gradients, whole and over parts of the keys, against plain
 * loops in double; part of check_kernels.
 *
 * The keys of a case are cut into parts, and of each a query sees the first few: from none to all.
 * Each part alone is checked, with o and lse of all keys for its gradients, as an iteration of a
 * ring has them; then the parts together, merged by lse and added up. Where the parts make a whole,
 * without a mask or with a causal one, that is computed by one call, too. */
#include "tests/cuda/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4 };

typedef enum Kind { ALL, CAUSAL, RING, ANY, KINDS } Kind;

typedef struct Case {
    mg_attention_desc d; /* of all keys */
    Kind kind;
    int parts;
    int64_t begin[PARTS + 1]; /* where a part's keys are */
    int32_t *seen[PARTS];     /* per query; NULL: all of the part */
    int64_t seen_at[PARTS];   /* on the device */
    Array q, k, v, o, lse, g, dq, dk, dv, work;
    double term; /* of gradients: the largest sum of sizes that one is what is left of */
} Case;

/* One of [batch, kv, group, query], queries innermost. */
typedef struct Row {
    int64_t b, h, g, s;
} Row;

static Row row_of(const mg_attention_desc *d, int64_t i)
{
    return (Row){i / d->queries / d->group / d->kv, i / d->queries / d->group % d->kv,
                 i / d->queries % d->group, i % d->queries};
}

static int64_t rows_of(const mg_attention_desc *d)
{
    return d->batch * d->kv * d->group * d->queries;
}

static int64_t at_row(const int64_t s[4], const Row *r)
{
    return r->b * s[0] + r->s * s[1] + r->h * s[2] + r->g * s[3];
}

static int64_t at_key(const int64_t s[3], const Row *r, int64_t key)
{
    return r->b * s[0] + key * s[1] + r->h * s[2];
}

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

/* ---- cases -------------------------------------------------------------------------------- */

/* [batch, seq, kv, group, head], or the heads before the sequence, or not a dense one: `pad`
 * elements after each row. */
static int64_t lay(int64_t s[4], bool heads_first, const int64_t size[4], int64_t head, int64_t pad)
{
    const int64_t rows = size[1], kv = size[2], group = size[3], row = head + pad;
    s[3] = heads_first ? rows * row : row;
    s[2] = s[3] * group;
    s[1] = heads_first ? row : kv * group * row;
    s[0] = rows * kv * group * row;
    return size[0] * s[0];
}

static int64_t lay_keys(int64_t s[3], bool heads_first, const int64_t size[4], int64_t head,
                        int64_t pad)
{
    int64_t four[4], n = lay(four, heads_first, size, head, pad);
    memcpy(s, four, 3 * sizeof *s);
    return n;
}

/* How many of n keys each query sees. */
static void draw_seen(Bench *b, int32_t *seen, int64_t queries, int64_t n)
{
    const int how = (int)draw_int(b, 0, 4);
    const int64_t shift = draw_int(b, -n, queries), turn = draw_int(b, 0, queries);
    int64_t low = draw_int(b, 0, n), high = draw_int(b, low, n);
    if (draw_int(b, 0, 1)) /* whole parts, as in zigzag order */
        low = 0, high = n;
    for (int64_t s = 0; s < queries; s++) {
        int64_t x = how == 0   ? 0
                    : how == 1 ? n
                    : how == 2 ? s + 1 - shift
                    : how == 3 ? (s < turn ? low : high)
                               : low;
        if (how == 4 && draw_int(b, 0, 9) == 0)
            low = draw_int(b, low, n);
        seen[s] = (int32_t)(x < 0 ? 0 : x > n ? n : x);
    }
}

/* Counts the keys of a part at or before each query of rank `rank`. Both are split in zigzag order
 * over as many ranks as there are parts. */
static void zigzag_seen(int32_t *seen, int64_t half, int64_t ranks, int64_t rank, int64_t part)
{
    for (int64_t s = 0; s < 2 * half; s++) {
        const int64_t at = s < half ? rank * half + s : (2 * ranks - 1 - rank) * half + s - half;
        seen[s] = 0;
        for (int64_t t = 0; t < 2 * half; t++) {
            const int64_t of =
                t < half ? part * half + t : (2 * ranks - 1 - part) * half + t - half;
            seen[s] += of <= at;
        }
    }
}

static void draw_parts(Bench *b, Case *c)
{
    const mg_attention_desc *d = &c->d;
    const int64_t rank = draw_int(b, 0, c->parts - 1);
    for (int p = 0; p < c->parts; p++) {
        const int64_t n = c->begin[p + 1] - c->begin[p];
        if (c->kind == ALL || (c->kind == ANY && draw_int(b, 0, 9) == 0))
            continue;
        int32_t *seen = c->seen[p] = malloc((size_t)d->queries * sizeof *seen);
        if (c->kind == RING)
            zigzag_seen(seen, n / 2, c->parts, rank, p);
        else if (c->kind == ANY)
            draw_seen(b, seen, d->queries, n);
        for (int64_t s = 0; s < d->queries && c->kind == CAUSAL; s++) {
            const int64_t x = s + 1 - c->begin[p];
            seen[s] = (int32_t)(x < 0 ? 0 : x > n ? n : x);
        }
        c->seen_at[p] = take(b, d->queries * 4);
        rt_put(&b->run, c->seen_at[p], seen, d->queries * 4);
    }
}

/* Lengths, and where the keys are cut. Some are of several tiles of the tensor cores. */
static void draw_lengths(Bench *b, Case *c)
{
    mg_attention_desc *d = &c->d;
    const bool tiles = draw_int(b, 0, 3) == 0;
    const int64_t min = tiles ? 130 : PARTS, max = tiles ? 400 : draw_int(b, 0, 3) ? 70 : 150;
    c->parts = (int)draw_int(b, 1, tiles ? 2 : PARTS);
    d->queries = draw_int(b, tiles && draw_int(b, 0, 1) ? 130 : 1, max);
    d->keys = c->kind == CAUSAL && draw_int(b, 0, 2) ? d->queries : draw_int(b, min, max);
    c->parts = d->keys < c->parts ? (int)d->keys : c->parts;
    if (c->kind == RING) { /* as many queries and keys on each rank */
        d->queries = draw_int(b, 1, max / 4) * 2;
        d->keys = d->queries * c->parts;
    }
    for (int p = 1; p <= c->parts; p++)
        c->begin[p] = p == c->parts     ? d->keys
                      : c->kind == RING ? d->queries * p
                                        : draw_int(b, c->begin[p - 1] + 1, d->keys - c->parts + p);
}

static void draw_heads(Bench *b, mg_attention_desc *d)
{
    static const int64_t heads[] = {1, 8, 32, 33, 64, 80, 96, 128, 130, 256};
    const bool tensor_cores = is_half(b->t) && draw_int(b, 0, 2);
    d->head = tensor_cores ? 64 * draw_int(b, 1, 2) : heads[draw_int(b, 0, 9)];
    d->vhead = tensor_cores || draw_int(b, 0, 1) ? d->head : heads[draw_int(b, 0, 9)];
    d->scale = 1 / sqrt((double)d->head);
}

/* An array for results. The padding between rows is 0 and stays so. */
static Array results(Bench *b, mg_dtype t, int64_t n, int64_t row, int64_t pad)
{
    Array a = numbers_of(b, n, t);
    for (int64_t i = 0; i < n; i++)
        a.x[i] = i % (row + pad) < row ? a.x[i] : 0;
    upload(b, &a);
    return a;
}

static void draw_case(Bench *b, Case *c, Kind kind)
{
    mg_attention_desc *d = &c->d;
    *c = (Case){.kind = kind};
    draw_lengths(b, c);
    d->dtype = b->t;
    draw_heads(b, d);
    d->batch = draw_int(b, 1, d->keys > 150 ? 1 : 2);
    d->kv = draw_int(b, 1, 2);
    d->group = draw_int(b, 1, d->batch * d->kv > 2 ? 1 : 3);
    const int64_t pads[] = {0, 0, 8, 3}, pad = pads[draw_int(b, 0, 3)];
    const int64_t of_queries[] = {d->batch, d->queries, d->kv, d->group};
    const int64_t of_keys[] = {d->batch, d->keys, d->kv, 1};
    bool first = draw_int(b, 0, 1);
    c->q = numbers(b, lay(d->q, first, of_queries, d->head, pad));
    c->k = numbers(b, lay_keys(d->k, first, of_keys, d->head, pad));
    c->v = numbers(b, lay_keys(d->v, first, of_keys, d->vhead, pad));
    c->o = results(b, b->t, lay(d->o, first, of_queries, d->vhead, pad), d->vhead, pad);
    c->g = numbers(b, c->o.n);
    c->lse = results(b, statistic(b->t), lay(d->lse, first, of_queries, 1, pad % 8), 1, pad % 8);
    first = draw_int(b, 0, 1);
    c->dq = results(b, b->t, lay(d->dq, first, of_queries, d->head, pad), d->head, pad);
    c->dk = results(b, b->t, lay_keys(d->dk, first, of_keys, d->head, pad), d->head, pad);
    c->dv = results(b, b->t, lay_keys(d->dv, first, of_keys, d->vhead, pad), d->vhead, pad);
    c->work = numbers_of(b, rows_of(d), statistic(b->t));
    draw_parts(b, c);
}

static void drop_case(Bench *b, Case *c)
{
    for (int p = 0; p < c->parts; p++)
        free(c->seen[p]);
    done(b, 10,
         (Array *[]){&c->q, &c->k, &c->v, &c->o, &c->lse, &c->g, &c->dq, &c->dk, &c->dv, &c->work});
}

/* ---- in double ---------------------------------------------------------------------------- */

/* How many keys of a part query s sees. */
static int64_t sees(const Case *c, int part, int64_t s)
{
    return c->seen[part] ? c->seen[part][s] : c->begin[part + 1] - c->begin[part];
}

/* Scores of the keys that a query sees in parts [from, to), others -INFINITY; their lse. */
static double scores(const Case *c, const Row *r, int from, int to, double *z)
{
    const mg_attention_desc *d = &c->d;
    double top = -INFINITY, sum = 0;
    for (int p = from; p < to; p++)
        for (int64_t t = c->begin[p]; t < c->begin[p + 1]; t++) {
            const bool seen = t - c->begin[p] < sees(c, p, r->s);
            z[t] = seen ? d->scale *
                              dot(&c->q.x[at_row(d->q, r)], &c->k.x[at_key(d->k, r, t)], d->head)
                        : -INFINITY;
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
    double *dq, *dk, *dv;
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
            terms += d->scale * e * (fabs(dp) + fabs(D));
            for (int64_t j = 0; j < d->vhead; j++)
                sum->dv[at_key(d->dv, &r, t) + j] += e * g[j];
            for (int64_t j = 0; j < d->head; j++) {
                const double ds = d->scale * e * (dp - D);
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

static const int32_t *seen_of(Bench *b, const Case *c, int p)
{
    return c->seen[p] ? (const int32_t *)(b->run.arena + c->seen_at[p]) : NULL;
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
    return d;
}

static void part_forward(Bench *b, Case *c, int p)
{
    const mg_attention_desc d = part(c, p);
    mg_attention_part(&b->run, 0, &d, at(b, &c->q), part_of(b, c, &c->k, d.k, p),
                      part_of(b, c, &c->v, d.v, p), at(b, &c->o), at(b, &c->lse), seen_of(b, c, p),
                      NULL);
}

static void part_backward(Bench *b, Case *c, int p)
{
    const mg_attention_desc d = part(c, p);
    mg_attention_part_grad(&b->run, 0, &d, at(b, &c->q), part_of(b, c, &c->k, d.k, p),
                           part_of(b, c, &c->v, d.v, p), at(b, &c->o), at(b, &c->lse), at(b, &c->g),
                           at(b, &c->dq), part_of(b, c, &c->dk, d.dk, p),
                           part_of(b, c, &c->dv, d.dv, p), seen_of(b, c, p), NULL, at(b, &c->work));
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
        memset(&unseen[at_row(stride, &r)], sees(c, p, r.s) == 0, (size_t)size);
    }
    return unseen;
}

/* Of one with a row for each key: which are of keys that no query sees. */
static bool *unseen_keys(const Case *c, const Array *a, const int64_t stride[3], int64_t size)
{
    bool *unseen = calloc((size_t)a->n, sizeof *unseen);
    for (int64_t i = 0; i < rows_of(&c->d); i++) {
        const Row r = row_of(&c->d, i);
        for (int p = 0; p < c->parts && r.s + 1 == c->d.queries; p++)
            for (int64_t t = c->begin[p]; t < c->begin[p + 1]; t++)
                memset(&unseen[at_key(stride, &r, t)], t - c->begin[p] >= sees(c, p, r.s),
                       (size_t)size);
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
    Gradients g = {copy_of(c->dq.x, c->dq.n), copy_of(c->dk.x, c->dk.n), copy_of(c->dv.x, c->dv.n)};
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

static void check_backward(Bench *b, Case *c)
{
    Gradients all = gradients_new(c);
    c->term = want_backward(c, 0, c->parts, &all);
    check_parts_backward(b, c, &all);
    if (is_one_call(c)) {
        const mg_attention_desc d = whole(c);
        mg_attention_grad(&b->run, 0, &d, at(b, &c->q), at(b, &c->k), at(b, &c->v), at(b, &c->o),
                          at(b, &c->lse), at(b, &c->g), at(b, &c->dq), at(b, &c->dk), at(b, &c->dv),
                          at(b, &c->work));
        compare_part(b, c, "attention dq", &c->dq, all.dq, 2, NULL);
        compare_part(b, c, "attention dk", &c->dk, all.dk, 2, NULL);
        compare_part(b, c, "attention dv", &c->dv, all.dv, 2, NULL);
    }
    gradients_free(&all);
}

void check_attention(Bench *b)
{
    for (int kind = (int)draw_int(b, 0, 1); kind < KINDS; kind += 2) {
        Case c;
        draw_case(b, &c, (Kind)kind);
        check_forward(b, &c);
        check_backward(b, &c);
        drop_case(b, &c);
    }
}
