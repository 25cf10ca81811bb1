/* Generated kernels against the reference interpreter, each on the operands it meets in a plan: the
 * same numbers up to rounding, the same bits however the work units are shared out, nothing written
 * but the results, and a NaN or an infinity wherever the interpreter has one. */
#include "tests/codegen/native.h"
#include "tests/plan/random_graph.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Comparison {
    Native native;
    uint64_t rng;
    double epsilon; /* of the floats */
    bool poison;    /* puts NaN and infinities into what the kernel reads */
    unsigned char *arena, *before, *want;
    int64_t bytes;
    long kernels[4], elements; /* seen: map, row, col, partial sums; and their results' elements */
} Comparison;

/* All units in random pieces, the pieces in random order. */
static void run_in_pieces(Comparison *c, const Plan *p, const Action *act, void *const *at,
                          int most)
{
    int64_t units = p->kernels.data[act->kernel].units, cut[17];
    int n = most > 1 ? 1 + draw_int(&c->rng, most) : 1;
    for (int i = 0; i <= n; i++)
        cut[i] = units * i / n;
    for (int i = 1; i < n; i++) /* not just where they are equal */
        if (cut[i - 1] + 1 < cut[i] && draw_int(&c->rng, 2))
            cut[i]--;
    int first = draw_int(&c->rng, n);
    for (int i = 0; i < n; i++) {
        int k = (first + i) % n;
        c->native.kernel[act->kernel](at, cut[k], cut[k + 1]);
    }
}

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

/* How far result j of the interpreter moves when what the kernel reads is off by its rounding: sums
 * of many terms and quotients of small ones move far. The arena is as it was afterwards. */
static double sensitivity(Comparison *c, const Plan *p, const Action *act, void *const *at, int j)
{
    const Kernel *k = &p->kernels.data[act->kernel];
    const Operand *o = &act->operand[j];
    size_t bytes = (size_t)c->bytes;
    unsigned char *kept = malloc(bytes);
    double most = 0;
    memcpy(kept, c->arena, bytes);
    for (int round = 0; round < 3; round++) {
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
        interpret_kernel(p, act, at);
        for (int64_t e = 0; e < result_elements(k, o); e++) {
            double x = result(c, k, o, at[j], c->want, e), y = result(c, k, o, at[j], c->arena, e);
            if (isfinite(x) && isfinite(y))
                most = fmax(most, fabs(x - y));
        }
    }
    memcpy(c->arena, kept, bytes);
    free(kept);
    return most;
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
    /* What is wrong is wrong by far more; how exact a single operation is, test_math says. */
    double off = 256 * c->epsilon * size;
    for (int64_t e = 0, tolerant = 0; e < n; e++) {
        double x = result(c, k, o, at[j], c->want, e), y = result(c, k, o, at[j], c->arena, e);
        if (!same(c, x, y, off) && !tolerant++)
            off += 256 * sensitivity(c, p, act, at, j);
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
    c->kernels[k->phase == PHASE_partial ? 3 : *kind == 'm' ? 0 : *kind == 'r' ? 1 : 2]++;
    size_t bytes = (size_t)c->bytes;
    unsigned char *clean = malloc(bytes);
    memcpy(clean, c->arena, bytes);
    if (c->poison)
        put_poison(c, k, act, at);
    memcpy(c->before, c->arena, bytes);

    interpret_kernel(p, act, at);
    memcpy(c->want, c->arena, bytes);
    memcpy(c->arena, c->before, bytes);
    run_in_pieces(c, p, act, at, 1);
    unsigned char *whole = malloc(bytes);
    memcpy(whole, c->arena, bytes);

    memcpy(c->arena, c->before, bytes);
    run_in_pieces(c, p, act, at, 16);
    if (memcmp(c->arena, whole, bytes) != 0)
        fail_msg("%s depends on how its units are shared out", name_str(p->module->names, k->name));
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

static void compare(Model *t, Comparison *c)
{
    static const char *const functions[] = {"train", "eval", "sample"};
    lower_physical(t);
    Plan *p = plan_for(t, &test_device);
    native_open(&c->native, t, p);
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
    native_close(&c->native);
}

static double epsilon(DType f)
{
    return f == DT_f64 ? DBL_EPSILON : FLT_EPSILON;
}

static void shipped(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++)
        for (int f = 0; f < 2; f++) {
            Model t;
            Comparison c = {.rng = (uint64_t)k, .epsilon = epsilon(f ? DT_f64 : DT_f32)};
            open_model(&t, &small_models[k], f ? DT_f64 : DT_f32);
            compare(&t, &c);
            model_close(&t);
        }
}

/* A comparison of floats that differ by rounding may choose otherwise, but not in float64. */
static void random_bodies(DType f, bool poison, int programs)
{
    Comparison c = {.epsilon = epsilon(f), .poison = poison};
    for (int k = 0; k < programs; k++) {
        Model t;
        int64_t sizes[GRAPH_DIMS];
        uint64_t seed = 1000 * sample_turn() + (uint64_t)k + 1;
        c.rng = seed;
        graph_sizes(&c.rng, sizes);
        model_open(&t);
        random_graph(&t, seed, f, sizes);
        if (k % 2)
            must_pass(&t, pass_simplify);
        compare(&t, &c);
        model_close(&t);
    }
    print_message("%ld map, %ld row, %ld col, %ld partial kernels; %ld elements\n", c.kernels[0],
                  c.kernels[1], c.kernels[2], c.kernels[3], c.elements);
    for (int i = 0; i < 3; i++)
        assert_true(c.kernels[i] > programs);
}

static void random_f64(void **state)
{
    (void)state;
    random_bodies(DT_f64, false, PROGRAMS);
}

static void random_f32(void **state)
{
    (void)state;
    random_bodies(DT_f32, false, PROGRAMS);
}

static void not_finite(void **state)
{
    (void)state;
    random_bodies(DT_f64, true, PROGRAMS / 2);
    random_bodies(DT_f32, true, PROGRAMS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped), cmocka_unit_test(random_f64),
                                       cmocka_unit_test(random_f32), cmocka_unit_test(not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
