/* Generated kernels round tensors in tiles as torchao does (tests/passes/quantize_tiles.txt): given
 * the scales, they give the bits of its numbers of fp8, and exactly what these stand for. */
#include "tests/codegen/native.h"
#include "tests/passes/golden_tiles.h"
#include "plan/nest.h"
#include "runtime/fp8.h"
#include "runtime/half.h"

#include <math.h>

/* As passes/step/tiles.c has it: x of bf16 and its scale, to a number of fp8, and to what that
 * stands for. */
static void add_rounding(Model *t, Plan *p, DType fp8, DType gives, int n)
{
    const Dim d = dim_of(t, arena_printf(t->a, "n%zu", p->kernels.n), n);
    const Type x = TYPE(DT_bf16, d), scale = TYPE(DT_f32, d);
    const Type out[2] = {TYPE(fp8, d), TYPE(gives, d)};
    Region *body = region_new(t->m, t->fn->body);
    Builder b = {.m = t->m, .region = body};
    Kernel k = {.nin = 2, .nout = 2, .noperands = 4, .alias = {-1, -1, -1, -1}};
    for (int i = 0; i < 4; i++)
        k.operand[i] = (Operand){.type = i == 0   ? x
                                         : i == 1 ? scale
                                                  : out[i - 2],
                                 .stride = {1},
                                 .read = i < 2,
                                 .write = i >= 2};
    const Value in[2] = {value_new(t->m, t->fn->body, x, 0),
                         value_new(t->m, t->fn->body, scale, 0)};
    const Value from = region_arg(t->m, body, x, 0), s = region_arg(t->m, body, scale, 0);
    const Value q = build_cast(&b, build2(&b, OP_mul, build_cast(&b, from, DT_f32), s), fp8);
    const Value inverse = build2(&b, OP_div, build_const(&b, DT_f32, 1), s);
    vec_push(t->a, &body->results, q);
    vec_push(t->a, &body->results,
             build_cast(&b, build2(&b, OP_mul, build_cast(&b, q, DT_f32), inverse), gives));
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    k.ins = build_typed(&t->b, OP_fused, &a, 2, in, 2, out, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "k%zu", p->kernels.n));
    kernel_nest(t->m, &k);
    vec_push(t->a, &p->kernels, k);
}

/* The scale of a tile by its largest number; of powers of two there is but one. */
static float scale_of(const GoldenTiles *g, int e)
{
    float top = 0;
    const int row = e / g->columns, column = e % g->columns;
    if (g->mx)
        return 1 / g->inverse[e];
    for (int r = 0; r < g->rows; r++)
        for (int c = 0; c < g->columns; c++)
            if (r / g->height == row / g->height && c / g->width == column / g->width)
                top = fmaxf(top, fabsf(golden_number(g, r * g->columns + c)));
    return (float)(448 / fmax((double)top, 1e-12));
}

static void check(const GoldenTiles *g, NativeKernel *run, int64_t units)
{
    static float scale[GOLDEN_MOST], wide[GOLDEN_MOST];
    static uint16_t half[GOLDEN_MOST], number[GOLDEN_MOST];
    static uint8_t code[GOLDEN_MOST];
    const int n = g->rows * g->columns;
    for (int e = 0; e < n; e++)
        scale[e] = scale_of(g, e);
    memcpy(number, g->number, sizeof number);
    run((void *[]){number, scale, code, g->mx ? (void *)half : wide}, 0, units);
    for (int e = 0; e < n; e++) {
        const float q = g->e5m2 ? mg_from_e5m2(g->code[e]) : mg_from_e4m3(g->code[e]);
        const float stands = g->mx ? mg_from_bf16(half[e]) : wide[e];
        if (code[e] != g->code[e])
            fail_msg("%a becomes %02x, not %02x", (double)golden_number(g, e), code[e], g->code[e]);
        if (g->mx ? (double)stands != (double)q * (double)g->inverse[e]
                  : stands != q * g->inverse[e])
            fail_msg("%02x stands for %a", code[e], (double)stands);
    }
}

/* One kernel for each size, type and kind. */
static void torchao(void **state)
{
    (void)state;
    static GoldenTiles g[GOLDEN_TENSORS];
    Model t;
    Native native;
    FILE *f = fopen(GOLDEN_TILES, "r");
    int tensors = 0;
    assert_non_null(f);
    while (tensors < GOLDEN_TENSORS && golden_read(f, &g[tensors]))
        tensors++;
    fclose(f);
    assert_int_equal(tensors, GOLDEN_TENSORS);
    model_open(&t);
    static const Device host = {.target = TARGET_host};
    Plan p = {.module = t.m, .device = &host};
    int kernel[GOLDEN_TENSORS];
    for (int i = 0; i < tensors; i++) {
        const bool like = i && g[i].rows * g[i].columns == g[i - 1].rows * g[i - 1].columns &&
                          g[i].mx == g[i - 1].mx && g[i].e5m2 == g[i - 1].e5m2;
        if (!like)
            add_rounding(&t, &p, g[i].e5m2 ? DT_e5m2 : DT_e4m3, g[i].mx ? DT_bf16 : DT_f32,
                         g[i].rows * g[i].columns);
        kernel[i] = (int)p.kernels.n - 1;
    }
    NATIVE_OPEN(&native, &t, &p);
    for (int i = 0; i < tensors; i++)
        check(&g[i], native.kernel[kernel[i]], p.kernels.data[kernel[i]].units);
    native_close(&native);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(torchao)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
