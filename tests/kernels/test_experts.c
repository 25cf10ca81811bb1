/* test_experts.c - scores to choices, choices to slots, rows to experts and back. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"

#include <math.h>
#include <stdlib.h>

static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16, MG_F16};

static mg_dtype wide(mg_dtype t)
{
    return t == MG_F64 ? MG_F64 : MG_F32;
}

typedef struct Case {
    mg_experts_desc d;
    int64_t choices; /* of all positions */
    int32_t *choice, *slot;
    Buffer rows, z, weight;
} Case;

static Case make(uint64_t *seed, mg_dtype t, int threads)
{
    mg_experts_desc d = {.dtype = t};
    d.groups = in_range(seed, 1, 4);
    d.positions = in_range(seed, 1, 40);
    d.choices = in_range(seed, 1, 3);
    const int64_t each = in_range(seed, 1, 4); /* of a home, some slots short or not */
    d.homes = in_range(seed, 0, 2) ? in_range(seed, 1, 5) : 1;
    d.experts = d.homes * each;
    d.slots = in_range(seed, 1, 20);
    if (d.homes == 1)
        d.slots = d.positions * d.choices;
    d.inner = in_range(seed, 0, 1) ? in_range(seed, 1, 9) : in_range(seed, 10, 200);
    Case x = {.d = d, .choices = d.groups * d.positions * d.choices};
    x.choice = malloc((size_t)x.choices * sizeof *x.choice);
    x.slot = malloc((size_t)x.choices * sizeof *x.slot);
    for (int64_t c = 0; c < x.choices; c++)
        x.choice[c] = (int32_t)in_range(seed, 0, d.experts - 1);
    mg_run r = {.threads = threads, .cuts = *seed};
    mg_slots(&r, 0, &d, x.choice, x.slot);
    x.rows = buffer_random(t, d.groups * d.positions * d.inner, seed);
    x.z = buffer_random(t, d.homes * d.groups * d.slots * d.inner, seed);
    x.weight = buffer_random(wide(t), x.choices, seed);
    return x;
}

static void drop(Case *x)
{
    buffer_free(&x->rows);
    buffer_free(&x->z);
    buffer_free(&x->weight);
    free(x->choice);
    free(x->slot);
}

static int64_t home_of(const Case *x, int64_t c)
{
    return x->choice[c] / (x->d.experts / x->d.homes);
}

/* The first element of choice c's row in z; -1: it has none. */
static int64_t row_of(const Case *x, int64_t c)
{
    const mg_experts_desc *d = &x->d;
    int64_t g = c / (d->positions * d->choices);
    int64_t of = home_of(x, c) * d->groups + g;
    return x->slot[c] < 0 ? -1 : (of * d->slots + x->slot[c]) * d->inner;
}

static void near(const Buffer *want, const Buffer *got, double bound)
{
    assert_int_equal(want->n, got->n);
    for (int64_t e = 0; e < want->n; e++)
        assert_true(fabs(at(want, e) - at(got, e)) <= bound * (1 + fabs(at(want, e))));
}

static void test_top(void **state)
{
    (void)state;
    uint64_t seed = 51;
    for (int c = 0; c < 60; c++) {
        mg_top_desc d = {.dtype = types[c % 2], .rows = in_range(&seed, 1, 50)};
        d.n = in_range(&seed, 1, 20);
        d.top = in_range(&seed, 1, d.n);
        Buffer x = buffer_random(d.dtype, d.rows * d.n, &seed);
        for (int64_t e = 0; e < x.n; e++) /* with ties, and now and then no number */
            put(&x, e, in_range(&seed, 0, 9) ? floor(at(&x, e) * 4) : NAN);
        int32_t *y = malloc((size_t)(d.rows * d.top) * sizeof *y);
        mg_run r = {.threads = 1 + c % 3, .cuts = (uint64_t)c};
        mg_top(&r, 0, &d, x.p, y);
        for (int64_t k = 0; k < d.rows * d.top; k++) {
            int64_t row = k / d.top * d.n, before = 0;
            double mine = at(&x, row + y[k]);
            assert_in_range(y[k], 0, d.n - 1);
            for (int64_t i = 0; i < d.n; i++) { /* as many come before it as its place says */
                double other = at(&x, row + i);
                before += isnan(mine) ? !isnan(other) || i < y[k]
                                      : other > mine || (other == mine && i < y[k]);
            }
            assert_int_equal(before, k % d.top);
        }
        free(y);
        buffer_free(&x);
    }
}

static void test_slots(void **state)
{
    (void)state;
    uint64_t seed = 52;
    for (int n = 0; n < 60; n++) {
        Case x = make(&seed, MG_F32, 1 + n % 3);
        int64_t each = x.d.positions * x.d.choices;
        for (int64_t c = 0; c < x.choices; c++) {
            int64_t before = 0;
            for (int64_t k = c / each * each; k < c; k++)
                before += x.choice[k] == x.choice[c];
            for (int64_t k = c / each * each; k < (c / each + 1) * each; k++)
                before += x.choice[k] < x.choice[c] && home_of(&x, k) == home_of(&x, c);
            assert_int_equal(x.slot[c], before < x.d.slots ? before : -1);
        }
        drop(&x);
    }
}

static void test_ends(void **state)
{
    (void)state;
    uint64_t seed = 56;
    for (int n = 0; n < 60; n++) {
        Case x = make(&seed, MG_F32, 1 + n % 3);
        int64_t each = x.d.positions * x.d.choices;
        int32_t *end = malloc((size_t)(x.d.groups * x.d.experts) * sizeof *end);
        mg_run r = {.threads = 1 + n % 3, .cuts = (uint64_t)n};
        mg_ends(&r, 0, &x.d, x.choice, end);
        const int64_t home = x.d.experts / x.d.homes;
        for (int64_t u = 0; u < x.d.groups * x.d.experts; u++) {
            const int64_t h = u / home / x.d.groups, g = u / home % x.d.groups;
            int64_t before = 0;
            for (int64_t c = g * each; c < (g + 1) * each; c++)
                before += home_of(&x, c) == h && x.choice[c] <= h * home + u % home;
            assert_int_equal(end[u], before < x.d.slots ? before : x.d.slots);
        }
        free(end);
        drop(&x);
    }
}

static void test_dispatch(void **state)
{
    (void)state;
    uint64_t seed = 53;
    for (int n = 0; n < 80; n++) {
        Case x = make(&seed, types[n % 4], 1);
        bool weighed = n / 4 % 2;
        Buffer want = buffer_new(x.d.dtype, x.z.n), got = buffer_new(x.d.dtype, x.z.n);
        for (int64_t e = 0; e < want.n; e++)
            put(&want, e, 0);
        for (int64_t c = 0; c < x.choices; c++)
            for (int64_t j = 0; j < x.d.inner && row_of(&x, c) >= 0; j++)
                put(&want, row_of(&x, c) + j,
                    at(&x.rows, c / x.d.choices * x.d.inner + j) *
                        (weighed ? at(&x.weight, c) : 1));
        mg_run r = {.threads = 1 + n % 3, .cuts = (uint64_t)n};
        mg_dispatch(&r, 0, &x.d, x.rows.p, x.choice, x.slot, weighed ? x.weight.p : NULL, got.p);
        assert_int_equal(r.outputs, got.n);
        if (weighed && n % 4 > 1) /* a half that was rounded to f32 before */
            near(&want, &got, 1e-2);
        else
            assert_true(same_bits(&want, &got));
        buffer_free(&want);
        buffer_free(&got);
        drop(&x);
    }
}

/* The same bits on any number of threads. Three products at most are added up, and rounded to the
 * type once: some units in its last place. */
static void test_combine(void **state)
{
    (void)state;
    uint64_t seed = 54;
    static const double bound[] = {1e-6, 1e-14, 1e-2, 1e-3};
    for (int n = 0; n < 80; n++) {
        Case x = make(&seed, types[n % 4], 1);
        bool weighed = n / 4 % 2;
        const void *weight = weighed ? x.weight.p : NULL;
        Buffer want = buffer_new(x.d.dtype, x.rows.n), got = buffer_new(x.d.dtype, x.rows.n);
        Buffer again = buffer_new(x.d.dtype, x.rows.n);
        for (int64_t e = 0; e < want.n; e++) {
            double sum = 0;
            int64_t p = e / x.d.inner, j = e % x.d.inner;
            for (int64_t c = p * x.d.choices; c < (p + 1) * x.d.choices; c++)
                sum += row_of(&x, c) < 0
                           ? 0
                           : at(&x.z, row_of(&x, c) + j) * (weighed ? at(&x.weight, c) : 1);
            put(&want, e, sum);
        }
        mg_run r = {.threads = 1}, many = {.threads = 3, .cuts = (uint64_t)n};
        mg_combine(&r, 0, &x.d, x.z.p, x.choice, x.slot, weight, got.p);
        mg_combine(&many, 0, &x.d, x.z.p, x.choice, x.slot, weight, again.p);
        assert_int_equal(r.outputs, got.n);
        assert_true(same_bits(&got, &again));
        near(&want, &got, bound[n % 4]);
        buffer_free(&want);
        buffer_free(&got);
        buffer_free(&again);
        drop(&x);
    }
}

static void test_combine_weight(void **state)
{
    (void)state;
    uint64_t seed = 55;
    for (int n = 0; n < 80; n++) {
        Case x = make(&seed, types[n % 4], 1);
        Buffer want = buffer_new(x.weight.t, x.choices);
        Buffer got = buffer_new(x.weight.t, x.choices);
        for (int64_t c = 0; c < x.choices; c++) {
            double sum = 0;
            for (int64_t j = 0; j < x.d.inner && row_of(&x, c) >= 0; j++)
                sum += at(&x.z, row_of(&x, c) + j) * at(&x.rows, c / x.d.choices * x.d.inner + j);
            put(&want, c, sum);
        }
        mg_run r = {.threads = 1 + n % 3, .cuts = (uint64_t)n};
        mg_combine_weight(&r, 0, &x.d, x.z.p, x.rows.p, x.choice, x.slot, got.p);
        assert_int_equal(r.outputs, got.n);
        /* up to 200 products of numbers below 1, added up in f32 or f64 */
        near(&want, &got, want.t == MG_F64 ? 1e-13 : 2e-5);
        buffer_free(&want);
        buffer_free(&got);
        drop(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top),     cmocka_unit_test(test_slots),
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_combine), cmocka_unit_test(test_combine_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
