/* Random programs: the gradients against differences of the loss, and every way of computing them
 * (kept or computed again, whole or in microbatches, simplified or not) against every other. */
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROGRAMS = 60 };

#define PLANNED RECOMPUTE_keep /* here: a random plan */

/* Everything the program computes, and what it computed before it was differentiated. */
static void gradients(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        if (!sampled(seed - 1, SANITIZED ? 4 : 1))
            continue;
        Model t;
        model_open(&t);
        random_model(&t, seed);
        assert_int_equal(ir_verify(t.m, stderr), 0);
        Tensor64 *args = inputs_for(&t, t.fn, seed, -0.7, 0.7);
        Tensor64 *before = run_fn(&t, t.fn, args);
        if (seed % 2)
            random_keep(&t, seed);
        must_pass(&t, pass_recompute);
        must_pass(&t, pass_differentiate);
        assert_true(difference(before, run_fn(&t, t.fn, args)) == 0);
        double error = gradient_error(&t, t.fn, args, 3, seed);
        if (error > 1e-6)
            ir_print(t.m, stderr);
        if (error > 1e-6)
            fail_msg("program %d: gradient is off by %.1e", (int)seed, error);
        model_close(&t);
    }
}

/* Three values that change places in a loop, so that a cotangent takes three iterations to come to
 * the third, and a stacked result of which every slice counts differently. */
static void changing_places(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Dim i = dim_of(&t, "i", 3), l = dim_of(&t, "l", 4);
    Type row = TYPE(DT_f64, i), stack = TYPE(DT_f64, l, i);
    Value in[3], arg[3];
    Builder body = {.m = t.m, .region = region_new(t.m, t.fn->body)};
    for (int k = 0; k < 3; k++) {
        in[k] = add_param(&t, (const char *[]){"a", "b", "c"}[k], row, 0);
        arg[k] = region_arg(t.m, body.region, row, 0);
    }
    region_arg(t.m, body.region, SCALAR(DT_i32), 0);
    Value results[] = {arg[1], arg[2], build1(&body, OP_sin, arg[0]),
                       build2(&body, OP_mul, arg[0], arg[1])};
    for (int k = 0; k < 4; k++)
        vec_push(t.a, &body.region->results, results[k]);
    Attrs attrs = {.dim = l, .carried = 3};
    Ins *loop =
        build_typed(&t.b, OP_repeat, &attrs, 3, in, 4, (Type[]){row, row, row, stack}, body.region);
    Value last = weighed(&t, loop->out[0], add_param(&t, "w", row, 0));
    Value each = weighed(&t, loop->out[3], add_param(&t, "v", stack, 0));
    add_loss(&t, build2(&t.b, OP_add, last, each));
    assert_int_equal(ir_verify(t.m, stderr), 0);
    must_pass(&t, pass_recompute);
    must_pass(&t, pass_differentiate);
    assert_true(gradient_error(&t, t.fn, inputs_for(&t, t.fn, 1, -1, 1), 0, 1) < 1e-6);
    model_close(&t);

    model_open(&t); /* only the last value of the first counts: all three matter */
    body = (Builder){.m = t.m, .region = region_new(t.m, t.fn->body)};
    for (int k = 0; k < 3; k++) {
        in[k] = add_param(&t, (const char *[]){"a", "b", "c"}[k], SCALAR(DT_f64), 0);
        arg[k] = region_arg(t.m, body.region, SCALAR(DT_f64), 0);
    }
    region_arg(t.m, body.region, SCALAR(DT_i32), 0);
    for (int k = 0; k < 3; k++)
        vec_push(t.a, &body.region->results,
                 k < 2 ? build2(&body, OP_mul, arg[k], arg[k + 1]) : arg[k]);
    attrs.dim = dim_of(&t, "l", 4);
    Type s = SCALAR(DT_f64);
    loop = build_typed(&t.b, OP_repeat, &attrs, 3, in, 3, (Type[]){s, s, s}, body.region);
    add_loss(&t, loop->out[0]);
    must_pass(&t, pass_recompute);
    must_pass(&t, pass_differentiate);
    assert_true(gradient_error(&t, t.fn, inputs_for(&t, t.fn, 1, 0.5, 1), 0, 1) < 1e-6);
    model_close(&t);
}

typedef struct Run {
    Model t;
    Tensor64 *out;
} Run;

static void open_run(Run *r, uint64_t seed, Recompute recompute, int64_t microbatch, bool simplify)
{
    model_open(&r->t);
    random_model(&r->t, seed);
    r->t.m->layout.microbatch = microbatch;
    if (recompute == PLANNED)
        random_keep(&r->t, seed);
    else
        r->t.m->layout.recompute = recompute;
    must_pass(&r->t, pass_recompute);
    must_pass(&r->t, pass_differentiate);
    must_pass(&r->t, pass_microbatch);
    if (simplify)
        must_pass(&r->t, pass_simplify);
    r->out = run_fn(&r->t, r->t.fn, inputs_for(&r->t, r->t.fn, seed, -0.7, 0.7));
}

static double worst(const Run *a, const Run *b)
{
    double worst = 0;
    assert_int_equal(a->t.fn->results.n, b->t.fn->results.n);
    for (size_t i = 0; i < a->t.fn->results.n; i++) {
        assert_int_equal(a->t.fn->results.data[i].tensor, b->t.fn->results.data[i].tensor);
        double d = difference(&a->out[i], &b->out[i]);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static void ways_agree(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        if (!sampled(seed - 1, SANITIZED ? 4 : 1))
            continue;
        Run base, simple, other;
        open_run(&base, seed, RECOMPUTE_none, 4, false);
        open_run(&simple, seed, RECOMPUTE_none, 4, true);
        for (int k = 0; k < 24; k++) {
            int64_t micro = 4 >> k / 8;
            bool simplify = k & 1;
            Recompute policy = (Recompute)(k >> 1 & 3);
            open_run(&other, seed, policy, micro, simplify);
            double d = worst(simplify ? &simple : &base, &other);
            /* Computed again in the same order: the same bits. What a loop in a loop adds up for
             * around it is one sum when it is simplified. */
            bool exact = micro == 4 && (simplify || policy != PLANNED);
            if (exact ? d != 0 : d > 1e-12) {
                ir_print(other.t.m, stderr);
                fail_msg("program %d, %s, microbatch %d%s: off by %.1e", (int)seed,
                         policy == PLANNED ? "planned" : recompute_names[policy], (int)micro,
                         simplify ? ", simplified" : "", d);
            }
            model_close(&other.t);
        }
        model_close(&base.t);
        model_close(&simple.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients),
                                       cmocka_unit_test(changing_places),
                                       cmocka_unit_test(ways_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
