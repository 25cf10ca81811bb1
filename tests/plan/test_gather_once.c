/* Parameters that a step updates in parts are gathered once, in the first microbatch's layers: the
 * program computes what one rank does, sends as many bytes as with gathers behind the update, and
 * can be written down and read; its plans copy no more, hold, and hold no longer when a wait is
 * gone, or a read comes before its gather; and it is chosen where it is faster and fits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/once.h"
#include "ir/mesh.h"
#include "passes/walk.h"
#include "plan/place/place.h"
#include "tests/plan/mutate.h"
#include "tests/plan/sharded.h"

/* Four microbatches, of which three stay a loop; two, and one. Sizes of which a rank has 256
 * elements or more. */
#define SIZES(batch)                                                                               \
    "layers=3", "hidden=32", "kv_heads=4", "group=1", "head=8", "ffn=32", "vocab=16", "seq=8",     \
        "batch=" #batch
static const Small models[] = {
    {"llama7b.mg", 0, {SIZES(16)}},
    {"llama7b.mg", 0, {SIZES(8)}},
    {"llama7b.mg", 0, {SIZES(4)}},
    {"gpt2_124m.mg",
     0,
     {"layers=3", "hidden=32", "heads=4", "head=8", "ffn=32", "vocab=16", "seq=8", "batch=16",
      AS_READY}},
};
enum { MODELS = sizeof models / sizeof *models, AT_ONCE = 4 };

static const char *const layouts[] = {
    "dp=2; batch dp; state dp",
    "dp=4; batch dp; state dp; grads dp",
    "tp=2 dp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp",
    "dp=2 cp=2; batch dp; seq cp; state dp cp",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static bool open_once(Model *t, const Reference *r, int layout, bool once, Lies *l)
{
    return open_local(t, r, arena_printf(r->t.a, "%s%s", layouts[layout], once ? "; once" : ""), l);
}

/* ---- programs ------------------------------------------------------------------------------- */

typedef struct Counts {
    double elements; /* of halves that gathers give along axes of `dp` or `cp`, loops multiplied */
    int gathers;
} Counts;

static void count(const Module *m, const Region *r, double times, Axes state, Counts *c)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if (i->op == OP_all_gather && (i->attrs.axes & state) &&
            type_of(m, i->out[0])->dtype == m->train.half &&
            type_find(type_of(m, i->out[0]), m->batch.name) < 0) {
            c->elements += times * (double)type_elements(type_of(m, i->out[0]));
            c->gathers++;
        }
        if (i->op == OP_repeat)
            count(m, i->body, times * (double)i->attrs.dim.size, state, c);
    }
}

static Counts counts_of(const Model *t)
{
    const Module *m = t->m;
    Axes state = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        for (int k = 0; m->layout.rules.data[r].of && k < m->layout.rules.data[r].n; k++)
            state |= (Axes)1 << m->layout.rules.data[r].axis[k];
    Counts c = {0};
    count(m, module_fn(m, "train")->body, 1, state, &c);
    return c;
}

/* Ranges and segments too: what is kept is drawn. Where layers are as they were written a step
 * gathers the elements that the other program gathers behind the update. */
static void numbers(void **state)
{
    (void)state;
    int fewer = 0, same = 0, ran = 0;
    for (int k = 0; k < MODELS * LAYOUTS * 2; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 8 : 2))
            continue;
        const int layout = k / MODELS % LAYOUTS;
        const bool drawn = k / MODELS / LAYOUTS;
        Reference r;
        Model t, other;
        Lies l[SHARDED], ignored[SHARDED];
        open_reference_in(&r, &models[k % MODELS], AT_ONCE, DT_bf16);
        r.keep = drawn ? 100 * sample_turn() + (uint64_t)k : 0;
        assert_true(open_once(&t, &r, layout, true, l));
        assert_true(open_once(&other, &r, layout, false, ignored));
        const Counts behind = counts_of(&other), each = counts_of(&t);
        must_pass(&t, pass_gather_once);
        const Counts once = counts_of(&t);
        must_read_back(&t);
        for (int f = 0; f < SHARDED; f++) {
            if (!r.want[f])
                continue;
            Compared c = run_many(&r.t, r.args[f], r.want[f], &t, sharded_functions[f], &l[f]);
            if (!(c.worst <= SHARD_BOUND))
                fail_msg("%s, layout %s: @%s: %s is off by %g", r.small->file, layouts[layout],
                         sharded_functions[f], c.where, c.worst);
        }
        assert_true(once.elements <= each.elements && once.elements >= behind.elements);
        if (!drawn && once.elements != behind.elements)
            fail_msg("%s, layout %s: %g elements are gathered, not %g", r.small->file,
                     layouts[layout], once.elements, behind.elements);
        ran++;
        fewer += once.elements < each.elements;
        same += once.elements == behind.elements;
        model_close(&other);
        model_close(&t);
        model_close(&r.t);
    }
    print_message("of %d programs %d gather less than by microbatch, %d what others do behind\n",
                  ran, fewer, same);
    assert_true(ran > 0 && 2 * fewer > ran && 2 * same >= ran);
}

/* ---- plans ---------------------------------------------------------------------------------- */

typedef struct Planned {
    Reference r;
    Model t;
    Lies l[SHARDED];
    Plan *p;
} Planned;

static void open_planned(Planned *x, int model, int layout, bool once)
{
    open_reference_in(&x->r, &models[model], AT_ONCE, DT_bf16);
    assert_true(open_once(&x->t, &x->r, layout, once, x->l));
    x->t.m->layout.overlap = true;
    lower_physical(&x->t);
    x->p = plan_for(&x->t, &test_device);
}

static void close_planned(Planned *x)
{
    model_close(&x->t);
    model_close(&x->r.t);
}

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

/* Have all ranks the same bits of every result but the copies, which lie in another way? */
static void same_bits(Planned *x, Planned *other, int f, uint64_t *order)
{
    const char *name = sharded_functions[f];
    const Fn *fn = module_fn(x->t.m, name);
    const Tensor64 *got = run_ranks_planned(x->r.args[f], &x->t, x->p, name, &x->l[f], order);
    const Tensor64 *want =
        run_ranks_planned(x->r.args[f], &other->t, other->p, name, &other->l[f], NULL);
    for (size_t k = 0; k < fn->results.n * (size_t)mesh_ranks(x->t.m); k++) {
        const FnResult r = fn->results.data[k % fn->results.n];
        if (r.role == RES_update && tensor_is_rounded(&x->t.m->tensors.data[r.tensor]))
            continue;
        for (int64_t e = 0; e < type_elements(&got[k].type); e++)
            if (!(got[k].data[e] == want[k].data[e]))
                fail_msg("%s: @%s: result %zu has other bits", x->r.small->file, name, k);
    }
}

/* Streams in any order that the plan allows give the bits of gathers behind the update. */
static void plans(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    for (int k = 0; k < MODELS * LAYOUTS; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 8 : 4))
            continue;
        Planned x, behind;
        open_planned(&x, k % MODELS, k / MODELS, true);
        open_planned(&behind, k % MODELS, k / MODELS, false);
        must_hold(x.p);
        if (copied(x.p->train) > copied(behind.p->train))
            fail_msg("%s, layout %s: %g bytes are copied, not %g", x.r.small->file,
                     layouts[k / MODELS], copied(x.p->train), copied(behind.p->train));
        for (int order = 0; order < 3; order++)
            same_bits(&x, &behind, 0, order ? &rng : NULL);
        close_planned(&behind);
        close_planned(&x);
    }
}

/* ---- faults --------------------------------------------------------------------------------- */

/* Does the action gather a layer of a copy that lies in parts? */
static bool gathers_layer(const Plan *p, const Action *a)
{
    return a->kind == ACT_comm && a->comm.kind == MG_ALL_GATHER && a->around >= 0 &&
           p->buffers.data[a->operand[0].at.buffer].persistent;
}

static void must_break(const Plan *p, const char *what, size_t at)
{
    char *text;
    if (!plan_breaks(p, &text))
        fail_msg("%s of action %zu is not found", what, at);
    free(text);
}

/* Does an action read what another writes, of a persistent buffer or not? */
static bool reads(const Action *a, const Action *from)
{
    for (int k = 0; k < a->noperands; k++)
        if (!a->operand[k].write && a->operand[k].at.buffer == from->operand[1].at.buffer)
            return true;
    return false;
}

/* Without any one of its waits the plan is not proved. */
static void each_wait(Planned *x, int *dropped)
{
    Program *const *const all = x->p->programs;
    for (int n = 0; n < PLAN_PROGRAMS; n++)
        for (size_t i = 0; all[n] && i < all[n]->actions.n; i++)
            for (int s = 0; s < MAX_STREAMS; s++) {
                uint32_t *wait = &all[n]->actions.data[i].wait[s], was = *wait;
                *wait = 0;
                if (was)
                    must_break(x->p, "a dropped wait", i);
                *wait = was;
                *dropped += was != 0;
            }
}

/* A layer that is gathered an iteration late, from another layer's part, or behind its first read;
 * a read of the layer before or after; a gather that is gone. */
static void each_gather(Planned *x, int *planted)
{
    const Program *g = x->p->train;
    for (size_t i = 0; i < g->actions.n; i++) {
        if (!gathers_layer(x->p, &g->actions.data[i]))
            continue;
        size_t reader = i + 1;
        while (reader < g->actions.n && !reads(&g->actions.data[reader], &g->actions.data[i]))
            reader++;
        for (int kind = 0; kind < 3; kind++) {
            Plan *bad = plan_copy(x->p, x->t.a);
            Action *act = bad->train->actions.data, *a = &act[i];
            const Operand *of = &a->operand[kind == 1];
            const int64_t layer = of->at.nloops ? of->at.loop[of->at.nloops - 1].stride : 0;
            if (kind < 2 && !layer)
                continue;
            if (kind < 2)
                a->operand[kind].at.offset += layer;
            else if (reader < g->actions.n && act[reader].around == a->around) {
                const Action first = act[reader];
                memmove(&act[i + 1], &act[i], (reader - i) * sizeof *act);
                act[i] = first;
            } else {
                continue;
            }
            must_break(bad, kind == 2 ? "a read before the gather" : "another layer", i);
            ++*planted;
        }
    }
}

static void faults(void **state)
{
    (void)state;
    int dropped = 0, planted = 0;
    for (int k = 0; k < MODELS * LAYOUTS; k++) {
        Planned x;
        if (!sampled((uint64_t)k, SANITIZED ? 16 : 8))
            continue;
        open_planned(&x, k % MODELS, k / MODELS, true);
        each_wait(&x, &dropped);
        each_gather(&x, &planted);
        must_hold(x.p);
        close_planned(&x);
    }
    print_message("%d waits, %d faults of gathers\n", dropped, planted);
    assert_true(dropped > 10 && planted > 5);
}

/* ---- the choice ----------------------------------------------------------------------------- */

static bool chosen(const char *layout, Device d)
{
    static const Small large = {"llama7b.mg",
                                0,
                                {"layers=8", "hidden=512", "kv_heads=4", "group=1", "head=128",
                                 "ffn=1024", "vocab=64", "seq=128", "batch=16"}};
    Model t;
    open_elaborated(&t, &large);
    t.m->train.half = t.m->train.sums = DT_bf16;
    t.m->layout.mesh.n = t.m->layout.rules.n = 0;
    lay_out(&t, layout);
    t.m->layout.microbatch = 2;
    must_make(&t, &d, NULL, "pad_gradients");
    once_choose(t.m, &d);
    const bool once = t.m->layout.once;
    model_close(&t);
    return once;
}

static void choice(void **state)
{
    (void)state;
    Device d = test_device, one = test_device, wait = test_device, small = test_device;
    d.link_bandwidth = d.node_bandwidth = 3e8; /* updates hide nothing of gathers, and layers all */
    one.streams = 1;
    wait.collectives_wait = true;
    small.memory = 1 << 16;
    assert_true(chosen(layouts[0], d));
    assert_true(chosen(layouts[1], d));
    assert_false(chosen(layouts[0], one));
    assert_false(chosen(layouts[0], wait));
    assert_false(chosen(layouts[0], small));
    assert_false(chosen("dp=2; batch dp", d));
    assert_false(chosen("dp=2; batch dp; state dp; grads dp; params dp", d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(plans),
        cmocka_unit_test(faults),
        cmocka_unit_test(choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
