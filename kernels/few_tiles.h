/* few_tiles.h - a few rows of A times panels of B, on one type and vector unit (product_tiles.h,
 * which comes before), so no include guard. */

/* Rows of a tile: their sums and two vectors of B fit the registers. */
#define FEW_TILE (VREGS == 32 ? 8 : 4)

#define few_load   NAME(few_load)
#define few_tile   NAME(few_tile)
#define few_rows   NAME(few_rows)
#define few_panels NAME(few_panels)

/* Two vectors of a panel. Pairs whose terms are rows are joined within 16 bytes: their columns are
 * then in an order that mgk_pairs_order puts right. */
MGK_INLINE void few_load(bool rows, const mgk_few *f, const char *b, V *b0, V *b1)
{
#ifdef FEW_PAIRS
    if (rows) {
        const __m512i x = _mm512_loadu_si512(b), y = _mm512_loadu_si512(b + f->stride / 2);
        *b0 = (V)_mm512_unpacklo_epi16(x, y);
        *b1 = (V)_mm512_unpackhi_epi16(x, y);
        return;
    }
#endif
    (void)rows, (void)f;
    *b0 = vload((const T *)b);
    *b1 = vload((const T *)b + VL);
}

/* `x`: the panel whose lines are prefetched beside; -1: none. */
MGK_INLINE void few_tile(int count, bool rows, const mgk_few *f, const T *a, const char *b, T *sums,
                         int64_t x)
{
    const char *f0 = f->beside[0] + x * f->wide, *f1 = f->beside[1] + x * f->wide;
    V acc[FEW_TILE][TILE_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
#pragma GCC unroll 2
        for (int j = 0; j < TILE_VECS; j++)
            acc[i][j] = f->first ? vall(0) : vload(sums + i * f->lds + j * VL);
    for (int64_t p = 0; p < f->k; p++, b += f->stride) {
        V b0, b1;
        few_load(rows, f, b, &b0, &b1);
        if (x >= 0) {
            __builtin_prefetch(f0 + p * f->step, 0, 2);
            __builtin_prefetch(f1 + p * f->step, 0, 2);
        }
#pragma GCC unroll 16
        for (int i = 0; i < count; i++) {
            const V av = tile_all(a + i * ROW_STEP + p);
            acc[i][0] = tile_term(acc[i][0], av, b0);
            acc[i][1] = tile_term(acc[i][1], av, b1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
#pragma GCC unroll 2
        for (int j = 0; j < TILE_VECS; j++)
            vstore(sums + i * f->lds + j * VL, acc[i][j]);
}

/* All rows of one panel: it is read from memory by the first tile, and from the nearest cache by
 * the others. */
MGK_INLINE void few_rows(bool rows, const mgk_few *f, const char *b, T *sums, int64_t x)
{
    const T *a = f->a;
    int64_t i = 0;
    for (; i + FEW_TILE <= f->m; i += FEW_TILE, x = -1)
        few_tile(FEW_TILE, rows, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
#if VREGS == 32
    if (i + 4 <= f->m) {
        few_tile(4, rows, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
        i += 4, x = -1;
    }
#endif
    if (i + 2 <= f->m) {
        few_tile(2, rows, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
        i += 2, x = -1;
    }
    if (i < f->m)
        few_tile(1, rows, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
}

static void few_panels(const mgk_few *f)
{
    T *sums = f->sums;
#ifdef FEW_PAIRS
    for (int64_t x = 0; f->rows && x < f->panels; x++, sums += PANEL_N)
        few_rows(true, f, f->b + x * f->wide, sums, x);
#endif
    for (int64_t x = 0; !f->rows && x < f->panels; x++, sums += PANEL_N)
        few_rows(false, f, f->b + x * f->wide, sums, x);
}
