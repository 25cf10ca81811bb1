/* Numbers that are drawn by the block: each has the bits that it has by itself, whatever vectors
 * the processor computes with, and lies within 2e-15 of what long doubles say of it. */
#include "unit.h"

#include "runtime/draw.h"
#include "runtime/normal.h"
#include "runtime/run.h"

#include <math.h>

static void by_the_block(void **state)
{
    (void)state;
    uint64_t e[RT_DRAWS], next = 1;
    double block[RT_DRAWS], flat[RT_DRAWS];
    for (int run = 0; run < 200; run++) {
        const uint32_t key[2] = {(uint32_t)(next >> 7), (uint32_t)(next >> 32)};
        for (int i = 0; i < RT_DRAWS; i++) {
            next = next * 6364136223846793005u + 1442695040888963407u;
            e[i] = run % 2 ? next >> (next & 31) : (uint64_t)run * RT_DRAWS + (uint64_t)i;
        }
        rt_draw(e, key, true, block);
        rt_draw(e, key, false, flat);
        for (int i = 0; i < RT_DRAWS; i++) {
            uint32_t w[4];
            const uint32_t counter[4] = {(uint32_t)e[i], (uint32_t)(e[i] >> 32), 0, 0};
            mg_philox(counter, key, w);
            const double one = mg_normal_of(w[0], w[1]);
            assert_memory_equal(&block[i], &one, sizeof one);
            assert_true(flat[i] == (double)w[0] * 0x1p-32);
            assert_true(mg_normal((int64_t)e[i], key, 0, 1) == one);
            assert_true(mg_uniform((int64_t)e[i], key, 0, 0, 1) == flat[i]);
        }
    }
}

static void check(uint32_t a, uint32_t b)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    const long double r = sqrtl(-2 * logl(((long double)a + 1) * 0x1p-32L));
    const long double want = r * cosl(2 * pi * ((long double)b * 0x1p-32L));
    assert_true(fabsl(want - (long double)mg_normal_of(a, b)) <= 2e-15L);
}

static void within_rounding(void **state)
{
    (void)state;
    static const uint32_t ends[] = {0,          1,          2,          0x1fffffff, 0x20000000,
                                    0x3fffffff, 0x40000000, 0x60000000, 0x7fffffff, 0x80000000,
                                    0x9fffffff, 0xa0000000, 0xb504f332, 0xb504f333, 0xbfffffff,
                                    0xc0000000, 0xe0000000, 0xfffffffe, 0xffffffff};
    enum { ENDS = sizeof ends / sizeof *ends };
    for (int i = 0; i < ENDS; i++)
        for (int k = 0; k < ENDS; k++)
            check(ends[i], ends[k]);
    uint64_t next = 7;
    for (int i = 0; i < 1000000; i++) {
        next = next * 6364136223846793005u + 1442695040888963407u;
        check((uint32_t)(next >> 32) >> (next >> 8 & 31), (uint32_t)(next >> 16));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_the_block),
                                       cmocka_unit_test(within_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
