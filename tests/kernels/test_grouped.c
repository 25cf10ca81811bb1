/* test_grouped.c - grouped products against plain loops in double, of experts with many rows, with
 * few, and with none; the same bits on any number of threads. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"
#include "runtime/grouped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const mg_dtype types[6][2] = {{MG_F32, MG_F32}, {MG_F64, MG_F64},  {MG_BF16, MG_BF16},
                                     {MG_F16, MG_F16}, {MG_BF16, MG_F32}, {MG_F16, MG_F32}};

typedef struct Case {
    mg_grouped_desc d;
    bool weight;
    int32_t *end;
    Buffer z, other, old, got;
} Case;

/* Ends of rows that are split where numbers are drawn; now and then some rows are left over. */
static int32_t *draw_ends(uint64_t *seed, const mg_grouped_desc *d)
{
    int32_t *end = malloc((size_t)(d->groups * d->experts) * sizeof *end);
    for (int64_t g = 0; g < d->groups; g++) {
        int64_t at = 0;
        for (int64_t e = 0; e < d->experts; e++) {
            if (in_range(seed, 0, 3))
                at += in_range(seed, 0, (d->rows - at) / (in_range(seed, 0, 2) + 1));
            if (e == d->experts - 1 && in_range(seed, 0, 3))
                at = d->rows;
            end[g * d->experts + e] = (int32_t)at;
        }
    }
    return end;
}

static Case make(uint64_t seed, int n)
{
    Case x = {.weight = n % 2};
    mg_grouped_desc *d = &x.d;
    const bool large = n % 10 == 0;
    d->dtype = types[n / 2 % 6][0];
    d->out = types[n / 2 % 6][1];
    d->turned = !x.weight && in_range(&seed, 0, 1);
    d->accumulate = x.weight && in_range(&seed, 0, 2) == 0;
    d->groups = in_range(&seed, 1, 3);
    d->rows = in_range(&seed, 1, large ? 300 : 40);
    d->experts = in_range(&seed, 1, 9);
    d->k = in_range(&seed, 1, large ? 300 : 40);
    d->n = in_range(&seed, 1, large ? 200 : 40);
    x.end = draw_ends(&seed, d);
    const int64_t y = d->groups * d->rows * d->n, w = d->experts * d->k * d->n;
    x.z = buffer_random(d->dtype, d->groups * d->rows * d->k, &seed);
    x.other = buffer_random(d->dtype, x.weight ? y : w, &seed);
    x.old = buffer_random(d->out, x.weight ? w : y, &seed);
    x.got = buffer_new(d->out, x.old.n);
    return x;
}

static void drop(Case *x)
{
    buffer_free(&x->z);
    buffer_free(&x->other);
    buffer_free(&x->old);
    buffer_free(&x->got);
    free(x->end);
}

static void run(Case *x, int threads)
{
    mg_run r = {.threads = threads,
                .scratch = mg_grouped_scratch(&x->d, x->weight),
                .cuts = (uint64_t)threads};
    for (int64_t i = 0; i < x->got.n; i++)
        put(&x->got, i, x->d.accumulate ? at(&x->old, i) : NAN);
    if (x->weight)
        mg_grouped_weight(&r, 0, &x->d, x->z.p, x->other.p, x->end, x->got.p);
    else
        mg_grouped(&r, 0, &x->d, x->z.p, x->other.p, x->end, x->got.p);
    assert_int_equal(r.outputs, x->got.n);
}

static int64_t expert_of(const Case *x, int64_t g, int64_t row)
{
    int64_t e = 0;
    while (e < x->d.experts && row >= x->end[g * x->d.experts + e])
        e++;
    return e;
}

static void check(const Case *x)
{
    const mg_grouped_desc *d = &x->d;
    double *want = calloc((size_t)x->got.n, sizeof *want);
    for (int64_t i = 0; d->accumulate && i < x->got.n; i++)
        want[i] = at(&x->old, i);
    for (int64_t r = 0; r < d->groups * d->rows; r++) {
        const int64_t e = expert_of(x, r / d->rows, r % d->rows);
        for (int64_t i = 0; i < d->k * d->n && e < d->experts; i++) {
            const int64_t k = i / d->n, n = i % d->n,
                          w = e * d->k * d->n + (d->turned ? n * d->k + k : i);
            const double z = at(&x->z, r * d->k + k);
            if (x->weight)
                want[w] += z * at(&x->other, r * d->n + n);
            else
                want[r * d->n + n] += z * at(&x->other, w);
        }
    }
    /* A half is rounded once for each group that is added. */
    const double terms = (double)(x->weight ? d->rows * d->groups : d->k) + 4;
    const double tolerance = (d->dtype == MG_F64 ? 1e-15 : 1e-6) * terms;
    const double rounds = x->weight ? (double)d->groups : 1;
    for (int64_t i = 0; i < x->got.n; i++)
        if (!(fabs(at(&x->got, i) - want[i]) <=
              tolerance + rounds * roundoff(d->out) * (fabs(want[i]) + (x->weight ? 8 : 0))))
            fail_msg("type %d, weight %d: %ld is %g, not %g", (int)d->dtype, x->weight, (long)i,
                     at(&x->got, i), want[i]);
    free(want);
}

static void random_products(void **state)
{
    (void)state;
    for (mgk_level level = 0; level <= pool_best(); level++) {
        pool_level(level);
        for (int i = 0; i < 120; i++) {
            Case x = make((uint64_t)(level * 1000 + i + 1), i);
            run(&x, 1 + i % 3);
            check(&x);
            drop(&x);
        }
    }
}

static void threads(void **state)
{
    (void)state;
    pool_level(pool_best());
    for (int i = 0; i < 60; i++) {
        Case x = make((uint64_t)i + 77, i);
        Buffer one = buffer_new(x.d.out, x.got.n);
        run(&x, 1);
        memcpy(one.p, x.got.p, (size_t)(one.n * mg_dtype_bytes(one.t)));
        for (int n = 2; n < 6; n++) {
            run(&x, n);
            assert_true(same_bits(&one, &x.got));
        }
        buffer_free(&one);
        drop(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
