/* compare.c - see compare.h. */
#include "ir/interpret.h"
#include "tests/codegen/compare.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void put_poison(Comparison *c, const Kernel *k, const Action *act, void *const *at)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < k->nin && k->phase != PHASE_combine; i++) {
        const Operand *o = &act->operand[i];
        if (draw_int(&c->rng, 2) || (o->type.dtype != DT_f32 && o->type.dtype != DT_f64))
            continue;
        double u = draw(&c->rng, 0, 1) * (double)type_elements(&o->type);
        number_put(at[i], o->type.dtype, strided_element(o, (int64_t)u), bad[draw_int(&c->rng, 3)]);
    }
}

/* Element e of result j as it is in `from`, a copy of the arena; of partial sums their total. */
static double result(const Comparison *c, const Kernel *k, const Operand *o, const void *at,
                     const unsigned char *from, int64_t e)
{
    const void *base = from + ((const unsigned char *)at - c->arena);
    if (k->phase != PHASE_partial)
        return number_at(base, o->type.dtype, strided_element(o, e));
    int64_t kept = type_elements(&o->type) / k->chunks;
    double sum = 0;
    for (int64_t chunk = 0; chunk < k->chunks; chunk++)
        sum += number_at(base, o->type.dtype, chunk * kept + e);
    return sum;
}

static bool same(const Comparison *c, double x, double y, double off)
{
    if (!isfinite(x) || !isfinite(y))
        return isfinite(x) == isfinite(y) && (c->poison || !(isnan(x) || isnan(y)));
    return fabs(x - y) <= off;
}

static int64_t result_elements(const Kernel *k, const Operand *o)
{
    return type_elements(&o->type) / (k->phase == PHASE_partial ? k->chunks : 1);
}

/* How far result j of the interpreter moves when what the kernel reads and computes is off by its
 * rounding: sums of many terms, quotients of small ones and differences of near ones move far. The
 * arena is as it was afterwards. */
static double sensitivity(Comparison *c, const Plan *p, const Action *act, void *const *at, int j)
{
    const Kernel *k = &p->kernels.data[act->kernel];
    const Operand *o = &act->operand[j];
    size_t bytes = (size_t)c->bytes;
    unsigned char *kept = malloc(bytes);
    double max = 0;
    memcpy(kept, c->arena, bytes);
    for (int iteration = 0; iteration < 3; iteration++) {
        memcpy(c->arena, c->before, bytes);
        for (int i = 0; i < act->noperands - k->nout; i++) {
            const Operand *in = &act->operand[i];
            for (int64_t e = 0; e < type_elements(&in->type); e++) {
                double x = number_at(at[i], in->type.dtype, strided_element(in, e));
                if (in->type.dtype == DT_f32 || in->type.dtype == DT_f64)
                    number_put(at[i], in->type.dtype, strided_element(in, e),
                               x * (1 + draw(&c->rng, -2, 2) * c->epsilon));
            }
        }
        interpret_kernel_shaken(p, act, at, c->rng);
        for (int64_t e = 0; e < result_elements(k, o); e++) {
            double x = result(c, k, o, at[j], c->want, e), y = result(c, k, o, at[j], c->arena, e);
            if (isfinite(x) && isfinite(y))
                max = fmax(max, fabs(x - y));
        }
    }
    memcpy(c->arena, kept, bytes);
    free(kept);
    return max;
}

/* Compares result j in the arena with c->want, and marks it as seen in c->before. */
static void compare_result(Comparison *c, const Plan *p, const Action *act, void *const *at, int j)
{
    const Kernel *k = &p->kernels.data[act->kernel];
    const Operand *o = &act->operand[j];
    int64_t n = result_elements(k, o);
    double size = 0;
    c->elements += (long)n;
    for (int64_t e = 0; e < n; e++) {
        double x = result(c, k, o, at[j], c->want, e);
        size = isfinite(x) ? fmax(size, fabs(x)) : size;
    }
    /* A wrong kernel is off by far more; test_math holds single operations to a bound. */
    double off = c->slack * c->epsilon * size;
    for (int64_t e = 0, tolerant = 0; e < n; e++) {
        double x = result(c, k, o, at[j], c->want, e), y = result(c, k, o, at[j], c->arena, e);
        if (!same(c, x, y, off) && !tolerant++)
            off += c->slack * sensitivity(c, p, act, at, j);
        if (!same(c, x, y, off))
            fail_msg("%s, result %d, element %lld: interpreter %.17g, kernel %.17g, of %g, may be "
                     "off by %g",
                     name_str(p->module->names, k->name), j, (long long)e, x, y, size, off);
    }
    size_t width = (size_t)dtype_bytes(o->type.dtype);
    size_t base = (size_t)((unsigned char *)at[j] - c->arena);
    for (int64_t e = 0; e < type_elements(&o->type); e++) {
        size_t from = base + (size_t)strided_element(o, e) * width;
        memcpy(c->before + from, c->arena + from, width);
    }
}

static void kernel(void *ctx, const Plan *p, const Action *act, void *const *at)
{
    Comparison *c = ctx;
    const Kernel *k = &p->kernels.data[act->kernel];
    const char *kind = name_str(p->module->names, k->ins->attrs.kind);
    c->seen[k->phase == PHASE_partial ? 3 : *kind == 'm' ? 0 : *kind == 'r' ? 1 : 2]++;
    size_t bytes = (size_t)c->bytes;
    unsigned char *clean = malloc(bytes);
    memcpy(clean, c->arena, bytes);
    if (c->poison)
        put_poison(c, k, act, at);
    memcpy(c->before, c->arena, bytes);

    interpret_kernel(p, act, at);
    memcpy(c->want, c->arena, bytes);
    memcpy(c->arena, c->before, bytes);
    c->run(c, p, act, at, 0);
    unsigned char *whole = malloc(bytes);
    memcpy(whole, c->arena, bytes);

    memcpy(c->arena, c->before, bytes);
    c->run(c, p, act, at, 1);
    if (memcmp(c->arena, whole, bytes) != 0)
        fail_msg("%s gives other bits when it is run in another way",
                 name_str(p->module->names, k->name));
    free(whole);

    for (int j = act->noperands - k->nout; j < act->noperands; j++)
        compare_result(c, p, act, at, j);
    if (memcmp(c->arena, c->before, bytes) != 0)
        fail_msg("%s writes beside its results", name_str(p->module->names, k->name));
    if (c->poison) { /* the rest of the program runs on clean numbers */
        memcpy(c->arena, clean, bytes);
        interpret_kernel(p, act, at);
    }
    free(clean);
}

static void compare_kernels(Model *t, Comparison *c)
{
    static const char *const functions[] = {"train", "eval", "sample"};
    lower_physical(t);
    Plan *p = plan_for(t, &test_device);
    c->open(c, t, p);
    c->bytes = p->arena_bytes;
    c->arena = arena_of_nan(p);
    c->before = malloc((size_t)c->bytes);
    c->want = malloc((size_t)c->bytes);
    for (int f = 0; f < 3; f++) {
        Run r = interpret(t, functions[f], 7);
        if (r.fn)
            run_planned(t, p, &r, c->arena, NEW_ARRAY(t->a, Tensor64, r.fn->results.n), kernel, c);
    }
    free(c->arena);
    free(c->before);
    free(c->want);
    c->close(c);
}

static double epsilon(DType f)
{
    return f == DT_f64 ? DBL_EPSILON : f == DT_bf16 ? 0x1p-7 : f == DT_f16 ? 0x1p-10 : FLT_EPSILON;
}

static void compare_shipped(const Comparison *like, long *seen)
{
    for (int k = 0; k < small_model_count; k++)
        for (int f = 0; f < 2; f++) {
            Model t;
            if (!sampled((uint64_t)(2 * k + f), SANITIZED ? 4 : 2))
                continue;
            Comparison c = *like;
            c.rng = (uint64_t)k;
            c.epsilon = epsilon(f ? DT_f64 : DT_f32);
            c.slack = 256;
            open_model(&t, &small_models[k], f ? DT_f64 : DT_f32);
            compare_kernels(&t, &c);
            model_close(&t);
            for (int i = 0; i < 3; i++)
                seen[i] += c.seen[i];
        }
}

/* A comparison of floats that differ by rounding may choose otherwise, but not in float64. Of
 * halves: operands of products and what loops carry are rounded to f. */
static void compare_random(const Comparison *like, DType f, bool poison, int programs, long *seen)
{
    Comparison c = *like;
    c.epsilon = epsilon(f);
    c.slack = dtype_is_half(f) ? 8 : f == DT_f64 && c.term_by_term ? 2048 : 256;
    c.poison = poison;
    for (int k = 0; k < programs; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 3 : 2))
            continue;
        Model t;
        int64_t sizes[GRAPH_DIMS];
        uint64_t seed = 1000 * sample_turn() + (uint64_t)k + 1;
        c.rng = seed;
        graph_sizes(&c.rng, sizes);
        model_open(&t);
        random_graph(&t, seed, dtype_wide(f), sizes);
        if (dtype_is_half(f)) {
            t.m->train.half = f;
            must_pass(&t, pass_precision);
        }
        if (k % 2)
            must_pass(&t, pass_simplify);
        compare_kernels(&t, &c);
        model_close(&t);
    }
    print_message("%ld map, %ld row, %ld col, %ld partial kernels; %ld elements\n", c.seen[0],
                  c.seen[1], c.seen[2], c.seen[3], c.elements);
    for (int i = 0; i < 3; i++)
        seen[i] += c.seen[i];
}

/* ---- the tests ------------------------------------------------------------------------------- */

typedef struct Tests {
    const Comparison *like;
    int programs;
    long seen[3]; /* kernels: map, row, col */
} Tests;

static void shipped(void **state)
{
    Tests *t = *state;
    compare_shipped(t->like, t->seen);
}

static void random_f64(void **state)
{
    Tests *t = *state;
    compare_random(t->like, DT_f64, false, t->programs, t->seen);
}

static void random_f32(void **state)
{
    Tests *t = *state;
    compare_random(t->like, DT_f32, false, t->programs, t->seen);
}

static void random_halves(void **state)
{
    Tests *t = *state;
    if (!t->like->halves)
        skip();
    compare_random(t->like, DT_bf16, false, t->programs / 2, t->seen);
    compare_random(t->like, DT_f16, false, t->programs / 2, t->seen);
}

static void not_finite(void **state)
{
    Tests *t = *state;
    compare_random(t->like, DT_f64, true, t->programs / 2, t->seen);
    compare_random(t->like, DT_f32, true, t->programs / 2, t->seen);
}

static void rounding(void **state)
{
    const Tests *t = *state;
    if (!t->like->halves)
        skip();
    compare_rounding(t->like);
}

static void each_kind(void **state)
{
    const Tests *t = *state;
    for (int i = 0; i < 3; i++)
        assert_true(t->seen[i] > 0);
}

int compare_all(const Comparison *like, int programs)
{
    Tests t = {.like = like, .programs = programs};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(shipped, &t),    cmocka_unit_test_prestate(random_f64, &t),
        cmocka_unit_test_prestate(random_f32, &t), cmocka_unit_test_prestate(random_halves, &t),
        cmocka_unit_test_prestate(not_finite, &t), cmocka_unit_test_prestate(each_kind, &t),
        cmocka_unit_test_prestate(rounding, &t)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
