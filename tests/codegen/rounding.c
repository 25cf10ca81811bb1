/* rounding.c - what is rounded at random has the interpreter's bits, in every kernel: along the
 * columns of a row, whose words are drawn together, from a column that is no multiple of four, and
 * across them; and each way of running it gives the same. */
#include "ir/interpret.h"
#include "plan/nest.h"
#include "tests/codegen/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 3, COLUMNS = 1301, CASES_OF_ROUNDING = 3, INPUTS = 4, RESULTS = 2 };

static Type scalar(DType t)
{
    return (Type){.dtype = t};
}

/* Two results: the low and the high bits of the same words. which: 0 from column 0 on (and row
 * `first`), 1 from column `first` on, 2 with rows and columns in each other's place. */
static void add_kernel(Model *t, Plan *p, int which)
{
    const Dim dims[2] = {dim_of(t, "r", ROWS), dim_of(t, "c", COLUMNS)};
    const Type x = type_in(DT_f32, 2, dims), y = type_in(DT_bf16, 2, dims);
    const Type in_types[INPUTS] = {x, scalar(DT_i64), scalar(DT_i64), scalar(DT_i32)};
    const Type out_types[RESULTS] = {y, y};
    Region *body = region_new(t->m, t->fn->body);
    Builder b = {.m = t->m, .region = body};
    Value in[INPUTS], arg[INPUTS];
    Kernel k = {.nin = INPUTS, .nout = RESULTS, .noperands = INPUTS + RESULTS};
    for (int i = 0; i < k.noperands; i++) {
        const Type type = i < INPUTS ? in_types[i] : y;
        k.operand[i] = (Operand){.type = type, .read = i < INPUTS, .write = i >= INPUTS};
        k.operand[i].stride[0] = COLUMNS;
        k.operand[i].stride[1] = 1;
        k.alias[i] = -1;
        if (i < INPUTS) {
            in[i] = value_new(t->m, t->fn->body, type, 0);
            arg[i] = region_arg(t->m, body, type, 0);
        }
    }
    Value row = build_iota(&b, DT_i32, dims[which == 2]);
    Value col = build_iota(&b, DT_i32, dims[which != 2]);
    if (which == 1)
        col = build2(&b, OP_add, col, arg[3]);
    else
        row = build2(&b, OP_add, row, arg[3]);
    for (int at = 0; at < RESULTS; at++) {
        Attrs a = {.at = at, .key = name_intern(t->m->names, "round 0 w")};
        vec_push(
            t->a, &body->results,
            build(&b, OP_stochastic_round, &a, 5, (Value[]){arg[0], row, col, arg[1], arg[2]}));
    }
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    k.ins = build_typed(&t->b, OP_fused, &a, INPUTS, in, RESULTS, out_types, body);
    k.name = name_intern(t->m->names, arena_printf(t->a, "round%d", which));
    kernel_nest(t->m, &k);
    vec_push(t->a, &p->kernels, k);
}

/* Of every size, with what is no number and what is rounded to infinity. */
static float any_number(uint64_t *rng, int64_t e)
{
    static const float edges[] = {0, -0.0f,     INFINITY,    -INFINITY,   NAN,
                                  1, 0x1p-149f, 0x1.fep127f, 0x1.ffp127f, -0x1.000002p-126f};
    if (e < (int64_t)(sizeof edges / sizeof *edges))
        return edges[e];
    return (float)ldexp(draw(rng, -1, 1), draw_int(rng, 60) - 40);
}

/* The interpreter's results where it rounds, as bf16 in memory. */
static void interpret_rounded(const Plan *p, const Kernel *k, void *const *at)
{
    Arena *a = arena_new();
    Fn fn = {.body = k->ins->body};
    Tensor64 in[INPUTS], out[RESULTS];
    for (int i = 0; i < INPUTS; i++) {
        const int64_t n = type_elements(&k->operand[i].type);
        in[i] = (Tensor64){k->operand[i].type, NEW_ARRAY(a, double, n)};
        for (int64_t e = 0; e < n; e++)
            in[i].data[e] = number_at(at[i], k->operand[i].type.dtype, e);
    }
    ir_interpret(p->module, &fn, in, out, a, true);
    for (int j = 0; j < RESULTS; j++)
        for (int64_t e = 0; e < (int64_t)ROWS * COLUMNS; e++)
            number_put(at[INPUTS + j], DT_bf16, e, out[j].data[e]);
    arena_free(a);
}

static void check_kernel(Comparison *c, const Plan *p, uint32_t which, long *up)
{
    const Kernel *k = &p->kernels.data[which];
    Operand operand[INPUTS + RESULTS];
    Action act = {
        .kind = ACT_kernel, .kernel = which, .noperands = k->noperands, .operand = operand};
    float *x = aligned_alloc(64, 4 * 64 * ((ROWS * COLUMNS + 63) / 64));
    int64_t seed = 0x123456789abcd, step = ((int64_t)1 << 33) + 5;
    int32_t first = 4099;
    void *at[INPUTS + RESULTS] = {x, &seed, &step, &first};
    uint16_t *got[RESULTS], *want[RESULTS];
    const size_t bytes = 2 * 64 * ((ROWS * COLUMNS + 63) / 64);
    memcpy(operand, k->operand, sizeof operand);
    for (int64_t e = 0; e < (int64_t)ROWS * COLUMNS; e++)
        x[e] = any_number(&c->rng, e);
    for (int j = 0; j < RESULTS; j++) {
        at[INPUTS + j] = want[j] = aligned_alloc(64, bytes);
        got[j] = aligned_alloc(64, bytes);
    }
    interpret_rounded(p, k, at);
    for (int way = 0; way < 2; way++) {
        for (int j = 0; j < RESULTS; j++)
            memset(at[INPUTS + j] = got[j], 0, bytes);
        c->run(c, p, &act, at, way);
        for (int j = 0; j < RESULTS; j++)
            for (int64_t e = 0; e < (int64_t)ROWS * COLUMNS; e++) {
                if (isnan(x[e]) ? (got[j][e] & 0x7fff) <= 0x7f80 : got[j][e] != want[j][e])
                    fail_msg("case %u, bits %d, element %lld: %a becomes %04x, not %04x", which, j,
                             (long long)e, (double)x[e], got[j][e], want[j][e]);
                uint32_t cut;
                memcpy(&cut, &x[e], sizeof cut);
                up[j] += got[j][e] != cut >> 16;
            }
    }
    for (int j = 0; j < RESULTS; j++) {
        free(want[j]);
        free(got[j]);
    }
    free(x);
}

void compare_rounding(const Comparison *like)
{
    Comparison c = *like;
    Model t;
    static const Device host = {.target = TARGET_host};
    long up[RESULTS] = {0};
    c.rng = 77;
    model_open(&t);
    Plan p = {.module = t.m, .device = &host};
    for (int which = 0; which < CASES_OF_ROUNDING; which++)
        add_kernel(&t, &p, which);
    c.open(&c, &t, &p);
    for (uint32_t which = 0; which < CASES_OF_ROUNDING; which++)
        check_kernel(&c, &p, which, up);
    c.close(&c);
    model_close(&t);
    /* Half of all go up, within four deviations. */
    const double n = 2.0 * CASES_OF_ROUNDING * ROWS * COLUMNS;
    for (int j = 0; j < RESULTS; j++)
        assert_true(fabs((double)up[j] - n / 2) < 2 * 4 * sqrt(n / 4));
}
