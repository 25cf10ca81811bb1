/* The scale of a loss in f16: DeepSpeed's rule, by its own numbers. */
#include "unit.h"

static mg_run start(mg_program *p, double scale, double least, int64_t window, int64_t hysteresis)
{
    *p = (mg_program){.scale = {scale, least, window, hysteresis}};
    mg_run r = {.program = p};
    rt_scale_start(&r);
    return r;
}

static bool one(mg_run *r, bool overflow)
{
    r->overflow = false;
    r->state.step++;
    if (!overflow)
        rt_scale_good(r);
    else if (!rt_scale_forgives(r))
        return false;
    assert_int_equal(r->overflow, overflow);
    return true;
}

/* The scales of DynamicLossScaler.update_scale for window 3, hysteresis 2, from 16. */
static void deepspeed(void **state)
{
    static const int overflow[] = {1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    static const double scale[] = {16, 8, 4, 4, 4, 4, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8, 16};
    mg_program p;
    mg_run r = start(&p, 16, 1, 3, 2);
    (void)state;
    for (int i = 0; i < 17; i++) {
        assert_true(one(&r, overflow[i]));
        assert_float_equal(r.state.scale.value, scale[i], 0);
    }
    assert_int_equal(rt_updates(&r), 12);
}

static void at_the_least(void **state)
{
    mg_program p;
    mg_run r = start(&p, 4, 1, 10, 1);
    (void)state;
    assert_true(one(&r, true));
    assert_true(one(&r, true));
    assert_float_equal(r.state.scale.value, 1, 0);
    assert_false(one(&r, true)); /* then it is no matter of scaling */
    assert_float_equal(r.state.scale.value, 1, 0);
    r = start(&p, 4, 3, 10, 1); /* never below it */
    assert_true(one(&r, true));
    assert_float_equal(r.state.scale.value, 3, 0);
}

static void without(void **state)
{
    mg_program p;
    mg_run r = start(&p, 0, 0, 0, 0);
    (void)state;
    assert_true(one(&r, false));
    assert_false(one(&r, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(deepspeed), cmocka_unit_test(at_the_least),
                                       cmocka_unit_test(without)};
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
