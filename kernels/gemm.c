/* gemm.c - matrix products: the library's, on parts of the result, one part a thread.
 *
 * The split depends on the shape and the number of threads alone, and each part is computed by one
 * call, so a product gives the same bits whenever it is run on as many threads. */
#include "kernels/gemm.h"
#include "kernels/blas.h"
#include "kernels/isa.h"
#include "kernels/output.h"

#include <limits.h>
#include <string.h>

enum {
    SMALL = 1 << 20, /* floating-point operations below which a part is not worth a thread */
    STEP = 32,       /* parts are multiples of this: whole micro-kernels of any OpenBLAS core */
};

typedef struct Job {
    const mg_gemm_desc *d;
    const mgk_blas *blas;
    const char *a, *b;
    char *c, *extra;
    int64_t rows, cols;    /* parts of m and of n */
    int64_t height, width; /* of a part */
} Job;

static bool is_half(const mg_gemm_desc *d)
{
    return d->dtype == MG_BF16 || d->dtype == MG_F16;
}

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows [i, i + m) and columns [j, j + n) of one product. */
static void part(const Job *w, int64_t batch, int64_t i, int64_t m, int64_t j, int64_t n)
{
    const mg_gemm_desc *d = w->d;
    const int64_t bytes = mg_dtype_bytes(d->dtype);
    const char *a = w->a + (batch * d->sa + (d->ta ? i : i * d->lda)) * bytes;
    const char *b = w->b + (batch * d->sb + (d->tb ? j * d->ldb : j)) * bytes;
    char *c = w->c + (batch * d->sc + i * d->ldc + j) * bytes;
    const int ta = d->ta ? MGK_TRANS : MGK_NO_TRANS, tb = d->tb ? MGK_TRANS : MGK_NO_TRANS;
    const int lda = (int)d->lda, ldb = (int)d->ldb, ldc = (int)d->ldc, k = (int)d->k;
    if (d->dtype == MG_F64)
        w->blas->dgemm(MGK_ROW_MAJOR, ta, tb, (int)m, (int)n, k, d->alpha, (const double *)a, lda,
                       (const double *)b, ldb, d->beta, (double *)c, ldc);
    else
        w->blas->sgemm(MGK_ROW_MAJOR, ta, tb, (int)m, (int)n, k, (float)d->alpha, (const float *)a,
                       lda, (const float *)b, ldb, (float)d->beta, (float *)c, ldc);
}

/* A part of height x width reads (height + width) k numbers for height x width x k multiplications:
 * the grid of `want` parts that reads least. Where one dim is much the larger it is the one cut. */
static void choose_grid(Job *w, int64_t want)
{
    const int64_t m = w->d->m, n = w->d->n;
    int64_t best = INT64_MAX;
    w->rows = w->cols = 1;
    for (int64_t rows = 1; rows <= want; rows++) {
        if (want % rows)
            continue;
        int64_t height = round_up((m + rows - 1) / rows, STEP);
        int64_t width = round_up((n + want / rows - 1) / (want / rows), STEP);
        /* What is read, and before it, the largest part: it decides when all are done. */
        int64_t cost = smaller(height, m) * smaller(width, n) * 64 + height + width;
        if (cost < best) {
            best = cost;
            w->rows = rows;
            w->cols = want / rows;
        }
    }
    w->height = round_up((m + w->rows - 1) / w->rows, STEP);
    w->width = round_up((n + w->cols - 1) / w->cols, STEP);
}

/* C = 0 or C: what is left of a product with nothing to sum. */
static void clear(const mg_gemm_desc *d, char *c)
{
    const int64_t bytes = mg_dtype_bytes(d->out);
    if (d->beta == 0)
        for (int64_t batch = 0; batch < d->batch; batch++)
            for (int64_t i = 0; i < d->m; i++)
                memset(c + (batch * d->sc + i * d->ldc) * bytes, 0, (size_t)(d->n * bytes));
}

/* Elements [from, from + length) of a C of one row or one column, as matrix times vector: nothing
 * is packed. The matrix is op(A) for a column and op(B)^T for a row. */
static void vector(const Job *w, int64_t batch, int64_t from, int64_t length)
{
    const mg_gemm_desc *d = w->d;
    const int64_t bytes = mg_dtype_bytes(d->dtype);
    const bool column = d->n == 1;
    const char *matrix = column ? w->a + batch * d->sa * bytes : w->b + batch * d->sb * bytes;
    const char *x = column ? w->b + batch * d->sb * bytes : w->a + batch * d->sa * bytes;
    const int64_t ld = column ? d->lda : d->ldb;
    const bool trans = column ? d->ta : !d->tb; /* stored k x length */
    const int rows = (int)(trans ? d->k : length), cols = (int)(trans ? length : d->k);
    const int incx = column ? (d->tb ? 1 : (int)d->ldb) : (d->ta ? (int)d->lda : 1);
    const int incy = column ? (int)d->ldc : 1, t = trans ? MGK_TRANS : MGK_NO_TRANS;
    char *c = w->c + (batch * d->sc + from * incy) * bytes;
    matrix += from * (trans ? 1 : ld) * bytes;
    /* With beta 0 the library may scale what is there, which a NaN outlives. */
    if (d->beta == 0)
        for (int64_t i = 0; i < length; i++)
            memset(c + i * incy * bytes, 0, (size_t)bytes);
    if (d->dtype == MG_F64)
        w->blas->dgemv(MGK_ROW_MAJOR, t, rows, cols, d->alpha, (const double *)matrix, (int)ld,
                       (const double *)x, incx, 1, (double *)c, incy);
    else
        w->blas->sgemv(MGK_ROW_MAJOR, t, rows, cols, (float)d->alpha, (const float *)matrix,
                       (int)ld, (const float *)x, incx, 1, (float *)c, incy);
}

static void parts(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const Job *w = ctx;
    for (int64_t u = begin; u < end; u++) {
        int64_t j = u % w->cols * w->width, i = u / w->cols % w->rows * w->height;
        int64_t m = smaller(w->height, w->d->m - i), n = smaller(w->width, w->d->n - j);
        if (m <= 0 || n <= 0)
            continue;
        if (is_half(w->d))
            mgk_gemm_half(w->d, u / w->cols / w->rows, i, m, j, n, w->a, w->b, w->c, w->extra,
                          scratch);
        else if (w->d->m == 1 || w->d->n == 1)
            vector(w, u / w->cols / w->rows, i + j, m * n);
        else
            part(w, u / w->cols / w->rows, i, m, j, n);
    }
}

static void check(const mg_gemm_desc *d)
{
    mgk_float(d->dtype, "mg_gemm");
    if (d->out != d->dtype && !(is_half(d) && d->out == MG_F32))
        mgk_fatal("mg_gemm", "the result has the operands' type, or of halves f32");
    if (d->variant != 0)
        mgk_fatal("mg_gemm", "only variant 0 is built");
    if (d->epilogue != MG_PLAIN && (!is_half(d) || d->batch != 1))
        mgk_fatal("mg_gemm", "bias and sums are built for single products of halves alone");
    if (d->beta != 0 && d->beta != 1)
        mgk_fatal("mg_gemm", "beta has to be 0 or 1");
    const int64_t sizes[] = {d->m, d->n, d->k, d->lda, d->ldb, d->ldc};
    for (int i = 0; i < 6; i++)
        if (sizes[i] > INT_MAX)
            mgk_fatal("mg_gemm", "a size or leading dimension exceeds the library's 2^31 - 1");
}

void mgk_gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c, void *extra)
{
    check(d);
    if (d->m == 0 || d->n == 0)
        return;
    if (d->k == 0 && d->epilogue == MG_PLAIN) {
        clear(d, c);
        return;
    }
    Job w = {.d = d, .blas = mgk_blas_get(), .a = a, .b = b, .c = c, .extra = extra};
    const int64_t threads = mg_threads(r);
    const double flops = 2.0 * (double)d->m * (double)d->n * (double)d->k;
    double worth = flops * (double)d->batch / SMALL;
    int64_t want = worth < 1 ? 1 : worth < (double)threads ? (int64_t)worth : threads;
    /* Whole products where there are enough of them, else parts of each. */
    choose_grid(&w, d->batch >= want ? 1 : (want + d->batch - 1) / d->batch);
    const int64_t units = d->batch * w.rows * w.cols;
    if (want == 1 && !is_half(d))
        parts(&w, 0, units, NULL);
    else
        mg_parallel(r, units, want == 1 ? units : 1, parts, &w);
}

void mg_gemm(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b, void *c,
             void *extra)
{
    mg_begin(r, action);
    mgk_gemm(r, d, a, b, c, extra);
    mg_end(r, action);
    if (d->epilogue == MG_SUM)
        mg_output(r, action, extra, d->n, d->out);
    mgk_output(r, action, c, d->out, 3, (int64_t[]){d->batch, d->m, d->n},
               (int64_t[]){d->sc, d->ldc, 1});
}
