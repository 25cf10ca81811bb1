/* attention_grad_body.h - the backward pass of attention; continues attention_body.h and uses its
 * strips.
 *
 * With P the probabilities, D[row] = sum over c of dout[row, c] o[row, c]:
 *   dS = P (dout v^T - D);  dq = scale dS k;  dk = scale dS^T q;  dv = P^T dout
 * P is recomputed from lse. With a cap dS has the factor 1 - tanh^2 too. The gradient of a bias is
 * dS without that factor (attention_bias_body.h).
 *
 * A sweep visits strips of rows and, for each, blocks of keys, in order. One sweep over a whole
 * (batch, kv head) gives all three gradients with five products. If threads outnumber the (batch,
 * kv head) pairs, each pair is cut into parts: one sweep for dq of a part of the rows, one for dk
 * and dv of a part of the keys, with seven products. Each sum has the same order in both cases, so
 * the bits depend neither on the number of threads nor on the cut. */

#define Backward        NAME(Backward)
#define BackwardStrip   NAME(BackwardStrip)
#define backward_open   NAME(backward_open)
#define backward_strip  NAME(backward_strip)
#define backward_tile   NAME(backward_tile)
#define backward_probs  NAME(backward_probs)
#define backward_slopes NAME(backward_slopes)
#define backward_block  NAME(backward_block)
#define backward_sweep  NAME(backward_sweep)
#define backward_unit   NAME(backward_unit)
#define part_begin      NAME(part_begin)
#define row_dots        NAME(row_dots)
#define put_rows        NAME(put_rows)
#define no_gradient     NAME(no_gradient)
#define backward_keys   NAME(backward_keys)
#define backward_q      NAME(backward_q)
#define backward_kv     NAME(backward_kv)
#define backward_scores NAME(backward_scores)
#define backward_all_kv NAME(backward_all_kv)
#define backward_bias   NAME(backward_bias)

typedef struct BackwardStrip {
    Strip s;
    T *qt, *doutt; /* [head], [vhead] of lanes: queries times scale log2 e; dout */
    T *qr, *doutr; /* [lane][wide], [lane][vwide]: q and dout as rows, without a factor, zeros past
                    * head */
    T *dqt;        /* [head] of lanes */
    T *lse, *dot;  /* lanes: lse log2 e; D */
    Tiles tq, tdo; /* on AMX: qt and doutt */
    bool begun;    /* a block of keys was processed */
} BackwardStrip;

typedef struct Backward {
    const mgk_attention *x;
    const mg_attention_desc *d;
    int64_t b, h, wide, vwide; /* head and vhead rounded up to whole vectors */
    bool want_q, want_kv;      /* want dq; want dk and dv */
    bool want_bias;            /* want that of the bias, and no other */
    int64_t end;               /* rows from here on are of another sweep */
    int64_t key0, keys;        /* keys of the sweep: whole blocks, but the last may be shorter */
    T *k, *v;                  /* [BLOCK_KEYS][head], [BLOCK_KEYS][vhead] */
    T *st, *ds;                /* [BLOCK_KEYS] of lanes: scores, then P; dP, then dS */
    T *slope;                  /* [BLOCK_KEYS] of lanes: with a cap, its slope */
    T *dk, *dv;                /* [keys][wide], [keys][vwide]: sums over the rows so far */
    T *factor;                 /* lanes: the scale */
    Tiles tk, tkt, tv;         /* on AMX: keys, transposed keys, values */
    Tiles tds;                 /* dS of a strip */
    Tiles tpt, tdst, tqr, tdr; /* of the tile's strips: P and dS, transposed; qr and doutr */
    const mgk_place *next;     /* NULL, or the first rows of the next sweep */
    Prefetch prefetch;
    BackwardStrip strip[MGK_STRIPS];
} Backward;

/* Lays out the scratch; the fields that define the sweep are set. */
static void backward_open(Backward *w, char *scratch)
{
    const mg_attention_desc *d = w->d;
    w->wide = mgk_round_up(d->head, VL);
    w->vwide = mgk_round_up(d->vhead, VL);
    w->k = carve(&scratch, MGK_BLOCK_KEYS * d->head);
    w->v = carve(&scratch, MGK_BLOCK_KEYS * d->vhead);
    w->st = carve(&scratch, MGK_BLOCK_KEYS * LANES);
    w->ds = carve(&scratch, MGK_BLOCK_KEYS * LANES);
    w->slope = carve(&scratch, MGK_BLOCK_KEYS * LANES);
    w->factor = carve(&scratch, LANES);
    for (int i = 0; i < MGK_STRIPS; i++) {
        BackwardStrip *p = &w->strip[i];
        p->qt = carve(&scratch, d->head * LANES);
        p->doutt = carve(&scratch, d->vhead * LANES);
        p->qr = carve(&scratch, w->wide * LANES);
        p->doutr = carve(&scratch, w->vwide * LANES);
        p->dqt = carve(&scratch, mgk_round_up(d->head, VL) * LANES);
        p->tq = tiles_carve(&scratch, LANES, d->head, true);
        p->tdo = tiles_carve(&scratch, LANES, d->vhead, true);
        p->lse = carve(&scratch, LANES);
        p->dot = carve(&scratch, LANES);
    }
    w->tk = tiles_carve(&scratch, MGK_BLOCK_KEYS, d->head, false);
    w->tkt = tiles_carve(&scratch, d->head, MGK_BLOCK_KEYS, false);
    w->tv = tiles_carve(&scratch, MGK_BLOCK_KEYS, d->vhead, false);
    w->tds = tiles_carve(&scratch, LANES, MGK_BLOCK_KEYS, true);
    w->tpt = tiles_carve(&scratch, MGK_BLOCK_KEYS, MGK_STRIPS * LANES, true);
    w->tdst = tiles_carve(&scratch, MGK_BLOCK_KEYS, MGK_STRIPS * LANES, true);
    w->tqr = tiles_carve(&scratch, d->head, MGK_STRIPS * LANES, true);
    w->tdr = tiles_carve(&scratch, d->vhead, MGK_STRIPS * LANES, true);
    w->dk = carve(&scratch, mgk_round_up(w->keys, VL) * w->wide);
    w->dv = carve(&scratch, mgk_round_up(w->keys, VL) * w->vwide);
    if (w->want_kv) {
        memset(w->dk, 0, (size_t)(mgk_round_up(w->keys, VL) * w->wide) * sizeof(T));
        memset(w->dv, 0, (size_t)(mgk_round_up(w->keys, VL) * w->vwide) * sizeof(T));
    }
    for (int64_t i = 0; i < LANES; i++)
        w->factor[i] = (T)d->scale;
}

/* Computes D and lse. Both are zero in lanes past the strip's rows, where dout is zero too. */
static void row_dots(Backward *w, BackwardStrip *p)
{
    const mg_attention_desc *d = w->d;
    for (int64_t i = 0; i < LANES; i++) {
        p->lse[i] = p->dot[i] = 0;
        if (i >= p->s.rows)
            continue;
        const E *o = (const E *)w->x->o + strip_row(&p->s, i, d->o);
        const T *dout = p->doutr + i * w->vwide;
        V sum = vall(0);
        int64_t c = 0;
        for (; c + VL <= d->vhead; c += VL)
            sum += eload(o + c) * vload(dout + c);
        if (c < d->vhead)
            sum += eload_n(o + c, d->vhead - c, 0) * vload(dout + c);
        p->dot[i] = (T)vsum(sum);
        p->lse[i] = ((const T *)w->x->lse)[strip_row(&p->s, i, d->lse)] * LOG2E;
    }
}

static void backward_strip(Backward *w, BackwardStrip *p, int64_t row0)
{
    const mg_attention_desc *d = w->d;
    strip_open(&p->s, w->x, w->b, w->h, row0);
    pack_lanes(&p->s, w->x->q, d->q, d->head, score_factor(d), p->qt);
    pack_lanes(&p->s, w->x->dout, d->o, d->vhead, 1, p->doutt);
    pack_rows(&p->s, w->x->q, d->q, d->head, w->wide, p->qr);
    pack_rows(&p->s, w->x->dout, d->o, d->vhead, w->vwide, p->doutr);
    row_dots(w, p);
    if (!TILED)
        return;
    tiles_terms(p->qt, d->head, &p->tq);
    tiles_terms(p->doutt, d->vhead, &p->tdo);
    if (w->want_kv) {
        tiles_rows(p->qr, w->wide, &w->tqr, p - w->strip);
        tiles_rows(p->doutr, w->vwide, &w->tdr, p - w->strip);
    }
}

/* The slopes of a cap, by the capped scores. */
static void backward_slopes(Backward *w, int64_t keys)
{
    const T capped = w->d->cap > 0 ? (T)(1 / (w->d->cap * (double)LOG2E)) : 0;
    for (int64_t i = 0; i < (w->d->cap > 0 ? keys * LANES : 0); i += VL) {
        const V t = vload(w->st + i) * capped;
        vstore(w->slope + i, 1 - t * t);
    }
}

/* st: scores to probabilities; ds: dP to dS. No probability is above 1: this keeps those finite
 * whose scores and lse are so far below 0 that their difference is rounding. */
static void backward_probs(Backward *w, const BackwardStrip *p, int64_t keys)
{
    const bool bends = w->d->cap > 0 && !w->want_bias, biased = w->x->bias != NULL;
    for (int64_t lane = 0; lane < LANES; lane += VL) {
        const V lse = vload(p->lse + lane), dot = vload(p->dot + lane);
        T *st = w->st + lane, *ds = w->ds + lane, *slope = w->slope + lane;
        for (int64_t t = 0; t < keys * LANES; t += LANES) {
            const V s = vload(st + t) - lse;
            const V e = vexp2(biased ? -vmax(-s, vall(0)) : s);
            const V of = e * (vload(ds + t) - dot);
            vstore(st + t, e);
            vstore(ds + t, bends ? of * vload(slope + t) : of);
        }
    }
}

/* Copies or packs a block of keys and values for the products. */
static void backward_keys(Backward *w, const E *k, const E *v, int64_t keys)
{
    const mg_attention_desc *d = w->d;
    if (!TILED) {
        copy_block(w->k, k, d->k[1], keys, d->head);
        copy_block(w->v, v, d->v[1], keys, d->vhead);
        return;
    }
    tiles_pack(k, d->k[1], true, keys, d->head, &w->tk);
    tiles_pack(v, d->v[1], true, keys, d->vhead, &w->tv);
    if (w->want_q)
        tiles_pack(k, d->k[1], false, d->head, keys, &w->tkt);
}

/* S^T = k q^T and dP^T = v dout^T. */
static void backward_scores(Backward *w, BackwardStrip *p, int64_t keys)
{
    const mg_attention_desc *d = w->d;
    if (TILED) {
        tiles_product(keys, LANES, 0, d->head, &w->tk, &p->tq, w->st, LANES, false);
        prefetch_some(&w->prefetch);
        tiles_product(keys, LANES, 0, d->vhead, &w->tv, &p->tdo, w->ds, LANES, false);
        return;
    }
    Panel y = {.start = MGK_ZERO, .m = keys, .vecs = MGK_STRIP_VECS, .ldb = LANES, .ldc = LANES};
    y.k = y.stride = d->head, y.a = w->k, y.b = p->qt, y.c = w->st;
    panel_down(&y);
    prefetch_some(&w->prefetch);
    y.k = y.stride = d->vhead, y.a = w->v, y.b = p->doutt, y.c = w->ds;
    panel_down(&y);
}

/* dq^T += k^T dS^T */
static void backward_q(Backward *w, BackwardStrip *p, int64_t keys)
{
    const int64_t head = w->d->head;
    if (TILED) {
        tiles_terms(w->ds, keys, &w->tds);
        tiles_product(head, LANES, 0, keys, &w->tkt, &w->tds, p->dqt, LANES, p->begun);
        return;
    }
    panel_across(&(Panel){.start = p->begun ? MGK_ADD : MGK_ZERO,
                          .m = head,
                          .vecs = MGK_STRIP_VECS,
                          .k = keys,
                          .a = w->k,
                          .stride = head,
                          .b = w->ds,
                          .ldb = LANES,
                          .c = p->dqt,
                          .ldc = LANES});
}

/* dk += dS^T q and dv += P^T dout for one strip, with vectors. */
static void backward_kv(Backward *w, BackwardStrip *p, int64_t t0, int64_t keys)
{
    Panel y = {.start = MGK_ADD, .m = keys, .k = p->s.rows, .stride = LANES};
    y.a = w->ds, y.b = p->qr, y.c = w->dk + (t0 - w->key0) * w->wide;
    y.ldb = y.ldc = w->wide, y.vecs = w->wide / VL;
    panel_down(&y);
    prefetch_some(&w->prefetch);
    y.a = w->st, y.b = p->doutr, y.c = w->dv + (t0 - w->key0) * w->vwide;
    y.ldb = y.ldc = w->vwide, y.vecs = w->vwide / VL;
    panel_down(&y);
}

/* The same with tiles, for the strips [first, strips), which see at most `seen` keys of the
 * block. */
static void backward_all_kv(Backward *w, int first, int strips, int64_t t0, int64_t seen)
{
    const int64_t lanes = (strips - first) * LANES, at = t0 - w->key0;
    tiles_product(seen, w->wide, first, lanes, &w->tdst, &w->tqr, w->dk + at * w->wide, w->wide,
                  true);
    prefetch_some(&w->prefetch);
    tiles_product(seen, w->vwide, first, lanes, &w->tpt, &w->tdr, w->dv + at * w->vwide, w->vwide,
                  true);
}

/* Adds dS of a strip to the gradient of the bias. Lanes that share an element come one after
 * another. */
static void backward_bias(Backward *w, BackwardStrip *p, int64_t t0, int64_t keys)
{
    const int64_t *stride = w->d->dbias;
    const int64_t left = w->end - (p->s.query[0] * w->d->group + p->s.g[0]);
    const int64_t rows = left < p->s.rows ? left : p->s.rows;
    for (int64_t lane = 0; lane < rows; lane += VL) {
        const T *ds = w->ds + lane;
        V a[VL] = {vall(0)};
        for (int64_t t = 0; stride[4] == 0 && t < keys; t++)
            a[0] += vload(ds + t * LANES);
        for (int64_t i = 0; stride[4] == 0 && i < VL && lane + i < rows; i++)
            ((T *)w->x->dbias)[strip_row(&p->s, lane + i, stride)] += ((const T *)a)[i];
        for (int64_t t = 0; stride[4] != 0 && t < keys; t += VL) {
            for (int64_t i = 0; i < VL; i++)
                a[i] = t + i < keys ? vload(ds + (t + i) * LANES) : vall(0);
            vflip(a);
            for (int64_t i = 0; i < VL && lane + i < rows; i++) {
                T *to = (T *)w->x->dbias + strip_row(&p->s, lane + i, stride) + t0 + t;
                if (t + VL > keys)
                    vstore_n(to, vload_n(to, keys - t, 0) + a[i], keys - t);
                else
                    vstore(to, vload(to) + a[i]);
            }
        }
    }
}

/* Processes a strip with a block of keys; the strip sees `keys` of them at most, and the last strip
 * of the tile `seen`. */
static void backward_block(Backward *w, BackwardStrip *p, int64_t t0, int64_t keys, int64_t seen)
{
    backward_scores(w, p, keys);
    prefetch_some(&w->prefetch);
    cap_scores(w->d, keys, w->st);
    backward_slopes(w, keys);
    strip_bias(&p->s, w->x, t0, keys, LOG2E, w->st);
    strip_mask(&p->s, t0, keys, w->st);
    backward_probs(w, p, keys);
    if (w->want_bias)
        backward_bias(w, p, t0, keys);
    if (w->want_q) {
        backward_q(w, p, keys);
        prefetch_some(&w->prefetch);
    }
    p->begun = true;
    if (w->want_kv && !TILED)
        backward_kv(w, p, t0, keys);
    if (w->want_kv && TILED) {
        tiles_keys(w->ds, keys, mgk_round_up(seen, VL), &w->tdst, p - w->strip);
        tiles_keys(w->st, keys, mgk_round_up(seen, VL), &w->tpt, p - w->strip);
    }
}

/* Zeroes the dq of a strip. */
static void no_gradient(BackwardStrip *p, int64_t head)
{
    memset(p->dqt, 0, (size_t)(head * LANES) * sizeof(T));
}

/* Processes the sweep's keys for the strips of rows [row0, row1), at most a tile; writes their
 * dq. */
static void backward_tile(Backward *w, int64_t row0, int64_t row1, const mgk_place *next)
{
    const mg_attention_desc *d = w->d;
    const E *k = (const E *)w->x->k + w->b * d->k[0] + w->h * d->k[2];
    const E *v = (const E *)w->x->v + w->b * d->v[0] + w->h * d->v[2];
    const int64_t last = mgk_last_key(w->x, w->b, (row1 - 1) / d->group);
    const int64_t low = mgk_first_key(w->x, w->b, row0 / d->group);
    const bool none = last < w->key0 || low >= w->key0 + w->keys;
    if (none && !w->want_q)
        return;
    int strips = 0;
    for (; row0 < row1; row0 += LANES) {
        BackwardStrip *p = &w->strip[strips++];
        p->begun = false;
        if (none)
            strip_open(&p->s, w->x, w->b, w->h, row0);
        else
            backward_strip(w, p, row0);
    }
    const int64_t end = w->key0 + strip_keys(&w->strip[strips - 1].s, w->key0, w->keys);
    const int64_t begin = strip_begin(&w->strip[0].s, w->key0);
    const int64_t blocks = end > begin ? (end - begin + MGK_BLOCK_KEYS - 1) / MGK_BLOCK_KEYS : 0;
    const int64_t times = strips * (2 + w->want_q + w->want_kv);
    prefetch_tile(&w->prefetch, w->x, next, times * blocks);
    for (int64_t t0 = begin; t0 < end; t0 += MGK_BLOCK_KEYS) {
        const int64_t block = end - t0 < MGK_BLOCK_KEYS ? end - t0 : MGK_BLOCK_KEYS;
        const int64_t seen = strip_keys(&w->strip[strips - 1].s, t0, block);
        int first = strips, past = 0; /* strips that see keys of the block, one after another */
        backward_keys(w, k + t0 * d->k[1], v + t0 * d->v[1], block);
        prefetch_block(&w->prefetch, w->x, (mgk_place){w->b, w->h, 0}, t0 + MGK_BLOCK_KEYS, end,
                       next, times);
        for (int i = 0; i < strips; i++) {
            if (!strip_sees(&w->strip[i].s, t0, block))
                continue;
            first = first < i ? first : i;
            past = i + 1;
            backward_block(w, &w->strip[i], t0, strip_keys(&w->strip[i].s, t0, block), seen);
        }
        if (TILED && w->want_kv && first < past)
            backward_all_kv(w, first, past, t0, seen);
    }
    for (int i = 0; i < strips && w->want_q; i++)
        if (!w->strip[i].begun)
            no_gradient(&w->strip[i], d->head);
    for (int i = 0; i < strips && w->want_q; i++)
        unpack_lanes(&w->strip[i].s, w->strip[i].dqt, w->factor, d->head, w->x->dq, d->dq);
}

/* Rows of `to`, at stride `stride`, = factor times rows of `from`, at stride `wide`. */
static void put_rows(const T *from, int64_t wide, int64_t rows, int64_t size, T factor, E *to,
                     int64_t stride)
{
    for (int64_t i = 0; i < rows; i++, from += wide, to += stride) {
        int64_t c = 0;
        for (; c + VL <= size; c += VL)
            estore(to + c, vload(from + c) * factor);
        if (c < size)
            estore_n(to + c, vload_n(from + c, size - c, 0) * factor, size - c);
    }
}

/* Processes rows [row, end) with the sweep's keys; writes the wanted gradients. */
static void backward_sweep(Backward w, int64_t row, int64_t end, char *scratch)
{
    const mg_attention_desc *d = w.d;
    backward_open(&w, scratch);
    w.end = end;
    for (const int64_t tile = MGK_STRIPS * LANES; row < end; row += tile) {
        const mgk_place after = {w.b, w.h, row + tile};
        backward_tile(&w, row, end - row < tile ? end : row + tile,
                      row + tile < end ? &after : w.next);
    }
    if (!w.want_kv)
        return;
    put_rows(w.dk, w.wide, w.keys, d->head, (T)d->scale,
             (E *)w.x->dk + w.b * d->dk[0] + w.h * d->dk[2] + w.key0 * d->dk[1], d->dk[1]);
    put_rows(w.dv, w.vwide, w.keys, d->vhead, 1,
             (E *)w.x->dv + w.b * d->dv[0] + w.h * d->dv[2] + w.key0 * d->dv[1], d->dv[1]);
}

/* The begin of part `part` of `parts`, a multiple of `step`. */
static int64_t part_begin(int64_t part, int64_t parts, int64_t size, int64_t step)
{
    const int64_t steps = (size + step - 1) / step, begin = steps * part / parts * step;
    return begin < size ? begin : size;
}

/* With a causal mask, later parts of the rows have more work, and later parts of the keys less. A
 * unit takes both parts of one number, so units have similar work. */
static void backward_unit(const mgk_attention *x, int64_t b, int64_t h, int64_t part,
                          const mgk_place *next, char *scratch)
{
    const mg_attention_desc *d = x->d;
    const int64_t rows = d->queries * d->group, tile = MGK_STRIPS * LANES, parts = x->parts;
    Backward w = {.x = x, .d = d, .b = b, .h = h, .want_q = true, .keys = d->keys};
    if (parts == 1) {
        w.want_kv = true;
        w.next = next;
        backward_sweep(w, 0, rows, scratch);
        return;
    }
    backward_sweep(w, part_begin(part, parts, rows, tile), part_begin(part + 1, parts, rows, tile),
                   scratch);
    w.want_q = false;
    w.want_kv = true;
    w.key0 = part_begin(part, parts, d->keys, MGK_BLOCK_KEYS);
    w.keys = part_begin(part + 1, parts, d->keys, MGK_BLOCK_KEYS) - w.key0;
    if (w.keys > 0)
        backward_sweep(w, 0, rows, scratch);
}

/* A unit is one part of one (batch, kv head), the last index the fastest. */
static void NAME(attention_backward)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const mgk_attention *x = ctx;
    const int64_t kv = x->d->kv;
    if (TILED)
        mgk_amx_begin();
    for (int64_t u = begin; u < end; u++) {
        const int64_t n = (u + 1) / x->parts;
        const mgk_place next = {n / kv, n % kv, 0};
        backward_unit(x, u / x->parts / kv, u / x->parts % kv, u % x->parts,
                      u + 1 < end ? &next : NULL, scratch);
    }
    if (TILED)
        mgk_amx_end();
}

#include "kernels/attention_bias_body.h"
