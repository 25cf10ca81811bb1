/* How many logits a head has at once: for every memory, the choice against the plans of all
 * chunks. */
#include "decide/logits.h"
#include "decide/make.h"
#include "plan/check/check.h"
#include "plan/place/place.h"
#include "runtime/sizes.h"
#include "tests/plan/planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TILE = 128, MEMORIES = 24 };

static Device gpu(void)
{
    Device d = test_device;
    d.target = TARGET_cuda;
    d.flops_bf16 = 9.9e14;
    d.bandwidth = 4e12;
    d.exponentials = 1e17;
    d.launch = 4e-6;
    d.threads = 132;
    d.product_rows = 256;
    d.product_columns = 128;
    d.memory = (int64_t)1 << 40;
    return d;
}

/* 16384 rows of 50257 classes are 1.65 GB of logits in bf16. */
static void open_head(Model *t)
{
    const Small s = {"gpt2_124m.mg",
                     16,
                     {"layers=1", "hidden=256", "heads=4", "head=64", "ffn=512", "batch=16"}};
    open_model(t, &s, DT_bf16);
    must_make(t, NULL, "simplify", "fuse");
}

static const Action *head_of(const Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].kind == ACT_head)
            return &p->train->actions.data[i];
    fail_msg("there is no head");
    return NULL;
}

/* The plan with so many bytes of logits; -1: with those that are chosen. */
static Plan *planned(const Model *t, const Device *d, int64_t logits)
{
    Model copy = *t;
    copy.m = module_copy(t->m, NULL, t->m->diag, t->a);
    copy.m->layout.logits = logits;
    if (logits < 0) {
        copy.m->layout.logits = 0;
        logits_choose(copy.m, d);
    }
    PlanJob job = {.m = copy.m,
                   .d = d,
                   .a = t->a,
                   .after = "logits",
                   .upto = "place",
                   .decided = true,
                   .log = stderr};
    plan_make(&job); /* it need not fit */
    job.after = "place";
    job.upto = "timeline";
    plan_make(&job);
    return job.plan;
}

static void chunks(void **state)
{
    (void)state;
    Model t;
    const Device d = gpu();
    open_head(&t);
    const Plan *usual = planned(&t, &d, 0), *most = planned(&t, &d, -1),
               *least = planned(&t, &d, 1);
    const mg_head_desc *h = &head_of(usual)->head, *few = &head_of(least)->head;
    assert_true(h->chunk % TILE == 0 && h->chunk < h->xent.rows);
    assert_true(h->chunk * mg_head_row(h) * 2 <= 256 << 20);
    assert_int_equal(few->chunk, TILE);
    /* With memory to spare there are more at once, and the step is shorter by what that saves. */
    assert_true(head_of(most)->head.chunk > h->chunk);
    assert_true(most->train->seconds < 0.99 * usual->train->seconds);
    assert_true(head_of(most)->seconds < head_of(usual)->seconds);
    assert_true(head_of(usual)->seconds < head_of(least)->seconds);
    if (plan_check(most, stderr) || plan_check(least, stderr))
        fail_msg("a plan is not proved");
    model_close(&t);
}

/* Bytes of the plan that takes least. It need not be that of the smallest chunk: more chunks are
 * more nodes of a graph, which are beside the arena. */
static int64_t least_bytes(const Model *t, const Device *d)
{
    const mg_head_desc *h = &head_of(planned(t, d, 0))->head;
    const int64_t row = mg_head_row(h) * 2, from[] = {row * h->xent.rows, row * h->chunk};
    int64_t least = plan_bytes(planned(t, d, 0));
    for (int k = 0; k < 2; k++)
        for (int64_t logits = from[k]; logits >= row * TILE / 2; logits = (logits + 1) / 2) {
            const int64_t bytes = plan_bytes(planned(t, d, logits));
            least = bytes < least ? bytes : least;
        }
    return least;
}

/* From the memory on that some chunk fits in, there is a plan that fits; with more memory it is
 * never slower than 0.1% more; and the same twice. */
static void memories(void **state)
{
    (void)state;
    Model t;
    Device d = gpu();
    open_head(&t);
    const int64_t from = least_bytes(&t, &d), to = plan_bytes(planned(&t, &d, -1));
    const int64_t usual = plan_bytes(planned(&t, &d, 0));
    assert_true(from < usual && usual < to);
    double before = 1e9;
    int below = 0;
    for (int k = 0; k <= MEMORIES; k++) {
        d.memory = from + (to - from) * k * k / (MEMORIES * MEMORIES);
        const Plan *p = planned(&t, &d, -1), *again = planned(&t, &d, -1);
        if (plan_bytes(p) > d.memory)
            fail_msg("%lld bytes are refused, and %lld are enough", (long long)d.memory,
                     (long long)from);
        assert_true(p->train->seconds <= 1.001 * before);
        assert_true(head_of(p)->head.chunk % TILE == 0 ||
                    head_of(p)->head.chunk == head_of(p)->head.xent.rows);
        assert_int_equal(head_of(p)->head.chunk, head_of(again)->head.chunk);
        before = p->train->seconds;
        below += d.memory < usual;
    }
    assert_true(below > 1);
    /* If nothing fits it is as it was, and the planner says what is missing. */
    d.memory = from - 1;
    t.m->layout.logits = 0;
    logits_choose(t.m, &d);
    assert_int_equal(t.m->layout.logits, 0);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks), cmocka_unit_test(memories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
