/* Gathers an iteration ahead: the program computes what it did, sends what it sent, and can be
 * written down and read; its plans copy nothing more; and it is chosen where it is faster and fits.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/overlap.h"
#include "plan/volume.h"
#include "passes/walk.h"
#include "tests/plan/sharded.h"
#include "plan/place/place.h"

static const Small models[] = {
    {"llama7b.mg",
     0,
     {"layers=4", "hidden=32", "kv_heads=4", "group=1", "head=8", "ffn=32", "vocab=16", "seq=8",
      "batch=8"}},
    {"gpt2_124m.mg",
     0,
     {"layers=3", "hidden=16", "heads=4", "head=4", "ffn=8", "vocab=16", "seq=8", "batch=8",
      AS_READY}},
    {"qwen3_0_6b.mg",
     0,
     {"layers=6", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=8",
      "batch=8"}},
};
enum { MODELS = sizeof models / sizeof *models };

static const char *const layouts[] = {
    "dp=2; batch dp; state dp; grads dp; params dp",
    "dp=4; batch dp; state dp; grads dp; params dp",
    "tp=2 dp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp; grads dp; "
    "params dp",
    "dp=2 cp=2; batch dp; seq cp~; state dp; grads dp; params dp",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* ---- programs ------------------------------------------------------------------------------- */

static void note_gather(void *ctx, Ins *i)
{
    Model *t = ctx;
    if (i->op == OP_all_gather)
        vec_push(t->m->arena, &t->m->layout.ahead, i->out[0]);
}

/* All gathers there are, in the place of what was there or in one of their own: the pass takes
 * those that it can, and that gain. */
static void ask_for_all(Model *t, bool apart)
{
    t->m->layout.ahead.n = 0;
    t->m->layout.ahead_apart = apart;
    for (size_t f = 0; f < t->m->fns.n; f++)
        each_ins(t->m->fns.data[f]->body, note_gather, t);
}

typedef struct Counts {
    int loops;
    double elements; /* that gathers give, loops multiplied out */
} Counts;

static void count(const Module *m, const Region *r, double times, Counts *c)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        c->loops += i->op == OP_repeat;
        if (i->op == OP_all_gather)
            c->elements += times * (double)type_elements(type_of(m, i->out[0]));
        if (i->op == OP_repeat)
            count(m, i->body, times * (double)i->attrs.dim.size, c);
    }
}

static Counts counts_of(const Model *t)
{
    Counts c = {0};
    for (size_t f = 0; f < t->m->fns.n; f++)
        count(t->m, t->m->fns.data[f]->body, 1, &c);
    return c;
}

static void compare(const Reference *r, Model *t, const Lies *l, const char *what)
{
    for (int f = 0; f < 3; f++) {
        if (!r->want[f])
            continue;
        Compared c = run_many(&r->t, r->args[f], r->want[f], t, sharded_functions[f], &l[f]);
        if (!(c.worst <= SHARD_BOUND))
            fail_msg("%s, layout %s: @%s: %s is off by %g", r->small->file, what,
                     sharded_functions[f], c.where, c.worst);
    }
}

/* Ranges and segments too: what is kept is drawn. */
static void numbers(void **state)
{
    (void)state;
    int split = 0, ran = 0;
    for (int k = 0; k < MODELS * LAYOUTS * 6; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 8 : 2))
            continue;
        ran++;
        const char *layout = layouts[k / MODELS % LAYOUTS];
        Reference r;
        Model t;
        Lies l[3];
        open_reference(&r, &models[k % MODELS], 4);
        r.keep = k / MODELS / LAYOUTS % 3 ? 100 * sample_turn() + (uint64_t)k : 0;
        assert_true(open_local(&t, &r, layout, l));
        ask_for_all(&t, k / MODELS / LAYOUTS >= 3);
        Counts before = counts_of(&t);
        must_pass(&t, pass_prefetch_gathers);
        Counts after = counts_of(&t);
        assert_true(before.elements == after.elements);
        split += after.loops - before.loops;
        must_read_back(&t);
        compare(&r, &t, l, layout);
        model_close(&t);
        model_close(&r.t);
    }
    print_message("%d loops are in two\n", split);
    assert_true(ran > 0 && 2 * split > ran);
}

/* Nobody asks: nothing changes. */
static void not_asked_for(void **state)
{
    (void)state;
    Reference r;
    Model t;
    Lies l[3];
    open_reference(&r, &models[0], 4);
    assert_true(open_local(&t, &r, layouts[0], l));
    char *before = module_text(t.m);
    must_pass(&t, pass_prefetch_gathers);
    char *after = module_text(t.m);
    assert_string_equal(before, after);
    free(before);
    free(after);
    model_close(&t);
    model_close(&r.t);
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Bytes that copies move in a step. */
static double copied(const Program *g)
{
    double times = 1, bytes = 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_loop)
            times *= (double)g->loops.data[a->loop].dim.size;
        else if (a->kind == ACT_end)
            times /= (double)g->loops.data[a->loop].dim.size;
        bytes += a->kind == ACT_copy ? times * (double)a->bytes : 0;
    }
    return bytes;
}

/* A copy of the program before the pass, with what it asks for or without, planned. */
static Plan *plan_as(const Model *t, Model *copy, const Device *d, bool overlap, bool ahead,
                     bool apart)
{
    *copy = *t;
    copy->m = module_copy(t->m, NULL, t->m->diag, t->a);
    copy->m->layout.overlap = overlap;
    copy->m->layout.ahead_apart = apart;
    if (!ahead)
        copy->m->layout.ahead.n = 0;
    lower_physical(copy);
    return plan_for(copy, d);
}

/* Sums of the same numbers in another order. */
static bool same(double x, double y)
{
    return fabs(x - y) <= 1e-12 * x;
}

static bool is_sent(const Volumes *all, const Volume *v)
{
    for (int i = 0; i < all->n; i++) {
        const Volume *w = &all->of[i];
        if (w->axes == v->axes && w->kind == v->kind && w->scalar == v->scalar)
            return same(w->bytes, v->bytes) && w->count == v->count;
    }
    return false;
}

static void plans(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    int ran = 0, more = 0;
    for (int k = 0; k < MODELS * LAYOUTS * 2; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 8 : 2))
            continue;
        const char *layout = layouts[k / 2 / MODELS];
        const bool apart = k % 2;
        Reference r;
        Model t, one, two;
        Lies l[3];
        open_reference(&r, &models[k / 2 % MODELS], 4);
        assert_true(open_local(&t, &r, layout, l));
        ask_for_all(&t, apart);
        const Plan *plain = plan_as(&t, &one, &test_device, true, false, false);
        const Plan *ahead = plan_as(&t, &two, &test_device, true, true, apart);
        must_hold(ahead);
        Volumes v = plan_volumes(plain->module, plain->train),
                w = plan_volumes(ahead->module, ahead->train);
        assert_true(same(v.bytes, w.bytes) && v.n == w.n);
        for (int i = 0; i < v.n; i++)
            assert_true(is_sent(&w, &v.of[i]));
        const bool copies = copied(ahead->train) > copied(plain->train);
        if (copies && !apart)
            fail_msg("%s, layout %s: %g bytes are copied, not %g", r.small->file, layout,
                     copied(ahead->train), copied(plain->train));
        ran += apart;
        more += apart && copies;
        for (int f = 0; f < 3; f++)
            for (int order = 0; order < 2 && r.want[f]; order++) {
                Compared c = run_many_planned(&r.t, r.args[f], r.want[f], &two, ahead,
                                              sharded_functions[f], &l[f], order ? &rng : NULL);
                if (!(c.worst <= SHARD_BOUND))
                    fail_msg("%s, layout %s: @%s: %s is off by %g", r.small->file, layout,
                             sharded_functions[f], c.where, c.worst);
            }
        model_close(&t);
        model_close(&r.t);
    }
    print_message("%d of %d plans copy what has a place of its own\n", more, ran);
    assert_true(4 * more > ran);
}

/* ---- the choice ----------------------------------------------------------------------------- */

/* A device on which a gather takes as long as some kernels. */
static Device slow_links(void)
{
    Device d = test_device;
    d.link_seconds = 3e-6;
    return d;
}

/* The plan that overlap_choose leads to on a device of so much memory. */
static const Plan *chosen(const Model *t, Model *copy, int64_t memory)
{
    Device d = slow_links();
    d.memory = memory;
    *copy = *t;
    copy->m = module_copy(t->m, NULL, t->m->diag, t->a);
    overlap_choose(copy->m, &d, NULL);
    lower_physical(copy);
    Device *kept = NEW(t->a, Device);
    *kept = d;
    return plan_for(copy, kept);
}

/* The chosen plan fits the device's memory; with just enough for the plain plan there is no
 * overlap. */
static void memory(void **state)
{
    (void)state;
    int ahead = 0;
    /* Orders and plans are chosen by times in which collectives are late: on time a program may be
     * a little slower. */
    const double late = 1.005;
    const Device slow = slow_links();
    for (int k = 0; k < LAYOUTS; k++) {
        Reference r;
        Model t, copy;
        Lies l[3];
        open_reference(&r, &models[0], 4);
        assert_true(open_local(&t, &r, layouts[k], l));
        const Plan *plain = plan_as(&t, &copy, &slow, false, false, false);
        const int64_t min = plan_bytes(plain);
        const Plan *all = chosen(&t, &copy, slow.memory);
        const int64_t max = plan_bytes(all);
        const Volumes before = plan_volumes(plain->module, plain->train),
                      after = plan_volumes(all->module, all->train);
        assert_true(copy.m->layout.overlap);
        assert_true(all->train->seconds < plain->train->seconds);
        assert_true(after.exposed < before.exposed && same(after.bytes, before.bytes));
        ahead += all->train->loops.n > plain->train->loops.n;
        assert_true(max > min);
        for (int part = 0; part < 8; part++) {
            int64_t limit = min + (max - min) * part / 8;
            const Plan *p = chosen(&t, &copy, limit);
            must_hold(p);
            assert_true(plan_bytes(p) <= limit);
            assert_true(p->train->seconds <= late * plain->train->seconds);
        }
        const Plan *none = chosen(&t, &copy, min);
        assert_true(plan_bytes(none) == min && !copy.m->layout.overlap);
        assert_true(none->train->loops.n == plain->train->loops.n);
        model_close(&t);
        model_close(&r.t);
    }
    print_message("%d of %d gather an iteration ahead\n", ahead, LAYOUTS);
    assert_true(ahead > 1);
}

/* The plan of what was chosen, in as many places as it says or in the place of what was there. */
static const Plan *plan_chosen(const Model *t, Model *copy, const Model *from, const Device *d,
                               bool apart)
{
    *copy = *t;
    copy->m = module_copy(from->m, NULL, t->m->diag, t->a);
    copy->m->layout.ahead_apart = apart;
    lower_physical(copy);
    return plan_for(copy, d);
}

/* A place of its own is taken where sending takes about as long as computing, if it fits, and saves
 * time. */
static void a_place_of_its_own(void **state)
{
    static const Small experts = {MODELS_DIR "/../bench/published/qwen3_moe.mg",
                                  0,
                                  {"batch=16", "seq=16", "vocab=16", "hidden=32", "ffn=32",
                                   "experts=4", "best=2", "layers=8", "kv_heads=2", "group=2",
                                   "head=4"}};
    (void)state;
    int taken = 0, left = 0;
    for (int k = 0; k < 8; k++) {
        Reference r;
        Model t, one, two, chooses;
        Lies l[3];
        Device d = test_device;
        d.link_seconds = d.node_seconds = 1e-8;
        d.launch = 1e-8;
        d.bandwidth = 1e11;
        d.link_bandwidth = d.node_bandwidth = 1e8 * (1 << k);
        open_reference(&r, &experts, 4);
        assert_true(open_local(&t, &r, layouts[1], l));
        chooses = t;
        chooses.m = module_copy(t.m, NULL, t.m->diag, t.a);
        overlap_choose(chooses.m, &d, NULL);
        const bool apart = chooses.m->layout.ahead_apart;
        taken += apart;
        left += !apart;
        if (apart) {
            const Plan *own = plan_chosen(&t, &one, &chooses, &d, true);
            const Plan *same = plan_chosen(&t, &two, &chooses, &d, false);
            must_hold(own);
            assert_true(own->train->seconds < same->train->seconds);
            assert_true(plan_bytes(own) > plan_bytes(same));
            d.memory = plan_bytes(same);
            Model small = t;
            small.m = module_copy(t.m, NULL, t.m->diag, t.a);
            overlap_choose(small.m, &d, NULL);
            assert_false(small.m->layout.ahead_apart);
        }
        model_close(&t);
        model_close(&r.t);
    }
    print_message("%d of %d have a place of its own\n", taken, taken + left);
    assert_true(taken > 0 && left > 0);
}

/* One stream, or one rank, leaves nothing to choose. */
static void nothing_to_choose(void **state)
{
    (void)state;
    Reference r;
    Model t;
    Lies l[3];
    Device one = test_device;
    one.streams = 1;
    open_reference(&r, &models[0], 4);
    assert_true(open_local(&t, &r, layouts[0], l));
    overlap_choose(t.m, &one, NULL);
    assert_true(!t.m->layout.overlap && !t.m->layout.ahead.n);
    model_close(&t);
    overlap_choose(r.t.m, &test_device, NULL);
    assert_true(!r.t.m->layout.overlap && !r.t.m->layout.ahead.n);
    model_close(&r.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(not_asked_for),
        cmocka_unit_test(plans),
        cmocka_unit_test(memory),
        cmocka_unit_test(a_place_of_its_own),
        cmocka_unit_test(nothing_to_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
