/* pairs_body.h - packs bf16 pairs for products (pairs.h); product_body.h includes it for vectors of
 * 64 bytes. Offsets and lengths of sums, p and k, count pairs. */

#define pairs_left  NAME(pairs_left)
#define pairs_terms NAME(pairs_terms)
#define pairs_side  NAME(pairs_side)
#define pairs_a     NAME(pairs_a)
#define pairs_b     NAME(pairs_b)
#define pairs_sums  NAME(pairs_sums)

/* The number of terms from pair p on. */
MGK_INLINE int64_t pairs_left(const mg_gemm_desc *d, int64_t p)
{
    return d->k - 2 * p;
}

/* A vector of pairs from two rows of `count` numbers; without a second term, from one. */
MGK_INLINE V pairs_side(const E *from, int64_t ld, int64_t terms, int64_t count)
{
    const VU first = amx_wide(from, count);
    return (V)(terms > 1 ? first | amx_wide(from + ld, count) << 16 : first);
}

/* The terms of k pairs from pair p on. */
MGK_INLINE int64_t pairs_terms(const mg_gemm_desc *d, int64_t p, int64_t k)
{
    return 2 * k < pairs_left(d, p) ? 2 * k : pairs_left(d, p);
}

/* pack_tiles for pairs. */
static void pairs_a(const mgk_product *w, int64_t i, int64_t m, int64_t p, int64_t k, int64_t t,
                    int64_t end, T *to)
{
    const mg_gemm_desc *d = w->d;
    const int64_t first = tile_row(m, t), terms = pairs_left(d, p);
    const Lines a = lines_a(w, i + first, tile_row(m, end) - first, 2 * p, pairs_terms(d, p, k));
    for (int64_t row = first; !d->ta && row < tile_row(m, end); row++)
        for (int64_t q = 0; q < k; q += VL)
            vstore(to + row * ROW_STEP + q,
                   (V)amx_line(a.at + (row - first) * a.ld + 2 * q, terms - 2 * q));
    for (int64_t q = 0; d->ta && q < k; q++)
        for (int64_t x = t; x < end; x++) {
            const int64_t row = tile_row(m, x), count = tile_row(m, x + 1) - row;
            vstore(to + (x * k + q) * TILE_STEP,
                   pairs_side(a.at + 2 * q * a.ld + row - first, a.ld, terms - 2 * q, count));
        }
}

/* pack_b for pairs. */
static void pairs_b(const mgk_product *w, int64_t p, int64_t k, int64_t j, int64_t n, T *to)
{
    const mg_gemm_desc *d = w->d;
    const int64_t terms = pairs_left(d, p);
    const Lines b = lines_b(w, j, n, 2 * p, pairs_terms(d, p, k));
    for (int64_t q = 0; !d->tb && q < k; q++)
        for (int64_t c = 0; c < PANEL_N; c += VL)
            vstore(to + q * PANEL_N + c,
                   c < n ? pairs_side(b.at + 2 * q * b.ld + c, b.ld, terms - 2 * q, n - c)
                         : vall(0));
    for (int64_t q = 0; d->tb && q < k; q += VL)
        for (int64_t c = 0; c < PANEL_N; c += VL) {
            V a[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                a[i] =
                    c + i < n ? (V)amx_line(b.at + (c + i) * b.ld + 2 * q, terms - 2 * q) : vall(0);
            vflip(a);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                vstore(to + (q + i) * PANEL_N + c, a[i]);
        }
}

/* panel_sums for pairs. */
static void pairs_sums(const T *b, int64_t k, int64_t n, bool add, T *sum)
{
    for (int64_t j = 0; j < n; j += VL) {
        V all = vall(0);
        for (int64_t q = 0; q < k; q++) {
            const VU pair = (VU)vload(b + q * PANEL_N + j);
            all += (V)(pair << 16) + (V)(pair & 0xffff0000);
        }
        for (int64_t i = 0; i < VL && j + i < n; i++)
            sum[j + i] = (add ? sum[j + i] : 0) + all[i];
    }
}
