/* test_rounds.c - of several runs the typical one, and whether there were runs enough, by times
 * that are made up. */
#include "compiler/calibrate_rounds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ACTIONS = 3, RUNS = 5 };

static bool near(double x, double y)
{
    return fabs(x - y) < 1e-9;
}

/* A run in which the machine takes `by` times as long for all, and `again` for the last action. */
static Report run_of(Arena *a, double by, double again)
{
    static const char *const kind[ACTIONS] = {"kernel", "product", "kernel"};
    Report r = {.a = a, .steps = 1};
    for (int i = 0; i < ACTIONS; i++) {
        const double us = (10 + i) * by * (i == ACTIONS - 1 ? again : 1);
        vec_push(a, &r.actions,
                 ((ReportLine){.name = kind[i],
                               .kind = kind[i],
                               .calls = 1,
                               .measured = us,
                               .predicted = 5,
                               .flops = 100 * i,
                               .bytes = 7}));
        if (!i) /* an action that never ran */
            vec_push(a, &r.actions, ((ReportLine){0}));
    }
    return r;
}

/* A run in which all was slow does not count; one in which one action was does, and its mean has
 * that. */
static void typical(void **state)
{
    (void)state;
    Arena *a = arena_new();
    const Report run[RUNS] = {run_of(a, 3, 1), run_of(a, 1, 1), run_of(a, 1, 5), run_of(a, 1, 1),
                              run_of(a, 1, 1)};
    const double seconds[RUNS] = {3, 1, 1.2, 1, 1};
    const Report r = calibrate_typical(a, run, seconds, RUNS);
    for (int k = 0; k < RUNS; k++)
        assert_true(calibrate_counts(seconds, RUNS, k) == (k > 0));
    assert_int_equal(r.actions.n, ACTIONS + 1);
    assert_true(near(r.actions.data[0].measured, 10) && near(r.actions.data[2].measured, 11));
    assert_null(r.actions.data[1].name);
    assert_true(near(r.actions.data[3].measured, 24)); /* the mean of 12, 60, 12 and 12 */
    /* Kinds are the sums of their actions; what was said of them is that of one run. */
    assert_int_equal(r.kinds.n, 2);
    for (size_t k = 0; k < r.kinds.n; k++) {
        const ReportLine *l = &r.kinds.data[k];
        const bool kernels = !strcmp(l->kind, "kernel");
        assert_true(near(l->measured, kernels ? 10 + 24 : 11));
        assert_true(near(l->predicted, kernels ? 10 : 5) && near(l->bytes, kernels ? 14 : 7));
        assert_true(near(l->flops, kernels ? 200 : 100) && near(l->calls, kernels ? 2 : 1));
    }
    /* The runs are as they were. */
    assert_true(near(run[0].actions.data[0].measured, 30) && run[0].kinds.n == 0);
    /* All count where all take as long, and one alone does. */
    const double even[RUNS] = {1, 1, 1, 1, 1};
    assert_true(near(calibrate_typical(a, run, even, 2).actions.data[0].measured, 20));
    assert_true(near(calibrate_typical(a, run, seconds, 1).actions.data[0].measured, 30));
    arena_free(a);
}

static void settled(void **state)
{
    (void)state;
    const double even[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const double swings[] = {1, 2, 1, 2, 1, 2, 1, 2, 1};
    const double once[] = {1, 1.02, 9, 1.01, 1, 1, 1, 1, 1};
    assert_true(near(calibrate_scatter(even, 5), 1));
    assert_true(near(calibrate_scatter(swings, 4), 2));
    assert_true(near(calibrate_scatter(swings, CALIBRATE_MOST_ROUNDS), 2));
    assert_false(calibrate_settled(even, 0));
    assert_false(calibrate_settled(even, CALIBRATE_ROUNDS - 1));
    assert_true(calibrate_settled(even, CALIBRATE_ROUNDS));
    for (int n = 0; n < CALIBRATE_MOST_ROUNDS; n++)
        assert_false(calibrate_settled(swings, n));
    assert_true(calibrate_settled(swings, CALIBRATE_MOST_ROUNDS)); /* it ends */
    /* It ends earlier where others have the machine. */
    const double loaded[] = {9, 6, 8};
    assert_false(calibrate_settled(loaded, CALIBRATE_LEAST_ROUNDS - 1));
    assert_true(calibrate_settled(loaded, CALIBRATE_LEAST_ROUNDS));
    assert_false(calibrate_settled(even, CALIBRATE_LEAST_ROUNDS));
    /* One slow round is one more question, no more. */
    assert_false(calibrate_settled(once, CALIBRATE_ROUNDS));
    assert_true(calibrate_settled(once, CALIBRATE_ROUNDS + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(typical), cmocka_unit_test(settled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
