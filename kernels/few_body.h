/* few_body.h - a product of a few rows, as of tokens that are generated: a part of product_body.h.
 *
 * Each number of B is multiplied few times, so that memory is the bound: B is read once, from where
 * it is, in runs that are as long as can be, and nothing of it is packed. Where its columns are
 * contiguous, MGK_FEW_TERMS terms of all columns of a strip are added to sums in scratch
 * (few_tiles.h); where terms are, some columns at a time are summed over all terms of some blocks
 * (few_turned.h). The sums are those of product_tiles.h, in the same order: an element has the same
 * bits either way. On tiles of AMX, bf16 has sums of its own (amx_few.h). */

#define few_load    NAME(few_load)
#define few_load_n  NAME(few_load_n)
#define few_line    NAME(few_line)
#define few_line_n  NAME(few_line_n)
#define few_some    NAME(few_some)
#define few_a       NAME(few_a)
#define few_add     NAME(few_add)
#define few_store   NAME(few_store)
#define few_next    NAME(few_next)
#define few_along   NAME(few_along)
#define few_across  NAME(few_across)
#define few_on_tile NAME(few_on_tile)
#define few_strip   NAME(few_strip)

/* The first n numbers, zeros for the others of a vector. (n % VL is n: without it gcc -O0 warns of
 * what it does not leave out.) */
MGK_INLINE V few_some(const E *b, int64_t n)
{
    return n >= VL ? eload(b) : n > 0 ? eload_n(b, n % VL, 0) : vall(0);
}

MGK_INLINE void few_load(const mgk_few *f, const char *b, int64_t p, V *b0, V *b1)
{
    (void)f, (void)p;
    *b0 = eload((const E *)b);
    *b1 = eload((const E *)b + VL);
}

MGK_INLINE void few_load_n(const mgk_few *f, const char *b, int64_t p, int64_t n, V *b0, V *b1)
{
    (void)f, (void)p;
    *b0 = few_some((const E *)b, n);
    *b1 = few_some((const E *)b + VL, n - VL);
}

MGK_INLINE V few_line(const char *b)
{
    return eload((const E *)b);
}

MGK_INLINE V few_line_n(const char *b, int64_t n)
{
    return few_some((const E *)b, n);
}

#undef FEW_ELEMENTS
#define FEW_ELEMENTS 1
#include "kernels/few_tiles.h"
#include "kernels/few_turned.h"

/* Packs terms [p, p + k) of all rows of A as rows, in any storage order. */
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

/* Columns [j, j + n) of the strip: C = alpha sums, plus C (with `add`) or plus the bias: as
 * tile_store. */
static void few_store(const mgk_product *w, const Strip *s, int64_t begin, int64_t end, bool add,
                      const T *sums, int64_t lds)
{
    const T alpha = (T)w->d->alpha;
    const bool biased = w->d->epilogue & MG_BIAS && !add;
    for (int64_t i = 0; i < s->m; i++) {
        const T *from = sums + i * lds;
        T *to = s->c + i * s->ldc;
        for (int64_t j = begin; j < end; j += VL) {
            const int64_t n = end - j;
            const T *more = add ? to + j : s->extra + j;
            V sum = vload(from + j - begin);
            if (w->d->alpha != 1)
                sum *= alpha;
            if (add || biased)
                sum += n < VL ? vload_n(more, n, 0) : vload(more);
            if (n < VL)
                vstore_n(to + j, sum, n);
            else
                vstore(to + j, sum);
        }
    }
}

/* A block of terms, [p, p + k), of which columns are contiguous. */
static void few_along(const mgk_product *w, const Strip *s, int64_t p, int64_t k)
{
    const mg_gemm_desc *d = w->d;
    const int64_t row = d->ldb * (int64_t)sizeof(E), end = p + k;
    mgk_few f = {.m = s->m, .n = s->n, .sums = s->b, .lds = MG_FEW_LD(s->n)};
    f.ld = TERMS_EACH * row;
    f.wide = PANEL_N * (int64_t)sizeof(E);
    f.beside = PAIRED ? row : f.wide > 64 ? 64 : 0;
    few_a(w, s->i, s->m, p, k, s->a);
    for (int64_t q = p; q < end; q += MGK_FEW_TERMS) {
        const int64_t left = d->k - q * TERMS_EACH;
        f.k = end - q < MGK_FEW_TERMS ? end - q : MGK_FEW_TERMS;
        f.elements = f.k * TERMS_EACH < left ? f.k * TERMS_EACH : left;
        f.first = q == p;
        f.a = s->a + (q - p);
        f.b = (const char *)panel_at(d, w->b, q, s->j);
        f.ahead = q + MGK_FEW_TERMS + f.k <= length_of(d);
        mg_look(w->run, s->a);
        if (PAIRED)
            mgk_pairs_few(&f);
        else
            few_panels(&f);
    }
    if (PAIRED)
        mgk_pairs_order(&f);
    few_store(w, s, 0, s->n, p > 0 || d->beta != 0, s->b, f.lds);
}

/* The next columns are prefetched beside terms from q on of columns from j on, where blocks from p
 * on are summed. If they are one run of memory, in its order: lines at a stride that is a power of
 * two come from few of its channels. */
MGK_INLINE void few_next(const mgk_product *w, int64_t p, int64_t q, int64_t end, int64_t j,
                         bool ahead, mgk_few *f)
{
    const mg_gemm_desc *d = w->d;
    const int64_t term = TERMS_EACH * (int64_t)sizeof(E);
    const bool run = ahead && p == 0 && end == length_of(d) && d->ldb == d->k;
    f->next = (const char *)panel_at(d, w->b, run ? 0 : q, ahead ? j + VL : j);
    f->next_term = term;
    f->next_line = f->ld;
    if (run) {
        f->next += q * term * VL;
        f->next_term = term * VL;
        f->next_line = term * VL;
    }
}

/* Some blocks of terms that are contiguous, from p on. */
static void few_across(const mgk_product *w, const Strip *s, int64_t p, int64_t end, int64_t terms)
{
    const mg_gemm_desc *d = w->d;
    const int64_t block = s->m * ROW_STEP; /* numbers of packed rows */
    mgk_few f = {.m = s->m, .sums = s->b, .lds = VL, .ld = d->ldb * (int64_t)sizeof(E)};
    for (int64_t q = p; q < end; q += terms)
        few_a(w, s->i, s->m, q, end - q < terms ? end - q : terms, s->a + (q - p) / terms * block);
    for (int64_t j = 0; j < s->n; j += VL) {
        f.n = s->n - j;
        mg_look(w->run, s->a);
        for (int64_t q = p; q < end; q += terms) {
            few_next(w, p, q, end, s->j + j, f.n >= 2 * VL, &f);
            const int64_t left = d->k - q * TERMS_EACH;
            f.k = end - q < terms ? end - q : terms;
            f.elements = f.k * TERMS_EACH < left ? f.k * TERMS_EACH : left;
            f.a = s->a + (q - p) / terms * block;
            f.b = (const char *)panel_at(d, w->b, q, s->j + j);
            if (PAIRED)
                mgk_pairs_turned(&f);
            else
                few_turned(&f);
            few_store(w, s, j, f.n < VL ? s->n : j + VL, q > 0 || d->beta != 0, s->b, VL);
        }
    }
}

#undef FEW_ON_TILES
#if VBYTES == 64 && MGK_HALF == MGK_BF16
#define FEW_ON_TILES (mgk_isa() == MGK_AMX)

/* A block of terms on tiles. */
static void few_on_tile(const mgk_product *w, const Strip *s, int64_t p, int64_t k)
{
    const mg_gemm_desc *d = w->d;
    const Lines a = lines_a(w, s->i, s->m, p, k);
    mgk_amx_few f = {.m = s->m, .n = s->n, .k = k, .turned = d->tb, .ldb = d->ldb};
    f.a = (const char *)s->a;
    f.b = (const uint16_t *)w->b + (d->tb ? s->j * d->ldb + p : p * d->ldb + s->j);
    f.sums = s->b;
    f.lds = MG_FEW_LD(s->n);
    amx_pack(a.at, a.ld, !d->ta, d->tb, s->m, k, false, (char *)s->a);
    mg_look(w->run, s->a);
    mgk_amx_few_rows(&f);
    few_store(w, s, 0, s->n, p > 0 || d->beta != 0, s->b, f.lds);
}
#else
#define FEW_ON_TILES false
static void few_on_tile(const mgk_product *w, const Strip *s, int64_t p, int64_t k)
{
    (void)w, (void)s, (void)p, (void)k;
}
#endif

static void few_strip(const mgk_product *w, const Strip *s)
{
    const mg_gemm_desc *d = w->d;
    const bool tiles = FEW_ON_TILES;
    const int64_t all = tiles ? d->k : length_of(d);
    const int64_t terms = tiles ? mg_amx_terms(d) : mg_gemm_terms(all);
    const int64_t step = d->tb && !tiles ? MG_FEW_BLOCKS * terms : terms;
    if (!all) {
        memset(s->b, 0, (size_t)(s->m * MG_FEW_LD(s->n)) * sizeof(T));
        few_store(w, s, 0, s->n, d->beta != 0, s->b, MG_FEW_LD(s->n));
    }
    for (int64_t p = 0; p < all; p += step) {
        const int64_t k = all - p < step ? all - p : step;
        if (tiles)
            few_on_tile(w, s, p, k);
        else if (d->tb)
            few_across(w, s, p, p + k, terms);
        else
            few_along(w, s, p, k);
    }
    put_sums(w, s->c, s->ldc, s->i, s->m, s->j, s->n);
    if (w->call)
        mgk_epilogue_rows(w, s->i, s->m, s->j, s->n);
}
