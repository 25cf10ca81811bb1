/* few_tiles.h - a few rows of A times panels of B, on one type and vector unit (product_tiles.h,
 * which comes before), so no include guard. */

/* Rows of a tile: their sums and two vectors of B fit the registers. */
#define FEW_TILE (VREGS == 32 ? 8 : 4)

#define few_tile   NAME(few_tile)
#define few_rows   NAME(few_rows)
#define few_panels NAME(few_panels)

/* `x`: the panel whose lines are prefetched beside; -1: none. */
MGK_INLINE void few_tile(int rows, const mgk_few *f, const T *a, const T *b, T *sums, int64_t x)
{
    const char *f0 = f->beside[0] + x * f->panel, *f1 = f->beside[1] + x * f->panel;
    V acc[FEW_TILE][TILE_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < TILE_VECS; j++)
            acc[i][j] = f->first ? vall(0) : vload(sums + i * f->lds + j * VL);
    for (int64_t p = 0; p < f->k; p++, b += f->ldb) {
        const V b0 = vload(b), b1 = vload(b + VL);
        if (x >= 0) {
            __builtin_prefetch(f0 + p * f->step, 0, 3);
            __builtin_prefetch(f1 + p * f->step, 0, 3);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const V av = tile_all(a + i * ROW_STEP + p);
            acc[i][0] = tile_term(acc[i][0], av, b0);
            acc[i][1] = tile_term(acc[i][1], av, b1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < TILE_VECS; j++)
            vstore(sums + i * f->lds + j * VL, acc[i][j]);
}

/* All rows of one panel: it is read from memory by the first tile, and from the nearest cache by
 * the others. */
MGK_INLINE void few_rows(const mgk_few *f, const T *b, T *sums, int64_t x)
{
    const T *a = f->a;
    int64_t i = 0;
    for (; i + FEW_TILE <= f->m; i += FEW_TILE, x = -1)
        few_tile(FEW_TILE, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
#if VREGS == 32
    if (i + 4 <= f->m) {
        few_tile(4, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
        i += 4, x = -1;
    }
#endif
    if (i + 2 <= f->m) {
        few_tile(2, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
        i += 2, x = -1;
    }
    if (i < f->m)
        few_tile(1, f, a + i * ROW_STEP, b, sums + i * f->lds, x);
}

static void few_panels(const mgk_few *f)
{
    const T *b = f->b;
    T *sums = f->sums;
    for (int64_t x = 0; x < f->panels; x++, b += PANEL_N, sums += PANEL_N)
        few_rows(f, b, sums, x);
}
