/* Several ranks that offload: all ranks in one process, each with its arenas, compute what one rank
 * does, in any order of streams; each rank's part comes and goes once a step, a piece at a time,
 * where a collective follows the update, too; each wait of a transfer is needed, mistakes are
 * found; and the ranks of a machine share what it has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/levels.h"
#include "tests/plan/sharded.h"

static const Small models[] = {
    {"llama7b.mg",
     0,
     {"layers=4", "hidden=32", "kv_heads=4", "group=2", "head=4", "ffn=32", "vocab=32", "seq=8",
      "batch=16"}},
    {"gpt2_124m.mg",
     0,
     {"layers=4", "hidden=32", "heads=4", "head=8", "ffn=32", "vocab=32", "seq=8", "batch=16",
      AS_READY}},
    {"mixtral_mini.mg",
     0,
     {"layers=4", "hidden=32", "kv_heads=2", "group=2", "head=4", "ffn=32", "experts=4", "vocab=32",
      "seq=8", "batch=16"}},
};
enum { MODELS = sizeof models / sizeof *models, AT_ONCE = 8 };

static const char *const layouts[] = {
    "dp=2; batch dp",
    "dp=2; batch dp; state dp",
    "dp=4; batch dp; state dp; grads dp",
    "dp=2; batch dp; state dp; grads dp; params dp",
    "tp=2; kv_heads tp; heads tp; ffn tp; vocab tp",
    "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp",
    "replica=2 dp=2; batch replica dp; state dp; grads dp; params dp",
    "dp=2 cp=2; batch dp; seq cp~; state dp; grads dp; params dp",
    "dp=2 cp=2; batch dp cp; state dp cp",
    "ep=2 dp=2; experts ep; batch dp ep; state dp",
    "pp=2; layers pp",
    "pp=2 dp=2; batch dp; layers pp; state dp",
    "pp=2 dp=2; batch dp; layers pp:2; state dp; grads dp; params dp",
    "tp=2 pp=2; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; layers pp",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* A layout's program and its plan. */
typedef struct Planned {
    Reference r;
    Model t;
    Lies l[SHARDED];
    Plan *p;
} Planned;

static void open_planned(Planned *x, int model, int layout, uint64_t number, DType half)
{
    const char *spec = NULL;
    open_reference_in(&x->r, &models[model], AT_ONCE, half);
    spec = arena_printf(x->r.t.a, "%s; offload %d", layouts[layout], (int)number);
    if (!open_local(&x->t, &x->r, spec, x->l))
        fail_msg("%s, layout %s: %s", models[model].file, spec, model_messages(&x->t));
    if (x->t.m->layout.pipeline.axis)
        x->t.m->layout.pipeline.schedule =
            name_intern(x->t.m->names, strstr(spec, "pp:2") ? "interleaved" : "1f1b");
    lower_physical(&x->t);
    x->p = plan_for(&x->t, &test_device);
}

static void close_planned(Planned *x)
{
    model_close(&x->t);
    model_close(&x->r.t);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void numbers(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    for (uint64_t k = 0; k < MODELS * LAYOUTS; k++) {
        Planned x;
        if (!sampled(k, SANITIZED ? 20 : 10))
            continue;
        open_planned(&x, k % MODELS, k / MODELS, 1 + 3 * k, DT_none);
        must_hold(x.p);
        for (int f = 0; f < SHARDED; f++)
            for (int order = 0; order < 3 && x.r.want[f]; order++) {
                const Compared c =
                    run_many_planned(&x.r.t, x.r.args[f], x.r.want[f], &x.t, x.p,
                                     sharded_functions[f], &x.l[f], order ? &rng : NULL);
                if (!(c.worst <= SHARD_BOUND))
                    fail_msg("%s, layout %s: @%s in order %d: %s is off by %g", x.r.small->file,
                             layouts[k / MODELS], sharded_functions[f], order, c.where, c.worst);
            }
        close_planned(&x);
    }
}

/* With halves there are masters, which the interpreter does not round. */
static void masters(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < MODELS * LAYOUTS; k++) {
        Reference r;
        if (!sampled(k, SANITIZED ? 20 : 10))
            continue;
        open_reference_in(&r, &models[k % MODELS], AT_ONCE, k % 2 ? DT_f16 : DT_bf16);
        const char *spec =
            arena_printf(r.t.a, "%s; offload %d", layouts[k / MODELS], 2 + 3 * (int)k);
        if (!layout_follows(&r, spec))
            fail_msg("%s, layout %s: refused", r.small->file, spec);
        model_close(&r.t);
    }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The share of the two stages that have a tensor. */
static double share(const Planned *x, const Tensor *t)
{
    return x->t.m->layout.pipeline.axis
               ? 0.5 * ((t->at & AT_FIRST) != 0) + 0.5 * ((t->at & AT_LAST) != 0)
               : 1;
}

/* Each byte of a rank's part comes once a step and goes once, at the rates that a rank has of its
 * machine; and what is updated is nowhere whole: in a loop over layers or in windows, of which the
 * largest is smaller than the largest tensor. */
static void bytes(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < MODELS * LAYOUTS; k++) {
        Planned x;
        if (!sampled(k, SANITIZED ? 20 : 10))
            continue;
        open_planned(&x, k % MODELS, k / MODELS, 3, DT_bf16);
        must_hold(x.p);
        double in = 0, out = 0, far = 0, largest = 0, piece = 0;
        for (size_t i = 0; i < x.p->train->actions.n; i++) {
            const Action *a = &x.p->train->actions.data[i];
            if (!action_transfers(a))
                continue;
            *(a->kind == ACT_fetch ? &in : &out) += a->times * (double)a->bytes;
            piece = fmax(piece, (double)a->bytes);
        }
        for (size_t i = 0; i < x.p->tensor_buffer.n; i++) {
            const Tensor *t = &x.p->module->tensors.data[i];
            const double size = t->type.level ? (double)type_bytes(&t->type) : 0;
            far += size * share(&x, t);
            largest = fmax(largest, size);
        }
        if (!(far > 0 && fabs(in - far) < 1 && fabs(out - far) < 1))
            fail_msg("%s, layout %s: of %g bytes %g come, and %g go", x.r.small->file,
                     layouts[k / MODELS], far, in, out);
        if (piece > largest / 2)
            fail_msg("%s, layout %s: %g bytes at once of a tensor of %g", x.r.small->file,
                     layouts[k / MODELS], piece, largest);
        close_planned(&x);
    }
}

/* Of the disk of four ranks each has a quarter of all, of a host's memory of the bytes alone; what
 * they need all together fits to the byte. */
static void shared(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int level = LEVEL_host; level < LEVEL_count; level++) {
            Planned x;
            Device d = test_device;
            d.node_ranks = ranks;
            d.level[LEVEL_disk] = d.level[LEVEL_host];
            open_planned(&x, 0, 2, 1, DT_none); /* dp=4 */
            x.p->device = &d;
            assert_int_equal(levels_ranks(x.t.m, &d), ranks);
            const DeviceLevel l = levels_share(x.t.m, &d, (Level)level);
            assert_int_equal(l.memory, d.level[level].memory / ranks);
            assert_true(l.in * (level == LEVEL_disk ? ranks : 1) == d.level[level].in);
            assert_true(l.out * (level == LEVEL_disk ? ranks : 1) == d.level[level].out);
            assert_true(l.both * (level == LEVEL_disk ? ranks : 1) == d.level[level].both);
            const int64_t each = x.p->level_bytes[LEVEL_host];
            d.level[LEVEL_host].memory = each * ranks;
            assert_true(each > 0 && levels_fit(x.p));
            must_hold(x.p);
            d.level[LEVEL_host].memory--;
            assert_false(levels_fit(x.p));
            assert_non_null(strstr(model_messages(&x.t), "error[MG0556]"));
            char *text;
            plan_breaks(x.p, &text);
            assert_non_null(strstr(text, "P2"));
            free(text);
            x.t.m->layout.assert_level[LEVEL_host] = (double)(each * ranks);
            assert_true(levels_asserted(x.p));
            x.t.m->layout.assert_level[LEVEL_host]--;
            assert_false(levels_asserted(x.p));
            assert_non_null(strstr(model_messages(&x.t), "error[MG0557]"));
            close_planned(&x);
        }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void must_break(const Plan *p, const char *what)
{
    char *text;
    if (!plan_breaks(p, &text))
        fail_msg("%s: nothing is found broken", what);
    free(text);
}

/* Of plans of several ranks too each wait of a transfer, and each for one, is needed. */
static void each_wait(void **state)
{
    (void)state;
    static const int some[] = {1, 5, 10, 11};
    int waits = 0;
    for (uint64_t k = 0; k < 4; k++) {
        Planned x;
        if (!sampled(k, SANITIZED ? 4 : 2))
            continue;
        open_planned(&x, (int)k % MODELS, some[k], 3, DT_bf16);
        for (size_t i = 0; i < x.p->train->actions.n; i++)
            for (int s = 0; s < MAX_STREAMS; s++) {
                Action *a = &x.p->train->actions.data[i];
                const uint32_t was = a->wait[s];
                if (!was ||
                    !(action_transfers(a) || action_transfers(&x.p->train->actions.data[was - 1])))
                    continue;
                a->wait[s] = 0;
                must_break(x.p, "a wait is left out");
                a->wait[s] = was;
                waits++;
            }
        must_hold(x.p);
        close_planned(&x);
    }
    assert_true(waits > 10);
}

/* On a processor collectives and transfers run beside the thread that computes, each kind in its
 * stream: in another one an action would not be waited for, nor wait. */
static void processors(void **state)
{
    (void)state;
    Device d = test_device;
    d.products_wait = true;
    int found = 0, kinds[MAX_STREAMS] = {0};
    for (int layout = 1; layout < LAYOUTS; layout += 10) { /* without stages, and with */
        Planned x;
        open_planned(&x, 0, layout, 3, DT_bf16);
        x.p = plan_for(&x.t, &d);
        must_hold(x.p);
        for (size_t i = 0; i < x.p->train->actions.n; i++) {
            Action *a = &x.p->train->actions.data[i];
            const uint8_t was = a->stream;
            kinds[was]++;
            assert_true(was != MG_STREAM_PRODUCTS);
            if (!was)
                continue;
            a->stream = was == MG_STREAM_FETCHES ? MG_STREAM_OFFLOADS : MG_STREAM_FETCHES;
            must_break(x.p, "a stream of another kind");
            a->stream = was;
            found++;
        }
        must_hold(x.p);
        close_planned(&x);
    }
    assert_true(found > 10 && kinds[MG_STREAM_COLLECTIVES] > 0 && kinds[MG_STREAM_FETCHES] > 0 &&
                kinds[MG_STREAM_OFFLOADS] > 0);
}

/* A collective on another level, or a message, is found: what ranks send is on the device. */
static void sent_from_afar(void **state)
{
    (void)state;
    int found = 0;
    for (int layout = 1; layout < LAYOUTS; layout += 10) { /* collectives; messages of a pipeline */
        Planned x;
        open_planned(&x, 0, layout, 3, DT_bf16);
        for (size_t i = 0; i < x.p->train->actions.n; i++) {
            const Action *a = &x.p->train->actions.data[i];
            for (int k = 0; k < a->noperands && a->kind != ACT_fetch && a->kind != ACT_offload;
                 k++) {
                Buffer *b = &x.p->buffers.data[a->operand[k].at.buffer];
                const Buffer was = *b;
                if (!action_sends(a) && a->kind != ACT_send && a->kind != ACT_receive)
                    continue;
                b->level = LEVEL_host;
                b->offset = 0;
                must_break(x.p, "a collective reaches for another level");
                *b = was;
                found++;
            }
        }
        must_hold(x.p);
        close_planned(&x);
    }
    assert_true(found > 10);
}

/* A buffer on another level that only some ranks have may lie over one that only others have, and
 * over no other. */
static void stages(void **state)
{
    (void)state;
    int apart = 0, over = 0;
    Planned x;
    open_planned(&x, 0, 10, 3, DT_bf16);
    VEC(Buffer *) far = {0};
    for (size_t i = 0; i < x.p->buffers.n; i++)
        if (x.p->buffers.data[i].level && x.p->buffers.data[i].bytes)
            vec_push(x.t.a, &far, &x.p->buffers.data[i]);
    for (size_t i = 0; i < far.n; i++)
        for (size_t k = 0; k < i; k++) {
            const Buffer was = *far.data[i];
            over += far.data[i]->offset == far.data[k]->offset;
            if (!(far.data[i]->at & far.data[k]->at))
                continue;
            far.data[i]->offset = far.data[k]->offset;
            must_break(x.p, "two tensors of one rank in the same bytes");
            *far.data[i] = was;
            apart++;
        }
    must_hold(x.p);
    assert_true(apart > 10 && over > 0);
    close_planned(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers), cmocka_unit_test(masters),    cmocka_unit_test(bytes),
        cmocka_unit_test(shared),  cmocka_unit_test(each_wait),  cmocka_unit_test(sent_from_afar),
        cmocka_unit_test(stages),  cmocka_unit_test(processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
