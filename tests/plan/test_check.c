/* The proof of a plan, tested by plans with one mistake in them: whatever it lets pass computes the
 * same numbers, and it lets hardly anything pass. */
#include "tests/plan/mutate.h"
#include "tests/plan/planned.h"
#include "tests/plan/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const functions[] = {"train", "eval", "sample"};

typedef struct Trial {
    Model t;
    Plan *p;
    Run run[3];
    Tensor64 *results[3];
} Trial;

static void run_all(Trial *x, const Plan *p, Tensor64 **results)
{
    unsigned char *arena = arena_of_nan(p);
    for (int f = 0; f < 3; f++)
        if (x->run[f].fn) {
            results[f] = NEW_ARRAY(x->t.a, Tensor64, x->run[f].fn->results.n);
            assert_true(run_planned(&x->t, p, &x->run[f], arena, results[f]));
        }
    free(arena);
}

static void start(Trial *x)
{
    for (int f = 0; f < 3; f++)
        x->run[f] = interpret(&x->t, functions[f], 5);
    lower_physical(&x->t);
    x->p = plan_for(&x->t, &test_device);
    run_all(x, x->p, x->results);
}

static int broken_in(const Plan *p)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    int n = plan_check(p, f);
    fclose(f);
    free(text);
    return n;
}

/* All results of all functions, bit for bit. */
static bool same_numbers(const Trial *x, Tensor64 *const *results)
{
    for (int f = 0; f < 3; f++)
        for (size_t i = 0; x->run[f].fn && i < x->run[f].fn->results.n; i++)
            if (memcmp(results[f][i].data, x->results[f][i].data,
                       sizeof(double) * (size_t)type_elements(&results[f][i].type)) != 0)
                return false;
    return true;
}

static void mutations(Trial *x, const char *of, uint64_t seed, int count)
{
    int caught = 0, tried = 0;
    for (int n = 0; n < count; n++) {
        char what[160];
        Arena *a = arena_new();
        Plan *bad = plan_copy(x->p, a);
        if (plan_mutate(bad, &seed, what, sizeof what)) {
            tried++;
            if (broken_in(bad)) {
                caught++;
            } else {
                Tensor64 *results[3] = {0};
                run_all(x, bad, results);
                if (!same_numbers(x, results))
                    fail_msg("%s: not noticed: %s", of, what);
            }
        }
        arena_free(a);
    }
    /* Some change nothing: two actions that may run in either order, a place that is free. */
    assert_true(tried > count / 2);
    if (caught * 10 < tried * 8)
        fail_msg("%s: only %d of %d noticed", of, caught, tried);
}

static void shipped(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        Trial x = {0};
        open_model(&x.t, &small_models[k], DT_f64);
        start(&x);
        mutations(&x, small_models[k].file, (uint64_t)k, 600);
        model_close(&x.t);
    }
}

static void random_programs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        Trial x = {0};
        open_random(&x.t, seed, 2, DT_f64);
        start(&x);
        mutations(&x, "random program", seed, 200);
        model_close(&x.t);
    }
}

static void random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        Trial x = {0};
        model_open(&x.t);
        random_graph(&x.t, seed);
        start(&x);
        mutations(&x, "random graph", seed, 100);
        model_close(&x.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped), cmocka_unit_test(random_programs),
                                       cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
