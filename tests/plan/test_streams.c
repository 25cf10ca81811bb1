/* Collectives beside the rest: plans of all ranks whose streams run in any order they allow compute
 * what one rank does; each wait is needed, and collectives keep their order; what the timeline says
 * of them, computed in another way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/order/streams.h"
#include "plan/volume.h"
#include "tests/plan/mutate.h"
#include "tests/plan/sharded.h"
#include "plan/check/check.h"
#include "plan/order/order.h"

static const Small models[] = {
    {"llama7b.mg",
     0,
     {"layers=3", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=8",
      "batch=8"}},
    {"gpt2_124m.mg",
     0,
     {"layers=2", "hidden=16", "heads=4", "head=4", "ffn=8", "vocab=16", "seq=8", "batch=8",
      AS_READY}},
    {"mixtral_mini.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
      "seq=8", "batch=8"}},
    {"mixtral_8x7b_dropless.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "experts=4", "vocab=16",
      "seq=8", "batch=8"}},
};
enum { MODELS = sizeof models / sizeof *models };

static const char *const layouts[] = {
    "dp=2; batch dp; state dp; grads dp; params dp",
    "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp",
    "dp=2 cp=2; batch dp; seq cp~; state dp; grads dp; params dp",
    "ep=2 dp=2; experts ep; batch dp ep; state dp",
    /* Pieces: of positions in blocks, of sequences, and of positions that all ranks have. */
    "tp=2; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp/2; pieces 2t 2",
    "tp=2; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; pieces 4 2t",
    "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; state dp; pieces 2t 2t",
    "ep=2 dp=2; experts ep; batch dp ep; state dp; pieces 2t 2t", /* to experts by sequences */
    /* A collective of one axis reads what that of another writes. */
    "dp=2 cp=2; batch dp cp; state dp cp",
    "dp=2 cp=2; batch dp; seq cp; state dp cp; grads dp cp; params dp cp",
    /* Rows that are sent, of the last model alone, and dropped. */
    "ep=2 dp=2; experts ep>1; batch dp ep; state dp",
    /* A ring with iterations in a loop. */
    "cp=4; seq cp~",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, CP_RING = LAYOUTS - 1 };

/* A layout's program, planned for a device with streams. */
typedef struct Planned {
    Reference r;
    Model t;
    Lies l[3];
    Plan *p;
} Planned;

enum { STREAMS, OVERLAP, HOSTS, KINDS };

/* Products have a stream of their own, or (HOSTS) not; what collectives touch lives longer, or
 * (STREAMS) not. */
static bool open_planned(Planned *x, int model, int layout, int kind)
{
    static Device hosts;
    hosts = test_device;
    hosts.products_wait = true;
    const bool sent = strchr(layouts[layout], '>') != NULL;
    if (sent && model != MODELS - 1)
        return false;
    if (sent)
        open_reference_as(&x->r, &models[model], 4, layouts[layout]);
    else
        open_reference(&x->r, &models[model], 4);
    if (!open_local(&x->t, &x->r, layouts[layout], x->l)) {
        model_close(&x->t);
        model_close(&x->r.t);
        return false;
    }
    x->t.m->layout.overlap = kind != STREAMS;
    lower_physical(&x->t);
    x->p = plan_for(&x->t, kind == HOSTS ? &hosts : &test_device);
    return true;
}

static void close_planned(Planned *x)
{
    model_close(&x->t);
    model_close(&x->r.t);
}

static bool sends(const Action *a)
{
    return a->kind == ACT_comm && a->comm.kind != MG_SHARD;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static void numbers(void **state)
{
    (void)state;
    int beside = 0, ran = 0;
    uint64_t rng = sample_turn() + 1;
    for (uint64_t k = 0; k < MODELS * LAYOUTS * KINDS; k++) {
        Planned x;
        if (!sampled(k, SANITIZED ? 8 : 4) ||
            !open_planned(&x, k / KINDS % MODELS, k / KINDS / MODELS, k % KINDS))
            continue;
        ran++;
        must_hold(x.p);
        for (int f = 0; f < 3; f++)
            for (int order = 0; order < 4 && x.r.want[f]; order++) {
                Compared c = run_many_planned(&x.r.t, x.r.args[f], x.r.want[f], &x.t, x.p,
                                              sharded_functions[f], &x.l[f], order ? &rng : NULL);
                if (!(c.worst <= SHARD_BOUND))
                    fail_msg("%s, layout %s: @%s in order %d: %s is off by %g", x.r.small->file,
                             layouts[k / KINDS / MODELS], sharded_functions[f], order, c.where,
                             c.worst);
            }
        for (size_t i = 0; i < x.p->train->actions.n; i++) {
            const Action *a = &x.p->train->actions.data[i];
            assert_true(a->stream < 2 || sends(a));
            assert_true(k % KINDS != HOSTS || a->stream != 1);
            beside += a->stream == 2;
        }
        close_planned(&x);
    }
    assert_true(ran > 0 && beside > 2 * ran);
}

/* ---- waits ---------------------------------------------------------------------------------- */

/* Without any one of its waits the plan is not proved: of who computes, and of who is in the queue
 * of collectives, where the last two layouts have what one collective gives to the next. */
static void each_wait(void **state)
{
    (void)state;
    static const struct {
        int model, layout, kind;
    } cases[] = {{0, 0, OVERLAP},    {1, 0, OVERLAP}, {0, 1, OVERLAP}, {1, 1, OVERLAP},
                 {0, 0, HOSTS},      {1, 0, HOSTS},   {0, 1, HOSTS},   {1, 1, HOSTS},
                 {0, 4, OVERLAP},    {1, 5, OVERLAP}, {0, 6, HOSTS},   {0, 7, HOSTS},
                 {1, 7, HOSTS},      {0, 8, HOSTS},   {1, 8, HOSTS},   {0, CP_RING, OVERLAP},
                 {0, CP_RING, HOSTS}};
    int dropped = 0, queued = 0, hosts = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Planned x;
        if (!sampled(k, SANITIZED ? 4 : 1) ||
            !open_planned(&x, cases[k].model, cases[k].layout, cases[k].kind))
            continue;
        hosts += cases[k].layout > 6 && cases[k].layout != CP_RING;
        Program *const *const all = x.p->programs;
        for (int n = 0; n < PLAN_PROGRAMS; n++)
            for (size_t i = 0; all[n] && i < all[n]->actions.n; i++)
                for (int s = 0; s < MAX_STREAMS; s++) {
                    uint32_t *wait = &all[n]->actions.data[i].wait[s], was = *wait;
                    char *text;
                    *wait = 0;
                    if (was && !plan_breaks(x.p, &text))
                        fail_msg("case %zu: action %zu need not wait for %u", k, i, was - 1);
                    if (was)
                        free(text);
                    *wait = was;
                    dropped += was != 0;
                    queued += was && all[n]->actions.data[i].stream && all[n]->queued;
                }
        must_hold(x.p);
        close_planned(&x);
    }
    print_message("%d waits, %d of them in the queue\n", dropped, queued);
    assert_true(dropped > 50 && (hosts < 4 || queued > 2));
}

/* ---- rings ---------------------------------------------------------------------------------- */

/* The operand of an action that is of this buffer; NULL: none is. */
static Operand *operand_of(Action *a, uint32_t buffer)
{
    for (int k = 0; k < a->noperands; k++)
        if (a->operand[k].at.buffer == buffer)
            return &a->operand[k];
    return NULL;
}

static void must_break(Plan *p, const char *what)
{
    char *text;
    if (!plan_breaks(p, &text))
        fail_msg("%s: the plan is taken to be right", what);
    free(text);
}

/* A shift into the bytes that it reads, and attention of keys that are on their way. */
static void wrong_buffers(Plan *p, Action *shift, Action *reader)
{
    const Operand sent = shift->operand[0], received = shift->operand[1];
    shift->operand[1].at = sent.at;
    must_break(p, "a shift receives where it sends from");
    shift->operand[1] = received;
    Operand *keys = operand_of(reader, sent.at.buffer), was = *keys;
    keys->at = received.at;
    must_break(p, "attention reads what arrives");
    *keys = was;
}

/* In the loops of a ring, forward and backward, each shift has a stream of its own, and begins
 * before the attention of its iteration, which reads what it sends and not what it receives. */
static void shifts_ahead(void **state)
{
    (void)state;
    Planned x;
    assert_true(open_planned(&x, 0, CP_RING, OVERLAP));
    Program *g = x.p->train;
    const Name ring = name_intern(x.p->module->names, RING_ITERATION);
    int shifts = 0, faults = 0;
    for (size_t l = 0; l < g->loops.n; l++) {
        Action *reader = NULL;
        for (int i = g->loops.data[l].begin; i < g->loops.data[l].end; i++)
            if (g->actions.data[i].kind == ACT_attention ||
                g->actions.data[i].kind == ACT_attention_grad)
                reader = &g->actions.data[i];
        for (int i = g->loops.data[l].begin; i < g->loops.data[l].end; i++) {
            Action *a = &g->actions.data[i];
            if (g->loops.data[l].dim.name != ring || a->kind != ACT_comm)
                continue;
            assert_int_equal(a->stream, MG_STREAM_COLLECTIVES);
            assert_null(operand_of(reader, a->operand[1].at.buffer));
            shifts++;
            if (operand_of(reader, a->operand[0].at.buffer)) {
                wrong_buffers(x.p, a, reader);
                faults += 2;
            }
        }
    }
    must_hold(x.p);
    close_planned(&x);
    print_message("%d shifts, %d faults\n", shifts, faults);
    assert_int_equal(shifts, 6);
    assert_int_equal(faults, 8);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Puts a collective into a stream of its own, which begins when the stretch does; who waits for it
 * does so still. False: it is not behind another one. */
static bool leaves_its_stream(Program *g, size_t at)
{
    Action *act = g->actions.data;
    size_t from = at, first;
    bool behind = false;
    for (; from > 0 && !meets_all(&act[from - 1]); from--)
        behind |= act[from - 1].stream == 2;
    for (first = from; act[first].stream; first++)
        ;
    if (act[at].stream != 2 || !behind || first > at)
        return false;
    act[at].stream = 3;
    memset(act[at].wait, 0, sizeof act[at].wait);
    act[at].wait[0] = (uint32_t)first + 1;
    for (size_t i = at + 1; i < g->actions.n && (i == at + 1 || !meets_all(&act[i - 1])); i++) {
        act[i].wait[2] = act[i].wait[2] == at + 1 ? 0 : act[i].wait[2];
        act[i].wait[3] = (uint32_t)at + 1;
    }
    return true;
}

/* Collectives side by side; of some of them only the order is broken, for nobody else touches what
 * they do. */
static void order_of_collectives(void **state)
{
    (void)state;
    int planted = 0, alone = 0;
    for (int k = 0; k < 4; k++) {
        Planned x;
        if (!sampled((uint64_t)k, SANITIZED ? 2 : 1) || !open_planned(&x, k % 2, k / 2, OVERLAP))
            continue;
        for (size_t i = 0; i < x.p->train->actions.n; i++) {
            Plan *bad = plan_copy(x.p, x.t.a);
            if (!sends(&bad->train->actions.data[i]) || !leaves_its_stream(bad->train, i))
                continue;
            char *text;
            plan_breaks(bad, &text);
            if (!strstr(text, "P7 is broken"))
                fail_msg("collective %zu may run before the one before it: %s", i, text);
            planted++;
            alone += strstr(text, "P6 is broken") == NULL;
            free(text);
        }
        close_planned(&x);
    }
    print_message("%d collectives out of order, %d by that alone\n", planted, alone);
    assert_true(planted > 20 && alone > (SANITIZED ? 0 : 5));
}

/* Collectives that wait stay in the stream that computes. */
static void collectives_wait(void **state)
{
    (void)state;
    Planned x;
    Device d = test_device;
    d.collectives_wait = true;
    assert_true(open_planned(&x, 0, 0, OVERLAP));
    const Plan *p = plan_for(&x.t, &d);
    must_hold(p);
    for (size_t i = 0; i < p->train->actions.n; i++)
        assert_true(p->train->actions.data[i].stream < 2);
    Volumes v = plan_volumes(p->module, p->train);
    assert_true(v.exposed > 0.5 * v.seconds);
    close_planned(&x);
}

/* ---- times ---------------------------------------------------------------------------------- */

/* Seconds of [from, to) in which one of these actions runs. */
static double covered(const Action *act, size_t n, bool links, double from, double to)
{
    double t = 0;
    for (double at = from; at < to;) {
        double next = to;
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            if (sends(&act[i]) != links)
                continue;
            any |= act[i].begin <= at && act[i].end > at;
            next = act[i].begin > at && act[i].begin < next ? act[i].begin : next;
            next = act[i].end > at && act[i].end < next ? act[i].end : next;
        }
        t += any ? next - at : 0;
        at = next;
    }
    return t;
}

/* Everything computes at its pace, slower beside collectives; what covers a collective hides it. */
static void check_stretch(const Action *act, size_t n, double *exposed)
{
    const double slow = test_device.link_slowdown, tiny = 1e-12;
    for (size_t i = 0; i < n; i++) {
        const Action *a = &act[i];
        double lasts = a->end - a->begin;
        double beside = sends(a) ? 0 : covered(act, n, true, a->begin, a->end);
        assert_true(fabs(lasts - beside + beside / slow - a->seconds) < tiny);
        if (!sends(a)) {
            assert_true(a->exposed == 0);
            continue;
        }
        double alone = lasts - covered(act, n, false, a->begin, a->end);
        assert_true(fabs(a->exposed - alone) < tiny);
        *exposed += a->exposed;
        for (size_t k = 0; k < i; k++)
            assert_true(!sends(&act[k]) || act[k].end <= a->begin + tiny);
    }
}

static void times(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * LAYOUTS; k++) {
        Planned x;
        if (!open_planned(&x, k % 2, k / 2, OVERLAP))
            continue;
        const Program *g = x.p->train;
        const Action *act = g->actions.data;
        double exposed = 0, all = 0, times = 1;
        for (size_t from = 0, i = 0; i <= g->actions.n; i++)
            if (i == g->actions.n || meets_all(&act[i])) {
                double here = 0;
                check_stretch(act + from, i - from, &here);
                exposed += times * here;
                for (size_t n = from; n < i; n++)
                    all += sends(&act[n]) ? times * act[n].seconds : 0;
                from = i + 1;
                if (i < g->actions.n && act[i].kind != ACT_guard) {
                    double iterations = (double)g->loops.data[act[i].loop].dim.size;
                    times = act[i].kind == ACT_loop ? times * iterations : times / iterations;
                }
            }
        Volumes v = plan_volumes(x.p->module, g);
        assert_true(fabs(v.exposed - exposed) < 1e-9 && fabs(v.seconds - all) < 1e-9);
        assert_true(v.exposed < v.seconds && v.exposed <= g->seconds);
        close_planned(&x);
    }
}

/* ---- points --------------------------------------------------------------------------------- */

enum { STRETCHES = 32, PAIRS = 40 };

static Operand bytes_at(int64_t offset, bool write)
{
    return (Operand){.at = {.offset = offset},
                     .type = {.dtype = DT_f32, .rank = 1, .dims = {{1, 16}}},
                     .stride = {1},
                     .read = !write,
                     .write = write};
}

static Action acts(Arena *a, ActionKind kind, int64_t from, int64_t to)
{
    Action act = {.kind = kind, .around = -1, .seconds = 1, .noperands = 2};
    act.comm = (mg_comm_desc){.kind = MG_ALL_REDUCE};
    act.operand = NEW_ARRAY(a, Operand, 2);
    act.operand[0] = bytes_at(from, false);
    act.operand[1] = bytes_at(to, true);
    return act;
}

/* Each kernel's result is sent, while the next kernels run: more waits than a program may record
 * points for. As many as may be do so, and the rest stays in one stream, in order. */
static void points(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Program g = {0};
    Module m = {0};
    Plan p = {.module = &m, .device = &test_device, .train = &g};
    vec_push(a, &p.buffers, (Buffer){.bytes = 64});
    for (int s = 0; s < STRETCHES; s++) {
        for (int k = 0; k < PAIRS; k++) {
            int64_t at = 128 * k;
            vec_push(a, &g.actions, acts(a, ACT_kernel, 128 * PAIRS, at));
            vec_push(a, &g.actions, acts(a, ACT_comm, at, at + 64));
        }
        vec_push(a, &g.actions, (Action){.kind = ACT_guard, .around = -1});
    }
    plan_streams(&p);
    bool *point = NEW_ARRAY(a, bool, g.actions.n);
    int recorded = 0, beside = 0, behind = 0;
    for (size_t i = 0; i < g.actions.n; i++)
        for (int s = 0; s < MAX_STREAMS; s++) {
            uint32_t w = g.actions.data[i].wait[s];
            recorded += w && !point[w - 1];
            if (w)
                point[w - 1] = true;
        }
    for (size_t i = 0; i < g.actions.n; i++)
        if (sends(&g.actions.data[i]))
            *(g.actions.data[i].stream ? &beside : &behind) += 1;
    print_message("%d points; %d collectives beside the rest, %d not\n", recorded, beside, behind);
    assert_true(recorded <= MG_POINTS_MAX && recorded > MG_POINTS_MAX - 8);
    assert_true(beside > MG_POINTS_MAX - 32 && behind > 0);
    arena_free(a);
}

/* A collective that nothing runs beside, because it stands behind another one, keeps its stream: in
 * that of the rest what computes would stand behind it, and is done long before it begins. */
static void behind_another(void **state)
{
    (void)state;
    enum { NOTHING = 512, FIRST = 1, SECOND = 3, COMPUTES = 4 };
    Arena *a = arena_new();
    Program g = {0};
    Module m = {0};
    Plan p = {.module = &m, .device = &test_device, .train = &g};
    vec_push(a, &p.buffers, (Buffer){.bytes = 1024});
    vec_push(a, &g.actions, acts(a, ACT_kernel, NOTHING, 0));
    vec_push(a, &g.actions, acts(a, ACT_comm, 0, 64));
    vec_push(a, &g.actions, acts(a, ACT_kernel, NOTHING, 128));
    vec_push(a, &g.actions, acts(a, ACT_comm, 128, 192));
    vec_push(a, &g.actions, acts(a, ACT_kernel, NOTHING, 256));
    vec_push(a, &g.actions, acts(a, ACT_kernel, 192, 320));
    vec_push(a, &g.actions, (Action){.kind = ACT_guard, .around = -1});
    Action *act = g.actions.data;
    act[FIRST].seconds = 5;
    act[COMPUTES].seconds = 2;
    plan_streams(&p);
    const double end = timeline_stretch(&p, &g, 0, (int)g.actions.n - 1, 0);
    assert_true(act[FIRST].stream && act[SECOND].stream == act[FIRST].stream);
    assert_true(act[SECOND].begin >= act[FIRST].end - 1e-12);
    assert_true(fabs(act[SECOND].exposed - act[SECOND].seconds) < 1e-12);
    assert_true(act[COMPUTES].end < act[SECOND].begin);
    assert_true(fabs(end - 8) < 1e-12); /* 1, 5 and 1 of a path, and the kernel that needs both */
    arena_free(a);
}

/* Two collectives write the two parts of a layer's slice, one is read by each of two kernels, and
 * both by a third: each waits for what it reads, though the slices of all layers lie in one
 * another. */
static void parts_of_a_slice(void **state)
{
    (void)state;
    enum { NOTHING = 512, LAYERS = 3, SLICE = 128, HERE = 2, THERE, FIRST, SECOND, BOTH };
    for (int queued = 0; queued < 2; queued++) {
        Arena *a = arena_new();
        Program g = {0};
        Module m = {0};
        Device d = test_device;
        d.products_wait = queued;
        Plan p = {.module = &m, .device = &d, .train = &g};
        Action edge = {.kind = ACT_loop, .id = UINT32_MAX, .around = -1};
        vec_push(a, &p.buffers, (Buffer){.bytes = 1024});
        vec_push(a, &g.loops, (Loop){.dim = {1, LAYERS}, .parent = -1, .end = BOTH + 1});
        vec_push(a, &g.actions, edge);
        vec_push(a, &g.actions, acts(a, ACT_kernel, NOTHING, NOTHING + 64));
        vec_push(a, &g.actions, acts(a, ACT_comm, NOTHING, 0));
        vec_push(a, &g.actions, acts(a, ACT_comm, NOTHING, 64));
        vec_push(a, &g.actions, acts(a, ACT_kernel, 0, NOTHING + 128));
        vec_push(a, &g.actions, acts(a, ACT_kernel, 64, NOTHING + 192));
        vec_push(a, &g.actions, acts(a, ACT_kernel, 0, 64));
        edge.kind = ACT_end;
        vec_push(a, &g.actions, edge);
        vec_push(a, &g.actions, (Action){.kind = ACT_guard, .around = -1});
        Action *act = g.actions.data;
        for (int i = HERE; i <= BOTH; i++)
            for (int k = 0; k < act[i].noperands; k++)
                if (act[i].operand[k].at.offset < NOTHING) {
                    act[i].operand[k].at.nloops = 1;
                    act[i].operand[k].at.loop[0].stride = SLICE;
                }
        for (int i = HERE - 1; i <= BOTH; i++)
            act[i].around = 0;
        plan_streams(&p);
        const int sends = MG_STREAM_COLLECTIVES;
        assert_true(g.queued == (queued != 0));
        assert_true(act[HERE].stream == sends && act[THERE].stream == sends);
        assert_int_equal(act[FIRST].wait[sends], HERE + 1);
        assert_int_equal(act[SECOND].wait[sends], THERE + 1);
        arena_free(a);
    }
}

/* On one stream all of it is waited for. */
static void one_stream(void **state)
{
    (void)state;
    Planned x;
    Device one = test_device;
    one.streams = 1;
    assert_true(open_planned(&x, 0, 0, OVERLAP));
    const Plan *p = plan_for(&x.t, &one);
    Volumes v = plan_volumes(p->module, p->train);
    for (size_t i = 0; i < p->train->actions.n; i++)
        assert_true(p->train->actions.data[i].stream == 0);
    assert_true(fabs(v.exposed - v.seconds) < 1e-12 * v.seconds && v.seconds > 0);
    assert_true(p->train->seconds > x.p->train->seconds);
    close_planned(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),        cmocka_unit_test(each_wait),
        cmocka_unit_test(shifts_ahead),   cmocka_unit_test(order_of_collectives),
        cmocka_unit_test(times),          cmocka_unit_test(points),
        cmocka_unit_test(one_stream),     cmocka_unit_test(collectives_wait),
        cmocka_unit_test(behind_another), cmocka_unit_test(parts_of_a_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
