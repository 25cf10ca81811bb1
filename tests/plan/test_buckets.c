/* Gradients that are reduced in the iterations that make them: the program computes what it did,
 * and sends what it sent; its plans, on GPUs and on hosts, hold and compute the same in any order;
 * and it is chosen where it is faster. */
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
#include "plan/check/check.h"

static const Small models[] = {
    {"llama7b.mg",
     0,
     {"layers=4", "hidden=32", "kv_heads=4", "group=1", "head=8", "ffn=32", "vocab=16", "seq=8",
      "batch=8"}},
    {"gpt2_124m.mg",
     0,
     {"layers=3", "hidden=16", "heads=4", "head=4", "ffn=8", "vocab=16", "seq=8", "batch=8",
      AS_READY}},
    {"mixtral_mini.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
      "seq=8", "batch=8"}},
    {"llama7b.mg", /* of whose matrices three ranks divide no dim */
     0,
     {"layers=3", "hidden=40", "kv_heads=5", "group=1", "head=8", "ffn=50", "vocab=20", "seq=8",
      "batch=12"}},
};
enum { MODELS = sizeof models / sizeof *models };

static const char *const layouts[] = {
    "dp=2; batch dp",
    "dp=4; batch dp; state dp",
    "dp=2; batch dp; state dp; grads dp; params dp",
    "tp=2 dp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Those of the last model, whose parameters are padded. */
static const char *const of_three[LAYOUTS] = {
    "dp=3; batch dp; state dp",
    "dp=3; batch dp; state dp; grads dp",
    "dp=3; batch dp; state dp; grads dp; params dp",
    "tp=2 dp=3; batch dp; vocab tp; ffn tp; state dp",
};

typedef struct Case {
    Reference r;
    Model t;
    Lies l[3];
    const char *layout;
} Case;

/* Case k of MODELS * LAYOUTS * 2: the first half in several microbatches. */
static bool open_case(Case *c, int k)
{
    const bool padded = k % MODELS == MODELS - 1;
    const int batch = padded ? 12 : 8;
    c->layout = (padded ? of_three : layouts)[k / MODELS % LAYOUTS];
    open_reference(&c->r, &models[k % MODELS], k / MODELS / LAYOUTS ? batch : batch / 2);
    if (open_local(&c->t, &c->r, c->layout, c->l))
        return true;
    model_close(&c->t);
    model_close(&c->r.t);
    return false;
}

static void close_case(Case *c)
{
    model_close(&c->t);
    model_close(&c->r.t);
}

/* Reductions of a step in loops, loops multiplied out, and elements of all that are made. */
typedef struct Counts {
    double inside, elements;
    double scattered_whole; /* elements that loops stack and a reduce-scatter takes */
} Counts;

static void count(const Module *m, const Region *r, double times, int depth, Counts *c)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if (i->op == OP_all_reduce || i->op == OP_reduce_scatter) {
            c->inside += depth ? times : 0;
            c->elements += times * (double)type_elements(type_of(m, i->in[0]));
            const Ins *loop = m->values.data[i->in[0]].def;
            bool stacked = loop && loop->op == OP_repeat;
            for (int64_t n = 0; stacked && n < loop->attrs.carried; n++)
                stacked = loop->out[n] != i->in[0];
            if (i->op == OP_reduce_scatter && stacked)
                c->scattered_whole += (double)type_elements(type_of(m, i->in[0]));
        }
        if (i->op == OP_repeat)
            count(m, i->body, times * (double)i->attrs.dim.size, depth + 1, c);
    }
}

static Counts counts_of(const Model *t)
{
    Counts c = {0};
    count(t->m, module_fn(t->m, "train")->body, 1, 0, &c);
    return c;
}

static void numbers(void **state)
{
    (void)state;
    int moved = 0, ran = 0;
    for (int k = 0; k < MODELS * LAYOUTS * 2; k++) {
        Case c;
        if (!sampled((uint64_t)k, SANITIZED ? 4 : 1) || !open_case(&c, k))
            continue;
        ran++;
        Counts before = counts_of(&c.t);
        c.t.m->layout.bucket = 1;
        must_pass(&c.t, pass_prefetch_gathers);
        Counts after = counts_of(&c.t);
        assert_true(before.elements == after.elements);
        moved += after.inside > before.inside;
        for (int f = 0; f < 3; f++) {
            if (!c.r.want[f])
                continue;
            Compared x =
                run_many(&c.r.t, c.r.args[f], c.r.want[f], &c.t, sharded_functions[f], &c.l[f]);
            if (!(x.worst <= SHARD_BOUND))
                fail_msg("%s, layout %s: @%s: %s is off by %g", c.r.small->file, c.layout,
                         sharded_functions[f], x.where, x.worst);
        }
        close_case(&c);
    }
    print_message("in %d programs reductions are in iterations\n", moved);
    assert_true(ran > 0 && 2 * moved >= ran);
}

/* Reductions smaller than a bucket stay in the loop. */
static void small_ones(void **state)
{
    (void)state;
    Case c;
    assert_true(open_case(&c, 0));
    Counts before = counts_of(&c.t);
    c.t.m->layout.bucket = 1 << 20;
    must_pass(&c.t, pass_prefetch_gathers);
    Counts after = counts_of(&c.t);
    assert_true(before.inside == after.inside);
    close_case(&c);
}

/* With `scatter` alone those move of which each rank gets a part. */
static void scattered(void **state)
{
    (void)state;
    int moved = 0;
    for (int k = 0; k < MODELS * LAYOUTS * 2; k++) {
        Case c;
        if (!sampled((uint64_t)k, SANITIZED ? 4 : 1) || !open_case(&c, k))
            continue;
        Counts before = counts_of(&c.t);
        c.t.m->layout.scatter = 1;
        must_pass(&c.t, pass_prefetch_gathers);
        Counts after = counts_of(&c.t);
        assert_true(before.elements == after.elements);
        moved += after.inside > before.inside;
        if (before.scattered_whole > 0)
            assert_true(after.scattered_whole < before.scattered_whole);
        for (int f = 0; f < 3; f++) {
            if (!c.r.want[f])
                continue;
            Compared x =
                run_many(&c.r.t, c.r.args[f], c.r.want[f], &c.t, sharded_functions[f], &c.l[f]);
            if (!(x.worst <= SHARD_BOUND))
                fail_msg("%s, layout %s: @%s: %s is off by %g", c.r.small->file, c.layout,
                         sharded_functions[f], x.where, x.worst);
        }
        close_case(&c);
    }
    print_message("in %d programs gradients are scattered in iterations\n", moved);
    assert_true(moved > 0 || SANITIZED);
}

static Device host(void)
{
    Device d = test_device;
    d.products_wait = true;
    return d;
}

static Plan *planned(const Case *c, Model *copy, const Device *d, int64_t bucket, double send_flops)
{
    *copy = c->t;
    copy->m = module_copy(c->t.m, NULL, c->t.m->diag, c->t.a);
    copy->m->layout.overlap = true;
    copy->m->layout.bucket = bucket;
    copy->m->layout.send_flops = send_flops;
    lower_physical(copy);
    return plan_for(copy, d);
}

static int kernels_of(const Plan *p)
{
    int n = 0;
    for (size_t i = 0; i < p->train->actions.n; i++)
        n += p->train->actions.data[i].kind == ACT_kernel;
    return n;
}

static void plans(void **state)
{
    (void)state;
    int more = 0, pairs = 0;
    uint64_t rng = sample_turn() + 1;
    const Device hosts = host();
    for (int k = 0; k < MODELS * LAYOUTS * 2; k++) {
        Case c;
        Model one, two, three;
        if (!sampled((uint64_t)k, SANITIZED ? 4 : 1) || !open_case(&c, k))
            continue;
        const Device *d = k % 2 ? &hosts : &test_device;
        /* Of every other pair as much is to be sent as could ever be. */
        const double sends = k / 2 % 2 ? 1e12 : 0;
        const Plan *plain = planned(&c, &one, d, 0, 0), *p = planned(&c, &two, d, 1, sends);
        pairs += sends > 0;
        more += sends > 0 && kernels_of(p) > kernels_of(planned(&c, &three, d, 1, 0));
        Volumes v = plan_volumes(plain->module, plain->train),
                w = plan_volumes(p->module, p->train);
        if (plan_check(p, stderr))
            fail_msg("the plan is not proved");
        assert_true(fabs(v.bytes - w.bytes) <= 1e-12 * v.bytes);
        for (int order = 0; order < 3; order++) {
            Compared x = run_many_planned(&c.r.t, c.r.args[0], c.r.want[0], &two, p,
                                          sharded_functions[0], &c.l[0], order ? &rng : NULL);
            if (!(x.worst <= SHARD_BOUND))
                fail_msg("%s, layout %s: %s is off by %g", c.r.small->file, c.layout, x.where,
                         x.worst);
        }
        close_case(&c);
    }
    print_message("%d of %d plans have more kernels, to send earlier\n", more, pairs);
    assert_true(!pairs || more > 0);
}

/* It is chosen where less is waited for then, and never where collectives wait anyway. */
static void choice(void **state)
{
    (void)state;
    Case c;
    Device d = host();
    d.link_seconds = 1e-9;
    d.link_bandwidth = 5e7;
    d.flops_f64 = d.flops_f32 = 1e9;
    assert_true(open_case(&c, 0));
    overlap_choose(c.t.m, &d, NULL);
    assert_true(c.t.m->layout.overlap && c.t.m->layout.bucket > 0);
    c.t.m->layout.overlap = false;
    c.t.m->layout.bucket = 0;
    d.collectives_wait = true;
    overlap_choose(c.t.m, &d, NULL);
    assert_true(!c.t.m->layout.overlap && !c.t.m->layout.bucket);
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers), cmocka_unit_test(scattered), cmocka_unit_test(small_ones),
        cmocka_unit_test(plans),   cmocka_unit_test(choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
