/* How exact the functions of generated kernels are: against libm in long double, on floats of every
 * size, as a kernel meets them (vectors and the remainder of a loop). Prints what it measured. And
 * that an element has the same bits wherever in a loop it is, of every pointwise op there is. */
#include "tests/codegen/native.h"
#include "plan/nest.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 4099, ROUNDS = 64 };

typedef struct Function {
    Op op;
    long double (*exact)(long double);
    double ulp; /* at most, in either precision */
} Function;

static long double rsqrt_exact(long double x)
{
    return 1 / sqrtl(x);
}
static long double sigmoid_exact(long double x)
{
    return 1 / (1 + expl(-x));
}
static long double abs_exact(long double x)
{
    return fabsl(x);
}
static long double sign_exact(long double x)
{
    return (x > 0) - (x < 0);
}
static long double neg_exact(long double x)
{
    return -x;
}

/* libmvec promises 4 ulp; sigmoid adds a sum and a quotient to its exp. */
static const Function functions[] = {
    {OP_exp, expl, 4},
    {OP_log, logl, 4},
    {OP_tanh, tanhl, 4},
    {OP_erf, erfl, 4},
    {OP_sin, sinl, 4},
    {OP_cos, cosl, 4},
    {OP_sqrt, sqrtl, 0.5},
    {OP_rsqrt, rsqrt_exact, 1.5},
    {OP_sigmoid, sigmoid_exact, 5},
    {OP_abs, abs_exact, 0},
    {OP_sign, sign_exact, 0},
    {OP_neg, neg_exact, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* The kernel y = op x (or op(x, z)) on n elements, added to the plan. */
static void add_kernel(Model *t, Plan *p, Op op, DType f, int nin, int64_t n)
{
    Type type = TYPE(f, dim_of(t, arena_printf(t->a, "n%lld", (long long)n), n));
    Region *body = region_new(t->m, t->fn->body);
    Builder inner = t->b;
    Value in[2], arg[2];
    inner.region = body;
    for (int i = 0; i < nin; i++) {
        in[i] = value_new(t->m, t->fn->body, type, 0);
        arg[i] = region_arg(t->m, body, type, 0);
    }
    Value y = build(&inner, op, NULL, nin, arg);
    vec_push(t->a, &body->results, y);
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    Kernel k = {.nin = nin, .nout = 1, .noperands = nin + 1};
    k.ins = build_typed(&t->b, OP_fused, &a, nin, in, 1, &type, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "k%zu", p->kernels.n));
    for (int i = 0; i <= nin; i++) {
        k.operand[i] = (Operand){.type = type, .stride = {1}, .read = i < nin, .write = i == nin};
        k.alias[i] = -1;
    }
    kernel_nest(t->m, &k);
    vec_push(t->a, &p->kernels, k);
}

static uint64_t next(uint64_t *state)
{
    return (uint64_t)(draw(state, 0, 1) * 9007199254740992.0) << 11 ^
           (uint64_t)(draw(state, 0, 1) * 9007199254740992.0);
}

/* A float of any size that is not subnormal, sign included; every fourth near one. */
static double any_float(uint64_t *state, DType f)
{
    uint64_t bits = next(state);
    if (bits % 4 == 0)
        return f == DT_f32 ? (double)(float)draw(state, -20, 20) : draw(state, -20, 20);
    for (;; bits = next(state)) {
        double x;
        float single;
        uint32_t low = (uint32_t)(bits >> 16);
        memcpy(&x, &bits, sizeof x);
        memcpy(&single, &low, sizeof single);
        x = f == DT_f32 ? (double)single : x;
        if (isfinite(x) && fabs(x) >= (f == DT_f32 ? FLT_MIN : DBL_MIN))
            return x;
    }
}

/* The distance of x from the exact y, in units in the last place of y rounded to f. */
static double ulps(double x, long double y, DType f)
{
    double most = f == DT_f32 ? FLT_MAX : DBL_MAX, least = f == DT_f32 ? FLT_MIN : DBL_MIN;
    if (isnan(y) || isnan(x))
        return isnan(y) && isnan(x) ? 0 : INFINITY;
    if (fabsl(y) > most) /* either is fine where the exact value is about the greatest float */
        return isinf(x) || fabs(x) > most * 0.999 ? 0 : INFINITY;
    if (isinf(x))
        return fabsl(y) > most * 0.999 ? 0 : INFINITY;
    if (fabsl(y) < least) /* subnormal: flushed to zero or not */
        return fabs(x) <= least * 1.001 ? 0 : INFINITY;
    int exponent;
    frexpl(y, &exponent);
    return (double)(fabsl((long double)x - y) /
                    ldexpl(1, exponent - (f == DT_f32 ? FLT_MANT_DIG : DBL_MANT_DIG)));
}

/* The worst error of a kernel of one or two operands over many draws. */
static double worst(Plan *p, const Native *native, size_t k, DType f, const Function *fn,
                    double *where)
{
    int nin = p->kernels.data[k].nin;
    size_t width = (size_t)dtype_bytes(f);
    unsigned char *memory[3];
    double most = 0;
    uint64_t state = 77 + k + 1000 * sample_turn();
    for (int i = 0; i <= nin; i++)
        memory[i] = malloc(N * width);
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t e = 0; e < N; e++) {
            number_put(memory[0], f, e,
                       nin == 2 ? fabs(any_float(&state, f)) : any_float(&state, f));
            if (nin == 2)
                number_put(memory[1], f, e, draw(&state, -30, 30));
        }
        native->kernel[k]((void **)memory, 0, p->kernels.data[k].units);
        for (int64_t e = 0; e < N; e++) {
            double x = number_at(memory[0], f, e), y = number_at(memory[nin], f, e);
            long double exact =
                nin == 2 ? powl(x, number_at(memory[1], f, e)) : fn->exact((long double)x);
            double d = ulps(y, exact, f);
            if (d > most || isnan(d)) {
                most = d;
                *where = x;
            }
        }
    }
    for (int i = 0; i <= nin; i++)
        free(memory[i]);
    return most;
}

static void exact_enough(void **state)
{
    (void)state;
    Model t;
    Native native;
    model_open(&t);
    Plan p = {.module = t.m};
    for (int f = 0; f < 2; f++) {
        for (int k = 0; k < FUNCTIONS; k++)
            add_kernel(&t, &p, functions[k].op, f ? DT_f64 : DT_f32, 1, N);
        add_kernel(&t, &p, OP_pow, f ? DT_f64 : DT_f32, 2, N);
    }
    native_open(&native, &t, &p);
    print_message("%-10s %8s %8s   ulp at most, of %d\n", "", "f32", "f64", N * ROUNDS);
    bool right = true;
    for (int k = 0; k <= FUNCTIONS; k++) {
        double where[2] = {0}, off[2];
        double most = k < FUNCTIONS ? functions[k].ulp : 4;
        for (int f = 0; f < 2; f++)
            off[f] = worst(&p, &native, (size_t)(f * (FUNCTIONS + 1) + k), f ? DT_f64 : DT_f32,
                           &functions[k % FUNCTIONS], &where[f]);
        print_message("%-10s %8.2f %8.2f\n", op_info[k < FUNCTIONS ? functions[k].op : OP_pow].name,
                      off[0], off[1]);
        for (int f = 0; f < 2; f++)
            if (!(off[f] <= most)) {
                print_message("  more than %g, at %.17g\n", most, where[f]);
                right = false;
            }
    }
    native_close(&native);
    model_close(&t);
    assert_true(right);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Loops of these lengths: one element, less than a vector of each width, what is left of one. */
static const int64_t lengths[] = {N, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 33, 63};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static bool gives_floats(Op op)
{
    return op_is(op, POINTWISE) && op != OP_select && !(op >= OP_lt && op <= OP_ne);
}

/* The kernels of one op: on all of x and z, then on pieces of them. */
static void same_in_pieces(const Plan *p, const Native *native, size_t first, DType f,
                           unsigned char *const *memory, uint64_t *rng, const char *name)
{
    const int nin = p->kernels.data[first].nin;
    const size_t width = (size_t)dtype_bytes(f);
    unsigned char *whole = memory[2], *piece = malloc(64 * width);
    void *at[3] = {memory[0], nin == 2 ? memory[1] : whole, whole};
    native->kernel[first](at, 0, p->kernels.data[first].units);
    for (int k = 1; k < LENGTHS; k++)
        for (int draws = 0; draws < 8; draws++) {
            const int64_t from = draw_int(rng, (int)(N - lengths[k]));
            void *in[3] = {memory[0] + (size_t)from * width, memory[1] + (size_t)from * width,
                           piece};
            in[nin] = piece;
            native->kernel[first + (size_t)k](in, 0, p->kernels.data[first + (size_t)k].units);
            if (memcmp(piece, whole + (size_t)from * width, (size_t)lengths[k] * width) != 0)
                fail_msg("%s on %d bytes: other bits in a loop of %lld, from element %lld of %d",
                         name, (int)width, (long long)lengths[k], (long long)from, N);
        }
    free(piece);
}

static void same_bits_on(const char *cpu)
{
    Model t;
    Native native;
    uint64_t rng = 5 + sample_turn();
    model_open(&t);
    Plan p = {.module = t.m, .cpu = cpu};
    for (int f = 0; f < 2; f++)
        for (Op op = OP_none + 1; op < OP_count; op++)
            for (int k = 0; gives_floats(op) && k < LENGTHS; k++)
                add_kernel(&t, &p, op, f ? DT_f64 : DT_f32, op_info[op].least, lengths[k]);
    native_open(&native, &t, &p);
    size_t first = 0;
    for (int f = 0; f < 2; f++) {
        const DType type = f ? DT_f64 : DT_f32;
        unsigned char *memory[3];
        for (int i = 0; i < 3; i++)
            memory[i] = malloc(N * (size_t)dtype_bytes(type));
        for (int64_t e = 0; e < N; e++) { /* sizes that no function leaves, and some that all do */
            number_put(memory[0], type, e, e % 8 ? draw(&rng, 0.01, 4) : any_float(&rng, type));
            number_put(memory[1], type, e, draw(&rng, -3, 3));
        }
        for (Op op = OP_none + 1; op < OP_count; op++)
            if (gives_floats(op)) {
                same_in_pieces(&p, &native, first, type, memory, &rng, op_info[op].name);
                first += LENGTHS;
            }
        for (int i = 0; i < 3; i++)
            free(memory[i]);
    }
    assert_int_equal(first, p.kernels.n);
    native_close(&native);
    model_close(&t);
}

static bool runs_here(const char *level)
{
#ifndef __x86_64__
    return false;
#endif
    __builtin_cpu_init();
    return strcmp(level, "x86-64-v4") == 0 ? __builtin_cpu_supports("x86-64-v4") > 0
                                           : __builtin_cpu_supports("x86-64-v3") > 0;
}

/* For every level of processors that this one has. */
static void same_bits(void **state)
{
    (void)state;
    static const char *const levels[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
    int tried = 0;
    for (int i = 0; i < 3; i++)
        if (!strcmp(levels[i], "x86-64") || runs_here(levels[i])) {
            same_bits_on(levels[i]);
            tried++;
        }
    print_message("same bits at %d levels of processors\n", tried);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_enough), cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
