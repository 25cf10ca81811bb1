/* A pipeline's layers all keep the same (decide/frontier_alike.c): what is chosen fits, and of all
 * there is to keep, tried one after the other, nothing that fits has a faster step. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/frontier.h"
#include "plan/place/place.h"
#include "tests/plan/sharded.h"

enum { MEMORIES = 4 };

typedef struct Case {
    const char *layout;
    const char *define[SMALL_DEFINES];
} Case;

#define SIZES(layers, batch, seq)                                                                  \
    "layers=" #layers, "hidden=64", "kv_heads=4", "group=1", "head=16", "ffn=128", "vocab=64",     \
        "seq=" #seq, "batch=" #batch
static const Case cases[] = {
    {"pp=2 tp=2; layers pp; kv_heads tp; heads tp; ffn tp; vocab tp", {SIZES(8, 16, 256)}},
    {"dp=2 pp=2; layers pp; batch dp; state dp; grads dp; params dp", {SIZES(8, 16, 128)}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The program before anything is kept. */
static void open_case(Model *t, const Case *c)
{
    Small small = {.file = "llama7b.mg"};
    memcpy(small.define, c->define, sizeof small.define);
    open_elaborated(t, &small);
    t->m->train.half = t->m->train.sums = DT_bf16;
    t->m->layout.mesh.n = t->m->layout.rules.n = 0;
    lay_out(t, c->layout);
    t->m->layout.microbatch = 2;
    must_make(t, &test_device, NULL, "stages");
}

/* Bytes that a plan needs, and seconds of its step. */
typedef struct Price {
    int64_t bytes;
    double seconds;
} Price;

static Price price_of(const Model *t, const Device *d, const KeepPlan *kept)
{
    Arena *a = arena_new();
    Price p = {0};
    for (int overlap = 0; overlap < 2; overlap++) {
        Module *m = module_copy(t->m, overlap ? "train" : NULL, diag_silent(t->m->diag, a), a);
        m->layout.plan = kept;
        m->layout.overlap = overlap;
        PlanJob job = plan_compared(m, d, a, "frontier");
        job.rough = true;
        assert_true(plan_timed(&job));
        if (overlap)
            p.seconds = job.plan->train->seconds;
        else
            p.bytes = plan_bytes(job.plan);
    }
    arena_free(a);
    return p;
}

/* All loops keep their option that is so many below the default. */
static const KeepPlan *with_less(const Model *t, const Device *d, int less, bool *any)
{
    const Ins *loop[KEEP_LOOPS];
    KeepOption option[KEEP_OPTIONS];
    KeepPlan *plan = NEW(t->a, KeepPlan);
    const int loops = keep_loops(t->m, loop, KEEP_LOOPS);
    *any = false;
    for (int l = 0; l < loops; l++) {
        const int last = keep_options(t->m, l, d, t->a, option) - 1;
        KeepRanges ranges = {0};
        const KeepOption *o = &option[last > less ? last - less : 0];
        vec_push(t->a, &ranges,
                 ((KeepRange){loop[l]->attrs.dim.size, 1, o->keep, o->names, false}));
        vec_push(t->a, &plan->loops, ranges);
        vec_push(t->a, &plan->dims, loop[l]->attrs.dim.name);
        *any |= less <= last;
    }
    return plan;
}

/* The fastest of all that fit, by trying each; the first that fits; how many there are. */
static int try_all(const Model *t, const Device *d, Price *best, Price *first)
{
    int fit = 0;
    bool any = true;
    for (int less = 1; any; less++) {
        const KeepPlan *kept = with_less(t, d, less, &any);
        const Price p = any ? price_of(t, d, kept) : (Price){0};
        if (!any || p.bytes > d->memory)
            continue;
        if (!fit++)
            *first = *best = p;
        else if (p.seconds < best->seconds)
            *best = p;
    }
    return fit;
}

static void fastest_that_fits(void **state)
{
    (void)state;
    int chosen = 0, not_first = 0, hopeless = 0;
    for (int k = 0; k < CASES; k++) {
        Model t;
        KeepFit fit;
        open_case(&t, &cases[k]);
        Device d = test_device;
        d.target = TARGET_cuda;
        const int64_t most = price_of(&t, &d, NULL).bytes;
        bool any;
        const int64_t least = price_of(&t, &d, with_less(&t, &d, KEEP_OPTIONS, &any)).bytes;
        d.memory = most;
        assert_null(frontier_alike(t.m, &d, t.a, &fit));
        assert_int_equal(fit, KEEP_fits);
        for (int n = -1; n < MEMORIES; n++) {
            Price best = {0}, first = {0};
            d.memory = least + (most - least) * n / MEMORIES;
            const int all = try_all(&t, &d, &best, &first);
            const KeepPlan *kept = frontier_alike(t.m, &d, t.a, &fit);
            assert_int_equal(fit == KEEP_fits, all > 0);
            hopeless += !all;
            if (!all)
                continue;
            const Price p = price_of(&t, &d, kept);
            assert_true(p.bytes <= d.memory);
            if (p.seconds != best.seconds)
                fail_msg("%s, %lld bytes: %g s a step, where %g fit", cases[k].layout,
                         (long long)d.memory, p.seconds, best.seconds);
            chosen++;
            not_first += best.seconds < first.seconds;
        }
        model_close(&t);
    }
    print_message("%d choices, %d of them not the first that fits; %d times nothing fits\n", chosen,
                  not_first, hopeless);
    assert_true(chosen > 0 && not_first > 0 && hopeless > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fastest_that_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
