/* attention_few_body.h - attention of one query of each sequence, as of a token that is generated,
 * over many keys; continues attention_body.h, so no include guard.
 *
 * A strip of rows would be nearly empty: here a row is a (group), and lanes are elements of a head.
 * Keys and values are read once, where they are; VL keys at a time give VL sums, which are
 * transposed and added up. Memory is the bound. The softmax is that of the other body. */

#define Few         NAME(Few)
#define few_open    NAME(few_open)
#define few_scores  NAME(few_scores)
#define few_dots    NAME(few_dots)
#define few_soften  NAME(few_soften)
#define few_sums    NAME(few_sums)
#define few_close   NAME(few_close)
#define few_unit    NAME(few_unit)
#define FEW_COLUMNS 4 /* vectors of a value that are summed at once */

typedef struct Few {
    const mgk_attention *x;
    const mg_attention_desc *d;
    int64_t b, h, wide, vwide; /* whole vectors of a head */
    T *q, *o, *s; /* of rows: [wide], scaled; [vwide], before normalisation; [MGK_BLOCK_KEYS] */
    T top[MGK_FEW], sum[MGK_FEW], keep[MGK_FEW];
} Few;

static void few_open(Few *f, const mgk_attention *x, int64_t b, int64_t h, char *scratch)
{
    const mg_attention_desc *d = x->d;
    *f = (Few){.x = x, .d = d, .b = b, .h = h};
    f->wide = mgk_round_up(d->head, VL);
    f->vwide = mgk_round_up(d->vhead, VL);
    f->q = carve(&scratch, d->group * f->wide);
    f->o = carve(&scratch, d->group * f->vwide);
    f->s = carve(&scratch, d->group * MGK_BLOCK_KEYS);
    for (int64_t r = 0; r < d->group; r++) {
        const E *from = (const E *)x->q + b * d->q[0] + h * d->q[2] + r * d->q[3];
        T *q = f->q + r * f->wide;
        memset(q, 0, (size_t)f->wide * sizeof(T));
        ecopy(q, from, d->head);
        for (int64_t c = 0; c < f->wide; c += VL)
            vstore(q + c, vload(q + c) * score_factor(d));
        f->top[r] = NO_TOP;
        f->sum[r] = 0;
    }
    memset(f->o, 0, (size_t)(d->group * f->vwide) * sizeof(T));
}

/* The products of a query and the VL keys from k on, of which there are n. */
MGK_INLINE V few_dots(const Few *f, const T *q, const E *k, int64_t n)
{
    const int64_t head = f->d->head, whole = head / VL * VL;
    V a[VL];
    for (int64_t i = 0; i < VL; i++) {
        const E *row = k + (i < n ? i : n - 1) * f->d->k[1];
        V sum = vall(0);
        for (int64_t c = 0; c < whole; c += VL)
            sum += vload(q + c) * eload(row + c);
        if (whole < head)
            sum += vload(q + whole) * eload_n(row + whole, head - whole, 0);
        a[i] = sum;
    }
    vflip(a);
    for (int half = VL / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] += a[i + half];
    return a[0];
}

static void few_scores(Few *f, const E *k, int64_t keys)
{
    const mg_attention_desc *d = f->d;
    const T top = (T)(d->cap * (double)LOG2E);
    for (int64_t t = 0; t < keys; t += VL)
        for (int64_t r = 0; r < d->group; r++) {
            const int64_t n = keys - t < VL ? keys - t : VL;
            V s = few_dots(f, f->q + r * f->wide, k + t * d->k[1], n);
            if (d->cap > 0)
                s = vtanh2(s) * top;
            T *to = f->s + r * MGK_BLOCK_KEYS + t;
            vstore(to, s);
            for (int64_t i = n; i < VL; i++)
                to[i] = -(T)INFINITY;
        }
}

/* As soften, of each row. */
static void few_soften(Few *f, int64_t keys)
{
    for (int64_t r = 0; r < f->d->group; r++) {
        T *s = f->s + r * MGK_BLOCK_KEYS;
        V top = vall(f->top[r]), sum = vall(0);
        for (int64_t t = 0; t < keys; t += VL)
            top = vmax(vload(s + t), top);
        const T most = vtop(top);
        for (int64_t t = 0; t < keys; t += VL) {
            const V e = vexp2(vload(s + t) - most);
            vstore(s + t, e);
            sum += e;
        }
        T keep[VL];
        vstore(keep, vexp2(vall(f->top[r] - most)));
        f->keep[r] = keep[0];
        f->sum[r] = f->sum[r] * keep[0] + vsum(sum);
        f->top[r] = most;
    }
}

/* o = o * keep + P v, some vectors of a row at a time. */
static void few_sums(Few *f, const E *v, int64_t keys)
{
    const mg_attention_desc *d = f->d;
    for (int64_t r = 0; r < d->group; r++)
        for (int64_t c = 0; c < d->vhead; c += FEW_COLUMNS * VL) {
            const T *p = f->s + r * MGK_BLOCK_KEYS;
            T *o = f->o + r * f->vwide + c;
            const int64_t left = d->vhead - c;
            V acc[FEW_COLUMNS];
            for (int j = 0; j < FEW_COLUMNS; j++)
                acc[j] = j * VL < left ? vload(o + j * VL) * f->keep[r] : vall(0);
            if (left >= FEW_COLUMNS * VL)
                for (int64_t t = 0; t < keys; t++)
#pragma GCC unroll 4
                    for (int j = 0; j < FEW_COLUMNS; j++)
                        acc[j] += eload(v + t * d->v[1] + c + j * VL) * p[t];
            else
                for (int64_t t = 0; t < keys; t++)
                    for (int j = 0; j < FEW_COLUMNS && j * VL < left; j++) {
                        const int64_t n = left - j * VL < VL ? left - j * VL : VL;
                        acc[j] += eload_n(v + t * d->v[1] + c + j * VL, n, 0) * p[t];
                    }
            for (int j = 0; j < FEW_COLUMNS && j * VL < left; j++)
                vstore(o + j * VL, acc[j]);
        }
}

static void few_close(const Few *f, bool none)
{
    const mg_attention_desc *d = f->d;
    for (int64_t r = 0; r < d->group; r++) {
        const int64_t lse = f->b * d->lse[0] + f->h * d->lse[2] + r * d->lse[3];
        E *to = (E *)f->x->o + f->b * d->o[0] + f->h * d->o[2] + r * d->o[3];
        const T *o = f->o + r * f->vwide;
        const T by = none ? 0 : 1 / f->sum[r];
        ((T *)f->x->lse)[lse] =
            none ? NO_LSE : (T)((double)f->top[r] * LN2 + log((double)f->sum[r]));
        for (int64_t c = 0; c < d->vhead; c += VL) {
            const int64_t n = d->vhead - c < VL ? d->vhead - c : VL;
            if (n == VL)
                estore(to + c, vload(o + c) * by);
            else
                estore_n(to + c, vload(o + c) * by, n);
        }
    }
}

static void few_unit(const mgk_attention *x, int64_t b, int64_t h, char *scratch)
{
    const mg_attention_desc *d = x->d;
    const int64_t first = mgk_first_key(x, b, 0), end = mgk_last_key(x, b, 0) + 1;
    const E *k = (const E *)x->k + b * d->k[0] + h * d->k[2];
    const E *v = (const E *)x->v + b * d->v[0] + h * d->v[2];
    Few f;
    few_open(&f, x, b, h, scratch);
    for (int64_t t = first; t < end; t += MGK_BLOCK_KEYS) {
        const int64_t keys = end - t < MGK_BLOCK_KEYS ? end - t : MGK_BLOCK_KEYS;
        few_scores(&f, k + t * d->k[1], keys);
        few_soften(&f, keys);
        few_sums(&f, v + t * d->v[1], keys);
    }
    few_close(&f, end <= first);
}

/* A unit is a (batch, kv head). */
static void NAME(attention_few)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const mgk_attention *x = ctx;
    for (int64_t u = begin; u < end; u++)
        few_unit(x, u / x->d->kv, u % x->d->kv, scratch);
}
