/* The proof of a plan, tested by plans with one mistake in them: whatever it lets pass computes the
 * same numbers, and it lets hardly anything pass. */
#include "tests/plan/mutate.h"
#include "tests/plan/random_graph.h"
#include "tests/plan/trial.h"
#include "plan/check/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void shipped(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 8 : 2))
            continue;
        Trial x = {0};
        open_model(&x.t, &small_models[k], DT_f64);
        trial_start(&x);
        trial_mutations(&x, small_models[k].file, (uint64_t)k, 600);
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
        trial_start(&x);
        for (size_t i = 0; i < x.p->train->actions.n; i++)
            scales += x.p->train->actions.data[i].kind == ACT_tile_scale;
        assert_true(scales > 10);
        trial_mutations(&x, "tiles", (uint64_t)k + 1, 150);
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
        trial_start(&x);
        trial_mutations(&x, "random program", seed, 200);
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
        trial_start(&x);
        trial_mutations(&x, "random graph", seed, 100);
        model_close(&x.t);
    }
}

/* ---- mistakes that change no number here, but would elsewhere ------------------------------- */

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
    static Operand twice[2];
    Action *g = &p->train->actions.data[guard_of(p->train)];
    twice[0] = twice[1] = g->operand[0];
    g->operand = twice;
    g->noperands = 2;
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
    trial_start(&x);
    assert_int_equal(trial_broken(x.p), 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        Arena *a = arena_new();
        Plan *bad = plan_copy(x.p, a);
        assert_true(all[k].lie(bad));
        if (!trial_broken(bad))
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
    trial_start(&x);
    assert_non_null(joined(x.p));
    assert_int_equal(trial_broken(x.p), 0);
    trial_each_is_said(&x, all, sizeof all / sizeof *all);
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
    trial_start(&x);
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
    assert_int_equal(trial_broken(x.p), 0);
    trial_each_is_said(&x, all, sizeof all / sizeof *all);
    model_close(&x.t);
}

/* A message names the broken invariant, the action, the iteration and the values. */
static void messages(void **state)
{
    (void)state;
    Trial x = {0};
    open_model(&x.t, &small_models[2], DT_f64);
    trial_start(&x);
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
                                       cmocka_unit_test(parts_of_a_join),
                                       cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
