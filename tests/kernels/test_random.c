/* test_random.c - Philox against the vectors that come with Random123, and what a tensor draws
 * against its definition. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"

#include <math.h>

/* kat_vectors of Random123, philox4x32 10. */
static void test_vectors(void **state)
{
    (void)state;
    static const uint32_t vectors[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        mg_philox(vectors[i], vectors[i] + 4, out);
        assert_memory_equal(out, vectors[i] + 6, sizeof out);
    }
}

/* Vectors of FNV-1a, 64 bits, as its authors publish them. */
static void test_key(void **state)
{
    (void)state;
    assert_true(mg_key("") == 0xcbf29ce484222325u);
    assert_true(mg_key("a") == 0xaf63dc4c8601ec8cu);
    assert_true(mg_key("foobar") == 0x85944171f73967e8u);
}

/* Element g of the stream, by its definition. */
static double element(uint64_t key, int64_t seed, int64_t step, uint64_t g)
{
    uint64_t k = key ^ (uint64_t)seed, at = g / 4;
    uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)step,
                           (uint32_t)((uint64_t)step >> 32)};
    uint32_t words[2] = {(uint32_t)k, (uint32_t)(k >> 32)}, out[4];
    mg_philox(counter, words, out);
    return (out[g % 4] >> 8) * 0x1p-24;
}

static void test_tensor(void **state)
{
    (void)state;
    uint64_t seed = 41;
    for (int i = 0; i < 60; i++) {
        mg_random_desc d = {.dtype = i % 2 ? MG_F32 : MG_F64, .key = next_random(&seed)};
        d.elements = in_range(&seed, 1, i % 5 ? 300 : 30000);
        int64_t run_seed = (int64_t)next_random(&seed), step = (int64_t)(next_random(&seed) >> 9);
        int32_t slot = (int32_t)in_range(&seed, 0, i % 3 ? 40 : 2000000000);
        Buffer b = buffer_new(d.dtype, d.elements);
        mg_run r = {.threads = 1 + i % 3, .cuts = (uint64_t)i};
        mg_random(&r, 0, &d, &run_seed, &step, &slot, b.p);
        assert_int_equal(r.outputs, d.elements);
        for (int64_t e = 0; e < d.elements; e++) {
            uint64_t g = (uint64_t)slot * (uint64_t)d.elements + (uint64_t)e;
            assert_true(at(&b, e) == element(d.key, run_seed, step, g));
        }
        buffer_free(&b);
    }
}

/* Mean 1/2 and variance 1/12, within five standard deviations of a million draws; other seeds,
 * keys and steps draw other numbers. */
static void test_moments(void **state)
{
    (void)state;
    enum { N = 1000000 };
    mg_random_desc d = {.dtype = MG_F32, .key = mg_key("layers.0.dropout"), .elements = N};
    const int64_t seeds[] = {1, 1, 2}, steps[] = {0, 1, 0};
    const int32_t slot = 0;
    Buffer b[3];
    mg_run r = {.threads = 2, .cuts = 1};
    for (int i = 0; i < 3; i++) {
        b[i] = buffer_new(MG_F32, N);
        mg_random(&r, 0, &d, &seeds[i], &steps[i], &slot, b[i].p);
        double sum = 0, squares = 0;
        for (int64_t e = 0; e < N; e++) {
            double u = at(&b[i], e);
            assert_true(u >= 0 && u < 1);
            sum += u - 0.5;
            squares += (u - 0.5) * (u - 0.5);
        }
        assert_true(fabs(sum / N) < 5 * sqrt(1.0 / 12 / N));
        assert_true(fabs(squares / N - 1.0 / 12) < 5 * sqrt(1.0 / 180 / N));
    }
    int64_t equal = 0;
    for (int64_t e = 0; e < N; e++)
        equal += at(&b[0], e) == at(&b[1], e) || at(&b[0], e) == at(&b[2], e);
    assert_true(equal < 10);
    for (int i = 0; i < 3; i++)
        buffer_free(&b[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_tensor),
        cmocka_unit_test(test_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
