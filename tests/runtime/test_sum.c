/* Sums over ranks, against a loop over one element at a time: the same bits, of every type and
 * length, into one of the arrays as well. */
#include "unit.h"

#include "runtime/half.h"
#include "runtime/net/sum.h"

enum { RANKS = 5, LONGEST = 600 }; /* beyond two blocks */

/* Element e of a rank: numbers whose sums depend on their order. */
static double number(int rank, int64_t e)
{
    return (double)((e * 37 + rank * 101) % 199 - 99) * (rank % 2 ? 1.1 : 1e-3);
}

static void put(mg_dtype t, void *at, int64_t e, double x)
{
    if (t == MG_F64)
        ((double *)at)[e] = x;
    else if (t == MG_F32)
        ((float *)at)[e] = (float)x;
    else if (t == MG_I32)
        ((int32_t *)at)[e] = (int32_t)x;
    else
        ((uint16_t *)at)[e] = t == MG_BF16 ? mg_to_bf16((float)x) : mg_to_f16((float)x);
}

static double get(mg_dtype t, const void *at, int64_t e)
{
    if (t == MG_F64)
        return ((const double *)at)[e];
    if (t == MG_F32)
        return ((const float *)at)[e];
    if (t == MG_I32)
        return ((const int32_t *)at)[e];
    const uint16_t h = ((const uint16_t *)at)[e];
    return t == MG_BF16 ? mg_from_bf16(h) : mg_from_f16(h);
}

/* Halves are added up in float32. */
static double plus(mg_dtype t, double a, double b)
{
    return t == MG_F64 || t == MG_I32 ? a + b : (double)((float)a + (float)b);
}

static double sum_of(const mg_comm_desc *d, const char *const *from, int begin, int n, int64_t e)
{
    if (d->tree && n > 1) {
        int half = 1;
        while (2 * half < n)
            half *= 2;
        return plus(d->dtype, sum_of(d, from, begin, half, e),
                    sum_of(d, from, begin + half, n - half, e));
    }
    double sum = get(d->dtype, from[begin], e);
    for (int k = 1; k < n; k++) {
        const double x = get(d->dtype, from[begin + k], e);
        sum = !d->max ? plus(d->dtype, sum, x) : x > sum ? x : sum;
    }
    return sum;
}

static void check(mg_dtype t, bool max, bool tree, int n, int64_t length, bool in_place)
{
    static double memory[RANKS + 2][LONGEST + 1];
    const mg_comm_desc d = {.dtype = t, .max = max, .tree = tree, .n = n};
    const char *from[RANKS];
    double expected[LONGEST];
    for (int k = 0; k < n; k++) {
        from[k] = (const char *)memory[k];
        for (int64_t e = 0; e < length; e++)
            put(t, memory[k], e, number(k, e));
    }
    char *to = (char *)memory[in_place ? n - 1 : RANKS];
    put(t, to, length, 77);
    for (int64_t e = 0; e < length; e++) {
        put(t, memory[RANKS + 1], e, sum_of(&d, from, 0, n, e));
        expected[e] = get(t, memory[RANKS + 1], e);
    }
    rt_sum(&d, from, to, length);
    for (int64_t e = 0; e < length; e++)
        if (get(t, to, e) != expected[e])
            fail_msg("type %d, %d ranks: element %lld is %g, not %g", t, n, (long long)e,
                     get(t, to, e), expected[e]);
    assert_true(get(t, to, length) == 77); /* and no further */
}

static void sums(void **state)
{
    static const mg_dtype types[] = {MG_F32, MG_F64, MG_I32, MG_BF16, MG_F16};
    static const int64_t lengths[] = {1, 17, 256, 257, LONGEST};
    (void)state;
    for (int t = 0; t < 5; t++)
        for (int n = 1; n <= RANKS; n++)
            for (int l = 0; l < 5; l++)
                for (int how = 0; how < 6; how++) {
                    const bool tree = how / 2 == 2, wide = types[t] == MG_F32 || types[t] == MG_F64;
                    if (!tree || wide)
                        check(types[t], how / 2 == 1, tree, n, lengths[l], how % 2);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
