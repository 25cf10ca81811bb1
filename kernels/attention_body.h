/* attention_body.h - the forward pass of attention on one type and vector unit (each_isa.h).
 *
 * A row, a (query, group) pair, is a lane. Scores are stored as st[key][row], so that each maximum,
 * sum and exponential over keys is an operation between vectors, and each product broadcasts
 * elements of keys or values in their memory order (panel.h). Only queries and outputs are
 * transposed.
 *
 * The forward pass is the online softmax of Milakov and Gimelshein (2018) over blocks of keys, as
 * in FlashAttention (Dao et al. 2022). Scores include the factor log2 e, so that 2^x replaces e^x.
 * With a mask, a strip of rows processes only blocks from that of the first key of its first row
 * on, and keys up to the last one of its last row. A row that sees no key gives 0, and NO_LSE as
 * its lse: finite, but below any other.
 *
 * A bias lies by query and key; a block of it is transposed and added to the scores, before the
 * mask. It may hide keys by -1e30: the maximum begins below any such score.
 *
 * With a cap, queries are packed so that scores are 2 log2 e / cap times what they were, which
 * cap_scores turns into cap tanh(score / cap), times log2 e. */

#include "kernels/panel.h"
#include "kernels/strip.h"

#include "kernels/attention_prefetch.h"
#include "kernels/attention_tiles.h"

#define Forward       NAME(Forward)
#define ForwardStrip  NAME(ForwardStrip)
#define forward_open  NAME(forward_open)
#define forward_block NAME(forward_block)
#define forward_close NAME(forward_close)
#define forward_unit  NAME(forward_unit)
#define forward_keys  NAME(forward_keys)
#define forward_sums  NAME(forward_sums)
#define soften        NAME(soften)
#define score_factor  NAME(score_factor)
#define cap_scores    NAME(cap_scores)

#define LOG2E  ((T)0x1.71547652b82fep+0)
#define LN2    0x1.62e42fefa39efp-1
#define NO_LSE ((T) - 1e30)
#define NO_TOP ((T) - 1e38)

typedef struct ForwardStrip {
    Strip s;
    T *qt;        /* [head] of lanes: queries, times scale log2 e */
    T *ot;        /* [vhead] of lanes: output before normalisation */
    T *top, *sum; /* lanes: running maximum of scores, and sum of 2^(score - top) */
    Tiles q;      /* on AMX: qt */
    bool begun;   /* a block of keys was processed */
} ForwardStrip;

typedef struct Forward {
    const mgk_attention *x;
    const mg_attention_desc *d;
    T *k, *v;         /* [BLOCK_KEYS][head], [BLOCK_KEYS][vhead] */
    T *st;            /* [BLOCK_KEYS] of lanes: scores, then probabilities */
    T *keep;          /* lanes: the factor of old sums after a new maximum */
    Tiles tk, tv, tp; /* on AMX: keys; values, transposed; st */
    Prefetch prefetch;
    int64_t strips;
    ForwardStrip strip[MGK_STRIPS];
} Forward;

/* The factor of packed queries. */
MGK_INLINE T score_factor(const mg_attention_desc *d)
{
    const double scale = d->cap > 0 ? 2 * d->scale / d->cap : d->scale;
    return (T)(scale * (double)LOG2E);
}

/* Scores of `keys` keys, as the products leave them, to those of which 2^x is taken. */
static void cap_scores(const mg_attention_desc *d, int64_t keys, T *st)
{
    const T top = (T)(d->cap * (double)LOG2E);
    for (int64_t i = 0; i < (d->cap > 0 ? keys * LANES : 0); i += VL)
        vstore(st + i, vtanh2(vload(st + i)) * top);
}

/* Lays out the scratch, and opens the strips of the tile that begins at row0. */
static void forward_open(Forward *f, const mgk_attention *x, int64_t b, int64_t h, int64_t row0,
                         char *scratch)
{
    const mg_attention_desc *d = x->d;
    f->x = x;
    f->d = d;
    f->k = carve(&scratch, MGK_BLOCK_KEYS * d->head);
    f->v = carve(&scratch, MGK_BLOCK_KEYS * d->vhead);
    f->st = carve(&scratch, MGK_BLOCK_KEYS * LANES);
    f->keep = carve(&scratch, LANES);
    f->tk = tiles_carve(&scratch, MGK_BLOCK_KEYS, d->head, false);
    f->tv = tiles_carve(&scratch, d->vhead, MGK_BLOCK_KEYS, false);
    f->tp = tiles_carve(&scratch, LANES, MGK_BLOCK_KEYS, true);
    f->strips = 0;
    for (; f->strips < MGK_STRIPS && row0 < d->queries * d->group; row0 += LANES) {
        ForwardStrip *p = &f->strip[f->strips++];
        strip_open(&p->s, x, b, h, row0);
        p->qt = carve(&scratch, d->head * LANES);
        p->ot = carve(&scratch, mgk_round_up(d->vhead, VL) * LANES);
        p->q = tiles_carve(&scratch, LANES, d->head, true);
        p->top = carve(&scratch, LANES);
        p->sum = carve(&scratch, LANES);
        p->begun = false;
        if (strip_sees(&p->s, 0, d->keys)) {
            pack_lanes(&p->s, x->q, d->q, d->head, score_factor(d), p->qt);
            tiles_terms(p->qt, d->head, &p->q);
        }
        for (int64_t i = 0; i < LANES; i++) { /* finite: all keys of a block may be hidden */
            p->top[i] = NO_TOP;
            p->sum[i] = 0;
        }
    }
}

/* Turns the scores of `keys` keys into unnormalised probabilities, and updates maximum and sum. */
static void soften(Forward *f, ForwardStrip *p, int64_t keys)
{
    for (int64_t lane = 0; lane < LANES; lane += VL) {
        T *s = f->st + lane;
        const V old = vload(p->top + lane);
        V top0 = old, top1 = old;
        int64_t t = 0;
        for (; t + 2 <= keys; t += 2) {
            top0 = vmax(vload(s + t * LANES), top0);
            top1 = vmax(vload(s + (t + 1) * LANES), top1);
        }
        if (t < keys)
            top0 = vmax(vload(s + t * LANES), top0);
        const V top = vmax(top0, top1), keep = vexp2(old - top);
        V sum = vload(p->sum + lane) * keep;
        for (t = 0; t < keys; t++) {
            V e = vexp2(vload(s + t * LANES) - top);
            vstore(s + t * LANES, e);
            sum += e;
        }
        vstore(p->top + lane, top);
        vstore(p->sum + lane, sum);
        vstore(f->keep + lane, keep);
    }
}

/* ot = ot * keep + P v. */
static void forward_sums(Forward *f, ForwardStrip *p, int64_t keys)
{
    const mg_attention_desc *d = f->d;
    if (!TILED) {
        panel_across(&(Panel){.start = p->begun ? MGK_SCALE : MGK_ZERO,
                              .m = d->vhead,
                              .vecs = MGK_STRIP_VECS,
                              .k = keys,
                              .a = f->v,
                              .stride = d->vhead,
                              .b = f->st,
                              .ldb = LANES,
                              .c = p->ot,
                              .ldc = LANES,
                              .keep = f->keep});
        return;
    }
    for (int64_t c = 0; c < (p->begun ? d->vhead * LANES : 0); c += VL)
        vstore(p->ot + c, vload(p->ot + c) * vload(f->keep + c % LANES));
    tiles_terms(f->st, keys, &f->tp);
    tiles_product(d->vhead, LANES, 0, keys, &f->tv, &f->tp, p->ot, LANES, p->begun);
}

static void forward_block(Forward *f, ForwardStrip *p, int64_t t0, int64_t keys)
{
    const mg_attention_desc *d = f->d;
    if (TILED)
        tiles_product(keys, LANES, 0, d->head, &f->tk, &p->q, f->st, LANES, false);
    else
        panel_down(&(Panel){.start = MGK_ZERO,
                            .m = keys,
                            .vecs = MGK_STRIP_VECS,
                            .k = d->head,
                            .a = f->k,
                            .stride = d->head,
                            .b = p->qt,
                            .ldb = LANES,
                            .c = f->st,
                            .ldc = LANES});
    prefetch_some(&f->prefetch);
    cap_scores(d, keys, f->st);
    strip_bias(&p->s, f->x, t0, keys, LOG2E, f->st);
    strip_mask(&p->s, t0, keys, f->st);
    soften(f, p, keys);
    prefetch_some(&f->prefetch);
    forward_sums(f, p, keys);
    p->begun = true;
}

/* Copies or packs a block of keys and values for the products. */
static void forward_keys(Forward *f, const E *k, const E *v, int64_t keys)
{
    const mg_attention_desc *d = f->d;
    if (TILED) {
        tiles_pack(k, d->k[1], true, keys, d->head, &f->tk);
        tiles_pack(v, d->v[1], false, d->vhead, keys, &f->tv);
        return;
    }
    copy_block(f->k, k, d->k[1], keys, d->head);
    copy_block(f->v, v, d->v[1], keys, d->vhead);
}

/* Writes o and lse. */
static void forward_close(Forward *f, const ForwardStrip *p, const mgk_attention *x)
{
    if (!p->begun)
        memset(p->ot, 0, (size_t)(f->d->vhead * LANES) * sizeof(T));
    for (int64_t i = 0; i < p->s.rows; i++)
        ((T *)x->lse)[strip_row(&p->s, i, f->d->lse)] =
            strip_none(&p->s, i) ? NO_LSE : (T)((double)p->top[i] * LN2 + log((double)p->sum[i]));
    for (int64_t i = 0; i < LANES; i++)
        f->keep[i] = strip_none(&p->s, i) ? 0 : 1 / p->sum[i];
    unpack_lanes(&p->s, p->ot, f->keep, f->d->vhead, x->o, f->d->o);
}

/* Computes the tile at `place`, and prefetches what the tile at `next` reads first. */
static void forward_unit(const mgk_attention *x, mgk_place place, const mgk_place *next,
                         char *scratch)
{
    const int64_t b = place.b, h = place.h;
    const mg_attention_desc *d = x->d;
    const E *k = (const E *)x->k + b * d->k[0] + h * d->k[2];
    const E *v = (const E *)x->v + b * d->v[0] + h * d->v[2];
    Forward f;
    forward_open(&f, x, b, h, place.row, scratch);
    const int64_t seen = strip_keys(&f.strip[f.strips - 1].s, 0, d->keys);
    const int64_t begin = strip_begin(&f.strip[0].s, 0);
    const int64_t blocks = seen > begin ? (seen - begin + MGK_BLOCK_KEYS - 1) / MGK_BLOCK_KEYS : 0;
    prefetch_tile(&f.prefetch, x, next, 2 * f.strips * blocks);
    for (int64_t t0 = begin; t0 < seen; t0 += MGK_BLOCK_KEYS) {
        const int64_t block = seen - t0 < MGK_BLOCK_KEYS ? seen - t0 : MGK_BLOCK_KEYS;
        forward_keys(&f, k + t0 * d->k[1], v + t0 * d->v[1], block);
        prefetch_block(&f.prefetch, x, place, t0 + MGK_BLOCK_KEYS, seen, next, 2 * f.strips);
        for (int64_t i = 0; i < f.strips; i++)
            if (strip_sees(&f.strip[i].s, t0, block))
                forward_block(&f, &f.strip[i], t0, strip_keys(&f.strip[i].s, t0, block));
    }
    for (int64_t i = 0; i < f.strips; i++)
        forward_close(&f, &f.strip[i], x);
}

/* A unit is one tile of MGK_STRIPS strips: (batch, kv head, tile), the last index the fastest. */
static void NAME(attention_forward)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const mgk_attention *x = ctx;
    const mg_attention_desc *d = x->d;
    const int64_t rows = MGK_STRIPS * LANES, tiles = (d->queries * d->group + rows - 1) / rows;
    if (TILED)
        mgk_amx_begin();
    for (int64_t u = begin; u < end; u++) {
        mgk_place at[2];
        for (int64_t i = 0; i < 2; i++)
            at[i] = (mgk_place){(u + i) / tiles / d->kv, (u + i) / tiles % d->kv,
                                (u + i) % tiles * rows};
        forward_unit(x, at[0], u + 1 < end ? &at[1] : NULL, scratch);
    }
    if (TILED)
        mgk_amx_end();
}

#include "kernels/attention_few_body.h"
#include "kernels/attention_grad_body.h"
