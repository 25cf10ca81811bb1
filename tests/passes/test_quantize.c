/* Pass quantize by numbers: scales and rounded tensors have the bits of torchao's (quantize.txt, by
 * quantize.py), and a product of them is the product of what they stand for. */
#include "tests/passes/fp8_number.h"
#include "tests/passes/model.h"

#include "ir/interp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 8, COLUMNS = 16, N = ROWS * COLUMNS, WIDE = 3 };

static double float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* %y = dot %x, %w, marked; its results are those of the pass: what is rounded, and 1 / its scale,
 * for both operands, then the product. */
static void open_product(Model *t, DType of, DType gradients, int *rounded)
{
    model_open(t);
    const Dim i = dim_of(t, "i", ROWS), j = dim_of(t, "j", COLUMNS), k = dim_of(t, "k", WIDE);
    t->m->train.half = DT_bf16;
    t->m->train.fp8 = DT_e4m3;
    t->m->train.fp8_gradients = gradients;
    Value x = add_param(t, "x", TYPE(DT_f32, i, j), 0);
    Value w = add_param(t, "w", TYPE(DT_f32, j, k), 0);
    Attrs a = {.over = {.n = 1, .dim = {j}}, .fp8 = of == DT_e4m3 ? FP8_values : FP8_gradient};
    Value in[] = {build_cast(&t->b, x, DT_bf16), build_cast(&t->b, w, DT_bf16)};
    Value y = build_cast(&t->b, build(&t->b, OP_dot, &a, 2, in), DT_f32);
    add_loss(t, sum_all(&t->b, build_cast(&t->b, y, DT_f64)));
    must_pass(t, pass_quantize);
    Region *body = t->fn->body;
    body->results.n = 0;
    *rounded = 0;
    for (size_t n = 0; n < body->ins.n; n++) {
        const Ins *ins = body->ins.data[n];
        const bool inverse = ins->op == OP_div && type_of(t->m, ins->out[0])->dtype == DT_f32;
        if (dtype_is_fp8(type_of(t->m, ins->out[0])->dtype) || inverse) {
            vec_push(t->m->arena, &body->results, ins->out[0]);
            ++*rounded;
        }
    }
    vec_push(t->m->arena, &body->results, y);
}

static void check(DType of, uint32_t scale, const double *x, const unsigned *code)
{
    Model t;
    int results;
    open_product(&t, of, DT_e5m2, &results);
    assert_int_equal(results, 4);
    Tensor64 in[2], out[5];
    double w[COLUMNS * WIDE];
    for (int e = 0; e < COLUMNS * WIDE; e++)
        w[e] = (e * 5 % 17 - 8) * 0.25;
    for (int k = 0; k < 2; k++)
        in[k] = (Tensor64){*type_of(t.m, t.fn->body->args.data[k]), k ? w : (double *)x};
    ir_interpret(t.m, t.fn, in, out, t.a, true);
    for (int e = 0; e < N; e++)
        if (out[0].data[e] != fp8_of(code[e], of))
            fail_msg("%s: %a becomes %a, not %a", dtype_name(of), x[e], out[0].data[e],
                     fp8_of(code[e], of));
    const float inverse = 1.0f / (float)float_of(scale);
    assert_true(out[1].data[0] == (double)inverse);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < WIDE; c++) {
            double want = 0, size = 1e-30;
            for (int e = 0; e < COLUMNS; e++) {
                const double term = out[0].data[r * COLUMNS + e] * out[1].data[0] *
                                    out[2].data[e * WIDE + c] * out[3].data[0];
                want += term;
                size += fabs(term);
            }
            if (!(fabs(out[4].data[r * WIDE + c] - want) <= size * 0x1p-7))
                fail_msg("product %d, %d: %g, not %g", r, c, out[4].data[r * WIDE + c], want);
        }
    model_close(&t);
}

static void torchao(void **state)
{
    (void)state;
    FILE *f = fopen(GOLDEN, "r");
    char type[8];
    unsigned scale, number, code[N];
    double x[N];
    int tensors = 0;
    assert_non_null(f);
    while (fscanf(f, "%7s %x", type, &scale) == 2) {
        for (int e = 0; e < N; e++) {
            assert_int_equal(fscanf(f, " %x:%x", &number, &code[e]), 2);
            x[e] = float_of(number << 16);
        }
        check(strcmp(type, "e5m2") ? DT_e4m3 : DT_e5m2, scale, x, code);
        tensors++;
    }
    fclose(f);
    assert_int_equal(tensors, 24);
}

/* `gradients = e4m3`: of a gradient's product, too, both operands are of that. */
static void gradients(void **state)
{
    (void)state;
    Model t;
    int results;
    open_product(&t, DT_e5m2, DT_e4m3, &results);
    assert_int_equal(results, 4);
    for (int k = 0; k < results; k += 2)
        assert_int_equal(type_of(t.m, t.fn->body->results.data[k])->dtype, DT_e4m3);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(torchao), cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
