/* The whole way as a table (decide/steps.def): what it says is what runs, from anywhere to
 * anywhere, and however it is cut the plan is the same. */
#include "decide/settled.h"
#include "plan/place/place.h"
#include "tests/plan/sharded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const Small llama = {
    "llama_mini.mg",
    0,
    {"hidden=32", "kv_heads=2", "head=8", "ffn=48", "vocab=32", "seq=16", "batch=8", "layers=3"}};

enum { LIMIT = PASS_count + STEP_count };

/* The names of passes and steps, in the order in which they are to run, or ran. */
typedef struct Way {
    const char *name[LIMIT];
    int n;
} Way;

static Way way_of_table(bool decided)
{
    Way w = {0};
    for (int i = 0; i < STEP_count; i++) {
        const StepInfo *s = &step_info[i];
        for (int p = s->first; p >= 0 && p <= s->last; p++)
            w.name[w.n++] = pass_info[p].name;
        if (s->first < 0 && !(decided && s->decides))
            w.name[w.n++] = s->name;
    }
    return w;
}

static void note(void *ctx, const char *step, const PlanJob *j)
{
    Way *w = ctx;
    assert_true(w->n < LIMIT);
    assert_string_equal(j->at, step);
    assert_true(!j->plan ==
                (pass_find(step) >= 0 || !strcmp(step, "apart") || !strcmp(step, "chunks") ||
                 !strcmp(step, "context") || !strcmp(step, "experts") || !strcmp(step, "turns") ||
                 !strcmp(step, "pairs") || !strcmp(step, "stages") || !strcmp(step, "offload") ||
                 !strcmp(step, "frontier") || !strcmp(step, "once") || !strcmp(step, "overlap") ||
                 !strcmp(step, "optimizer") || !strcmp(step, "logits")));
    w->name[w->n++] = step;
}

static void must_be(const Way *ran, const Way *all, int from, int n)
{
    assert_int_equal(ran->n, n);
    for (int i = 0; i < n; i++)
        assert_string_equal(ran->name[i], all->name[from + i]);
}

/* One rank; and two, with collectives that may run beside the rest: all there is to decide. */
static const char *const layouts[] = {"", "dp=2; batch dp; grads dp; state dp"};

static void open_whole(Model *t, const char *layout)
{
    open_elaborated(t, &llama);
    t->m->train.compute = DT_f32;
    t->m->layout.recompute = RECOMPUTE_auto;
    t->m->layout.mesh.n = t->m->layout.rules.n = 0;
    t->m->layout.microbatch = 2;
    if (*layout)
        lay_out(t, layout);
}

static Device device_of(int64_t memory)
{
    Device d = test_device;
    d.memory = memory;
    return d;
}

static PlanJob job_of(Model *t, const Device *d, Way *ran)
{
    return (PlanJob){.m = t->m, .d = d, .a = t->a, .log = stderr, .done = note, .ctx = ran};
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Every pass is in one range, in order; no row needs a later one; every row can run. */
static void rows(void **state)
{
    (void)state;
    int pass = 0;
    for (int i = 0; i < STEP_count; i++) {
        const StepInfo *s = &step_info[i];
        assert_int_equal(s->needs >> i, 0);
        assert_true((s->first < 0) == (s->run != NULL));
        assert_true(i == 0 || s->needs != 0);
        assert_true(s->keeps >> i & 1);
        if (s->first < 0) {
            assert_int_equal(pass_find(s->name), -1); /* a name means one thing */
            continue;
        }
        assert_int_equal(s->first, pass);
        assert_true(s->last >= s->first);
        pass = s->last + 1;
    }
    assert_int_equal(pass, PASS_count);
}

/* ---- what runs ------------------------------------------------------------------------------- */

static void in_order(void **state)
{
    (void)state;
    for (int l = 0; l < 2; l++)
        for (int decided = 0; decided < 2; decided++) {
            Model t;
            Way ran = {0}, all = way_of_table(decided);
            Device d = device_of(1 << 30);
            open_whole(&t, layouts[l]);
            PlanJob job = job_of(&t, &d, &ran);
            job.decided = decided;
            assert_int_equal(plan_make(&job), PASS_ok);
            must_be(&ran, &all, 0, all.n);
            assert_string_equal(job.at, all.name[all.n - 1]);
            model_close(&t);
        }
}

typedef struct Made {
    int64_t bytes;
    double train, eval;
    size_t actions;
} Made;

static Made made(const Plan *p)
{
    return (Made){plan_bytes(p), p->train->seconds, p->eval->seconds, p->train->actions.n};
}

/* Stopped after each pass and step, and gone on with from there. */
static void in_two(void **state)
{
    (void)state;
    const Way all = way_of_table(false);
    for (int l = 0; l < 2; l++) {
        Made whole = {0};
        Device d = device_of(1 << 30);
        for (int i = all.n - 1; i >= 0; i--) {
            Model t;
            Way ran = {0}, rest = {0};
            open_whole(&t, layouts[l]);
            PlanJob job = job_of(&t, &d, &ran);
            job.upto = all.name[i];
            assert_int_equal(plan_make(&job), PASS_ok);
            must_be(&ran, &all, 0, i + 1);
            job.after = job.upto;
            job.upto = NULL;
            job.ctx = &rest;
            assert_int_equal(plan_make(&job), PASS_ok);
            must_be(&rest, &all, i + 1, all.n - i - 1);
            const Made now = made(job.plan);
            if (i == all.n - 1)
                whole = now;
            assert_true(now.bytes == whole.bytes && now.train == whole.train &&
                        now.eval == whole.eval && now.actions == whole.actions);
            model_close(&t);
        }
    }
}

/* A plan that does not fit is placed, and no later pass runs. A byte too little is a reason to
 * decide otherwise. */
static void too_large(void **state)
{
    (void)state;
    Model t;
    Way ran = {0}, all = way_of_table(false);
    Device much = device_of(1 << 30), none = device_of(1 << 10);
    open_whole(&t, layouts[0]);
    PlanJob job = job_of(&t, &none, &ran);
    assert_int_equal(plan_make(&job), PASS_infeasible);
    assert_string_equal(job.at, "place");
    assert_true(plan_bytes(job.plan) > none.memory);
    assert_non_null(strstr(model_messages(&t), "error[MG0550]"));
    int place = 0;
    while (strcmp(all.name[place], "place"))
        place++;
    must_be(&ran, &all, 0, place);
    model_close(&t);

    open_whole(&t, layouts[0]);
    ran.n = 0;
    job = job_of(&t, &much, &ran);
    assert_int_equal(plan_make(&job), PASS_ok);
    assert_null(job.m->layout.plan);
    Made whole = made(job.plan);
    Device less = device_of(whole.bytes - 1);
    model_close(&t);

    open_whole(&t, layouts[0]);
    ran.n = 0;
    job = job_of(&t, &less, &ran);
    assert_int_equal(plan_make(&job), PASS_ok);
    assert_non_null(job.m->layout.plan);
    assert_true(plan_bytes(job.plan) <= less.memory);
    model_close(&t);
}

/* The order is made with the prices by which it is timed: to price again changes nothing. */
static void one_price(void **state)
{
    (void)state;
    Model t;
    Way ran = {0};
    Device d = device_of(1 << 30);
    open_whole(&t, layouts[1]);
    PlanJob job = job_of(&t, &d, &ran);
    job.upto = "order";
    assert_int_equal(plan_make(&job), PASS_ok);
    double *seconds = NEW_ARRAY(t.a, double, job.plan->train->actions.n);
    for (size_t i = 0; i < job.plan->train->actions.n; i++)
        seconds[i] = job.plan->train->actions.data[i].seconds;
    job.after = "order";
    job.upto = NULL;
    assert_int_equal(plan_make(&job), PASS_ok);
    for (size_t i = 0; i < job.plan->train->actions.n; i++)
        assert_true(job.plan->train->actions.data[i].seconds == seconds[i]);
    model_close(&t);
}

/* A name that nothing has is mgc's own mistake, and told as that. */
static void no_such_step(void **state)
{
    (void)state;
    Model t;
    Way ran = {0};
    Device d = device_of(1 << 30);
    FILE *nowhere = fopen("/dev/null", "w");
    open_whole(&t, layouts[0]);
    PlanJob job = job_of(&t, &d, &ran);
    job.log = nowhere;
    job.upto = "ahead";
    assert_int_equal(plan_make(&job), PASS_broken);
    job.upto = NULL;
    job.after = "lower";
    assert_int_equal(plan_make(&job), PASS_broken);
    assert_int_equal(ran.n, 0);
    fclose(nowhere);
    model_close(&t);
}

/* Decisions of a whole way found what they find when they are made: the plan is the
 * same with it. */
static void settled_ways(void **state)
{
    (void)state;
    for (int l = 0; l < 2; l++) {
        const bool small = l == 0; /* too little memory for what is kept by default */
        Model t;
        Way ran = {0};
        Device d = device_of(1 << 30);
        open_whole(&t, layouts[l]);
        PlanJob job = job_of(&t, &d, &ran);
        job.upto = "pairs";
        assert_int_equal(plan_make(&job), PASS_ok);
        Module *before = module_copy(job.m, NULL, t.m->diag, t.a);
        Module *again = module_copy(job.m, NULL, t.m->diag, t.a);
        job.done = NULL;
        job.after = "pairs";
        job.upto = "timeline";
        if (small) {
            PlanJob with = job;
            with.m = module_copy(before, NULL, t.m->diag, t.a);
            assert_int_equal(plan_make(&with), PASS_ok);
            d.memory = plan_bytes(with.plan) * 19 / 20;
        }
        WholeWay way;
        whole_ways(before, &d, "pairs", &before->layout, 1, t.a, &way);
        assert_non_null(way.settled);
        for (int row = STEP_ID_stages; row <= STEP_ID_logits; row++)
            assert_int_equal(way.settled->rows >> row & 1, step_info[row].decides);
        assert_int_equal(!small, !way.settled->as.plan);
        PlanJob taken = job;
        taken.m = again;
        taken.settled = settled_copy(way.settled, t.a);
        assert_non_null(taken.settled);
        assert_int_equal(plan_make(&job), PASS_ok);
        assert_int_equal(plan_make(&taken), PASS_ok);
        const Made x = made(job.plan), y = made(taken.plan);
        assert_true(x.bytes == y.bytes && x.train == y.train && x.eval == y.eval &&
                    x.actions == y.actions);
        model_close(&t);
    }
}

/* Notes survive as bytes, whole or not at all. */
static void notes_as_bytes(void **state)
{
    (void)state;
    Arena *a = arena_new();
    int64_t layers[] = {3, 1, 4};
    Value ahead[] = {15, 9};
    Settled s = {.rows = 1u << STEP_ID_stages | 1u << STEP_ID_overlap, .as = {.overlap = true}};
    s.as.pipeline.layers.data = layers;
    s.as.pipeline.layers.n = 3;
    s.as.ahead.data = ahead;
    s.as.ahead.n = 2;
    char *bytes;
    size_t n;
    FILE *out = open_memstream(&bytes, &n);
    settled_write(out, &s);
    fclose(out);
    for (size_t k = 0; k < n; k++)
        assert_null(settled_read(bytes, k, a));
    const Settled *r = settled_read(bytes, n, a);
    assert_non_null(r);
    assert_true(r->rows == s.rows && r->as.overlap && !r->as.plan);
    assert_int_equal(r->as.pipeline.layers.n, 3);
    assert_memory_equal(r->as.pipeline.layers.data, layers, sizeof layers);
    assert_int_equal(r->as.ahead.n, 2);
    assert_memory_equal(r->as.ahead.data, ahead, sizeof ahead);
    free(bytes);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),         cmocka_unit_test(in_order),
        cmocka_unit_test(in_two),       cmocka_unit_test(too_large),
        cmocka_unit_test(one_price),    cmocka_unit_test(no_such_step),
        cmocka_unit_test(settled_ways), cmocka_unit_test(notes_as_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
