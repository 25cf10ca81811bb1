/* Whether a program is started again: how often, after how long, and at which ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/elastic/rule.h"
#include "runtime/run.h"

static void outcomes(void **state)
{
    (void)state;
    assert_int_equal(rt_outcome_of(0, false), RT_ENDED_WELL);
    assert_int_equal(rt_outcome_of(RT_STOPPED, false), RT_ENDED_STOPPED);
    assert_int_equal(rt_outcome_of(128 + 9, true), RT_ENDED_LOST);
    assert_int_equal(rt_outcome_of(RT_CORRUPT, false), RT_ENDED_CORRUPT);
    for (int code = 1; code < 256; code++) {
        const bool again = code == RT_LOST || code == RT_BROKE || code == RT_IO;
        if (code != RT_STOPPED && code != RT_CORRUPT)
            assert_int_equal(rt_outcome_of(code, false), again ? RT_ENDED_LOST : RT_ENDED_FOR_GOOD);
    }
}

/* Ends at other steps use up the restarts, and no more. */
static void counts(void **state)
{
    rt_rule r = {.most = 4};
    int wait;
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rt_rule_next(&r, 10 * i, &wait), RT_RESTART);
        assert_int_equal(wait, 0);
        assert_int_equal(r.restarts, i + 1);
    }
    assert_int_equal(rt_rule_next(&r, 100, &wait), RT_TOO_MANY);
    assert_int_equal(r.restarts, 4);
    r = (rt_rule){.most = 0};
    assert_int_equal(rt_rule_next(&r, 0, &wait), RT_TOO_MANY);
}

static void same_step(void **state)
{
    rt_rule r = {.most = 100};
    int wait;
    (void)state;
    assert_int_equal(rt_rule_next(&r, 7, &wait), RT_RESTART);
    assert_int_equal(rt_rule_next(&r, 7, &wait), RT_RESTART);
    assert_int_equal(wait, 1);
    assert_int_equal(rt_rule_next(&r, 8, &wait), RT_RESTART); /* it came further */
    assert_int_equal(wait, 0);
    assert_int_equal(rt_rule_next(&r, 8, &wait), RT_RESTART);
    assert_int_equal(rt_rule_next(&r, 8, &wait), RT_TOO_OFTEN_HERE);
    r = (rt_rule){.most = 100}; /* before any step */
    assert_int_equal(rt_rule_next(&r, -1, &wait), RT_RESTART);
    assert_int_equal(rt_rule_next(&r, -1, &wait), RT_RESTART);
    assert_int_equal(rt_rule_next(&r, -1, &wait), RT_TOO_OFTEN_HERE);
}

/* Ever longer, as long as it comes no further; a step back and forth is no way forward. */
static void waits(void **state)
{
    static const int want[] = {0, 1, 2, 4, 8, 16, 32, RT_WAIT_MAX, RT_WAIT_MAX};
    rt_rule r = {.most = 100};
    int wait;
    (void)state;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(rt_rule_next(&r, 50 - i, &wait), RT_RESTART);
        assert_int_equal(wait, want[i]);
    }
    assert_int_equal(rt_rule_next(&r, 60, &wait), RT_RESTART);
    assert_int_equal(wait, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outcomes), cmocka_unit_test(counts),
                                       cmocka_unit_test(same_step), cmocka_unit_test(waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
