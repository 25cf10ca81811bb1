/* test_simd.c - exponentials against the C library's in long double, and transposition. */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"

#define MGK_BODY "tests/kernels/simd_body.h"
#include "kernels/each_isa.h"

typedef void Apply(const void *, void *, int64_t);
typedef int64_t Flip(const void *, void *);
static Apply *const exp2_all[][MGK_FLOATS] = MGK_TABLE(exp2_all);
static Apply *const exp_all[][MGK_FLOATS] = MGK_TABLE(exp_all);
typedef void Move(const void *, float *, void *, int64_t);
static Move *const move[][MGK_FLOATS] = MGK_TABLE(move);
static Flip *const flip[][MGK_FLOATS] = MGK_TABLE(flip);

enum { N = 1 << 16 };

/* Largest error in units in the last place of the result, over [low, high]. */
static double worst_ulps(Apply *f, mg_dtype t, bool base2, double low, double high)
{
    Buffer x = buffer_new(t, N), y = buffer_new(t, N);
    const double epsilon = t == MG_F64 ? 0x1p-52 : 0x1p-23;
    double worst = 0;
    for (int64_t i = 0; i < N; i++)
        put(&x, i, low + (high - low) * (double)i / (N - 1));
    f(x.p, y.p, N);
    for (int64_t i = 0; i < N; i++) {
        long double want = base2 ? exp2l((long double)at(&x, i)) : expl((long double)at(&x, i));
        int power;
        frexpl(want, &power);
        long double ulp = ldexpl((long double)epsilon, power - 1);
        double off = (double)(fabsl((long double)at(&y, i) - want) / ulp);
        worst = off <= worst ? worst : off;
    }
    buffer_free(&x);
    buffer_free(&y);
    return worst;
}

static void test_accuracy(void **state)
{
    (void)state;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++) {
        double e[] = {worst_ulps(exp2_all[level][0], MG_F32, true, -126, 126),
                      worst_ulps(exp2_all[level][0], MG_F32, true, -1, 1),
                      worst_ulps(exp2_all[level][1], MG_F64, true, -1022, 1022),
                      worst_ulps(exp_all[level][0], MG_F32, false, -87, 87),
                      worst_ulps(exp_all[level][0], MG_F32, false, -1, 1),
                      worst_ulps(exp_all[level][1], MG_F64, false, -708, 708)};
        print_message("%-4s exp2 f32 %.2f %.2f f64 %.2f; exp f32 %.2f %.2f f64 %.2f ulp\n",
                      pool_level_name((mgk_level)level), e[0], e[1], e[2], e[3], e[4], e[5]);
        for (int i = 0; i < 6; i++)
            assert_true(e[i] <= (i < 3 ? 1.2 : 1.5));
    }
}

/* A masked score is -inf and has to vanish; a NaN has to stay; 2^0 is exact. */
static void test_edges(void **state)
{
    (void)state;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int real = 0; real < 2; real++) {
            mg_dtype t = real ? MG_F64 : MG_F32;
            Buffer x = buffer_new(t, 16), y = buffer_new(t, 16);
            const double in[16] = {-INFINITY, -1e30, -2000, NAN, 0, 1, -1, 3};
            for (int i = 0; i < 16; i++)
                put(&x, i, in[i]);
            for (int base2 = 0; base2 < 2; base2++) {
                (base2 ? exp2_all : exp_all)[level][real](x.p, y.p, 16);
                assert_true(at(&y, 0) == 0 && at(&y, 1) == 0 && at(&y, 2) == 0);
                assert_true(isnan(at(&y, 3)));
                assert_true(at(&y, 4) == 1);
                assert_true(!base2 || (at(&y, 5) == 2 && at(&y, 6) == 0.5 && at(&y, 7) == 8));
            }
            buffer_free(&x);
            buffer_free(&y);
        }
}

static void test_flip(void **state)
{
    (void)state;
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int real = 0; real < 2; real++) {
            mg_dtype t = real ? MG_F64 : MG_F32;
            Buffer x = buffer_new(t, 256), y = buffer_new(t, 256);
            for (int i = 0; i < 256; i++)
                put(&x, i, i);
            int64_t n = flip[level][real](x.p, y.p);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++)
                    assert_true(at(&y, i * n + j) == (double)(j * n + i));
            buffer_free(&x);
            buffer_free(&y);
        }
}

/* Every half is widened and comes back as it was; every float of a fine net, and those next to
 * the middle between two halves, is rounded as the definition says; what is past n is not read. */
static void test_halves(void **state)
{
    (void)state;
    enum { ALL = 1 << 16 };
    for (int level = MGK_BASE; level <= (int)pool_best(); level++)
        for (int k = 0; k < 2; k++) {
            const mg_dtype t = k ? MG_F16 : MG_BF16;
            Move *run = move[level][mgk_float(t, "test")];
            Buffer x = buffer_new(t, ALL), y = buffer_new(t, ALL), want = buffer_new(t, 1);
            Buffer wide = buffer_new(MG_F32, ALL);
            for (int i = 0; i < ALL; i++)
                ((uint16_t *)x.p)[i] = (uint16_t)i;
            run(x.p, wide.p, y.p, ALL - 3);
            for (int64_t i = 0; i < ALL - 3; i++) {
                const bool nan = isnan(at(&x, i));
                assert_true(nan ? isnan(at(&wide, i)) && isnan(at(&y, i))
                                : at(&wide, i) == at(&x, i) && at(&y, i) == at(&x, i));
            }
            assert_true(untouched(&y, ALL - 3) && untouched(&wide, ALL - 1));
            uint64_t seed = 41;
            for (int64_t i = 0; i < ALL; i++) { /* any float; near the middle of two halves */
                uint32_t bits = (uint32_t)next_random(&seed);
                const uint32_t keep = k ? 0xffffe000 : 0xffff0000, half = k ? 0x1000 : 0x8000;
                if (i % 2)
                    bits = (bits & keep) + half + (uint32_t)in_range(&seed, -1, 1);
                if (i % 4 == 3 && k) /* what f16 can hold */
                    bits = (bits & 0x87ffffff) | 0x38000000;
                ((uint32_t *)wide.p)[i] = bits;
            }
            run(NULL, wide.p, y.p, ALL);
            for (int64_t i = 0; i < ALL; i++) {
                put(&want, 0, at(&wide, i));
                assert_true(isnan(at(&want, 0)) ? isnan(at(&y, i)) : at(&y, i) == at(&want, 0));
            }
            Buffer *all[] = {&x, &y, &want, &wide};
            for (int i = 0; i < 4; i++)
                buffer_free(all[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_flip),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
