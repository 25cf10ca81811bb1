/* test_gemm.c - products against plain loops in double, on random shapes, strides and batches. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"
#include "kernels/product.h"
#include "runtime/sizes.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    mg_gemm_desc d;
    Buffer a, b, c, old, extra, aux; /* old: C before; extra: bias or sums */
} Case;

static mg_gemm_desc random_shape(uint64_t *seed, mg_dtype t, mg_dtype out)
{
    mg_gemm_desc d = {
        .dtype = t, .out = out, .ta = in_range(seed, 0, 1), .tb = in_range(seed, 0, 1)};
    const int64_t max = in_range(seed, 0, 2) ? 40 : 230; /* of rows and columns */
    d.m = in_range(seed, 0, 5) ? in_range(seed, 1, max) : 1;
    d.n = in_range(seed, 0, 5) ? in_range(seed, 1, max) : 1;
    d.k = in_range(seed, 0, 9) ? in_range(seed, 1, in_range(seed, 0, 3) ? max : 3 * MG_BLOCK_K) : 0;
    if (!in_range(seed, 0, 19)) /* more than one block of any type */
        d.k = MG_AMX_K + in_range(seed, 1, 99);
    d.lda = (d.ta ? d.m : d.k) + in_range(seed, 0, 3);
    d.ldb = (d.tb ? d.k : d.n) + in_range(seed, 0, 3);
    d.ldc = d.n + in_range(seed, 0, 1) * in_range(seed, 0, 5);
    d.alpha = in_range(seed, 0, 1) ? 1 : -0.75;
    d.beta = (double)in_range(seed, 0, 1);
    d.batch = in_range(seed, 0, 1) ? 1 : in_range(seed, 2, 5);
    d.sa = (d.ta ? d.k : d.m) * d.lda + in_range(seed, 0, 4);
    d.sb = (d.tb ? d.n : d.k) * d.ldb + in_range(seed, 0, 4);
    d.sc = d.m * d.ldc + in_range(seed, 0, 1) * 3;
    return d;
}

static Case make(uint64_t *seed, mg_gemm_desc d)
{
    Case x = {.d = d};
    x.a = buffer_random(d.dtype, d.batch * d.sa + 1, seed);
    x.b = buffer_random(d.dtype, d.batch * d.sb + 1, seed);
    x.c = buffer_new(d.out, d.batch * d.sc);
    x.old = buffer_random(d.out, d.batch * d.sc, seed);
    x.extra = d.epilogue & MG_BIAS ? buffer_random(d.out, d.n, seed) : buffer_new(d.out, d.n);
    x.aux = d.epilogue == MG_GELU_GRAD ? buffer_random(d.out, d.m * d.ldx, seed)
                                       : buffer_new(d.out, d.m * d.ldx);
    for (int64_t z = 0; z < d.batch && d.beta != 0; z++)
        for (int64_t i = 0; i < d.m; i++)
            for (int64_t j = 0; j < d.n; j++)
                put(&x.c, z * d.sc + i * d.ldc + j, at(&x.old, z * d.sc + i * d.ldc + j));
    return x;
}

static void drop(Case *x)
{
    buffer_free(&x->a);
    buffer_free(&x->b);
    buffer_free(&x->c);
    buffer_free(&x->old);
    buffer_free(&x->extra);
    buffer_free(&x->aux);
}

static void run(Case *x, int threads)
{
    mg_run r = {.threads = threads, .scratch = mg_gemm_scratch(&x->d), .cuts = (uint64_t)threads};
    mg_gemm(&r, 0, &x->d, x->a.p, x->b.p, x->c.p, x->extra.p, x->aux.p);
    assert_int_equal(r.outputs, x->d.batch * x->d.m * x->d.n * (x->d.epilogue & MG_AUX ? 2 : 1) +
                                    (x->d.epilogue == MG_SUM ? x->d.n : 0));
    /* of each panel of B, 32 columns at most; of a few rows, each strip */
    const int64_t wide = x->d.m > MG_FEW_ROWS ? 32 : MG_FEW_N;
    if (x->d.m > 1 && x->d.n > 1 && x->d.k > 0)
        assert_true(r.looks >= x->d.batch * ((x->d.n + wide - 1) / wide));
}

static double tanh_of_gelu(double x)
{
    return tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh_of_gelu(x));
}

static double gelu_slope(double x)
{
    const double t = tanh_of_gelu(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/* The sums, with a bias. */
static double truth(const Case *x, int64_t z, int64_t i, int64_t j)
{
    const mg_gemm_desc *d = &x->d;
    double sum = 0;
    for (int64_t p = 0; p < d->k; p++)
        sum += at(&x->a, z * d->sa + (d->ta ? p * d->lda + i : i * d->lda + p)) *
               at(&x->b, z * d->sb + (d->tb ? j * d->ldb + p : p * d->ldb + j));
    sum *= d->alpha;
    if (d->epilogue & MG_BIAS)
        return sum + at(&x->extra, j);
    return sum + (d->beta != 0 ? at(&x->old, z * d->sc + i * d->ldc + j) : 0);
}

/* A sum of k terms below one is off by at most k (k + 1) / 2 roundings of what has been summed, in
 * practice by some k 2^-24; a result that is a half by its own rounding too. gelu makes that 1.13
 * times larger at most, and so does its slope; their own error is in the four terms more. */
static void check(const Case *x)
{
    const mg_gemm_desc *d = &x->d;
    const double tolerance = (d->dtype == MG_F64 ? 1e-15 : 1e-6) * (double)(d->k + 4);
    for (int64_t e = 0; e < d->batch * d->sc; e++) {
        int64_t z = e / d->sc, i = e % d->sc / d->ldc, j = e % d->sc % d->ldc;
        if (i >= d->m || j >= d->n) {
            assert_true(untouched(&x->c, e));
            continue;
        }
        const double sum = truth(x, z, i, j);
        const double want = d->epilogue & MG_GELU ? gelu(sum)
                            : d->epilogue & MG_GELU_GRAD
                                ? sum * gelu_slope(at(&x->aux, i * d->ldx + j))
                                : sum;
        if (!(fabs(at(&x->c, e) - want) <= 1.2 * tolerance + roundoff(d->out) * fabs(want)))
            fail_msg("m %ld n %ld k %ld, %s%s, type %d, end %d: C[%ld, %ld] is %g, not %g",
                     (long)d->m, (long)d->n, (long)d->k, d->ta ? "a turned " : "",
                     d->tb ? "b turned" : "", (int)d->dtype, d->epilogue, (long)i, (long)j,
                     at(&x->c, e), want);
        if (d->epilogue & MG_AUX)
            assert_true(fabs(at(&x->aux, i * d->ldx + j) - sum) <=
                        tolerance + roundoff(d->out) * fabs(sum));
    }
    for (int64_t e = 0; e < d->m * d->ldx && d->epilogue & MG_AUX; e++)
        assert_true(e % d->ldx < d->n || untouched(&x->aux, e));
    for (int64_t j = 0; j < d->n && d->epilogue == MG_SUM; j++) {
        double sum = 0;
        for (int64_t p = 0; p < d->k; p++)
            sum += at(&x->b, d->tb ? j * d->ldb + p : p * d->ldb + j);
        assert_true(fabs(at(&x->extra, j) - sum) <= tolerance + roundoff(d->out) * fabs(sum));
    }
}

/* At every level: loops over types, and over what comes beside the product. */
static void test_loops(void **state)
{
    (void)state;
    static const mg_dtype types[][2] = {{MG_F32, MG_F32},  {MG_F64, MG_F64}, {MG_BF16, MG_BF16},
                                        {MG_BF16, MG_F32}, {MG_F16, MG_F16}, {MG_F16, MG_F32}};
    uint64_t seed = 11;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int i = 0; i < 360; i++) {
            if (!sampled((uint64_t)i / 6, SANITIZED ? 10 : 4))
                continue;
            pool_level((mgk_level)level);
            mg_gemm_desc d = random_shape(&seed, types[i % 6][0], types[i % 6][1]);
            if (i / 6 % 4 >= 1) {
                static const int ends[] = {MG_BIAS,          MG_SUM,
                                           MG_GELU,          MG_GELU | MG_BIAS,
                                           MG_GELU | MG_AUX, MG_GELU | MG_AUX | MG_BIAS,
                                           MG_GELU_GRAD};
                d.epilogue = (uint8_t)ends[in_range(&seed, 0, d.out == d.dtype ? 6 : 1)];
                d.batch = 1;
                d.beta = d.epilogue == MG_SUM ? d.beta : 0;
                if (d.epilogue & (MG_AUX | MG_GELU_GRAD))
                    d.ldx = d.n + in_range(&seed, 0, 3);
            }
            Case x = make(&seed, d);
            run(&x, 1 + i % 5);
            check(&x);
            drop(&x);
        }
    pool_level(pool_best());
}

/* Shapes that every way of cutting reaches: wide, tall, batches fewer and more than threads. */
static void test_split(void **state)
{
    (void)state;
    uint64_t seed = 12;
    static const int64_t shapes[][4] = {{2100, 40, 64, 1}, {40, 600, 64, 1},   {300, 300, 50, 1},
                                        {130, 70, 90, 2},  {700, 1100, 12, 1}, {64, 64, 64, 9},
                                        {1, 6000, 900, 1}, {6000, 1, 900, 1},  {1, 6000, 900, 2}};
    static const mg_dtype types[] = {MG_F32, MG_BF16};
    for (int i = 0; i < 18; i++)
        for (int threads = 1; threads <= 7; threads++) {
            if (!sampled((uint64_t)(7 * i + threads), SANITIZED ? 8 : 3))
                continue;
            const int64_t *s = shapes[i / 2];
            mg_gemm_desc d = {.dtype = types[i % 2], .out = types[i % 2], .m = s[0], .n = s[1]};
            d.k = s[2], d.batch = s[3];
            d.lda = d.k, d.ldb = d.n, d.ldc = d.n + 2, d.alpha = 1;
            d.sa = d.m * d.k, d.sb = d.k * d.n, d.sc = d.m * d.ldc;
            Case x = make(&seed, d);
            run(&x, threads);
            check(&x);
            drop(&x);
        }
}

/* As many rows as fill tiles, and some more: scratch is as small as it can be. */
static void test_rows(void **state)
{
    (void)state;
    uint64_t seed = 15;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int64_t m = 1; m < 90; m += 1 + m / 32) {
            pool_level((mgk_level)level);
            mg_gemm_desc d = {.dtype = m % 3 ? MG_F32 : MG_F64, .ta = true, .m = m, .n = 3};
            d.out = d.dtype, d.k = MG_BLOCK_K, d.lda = m, d.ldb = d.ldc = 3, d.alpha = 1;
            d.batch = 1, d.sa = d.k * m, d.sb = d.k * 3, d.sc = m * 3;
            Case x = make(&seed, d);
            run(&x, 1);
            check(&x);
            drop(&x);
        }
    pool_level(pool_best());
}

/* Any number of threads gives the same bits, wherever the pool cuts. */
static void test_bits(void **state)
{
    (void)state;
    static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16};
    uint64_t seed = 13;
    for (int i = 0; i < 6; i++) {
        const mg_dtype t = types[i / 2];
        mg_gemm_desc d = {.dtype = t, .out = t, .ta = i % 2, .tb = i % 2, .m = 200, .n = 300};
        d.k = 2 * MG_BLOCK_K + 37, d.lda = d.ldb = d.k + 300, d.ldc = 300, d.alpha = 1;
        d.batch = 1, d.sa = d.sb = d.lda * d.lda, d.sc = d.m * d.ldc;
        Case x = make(&seed, d);
        run(&x, 1);
        Buffer first = x.c;
        for (int threads = 2; threads < 7; threads++) {
            x.c = buffer_new(t, d.sc);
            run(&x, threads);
            assert_true(same_bits(&first, &x.c));
            buffer_free(&x.c);
        }
        x.c = first;
        drop(&x);
    }
}

/* The rows of a product of a few rows have the bits that they have among many (but on the tiles of
 * AMX, whose sums are others). */
static void test_few(void **state)
{
    (void)state;
    static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16, MG_F16};
    const mgk_level best = pool_best() < MGK_PAIRS ? pool_best() : MGK_PAIRS;
    uint64_t seed = 23;
    for (int level = MGK_BASE; level <= (int)best; level++)
        for (int i = 0; i < 64; i++) {
            pool_level((mgk_level)level);
            mg_gemm_desc d = random_shape(&seed, types[i % 4], types[i % 4]);
            d.batch = 1, d.m = 2 * MG_FEW_ROWS + in_range(&seed, 1, 30), d.k += 1;
            d.n = in_range(&seed, 2, i % 3 ? 90 : 1100);
            d.lda = d.ta ? d.m : d.k, d.ldb = (d.tb ? d.k : d.n) + in_range(&seed, 0, 3);
            d.ldc = d.n, d.sa = d.m * d.k, d.sb = (d.tb ? d.n : d.k) * d.ldb, d.sc = d.m * d.n;
            Case x = make(&seed, d);
            const int64_t from = in_range(&seed, 0, MG_FEW_ROWS), each = mg_dtype_bytes(d.dtype);
            mg_gemm_desc few = d;
            few.m = in_range(&seed, 1, MG_FEW_ROWS);
            Buffer c = buffer_new(d.out, few.m * d.n);
            if (d.beta != 0)
                memcpy(c.p, (char *)x.c.p + from * d.n * each, (size_t)(few.m * d.n * each));
            run(&x, 1);
            mg_run r = {.threads = 1 + i % 4, .scratch = mg_gemm_scratch(&few), .cuts = seed};
            mg_gemm(&r, 0, &few, (char *)x.a.p + from * (d.ta ? 1 : d.lda) * each, x.b.p, c.p, NULL,
                    NULL);
            assert_memory_equal(c.p, (char *)x.c.p + from * d.n * each,
                                (size_t)(few.m * d.n * each));
            buffer_free(&c);
            drop(&x);
        }
    pool_level(pool_best());
}

/* A row of a product of a few has the bits that it has alone, on any level, however the columns are
 * cut: what is computed of a text does not depend on those beside it. */
static void test_alone(void **state)
{
    (void)state;
    static const mg_dtype types[] = {MG_F32, MG_BF16, MG_F16, MG_F64};
    uint64_t seed = 29;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int i = 0; i < 48; i++) {
            pool_level((mgk_level)level);
            mg_gemm_desc d = random_shape(&seed, types[i % 4], types[i % 4]);
            d.batch = 1, d.m = in_range(&seed, 2, MG_FEW_ROWS), d.k += 1, d.beta = 0;
            d.n = in_range(&seed, 2, i % 6 ? 90 : 2 * MG_FEW_N + 50);
            d.ta = false;
            d.lda = d.k, d.ldb = (d.tb ? d.k : d.n) + in_range(&seed, 0, 3);
            d.ldc = d.n, d.sa = d.m * d.k, d.sb = (d.tb ? d.n : d.k) * d.ldb, d.sc = d.m * d.n;
            Case x = make(&seed, d);
            const int64_t row = in_range(&seed, 0, d.m - 1), each = mg_dtype_bytes(d.dtype);
            mg_gemm_desc one = d;
            one.m = 1;
            Buffer c = buffer_new(d.out, d.n);
            run(&x, 1 + i % 3);
            check(&x);
            mg_run r = {.threads = 1 + i % 4, .scratch = mg_gemm_scratch(&one), .cuts = seed};
            mg_gemm(&r, 0, &one, (char *)x.a.p + row * d.lda * each, x.b.p, c.p, NULL, NULL);
            assert_memory_equal(c.p, (char *)x.c.p + row * d.n * each, (size_t)(d.n * each));
            buffer_free(&c);
            drop(&x);
        }
    pool_level(pool_best());
}

/* The context of a test's kernel: C, a copy of it, and how often each piece was asked for. */
typedef struct Pieces {
    mg_dtype t;
    int64_t n;
    char *c, *copy;
    int *times;
} Pieces;

static void copy_pieces(void *const *p, int64_t begin, int64_t end)
{
    const Pieces *w = p[1];
    const int64_t tiles = w->n / MG_TILE, bytes = MG_TILE * mg_dtype_bytes(w->t);
    assert_true(begin < end && begin / tiles == (end - 1) / tiles);
    for (int64_t u = begin; u < end; u++) { /* of one thread each */
        w->times[u]++;
        memcpy(w->copy + u * bytes, w->c + u * bytes, (size_t)bytes);
        memset(w->c + u * bytes, 0x11, (size_t)bytes);
    }
}

/* A kernel that goes on with a product sees each piece once, when it is what the product gives; and
 * may write over it. */
static void test_then(void **state)
{
    (void)state;
    static const mg_dtype types[][2] = {{MG_F32, MG_F32},  {MG_F64, MG_F64}, {MG_BF16, MG_BF16},
                                        {MG_BF16, MG_F32}, {MG_F16, MG_F16}, {MG_F16, MG_F32}};
    uint64_t seed = 19;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int i = 0; i < 96; i++) {
            if (!sampled((uint64_t)i / 6, SANITIZED ? 8 : 4))
                continue;
            pool_level((mgk_level)level);
            mg_gemm_desc d = random_shape(&seed, types[i % 6][0], types[i % 6][1]);
            d.m = in_range(&seed, 0, 3) ? in_range(&seed, 1, 90) : in_range(&seed, 250, 700);
            d.n = MG_TILE * (in_range(&seed, 0, 3) ? in_range(&seed, 1, 5) : 35);
            d.lda = d.ta ? d.m : d.k + 1, d.ldb = d.tb ? d.k + 1 : d.n, d.ldc = d.n;
            d.batch = 1, d.sa = (d.ta ? d.k : d.m) * d.lda, d.sb = (d.tb ? d.n : d.k) * d.ldb;
            d.sc = d.m * d.n;
            if (i / 6 % 2) {
                d.epilogue = d.out == d.dtype && i / 12 % 2 ? MG_GELU | MG_BIAS : MG_BIAS;
                d.beta = 0;
            }
            Case x = make(&seed, d);
            Buffer c = buffer_new(d.out, d.sc), copy = buffer_new(d.out, d.sc);
            if (d.beta != 0)
                memcpy(c.p, x.c.p, (size_t)(d.sc * mg_dtype_bytes(d.out)));
            run(&x, 1);
            const int64_t pieces = d.sc / MG_TILE;
            Pieces w = {d.out, d.n, c.p, copy.p, calloc((size_t)pieces, sizeof(int))};
            mg_run r = {.threads = 1 + i % 5, .scratch = mg_gemm_scratch(&d), .cuts = seed};
            mg_gemm_epilogue(&r, 0, &d, x.a.p, x.b.p, c.p, x.extra.p, x.aux.p, copy_pieces,
                             (void *[]){c.p, &w});
            assert_true(same_bits(&x.c, &copy));
            assert_int_equal(r.outputs, 0); /* the test's kernel wrote over C */
            int64_t wrong = 0;
            for (int64_t u = 0; u < pieces; u++)
                wrong += w.times[u] != 1;
            for (int64_t b = 0; b < d.sc * mg_dtype_bytes(d.out); b++)
                wrong += ((char *)c.p)[b] != 0x11;
            assert_int_equal(wrong, 0);
            free(w.times);
            buffer_free(&c);
            buffer_free(&copy);
            drop(&x);
        }
    pool_level(pool_best());
}

/* Root mean square of the errors of a product in f32, by that of its results: of numbers of any
 * sign and of very different sizes, where a part that was dropped would show. */
static double error_of(mgk_level level, mg_dtype t, int64_t k, bool positive)
{
    uint64_t seed = 17;
    mg_gemm_desc d = {.dtype = t, .out = MG_F32, .tb = true, .m = 48, .n = 40, .k = k};
    d.lda = d.ldb = k, d.ldc = d.n, d.alpha = 1, d.batch = 1;
    d.sa = d.m * k, d.sb = d.n * k, d.sc = d.m * d.n;
    Case x = make(&seed, d);
    for (int64_t e = 0; e < d.sa; e++)
        put(&x.a, e, (positive ? fabs(at(&x.a, e)) : at(&x.a, e)) * ldexp(1, (int)(e % 24) - 12));
    for (int64_t e = 0; e < d.sb && positive; e++)
        put(&x.b, e, fabs(at(&x.b, e)));
    pool_level(level);
    run(&x, 1);
    double wrong = 0, all = 0;
    for (int64_t i = 0; i < d.m; i++)
        for (int64_t j = 0; j < d.n; j++) {
            const double want = truth(&x, 0, i, j), off = at(&x.c, i * d.ldc + j) - want;
            wrong += off * off;
            all += want * want;
        }
    drop(&x);
    pool_level(pool_best());
    return sqrt(wrong / all);
}

/* Roundings of a block's sums, which grow as their root does; and a float as three bf16 is no less
 * exact than multiply-adds (a part left out would be 2^-16). */
static void test_error(void **state)
{
    (void)state;
    static const int64_t terms[] = {1, 16, 64, 300, 2048};
    for (int i = 0; i < 10; i++) {
        const int64_t k = terms[i / 2];
        double of[MGK_AMX + 1];
        for (int level = MGK_BASE; level <= (int)pool_best(); level++) {
            of[level] = error_of((mgk_level)level, MG_F32, k, i % 2) * 0x1p24;
            const double halves = error_of((mgk_level)level, MG_BF16, k, i % 2) * 0x1p24;
            if (!(fmax(of[level], halves) <= 1 + 0.3 * sqrt((double)(k < 512 ? k : 512))))
                fail_msg("%s: sums of %ld terms are off by %g of 2^-24, of bf16 by %g",
                         pool_level_name((mgk_level)level), (long)k, of[level], halves);
        }
        if (pool_best() == MGK_AMX && !(of[MGK_AMX] <= 1.1 * of[MGK_V4]))
            fail_msg("sums of %ld terms are off by %g of 2^-24 on tiles, %g by multiply-adds",
                     (long)k, of[MGK_AMX], of[MGK_V4]);
    }
}

/* Numbers of every size down to the smallest there is, beside others: on tiles the last parts of
 * some are subnormal, which is zero there, and by pairs; and nothing of that may come near a
 * neighbour. */
static void test_small(void **state)
{
    (void)state;
    uint64_t seed = 19;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int turned = 0; turned < 8; turned++) {
            const mg_dtype t = turned & 4 ? MG_BF16 : MG_F32;
            mg_gemm_desc d = {.dtype = t, .out = t, .m = 60, .n = 50, .k = 231};
            d.ta = turned & 1, d.tb = turned & 2, d.epilogue = MG_SUM;
            d.lda = d.ta ? d.m : d.k, d.ldb = d.tb ? d.k : d.n, d.ldc = d.n;
            d.alpha = 1, d.batch = 1;
            d.sa = d.m * d.k, d.sb = d.n * d.k, d.sc = d.m * d.n;
            pool_level((mgk_level)level);
            Case x = make(&seed, d);
            for (int64_t e = 0; e < d.sa; e++)
                put(&x.a, e, ldexp(at(&x.a, e), -(int)(e % 151)));
            for (int64_t e = 0; e < d.sb; e++)
                put(&x.b, e, ldexp(at(&x.b, e), -(int)(e % 149)));
            run(&x, 1);
            check(&x);
            drop(&x);
        }
    pool_level(pool_best());
}

/* Subnormal terms of bf16, times numbers that would make the sums normal, are zero where the
 * processor multiplies bf16 itself (pairs.h, amx.h); elsewhere they count. It does where it can. */
static void test_subnormal(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16"))
        assert_true(pool_best() >= MGK_PAIRS);
#endif
    uint64_t seed = 23;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++) {
        mg_gemm_desc d = {.dtype = MG_BF16, .out = MG_F32, .tb = true, .m = 30, .n = 40, .k = 33};
        d.lda = d.ldb = d.k, d.ldc = d.n, d.alpha = 1, d.batch = 1;
        d.sa = d.m * d.k, d.sb = d.n * d.k, d.sc = d.m * d.n;
        pool_level((mgk_level)level);
        Case x = make(&seed, d);
        for (int64_t e = 0; e < d.sa; e++)
            put(&x.a, e, 0x1p-130);
        for (int64_t e = 0; e < d.sb; e++)
            put(&x.b, e, 0x1p120);
        run(&x, 1);
        for (int64_t e = 0; e < d.sc; e++)
            assert_true(at(&x.c, e) == (level >= MGK_PAIRS ? 0 : 33 * 0x1p-10));
        drop(&x);
    }
    pool_level(pool_best());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops), cmocka_unit_test(test_split),
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_bits),
        cmocka_unit_test(test_few),   cmocka_unit_test(test_alone),
        cmocka_unit_test(test_then),  cmocka_unit_test(test_error),
        cmocka_unit_test(test_small), cmocka_unit_test(test_subnormal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
