/* panel.h - the product that attention consists of, on blocks in cache; a part of bodies, on the
 * types of simd.h, so no include guard.
 *
 *   C[i, lanes] = C[i, lanes] * keep[lanes] + sum over p of A[i * ai + p * ak] * B[p, lanes]
 *
 * A's elements are broadcast from where they are, in either storage order: keys and values are not
 * transposed. Rows of B and C are whole vectors of scratch. */

/* Rows and vectors of a register tile. */
#define PANEL_ROWS (VREGS == 32 ? 8 : 6)
#define PANEL_VECS 2

#define panel_tile   NAME(panel_tile)
#define panel_rest   NAME(panel_rest)
#define panel_any    NAME(panel_any)
#define panel_down   NAME(panel_down)
#define panel_across NAME(panel_across)
#define Panel        NAME(Panel)

typedef struct Panel {
    mgk_start start;    /* use of the old C */
    int64_t m, vecs, k; /* rows, vectors, length of the sums */
    const T *a;
    int64_t stride; /* of A: between rows (panel_down) or between terms (panel_across) */
    const T *b;
    int64_t ldb;
    T *c;
    int64_t ldc;
    const T *keep;
} Panel;

/* Computes `rows` x `vecs` of C; both are constants at each expansion. */
MGK_INLINE void panel_tile(const Panel *w, int rows, int vecs, int64_t i0, int64_t j0, int64_t ai,
                           int64_t ak)
{
    V acc[PANEL_ROWS][PANEL_VECS];
    const T *a = w->a + i0 * ai, *b = w->b + j0;
    T *c = w->c + i0 * w->ldc + j0;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++) {
            acc[i][j] = w->start == MGK_ZERO ? vall(0) : vload(c + i * w->ldc + j * VL);
            if (w->start == MGK_SCALE)
                acc[i][j] *= vload(w->keep + j0 + j * VL);
        }
    }
    const int64_t k = w->k, ldb = w->ldb;
    for (int64_t p = 0; p < k; p++) {
        V bv[PANEL_VECS];
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++)
            bv[j] = vload(b + p * ldb + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            V av = vall(a[i * ai + p * ak]);
#pragma GCC unroll 4
            for (int j = 0; j < vecs; j++)
                acc[i][j] += av * bv[j];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++)
            vstore(c + i * w->ldc + j * VL, acc[i][j]);
    }
}

/* Computes the rows of one or two columns of vectors: full tiles, then the rest in powers of
 * two. */
MGK_INLINE void panel_rest(const Panel *w, int vecs, int64_t j0, int64_t ai, int64_t ak)
{
    int64_t i = 0;
    for (; i + PANEL_ROWS <= w->m; i += PANEL_ROWS)
        panel_tile(w, PANEL_ROWS, vecs, i, j0, ai, ak);
    if (i + 4 <= w->m) {
        panel_tile(w, 4, vecs, i, j0, ai, ak);
        i += 4;
    }
    if (i + 2 <= w->m) {
        panel_tile(w, 2, vecs, i, j0, ai, ak);
        i += 2;
    }
    if (i < w->m)
        panel_tile(w, 1, vecs, i, j0, ai, ak);
}

MGK_INLINE void panel_any(const Panel *w, int64_t ai, int64_t ak)
{
    int64_t j = 0;
    for (; j + PANEL_VECS <= w->vecs; j += PANEL_VECS)
        panel_rest(w, PANEL_VECS, j * VL, ai, ak);
    if (j < w->vecs)
        panel_rest(w, 1, j * VL, ai, ak);
}

/* A is stored with a stride between its rows, and contiguous terms. */
static void panel_down(const Panel *w)
{
    panel_any(w, w->stride, 1);
}

/* A is stored with a stride between its terms, and contiguous rows. */
static void panel_across(const Panel *w)
{
    panel_any(w, 1, w->stride);
}
