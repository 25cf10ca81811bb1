/* Every pointwise op of ir/ops.def as a kernel meets it (vectors, and what is left of a loop), on
 * every dtype that it takes. A primitive is as exact as its row says in long double, on floats of
 * every size; prints what it measured. A composed op has the bits of the lines of its text, one
 * kernel after the other. And an element has the same bits wherever in a loop it is. */
#include "runtime/nf4.h"
#include "tests/codegen/native.h"
#include "plan/nest.h"

#include "ir/op_text.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include <cmocka.h>

enum { N = 4099, ROUNDS = 64, FEW = 4 /* of what is one instruction */ };

/* ---- what is exact --------------------------------------------------------------------------- */

#define PRIMITIVE(name, operands, takes, flags, flops, value, vjp)                                 \
    static long double exact_##name(long double a, long double b, long double c)                   \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        return value;                                                                              \
    }
#include "ir/ops.def"

static long double (*const primitive[OP_count])(long double, long double, long double) = {
#define PRIMITIVE(name, ...) [OP_##name] = exact_##name,
#include "ir/ops.def"
};

static long double exact(Op op, const long double *x)
{
    if (primitive[op])
        return primitive[op](x[0], x[1], x[2]);
    const OpText *text = op_value(op);
    long double done[OP_LINES];
    for (int n = 0; n < text->lines; n++) {
        long double in[3] = {0};
        for (int k = 0; k < text->line[n].nin; k++) {
            const OpTerm *t = &text->line[n].in[k];
            in[k] = t->kind == TERM_operand ? x[t->index]
                    : t->kind == TERM_line  ? done[t->index]
                                            : (long double)t->number;
        }
        done[n] = exact(text->line[n].op, in);
    }
    return done[text->lines - 1];
}

/* Units in the last place. An instruction is rounded once, and the exact value is a long double,
 * which is rounded too; libmvec promises 4; sigmoid adds a sum and a quotient to its exp. */
static double max_off(Op op)
{
    return op_info[op].flops <= 4 ? 0.501 : op == OP_sigmoid ? 5 : 4;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static bool is_taken(Op op, DType t)
{
    const Takes least = dtype_is_narrow(t) || t == DT_u8 ? TAKES_ANY
                        : t == DT_bool                   ? TAKES_STORED
                        : dtype_is_float(t)              ? TAKES_REAL
                                                         : TAKES_NUMBER;
    return op_is(op, POINTWISE) && op_info[op].takes >= least;
}

static DType operand_type(Op op, DType t, int k)
{
    return op == OP_select && k == 0 ? DT_bool : t;
}

static DType result_type(Op op, DType t)
{
    return op_is(op, CONDITION) ? DT_bool : t;
}

/* The kernel r = op a b c on n elements of dtype f, added to the plan. */
static void add_kernel(Model *t, Plan *p, Op op, DType f, int64_t n)
{
    const int nin = op_info[op].min;
    Dim d = dim_of(t, arena_printf(t->a, "n%lld", (long long)n), n);
    Region *body = region_new(t->m, t->fn->body);
    Builder inner = t->b;
    Value in[3], arg[3];
    inner.region = body;
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    Kernel k = {.nin = nin, .nout = 1, .noperands = nin + 1};
    for (int i = 0; i <= nin; i++) {
        Type type = TYPE(i < nin ? operand_type(op, f, i) : result_type(op, f), d);
        k.operand[i] = (Operand){.type = type, .stride = {1}, .read = i < nin, .write = i == nin};
        k.alias[i] = -1;
        if (i == nin)
            break;
        in[i] = value_new(t->m, t->fn->body, type, 0);
        arg[i] = region_arg(t->m, body, type, 0);
    }
    Value y = build(&inner, op, NULL, nin, arg);
    vec_push(t->a, &body->results, y);
    k.ins = build_typed(&t->b, OP_fused, &a, nin, in, 1, &k.operand[nin].type, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "k%zu", p->kernels.n));
    kernel_nest(t->m, &k);
    vec_push(t->a, &p->kernels, k);
}

/* A kernel of N elements for every op and dtype. */
typedef struct All {
    Model t;
    Plan plan;
    Native native;
    size_t kernel[OP_count][DT_count];
} All;

static void all_open(All *all)
{
    model_open(&all->t);
    all->plan = (Plan){.module = all->t.m, .device = &test_device};
    for (Op op = OP_none + 1; op < OP_count; op++)
        for (DType t = DT_none + 1; t < DT_count; t++)
            if (is_taken(op, t)) {
                all->kernel[op][t] = all->plan.kernels.n;
                add_kernel(&all->t, &all->plan, op, t, N);
            }
    native_open(&all->native, &all->t, &all->plan);
}

static void all_close(All *all)
{
    native_close(&all->native);
    model_close(&all->t);
}

/* memory: of the operands, then of the result. */
static void run(const All *all, Op op, DType t, void **memory)
{
    size_t k = all->kernel[op][t];
    all->native.kernel[k](memory, 0, all->plan.kernels.data[k].units);
}

/* ---- operands -------------------------------------------------------------------------------- */

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
    double max = f == DT_f32 ? FLT_MAX : DBL_MAX, least = f == DT_f32 ? FLT_MIN : DBL_MIN;
    if (isnan(y) || isnan(x))
        return isnan(y) && isnan(x) ? 0 : INFINITY;
    if (fabsl(y) > max) /* either is fine where the exact value is about the greatest float */
        return isinf(x) || fabs(x) > max * 0.999 ? 0 : INFINITY;
    if (isinf(x))
        return fabsl(y) > max * 0.999 ? 0 : INFINITY;
    if (fabsl(y) < least) /* subnormal: flushed to zero or not */
        return fabs(x) <= least * 1.001 ? 0 : INFINITY;
    int exponent;
    frexpl(y, &exponent);
    return (double)(fabsl((long double)x - y) /
                    ldexpl(1, exponent - (f == DT_f32 ? FLT_MANT_DIG : DBL_MANT_DIG)));
}

/* A number for operand k: of integers small ones, so that no result overflows. */
static double any_number(uint64_t *state, Op op, DType t, int k)
{
    if (t == DT_bool)
        return draw_int(state, 2);
    if (!dtype_is_float(t))
        return draw_int(state, 101) - 50;
    if (dtype_is_narrow(t) || (k == 1 && draw_int(state, 2)) || (op == OP_pow && k == 1))
        return draw(state, -30, 30);
    double x = any_float(state, t);
    return op == OP_pow ? fabs(x) : x;
}

static void **memory_new(void)
{
    void **memory = malloc(4 * sizeof *memory);
    for (int i = 0; i < 4; i++)
        memory[i] = malloc(N * sizeof(double));
    return memory;
}

static void memory_free(void **memory)
{
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    free(memory);
}

static void fill(void **memory, Op op, DType t, uint64_t *state)
{
    for (int k = 0; k < op_info[op].min; k++)
        for (int64_t e = 0; e < N; e++) {
            DType of = operand_type(op, t, k);
            number_put(memory[k], of, e, any_number(state, op, of, k));
        }
}

static void operands_at(long double *x, void *const *memory, Op op, DType t, int64_t e)
{
    for (int k = 0; k < op_info[op].min; k++)
        x[k] = number_at(memory[k], operand_type(op, t, k), e);
}

/* ---- primitives are exact enough ------------------------------------------------------------- */

/* The worst error of an op on floats, over many draws. */
static double worst(const All *all, Op op, DType t, double *where)
{
    void **memory = memory_new(), *result = memory[op_info[op].min];
    double max = 0;
    uint64_t state = 77 + (uint64_t)op + 1000 * sample_turn();
    for (int round = 0; round < (op_info[op].flops <= 4 ? FEW : ROUNDS); round++) {
        fill(memory, op, t, &state);
        run(all, op, t, memory);
        for (int64_t e = 0; e < N; e++) {
            long double x[3] = {0};
            operands_at(x, memory, op, t, e);
            double y = number_at(result, result_type(op, t), e);
            double d = op_is(op, CONDITION) ? (exact(op, x) != y ? INFINITY : 0)
                                            : ulps(y, exact(op, x), t);
            if (d > max || isnan(d)) {
                max = d;
                *where = (double)x[0];
            }
        }
    }
    memory_free(memory);
    return max;
}

static void exact_enough(void **state)
{
    const All *all = *state;
    print_message("%-16s %8s %8s   ulp at most, of %d or %d\n", "", "f32", "f64", N * ROUNDS,
                  N * FEW);
    bool right = true;
    for (Op op = OP_none + 1; op < OP_count; op++) {
        if (!is_taken(op, DT_f32) || (op_info[op].value && !op_is(op, FUNCTION)))
            continue;
        double where[2] = {0}, off[2];
        for (int f = 0; f < 2; f++)
            off[f] = worst(all, op, f ? DT_f64 : DT_f32, &where[f]);
        print_message("%-16s %8.2f %8.2f\n", op_info[op].name, off[0], off[1]);
        for (int f = 0; f < 2 && primitive[op]; f++)
            if (!(off[f] <= max_off(op))) {
                print_message("  more than %g, at %.17g\n", max_off(op), where[f]);
                right = false;
            }
    }
    assert_true(right);
}

/* Integers, conditions, and halves, which are copied and chosen: to the bit. */
static void exact_on_others(void **state)
{
    const All *all = *state;
    uint64_t rng = 9 + sample_turn();
    void **memory = memory_new();
    int tried = 0;
    for (Op op = OP_none + 1; op < OP_count; op++)
        for (DType t = DT_none + 1; t < DT_count; t++) {
            if (!is_taken(op, t) || t == DT_f32 || t == DT_f64)
                continue;
            fill(memory, op, t, &rng);
            run(all, op, t, memory);
            for (int64_t e = 0; e < N; e++) {
                long double x[3] = {0};
                operands_at(x, memory, op, t, e);
                double y = number_at(memory[op_info[op].min], result_type(op, t), e);
                if (y != exact(op, x) ||
                    y != op_evaluate(op, (double)x[0], (double)x[1], (double)x[2]))
                    fail_msg("%s of %s: %g of %g, %g, %g", op_info[op].name, dtype_name(t), y,
                             (double)x[0], (double)x[1], (double)x[2]);
            }
            tried++;
        }
    assert_true(tried > 30);
    memory_free(memory);
}

/* ---- composed ops are their lines ------------------------------------------------------------ */

/* The operand of a line: an operand of the op, an earlier line, or a number in every element. */
static void *term(const OpTerm *in, DType t, void *const *operand, void *const *done, void *spare)
{
    if (in->kind == TERM_operand)
        return operand[in->index];
    if (in->kind == TERM_line)
        return done[in->index];
    for (int64_t e = 0; e < N; e++)
        number_put(spare, t, e, in->number);
    return spare;
}

/* Line by line, each by its own kernel; the last is the result. */
static void run_lines(const All *all, Op op, DType t, void *const *operand, void **done)
{
    const OpText *text = op_value(op);
    void **spare = memory_new();
    for (int n = 0; n < text->lines; n++) {
        const OpLine *line = &text->line[n];
        void *memory[4];
        for (int k = 0; k < line->nin; k++)
            memory[k] = term(&line->in[k], t, operand, done, spare[k]);
        memory[line->nin] = done[n];
        run(all, line->op, t, memory);
    }
    memory_free(spare);
}

static void composed_is_its_lines(void **state)
{
    const All *all = *state;
    uint64_t rng = 11 + sample_turn();
    void **memory = memory_new(), *done[OP_LINES];
    for (int n = 0; n < OP_LINES; n++)
        done[n] = malloc(N * sizeof(double));
    for (Op op = OP_none + 1; op < OP_count; op++)
        for (DType t = DT_none + 1; t < DT_count; t++) {
            if (!op_info[op].value || !is_taken(op, t))
                continue;
            fill(memory, op, t, &rng);
            run(all, op, t, memory);
            run_lines(all, op, t, memory, done);
            const void *result = memory[op_info[op].min], *last = done[op_value(op)->lines - 1];
            if (memcmp(result, last, N * (size_t)dtype_bytes(result_type(op, t))) != 0)
                fail_msg("%s of %s has other bits than its lines", op_info[op].name, dtype_name(t));
        }
    for (int n = 0; n < OP_LINES; n++)
        free(done[n]);
    memory_free(memory);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Loops of these lengths: one element, less than a vector of each width, what is left of one. */
static const int64_t lengths[] = {N, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 33, 63};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* The kernels of one op: on all of the operands, then on pieces of them. */
static void same_in_pieces(const Plan *p, const Native *native, size_t first, Op op, DType f,
                           void *const *memory, uint64_t *rng)
{
    const int nin = op_info[op].min;
    const size_t width = (size_t)dtype_bytes(result_type(op, f));
    unsigned char *whole = memory[nin], *piece = malloc(64 * width);
    native->kernel[first](memory, 0, p->kernels.data[first].units);
    for (int k = 1; k < LENGTHS; k++)
        for (int draws = 0; draws < 8; draws++) {
            const int64_t from = draw_int(rng, (int)(N - lengths[k]));
            void *in[4];
            for (int i = 0; i < nin; i++)
                in[i] = (unsigned char *)memory[i] +
                        (size_t)from * (size_t)dtype_bytes(operand_type(op, f, i));
            in[nin] = piece;
            native->kernel[first + (size_t)k](in, 0, p->kernels.data[first + (size_t)k].units);
            if (memcmp(piece, whole + (size_t)from * width, (size_t)lengths[k] * width) != 0)
                fail_msg("%s of %s: other bits in a loop of %lld, from element %lld of %d",
                         op_info[op].name, dtype_name(f), (long long)lengths[k], (long long)from,
                         N);
        }
    free(piece);
}

/* Sizes that no function leaves, and some that all do. */
static void fill_usual(void **memory, Op op, DType f, uint64_t *rng)
{
    for (int k = 0; k < op_info[op].min; k++)
        for (int64_t e = 0; e < N; e++) {
            DType t = operand_type(op, f, k);
            double x = t == DT_bool           ? draw_int(rng, 2)
                       : k == 0 && e % 8 == 0 ? any_float(rng, f)
                                              : draw(rng, k ? -3 : 0.01, k ? 3 : 4);
            number_put(memory[k], t, e, x);
        }
}

static void same_bits_on(const char *cpu)
{
    Model t;
    Native native;
    uint64_t rng = 5 + sample_turn();
    static const DType types[] = {DT_f32, DT_f64};
    model_open(&t);
    Plan p = {.module = t.m, .device = &test_device, .cpu = cpu};
    for (int f = 0; f < 2; f++)
        for (Op op = OP_none + 1; op < OP_count; op++)
            for (int k = 0; is_taken(op, types[f]) && k < LENGTHS; k++)
                add_kernel(&t, &p, op, types[f], lengths[k]);
    native_open(&native, &t, &p);
    size_t first = 0;
    void **memory = memory_new();
    for (int f = 0; f < 2; f++)
        for (Op op = OP_none + 1; op < OP_count; op++)
            if (is_taken(op, types[f])) {
                fill_usual(memory, op, types[f], &rng);
                same_in_pieces(&p, &native, first, op, types[f], memory, &rng);
                first += LENGTHS;
            }
    memory_free(memory);
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

static int open_all(void **state)
{
    static All all;
    all_open(&all);
    *state = &all;
    return 0;
}

static int close_all(void **state)
{
    all_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_enough), cmocka_unit_test(exact_on_others),
        cmocka_unit_test(composed_is_its_lines), cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
