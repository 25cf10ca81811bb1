/* test_gather.c - rows by index and their sum back; filling and copying. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"

#include <stdlib.h>
#include <string.h>

typedef struct Case {
    mg_gather_desc d;
    int32_t *index;
    Buffer table, rows;
} Case;

static Case make(uint64_t *seed, mg_dtype t)
{
    mg_gather_desc d = {.dtype = t, .accumulate = in_range(seed, 0, 1)};
    d.tables = in_range(seed, 0, 1) ? 1 : in_range(seed, 2, 5);
    d.indices = d.tables * in_range(seed, 1, d.tables > 1 ? 20 : 80);
    d.outer = in_range(seed, 0, 1) ? 1 : in_range(seed, 1, 4);
    d.n = in_range(seed, 1, 20);
    d.inner = in_range(seed, 0, 1) ? in_range(seed, 1, 9) : in_range(seed, 10, 200);
    d.index_inner = in_range(seed, 1, 12);
    d.index_outer = d.index_inner + in_range(seed, 0, 3);
    Case x = {.d = d};
    int64_t n = (d.indices / d.index_inner + 1) * d.index_outer;
    x.index = malloc((size_t)n * sizeof *x.index);
    for (int64_t i = 0; i < n; i++)
        x.index[i] = (int32_t)in_range(seed, 0, d.n - 1);
    x.table = buffer_random(t, d.tables * d.outer * d.n * d.inner, seed);
    x.rows = buffer_random(t, d.indices * d.outer * d.inner, seed);
    return x;
}

static void drop(Case *x)
{
    buffer_free(&x->table);
    buffer_free(&x->rows);
    free(x->index);
}

/* The index in the table of element j of row i of outer o. */
static int64_t source(const Case *x, int64_t i, int64_t o, int64_t j)
{
    const mg_gather_desc *d = &x->d;
    int64_t n = x->index[i / d->index_inner * d->index_outer + i % d->index_inner];
    return ((i / (d->indices / d->tables) * d->outer + o) * d->n + n) * d->inner + j;
}

static void test_gather(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (int c = 0; c < 60; c++) {
        static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16, MG_F16};
        Case x = make(&seed, types[c % 4]);
        Buffer y = buffer_new(x.d.dtype, x.rows.n);
        mg_run r = {.threads = 1 + c % 3, .cuts = (uint64_t)c};
        mg_gather(&r, 0, &x.d, x.table.p, x.index, y.p);
        assert_int_equal(r.outputs, y.n);
        for (int64_t e = 0; e < y.n; e++) {
            int64_t j = e % x.d.inner, o = e / x.d.inner % x.d.outer;
            int64_t i = e / x.d.inner / x.d.outer;
            assert_true(at(&y, e) == at(&x.table, source(&x, i, o, j)));
        }
        buffer_free(&y);
        drop(&x);
    }
}

/* The sum in the order of i and in the program's type: equal to the bit, for any threads. */
static void test_scatter(void **state)
{
    (void)state;
    uint64_t seed = 32;
    for (int c = 0; c < 60; c++) {
        Case x = make(&seed, c % 2 ? MG_F32 : MG_F64);
        const mg_gather_desc *d = &x.d;
        Buffer want = buffer_new(d->dtype, x.table.n);
        for (int64_t e = 0; e < want.n; e++)
            put(&want, e, d->accumulate ? at(&x.table, e) : 0);
        for (int64_t e = 0; e < x.rows.n; e++) {
            int64_t j = e % d->inner, o = e / d->inner % d->outer, i = e / d->inner / d->outer;
            int64_t to = source(&x, i, o, j);
            put(&want, to, at(&want, to) + at(&x.rows, e)); /* rounded once by put */
        }
        for (int threads = 1; threads <= 7; threads += c % 2 ? 3 : 1) {
            Buffer got = buffer_new(d->dtype, x.table.n);
            if (d->accumulate)
                memcpy(got.p, x.table.p, (size_t)(got.n * mg_dtype_bytes(d->dtype)));
            mg_run r = {.threads = threads, .cuts = (uint64_t)c};
            mg_scatter_add(&r, 0, d, x.rows.p, x.index, got.p, NULL);
            assert_int_equal(r.outputs, got.n);
            assert_true(same_bits(&want, &got));
            buffer_free(&got);
        }
        buffer_free(&want);
        drop(&x);
    }
}

/* Every row of some in the place of another one, and some nowhere. */
static void test_put(void **state)
{
    (void)state;
    uint64_t seed = 34;
    for (int c = 0; c < 60; c++) {
        static const mg_dtype types[] = {MG_F32, MG_F64, MG_BF16, MG_F16};
        Case x = make(&seed, types[c % 4]);
        const mg_gather_desc *d = &x.d;
        const int64_t each = d->indices / d->tables;
        for (int64_t i = 0; i < d->indices; i++) { /* no index of a table twice */
            const int64_t nth = i % each;
            int32_t *at = &x.index[i / d->index_inner * d->index_outer + i % d->index_inner];
            *at = nth < d->n && in_range(&seed, 0, 3) ? (int32_t)(d->n - 1 - nth) : -1;
        }
        Buffer want = buffer_new(d->dtype, x.table.n);
        memcpy(want.p, x.table.p, (size_t)(want.n * mg_dtype_bytes(d->dtype)));
        for (int64_t e = 0; e < x.rows.n; e++) {
            const int64_t j = e % d->inner, o = e / d->inner % d->outer,
                          i = e / d->inner / d->outer;
            if (x.index[i / d->index_inner * d->index_outer + i % d->index_inner] >= 0)
                put(&want, source(&x, i, o, j), at(&x.rows, e));
        }
        for (int threads = 1; threads <= 7; threads += 3) {
            Buffer got = buffer_new(d->dtype, x.table.n);
            memcpy(got.p, x.table.p, (size_t)(got.n * mg_dtype_bytes(d->dtype)));
            mg_run r = {.threads = threads, .cuts = (uint64_t)c};
            mg_put(&r, 0, d, x.rows.p, x.index, got.p);
            assert_int_equal(r.outputs, got.n);
            assert_true(same_bits(&want, &got));
            buffer_free(&got);
        }
        buffer_free(&want);
        drop(&x);
    }
}

static void test_memory(void **state)
{
    (void)state;
    uint64_t seed = 33;
    static const int64_t sizes[] = {1, 7, 511, 512, 513, 5000, 100000};
    for (int i = 0; i < 7; i++) {
        Buffer a = buffer_random(MG_F64, sizes[i], &seed), b = buffer_new(MG_F64, sizes[i]);
        mg_run r = {.threads = 3, .cuts = 1};
        mg_copy(&r, 0, b.p, a.p, sizes[i] * 8);
        assert_true(same_bits(&a, &b));
        mg_zero(&r, 0, b.p, sizes[i] * 8 - 4);
        for (int64_t e = 0; e + 1 < sizes[i]; e++)
            assert_true(at(&b, e) == 0);
        assert_memory_equal((char *)b.p + sizes[i] * 8 - 4, (char *)a.p + sizes[i] * 8 - 4, 4);
        buffer_free(&a);
        buffer_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
