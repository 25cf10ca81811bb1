/* test_tiles.c - pointwise kernels whose operands lie across each other, in every order of dims,
 * with gaps, of every type and of sizes that fill no tile: each result has the bits of a loop over
 * all elements, and nothing else is written. */
#include "plan/nest.h"
#include "tests/codegen/native.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIMS = 4, INPUTS = 3, RESULTS = 2, ELEMENTS = 150000, GUARD = 0x5a };

typedef struct Case {
    DType dtype;
    int ndims, nin, nout;
    Dim dim[DIMS];
    Kernel kernel;
    int64_t bytes[INPUTS + RESULTS]; /* of the memory that an operand spans */
} Case;

/* A layout of an operand's dims: any order, now and then with a gap behind a dim. */
static int64_t lay_out(uint64_t *rng, Operand *o)
{
    int order[DIMS], n = o->type.rank;
    for (int i = 0; i < n; i++) {
        int at = draw_int(rng, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    int64_t stride = 1;
    for (int i = 0; i < n; i++) {
        o->stride[order[i]] = stride;
        stride *= o->type.dims[order[i]].size + (draw_int(rng, 6) == 0);
    }
    return stride * dtype_bytes(o->type.dtype);
}

static void draw_dims(Model *t, uint64_t *rng, Case *c)
{
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  8,  12,  16,  17,
                                    31, 32, 48, 63, 64, 65, 100, 128, 200};
    int64_t all = 0;
    while (all < 3000 || all > ELEMENTS) {
        all = 1;
        c->ndims = 2 + draw_int(rng, DIMS - 1);
        for (int i = 0; i < c->ndims; i++) {
            int64_t size = sizes[draw_int(rng, sizeof sizes / sizeof *sizes)];
            c->dim[i] = dim_of(t, arena_printf(t->a, "d%d", i), size);
            all *= size;
        }
    }
}

/* Result j is the sum of the first j + 1 inputs (of all for the last one), the first of which has
 * all dims; of what is no f32 or f64 the first itself. */
static void add_case(Model *t, Plan *p, uint64_t *rng, Case *c)
{
    static const DType dtypes[] = {DT_f32, DT_f32, DT_f32, DT_f64, DT_bf16, DT_i32, DT_bool};
    *c = (Case){.dtype = dtypes[draw_int(rng, 7)]};
    draw_dims(t, rng, c);
    bool adds = c->dtype == DT_f32 || c->dtype == DT_f64;
    c->nin = adds ? 1 + draw_int(rng, INPUTS) : 1;
    c->nout = 1 + draw_int(rng, RESULTS);
    Type all = type_in(c->dtype, c->ndims, c->dim);
    Region *body = region_new(t->m, t->fn->body);
    Builder inner = {.m = t->m, .region = body};
    Value in[INPUTS], sum = 0;
    Kernel k = {.nin = c->nin, .nout = c->nout, .noperands = c->nin + c->nout};
    for (int i = 0; i < c->nin; i++) {
        Type type = all;
        for (int d = 0; i && d < type.rank;)
            if (draw_int(rng, 4) == 0) {
                type.rank--;
                memmove(&type.dims[d], &type.dims[d + 1], (size_t)(type.rank - d) * sizeof(Dim));
            } else {
                d++;
            }
        k.operand[i] = (Operand){.type = type, .read = true};
        in[i] = value_new(t->m, t->fn->body, type, 0);
        Value arg = region_arg(t->m, body, type, 0);
        sum = sum ? build2(&inner, OP_add, sum, arg) : arg;
        if (i < c->nout && i + 1 < c->nin)
            vec_push(t->a, &body->results, build1(&inner, OP_copy, sum));
    }
    while ((int)body->results.n < c->nout)
        vec_push(t->a, &body->results, build1(&inner, OP_copy, sum));
    Type types[RESULTS] = {all, all};
    for (int j = 0; j < c->nout; j++)
        k.operand[c->nin + j] = (Operand){.type = all, .write = true};
    for (int o = 0; o < k.noperands; o++) {
        c->bytes[o] = lay_out(rng, &k.operand[o]);
        k.alias[o] = -1;
    }
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    k.ins = build_typed(&t->b, OP_fused, &a, c->nin, in, c->nout, types, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "k%zu", p->kernels.n));
    kernel_nest(t->m, &k);
    c->kernel = k;
    vec_push(t->a, &p->kernels, k);
}

static int64_t place_of(const Operand *o, const Case *c, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < c->ndims; i++) {
        int d = operand_dim(o, c->dim[i].name);
        at += d < 0 ? 0 : index[i] * o->stride[d];
    }
    return at;
}

/* The element that result j has at an index, into `to`. */
static void expected(const Case *c, int j, unsigned char *const *memory, const int64_t *index,
                     void *to)
{
    int terms = j + 1 < c->nin ? j + 1 : c->nin;
    size_t size = (size_t)dtype_bytes(c->dtype);
    float single = 0;
    double wide = 0;
    for (int i = 0; i < terms; i++) {
        const void *x = memory[i] + (size_t)place_of(&c->kernel.operand[i], c, index) * size;
        if (!i)
            memcpy(to, x, size);
        else if (c->dtype == DT_f32)
            memcpy(&single, to, size), single += *(const float *)x, memcpy(to, &single, size);
        else
            memcpy(&wide, to, size), wide += *(const double *)x, memcpy(to, &wide, size);
    }
}

static void check_result(const Case *c, int j, unsigned char *const *memory)
{
    const Operand *o = &c->kernel.operand[c->nin + j];
    size_t size = (size_t)dtype_bytes(c->dtype);
    unsigned char *want = malloc((size_t)c->bytes[c->nin + j]);
    memset(want, GUARD, (size_t)c->bytes[c->nin + j]);
    int64_t index[DIMS] = {0}, n = type_elements(&o->type);
    for (int64_t e = 0; e < n; e++) {
        expected(c, j, memory, index, want + (size_t)place_of(o, c, index) * size);
        for (int d = c->ndims - 1; d >= 0 && ++index[d] == c->dim[d].size; d--)
            index[d] = 0;
    }
    if (memcmp(want, memory[c->nin + j], (size_t)c->bytes[c->nin + j]) != 0)
        fail_msg("%s, result %d differs", dtype_name(c->dtype), j);
    free(want);
}

/* Units in any shares, in any order. */
static void run_case(const Case *c, NativeKernel *kernel, uint64_t *rng)
{
    unsigned char *memory[INPUTS + RESULTS];
    void *at[INPUTS + RESULTS];
    for (int o = 0; o < c->nin + c->nout; o++) {
        at[o] = memory[o] = malloc((size_t)c->bytes[o]);
        memset(memory[o], GUARD, (size_t)c->bytes[o]);
        for (int64_t e = 0; o < c->nin && e < c->bytes[o] / dtype_bytes(c->dtype); e++)
            number_put(memory[o], c->dtype, e,
                       c->dtype == DT_bool ? draw_int(rng, 2) : draw_int(rng, 9999));
    }
    int64_t middle = draw_int(rng, (int)c->kernel.units + 1);
    kernel(at, middle, c->kernel.units);
    kernel(at, 0, middle);
    for (int j = 0; j < c->nout; j++)
        check_result(c, j, memory);
    for (int o = 0; o < c->nin + c->nout; o++)
        free(memory[o]);
}

static void tiles_on(const char *cpu)
{
    uint64_t rng = 41;
    static Case cases[CASES];
    Model t;
    model_open(&t);
    static const Device host = {.target = TARGET_host};
    Plan p = {.module = t.m, .device = &host, .cpu = cpu};
    int tiled = 0, edges = 0, deep = 0, lines = 0;
    for (int i = 0; i < CASES; i++) {
        add_case(&t, &p, &rng, &cases[i]);
        Nest n = nest_of(t.m, &cases[i].kernel);
        NestTile tile = nest_tile(t.m, &n, &cases[i].kernel);
        tiled += tile.n > 0;
        deep += tile.n > 2;
        for (int k = 0; k < tile.n; k++)
            edges += nest_loop(&n, tile.loop[k])->dim.size % tile.size[k] != 0;
        for (int o = 0; o < cases[i].kernel.noperands; o++)
            lines += tile.turned[o].run > 1;
    }
    Native native;
    NATIVE_OPEN(&native, &t, &p);
    for (int i = 0; i < CASES; i++)
        run_case(&cases[i], native.kernel[i], &rng);
    native_close(&native);
    model_close(&t);
    printf("%d of %d kernels in tiles, %d with more than two tiled loops; %d loops that tiles do "
           "not fill, "
           "%d lines over several loops\n",
           tiled, CASES, deep, edges, lines);
    assert_true(tiled > CASES / 3 && deep > 5 && edges > 5 && lines > 3);
}

/* Vectors of 16, 32 and 64 bytes: a square has another edge. */
static void tiles(void **state)
{
    (void)state;
    tiles_on("x86-64");
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v3"))
        tiles_on("x86-64-v3");
    if (__builtin_cpu_supports("x86-64-v4"))
        tiles_on("x86-64-v4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
