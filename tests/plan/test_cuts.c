/* How many layers each stage has: of small pipelines every cut is said and planned, and the one
 * that is chosen is the fastest that fits, or within 1% of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/make.h"
#include "plan/place/place.h"
#include "tests/plan/sharded.h"
#include "tests/sample.h"

enum { STAGES = 8 };

typedef struct Case {
    const char *vocab;    /* the logits are no layer's work, about one's, several layers' */
    const char *schedule; /* ... */
    int ranks, chunks, layers;
    int parts; /* in a sample of so many it is one */
} Case;

typedef struct Made {
    double seconds; /* of a step; INFINITY: it does not fit */
    int64_t bytes;
    int64_t layers[STAGES];
} Made;

static Small model_of(const Case *c)
{
    static const char *const layers[] = {"layers=4", "layers=5", "", "", "layers=8"};
    return (Small){"llama_mini.mg",
                   1,
                   {layers[c->layers - 4], "hidden=32", "kv_heads=2", "head=8", "ffn=48", "seq=16",
                    "batch=12", c->vocab}};
}

/* The whole way, with all decisions. said: NULL: the cut is one. */
static Made make(const Case *c, const int64_t *said, const Device *d)
{
    Model t;
    const Small s = model_of(c);
    open_elaborated(&t, &s);
    t.m->train.compute = DT_f32;
    t.m->layout.recompute = RECOMPUTE_auto;
    t.m->layout.offloads = OFFLOADS_as_given; /* nothing */
    t.m->layout.mesh.n = t.m->layout.rules.n = 0;
    lay_out(&t, arena_printf(t.a, "pp=%d; layers pp:%d", c->ranks, c->chunks));
    Pipeline *p = &t.m->layout.pipeline;
    p->schedule = name_intern(t.m->names, c->schedule);
    for (int k = 0; said && k < c->ranks * c->chunks; k++)
        vec_push(t.a, &p->layers, said[k]);
    PlanJob job = {.m = t.m, .d = d, .a = t.a, .log = stderr};
    const PassStatus status = plan_make(&job);
    if (status != PASS_ok && status != PASS_infeasible)
        fail_msg("%s fails: %s", job.at, model_messages(&t));
    p = &job.m->layout.pipeline;
    Made made = {.seconds = status == PASS_ok ? job.plan->train->seconds : INFINITY,
                 .bytes = plan_bytes(job.plan)};
    for (int k = 0; k < c->ranks * c->chunks; k++)
        made.layers[k] = p->layers.data[k];
    model_close(&t);
    return made;
}

static const char *text_of(const Case *c, const Made *m)
{
    static char text[2][128];
    static int turn;
    char *to = text[turn = 1 - turn];
    for (int k = 0, n = 0; k < c->ranks * c->chunks; k++)
        n += snprintf(to + n, 128 - (size_t)n, "%s%lld", k ? "," : "", (long long)m->layers[k]);
    return to;
}

/* All cuts of so many layers, and the fastest. */
typedef struct All {
    const Case *c;
    const Device *d;
    Made best;
    int planned;
    int64_t now[STAGES];
} All;

static void every(All *x, int stage, int64_t left)
{
    const bool last = stage == x->c->ranks * x->c->chunks - 1;
    for (int64_t n = last ? left : 0; n <= left; n++) {
        x->now[stage] = n;
        if (!last) {
            every(x, stage + 1, left - n);
            continue;
        }
        const Made m = make(x->c, x->now, x->d);
        x->planned++;
        if (m.seconds < x->best.seconds)
            x->best = m;
    }
}

static void is_near_best(const Case *c, const Device *d, const char *what)
{
    const Made chosen = make(c, NULL, d), again = make(c, NULL, d),
               said = make(c, chosen.layers, d);
    All all = {.c = c, .d = d, .best = {.seconds = INFINITY}};
    every(&all, 0, c->layers);
    print_message("%s, %s, %d ranks of %d, %s: %s of %d cuts, %.3g s; best %s, %.2f%% less\n", what,
                  c->schedule, c->ranks, c->chunks, c->vocab, text_of(c, &chosen), all.planned,
                  chosen.seconds, text_of(c, &all.best),
                  100 * (1 - all.best.seconds / chosen.seconds));
    assert_true(chosen.seconds == again.seconds && chosen.bytes == again.bytes);
    assert_memory_equal(chosen.layers, again.layers, sizeof chosen.layers);
    assert_true(said.seconds == chosen.seconds && said.bytes == chosen.bytes);
    assert_true(isfinite(chosen.seconds));
    assert_true(chosen.seconds <= 1.01 * all.best.seconds);
}

static const Case cases[] = {
    {"vocab=16", "1f1b", 2, 1, 8, 2},          {"vocab=1024", "1f1b", 2, 1, 8, 2},
    {"vocab=256", "zb-h1", 2, 1, 8, 2},        {"vocab=1024", "gpipe", 2, 1, 8, 2},
    {"vocab=256", "1f1b", 3, 1, 5, 2},         {"vocab=1024", "zb-h1", 3, 1, 5, 2},
    {"vocab=16", "interleaved", 2, 2, 4, 3},   {"vocab=256", "interleaved", 2, 2, 4, 3},
    {"vocab=1024", "interleaved", 2, 2, 4, 3}, {"vocab=1024", "interleaved", 2, 2, 8, 0},
    {"vocab=512", "interleaved", 2, 2, 8, 0},  {"vocab=1024", "1f1b", 3, 1, 8, 0},
    {"vocab=1024", "interleaved", 3, 2, 5, 0}, {"vocab=512", "interleaved", 2, 3, 5, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static void enumerated(void **state)
{
    (void)state;
    for (int k = 0; k < CASES; k++)
        if (cases[k].parts ? sampled((uint64_t)k, (uint64_t)cases[k].parts) : sample_full())
            is_near_best(&cases[k], &test_device, "room");
}

/* With memory for one layer in each chunk alone, the fastest of the cuts that fit. */
static void tight(void **state)
{
    (void)state;
    const Case c = {"vocab=1024", "interleaved", 2, 2, 4, 1};
    Device less = test_device;
    const int64_t ones[] = {1, 1, 1, 1};
    less.memory = make(&c, ones, &test_device).bytes;
    const Made chosen = make(&c, NULL, &less);
    assert_memory_equal(chosen.layers, ones, sizeof ones);
    is_near_best(&c, &less, "little memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(enumerated), cmocka_unit_test(tight)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
