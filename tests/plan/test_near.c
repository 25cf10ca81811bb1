/* Near collectives: those among ranks of one machine have a stream of their own, beside those over
 * the network. Plans of all ranks, in any order that streams allow, have the same bits; no step is
 * slower for it where either may be chosen; and what would make ranks wait for ever is not proved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/make.h"
#include "ir/mesh.h"
#include "plan/check/check.h"
#include "tests/plan/sharded.h"

#define SIZES                                                                                      \
    "layers=4", "hidden=32", "kv_heads=2", "group=2", "head=8", "ffn=32", "vocab=32", "seq=8",     \
        "batch=16"
static const Small llama = {"llama7b.mg", 0, {SIZES}};
static const Small mixtral = {"mixtral_mini.mg", 0, {SIZES, "experts=4"}};

/* Of two ranks a machine. near: the sets of axes, of one axis each, that are within one. */
typedef struct Case {
    const Small *model;
    DType precision;
    const char *schedule, *spec, *near;
} Case;

static const Case cases[] = {
    {&llama, DT_bf16, NULL,
     "dp=2 tp=2; batch dp; kv_heads tp; ffn tp; vocab tp; seq tp; state dp; grads dp; params dp",
     "tp"},
    {&llama, DT_e4m3, NULL, "dp=2 tp=2; batch dp; kv_heads tp; ffn tp; vocab tp; seq tp; state dp",
     "tp"},
    {&mixtral, DT_bf16, NULL, "dp=2 ep=2; experts ep; batch dp ep; state dp; grads dp; params dp",
     "ep"},
    {&mixtral, DT_bf16, NULL, "ep=2 dp=2; experts ep; batch ep dp; state dp; grads dp; params dp",
     "dp"},
    {&mixtral, DT_bf16, "1f1b", "dp=2 pp=2 tp=2; layers pp; ffn tp; batch dp; state dp", "tp"},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct Planned {
    Reference r;
    Model t;
    Lies l[SHARDED];
    Device d;
    Plan *p;
} Planned;

/* A card whose links take long for what has many bytes, and its network as long. near: else all
 * collectives are of one stream. */
static void open_planned(Planned *x, const Case *c, bool near)
{
    x->d = test_device;
    x->d.target = TARGET_cuda;
    x->d.memory = (int64_t)1 << 40;
    x->d.node_ranks = 2;
    x->d.streams = 3;
    x->d.link_bandwidth = x->d.node_bandwidth = 1e7;
    open_reference_in(&x->r, c->model, 8, c->precision);
    if (!open_local(&x->t, &x->r, c->spec, x->l))
        fail_msg("%s: %s", c->spec, model_messages(&x->t));
    if (c->schedule)
        x->t.m->layout.pipeline.schedule = name_intern(x->t.m->names, c->schedule);
    x->t.m->layout.one_line = !near;
    lower_for(&x->t, &x->d);
    PlanJob job = {.m = x->t.m,
                   .d = &x->d,
                   .a = x->t.a,
                   .after = "fuse",
                   .upto = "timeline",
                   .decided = true,
                   .log = stderr};
    assert_int_equal(plan_make(&job), PASS_ok);
    x->p = job.plan;
}

static void close_planned(Planned *x)
{
    model_close(&x->t);
    model_close(&x->r.t);
}

/* Of a step: near ones; and those that leave the stream of what computes. All of them are along the
 * axes that the case says, and no other collective is that has not few bytes. */
static int count_near(const Planned *x, const Case *c, int *beside)
{
    const Program *g = x->p->train;
    int n = 0;
    *beside = 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (!action_sends(a) || a->comm.small)
            continue;
        const bool in = !strcmp(mesh_axes_text(x->p->module, (Axes)a->comm.axes), c->near);
        if (!x->t.m->layout.one_line && a->near != in)
            fail_msg("%s: a collective along %s is %s", c->spec,
                     mesh_axes_text(x->p->module, (Axes)a->comm.axes), in ? "not near" : "near");
        n += a->near;
        *beside += a->near && a->stream == MG_STREAM_NEAR;
        assert_true(a->near || a->stream != MG_STREAM_NEAR);
    }
    return n;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void same_bits(const Planned *x, const Planned *y, uint64_t *order)
{
    const Fn *fn = module_fn(x->t.m, "train");
    Model *a = (Model *)&x->t, *b = (Model *)&y->t;
    const Tensor64 *got = run_ranks_planned(x->r.args[0], a, x->p, "train", &x->l[0], order);
    const Tensor64 *want = run_ranks_planned(x->r.args[0], b, y->p, "train", &y->l[0], NULL);
    for (size_t k = 0; k < fn->results.n * (size_t)mesh_ranks(x->t.m); k++)
        for (int64_t e = 0; e < type_elements(&got[k].type); e++)
            if (memcmp(&got[k].data[e], &want[k].data[e], sizeof got[k].data[e]))
                fail_msg("%s: result %zu has other bits", x->r.small->file, k % fn->results.n);
}

static void plans(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    int all = 0;
    double saved = 0;
    for (int k = 0; k < CASES; k++) {
        Planned x, one;
        int beside, none;
        if (!sampled((uint64_t)k, SANITIZED ? 5 : 2))
            continue;
        open_planned(&x, &cases[k], true);
        open_planned(&one, &cases[k], false);
        must_hold(x.p);
        must_hold(one.p);
        assert_true(count_near(&x, &cases[k], &beside) > 0);
        assert_int_equal(count_near(&one, &cases[k], &none), 0);
        all += beside;
        saved += 1 - x.p->train->seconds / one.p->train->seconds;
        for (int order = 0; order < 3; order++)
            same_bits(&x, &one, order ? &rng : NULL);
        close_planned(&one);
        close_planned(&x);
    }
    print_message("%d near collectives beside the rest; %.1f%% of all steps saved\n", all,
                  100 * saved);
    assert_true(all > 0 && saved > 0);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void must_break(const Plan *p, const char *what, const char *says)
{
    char *why;
    if (!plan_breaks(p, &why))
        fail_msg("%s is not found", what);
    if (says && !strstr(why, says))
        fail_msg("%s: %s", what, why);
    free(why);
}

/* Each wait of a near one, and each for one, is needed; and each one is near with its axes. */
static int planted(const Plan *p, Program *g, size_t i)
{
    Action *a = &g->actions.data[i];
    int n = 0;
    for (int s = 0; s < MAX_STREAMS; s++) {
        const uint32_t was = a->wait[s];
        if (!was || !(a->near || g->actions.data[was - 1].near))
            continue;
        a->wait[s] = 0;
        must_break(p, "a wait left out", NULL);
        a->wait[s] = was;
        n++;
    }
    if (!action_sends(a) || a->comm.small)
        return n;
    a->near = !a->near;
    must_break(p, "one that says the other", NULL);
    a->near = !a->near;
    if (a->near) {
        a->comm.piece = 16;
        must_break(p, "copies", NULL);
        a->comm.piece = 0;
    }
    return n + 1;
}

static void faults(void **state)
{
    (void)state;
    int n = 0;
    for (int k = 0; k < CASES; k++) {
        Planned x;
        if (!sampled((uint64_t)k, 5))
            continue;
        open_planned(&x, &cases[k], true);
        must_hold(x.p);
        const int few = n;
        for (size_t i = 0; i < x.p->train->actions.n; i++)
            n += planted(x.p, x.p->train, i);
        assert_true(n > few + 4);
        must_hold(x.p);
        x.d.target = TARGET_host;
        must_break(x.p, "a processor", NULL);
        x.d.target = TARGET_cuda;
        x.d.node_ranks = 1;
        must_break(x.p, "another machine", "in several machines");
        close_planned(&x);
    }
    print_message("%d faults: all are found\n", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests_name("near", tests, NULL, NULL);
}
