/* check_attention_cases.c - draws cases of attention; see check_attention.h. */
#include "kernels/cuda/instances_some.h"
#include "tests/cuda/check_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool case_sees(const Case *c, int part, int64_t batch, int64_t s, int64_t t)
{
    const int64_t at = t - c->begin[part], n = c->begin[part + 1] - c->begin[part];
    const int32_t *first = c->first[part];
    return at < (c->seen[part] ? c->seen[part][s] : n) &&
           (!first || at >= first[batch * c->d.queries + s]);
}

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

/* First keys that do not fall from one query to the next: of documents of any length, some empty.
 */
static void draw_documents(Bench *b, Case *c)
{
    const mg_attention_desc *d = &c->d;
    const int64_t often = draw_int(b, 1, 40), far = draw_int(b, 1, 40);
    c->documents = malloc((size_t)(d->batch * d->queries) * sizeof *c->documents);
    for (int64_t i = 0; i < d->batch; i++) {
        int64_t x = draw_int(b, -2, 2);
        for (int64_t s = 0; s < d->queries; s++) {
            if (draw_int(b, 1, often) == 1)
                x += draw_int(b, 0, 3) ? draw_int(b, 0, far) : s > x ? s - x : 0;
            x = x > d->keys + 1 ? d->keys + 1 : x;
            c->documents[i * d->queries + s] = (int32_t)x;
        }
    }
}

/* The first key that query s sees, of all. */
static int64_t first_of(const Case *c, int64_t batch, int64_t s)
{
    const int64_t window = c->d.window, least = window > 0 ? s - window + 1 : INT32_MIN;
    const int64_t document = c->documents ? c->documents[batch * c->d.queries + s] : INT32_MIN;
    return least > document ? least : document;
}

static int64_t put_indices(Bench *b, const int32_t *x, int64_t n)
{
    const int64_t at = take(b, n * 4);
    rt_put(&b->run, at, x, n * 4);
    return at;
}

/* The first keys of a part, counted from its own. */
static void cut_first(Bench *b, Case *c, int p)
{
    const mg_attention_desc *d = &c->d;
    int32_t *first = c->first[p] = malloc((size_t)(d->batch * d->queries) * sizeof *first);
    for (int64_t i = 0; i < d->batch * d->queries; i++) {
        const int64_t x = first_of(c, i / d->queries, i % d->queries) - c->begin[p];
        first[i] = (int32_t)(x < INT32_MIN / 2 ? INT32_MIN / 2 : x);
    }
    c->first_at[p] = put_indices(b, first, d->batch * d->queries);
}

static void draw_first(Bench *b, Case *c)
{
    mg_attention_desc *d = &c->d;
    if (c->kind == CAUSAL && draw_int(b, 0, 1))
        d->window = draw_int(b, 1, draw_int(b, 0, 1) ? 20 : d->keys + 5);
    if (draw_int(b, 0, 2) == 0)
        draw_documents(b, c);
    d->first[0] = d->queries, d->first[1] = 1;
    if (c->documents)
        c->documents_at = put_indices(b, c->documents, d->batch * d->queries);
    for (int p = 0; p < c->parts && (d->window || c->documents); p++)
        cut_first(b, c, p);
}

static void draw_parts(Bench *b, Case *c)
{
    const mg_attention_desc *d = &c->d;
    const int64_t rank = draw_int(b, 0, c->parts - 1);
    c->d.seen[1] = 1;
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
        c->seen_at[p] = put_indices(b, seen, d->queries);
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

/* The heads of the tiles that were compiled (runtime/attend.h chooses the same). */
typedef struct Tiles {
    const char *numbers;
    int head, vhead;
} Tiles;
#define TILES(n, D, V) {#n, D, V},
static const Tiles tiles[] = {MG_SOME_FLASH(TILES)}, biased[] = {MG_SOME_BIASED(TILES)};

/* Heads for which the runtime chooses one of them. */
static void draw_tiles(Bench *b, mg_attention_desc *d, const char *numbers)
{
    const Tiles *of = d->biased ? biased : tiles;
    const int n = (int)(d->biased ? sizeof biased : sizeof tiles) / (int)sizeof *tiles;
    const Tiles *t = &of[draw_int(b, 0, n - 1)];
    while (strcmp(t->numbers, numbers) != 0)
        t = t + 1 < of + n ? t + 1 : of;
    const int64_t step = is_half(b->t) ? 8 : 1;
    d->head = t->head - step * draw_int(b, 0, draw_int(b, 0, 1) ? 0 : 15 / step);
    d->vhead = t->vhead - step * draw_int(b, 0, draw_int(b, 0, 1) ? 0 : 15 / step);
}

static void draw_heads(Bench *b, mg_attention_desc *d)
{
    static const int64_t heads[] = {1, 8, 32, 33, 64, 80, 96, 128, 130, 256};
    const char *const numbers = b->t == MG_BF16        ? "bf16"
                                : b->t == MG_F16       ? "f16"
                                : b->run.program->tf32 ? "tf32"
                                                       : "f32";
    if (b->t == MG_F64) {
        d->head = heads[draw_int(b, 0, 9)];
        d->vhead = draw_int(b, 0, 1) ? d->head : heads[draw_int(b, 0, 9)];
    } else
        draw_tiles(b, d, numbers);
    if (is_half(b->t) && draw_int(b, 0, 5) == 0) /* rows that begin anywhere */
        d->head -= 3;
    d->scale = 1 / sqrt((double)d->head);
    if (draw_int(b, 0, 2) == 0)
        d->cap = draw_int(b, 0, 1) ? 0.25 : 2;
    if (draw_int(b, 0, 7) == 0)
        d->scale = -d->scale;
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

/* A bias with any of the dims, in the kernel's order or with the heads outermost; its gradient has
 * them the other way round. */
static void draw_bias(Bench *b, Case *c)
{
    mg_attention_desc *d = &c->d;
    const int64_t size[] = {d->batch, d->queries, d->kv, d->group};
    static const int order[2][4] = {{1, 3, 2, 0}, {3, 1, 0, 2}};
    int64_t n[2];
    d->bias[4] = d->dbias[4] = draw_int(b, 0, 3) > 0;
    for (int k = 0; k < 2; k++)
        n[k] = d->bias[4] ? d->keys : 1;
    for (int i = 0; i < 4; i++)
        d->bias[i] = draw_int(b, 0, 2) > 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 4; i++) {
            const int dim = order[k][i];
            const bool has = d->bias[dim] > 0;
            *(k ? &d->dbias[dim] : &d->bias[dim]) = has ? n[k] : 0;
            n[k] *= has ? size[dim] : 1;
        }
    c->bias = numbers_of(b, n[0], statistic(b->t));
    c->dbias = numbers_of(b, n[1], statistic(b->t));
    if (!d->biased)
        memset(d->bias, 0, sizeof d->bias), memset(d->dbias, 0, sizeof d->dbias);
}

Case draw_case(Bench *b, Kind kind)
{
    Case made = {.kind = kind}, *c = &made;
    mg_attention_desc *d = &c->d;
    draw_lengths(b, c);
    d->dtype = b->t;
    d->biased = draw_int(b, 0, 2) == 0;
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
    draw_bias(b, c);
    draw_parts(b, c);
    draw_first(b, c);
    return made;
}

void drop_case(Bench *b, Case *c)
{
    for (int p = 0; p < c->parts; p++) {
        free(c->seen[p]);
        free(c->first[p]);
    }
    free(c->documents);
    done(b, 12,
         (Array *[]){&c->q, &c->k, &c->v, &c->o, &c->lse, &c->g, &c->dq, &c->dk, &c->dv, &c->work,
                     &c->bias, &c->dbias});
}
