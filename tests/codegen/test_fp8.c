/* Numbers of 8 bits as PyTorch has them (fp8.txt, by fp8.py), and bitsandbytes (dynamic8.txt, by
 * dynamic8.py): the conversions that programs share (runtime/fp8.h, runtime/dynamic8.h), the
 * interpreter's rounding, and generated kernels give the same bits, of every bf16 and of floats at
 * and beside each edge. */
#include "tests/codegen/native.h"
#include "ir/interp.h"
#include "plan/nest.h"
#include "runtime/dynamic8.h"
#include "runtime/fp8.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TYPES = 5, CODES = 256, ALL = 1 << 18 };
static const struct {
    DType dtype;
    uint8_t (*to)(float);
    float (*from)(uint8_t);
    int least; /* floats that the file has */
} types[TYPES] = {{DT_e4m3, mg_to_e4m3, mg_from_e4m3, 66000},
                  {DT_e5m2, mg_to_e5m2, mg_from_e5m2, 66000},
                  {DT_dynamic8, mg_to_dynamic8, mg_from_dynamic8, 2000},
                  {DT_udynamic8, mg_to_udynamic8, mg_from_udynamic8, 2000},
                  {DT_e8m0, mg_to_e8m0, mg_from_e8m0, 2000}};

static int type_named(const char *name)
{
    int t = 0;
    while (t < TYPES && strcmp(dtype_name(types[t].dtype), name) != 0)
        t++;
    assert_true(t < TYPES);
    return t;
}

/* Golden has what the file says: floats and what they become; what each number is. */
typedef struct Golden {
    int n[TYPES];
    uint32_t *from[TYPES];
    uint8_t *code[TYPES];
    uint32_t wide[TYPES][CODES];
    int numbers[TYPES];
} Golden;

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void add(Golden *g, int t, uint32_t bits, unsigned code)
{
    assert_true(g->n[t] < ALL);
    g->from[t][g->n[t]] = bits;
    g->code[t][g->n[t]++] = (uint8_t)code;
}

static void read_file(Golden *g, const char *path)
{
    FILE *f = fopen(path, "r");
    char kind[8], type[16];
    unsigned a, b, c;
    assert_non_null(f);
    while (fscanf(f, "%7s %15s %x %x", kind, type, &a, &b) == 4) {
        const int t = type_named(type);
        if (!strcmp(kind, "bf16")) {
            assert_int_equal(fscanf(f, "%x", &c), 1);
            for (unsigned k = a; k <= b; k++)
                add(g, t, k << 16, c);
        } else if (!strcmp(kind, "f32")) {
            add(g, t, a, b);
        } else {
            g->wide[t][a] = b;
            g->numbers[t]++;
        }
    }
    assert_true(feof(f));
    fclose(f);
}

/* e8m0 by its definition: code k is 2^(k - 127), and 255 is none. Floats at, below and above each,
 * of both signs, and what is not finite. */
static void define_powers(Golden *g)
{
    const int t = type_named("e8m0");
    for (int k = 0; k < CODES; k++) {
        const float power = k < 255 ? ldexpf(1, k - 127) : NAN;
        g->wide[t][k] = bits_of(power);
        g->numbers[t]++;
        if (k == 255)
            continue;
        add(g, t, bits_of(power), (unsigned)k);
        add(g, t, bits_of(-power), (unsigned)k);
        add(g, t, bits_of(nextafterf(power, 0)), (unsigned)k);
        add(g, t, bits_of(nextafterf(power, INFINITY)), k < 254 ? (unsigned)k + 1 : 254);
        for (int n = 1; n < 8; n++)
            add(g, t, bits_of(power * (1 + (float)n / 8)), k < 254 ? (unsigned)k + 1 : 254);
    }
    add(g, t, 0, 0);
    add(g, t, bits_of(0x1p-149f), 0);
    add(g, t, bits_of(FLT_MAX), 254);
    add(g, t, bits_of(INFINITY), 255);
    add(g, t, bits_of(-INFINITY), 255);
    add(g, t, bits_of(NAN), 255);
}

static int read_golden(void **state)
{
    static Golden g;
    for (int t = 0; t < TYPES; t++) {
        g.from[t] = malloc(ALL * sizeof(uint32_t));
        g.code[t] = malloc(ALL);
    }
    read_file(&g, GOLDEN "/fp8.txt");
    read_file(&g, GOLDEN "/dynamic8.txt");
    define_powers(&g);
    for (int t = 0; t < TYPES; t++) {
        assert_int_equal(g.numbers[t], CODES);
        assert_true(g.n[t] > types[t].least);
    }
    *state = &g;
    return 0;
}

static int forget_golden(void **state)
{
    Golden *g = *state;
    for (int t = 0; t < TYPES; t++) {
        free(g->from[t]);
        free(g->code[t]);
    }
    return 0;
}

/* The same float; of NaNs, that it is one, with its sign. */
static bool same(float x, uint32_t want)
{
    const float y = float_of(want);
    return isnan(y) ? isnan(x) && !signbit(x) == !signbit(y) : bits_of(x) == want;
}

static void functions(void **state)
{
    const Golden *g = *state;
    for (int t = 0; t < TYPES; t++) {
        for (int i = 0; i < g->n[t]; i++) {
            const float x = float_of(g->from[t][i]);
            const uint8_t code = types[t].to(x);
            if (code != g->code[t][i])
                fail_msg("%s: %a becomes %02x, not %02x", dtype_name(types[t].dtype), (double)x,
                         code, g->code[t][i]);
        }
        for (int c = 0; c < CODES; c++) {
            const float x = types[t].from((uint8_t)c);
            if (!same(x, g->wide[t][c]))
                fail_msg("%s: %02x is %a, not %a", dtype_name(types[t].dtype), (unsigned)c,
                         (double)x, (double)float_of(g->wide[t][c]));
        }
    }
}

static void interpreter(void **state)
{
    const Golden *g = *state;
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < g->n[t]; i++) {
            const double x = (double)float_of(g->from[t][i]), y = interp_rounded(x, types[t].dtype);
            if (!same((float)y, g->wide[t][g->code[t][i]]))
                fail_msg("%s: %a becomes %a", dtype_name(types[t].dtype), x, y);
        }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void add_cast(Model *t, Plan *p, DType from, DType to, int64_t n)
{
    const Dim d = dim_of(t, arena_printf(t->a, "n%lld", (long long)n), n);
    const Type in = TYPE(from, d), out = TYPE(to, d);
    Region *body = region_new(t->m, t->fn->body);
    Builder inner = {.m = t->m, .region = body};
    Kernel k = {.nin = 1, .nout = 1, .noperands = 2, .alias = {-1, -1}};
    k.operand[0] = (Operand){.type = in, .stride = {1}, .read = true};
    k.operand[1] = (Operand){.type = out, .stride = {1}, .write = true};
    Value v = value_new(t->m, t->fn->body, in, 0);
    vec_push(t->a, &body->results, build_cast(&inner, region_arg(t->m, body, in, 0), to));
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    k.ins = build_typed(&t->b, OP_fused, &a, 1, &v, 1, &out, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "k%zu", p->kernels.n));
    kernel_nest(t->m, &k);
    vec_push(t->a, &p->kernels, k);
}

static void kernels(void **state)
{
    const Golden *g = *state;
    Model t;
    Native native;
    model_open(&t);
    static const Device host = {.target = TARGET_host};
    Plan p = {.module = t.m, .device = &host};
    for (int k = 0; k < TYPES; k++) {
        add_cast(&t, &p, DT_f32, types[k].dtype, g->n[k]);
        add_cast(&t, &p, types[k].dtype, DT_f32, CODES);
    }
    NATIVE_OPEN(&native, &t, &p);
    for (int k = 0; k < TYPES; k++) {
        uint8_t *code = malloc((size_t)g->n[k]), all[CODES];
        float wide[CODES];
        void *narrow[2] = {g->from[k], code}, *back[2] = {all, wide};
        native.kernel[2 * k](narrow, 0, p.kernels.data[2 * k].units);
        for (int i = 0; i < g->n[k]; i++)
            if (code[i] != g->code[k][i])
                fail_msg("%s: %a becomes %02x, not %02x", dtype_name(types[k].dtype),
                         (double)float_of(g->from[k][i]), code[i], g->code[k][i]);
        for (int c = 0; c < CODES; c++)
            all[c] = (uint8_t)c;
        native.kernel[2 * k + 1](back, 0, p.kernels.data[2 * k + 1].units);
        for (int c = 0; c < CODES; c++)
            if (!same(wide[c], g->wide[k][c]))
                fail_msg("%s: %02x is %a", dtype_name(types[k].dtype), (unsigned)c,
                         (double)wide[c]);
        free(code);
    }
    native_close(&native);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions), cmocka_unit_test(interpreter),
                                       cmocka_unit_test(kernels)};
    return cmocka_run_group_tests(tests, read_golden, forget_golden);
}
