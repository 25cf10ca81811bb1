/* test_places.c - pointwise kernels that read places along their innermost loop, some of them
 * outside (shifts, joins of many parts, strides, backwards, every other one), of tensors as they
 * are and rotated, beside a row whose elements lie apart: each result is what a loop over all
 * elements with a question at each gives. */
#include "plan/nest.h"
#include "tests/codegen/native.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PARTS = 7, LAST = 300 };

typedef struct Case {
    DType dtype;
    int parts;
    Dim row, column;
    Attrs at[PARTS]; /* of part i, which is operand i; the row of weights is the operand behind them
                      */
    bool rotated[PARTS], all_rotated; /* part i along at[i].dim, and along the column */
    Kernel kernel;
} Case;

static Attrs draw_places(Model *t, uint64_t *rng, int i, Dim column, int64_t *joined)
{
    static const int factors[] = {1, 2, -1};
    Attrs a = {.every = 1};
    a.over.dim[a.over.n++] = column;
    a.factors.by[a.factors.n++] = 1;
    a.dim = dim_of(t, arena_printf(t->a, "d%d", i), 1 + draw_int(rng, (int)column.size / 2 + 1));
    a.at = -*joined;
    *joined += a.dim.size;
    if (draw_int(rng, 3) == 0) { /* not where the part before it ended */
        a.factors.by[0] = factors[draw_int(rng, 3)];
        a.every = 1 + draw_int(rng, 2);
        a.at = draw_int(rng, 41) - 20 + (a.factors.by[0] < 0 ? a.dim.size : 0);
    }
    return a;
}

static bool draws_rotation(uint64_t *rng, Dim d)
{
    return d.size % 2 == 0 && draw_int(rng, 2) == 0;
}

/* Halves are not computed with, nor added up. */
static Value wide(Builder *b, Value x)
{
    return dtype_is_half(type_of(b->m, x)->dtype) ? build_cast(b, x, DT_f32) : x;
}

static Value rotate(Builder *b, Value x, Dim d)
{
    Attrs a = {.dim = d};
    x = wide(b, x);
    return build(b, OP_rotate, &a, 1, &x);
}

static void add_case(Model *t, Plan *p, uint64_t *rng, Case *c)
{
    static const DType dtypes[] = {DT_f32, DT_f32, DT_f64, DT_bf16, DT_f16};
    *c = (Case){.dtype = dtypes[draw_int(rng, 5)], .parts = 1 + draw_int(rng, PARTS)};
    c->row = dim_of(t, "row", 1 + draw_int(rng, 90));
    c->column = dim_of(t, "column", 1 + draw_int(rng, LAST));
    c->all_rotated = draws_rotation(rng, c->column);
    Region *body = region_new(t->m, t->fn->body);
    Builder inner = {.m = t->m, .region = body};
    Value in[PARTS + 1], sum = 0;
    Kernel k = {.nin = c->parts + 1, .nout = 1, .noperands = c->parts + 2};
    int64_t joined = 0;
    for (int i = 0; i <= c->parts; i++) {
        const bool part = i < c->parts;
        if (part)
            c->at[i] = draw_places(t, rng, i, c->column, &joined);
        Type type = part ? type_in(c->dtype, 2, (Dim[]){c->row, c->at[i].dim})
                         : type_in(c->dtype, 1, &c->column);
        k.operand[i] = (Operand){.type = type, .read = true};
        k.operand[i].stride[0] = part ? c->at[i].dim.size : 1 + draw_int(rng, 4);
        k.operand[i].stride[1] = 1;
        in[i] = value_new(t->m, t->fn->body, type, 0);
        Value x = region_arg(t->m, body, type, 0);
        if (part) {
            c->rotated[i] = draws_rotation(rng, c->at[i].dim);
            x = c->rotated[i] ? rotate(&inner, x, c->at[i].dim) : x;
            x = build(&inner, OP_reindex, &c->at[i], 1, &x);
            x = c->all_rotated ? rotate(&inner, x, c->column) : x;
        }
        x = wide(&inner, x);
        sum = sum ? build2(&inner, OP_add, sum, x) : x;
    }
    Type all = type_in(c->dtype, 2, (Dim[]){c->row, c->column});
    k.operand[c->parts + 1] = (Operand){.type = all, .write = true, .stride = {c->column.size, 1}};
    if (dtype_is_half(c->dtype))
        sum = build_cast(&inner, sum, c->dtype);
    vec_push(t->a, &body->results, build_as(&inner, sum, all));
    for (int o = 0; o < k.noperands; o++)
        k.alias[o] = -1;
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    k.ins = build_typed(&t->b, OP_fused, &a, k.nin, in, 1, &all, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "k%zu", p->kernels.n));
    kernel_nest(t->m, &k);
    c->kernel = k;
    vec_push(t->a, &p->kernels, k);
}

/* The place from which a rotation takes what it gives at `at`, and the sign. */
static int64_t opposite(int64_t at, int64_t size, int *sign)
{
    const int64_t half = size / 2;
    *sign = at < half ? -*sign : *sign;
    return at < half ? at + half : at - half;
}

static double expected(const Case *c, void *const *at, int64_t row, int64_t column)
{
    const int w = c->parts;
    double sum = number_at(at[w], c->dtype, column * c->kernel.operand[w].stride[0]);
    for (int i = 0; i < c->parts; i++) {
        const Attrs *a = &c->at[i];
        int sign = 1;
        const int64_t from = c->all_rotated ? opposite(column, c->column.size, &sign) : column;
        const int64_t place = a->at + a->factors.by[0] * from;
        if (place < 0 || place % a->every != 0 || place / a->every >= a->dim.size)
            continue;
        int64_t x = place / a->every;
        x = c->rotated[i] ? opposite(x, a->dim.size, &sign) : x;
        sum += sign * number_at(at[i], c->dtype, row * a->dim.size + x);
    }
    return sum;
}

/* The numbers are small and whole: their sums are exact in every type and order. */
static void run_case(const Case *c, NativeKernel *kernel, uint64_t *rng)
{
    void *at[PARTS + 2];
    const int out = c->parts + 1;
    for (int o = 0; o <= out; o++) {
        const Operand *x = &c->kernel.operand[o];
        const int64_t n = type_elements(&x->type) * (o == c->parts ? x->stride[0] : 1);
        at[o] = malloc((size_t)(n * dtype_bytes(c->dtype)));
        for (int64_t e = 0; e < n; e++)
            number_put(at[o], c->dtype, e, draw_int(rng, 17) - 8);
    }
    const int64_t middle = draw_int(rng, (int)c->kernel.units + 1);
    kernel(at, middle, c->kernel.units);
    kernel(at, 0, middle);
    for (int64_t row = 0; row < c->row.size; row++)
        for (int64_t column = 0; column < c->column.size; column++) {
            const double got = number_at(at[out], c->dtype, row * c->column.size + column);
            if (got != expected(c, at, row, column))
                fail_msg("%s, %d parts, at %lld, %lld: %g, not %g", dtype_name(c->dtype), c->parts,
                         (long long)row, (long long)column, got, expected(c, at, row, column));
        }
    for (int o = 0; o <= out; o++)
        free(at[o]);
}

static void places_on(const char *cpu)
{
    uint64_t rng = 43;
    static Case cases[CASES];
    static const Device host = {.target = TARGET_host};
    Model t;
    model_open(&t);
    Plan p = {.module = t.m, .device = &host, .cpu = cpu};
    int cut = 0, many = 0, apart = 0;
    for (int i = 0; i < CASES; i++) {
        add_case(&t, &p, &rng, &cases[i]);
        const Kernel *k = &cases[i].kernel;
        int64_t at[NEST_PIECES + 2];
        Nest n = nest_on_host(t.m, k);
        int pieces = nest_pieces(&n, k->ins->body, n.nouter + n.ninner - 1, true, at);
        cut += pieces > 1;
        many += pieces == NEST_PIECES;
        apart += k->operand[cases[i].parts].stride[0] > 1;
    }
    Native native;
    NATIVE_OPEN(&native, &t, &p);
    for (int i = 0; i < CASES; i++)
        run_case(&cases[i], native.kernel[i], &rng);
    native_close(&native);
    model_close(&t);
    printf("%d of %d loops in pieces, %d with more edges than pieces, %d rows apart\n", cut, CASES,
           many, apart);
    assert_true(cut > CASES / 2 && many > 0 && apart > CASES / 3);
}

static void places(void **state)
{
    (void)state;
    places_on("x86-64");
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4"))
        places_on("x86-64-v4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
