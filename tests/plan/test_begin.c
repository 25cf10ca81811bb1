/* Sums over microbatches that begin with a write instead of zeros: which do, that the numbers are
 * those of the program, and that the proof finds each way in which one could begin wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/check/check.h"
#include "tests/plan/mutate.h"
#include "tests/plan/sharded.h"

static const Small four = {
    "gpt2_124m.mg",
    1,
    {"layers=2", "hidden=6", "heads=2", "head=4", "ffn=8", "vocab=11", "seq=4", "batch=4"}};

static Plan *open_plan(Model *t)
{
    open_model(t, &four, DT_f64);
    lower_physical(t);
    return plan_for(t, &test_device);
}

static Action *next_that_begins(const Program *g, size_t from)
{
    for (size_t i = from; i < g->actions.n; i++)
        if (g->actions.data[i].nbegins)
            return &g->actions.data[i];
    return NULL;
}

/* The head, and both products of two kinds of weights: with them no zeros of their sums are left.
 */
static void who_begins(void **state)
{
    (void)state;
    Model t;
    Plan *p = open_plan(&t);
    const Program *g = p->train;
    int n = 0;
    for (const Action *a = next_that_begins(g, 0); a;
         a = next_that_begins(g, (size_t)(a - g->actions.data) + 1)) {
        const uint32_t sum = a->operand[a->kind == ACT_head ? 6 : 2].at.buffer;
        assert_int_equal(a->nbegins, 1);
        assert_int_equal(g->loops.data[a->begins[0]].parent, -1);
        for (size_t k = 0; k < g->actions.n; k++)
            if (g->actions.data[k].kind == ACT_zero)
                assert_int_not_equal(g->actions.data[k].operand[0].at.buffer, sum);
        n++;
    }
    assert_int_equal(n, 5);
    assert_int_equal(plan_check(p, stderr), 0);
    model_close(&t);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static Action *first(Plan *p)
{
    Action *a = next_that_begins(p->train, 0);
    while (a->kind != ACT_gemm)
        a = next_that_begins(p->train, (size_t)(a - p->train->actions.data) + 1);
    return a;
}

static void adds_always(Plan *p)
{
    first(p)->nbegins = 0;
}

/* Of each layer's iteration only the first would write, of all microbatches. */
static void begins_with_layers(Plan *p)
{
    Action *a = first(p);
    a->begins[0] = (uint32_t)a->around;
}

static void begins_with_both(Plan *p)
{
    Action *a = first(p);
    a->begins[a->nbegins++] = (uint32_t)a->around;
}

static void begins_elsewhere(Plan *p)
{
    first(p)->begins[0] = (uint32_t)p->train->loops.n - 1;
    p->train->loops.data[p->train->loops.n - 1].parent = -1;
}

static void kernel_begins(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].kind == ACT_kernel && p->train->actions.data[i].around >= 0) {
            p->train->actions.data[i].nbegins = 1;
            p->train->actions.data[i].begins[0] = (uint32_t)p->train->actions.data[i].around;
        }
}

/* The scattered sum adds to the head's: it is not zero there. The head's zeros go to it. */
static void second_begins(Plan *p)
{
    Action *head = next_that_begins(p->train, 0);
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].kind == ACT_scatter_add) {
            p->train->actions.data[i].nbegins = 1;
            p->train->actions.data[i].begins[0] = head->begins[0];
        }
}

static void faults(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(Plan *p);
        const char *said;
    } all[] = {{adds_always, "where nothing is"},
               {begins_with_layers, "writes where it is to add to"},
               {begins_with_both, "where nothing is"},
               {begins_elsewhere, "P5 is broken"},
               {kernel_begins, "it cannot write where it adds"},
               {second_begins, "it cannot write where it adds"}};
    Model t;
    const Plan *p = open_plan(&t);
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        Arena *a = arena_new();
        Plan *bad = plan_copy(p, a);
        all[n].damage(bad);
        assert_true(plan_check(bad, f) > 0);
        fclose(f);
        if (!strstr(text, all[n].said))
            fail_msg("fault %zu: not '%s', but '%s'", n, all[n].said, text);
        free(text);
        arena_free(a);
    }
    model_close(&t);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

/* Microbatches 0 and 1 change places on one rank. */
static void swap_microbatches(const Plan *p, int rank)
{
    for (mg_pipe_op *o = p->train->pipe->ops[rank]; o->step; o++)
        o->microbatch = o->microbatch < 2 ? 1 - o->microbatch : o->microbatch;
}

static void stages(void **state)
{
    (void)state;
    static const Small llama = {"llama7b.mg",
                                0,
                                {"layers=4", "hidden=16", "kv_heads=4", "group=1", "head=4",
                                 "ffn=8", "vocab=16", "seq=8", "batch=8"}};
    Reference r;
    Model t;
    Lies l[3];
    open_reference(&r, &llama, 1);
    assert_true(open_local(&t, &r, "pp=2; layers pp", l));
    t.m->layout.pipeline.schedule = name_intern(t.m->names, "1f1b");
    lower_physical(&t);
    const Plan *p = plan_for(&t, &test_device);
    assert_non_null(next_that_begins(p->train, 0));
    assert_int_equal(plan_check(p, stderr), 0);
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    swap_microbatches(p, 1);
    assert_true(plan_check(p, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "a stage does not begin with the microbatch in which it writes"));
    free(text);
    model_close(&t);
    model_close(&r.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_begins), cmocka_unit_test(faults),
                                       cmocka_unit_test(stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
