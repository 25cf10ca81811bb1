/* Pass quantize by numbers, of operands in tiles: scales and rounded tensors have the bits of
 * torchao's (quantize_tiles.txt, by quantize_tiles.py), products are those of what these stand for,
 * and what two products round alike is rounded once. */
#include "tests/passes/fp8_number.h"
#include "tests/passes/golden_tiles.h"
#include "tests/passes/model.h"

#include "ir/interp.h"

#include <math.h>

enum { WIDE = 3 };

static DType type_of_golden(const GoldenTiles *g)
{
    return g->e5m2 ? DT_e5m2 : DT_e4m3;
}

static void open_scaled(Model *t, bool mx, DType gradients)
{
    model_open(t);
    t->m->train.half = DT_bf16;
    t->m->train.fp8 = DT_e4m3;
    t->m->train.fp8_gradients = gradients;
    t->m->train.fp8_scales = mx ? SCALES_mx : SCALES_tile;
}

/* The first value of that type, and 1 / its scale, are results of the function. */
static void give_rounded(Model *t, DType of)
{
    Region *body = t->fn->body;
    Value number = 0, inverse = 0;
    for (size_t n = 0; n < body->ins.n; n++) {
        const Ins *i = body->ins.data[n];
        if (!number && type_of(t->m, i->out[0])->dtype == of)
            number = i->out[0];
        else if (number && !inverse && i->op == OP_div)
            inverse = i->out[0];
    }
    assert_true(number && inverse);
    vec_push(t->m->arena, &body->results, number);
    vec_push(t->m->arena, &body->results, inverse);
}

static void compare(const GoldenTiles *g, const Tensor64 *number, const Tensor64 *inverse)
{
    for (int e = 0; e < g->rows * g->columns; e++) {
        if (inverse->data[e] != (double)g->inverse[e])
            fail_msg("%s %s, element %d: 1 / scale is %a, not %a", g->mx ? "mx" : "tile",
                     dtype_name(type_of_golden(g)), e, inverse->data[e], (double)g->inverse[e]);
        if (number->data[e] != fp8_of(g->code[e], type_of_golden(g)))
            fail_msg("%s %s, element %d: %a becomes %a, not %a", g->mx ? "mx" : "tile",
                     dtype_name(type_of_golden(g)), e, (double)golden_number(g, e), number->data[e],
                     fp8_of(g->code[e], type_of_golden(g)));
    }
}

static double *numbers(Model *t, const GoldenTiles *g)
{
    double *x = NEW_ARRAY(t->a, double, g->rows * g->columns);
    for (int e = 0; e < g->rows * g->columns; e++)
        x[e] = (double)golden_number(g, e);
    return x;
}

/* A product with x, over the dim along which the tiles go: by the pass. */
static void check_product(const GoldenTiles *g)
{
    Model t;
    open_scaled(&t, g->mx, DT_e5m2);
    const Dim i = dim_of(&t, "i", g->rows), j = dim_of(&t, "j", g->columns);
    const Dim k = dim_of(&t, "k", WIDE), over = g->height > 1 ? i : j;
    const Value x = add_param(&t, "x", TYPE(DT_f32, i, j), 0);
    const Value w = add_param(&t, "w", TYPE(DT_f32, over, k), 0);
    const Attrs a = {.over = {.n = 1, .dim = {over}},
                     .fp8 = type_of_golden(g) == DT_e4m3 ? FP8_values : FP8_gradient};
    const Value in[] = {build_cast(&t.b, x, DT_bf16), build_cast(&t.b, w, DT_bf16)};
    const Value y = build_cast(&t.b, build(&t.b, OP_dot, &a, 2, in), DT_f32);
    add_loss(&t, sum_all(&t.b, build_cast(&t.b, y, DT_f64)));
    must_pass(&t, pass_quantize);
    t.fn->body->results.n = 0;
    give_rounded(&t, type_of_golden(g));
    vec_push(t.m->arena, &t.fn->body->results, y);
    double *data = NEW_ARRAY(t.a, double, over.size *WIDE);
    for (int e = 0; e < over.size * WIDE; e++)
        data[e] = ldexp(e % 2 ? 1 : -1, e % 3); /* each is one of fp8, scaled */
    Tensor64 args[2], out[3];
    args[0] = (Tensor64){*type_of(t.m, x), numbers(&t, g)};
    args[1] = (Tensor64){*type_of(t.m, w), data};
    ir_interpret(t.m, t.fn, args, out, t.a, true);
    compare(g, &out[0], &out[1]);
    const int left = g->height > 1 ? g->columns : g->rows;
    for (int r = 0; r < left; r++)
        for (int c = 0; c < WIDE; c++) {
            double want = 0, size = 0x1p-120;
            for (int e = 0; e < over.size; e++) {
                const int at = g->height > 1 ? e * g->columns + r : r * g->columns + e;
                const double term = fp8_of(g->code[at], type_of_golden(g)) *
                                    (double)g->inverse[at] * data[e * WIDE + c];
                want += term;
                size += fabs(term);
            }
            if (!(fabs(out[2].data[r * WIDE + c] - want) <= fabs(want) * 0x1p-8 + size * 0x1p-20))
                fail_msg("product %d, %d: %g, not %g", r, c, out[2].data[r * WIDE + c], want);
        }
    model_close(&t);
}

/* Tiles of two sides, smaller than those of the pass: by the op. */
static void check_planes(const GoldenTiles *g)
{
    Model t;
    open_scaled(&t, g->mx, DT_e4m3);
    const Dim i = dim_of(&t, "i", g->rows), j = dim_of(&t, "j", g->columns);
    const Value x = build_cast(&t.b, add_param(&t, "x", TYPE(DT_f32, i, j), 0), DT_bf16);
    const Attrs a = {.over = {.n = 2, .dim = {i, j}}, .at = 1, .every = g->height, .value = 448};
    const Value s = build(&t.b, OP_tile_scale, &a, 1, &x);
    build_cast(&t.b, build2(&t.b, OP_mul, build_cast(&t.b, x, DT_f32), s), DT_e4m3);
    build2(&t.b, OP_div, build_const(&t.b, DT_f32, 1), s);
    give_rounded(&t, DT_e4m3);
    Tensor64 arg = {*type_of(t.m, t.fn->body->args.data[0]), numbers(&t, g)}, out[2];
    ir_interpret(t.m, t.fn, &arg, out, t.a, true);
    compare(g, &out[0], &out[1]);
    model_close(&t);
}

static void torchao(void **state)
{
    (void)state;
    FILE *f = fopen(GOLDEN_TILES, "r");
    GoldenTiles g;
    int tensors = 0;
    assert_non_null(f);
    for (; golden_read(f, &g); tensors++)
        if (g.height > 1 && g.width > 1)
            check_planes(&g);
        else
            check_product(&g);
    fclose(f);
    assert_int_equal(tensors, GOLDEN_TENSORS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(torchao)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
