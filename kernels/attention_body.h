/* attention_body.h - attention forward and backward on one type and vector unit (each_isa.h).
 *
 * A tile is W rows, each a (query, group) pair of one (batch, kv head), one row a lane: scores lie
 * as st[key][row], so that every maximum, sum and exponential over keys is an operation between
 * vectors, and each product broadcasts keys or values straight from the tensor (panel.h).
 *
 * Forward is the online softmax of Milakov and Gimelshein (2018) over blocks of keys, as in
 * FlashAttention (Dao et al. 2022); backward computes the probabilities again from lse. Scores are
 * kept times log2 e, so that 2^x serves. With causal, lanes whose queries lie before a whole block
 * of keys take no part in it. */

#include "kernels/panel.h"

#define W (MGK_TILE_VECS * VL)

#define Tile          NAME(Tile)
#define tile_open     NAME(tile_open)
#define tile_first    NAME(tile_first)
#define pack_lanes    NAME(pack_lanes)
#define unpack_lanes  NAME(unpack_lanes)
#define carve         NAME(carve)
#define mask_block    NAME(mask_block)
#define soften        NAME(soften)
#define Forward       NAME(Forward)
#define forward_open  NAME(forward_open)
#define forward_block NAME(forward_block)
#define forward_tile  NAME(forward_tile)
#define forward_close NAME(forward_close)

#define LOG2E ((T)0x1.71547652b82fep+0)
#define LN2   0x1.62e42fefa39efp-1

/* Rows [row0, row0 + rows) of (batch b, kv head h). */
typedef struct Tile {
    const mg_attention_desc *d;
    int64_t b, h, row0, rows;
    int64_t first, last;        /* query of the first and of the last row */
    int64_t query[W], group[W]; /* of a lane; lanes past `rows` repeat the last one */
    VI position[MGK_TILE_VECS]; /* query of a lane, for the mask */
} Tile;

static void tile_open(Tile *t, const mg_attention_desc *d, int64_t b, int64_t h, int64_t tile)
{
    const int64_t all = d->queries * d->group;
    t->d = d;
    t->b = b;
    t->h = h;
    t->row0 = tile * W;
    t->rows = all - t->row0 < W ? all - t->row0 : W;
    int64_t query = t->row0 / d->group, group = t->row0 % d->group;
    for (int64_t i = 0; i < W; i++) {
        t->query[i] = query;
        t->group[i] = group;
        ((Int *)t->position)[i] = (Int)query;
        if (i + 1 < t->rows && ++group == d->group) {
            group = 0;
            query++;
        }
    }
    t->first = t->query[0];
    t->last = t->query[W - 1];
}

/* The first lane that may see key `key`, rounded down to whole panels. */
MGK_INLINE int64_t tile_first(const Tile *t, int64_t key)
{
    int64_t lane = t->d->causal ? key * t->d->group - t->row0 : 0;
    return lane > 0 ? lane / PANEL_LANES * PANEL_LANES : 0;
}

/* to[c][lane] = factor * row(lane)[c] for c < size; zeros in lanes past the tile's rows.
 * `from` is the tensor, its strides those of (batch, query, kv, group). */
static void pack_lanes(const Tile *t, const T *from, const int64_t stride[4], int64_t size,
                       T factor, T *to)
{
    from += t->b * stride[0] + t->h * stride[2];
    for (int64_t lane = 0; lane < W; lane += VL)
        for (int64_t c = 0; c < size; c += VL) {
            V a[VL];
            for (int64_t i = 0; i < VL; i++) {
                int64_t l = lane + i;
                const T *row = from + t->query[l] * stride[1] + t->group[l] * stride[3] + c;
                a[i] = l >= t->rows    ? vall(0)
                       : c + VL > size ? vload_n(row, size - c, 0)
                                       : vload(row);
            }
            vflip(a);
            for (int64_t i = 0; i < VL && c + i < size; i++)
                vstore(to + (c + i) * W + lane, a[i] * factor);
        }
}

/* The inverse, into the tensor: row(lane)[c] = from[c][lane] * factor[lane]. */
static void unpack_lanes(const Tile *t, const T *from, const T *factor, int64_t size, T *to,
                         const int64_t stride[4])
{
    to += t->b * stride[0] + t->h * stride[2];
    for (int64_t lane = 0; lane < t->rows; lane += VL)
        for (int64_t c = 0; c < size; c += VL) {
            V a[VL];
            const V f = vload(factor + lane);
            for (int64_t i = 0; i < VL; i++)
                a[i] = c + i < size ? vload(from + (c + i) * W + lane) * f : vall(0);
            vflip(a);
            for (int64_t i = 0; i < VL && lane + i < t->rows; i++) {
                int64_t l = lane + i;
                T *row = to + t->query[l] * stride[1] + t->group[l] * stride[3] + c;
                if (c + VL > size)
                    vstore_n(row, a[i], size - c);
                else
                    vstore(row, a[i]);
            }
        }
}

/* The next `count` numbers of a scratch block, on a 64-byte boundary. */
MGK_INLINE T *carve(char **scratch, int64_t count)
{
    T *p = (T *)*scratch;
    *scratch += mgk_round_up(count * (int64_t)sizeof(T), 64);
    return p;
}

/* Sets st[t][lane] to `value` where key t0 + t lies after the lane's query. */
static void mask_block(const Tile *t, T *st, int64_t lane0, int64_t t0, int64_t keys, T value)
{
    if (!t->d->causal || t0 + keys - 1 <= t->first)
        return;
    for (int64_t key = 0; key < keys; key++)
        for (int64_t j = lane0 / VL; j < MGK_TILE_VECS; j++) {
            T *s = st + key * W + j * VL;
            VI seen = t->position[j] >= (VI){0} + (Int)(t0 + key);
            vstore(s, vwhere(seen, vload(s), vall(value)));
        }
}

/* A tile of the forward pass: scratch of W lanes each. */
typedef struct Forward {
    Tile tile;
    const T *k, *v;      /* of the tile's batch and kv head */
    T *qt;               /* [head] queries, times scale log2 e */
    T *st;               /* [BLOCK_KEYS] scores, then probabilities */
    T *ot;               /* [vhead] unnormalised output */
    T *top, *sum, *keep; /* running maximum and sum; what a new maximum leaves of the old sums */
} Forward;

static void forward_open(Forward *f, const mgk_attention *x, int64_t unit, int64_t tiles,
                         char *scratch)
{
    const mg_attention_desc *d = x->d;
    int64_t b = unit / tiles / d->kv, h = unit / tiles % d->kv;
    tile_open(&f->tile, d, b, h, unit % tiles);
    f->k = (const T *)x->k + b * d->k[0] + h * d->k[2];
    f->v = (const T *)x->v + b * d->v[0] + h * d->v[2];
    f->qt = carve(&scratch, d->head * W);
    f->st = carve(&scratch, MGK_BLOCK_KEYS * W);
    f->ot = carve(&scratch, d->vhead * W);
    f->top = carve(&scratch, W);
    f->sum = carve(&scratch, W);
    f->keep = carve(&scratch, W);
    pack_lanes(&f->tile, x->q, d->q, d->head, (T)(d->scale * (double)LOG2E), f->qt);
    for (int64_t i = 0; i < W; i++) {
        f->top[i] = -(T)INFINITY;
        f->sum[i] = 0;
    }
}

/* Scores of `keys` keys become their share of the softmax so far. */
static void soften(Forward *f, int64_t lane0, int64_t keys)
{
    for (int64_t lane = lane0; lane < W; lane += VL) {
        T *s = f->st + lane;
        const V old = vload(f->top + lane);
        V top0 = old, top1 = old;
        int64_t t = 0;
        for (; t + 2 <= keys; t += 2) {
            top0 = vmax(vload(s + t * W), top0);
            top1 = vmax(vload(s + (t + 1) * W), top1);
        }
        if (t < keys)
            top0 = vmax(vload(s + t * W), top0);
        const V top = vmax(top0, top1), keep = vexp2(old - top);
        V sum = vload(f->sum + lane) * keep;
        for (t = 0; t < keys; t++) {
            V p = vexp2(vload(s + t * W) - top);
            vstore(s + t * W, p);
            sum += p;
        }
        vstore(f->top + lane, top);
        vstore(f->sum + lane, sum);
        vstore(f->keep + lane, keep);
    }
}

static void forward_block(Forward *f, int64_t t0, int64_t keys)
{
    const mg_attention_desc *d = f->tile.d;
    const int64_t lane0 = tile_first(&f->tile, t0), vecs = (W - lane0) / VL;
    panel_down(&(Panel){.start = MGK_ZERO,
                        .m = keys,
                        .vecs = vecs,
                        .k = d->head,
                        .a = f->k + t0 * d->k[1],
                        .stride = d->k[1],
                        .b = f->qt + lane0,
                        .ldb = W,
                        .c = f->st + lane0,
                        .ldc = W});
    mask_block(&f->tile, f->st, lane0, t0, keys, -(T)INFINITY);
    soften(f, lane0, keys);
    panel_across(&(Panel){.start = t0 ? MGK_SCALE : MGK_ZERO,
                          .m = d->vhead,
                          .vecs = vecs,
                          .k = keys,
                          .a = f->v + t0 * d->v[1],
                          .stride = d->v[1],
                          .b = f->st + lane0,
                          .ldb = W,
                          .c = f->ot + lane0,
                          .ldc = W,
                          .keep = f->keep + lane0});
}

/* Writes o and lse. */
static void forward_close(Forward *f, const mgk_attention *x)
{
    const mg_attention_desc *d = x->d;
    const Tile *t = &f->tile;
    T *lse = (T *)x->lse + t->b * d->lse[0] + t->h * d->lse[2];
    for (int64_t i = 0; i < t->rows; i++)
        lse[t->query[i] * d->lse[1] + t->group[i] * d->lse[3]] =
            (T)((double)f->top[i] * LN2 + log((double)f->sum[i]));
    for (int64_t i = 0; i < W; i++)
        f->keep[i] = 1 / f->sum[i];
    unpack_lanes(t, f->ot, f->keep, d->vhead, x->o, d->o);
}

/* A unit is one tile: (batch, kv head, tile), the last the fastest. */
static void NAME(attention_forward)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const mgk_attention *x = ctx;
    const mg_attention_desc *d = x->d;
    const int64_t tiles = (d->queries * d->group + W - 1) / W;
    Forward f;
    for (int64_t unit = begin; unit < end; unit++) {
        forward_open(&f, x, unit, tiles, scratch);
        int64_t seen = d->causal && f.tile.last + 1 < d->keys ? f.tile.last + 1 : d->keys;
        for (int64_t t0 = 0; t0 < seen; t0 += MGK_BLOCK_KEYS)
            forward_block(&f, t0, seen - t0 < MGK_BLOCK_KEYS ? seen - t0 : MGK_BLOCK_KEYS);
        forward_close(&f, x);
    }
}

#include "kernels/attention_grad_body.h"
