/* gemm.c - runs a matrix product on the thread pool, in parts.
 *
 * One thread computes each part of the result, and the order of a sum depends only on its length: a
 * product gives the same bits on any number of threads. */
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/output.h"
#include "kernels/product.h"

enum {
    SMALL = 1 << 20, /* floating-point operations below which a part is not worth a thread */
    WIDE = MG_TILE,  /* columns of a part are multiples of this: whole panels of any vector unit */
    HIGH = 2,        /* rows of a part are multiples of this, because tiles share pairs of rows, */
    TILES = 32,      /* ... on AMX of this: pairs of tiles */
};

typedef struct Job {
    mg_run *run;
    const mg_gemm_desc *d;
    const char *a, *b;
    char *c, *extra, *aux;
    const mgk_epilogue *call;
    const mgk_taps *of_a, *of_b;
    const mgk_dims *of_c;
    int64_t staged;        /* bytes into the scratch */
    int64_t rows, cols;    /* parts of m and of n */
    int64_t height, width; /* of a part */
    int64_t strips, strip; /* of a part, side by side; columns of one */
    int64_t slices, slice; /* of a strip, one below the other: a unit each; rows of one */
    bool few;              /* rows: few_body.h */
} Job;

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Chooses the grid of `want` parts that reads the least: a part of height x width reads (height +
 * width) k numbers for height x width x k multiplications. If one dim is much larger than the
 * other, only that dim is cut. */
static void choose_grid(Job *w, int64_t want)
{
    const int64_t m = w->d->m, n = w->d->n, high = mgk_tiled(w->d) ? TILES : HIGH;
    int64_t best = INT64_MAX;
    w->rows = w->cols = 1;
    for (int64_t rows = 1; rows <= want; rows++) {
        if (want % rows)
            continue;
        int64_t height = round_up((m + rows - 1) / rows, high);
        int64_t width = round_up((n + want / rows - 1) / (want / rows), WIDE);
        /* First the size of the largest part, which decides when all are done; then the numbers
         * read. */
        int64_t cost = smaller(height, m) * smaller(width, n) * 64 + height + width;
        if (cost <= best) { /* of equal ones the most rows: a packed row of A serves more columns */
            best = cost;
            w->rows = rows;
            w->cols = want / rows;
        }
    }
    w->height = round_up((m + w->rows - 1) / w->rows, high);
    w->width = round_up((n + w->cols - 1) / w->cols, WIDE);
}

static void parts(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const Job *w = ctx;
    const mg_gemm_desc *d = w->d;
    const int64_t in = mg_dtype_bytes(d->dtype), out = mg_dtype_bytes(d->out);
    for (int64_t u = begin; u < end; u++) {
        const int64_t slice = u % w->slices, strip = u / w->slices % w->strips;
        const int64_t p = u / w->slices / w->strips, batch = p / w->cols / w->rows;
        mgk_product part = {.run = w->run,
                            .d = d,
                            .a = w->a + batch * d->sa * in,
                            .b = w->b + batch * d->sb * in,
                            .c = w->c + batch * d->sc * out,
                            .extra = w->extra,
                            .aux = w->aux,
                            .call = w->call,
                            .of_a = w->of_a,
                            .of_b = w->of_b,
                            .of_c = w->of_c,
                            .staged = (char *)scratch + w->staged,
                            .few = w->few,
                            .i = p / w->cols % w->rows * w->height + slice * w->slice,
                            .j = p % w->cols * w->width + strip * w->strip};
        if (w->slices * w->strips * w->cols * w->rows == 1 && u + 1 < end && !w->of_a && !w->of_b) {
            part.next_a = (const char *)part.a + d->sa * in;
            part.next_b = (const char *)part.b + d->sb * in;
        }
        part.m = smaller(smaller(w->height - slice * w->slice, d->m - part.i), w->slice);
        part.n = smaller(smaller(w->width - strip * w->strip, d->n - part.j), w->strip);
        if (part.m > 0 && part.n > 0)
            mgk_product_part(&part, scratch);
    }
}

static void check(const mg_gemm_desc *d)
{
    const bool half = d->dtype == MG_BF16 || d->dtype == MG_F16;
    mgk_float(d->dtype, "mg_gemm");
    if (d->out != d->dtype && !(half && d->out == MG_F32))
        mgk_fatal("mg_gemm", "the result must have the operands' type, or f32 for halves");
    if (d->variant != 0)
        mgk_fatal("mg_gemm", "only variant 0 is built");
    if (d->epilogue != MG_PLAIN && d->batch != 1)
        mgk_fatal("mg_gemm", "an epilogue needs a single product, not a batch");
    if (d->epilogue & ~MG_SUM && d->beta != 0)
        mgk_fatal("mg_gemm", "beta 1 allows no epilogue but sums");
    if (d->epilogue & (MG_GELU | MG_GELU_GRAD) && d->out != d->dtype)
        mgk_fatal("mg_gemm", "the result of gelu must have the operands' type");
    if (d->beta != 0 && d->beta != 1)
        mgk_fatal("mg_gemm", "beta has to be 0 or 1");
}

/* The transposed product of a single column, which becomes a row: vectors lie along rows. */
static mg_gemm_desc turned(const mg_gemm_desc *d)
{
    mg_gemm_desc t = *d;
    t.ta = !d->tb, t.tb = !d->ta;
    t.m = d->n, t.n = d->m;
    t.lda = d->ldb, t.ldb = d->lda, t.ldc = d->m;
    t.sa = d->sb, t.sb = d->sa;
    return t;
}

/* Cuts the strips into slices, so that a thread can take over some of another's (runtime/pool.c).
 * Each slice packs the columns of B once more. It therefore has at least the rows of a block of A,
 * or half of them if B is packed while it is multiplied, which costs less. */
static void choose_slices(Job *w, int64_t threads)
{
    enum { UNITS = 8 }; /* of a thread: more would not balance it better than pieces of a range */
    const mg_gemm_desc *d = w->d;
    const bool tiles = mgk_tiled(d);
    const bool packs = d->tb || w->of_b || d->dtype == MG_BF16 || d->dtype == MG_F16;
    const int64_t least = tiles ? MG_AMX_ROWS : packs ? 512 : 256;
    const double flops = 2.0 * (double)w->height * (double)w->strip * (double)d->k;
    const int64_t have = d->batch * w->rows * w->cols * w->strips;
    int64_t most = (UNITS * threads + have - 1) / have;
    most = smaller(most, smaller(w->height / least, (int64_t)(flops / SMALL)));
    w->slices = most > 1 ? most : 1;
    w->slice = round_up((w->height + w->slices - 1) / w->slices, tiles ? TILES : HIGH);
}

/* How many strips of columns a product of a few rows is cut into: as many for each thread, some so
 * that another can take over what is left of a slow one's. Where columns are contiguous, a strip
 * reads a piece of each row of B, and of short ones memory reads more than is used. */
static int64_t few_strips(const mg_gemm_desc *d, int64_t threads)
{
    enum { EACH = 4, WORTH = 1 << 16, LONG = 4096 }; /* of a thread; bytes of a strip, of a row */
    const int64_t each = mg_dtype_bytes(d->dtype), widest = (d->n + MG_FEW_N - 1) / MG_FEW_N;
    const int64_t share = (threads + d->batch - 1) / d->batch; /* of threads, of this product */
    if (threads == 1)
        return widest;
    int64_t most =
        smaller((EACH * threads + d->batch - 1) / d->batch, d->n * d->k * each / WORTH + 1);
    if (!d->tb && most > share)
        most =
            smaller(most, d->n * each / LONG) > share ? smaller(most, d->n * each / LONG) : share;
    return most > widest ? most : (widest + share - 1) / share * share;
}

/* A few rows: a unit is a strip of columns. Its time is that of reading B. */
static void run_few(Job *w)
{
    enum { WORTH = 1 << 16 }; /* bytes that are worth a thread */
    const mg_gemm_desc *d = w->d;
    const int64_t bytes = d->n * d->k * mg_dtype_bytes(d->dtype);
    w->few = true;
    w->cols = w->rows = w->slices = 1;
    w->height = w->slice = d->m;
    w->width = d->n;
    w->strips = few_strips(d, mg_threads(w->run));
    w->strip = round_up((d->n + w->strips - 1) / w->strips, WIDE);
    w->strips = (d->n + w->strip - 1) / w->strip;
    mg_parallel(w->run, d->batch * w->strips, bytes < WORTH ? WORTH / (bytes + 1) : 1, parts, w);
}

static void run_parts(Job *w)
{
    const mg_gemm_desc *d = w->d;
    const int64_t threads = mg_threads(w->run);
    if (d->m <= MG_FEW_ROWS && !w->of_a && !w->of_b && !w->of_c && d->epilogue != MG_SUM) {
        run_few(w);
        return;
    }
    const double flops = 2.0 * (double)d->m * (double)d->n * (double)d->k;
    double worth = flops * (double)d->batch / SMALL;
    int64_t want = worth < 1 ? 1 : worth < (double)threads ? (int64_t)worth : threads;
    /* Whole products if there are enough of them, otherwise parts of each. */
    choose_grid(w, d->batch >= want ? 1 : (want + d->batch - 1) / d->batch);
    /* Strips are alike: each packs its rows of A once more, which a narrow one would hardly use. */
    w->strips = (w->width + MG_BLOCK_N - 1) / MG_BLOCK_N;
    w->strip = round_up((w->width + w->strips - 1) / w->strips, WIDE);
    choose_slices(w, threads);
    const int64_t units = d->batch * w->rows * w->cols * w->strips * w->slices;
    mg_parallel(w->run, units, want < threads ? (units + want - 1) / want : 1, parts, w);
}

static void gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c,
                 void *extra, void *aux, const mgk_epilogue *call)
{
    check(d);
    if (call && (d->batch != 1 || d->n % MG_TILE))
        mgk_fatal("mg_gemm_epilogue",
                  "an epilogue kernel needs a single product with whole tiles of columns");
    if (d->m == 0 || d->n == 0)
        return;
    const mg_gemm_desc column = turned(d);
    const bool turns = d->n == 1 && d->ldc == 1 && d->epilogue == MG_PLAIN && !call;
    Job w = {.run = r,
             .d = turns ? &column : d,
             .a = turns ? b : a,
             .b = turns ? a : b,
             .c = c,
             .extra = extra,
             .aux = aux,
             .call = call};
    run_parts(&w);
}

void mgk_gemm_taps(mg_run *r, const mg_gemm_desc *d, const mgk_taps *of_a, const mgk_taps *of_b,
                   const mgk_dims *of_c, int64_t staged, const void *a, const void *b, void *c)
{
    Job w = {.run = r,
             .d = d,
             .a = a,
             .b = b,
             .c = c,
             .of_a = of_a,
             .of_b = of_b,
             .of_c = of_c,
             .staged = staged};
    check(d);
    if (d->m && d->n)
        run_parts(&w);
}

void mgk_gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c, void *extra,
              void *aux)
{
    gemm(r, d, a, b, c, extra, aux, NULL);
}

static void outputs(mg_run *r, int action, const mg_gemm_desc *d, const void *c, const void *extra,
                    const void *aux)
{
    if (d->epilogue & MG_AUX)
        mgk_output(r, action, aux, d->out, 2, (int64_t[]){d->m, d->n}, (int64_t[]){d->ldx, 1});
    if (d->epilogue == MG_SUM)
        mg_output(r, action, extra, d->n, d->out);
    if (c)
        mgk_output(r, action, c, d->out, 3, (int64_t[]){d->batch, d->m, d->n},
                   (int64_t[]){d->sc, d->ldc, 1});
}

void mg_gemm(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b, void *c,
             void *extra, void *aux)
{
    mg_begin(r, action);
    gemm(r, d, a, b, c, extra, aux, NULL);
    mg_end(r, action);
    outputs(r, action, d, c, extra, aux);
}

void mg_gemm_epilogue(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b,
                      void *c, void *extra, void *aux, mg_kernel *k, void *const *p)
{
    const mgk_epilogue call = {k, p};
    mg_begin(r, action);
    gemm(r, d, a, b, c, extra, aux, &call);
    mg_end(r, action);
    outputs(r, action, d, mg_outputs(r, action, p, c) ? NULL : c, extra, aux);
}
