/* trial.c - see trial.h. */
#include "tests/plan/trial.h"
#include "tests/plan/mutate.h"
#include "plan/check/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const functions[TRIED] = {"train",   "eval",   "sample",
                                             "prefill", "decode", "spread"};

static void run_all(Trial *x, const Plan *p, Tensor64 **results, uint64_t *order)
{
    unsigned char *arena = arena_of_nan(p);
    for (int f = 0; f < TRIED; f++)
        if (x->run[f].fn) {
            x->run[f].order = order;
            results[f] = NEW_ARRAY(x->t.a, Tensor64, x->run[f].fn->results.n);
            assert_true(run_planned(&x->t, p, &x->run[f], arena, results[f], NULL, NULL));
        }
    free(arena);
}

void trial_start(Trial *x)
{
    for (int f = 0; f < TRIED; f++)
        x->run[f] = interpret(&x->t, functions[f], 5);
    lower_for(&x->t, x->device);
    x->p = plan_for(&x->t, x->device ? x->device : &test_device);
    run_all(x, x->p, x->results, NULL);
}

int trial_broken(const Plan *p)
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
    for (int f = 0; f < TRIED; f++)
        for (size_t i = 0; x->run[f].fn && i < x->run[f].fn->results.n; i++)
            if (memcmp(results[f][i].data, x->results[f][i].data,
                       sizeof(double) * (size_t)type_elements(&results[f][i].type)) != 0)
                return false;
    return true;
}

void trial_mutations(Trial *x, const char *of, uint64_t seed, int count)
{
    int caught = 0, tried = 0;
    for (int n = 0; n < count; n++) {
        char what[160];
        Arena *a = arena_new();
        Plan *bad = plan_copy(x->p, a);
        if (plan_mutate(bad, &seed, what, sizeof what)) {
            tried++;
            if (trial_broken(bad)) {
                caught++;
            } else {
                for (int order = 0; order < 4; order++) {
                    Tensor64 *results[TRIED] = {0};
                    run_all(x, bad, results, order ? &seed : NULL);
                    if (!same_numbers(x, results))
                        fail_msg("%s: not noticed: %s", of, what);
                }
            }
        }
        arena_free(a);
    }
    /* Some change nothing: two actions that may run in either order or side by side, a place that
     * is free. */
    assert_true(tried > count / 2);
    if (caught * 10 < tried * 7)
        fail_msg("%s: only %d of %d noticed", of, caught, tried);
}

void trial_each_is_said(const Trial *x, const Said *all, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        Arena *a = arena_new();
        Plan *bad = plan_copy(x->p, a);
        all[k].lie(bad);
        plan_check(bad, f);
        fclose(f);
        if (!strstr(text, all[k].said))
            fail_msg("lie %zu: not '%s', but '%s'", k, all[k].said, text);
        free(text);
        arena_free(a);
    }
}
