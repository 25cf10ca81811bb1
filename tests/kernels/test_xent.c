/* test_xent.c - cross-entropy and the head against plain loops in double and finite differences. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"
#include "runtime/sizes.h"

#include <math.h>
#include <stdlib.h>

typedef struct Case {
    mg_head_desc d; /* d.xent alone for mg_xent */
    int32_t *target;
    Buffer x, w, z, dloss, loss, lse, dz, dx, dw, dw0; /* dw0: dw before */
} Case;

static mg_head_desc random_shape(uint64_t *seed, mg_dtype t)
{
    mg_head_desc d = {.xent = {.dtype = t}, .dw = in_range(seed, 0, 1) ? t : mgk_wide(t)};
    d.xent.rows = in_range(seed, 1, 40);
    d.xent.valid = in_range(seed, 0, 1) ? in_range(seed, 1, 60) : in_range(seed, 60, 500);
    d.xent.vocab = d.xent.valid + in_range(seed, 0, 1) * in_range(seed, 1, 20);
    d.xent.dloss_stride = in_range(seed, 0, 1);
    d.xent.target_inner = in_range(seed, 1, 9);
    d.xent.target_outer = d.xent.target_inner + in_range(seed, 0, 2);
    d.hidden = in_range(seed, 1, 50);
    d.chunk = in_range(seed, 1, 45);
    d.w_by_vocab = in_range(seed, 0, 1);
    d.dw_accumulate = in_range(seed, 0, 1);
    d.frozen = !d.dw_accumulate && in_range(seed, 0, 1);
    return d;
}

static int64_t target_of(const Case *x, int64_t row)
{
    const mg_xent_desc *d = &x->d.xent;
    return x->target[row / d->target_inner * d->target_outer + row % d->target_inner];
}

static Case make(uint64_t *seed, mg_head_desc d)
{
    Case x = {.d = d};
    const mg_dtype t = d.xent.dtype, wide = mgk_wide(t);
    const int64_t rows = d.xent.rows, vocab = d.xent.vocab;
    const int64_t n = (rows / d.xent.target_inner + 1) * d.xent.target_outer;
    x.target = malloc((size_t)n * sizeof *x.target);
    for (int64_t i = 0; i < n; i++)
        x.target[i] = (int32_t)in_range(seed, 0, d.xent.valid - 1);
    x.x = buffer_random(t, rows * d.hidden, seed);
    x.w = buffer_random(t, d.hidden * vocab, seed);
    x.z = buffer_random(t, rows * vocab, seed);
    for (int64_t i = 0; i < rows * vocab; i++)
        put(&x.z, i, i % vocab < d.xent.valid ? 8 * at(&x.z, i) : NAN); /* masked: never read */
    x.dloss = buffer_random(wide, d.xent.dloss_stride ? rows : 1, seed);
    x.loss = buffer_new(wide, rows);
    x.lse = buffer_new(wide, rows);
    x.dz = buffer_new(t, rows * vocab);
    x.dx = buffer_new(t, rows * d.hidden);
    x.dw = buffer_new(d.dw, d.hidden * vocab);
    x.dw0 = buffer_random(d.dw, d.hidden * vocab, seed);
    for (int64_t i = 0; i < d.hidden * vocab && d.dw_accumulate; i++)
        put(&x.dw, i, at(&x.dw0, i));
    return x;
}

static void drop(Case *x)
{
    Buffer *all[] = {&x->x,   &x->w,  &x->z,  &x->dloss, &x->loss,
                     &x->lse, &x->dz, &x->dx, &x->dw,    &x->dw0};
    for (int i = 0; i < 10; i++)
        buffer_free(all[i]);
    free(x->target);
}

static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16, MG_F16};

static void near(const char *what, const Buffer *b, int64_t i, double want, double tolerance)
{
    if (!(fabs(at(b, i) - want) <= tolerance))
        fail_msg("%s[%ld] is %.17g, wanted %.17g", what, (long)i, at(b, i), want);
}

/* One row in double: logits z[vocab] become their gradients. Returns lse; *loss is set. */
static double row_truth(const Case *x, int64_t row, double *z, double *loss)
{
    const mg_xent_desc *d = &x->d.xent;
    const double dloss = at(&x->dloss, row * d->dloss_stride);
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < d->valid; c++)
        top = fmax(top, z[c]);
    for (int64_t c = 0; c < d->valid; c++)
        sum += exp(z[c] - top);
    const double lse = top + log(sum);
    *loss = lse - z[target_of(x, row)];
    for (int64_t c = 0; c < d->vocab; c++)
        z[c] = c < d->valid ? dloss * (exp(z[c] - lse) - (c == target_of(x, row))) : 0;
    return lse;
}

static void check_xent(Case *x, bool in_place)
{
    const mg_xent_desc *d = &x->d.xent;
    /* f32: logits below 8 are known to 2^-21, their exponentials therefore to some 5e-7. */
    const double tolerance = d->dtype == MG_F64 ? 1e-13 : 2e-6;
    double *z = malloc((size_t)(d->rows * d->vocab) * sizeof *z);
    for (int64_t i = 0; i < d->rows * d->vocab; i++)
        z[i] = at(&x->z, i);
    mg_run r = {.threads = 2, .cuts = 5};
    mg_xent(&r, 0, d, x->z.p, x->target, x->loss.p, x->lse.p);
    assert_int_equal(r.outputs, 2 * d->rows);
    Buffer *dz = in_place ? &x->z : &x->dz;
    mg_xent_grad(&r, 0, d, x->z.p, x->target, x->lse.p, x->dloss.p, dz->p);
    assert_int_equal(r.outputs, (2 + d->vocab) * d->rows);
    for (int64_t row = 0; row < d->rows; row++) {
        double loss, lse = row_truth(x, row, z + row * d->vocab, &loss);
        near("lse", &x->lse, row, lse, tolerance);
        near("loss", &x->loss, row, loss, tolerance);
        for (int64_t c = 0; c < d->vocab; c++) {
            const double want = z[row * d->vocab + c];
            near("dz", dz, row * d->vocab + c, want,
                 c < d->valid ? tolerance + roundoff(d->dtype) * fabs(want) : 0);
        }
    }
    free(z);
}

static void test_xent(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int i = 0; i < 40; i++) {
            pool_level((mgk_level)level);
            Case x = make(&seed, random_shape(&seed, types[i % 4]));
            check_xent(&x, i % 3 == 0);
            drop(&x);
        }
}

static int64_t w_at(const mg_head_desc *d, int64_t h, int64_t c)
{
    return d->w_by_vocab ? c * d->hidden + h : h * d->xent.vocab + c;
}

static void run_head(Case *x, int threads, bool backward)
{
    const mg_dtype t = x->d.xent.dtype;
    mg_run r = {.threads = threads, .cuts = (uint64_t)threads, .scratch = mg_head_scratch(&x->d)};
    Buffer work = buffer_new(t, mg_head_work(&x->d) / mg_dtype_bytes(t));
    const bool weight = backward && !x->d.frozen;
    mg_head(&r, 0, &x->d, x->x.p, x->w.p, x->target, backward ? x->dloss.p : NULL, x->loss.p,
            backward ? x->dx.p : NULL, weight ? x->dw.p : NULL, work.p);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.outputs, x->loss.n + (backward ? x->dx.n : 0) + (weight ? x->dw.n : 0));
    buffer_free(&work);
}

/* dw in the layout of w, dx and losses, all in double. */
static void head_truth(const Case *x, double *loss, double *dx, double *dw)
{
    const mg_head_desc *d = &x->d;
    const int64_t vocab = d->xent.vocab;
    double *z = malloc((size_t)vocab * sizeof *z);
    for (int64_t row = 0; row < d->xent.rows; row++) {
        for (int64_t c = 0; c < vocab; c++) {
            z[c] = 0;
            for (int64_t h = 0; h < d->hidden; h++)
                z[c] += at(&x->x, row * d->hidden + h) * at(&x->w, w_at(d, h, c));
        }
        row_truth(x, row, z, &loss[row]);
        for (int64_t h = 0; h < d->hidden; h++)
            for (int64_t c = 0; c < vocab; c++) {
                dx[row * d->hidden + h] += z[c] * at(&x->w, w_at(d, h, c));
                dw[w_at(d, h, c)] += z[c] * at(&x->x, row * d->hidden + h);
            }
    }
    free(z);
}

static void check_head(Case *x, int threads)
{
    const mg_head_desc *d = &x->d;
    /* f32: sums of up to 500 terms of dz w, which add up to at most two. A logit that is a half is
     * below 16 and off by its rounding, and so is a loss; the sums by no more than twice that. */
    const double tolerance = d->xent.dtype == MG_F64   ? 1e-12
                             : d->xent.dtype == MG_F32 ? 2e-5
                                                       : 32 * roundoff(d->xent.dtype);
    double *loss = calloc((size_t)x->loss.n, 8), *dx = calloc((size_t)x->dx.n, 8);
    double *dw = calloc((size_t)x->dw.n, 8);
    head_truth(x, loss, dx, dw);
    run_head(x, threads, true);
    for (int64_t i = 0; i < x->loss.n; i++)
        near("loss", &x->loss, i, loss[i], tolerance);
    for (int64_t i = 0; i < x->dx.n; i++)
        near("dx", &x->dx, i, dx[i], tolerance);
    const int64_t vocab = d->xent.vocab, column = d->w_by_vocab ? d->hidden : 1;
    for (int64_t i = 0; i < x->dw.n && !d->frozen; i++) /* of a masked class: what was there */
        if (i / column % vocab >= d->xent.valid)
            near("dw", &x->dw, i, d->dw_accumulate ? at(&x->dw0, i) : 0, 0);
        else
            near("dw", &x->dw, i, dw[i] + (d->dw_accumulate ? at(&x->dw0, i) : 0), tolerance);
    run_head(x, threads, false);
    for (int64_t i = 0; i < x->loss.n; i++)
        near("loss alone", &x->loss, i, loss[i], tolerance);
    free(loss);
    free(dx);
    free(dw);
}

static void test_head(void **state)
{
    (void)state;
    uint64_t seed = 22;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int i = 0; i < 30; i++) {
            pool_level((mgk_level)level);
            Case x = make(&seed, random_shape(&seed, types[i % 4]));
            check_head(&x, 1 + i % 3);
            drop(&x);
        }
}

static double weighted_loss(Case *x)
{
    double sum = 0;
    run_head(x, 1, false);
    for (int64_t row = 0; row < x->d.xent.rows; row++)
        sum += at(&x->loss, row) * at(&x->dloss, row * x->d.xent.dloss_stride);
    return sum;
}

static void differences(Case *x, Buffer *in, const Buffer *grad, uint64_t *seed)
{
    for (int i = 0; i < 15; i++) {
        int64_t e = in_range(seed, 0, in->n - 1);
        const double was = at(in, e), h = 1e-5;
        put(in, e, was + h);
        double up = weighted_loss(x);
        put(in, e, was - h);
        double slope = (up - weighted_loss(x)) / (2 * h);
        put(in, e, was);
        near("gradient", grad, e, slope, 1e-8); /* the difference's own error: h^2 and 1e-15 / h */
    }
}

static void test_differences(void **state)
{
    (void)state;
    uint64_t seed = 23;
    pool_level(pool_best());
    for (int i = 0; i < 8; i++) {
        mg_head_desc d = random_shape(&seed, MG_F64);
        d.dw_accumulate = d.frozen = false;
        Case x = make(&seed, d);
        run_head(&x, 2, true);
        differences(&x, &x.x, &x.dx, &seed);
        differences(&x, &x.w, &x.dw, &seed);
        drop(&x);
    }
}

/* Rows are units of their own: the bits do not depend on the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    uint64_t seed = 24;
    pool_level(pool_best());
    mg_head_desc d = random_shape(&seed, MG_F32);
    d.xent.rows = 33;
    Case x = make(&seed, d);
    Buffer loss[3], dz[3];
    for (int i = 0; i < 3; i++) {
        mg_run r = {.threads = i + 1, .cuts = 7};
        loss[i] = buffer_new(MG_F32, x.loss.n);
        dz[i] = buffer_new(MG_F32, x.dz.n);
        mg_xent(&r, 0, &d.xent, x.z.p, x.target, loss[i].p, x.lse.p);
        mg_xent_grad(&r, 0, &d.xent, x.z.p, x.target, x.lse.p, x.dloss.p, dz[i].p);
        assert_true(same_bits(&loss[0], &loss[i]) && same_bits(&dz[0], &dz[i]));
    }
    for (int i = 0; i < 3; i++) {
        buffer_free(&loss[i]);
        buffer_free(&dz[i]);
    }
    drop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xent),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
