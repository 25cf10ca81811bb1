/* The proof of a plan, tested by plans with one mistake in them: whatever it lets pass computes the
 * same numbers, and it lets hardly anything pass. */
#include "tests/plan/mutate.h"
#include "tests/plan/planned.h"
#include "tests/plan/random_graph.h"
#include "plan/check/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const functions[] = {"train", "eval", "sample"};

typedef struct Trial {
    Model t;
    const Device *device; /* NULL: the test's */
    Plan *p;
    Run run[3];
    Tensor64 *results[3];
} Trial;

static void run_all(Trial *x, const Plan *p, Tensor64 **results, uint64_t *order)
{
    unsigned char *arena = arena_of_nan(p);
    for (int f = 0; f < 3; f++)
        if (x->run[f].fn) {
            x->run[f].order = order;
            results[f] = NEW_ARRAY(x->t.a, Tensor64, x->run[f].fn->results.n);
            assert_true(run_planned(&x->t, p, &x->run[f], arena, results[f], NULL, NULL));
        }
    free(arena);
}

static void start(Trial *x)
{
    for (int f = 0; f < 3; f++)
        x->run[f] = interpret(&x->t, functions[f], 5);
    lower_for(&x->t, x->device);
    x->p = plan_for(&x->t, x->device ? x->device : &test_device);
    run_all(x, x->p, x->results, NULL);
}

static int broken_in(const Plan *p)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    int n = plan_check(p, f);
    fclose(f);
    free(text);
    return n;
}

/* All results of all functions, bit for bit. */
static bool same_numbers(const Trial *x, Tensor64 *const *results)
{
    for (int f = 0; f < 3; f++)
        for (size_t i = 0; x->run[f].fn && i < x->run[f].fn->results.n; i++)
            if (memcmp(results[f][i].data, x->results[f][i].data,
                       sizeof(double) * (size_t)type_elements(&results[f][i].type)) != 0)
                return false;
    return true;
}

static void mutations(Trial *x, const char *of, uint64_t seed, int count)
{
    int caught = 0, tried = 0;
    for (int n = 0; n < count; n++) {
        char what[160];
        Arena *a = arena_new();
        Plan *bad = plan_copy(x->p, a);
        if (plan_mutate(bad, &seed, what, sizeof what)) {
            tried++;
            if (broken_in(bad)) {
                caught++;
            } else {
                for (int order = 0; order < 4; order++) {
                    Tensor64 *results[3] = {0};
                    run_all(x, bad, results, order ? &seed : NULL);
                    if (!same_numbers(x, results))
                        fail_msg("%s: not noticed: %s", of, what);
                }
            }
        }
        arena_free(a);
    }
    /* Some change nothing: two actions that may run in either order or side by side, a place that
     * is free. */
    assert_true(tried > count / 2);
    if (caught * 10 < tried * 7)
        fail_msg("%s: only %d of %d noticed", of, caught, tried);
}

static void shipped(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 8 : 2))
            continue;
        Trial x = {0};
        open_model(&x.t, &small_models[k], DT_f64);
        start(&x);
        mutations(&x, small_models[k].file, (uint64_t)k, 600);
        model_close(&x.t);
    }
}

/* Programs of fp8 in tiles. */
static void tiles(void **state)
{
    (void)state;
    static const Small small = {"llama_mini.mg",
                                0,
                                {"layers=2", "hidden=16", "kv_heads=2", "group=1", "head=8",
                                 "ffn=16", "vocab=11", "seq=4", "batch=2"}};
    for (int k = 0; k < 2; k++) {
        Trial x = {0};
        int scales = 0;
        open_model(&x.t, &small, k ? DT_e5m2 : DT_e4m3);
        start(&x);
        for (size_t i = 0; i < x.p->train->actions.n; i++)
            scales += x.p->train->actions.data[i].kind == ACT_tile_scale;
        assert_true(scales > 10);
        mutations(&x, "tiles", (uint64_t)k + 1, 150);
        model_close(&x.t);
    }
}

static void random_programs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        if (!sampled(seed - 1, SANITIZED ? 6 : 2))
            continue;
        Trial x = {0};
        open_random(&x.t, seed, 2, DT_f64, seed % 2);
        start(&x);
        mutations(&x, "random program", seed, 200);
        model_close(&x.t);
    }
}

static void random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        if (!sampled(seed - 1, SANITIZED ? 10 : 2))
            continue;
        Trial x = {0};
        model_open(&x.t);
        random_graph(&x.t, seed, DT_f64, graph_small);
        start(&x);
        mutations(&x, "random graph", seed, 100);
        model_close(&x.t);
    }
}

/* ---- mistakes that change no number here, but would elsewhere ------------------------------- */

typedef bool Lie(Plan *p); /* false: nothing to lie about */

static bool about_peak(Plan *p)
{
    p->train->peak -= 64;
    return true;
}

static bool about_bound(Plan *p)
{
    p->eval->live_bound += 64;
    return true;
}

static bool about_arena(Plan *p)
{
    p->arena_bytes -= 64;
    return true;
}

static bool about_persistent(Plan *p)
{
    p->persistent_bytes -= 64;
    return true;
}

/* Emitted kernels are told which pointers are one. */
static bool about_alias(Plan *p)
{
    for (size_t k = 0; k < p->kernels.n; k++)
        for (int o = 0; o < p->kernels.data[k].noperands; o++)
            if (p->kernels.data[k].alias[o] >= 0) {
                p->kernels.data[k].alias[o] = -1;
                return true;
            }
    return false;
}

static bool about_stream(Plan *p)
{
    p->train->actions.data[p->train->actions.n - 1].stream = 1;
    return true;
}

/* Dropped waits: of the first, and of the last that all streams meet at. */
static bool about_wait(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].wait[1]) {
            p->train->actions.data[i].wait[1] = 0;
            return true;
        }
    return false;
}

static bool about_meeting(Plan *p)
{
    for (size_t i = p->train->actions.n; i-- > 0;) {
        Action *a = &p->train->actions.data[i];
        if ((a->kind == ACT_end || a->kind == ACT_guard || a->kind == ACT_loop) && a->wait[1]) {
            a->wait[1] = 0;
            return true;
        }
    }
    return false;
}

static bool about_beginning(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].wait[0]) {
            p->train->actions.data[i].wait[0] = 0;
            return true;
        }
    return false;
}

static bool about_loop_around(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].around >= 0) {
            p->train->actions.data[i].around = -1;
            return true;
        }
    return false;
}

static int guard_of(const Program *p)
{
    for (size_t i = 0; i < p->actions.n; i++)
        if (p->actions.data[i].kind == ACT_guard)
            return (int)i;
    return -1;
}

/* The guard looks at one number twice. */
static bool about_guard(Plan *p)
{
    Action *g = &p->train->actions.data[guard_of(p->train)];
    g->operand[1] = g->operand[0];
    return true;
}

/* An update runs before the guard. */
static bool about_order(Plan *p)
{
    int g = guard_of(p->train), last = (int)p->train->actions.n - 1;
    Action guard = p->train->actions.data[g];
    for (int i = g; i < last; i++)
        p->train->actions.data[i] = p->train->actions.data[i + 1];
    p->train->actions.data[last] = guard;
    for (size_t i = 0; i < p->buffers.n; i++) { /* nobody may say that it is not alive */
        Buffer *b = &p->buffers.data[i];
        b->first = b->persistent || b->program ? b->first : 0;
        b->last = b->persistent || b->program ? b->last : last;
    }
    return true;
}

static void lies(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        Lie *lie;
    } all[] = {{"peak", about_peak},
               {"bound", about_bound},
               {"arena", about_arena},
               {"persistent", about_persistent},
               {"alias", about_alias},
               {"stream", about_stream},
               {"wait", about_wait},
               {"meeting", about_meeting},
               {"beginning of a stream", about_beginning},
               {"loop", about_loop_around},
               {"guard", about_guard},
               {"update before guard", about_order}};
    Trial x = {0};
    open_model(&x.t, &small_models[3], DT_f64);
    start(&x);
    assert_int_equal(broken_in(x.p), 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        Arena *a = arena_new();
        Plan *bad = plan_copy(x.p, a);
        assert_true(all[k].lie(bad));
        if (!broken_in(bad))
            fail_msg("not noticed: %s", all[k].what);
        arena_free(a);
    }
    model_close(&x.t);
}

/* ---- a product and the kernel that goes on with it ------------------------------------------- */

static Action *joined(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].epilogue)
            return &p->train->actions.data[i];
    return NULL;
}

/* The buffer that the kernel's last operand is in, which it writes, is where some other is. */
static bool over(Plan *p, int which)
{
    const Action *a = joined(p);
    Buffer *b = p->buffers.data;
    b[a->operand[a->noperands - 1].at.buffer].offset = b[a->operand[which].at.buffer].offset;
    return true;
}

static bool over_left(Plan *p)
{
    return over(p, 0);
}

/* Inside one buffer, where lives say nothing: the place of a parameter is large enough. */
static bool over_right(Plan *p)
{
    Action *a = joined(p);
    a->operand[a->noperands - 1].at = a->operand[1].at;
    return true;
}

static bool half_of_it(Plan *p)
{
    const Action *a = joined(p);
    Buffer *b = p->buffers.data;
    over(p, 2);
    b[a->operand[a->noperands - 1].at.buffer].offset += 64;
    return true;
}

/* The kernel reads something else than what the product gives. */
static bool of_another(Plan *p)
{
    Action *a = joined(p);
    for (int n = a->epilogue; n < a->noperands; n++)
        if (a->operand[n].value == a->operand[2].value && !a->operand[n].write)
            a->operand[n].value = a->operand[0].value;
    return true;
}

static bool other_columns(Plan *p)
{
    p->kernels.data[joined(p)->kernel].columns /= 3;
    return true;
}

static bool many_products(Plan *p)
{
    joined(p)->gemm.batch = 2;
    return true;
}

static bool no_kernel(Plan *p)
{
    joined(p)->kernel = (uint32_t)p->kernels.n;
    return true;
}

/* A lie, and what the checker says of it. */
typedef struct Said {
    Lie *lie;
    const char *said;
} Said;

static void each_is_said(const Trial *x, const Said *all, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        Arena *a = arena_new();
        Plan *bad = plan_copy(x->p, a);
        all[k].lie(bad);
        plan_check(bad, f);
        fclose(f);
        if (!strstr(text, all[k].said))
            fail_msg("lie %zu: not '%s', but '%s'", k, all[k].said, text);
        free(text);
        arena_free(a);
    }
}

/* Sequentially most of these would give the right numbers. */
static void kernels_of_products(void **state)
{
    (void)state;
    static const Said all[] = {
        {over_left, "P2 is broken"},          {over_right, "meets the product's"},
        {half_of_it, "P2 is broken"},         {of_another, "cannot go on with"},
        {other_columns, "cannot go on with"}, {many_products, "cannot go on with"},
        {no_kernel, "cannot go on with"}};
    Trial x = {0};
    int k = 0;
    while (strcmp(small_models[k].define[3], "head=16") != 0)
        k++;
    open_model(&x.t, &small_models[k], DT_f64);
    start(&x);
    assert_non_null(joined(x.p));
    assert_int_equal(broken_in(x.p), 0);
    each_is_said(&x, all, sizeof all / sizeof *all);
    model_close(&x.t);
}

/* ---- products whose operands have scales of tiles ---------------------------------------------
 */

/* Of which a row of what is summed has one tile, or two. */
static void open_tiled(Trial *x, Device *d, bool mx)
{
    const Small small = {"llama_mini.mg",
                         0,
                         {"layers=2", "hidden=16", "kv_heads=2", "group=1", "head=8",
                          mx ? "ffn=160" : "ffn=144", "vocab=11", "seq=16", "batch=2"}};
    *d = test_device;
    d->flops_fp8 = 2e11;
    x->device = d;
    open_for(&x->t, &small, mx ? DT_e5m2 : DT_e4m3, d);
    start(x);
}

static Action *rounding(Plan *p, int64_t rows)
{
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *a = &p->train->actions.data[i];
        if (a->kind == ACT_round_tiles && a->round_tiles.tile_rows == rows &&
            a->round_tiles.columns > FP8_TILE)
            return a;
    }
    return NULL;
}

static Action *tiled(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *a = &p->train->actions.data[i];
        if (a->kind == ACT_gemm && a->gemm.tiles > MG_TILES_ROWS && a->gemm.k > FP8_TILE)
            return a;
    }
    return NULL;
}

static void turn(Operand *o)
{
    const Dim d = o->type.dims[0];
    o->type.dims[0] = o->type.dims[1];
    o->type.dims[1] = d;
    o->stride[0] = o->type.dims[1].size;
    o->stride[1] = 1;
}

static bool turned_rows(Plan *p)
{
    turn(&rounding(p, 1)->operand[2]);
    return true;
}

static bool turned_squares(Plan *p)
{
    turn(&rounding(p, FP8_TILE)->operand[2]);
    return true;
}

static void narrow(Type *t)
{
    t->dims[1].size = 2;
}

/* Of two tiles of a row, of which cuBLASLt reads four: the program says so, too, in all places. */
static bool too_few(Plan *p)
{
    const Value f = rounding(p, FP8_TILE)->operand[2].value;
    narrow(&p->module->values.data[f].type);
    for (size_t i = 0; i < p->train->actions.n; i++)
        for (int k = 0; k < p->train->actions.data[i].noperands; k++) {
            Operand *o = &p->train->actions.data[i].operand[k];
            if (o->value == f) {
                narrow(&o->type);
                o->stride[0] = 2;
            }
        }
    return true;
}

static bool in_each_other(Plan *p)
{
    rounding(p, 1)->operand[2].stride[0]--;
    return true;
}

static bool turned_operand(Plan *p)
{
    turn(&tiled(p)->operand[3]);
    return true;
}

static bool of_the_other(Plan *p)
{
    Action *a = tiled(p);
    const Operand first = a->operand[3];
    a->operand[3] = a->operand[4];
    a->operand[4] = first;
    return true;
}

static bool other_tiles(Plan *p)
{
    Action *a = tiled(p);
    a->gemm.tiles = a->gemm.tiles == MG_TILES_A    ? MG_TILES_B
                    : a->gemm.tiles == MG_TILES_MX ? MG_TILES_ROWS
                                                   : MG_TILES_A;
    return true;
}

static bool not_whole(Plan *p)
{
    Place *at = &tiled(p)->operand[4].at;
    at->offset += 4;
    p->buffers.data[at->buffer].bytes += 64;
    return true;
}

static void scales_of_tiles(void **state)
{
    (void)state;
    static const char is[] = "which its instruction has there";
    static const Said all[] = {{turned_rows, is},
                               {turned_squares, is},
                               {turned_operand, is},
                               {of_the_other, is},
                               {in_each_other, "where its scales lie"},
                               {not_whole, "where scales of tiles lie"},
                               {other_tiles, "whose tiles are which"}};
    static const Said last[] = {{too_few, "where its scales lie"},
                                {too_few, "where scales of tiles lie"}};
    Trial x = {0};
    Device d;
    open_tiled(&x, &d, false);
    assert_int_equal(broken_in(x.p), 0);
    each_is_said(&x, all, sizeof all / sizeof *all);
    mutations(&x, "scales of tiles", 1, 40);
    each_is_said(&x, last, sizeof last / sizeof *last); /* of x's program, too */
    model_close(&x.t);
}

static bool as_with_tiles(Plan *p)
{
    rounding(p, 1)->round_tiles.power = false;
    return true;
}

static void scales_of_mx(void **state)
{
    (void)state;
    static const char is[] = "which its instruction has there";
    static const Said all[] = {{turned_rows, is},
                               {turned_operand, is},
                               {of_the_other, is},
                               {as_with_tiles, "what tiles are"},
                               {other_tiles, "whose tiles are which"}};
    Trial x = {0};
    Device d;
    open_tiled(&x, &d, true);
    assert_int_equal(broken_in(x.p), 0);
    assert_int_equal(tiled(x.p)->gemm.tiles, MG_TILES_MX);
    each_is_said(&x, all, sizeof all / sizeof *all);
    mutations(&x, "scales of mx", 1, 40);
    model_close(&x.t);
}

/* ---- parts of a join --------------------------------------------------------------------------
 */

enum { DQ = 6, DK, DV };

static int gradients_of_attention(const Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].kind == ACT_attention_grad)
            return (int)i;
    fail_msg("no attention");
    return -1;
}

static bool overlapping_parts(Plan *p)
{
    Operand *o = p->train->actions.data[gradients_of_attention(p)].operand;
    o[DK].at = o[DQ].at;
    return true;
}

static bool overlapping_a_little(Plan *p)
{
    Operand *o = p->train->actions.data[gradients_of_attention(p)].operand;
    o[DK].at.offset -= dtype_bytes(o[DK].type.dtype);
    return true;
}

static bool exchanged_parts(Plan *p)
{
    Operand *o = p->train->actions.data[gradients_of_attention(p)].operand;
    const Place at = o[DQ].at;
    o[DQ].at = o[DV].at;
    o[DV].at = at;
    return true;
}

/* It is written where the largest parameter is. */
static bool missing_part(Plan *p)
{
    Operand *o = p->train->actions.data[gradients_of_attention(p)].operand;
    uint32_t largest = 0;
    for (uint32_t k = 0; k < p->buffers.n; k++)
        if (p->buffers.data[k].persistent &&
            p->buffers.data[k].bytes > p->buffers.data[largest].bytes)
            largest = k;
    o[DV].at = (Place){.buffer = largest};
    return true;
}

/* The buffers that an action touches are alive from `first` to `last`, in bytes of its own. */
static void alive_alone(Plan *p, const Action *a, int first, int last)
{
    for (int k = 0; k < a->noperands; k++) {
        Buffer *b = &p->buffers.data[a->operand[k].at.buffer];
        if (b->persistent)
            continue;
        b->first = b->first < first ? b->first : first;
        b->last = b->last > last ? b->last : last;
        b->offset = p->arena_bytes;
        p->arena_bytes += b->bytes;
    }
}

/* The action that reads the parts together comes before one of them is there. */
static bool read_too_early(Plan *p)
{
    const int at = gradients_of_attention(p);
    Action *a = p->train->actions.data, reader = {0};
    const uint32_t parts = a[at].operand[DQ].at.buffer;
    int i = at + 1;
    for (bool reads = false; !reads; i += !reads) {
        for (int k = 0; k < a[i].noperands; k++)
            reads |= a[i].operand[k].at.buffer == parts && !a[i].operand[k].write;
        assert_true(i < (int)p->train->actions.n);
    }
    reader = a[i];
    const int end = i;
    for (; i > at; i--)
        a[i] = a[i - 1];
    a[at] = reader;
    for (i = at; i <= end; i++)
        alive_alone(p, &a[i], at, end);
    return true;
}

/* The gradients of q, k and v are computed where the product reads them, and no kernel reads them.
 */
static void parts_of_a_join(void **state)
{
    (void)state;
    static const Said all[] = {{overlapping_parts, "P2 is broken in train, action"},
                               {overlapping_a_little, "operand 7 is written over operand 6"},
                               {exchanged_parts, "P3 is broken in train, action"},
                               {missing_part, "P3 is broken in train, action"}, /* and P4 */
                               {read_too_early, "P3 is broken in train, action"}};
    Trial x = {0};
    open_model(&x.t, &small_models[1], DT_f64);
    start(&x);
    const int at = gradients_of_attention(x.p);
    const Operand *o = x.p->train->actions.data[at].operand;
    assert_int_equal(o[DQ].at.buffer, o[DK].at.buffer);
    assert_int_equal(o[DQ].at.buffer, o[DV].at.buffer);
    assert_int_equal(o[DQ].at.offset, 0);
    assert_int_equal(o[DV].at.offset, 2 * o[DK].at.offset);
    assert_int_equal(o[DQ].stride[1] * 8, 3 * o[DK].at.offset); /* the next position's */
    for (size_t i = 0; i < x.p->train->actions.n; i++) {
        const Action *a = &x.p->train->actions.data[i];
        for (int k = 0; k < a->noperands; k++)
            if ((int)i != at &&
                (a->operand[k].value == o[DQ].value || a->operand[k].value == o[DK].value ||
                 a->operand[k].value == o[DV].value))
                fail_msg("'%s' reads a part alone", name_str(x.t.m->names, a->name));
    }
    assert_int_equal(broken_in(x.p), 0);
    each_is_said(&x, all, sizeof all / sizeof *all);
    model_close(&x.t);
}

/* A message names the broken invariant, the action, the iteration and the values. */
static void messages(void **state)
{
    (void)state;
    Trial x = {0};
    open_model(&x.t, &small_models[2], DT_f64);
    start(&x);
    Action *product = NULL;
    for (size_t i = 0; i < x.p->train->actions.n && !product; i++)
        if (x.p->train->actions.data[i].kind == ACT_gemm)
            product = &x.p->train->actions.data[i];
    assert_non_null(product);
    product->operand[0].at = product->operand[2].at;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_true(plan_check(x.p, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "plan: P3 is broken in train, action "));
    assert_non_null(strstr(text, "'layers.self_attn.wq' layers=0: reads element 0 of "));
    free(text);
    model_close(&x.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped),
                                       cmocka_unit_test(tiles),
                                       cmocka_unit_test(random_programs),
                                       cmocka_unit_test(random_graphs),
                                       cmocka_unit_test(lies),
                                       cmocka_unit_test(kernels_of_products),
                                       cmocka_unit_test(scales_of_tiles),
                                       cmocka_unit_test(scales_of_mx),
                                       cmocka_unit_test(parts_of_a_join),
                                       cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
