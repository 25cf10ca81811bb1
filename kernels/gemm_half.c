/* gemm_half.c - products of halves: tiles of them as floats, through the library's product of
 * those.
 *
 * A tile of C is summed in float over all of k and rounded once, so the arithmetic is that of f32
 * on rounded operands. A tile of each operand lies in the caches of its thread meanwhile: an
 * element is widened once for some five hundred multiplications. */
#include "kernels/gemm.h"
#include "kernels/blas.h"

#define MGK_BODY "kernels/gemm_half_body.h"
#include "kernels/each_isa.h"

typedef void AddRow(const float *row, int64_t rows, int64_t cols, float *to);
typedef void SumColumns(const float *from, int64_t rows, int64_t cols, float *sum);
typedef void SumRows(const float *from, int64_t rows, int64_t cols, float *sum);
typedef void TileIn(const void *from, int64_t ld, int64_t rows, int64_t cols, float *to);
typedef void TileOut(const float *from, int64_t rows, int64_t cols, void *to, int64_t ld);
static TileIn *const tile_in[][MGK_FLOATS] = MGK_TABLE(tile_in);
static TileOut *const tile_out[][MGK_FLOATS] = MGK_TABLE(tile_out);
static AddRow *const add_row[][MGK_FLOATS] = MGK_TABLE(add_row);
static SumColumns *const sum_columns[][MGK_FLOATS] = MGK_TABLE(sum_columns);
static SumRows *const sum_rows[][MGK_FLOATS] = MGK_TABLE(sum_rows);

typedef struct Tiles {
    const mg_gemm_desc *d;
    const char *a, *b; /* of this product of the batch */
    char *c, *extra;
    float *ta, *tb, *tc, *row;
} Tiles;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows [i, i + m) and columns [j, j + n) of C, both at most a tile. The sums of columns of op(B)
 * are the affair of the first rows. */
static void tile(const Tiles *w, int64_t i, int64_t m, int64_t j, int64_t n)
{
    const mg_gemm_desc *d = w->d;
    const mgk_blas *blas = mgk_blas_get();
    const int half = mgk_float(d->dtype, "mg_gemm"), out = mgk_float(d->out, "mg_gemm");
    const mgk_level level = mgk_isa();
    const int ta = d->ta ? MGK_TRANS : MGK_NO_TRANS, tb = d->tb ? MGK_TRANS : MGK_NO_TRANS;
    const bool sums = d->epilogue == MG_SUM && i == 0;
    char *c = w->c + (i * d->ldc + j) * mg_dtype_bytes(d->out);
    char *extra = w->extra + j * mg_dtype_bytes(d->out);
    if (d->beta != 0)
        tile_in[level][out](c, d->ldc, m, n, w->tc);
    else
        memset(w->tc, 0, (size_t)(m * n) * sizeof *w->tc);
    memset(w->row, 0, (size_t)n * sizeof *w->row);
    for (int64_t at = 0; at < d->k; at += MG_HALF_TILE) {
        const int64_t k = smaller(MG_HALF_TILE, d->k - at);
        const int64_t a = d->ta ? at * d->lda + i : i * d->lda + at;
        const int64_t b = d->tb ? j * d->ldb + at : at * d->ldb + j;
        tile_in[level][half](w->a + 2 * a, d->lda, d->ta ? k : m, d->ta ? m : k, w->ta);
        tile_in[level][half](w->b + 2 * b, d->ldb, d->tb ? n : k, d->tb ? k : n, w->tb);
        blas->sgemm(MGK_ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, (float)d->alpha, w->ta,
                    (int)(d->ta ? m : k), w->tb, (int)(d->tb ? k : n), 1, w->tc, (int)n);
        if (sums)
            (d->tb ? sum_rows : sum_columns)[level][0](w->tb, d->tb ? n : k, d->tb ? k : n, w->row);
    }
    if (d->epilogue == MG_BIAS) {
        tile_in[level][out](extra, 0, 1, n, w->row);
        add_row[level][0](w->row, m, n, w->tc);
    }
    tile_out[level][out](w->tc, m, n, c, d->ldc);
    if (sums)
        tile_out[level][out](w->row, 1, n, extra, 0);
}

void mgk_gemm_half(const mg_gemm_desc *d, int64_t batch, int64_t i, int64_t m, int64_t j, int64_t n,
                   const char *a, const char *b, char *c, char *extra, void *scratch)
{
    enum { AREA = MG_HALF_TILE * MG_HALF_TILE };
    const Tiles w = {.d = d,
                     .a = a + batch * d->sa * 2,
                     .b = b + batch * d->sb * 2,
                     .c = c + batch * d->sc * mg_dtype_bytes(d->out),
                     .extra = extra,
                     .ta = scratch,
                     .tb = (float *)scratch + AREA,
                     .tc = (float *)scratch + 2 * AREA,
                     .row = (float *)scratch + 3 * AREA};
    for (int64_t y = 0; y < m; y += MG_HALF_TILE)
        for (int64_t x = 0; x < n; x += MG_HALF_TILE)
            tile(&w, i + y, smaller(MG_HALF_TILE, m - y), j + x, smaller(MG_HALF_TILE, n - x));
}
