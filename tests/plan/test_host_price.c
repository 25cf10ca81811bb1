/* test_host_price.c - what a processor does for kernels, convolutions and attention, against counts
 * by hand. */
#include "ir/cost.h"
#include "plan/host_price.h"
#include "tests/plan/planned.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ELEMENTS = 10 };

/* A kernel of one dim: ops of its operand and of the results of ops before, added up. */
typedef struct Drawn {
    Model t;
    Region *body;
    Builder inner;
    Type type;
    Value in, arg;
} Drawn;

static void begin(Drawn *k, DType dtype)
{
    model_open(&k->t);
    const Dim i = dim_of(&k->t, "i", ELEMENTS);
    k->type = type_in(dtype, 1, &i);
    k->body = region_new(k->t.m, k->t.fn->body);
    k->inner = (Builder){.m = k->t.m, .region = k->body};
    k->in = value_new(k->t.m, k->t.fn->body, k->type, 0);
    k->arg = region_arg(k->t.m, k->body, k->type, 0);
}

/* Additions of an element. */
static double end(Drawn *k, Value result)
{
    vec_push(k->t.a, &k->body->results, result);
    Attrs a = {.kind = name_intern(k->t.m->names, "map")};
    const Ins *fused = build_typed(&k->t.b, OP_fused, &a, 1, &k->in, 1, &k->type, k->body);
    const double all = host_operations(k->t.m, fused);
    model_close(&k->t);
    return all / ELEMENTS;
}

static double of_one(Op op, DType dtype)
{
    Drawn k;
    begin(&k, dtype);
    return end(&k, build(&k.inner, op, &(Attrs){0}, 1, &k.arg));
}

/* Of two ops of the same number, added. */
static double of_two(Op one, Op other, DType dtype)
{
    Drawn k;
    begin(&k, dtype);
    const Value x = build(&k.inner, one, &(Attrs){0}, 1, &k.arg);
    const Value y = build(&k.inner, other, &(Attrs){0}, 1, &k.arg);
    return end(&k, build2(&k.inner, OP_add, x, y));
}

static void equal(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("%.12g, and by hand %.12g", got, want);
}

static void kernels(void **state)
{
    (void)state;
    equal(of_one(OP_neg, DT_f32), 1);
    equal(of_one(OP_copy, DT_f32), 0);
    equal(of_two(OP_neg, OP_abs, DT_f32), 3);
    /* A function of doubles has half of the lanes. */
    assert_true(of_one(OP_exp, DT_f32) > 5);
    equal(of_one(OP_exp, DT_f64), 2 * of_one(OP_exp, DT_f32));
    /* Of a composed op its lines: rsqrt is a root and a division. */
    assert_true(of_one(OP_rsqrt, DT_f32) > of_one(OP_sqrt, DT_f32) + 1);
    /* Eight lines beside the tanh. */
    equal(of_one(OP_gelu_tanh, DT_f32), of_one(OP_tanh, DT_f32) + 8);
}

/* gelu_tanh and its slope have one tanh, and what that is of; of two numbers they have two. */
static void shared(void **state)
{
    (void)state;
    const double gelu = of_one(OP_gelu_tanh, DT_f32), slope = of_one(OP_gelu_tanh_slope, DT_f32);
    const double both = of_two(OP_gelu_tanh, OP_gelu_tanh_slope, DT_f32);
    equal(both, slope + 1 + 1); /* the last line of gelu_tanh, and the addition */
    assert_true(both < gelu + slope - of_one(OP_tanh, DT_f32));
    Drawn k;
    begin(&k, DT_f32);
    const Value other = build(&k.inner, OP_neg, &(Attrs){0}, 1, &k.arg);
    const Value x = build(&k.inner, OP_gelu_tanh, &(Attrs){0}, 1, &k.arg);
    const Value y = build(&k.inner, OP_gelu_tanh_slope, &(Attrs){0}, 1, &other);
    equal(end(&k, build2(&k.inner, OP_add, x, y)), gelu + slope + 2);
}

/* 3 x 3 taps of 64 channels: x is packed as nine times as many numbers, once for 1024 columns. */
static void convolution(void **state)
{
    (void)state;
    mg_conv_desc d = {
        .dtype = MG_F32, .rows = 2, .columns = 1, .terms = 3, .size = {32, 32, 64, 3, 3, 64}};
    const double shown = 32. * 32 * 3 * 3 * 64 * 4, flops = 2. * 32 * 32 * 64 * 3 * 3 * 64;
    const double packs = host_packs(&d, flops);
    assert_true(packs > shown && packs < 2 * shown);
    d.size[2] = 128;
    equal(host_packs(&d, 2 * flops), packs);
    d.size[2] = 2048;
    equal(host_packs(&d, 32 * flops), 2 * packs);
    /* Whole tiles of positions and of colours: once for several taps. */
    d.size[2] = 64;
    d.x[5] = 1;
    d.axes = 1;
    d.axis[0].by[1] = 1;
    assert_true(host_packs(&d, flops) < 0.6 * packs);
    d.size[1] = 24;
    equal(host_packs(&d, flops * 24 / 32), packs * 24 / 32);
}

/* Fewer keys, more beside them; a window has a second edge. */
static void beside(void **state)
{
    (void)state;
    assert_true(attention_beside(false, 128, true, false) >
                1.9 * attention_beside(false, 256, true, false));
    assert_true(attention_beside(false, 128, true, true) >
                attention_beside(false, 128, true, false));
    assert_true(attention_beside(true, 128, true, false) >
                attention_beside(false, 128, true, false));
    assert_true(attention_beside(false, 128, false, false) <
                attention_beside(false, 128, true, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels), cmocka_unit_test(shared),
                                       cmocka_unit_test(convolution), cmocka_unit_test(beside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
