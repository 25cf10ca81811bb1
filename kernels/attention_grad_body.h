/* attention_grad_body.h - the backward pass; continues attention_body.h, on its tiles.
 *
 * With P the probabilities, D[row] = sum over c of dout[row, c] o[row, c]:
 *   dS = P (dout v^T - D);  dq = scale dS k;  dk = scale dS^T q;  dv = P^T dout
 * One unit is a whole (batch, kv head): its tiles and blocks are walked in order and every sum has
 * one owner, so the bits do not depend on the number of threads. */

#define Backward       NAME(Backward)
#define backward_open  NAME(backward_open)
#define backward_tile  NAME(backward_tile)
#define backward_probs NAME(backward_probs)
#define backward_block NAME(backward_block)
#define backward_close NAME(backward_close)
#define pack_rows      NAME(pack_rows)
#define put_rows       NAME(put_rows)
#define row_dots       NAME(row_dots)

typedef struct Backward {
    Tile tile;
    const T *k, *v;
    int64_t wide, vwide;   /* head and vhead rounded up to whole vectors */
    T *qt, *doutt;         /* [head], [vhead] of W lanes: queries times scale log2 e; dout */
    T *qr, *doutr;         /* [W][wide], [W][vwide]: rows, zeros past head */
    T *st, *ds;            /* [BLOCK_KEYS] of W lanes: scores, then probabilities; dP, then dS */
    T *dqt;                /* [head] of W lanes */
    T *dk, *dv;            /* [keys][wide], [keys][vwide]: sums over all tiles */
    T *lse, *dot, *factor; /* W lanes each: lse log2 e; D; the scale */
} Backward;

static void backward_open(Backward *w, const mgk_attention *x, int64_t unit, char *scratch)
{
    const mg_attention_desc *d = x->d;
    int64_t b = unit / d->kv, h = unit % d->kv;
    w->k = (const T *)x->k + b * d->k[0] + h * d->k[2];
    w->v = (const T *)x->v + b * d->v[0] + h * d->v[2];
    w->wide = mgk_round_up(d->head, VL);
    w->vwide = mgk_round_up(d->vhead, VL);
    w->qt = carve(&scratch, d->head * W);
    w->doutt = carve(&scratch, d->vhead * W);
    w->qr = carve(&scratch, w->wide * W);
    w->doutr = carve(&scratch, w->vwide * W);
    w->st = carve(&scratch, MGK_BLOCK_KEYS * W);
    w->ds = carve(&scratch, MGK_BLOCK_KEYS * W);
    w->dqt = carve(&scratch, d->head * W);
    w->lse = carve(&scratch, W);
    w->dot = carve(&scratch, W);
    w->factor = carve(&scratch, W);
    w->dk = carve(&scratch, d->keys * w->wide);
    w->dv = carve(&scratch, d->keys * w->vwide);
    memset(w->dk, 0, (size_t)(d->keys * w->wide) * sizeof(T));
    memset(w->dv, 0, (size_t)(d->keys * w->vwide) * sizeof(T));
    for (int64_t i = 0; i < W; i++)
        w->factor[i] = (T)d->scale;
}

/* to[lane][c] = row(lane)[c] for c < size, zeros up to `wide` and in lanes past the tile's rows. */
static void pack_rows(const Tile *t, const T *from, const int64_t stride[4], int64_t size,
                      int64_t wide, T *to)
{
    from += t->b * stride[0] + t->h * stride[2];
    for (int64_t i = 0; i < W; i++, to += wide) {
        if (i >= t->rows) {
            memset(to, 0, (size_t)wide * sizeof(T));
            continue;
        }
        memcpy(to, from + t->query[i] * stride[1] + t->group[i] * stride[3],
               (size_t)size * sizeof(T));
        memset(to + size, 0, (size_t)(wide - size) * sizeof(T));
    }
}

/* The tile's D and lse; both zero in lanes past its rows, where dout is zero too. */
static void row_dots(Backward *w, const mgk_attention *x)
{
    const mg_attention_desc *d = x->d;
    const Tile *t = &w->tile;
    const T *o = (const T *)x->o + t->b * d->o[0] + t->h * d->o[2];
    const T *lse = (const T *)x->lse + t->b * d->lse[0] + t->h * d->lse[2];
    for (int64_t i = 0; i < W; i++) {
        w->lse[i] = w->dot[i] = 0;
        if (i >= t->rows)
            continue;
        const T *row = o + t->query[i] * d->o[1] + t->group[i] * d->o[3];
        const T *dout = w->doutr + i * w->vwide;
        V sum = vall(0);
        int64_t c = 0;
        for (; c + VL <= d->vhead; c += VL)
            sum += vload(row + c) * vload(dout + c);
        if (c < d->vhead)
            sum += vload_n(row + c, d->vhead - c, 0) * vload(dout + c);
        w->dot[i] = (T)vsum(sum);
        w->lse[i] = lse[t->query[i] * d->lse[1] + t->group[i] * d->lse[3]] * LOG2E;
    }
}

static void backward_tile(Backward *w, const mgk_attention *x, int64_t unit, int64_t tile)
{
    const mg_attention_desc *d = x->d;
    tile_open(&w->tile, d, unit / d->kv, unit % d->kv, tile);
    pack_lanes(&w->tile, x->q, d->q, d->head, (T)(d->scale * (double)LOG2E), w->qt);
    pack_lanes(&w->tile, x->dout, d->o, d->vhead, 1, w->doutt);
    pack_rows(&w->tile, x->q, d->q, d->head, w->wide, w->qr);
    pack_rows(&w->tile, x->dout, d->o, d->vhead, w->vwide, w->doutr);
    row_dots(w, x);
}

/* st: scores to probabilities; ds: dP to dS. */
static void backward_probs(Backward *w, int64_t lane0, int64_t keys)
{
    for (int64_t lane = lane0; lane < W; lane += VL) {
        const V lse = vload(w->lse + lane), dot = vload(w->dot + lane);
        T *s = w->st + lane, *ds = w->ds + lane;
        for (int64_t t = 0; t < keys; t++) {
            V p = vexp2(vload(s + t * W) - lse);
            vstore(s + t * W, p);
            vstore(ds + t * W, p * (vload(ds + t * W) - dot));
        }
    }
}

static void backward_block(Backward *w, int64_t t0, int64_t keys)
{
    const mg_attention_desc *d = w->tile.d;
    const int64_t lane0 = tile_first(&w->tile, t0), vecs = (W - lane0) / VL;
    const T *k = w->k + t0 * d->k[1], *v = w->v + t0 * d->v[1];
    Panel p = {.start = MGK_ZERO, .m = keys, .vecs = vecs, .ldb = W, .ldc = W};
    p.k = d->head, p.a = k, p.stride = d->k[1], p.b = w->qt + lane0, p.c = w->st + lane0;
    panel_down(&p);
    p.k = d->vhead, p.a = v, p.stride = d->v[1], p.b = w->doutt + lane0, p.c = w->ds + lane0;
    panel_down(&p);
    mask_block(&w->tile, w->st, lane0, t0, keys, -(T)INFINITY);
    backward_probs(w, lane0, keys);

    p.start = t0 ? MGK_ADD : MGK_ZERO;
    p.m = d->head, p.k = keys, p.a = k, p.stride = d->k[1];
    p.b = w->ds + lane0, p.c = w->dqt + lane0;
    panel_across(&p);

    p.start = MGK_ADD;
    p.m = keys, p.k = w->tile.rows - lane0, p.stride = W;
    p.a = w->ds + lane0, p.vecs = w->wide / VL;
    p.b = w->qr + lane0 * w->wide, p.ldb = w->wide, p.c = w->dk + t0 * w->wide, p.ldc = w->wide;
    panel_down(&p);
    p.a = w->st + lane0, p.vecs = w->vwide / VL;
    p.b = w->doutr + lane0 * w->vwide, p.ldb = w->vwide;
    p.c = w->dv + t0 * w->vwide, p.ldc = w->vwide;
    panel_down(&p);
}

/* rows of `to`, `stride` apart, = factor times rows of `from`, `wide` apart. */
static void put_rows(const T *from, int64_t wide, int64_t rows, int64_t size, T factor, T *to,
                     int64_t stride)
{
    for (int64_t i = 0; i < rows; i++, from += wide, to += stride)
        for (int64_t c = 0; c < size; c++)
            to[c] = from[c] * factor;
}

static void backward_close(Backward *w, const mgk_attention *x, int64_t unit)
{
    const mg_attention_desc *d = x->d;
    int64_t b = unit / d->kv, h = unit % d->kv;
    put_rows(w->dk, w->wide, d->keys, d->head, (T)d->scale, (T *)x->dk + b * d->k[0] + h * d->k[2],
             d->k[1]);
    put_rows(w->dv, w->vwide, d->keys, d->vhead, 1, (T *)x->dv + b * d->v[0] + h * d->v[2],
             d->v[1]);
}

/* A unit is one (batch, kv head), the last the faster. */
static void NAME(attention_backward)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const mgk_attention *x = ctx;
    const mg_attention_desc *d = x->d;
    const int64_t tiles = (d->queries * d->group + W - 1) / W;
    Backward w;
    for (int64_t unit = begin; unit < end; unit++) {
        backward_open(&w, x, unit, scratch);
        for (int64_t tile = 0; tile < tiles; tile++) {
            backward_tile(&w, x, unit, tile);
            int64_t seen = d->causal && w.tile.last + 1 < d->keys ? w.tile.last + 1 : d->keys;
            for (int64_t t0 = 0; t0 < seen; t0 += MGK_BLOCK_KEYS)
                backward_block(&w, t0, seen - t0 < MGK_BLOCK_KEYS ? seen - t0 : MGK_BLOCK_KEYS);
            unpack_lanes(&w.tile, w.dqt, w.factor, d->head, x->dq, d->q);
        }
        backward_close(&w, x, unit);
    }
}
