/* few_turned.h - a few rows of A times columns of B whose terms are contiguous; a part of
 * few_tiles.h's users, on one type and vector unit, so no include guard.
 *
 * VL columns are lanes: VL terms of each are loaded and transposed in registers, and each number of
 * A meets the vector of its term. Whole columns are read, as far as a call's terms reach, so that
 * memory is read in long runs; beside them the next columns are prefetched.
 *
 * The including file defines FEW_ELEMENTS, elements of B of a term, and how a column is read:
 *   V few_line(const char *b)                VL terms (or pairs) from b on
 *   V few_line_n(const char *b, int64_t n)   `n` elements of B, then zeros */

#define few_columns NAME(few_columns)
#define few_rest    NAME(few_rest)
#define few_turned  NAME(few_turned)

/* sums = `terms` terms, whole vectors of them, of VL columns. */
MGK_INLINE void few_columns(int count, const mgk_few *f, const T *a, int64_t terms, T *sums)
{
    V acc[FEW_TILE];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        acc[i] = vall(0);
    for (int64_t p = 0; p < terms; p += VL) {
        const char *from = f->b + p * (int64_t)sizeof(E), *next = f->next + p * f->next_term;
        V line[VL];
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) {
            line[i] = few_line(from + i * f->ld);
            __builtin_prefetch(next + i * f->next_line, 0, 2);
        }
        vflip(line);
#pragma GCC unroll 16
        for (int q = 0; q < VL; q++)
#pragma GCC unroll 16
            for (int i = 0; i < count; i++)
                acc[i] = tile_term(acc[i], tile_all(a + i * ROW_STEP + p + q), line[q]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        vstore(sums + i * f->lds, acc[i]);
}

/* sums += terms from p on, of n columns, VL at most: where whole vectors of either are not left. */
static void few_rest(const mgk_few *f, int64_t p, int64_t n)
{
    enum { MOST = VL * FEW_ELEMENTS };
    for (; p < f->k; p += VL) {
        const char *from = f->b + p * (int64_t)sizeof(E);
        const int64_t left = f->elements - p * FEW_ELEMENTS;
        V line[VL];
        for (int i = 0; i < VL; i++)
            line[i] = i < n ? few_line_n(from + i * f->ld, left < MOST ? left : MOST) : vall(0);
        vflip(line);
        for (int64_t i = 0; i < f->m; i++) {
            const T *a = (const T *)f->a + i * ROW_STEP + p;
            T *to = (T *)f->sums + i * f->lds;
            V sum = vload(to);
            for (int64_t q = 0; q < VL && p + q < f->k; q++)
                sum = tile_term(sum, tile_all(a + q), line[q]);
            vstore(to, sum);
        }
    }
}

/* sums = f->k terms of the first VL columns, or of f->n if these are fewer. */
static void few_turned(const mgk_few *f)
{
    const int64_t n = f->n < VL ? f->n : VL;
    const int64_t terms = n == VL ? f->elements / (VL * FEW_ELEMENTS) * VL : 0;
    const T *a = f->a;
    T *sums = f->sums;
    int64_t i = 0;
    for (; i + FEW_TILE <= f->m; i += FEW_TILE)
        few_columns(FEW_TILE, f, a + i * ROW_STEP, terms, sums + i * f->lds);
    if (FEW_TILE > 4 && i + 4 <= f->m) {
        few_columns(4, f, a + i * ROW_STEP, terms, sums + i * f->lds);
        i += 4;
    }
    if (i + 2 <= f->m) {
        few_columns(2, f, a + i * ROW_STEP, terms, sums + i * f->lds);
        i += 2;
    }
    if (i < f->m)
        few_columns(1, f, a + i * ROW_STEP, terms, sums + i * f->lds);
    if (terms < f->k)
        few_rest(f, terms, n);
}
