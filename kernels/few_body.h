/* few_body.h - a product of a few rows, as of tokens that are generated: a part of product_body.h.
 *
 * Each number of B is multiplied few times, so that memory is the bound: B is read once, from where
 * it is, in the order in which it lies, and prefetched some terms ahead. Nothing of it is packed
 * but for what has to be turned, widened or filled up, MGK_FEW_TERMS terms of a panel at a time,
 * which stay in the nearest cache. The sums of a strip are in scratch until a block of terms is
 * complete. They are those of product_tiles.h, in the same order: an element has the same bits
 * either way. */

#define few_a        NAME(few_a)
#define few_fetch    NAME(few_fetch)
#define few_there    NAME(few_there)
#define few_buffered NAME(few_buffered)
#define few_terms    NAME(few_terms)
#define few_store    NAME(few_store)
#define few_strip    NAME(few_strip)

/* few_panels is that of the packed type. */
#undef few_panels
#if MGK_HALF
#define few_panels NAME_EXPANDED(few_panels, f32, MGK_LEVEL)
#else
#include "kernels/few_tiles.h"
#endif

/* So many terms ahead of those that are read B is prefetched, where terms are contiguous. */
#define FEW_AHEAD 64

/* Packs terms [p, p + k) of rows [i, i + m) of A as rows, in any storage order. */
static void few_a(const mgk_product *w, int64_t i, int64_t m, int64_t p, int64_t k, T *to)
{
    const mg_gemm_desc *d = w->d;
    if (!d->ta) {
        pack_tiles(w, i, m, p, k, 0, tile_count(m), to);
        return;
    }
    const E *from = (const E *)w->a + p * TERMS_EACH * d->lda + i;
    const int64_t left = d->k - p * TERMS_EACH;
    for (int64_t x = 0; x < m; x++)
        for (int64_t q = 0; q < k; q++) {
            const E *at = from + q * TERMS_EACH * d->lda + x;
#if VBYTES == 64 && MGK_HALF == MGK_BF16
            if (PAIRED) {
                const uint32_t next = 2 * q + 1 < left ? at[d->lda] : 0, pair = at[0] | next << 16;
                memcpy(to + x * ROW_STEP + q, &pair, sizeof pair);
                continue;
            }
#endif
            (void)left;
            to[x * ROW_STEP + q] = eget(at);
        }
}

/* Prefetches, beside terms from p on of columns [j, j + n) of op(B), of a block that begins at
 * `begin` and ends at `end`: the terms that are read soon of the same columns, or, behind the end
 * of the block where terms are contiguous, of the columns after them. */
MGK_INLINE void few_fetch(const mgk_product *w, int64_t p, int64_t begin, int64_t end, int64_t j,
                          int64_t n, mgk_few *f)
{
    const mg_gemm_desc *d = w->d;
    const int64_t ld = d->ldb * (int64_t)sizeof(E);
    const int64_t ahead = d->tb ? FEW_AHEAD : MGK_FEW_TERMS;
    const bool wraps = d->tb && p + ahead >= end;
    const int64_t to = wraps ? begin + p + ahead - end : p + ahead, at = wraps ? j + PANEL_N : j;
    const bool there = wraps ? at + n <= w->d->n && to < end : to + f->k <= length_of(d);
    const char *from = (const char *)panel_at(d, w->b, there ? to : p, there ? at : j);
    const bool rows = d->tb || TERMS_EACH == 2; /* two of them with each term */
    f->beside[0] = f->beside[1] = from;
    f->step = !there ? 0 : rows ? 2 * ld : ld;
    if (there && rows)
        f->beside[1] += ld;
    else if (there && PANEL_N * sizeof(E) > 64)
        f->beside[1] += 64;
}

/* sums += terms [p, p + k) of the first n columns of the strip, whole panels, where they are. */
static void few_there(const mgk_product *w, const Strip *s, int64_t p, int64_t k, int64_t n,
                      T *sums)
{
    const int64_t end = p + k, row = w->d->ldb * (int64_t)sizeof(E);
    mgk_few f = {.m = s->m, .panels = n / PANEL_N, .sums = sums, .lds = MGK_FEW_N};
    f.stride = TERMS_EACH * row;
    f.wide = PANEL_N * (int64_t)sizeof(E);
    f.rows = PAIRED;
    for (int64_t q = p; q < end; q += MGK_FEW_TERMS) {
        f.k = end - q < MGK_FEW_TERMS ? end - q : MGK_FEW_TERMS;
        f.first = q == p;
        f.a = s->a + (q - p);
        f.b = (const char *)panel_at(w->d, w->b, q, s->j);
        few_fetch(w, q, p, end, s->j, n, &f);
        mg_look(w->run, s->a);
        if (PAIRED)
            mgk_pairs_few(&f);
        else
            few_panels(&f);
    }
    if (PAIRED)
        mgk_pairs_order(&f);
}

/* The same of columns [j, j + n), at most a panel, through a buffer. */
static void few_buffered(const mgk_product *w, const Strip *s, int64_t p, int64_t k, int64_t j,
                         int64_t n, T *sums)
{
    const int64_t end = p + k;
    mgk_few f = {.m = s->m, .panels = 1, .sums = sums, .lds = MGK_FEW_N};
    f.stride = PANEL_N * (int64_t)sizeof(T);
    for (int64_t q = p; q < end; q += MGK_FEW_TERMS) {
        T panel[MGK_FEW_TERMS * PANEL_N];
        f.k = end - q < MGK_FEW_TERMS ? end - q : MGK_FEW_TERMS;
        f.first = q == p;
        pack_b(w, q, f.k, s->j + j, n, panel);
        few_fetch(w, q, p, end, s->j + j, n, &f);
        f.a = s->a + (q - p);
        f.b = (const char *)panel;
        mg_look(w->run, s->a);
        if (PAIRED)
            mgk_pairs_few(&f);
        else
            few_panels(&f);
    }
}

/* sums = terms [p, p + k) of the strip. */
static void few_terms(const mgk_product *w, const Strip *s, int64_t p, int64_t k, T *sums)
{
    const mg_gemm_desc *d = w->d;
    const bool there = !d->tb && (sizeof(E) == sizeof(T) || (PAIRED && d->k % 2 == 0));
    const int64_t whole = there ? s->n / PANEL_N * PANEL_N : 0;
    if (whole)
        few_there(w, s, p, k, whole, sums);
    for (int64_t j = whole; j < s->n; j += PANEL_N)
        few_buffered(w, s, p, k, j, s->n - j < PANEL_N ? s->n - j : PANEL_N, sums + j);
}

/* C = alpha sums, plus C (with `add`) or plus the bias: as tile_store. */
static void few_store(const mgk_product *w, const Strip *s, bool add, T *sums)
{
    const T alpha = (T)w->d->alpha;
    const bool biased = w->d->epilogue & MG_BIAS && !add;
    for (int64_t i = 0; i < s->m; i++) {
        T *from = sums + i * MGK_FEW_N, *to = s->c + i * s->ldc;
        for (int64_t j = 0; j < s->n && w->d->alpha != 1; j += VL)
            vstore(from + j, vload(from + j) * alpha);
        for (int64_t j = 0; j < s->n; j += VL) {
            const int64_t n = s->n - j;
            const T *more = add ? to + j : s->extra + j;
            V sum = vload(from + j);
            if (add || biased)
                sum += n < VL ? vload_n(more, n, 0) : vload(more);
            if (n < VL)
                vstore_n(to + j, sum, n);
            else
                vstore(to + j, sum);
        }
    }
}

static void few_strip(const mgk_product *w, const Strip *s)
{
    const mg_gemm_desc *d = w->d;
    const int64_t all = length_of(d), terms = mg_gemm_terms(all);
    T *sums = s->a + s->m * ROW_STEP;
    int64_t p = 0;
    do {
        const int64_t k = all - p < terms ? all - p : terms;
        for (int64_t i = 0; i < s->m && !k; i++)
            memset(sums + i * MGK_FEW_N, 0, MGK_FEW_N * sizeof(T));
        few_a(w, s->i, s->m, p, k, s->a);
        few_terms(w, s, p, k, sums);
        few_store(w, s, p > 0 || d->beta != 0, sums);
        p += terms;
    } while (p < all);
    put_sums(w, s->c, s->ldc, s->i, s->m, s->j, s->n);
    if (w->call)
        mgk_epilogue_rows(w, s->i, s->m, s->j, s->n);
}
