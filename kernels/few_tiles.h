/* few_tiles.h - a few rows of A times columns of B that lie side by side in memory, on one type and
 * vector unit (product_tiles.h, which comes before), so no include guard. few_turned.h is for B in
 * the other order.
 *
 * The including file defines how a panel of B is read:
 *   void few_load(const mgk_few *f, const char *b, int64_t p, V *b0, V *b1)
 *                                          columns of term p, which is at b
 *   void few_load_n(..., int64_t n, ...)   the same of the first n columns, then zeros */

/* Rows of a tile: their sums and two vectors of B fit the registers. */
#define FEW_TILE (VREGS == 32 ? 8 : 4)

#define few_tile   NAME(few_tile)
#define few_rows   NAME(few_rows)
#define few_panels NAME(few_panels)

/* Beside each term the same columns of the term `ahead` bytes after it are prefetched: all at once,
 * they would fill the line buffers, and the multiply-adds would wait. */
MGK_INLINE void few_tile(int count, bool whole, int64_t ahead, const mgk_few *f, const T *a,
                         const char *b, int64_t n, T *sums)
{
    V acc[FEW_TILE][TILE_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
#pragma GCC unroll 2
        for (int j = 0; j < TILE_VECS; j++)
            acc[i][j] = f->first ? vall(0) : vload(sums + i * f->lds + j * VL);
    for (int64_t p = 0; p < f->k; p++, b += f->ld) {
        V b0, b1;
        if (whole)
            few_load(f, b, p, &b0, &b1);
        else
            few_load_n(f, b, p, n, &b0, &b1);
        __builtin_prefetch(b + ahead, 0, 2);
        __builtin_prefetch(b + ahead + f->beside, 0, 2);
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

/* All rows of a panel: it is read from memory by the first tile, and from the nearest cache by the
 * others. */
MGK_INLINE void few_rows(const mgk_few *f, const char *b, T *sums)
{
    const T *a = f->a;
    int64_t ahead = f->ahead ? MGK_FEW_TERMS * f->ld : 0, i = 0;
    for (; i + FEW_TILE <= f->m; i += FEW_TILE, ahead = 0)
        few_tile(FEW_TILE, true, ahead, f, a + i * ROW_STEP, b, PANEL_N, sums + i * f->lds);
    if (FEW_TILE > 4 && i + 4 <= f->m) {
        few_tile(4, true, ahead, f, a + i * ROW_STEP, b, PANEL_N, sums + i * f->lds);
        i += 4, ahead = 0;
    }
    if (i + 2 <= f->m) {
        few_tile(2, true, ahead, f, a + i * ROW_STEP, b, PANEL_N, sums + i * f->lds);
        i += 2, ahead = 0;
    }
    if (i < f->m)
        few_tile(1, true, ahead, f, a + i * ROW_STEP, b, PANEL_N, sums + i * f->lds);
}

/* sums += f->k terms of all columns, MGK_FEW_TERMS at most; rows of sums have whole panels. */
static void few_panels(const mgk_few *f)
{
    const char *b = f->b;
    T *sums = f->sums;
    int64_t j = 0;
    for (; j + PANEL_N <= f->n; j += PANEL_N, b += f->wide)
        few_rows(f, b, sums + j);
    for (int64_t i = 0; i < f->m && j < f->n; i++)
        few_tile(1, false, 0, f, (const T *)f->a + i * ROW_STEP, b, f->n - j,
                 sums + j + i * f->lds);
}
