/* test_health.c - the rules by which --health names ranks: a vote, and what is slow. */
#include "unit.h"

#include "runtime/health/slow.h"

static void votes(void **state)
{
    static const struct {
        uint64_t hash[5];
        int n;
        bool any, known, odd[5];
    } cases[] = {
        {{7}, 1, false, true, {false}},
        {{7, 7, 7}, 3, false, true, {false, false, false}},
        {{7, 8}, 2, true, false, {true, true}}, /* nobody knows which */
        {{7, 8, 7}, 3, true, true, {false, true, false}},
        {{1, 2, 3}, 3, true, false, {true, true, true}},
        {{1, 1, 2, 2}, 4, true, false, {true, true, true, true}},
        {{9, 1, 1, 8, 1}, 5, true, true, {true, false, false, true, false}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool odd[5], known;
        assert_int_equal(rt_odd(cases[i].hash, cases[i].n, odd, &known), cases[i].any);
        assert_int_equal(known, cases[i].known);
        for (int k = 0; k < cases[i].n; k++)
            assert_int_equal(odd[k], cases[i].odd[k]);
    }
}

static void medians(void **state)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 3};
    (void)state;
    assert_true(rt_lower_median(odd, 3) == 2);
    assert_true(rt_lower_median(even, 4) == 2);
}

static void limits(void **state)
{
    double median;
    (void)state;
    /* Of two the faster one is the measure, and a quarter more is too much. */
    double two[] = {200, 100};
    assert_true(rt_slow_limit(two, 2, &median) == 125 && median == 100);
    /* Ranks that differ by nature have a wider limit: their distances are 20, 10, 0, 0, 180. */
    double five[] = {90, 110, 100, 110, 290};
    const double limit = rt_slow_limit(five, 5, &median);
    assert_true(median == 110 && limit > 110 + 0.25 * 110 - 1e-9 && limit < 290);
    double wide[] = {60, 80, 100, 120, 140};
    assert_true(rt_slow_limit(wide, 5, &median) > 140 && median == 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(votes), cmocka_unit_test(medians),
                                       cmocka_unit_test(limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
