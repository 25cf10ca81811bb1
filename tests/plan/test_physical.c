/* The physical passes and the planner change no number: the module after simplify, in the
 * interpreter, against the module after products and fusion, and against the plan's actions run on
 * a byte arena. On the shipped models and on random programs, in float64 and in float32. */
#include "tests/plan/planned.h"
#include "tests/plan/random_graph.h"
#include "plan/check/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FUNCTIONS = 4 };
static const char *const functions[] = {"train", "eval", "sample", "round"};

/* How far a run's results move when its parameters do by parts in 2^11, the rounding of an f16: a
 * program that magnifies that magnifies each later rounding too. */
static double sensitivity(Model *t, const Run *r)
{
    double worst = 0;
    for (uint64_t draw = 1; draw <= 3; draw++) {
        size_t which;
        Tensor64 *args = inputs_for(t, r->fn, 7, -1, 1);
        for (size_t i = 0; i < r->fn->args.n; i++) {
            uint64_t rng = draw * 1000 + i;
            if (r->fn->args.data[i].role == ARG_param)
                for (int64_t k = 0; k < type_elements(&args[i].type); k++)
                    args[i].data[k] *= 1 + (draw_int(&rng, 2) ? 0x1p-11 : -0x1p-11);
        }
        worst = fmax(worst, worst_difference(r->fn, r->results, run_fn(t, r->fn, args), &which));
    }
    return worst;
}

/* Everything that the functions of a program gave before and after: apart by no more than least,
 * or, where `magnified` is not 0, so many times the program's sensitivity. (Of 20,000 programs in
 * f16 the worst was apart by 97 times its own.) How far what was planned is apart. */
static double compare(Model *t, const char *what, int number, double least, double magnified)
{
    Run before[FUNCTIONS], after[FUNCTIONS];
    double tolerances[FUNCTIONS], worst = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        before[f] = interpret(t, functions[f], 7);
        tolerances[f] = least;
        if (magnified && before[f].fn)
            tolerances[f] = fmax(least, magnified * sensitivity(t, &before[f]));
    }
    offload_some(t, (uint64_t)number);
    lower_physical(t);
    for (int f = 0; f < FUNCTIONS; f++) {
        size_t which = 0;
        after[f] = interpret(t, functions[f], 7);
        double d = after[f].fn
                       ? worst_difference(after[f].fn, before[f].results, after[f].results, &which)
                       : 0;
        if (d > tolerances[f])
            fail_msg("%s %d, @%s: fused, result %zu is off by %.1e", what, number, functions[f],
                     which, d);
    }
    Plan *p = plan_for(t, &test_device);
    assert_int_equal(plan_check(p, stderr), 0);
    unsigned char *arena = arena_of_nan(p);
    for (int f = 0; f < FUNCTIONS; f++) {
        size_t which = 0;
        if (!after[f].fn)
            continue;
        Tensor64 *planned = NEW_ARRAY(t->a, Tensor64, after[f].fn->results.n);
        assert_true(run_planned(t, p, &after[f], arena, planned, NULL, NULL));
        double d = worst_difference(after[f].fn, before[f].results, planned, &which);
        if (d > tolerances[f])
            fail_msg("%s %d, @%s: planned, result %zu is off by %.1e", what, number, functions[f],
                     which, d);
        worst = fmax(worst, d);
        uint64_t order = (uint64_t)number + 1;
        Tensor64 *beside = NEW_ARRAY(t->a, Tensor64, after[f].fn->results.n);
        after[f].order = &order;
        assert_true(run_planned(t, p, &after[f], arena, beside, NULL, NULL));
        if (worst_difference(after[f].fn, planned, beside, &which) > 0)
            fail_msg("%s %d, @%s: result %zu is another where streams run in another order", what,
                     number, functions[f], which);
    }
    free(arena);
    return worst;
}

static void shipped(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++)
        for (uint64_t keep = 0; keep < 5; keep++) {
            Model t;
            if (!sampled(5 * (uint64_t)k + keep, SANITIZED ? 10 : 2))
                continue;
            open_kept(&t, &small_models[k], DT_f64, keep ? 4 * sample_turn() + keep : 0);
            compare(&t, small_models[k].file, k, 1e-10, 0);
            model_close(&t);
        }
}

/* In float32 each number is rounded when it reaches memory, which the interpreter does not do. */
static void shipped_f32(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        open_model(&t, &small_models[k], DT_f32);
        compare(&t, small_models[k].file, k, 2e-4, 0);
        model_close(&t);
    }
}

/* Rounding decides which experts a position chooses if there are more than it takes. */
static bool chooses(const Small *s)
{
    for (int i = 0; s->define[i]; i++)
        if (strcmp(s->define[i], "experts=3") == 0)
            return true;
    return false;
}

/* With products in bf16 what is stored is rounded to 2^-8, sums that a call adds to among them:
 * what is wrong is wrong by its own size. */
static void shipped_bf16(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        if (chooses(&small_models[k]))
            continue;
        open_model(&t, &small_models[k], DT_bf16);
        compare(&t, small_models[k].file, k, 0.2, 0);
        model_close(&t);
    }
}

static void random_program(uint64_t seed, bool keep)
{
    for (int micro = 2; micro <= 4; micro += 2) {
        Model t;
        open_random(&t, seed, micro, DT_f64, keep);
        compare(&t, "random program", (int)seed, 1e-9, 0);
        model_close(&t);
    }
}

/* One program in a hundred magnifies roundings so much that it is apart by 0.05: of 50 no more than
 * 5 are, and those no more than their sensitivity explains. */
static void random_programs_f16(void **state)
{
    (void)state;
    int apart = 0;
    for (uint64_t seed = 50 * sample_turn() + 1, n = 0; n < 50; seed++, n++) {
        Model t;
        if (!sampled(n, SANITIZED ? 10 : 2))
            continue;
        open_random(&t, seed, seed % 2 ? 2 : 4, DT_f16, seed % 3 == 0);
        apart += compare(&t, "random program in f16", (int)seed, 0.1, 128) > 0.05;
        model_close(&t);
    }
    assert_true(apart <= 5);
}

static void random_programs(void **state)
{
    (void)state;
    for (uint64_t seed = 200 * sample_turn() + 1, n = 0; n < 200; seed++, n++)
        if (sampled(n, SANITIZED ? 10 : 2))
            random_program(seed, seed % 2);
}

/* A loop's result that the loop after it counts on; sums in the place of an argument. */
static void programs_that_failed(void **state)
{
    static const uint64_t seeds[] = {20842, 7825, 14036, 14256, 34354};
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        random_program(seeds[i], false);
}

/* Not through the logical passes, but for what simplify makes of them on odd seeds. */
static void one_graph(uint64_t seed)
{
    Model t;
    int64_t sizes[GRAPH_DIMS];
    memcpy(sizes, graph_small, sizeof sizes);
    uint64_t rng = seed;
    if (seed % 10 == 0)
        graph_sizes(&rng, sizes);
    model_open(&t);
    random_graph(&t, seed, DT_f64, sizes);
    if (seed % 2)
        must_pass(&t, pass_simplify);
    compare(&t, "random graph", (int)seed, 1e-10, 0);
    model_close(&t);
}

static void random_graphs(void **state)
{
    (void)state;
    uint64_t turn = 1000 * sample_turn();
    for (uint64_t seed = turn + 1; seed <= turn + 1000; seed++)
        if (sampled(seed, SANITIZED ? 8 : 2))
            one_graph(seed);
    one_graph(512854); /* failed once: a carried value that never changes was an alias */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped),
                                       cmocka_unit_test(shipped_f32),
                                       cmocka_unit_test(shipped_bf16),
                                       cmocka_unit_test(random_programs),
                                       cmocka_unit_test(random_programs_f16),
                                       cmocka_unit_test(programs_that_failed),
                                       cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
