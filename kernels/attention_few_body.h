/* attention_few_body.h - attention of one query of each sequence, as of a token that is generated,
 * over many keys; continues attention_body.h, so no include guard.
 *
 * A strip of rows would be nearly empty: here a row is a (group), and lanes are elements of a head.
 * Keys and values are read where they are, by up to FEW_ROWS rows at once, and prefetched: values
 * beside the scores of their keys, the next keys beside the sums of values. VL keys give VL vectors
 * of products, which are folded to one. Memory is the bound. The softmax is that of the other body.
 */

#define Few            NAME(Few)
#define few_open       NAME(few_open)
#define few_scores     NAME(few_scores)
#define few_dots       NAME(few_dots)
#define few_fold       NAME(few_fold)
#define few_row_scores NAME(few_row_scores)
#define few_row_sums   NAME(few_row_sums)
#define few_soften     NAME(few_soften)
#define few_sums       NAME(few_sums)
#define few_close      NAME(few_close)
#define few_unit       NAME(few_unit)
#define FEW_COLUMNS    4 /* vectors of a value that are summed at once */
#define FEW_ROWS       4 /* rows that share what is read */

/* Lanes of two vectors of so many: those of the lower halves of groups of twice so many; the upper
 * ones are h on. FEW_FOLD adds both. */
#ifndef FEW_FOLD
#define FEW_16_8(h)                                                                                \
    0 + (h), 1 + (h), 2 + (h), 3 + (h), 4 + (h), 5 + (h), 6 + (h), 7 + (h), 16 + (h), 17 + (h),    \
        18 + (h), 19 + (h), 20 + (h), 21 + (h), 22 + (h), 23 + (h)
#define FEW_16_4(h)                                                                                \
    0 + (h), 1 + (h), 2 + (h), 3 + (h), 8 + (h), 9 + (h), 10 + (h), 11 + (h), 16 + (h), 17 + (h),  \
        18 + (h), 19 + (h), 24 + (h), 25 + (h), 26 + (h), 27 + (h)
#define FEW_16_2(h)                                                                                \
    0 + (h), 1 + (h), 4 + (h), 5 + (h), 8 + (h), 9 + (h), 12 + (h), 13 + (h), 16 + (h), 17 + (h),  \
        20 + (h), 21 + (h), 24 + (h), 25 + (h), 28 + (h), 29 + (h)
#define FEW_16_1(h)                                                                                \
    0 + (h), 2 + (h), 4 + (h), 6 + (h), 8 + (h), 10 + (h), 12 + (h), 14 + (h), 16 + (h), 18 + (h), \
        20 + (h), 22 + (h), 24 + (h), 26 + (h), 28 + (h), 30 + (h)
#define FEW_8_4(h) 0 + (h), 1 + (h), 2 + (h), 3 + (h), 8 + (h), 9 + (h), 10 + (h), 11 + (h)
#define FEW_8_2(h) 0 + (h), 1 + (h), 4 + (h), 5 + (h), 8 + (h), 9 + (h), 12 + (h), 13 + (h)
#define FEW_8_1(h) 0 + (h), 2 + (h), 4 + (h), 6 + (h), 8 + (h), 10 + (h), 12 + (h), 14 + (h)
#define FEW_4_2(h) 0 + (h), 1 + (h), 4 + (h), 5 + (h)
#define FEW_4_1(h) 0 + (h), 2 + (h), 4 + (h), 6 + (h)
#define FEW_2_1(h) 0 + (h), 2 + (h)
#define FEW_FOLD(a, half, lanes)                                                                   \
    for (int fold = 0; fold < (half); fold++)                                                      \
    (a)[fold] = __builtin_shufflevector((a)[2 * fold], (a)[2 * fold + 1], lanes(0)) +              \
                __builtin_shufflevector((a)[2 * fold], (a)[2 * fold + 1], lanes(half))
#endif

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

/* The sums of the lanes of VL vectors, in their order: two vectors at a time are halved to one. The
 * sums are those of vsum. */
MGK_INLINE V few_fold(V a[])
{
#if VBYTES == 64 && !MGK_F64
    FEW_FOLD(a, 8, FEW_16_8);
    FEW_FOLD(a, 4, FEW_16_4);
    FEW_FOLD(a, 2, FEW_16_2);
    FEW_FOLD(a, 1, FEW_16_1);
#elif VBYTES == 64 || (VBYTES == 32 && !MGK_F64)
    FEW_FOLD(a, 4, FEW_8_4);
    FEW_FOLD(a, 2, FEW_8_2);
    FEW_FOLD(a, 1, FEW_8_1);
#elif VBYTES == 32 || !MGK_F64
    FEW_FOLD(a, 2, FEW_4_2);
    FEW_FOLD(a, 1, FEW_4_1);
#else
    FEW_FOLD(a, 1, FEW_2_1);
#endif
    return a[0];
}

/* The products of `rows` queries and the VL keys from k on, of which there are n. Prefetches as
 * many of what is read after the block, from `next` on. */
MGK_INLINE void few_dots(const Few *f, int rows, const T *q, const E *k, int64_t n, const E *next,
                         V dots[])
{
    const mg_attention_desc *d = f->d;
    const int64_t head = d->head, whole = head / VL * VL;
    V a[FEW_ROWS][VL];
    for (int64_t i = 0; i < VL; i++) {
        const E *row = k + (i < n ? i : n - 1) * d->k[1];
        V sum[FEW_ROWS];
        if (next && i < n)
            prefetch_row(next + i * d->v[1], d->vhead);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            sum[r] = vall(0);
        for (int64_t c = 0; c < whole; c += VL) {
            const V key = eload(row + c);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sum[r] += vload(q + r * f->wide + c) * key;
        }
        if (whole < head) {
            const V key = eload_n(row + whole, head - whole, 0);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sum[r] += vload(q + r * f->wide + whole) * key;
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            a[r][i] = sum[r];
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        dots[r] = few_fold(a[r]);
}

/* Scores of rows [r, r + rows). */
MGK_INLINE void few_row_scores(Few *f, int rows, int64_t r, const E *k, int64_t keys, const E *next)
{
    const mg_attention_desc *d = f->d;
    const T top = (T)(d->cap * (double)LOG2E);
    for (int64_t t = 0; t < keys; t += VL) {
        const int64_t n = keys - t < VL ? keys - t : VL;
        V s[FEW_ROWS];
        few_dots(f, rows, f->q + r * f->wide, k + t * d->k[1], n, next ? next + t * d->v[1] : NULL,
                 s);
#pragma GCC unroll 4
        for (int x = 0; x < rows; x++) {
            T *to = f->s + (r + x) * MGK_BLOCK_KEYS + t;
            vstore(to, d->cap > 0 ? vtanh2(s[x]) * top : s[x]);
            for (int64_t i = n; i < VL; i++)
                to[i] = -(T)INFINITY;
        }
    }
}

/* `v`: the values of the block, which are read next. */
static void few_scores(Few *f, const E *k, const E *v, int64_t keys)
{
    int64_t r = 0;
    for (; r + 4 <= f->d->group; r += 4)
        few_row_scores(f, 4, r, k, keys, r ? NULL : v);
    if (r + 2 <= f->d->group) {
        few_row_scores(f, 2, r, k, keys, r ? NULL : v);
        r += 2;
    }
    if (r < f->d->group)
        few_row_scores(f, 1, r, k, keys, r ? NULL : v);
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

/* o = o * keep + P v of `rows` rows from r on, some vectors of a row at a time. Prefetches as many
 * keys, from `next` on. */
MGK_INLINE void few_row_sums(Few *f, int rows, int64_t r, const E *v, int64_t keys, const E *next)
{
    const mg_attention_desc *d = f->d;
    const T *p = f->s + r * MGK_BLOCK_KEYS;
    for (int64_t c = 0; c < d->vhead; c += FEW_COLUMNS * VL) {
        T *o = f->o + r * f->vwide + c;
        const int64_t left = d->vhead - c;
        V acc[FEW_ROWS][FEW_COLUMNS];
#pragma GCC unroll 4
        for (int x = 0; x < rows; x++)
#pragma GCC unroll 4
            for (int j = 0; j < FEW_COLUMNS; j++)
                acc[x][j] =
                    j * VL < left ? vload(o + x * f->vwide + j * VL) * f->keep[r + x] : vall(0);
        for (int64_t t = 0; t < keys && left >= FEW_COLUMNS * VL; t++) {
            if (next && c == 0)
                prefetch_row(next + t * d->k[1], d->head);
#pragma GCC unroll 4
            for (int j = 0; j < FEW_COLUMNS; j++) {
                const V value = eload(v + t * d->v[1] + c + j * VL);
#pragma GCC unroll 4
                for (int x = 0; x < rows; x++)
                    acc[x][j] += value * p[x * MGK_BLOCK_KEYS + t];
            }
        }
        for (int64_t t = 0; t < keys && left < FEW_COLUMNS * VL; t++)
#pragma GCC unroll 4
            for (int j = 0; j < FEW_COLUMNS; j++) {
                const int64_t n = left - j * VL < VL ? left - j * VL : VL;
                if (n <= 0)
                    continue;
                const V value = eload_n(v + t * d->v[1] + c + j * VL, n, 0);
#pragma GCC unroll 4
                for (int x = 0; x < rows; x++)
                    acc[x][j] += value * p[x * MGK_BLOCK_KEYS + t];
            }
#pragma GCC unroll 4
        for (int x = 0; x < rows; x++)
#pragma GCC unroll 4
            for (int j = 0; j < FEW_COLUMNS; j++)
                if (j * VL < left)
                    vstore(o + x * f->vwide + j * VL, acc[x][j]);
    }
}

/* `next`: the keys of the next block, of which there are as many; or NULL. */
static void few_sums(Few *f, const E *v, int64_t keys, const E *next)
{
    int64_t r = 0;
    for (; VREGS == 32 && r + 4 <= f->d->group; r += 4)
        few_row_sums(f, 4, r, v, keys, r ? NULL : next);
    for (; r + 2 <= f->d->group; r += 2)
        few_row_sums(f, 2, r, v, keys, r ? NULL : next);
    if (r < f->d->group)
        few_row_sums(f, 1, r, v, keys, r ? NULL : next);
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
        const E *next = end - t >= 2 * MGK_BLOCK_KEYS ? k + (t + MGK_BLOCK_KEYS) * d->k[1] : NULL;
        few_scores(&f, k + t * d->k[1], v + t * d->v[1], keys);
        few_soften(&f, keys);
        few_sums(&f, v + t * d->v[1], keys, next);
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
