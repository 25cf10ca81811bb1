/* Plans of pipelines: all ranks in one process, by their tables, with messages that are taken as
 * late as they may be, compute what one rank does; and what would have ranks meet at different
 * things, or never, is not proved, by those that stand for all and by all alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/check/check_run.h"
#include "plan/order/pipe_time.h"
#include "passes/passes.h"
#include "tests/plan/sharded.h"
#include "plan/check/check.h"

static const Small llama = {"llama7b.mg",
                            0,
                            {"layers=7", "hidden=16", "kv_heads=4", "group=1", "head=4", "ffn=8",
                             "vocab=16", "seq=8", "batch=8"}};
static const Small gpt2 = {"gpt2_124m.mg",
                           0,
                           {"layers=5", "hidden=16", "heads=4", "head=4", "ffn=8", "vocab=16",
                            "seq=8", "batch=8", AS_READY}};
static const Small mixtral = {"mixtral_mini.mg",
                              0,
                              {"layers=5", "hidden=8", "kv_heads=4", "head=2", "ffn=8", "vocab=16",
                               "seq=8", "experts=4", "batch=8"}};

static const Small dropless = {"mixtral_8x7b_dropless.mg",
                               0,
                               {"layers=5", "hidden=8", "kv_heads=2", "group=2", "head=2", "ffn=8",
                                "vocab=16", "seq=8", "experts=4", "batch=8"}};

static const Small even = {"llama7b.mg",
                           0,
                           {"layers=8", "hidden=16", "kv_heads=4", "group=1", "head=4", "ffn=8",
                            "vocab=16", "seq=8", "batch=8"}};
/* Gradients that are stacked first, and then moved to their sum. */
static const Small moved = {
    MODELS_DIR "/../tests/programs/mended/stages_of_different_depth.mg", 0, {"layers=4"}};

/* Two losses and followers; values that all stages read, and both ends. */
static const Small together = {
    MODELS_DIR "/../tests/plan/together.mg", 0, {"layers=5", "vocab=16", "batch=8"}};
static const Small ends = {
    MODELS_DIR "/../tests/plan/ends.mg", 0, {"layers=5", "vocab=16", "batch=8"}};

/* The first two layers are of another kind, and a loop of their own on the first rank; the others
 * are named layers_3. */
static const Small dense = {MODELS_DIR "/../bench/published/deepseek.mg",
                            0,
                            {"layers=6", "dense=2", "hidden=8", "heads=2", "still=4", "turn=4",
                             "value=4", "latent=4", "narrow=4", "wide=8", "ffn=4", "experts=4",
                             "best=2", "vocab=16", "seq=8", "batch=8"}};

/* Behind the name of a schedule: an F is beside the B behind it. */
#define PAIRS ", pairs"

typedef struct Case {
    const Small *model;
    const char *schedule, *spec;
    int64_t at_once; /* sequences of all ranks */
} Case;

static const Case cases[] = {
    {&llama, "gpipe", "pp=2; layers pp", 1},
    {&llama, "1f1b", "pp=4; layers pp", 1},
    {&llama, "interleaved", "pp=2; layers pp:2", 1},
    {&llama, "interleaved", "pp=2; layers pp:3", 2},
    {&llama, "zb-h1", "pp=4; layers pp", 1},
    {&gpt2, "zb-h1", "pp=2; layers pp", 2},
    {&gpt2, "1f1b", "dp=2 pp=2; layers pp; batch dp; state dp", 2},
    {&llama, "zb-h1", "dp=2 pp=2; layers pp; batch dp; state dp; grads dp; params dp", 2},
    {&llama, "1f1b", "pp=2 tp=2; layers pp; kv_heads tp; ffn tp; vocab tp; seq tp", 2},
    {&llama, "zb-h1", "cp=2 pp=2; layers pp; seq cp~", 2},
    {&mixtral, "1f1b", "pp=2 ep=2; layers pp; experts ep; batch ep", 4},
    {&dropless, "zb-h1", "pp=2 ep=2; layers pp; experts ep>; batch ep", 4},
    {&together, "zb-h1", "pp=4; layers pp", 1},
    {&together, "interleaved", "dp=2 pp=2; layers pp:2; batch dp; state dp; grads dp", 2},
    {&ends, "zb-h1", "pp=2 dp=2; layers pp; batch dp; state dp; grads dp; params dp", 2},
    {&ends, "interleaved", "pp=2; layers pp:2", 1},
    {&dense, "interleaved", "pp=2; layers_3 pp:2", 2},
    {&dense, "1f1b", "pp=2 ep=2; layers_3 pp; experts ep; batch ep", 4},
    {&llama, "interleaved", "pp=2; layers pp:2=3,1,3,0", 1},
    {&llama, "interleaved", "pp=2; layers pp:2=0,4,3,0", 1},
    {&llama, "zb-h1", "pp=4; layers pp:1=0,4,3,0", 1},
    {&llama, "1f1b", "dp=2 pp=4; layers pp:1=3,0,4,0; batch dp; state dp", 2},
    {&gpt2, "gpipe", "pp=2; layers pp:1=5,0", 1},
    {&gpt2, "zb-h1", "pp=2 tp=2; layers pp; seq tp/2", 2}, /* a sum that is gathered, in blocks */
    {&ends, "interleaved", "pp=2; layers pp:2=0,0,5,0", 1},
    {&mixtral, "1f1b" PAIRS, "pp=2 ep=2; layers pp; experts ep; batch ep", 2},
    {&mixtral, "interleaved" PAIRS, "pp=2 ep=2; layers pp:2; experts ep; batch ep", 2},
    {&dense, "interleaved" PAIRS, "pp=2 ep=2; layers_3 pp:2; experts ep; batch ep", 2},
    {&dropless, "1f1b" PAIRS, "pp=2 ep=2; layers pp; experts ep>; batch ep", 2},
    {&llama, "interleaved" PAIRS,
     "pp=2 tp=2; layers pp:2=3,1,3,0; kv_heads tp; ffn tp; vocab tp; seq tp", 1},
    {&llama, "1f1b" PAIRS, "dp=2 pp=2; layers pp; batch dp; state dp; grads dp; params dp", 2},
    {&llama, "1f1b" PAIRS, "pp=4; layers pp", 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static Plan *planned(Model *t, const Case *c, const Device *d)
{
    const char *pairs = strstr(c->schedule, PAIRS);
    const size_t length = pairs ? (size_t)(pairs - c->schedule) : strlen(c->schedule);
    t->m->layout.pipeline.schedule =
        name_intern(t->m->names, arena_printf(t->a, "%.*s", (int)length, c->schedule));
    t->m->layout.pipeline.pairs = pairs ? PAIRS_all : PAIRS_none;
    lower_physical(t);
    return plan_for(t, d);
}

/* On a processor and on a GPU, whose streams may do things in other orders. */
static void runs(void **state)
{
    (void)state;
    Device host = test_device;
    host.streams = 1;
    uint64_t order = sample_turn() + 1;
    for (int k = 0; k < 2 * CASES; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 4 : 1))
            continue;
        const Case *c = &cases[k / 2];
        Reference r;
        Model t;
        Lies l[3];
        open_reference(&r, c->model, c->at_once);
        assert_true(open_local(&t, &r, c->spec, l));
        const Plan *p = planned(&t, c, k % 2 ? &test_device : &host);
        if (plan_check(p, stderr))
            fail_msg("%s, layout %s: the plan is not proved", c->schedule, c->spec);
        for (int f = 0; f < 3; f++) {
            Compared x = run_many_planned(&r.t, r.args[f], r.want[f], &t, p, sharded_functions[f],
                                          &l[f], &order);
            if (!(x.worst <= SHARD_BOUND))
                fail_msg("%s, layout %s: @%s: %s is off by %g", c->schedule, c->spec,
                         sharded_functions[f], x.where, x.worst);
        }
        model_close(&t);
        model_close(&r.t);
    }
}

/* Ranks are busy as long as the actions of the loop over microbatches take, as often as each is
 * done: what one stage does takes no time on others. */
static void times(void **state)
{
    (void)state;
    Device host = test_device;
    host.streams = 1;
    for (int k = 0; k < CASES; k++) {
        Reference r;
        Model t;
        Lies l[3];
        if (!sampled((uint64_t)k, SANITIZED ? 4 : 1))
            continue;
        open_reference(&r, cases[k].model, cases[k].at_once);
        assert_true(open_local(&t, &r, cases[k].spec, l));
        const Plan *p = planned(&t, &cases[k], &host);
        const Program *g = p->train;
        const Loop *micro = &g->loops.data[g->pipe->loop];
        Arena *tmp = arena_new();
        const PipeClock *clock = pipe_run(p, g, tmp);
        double busy = 0, take = 0;
        for (int rank = 0; rank < g->pipe->ranks; rank++)
            busy += clock->busy[rank];
        for (int i = micro->begin + 1; i < micro->end; i++) {
            const Action *a = &g->actions.data[i];
            take += action_is_mark(a) ? 0 : pipe_adds(a) * a->times * g->pipe->ranks;
        }
        if (!(fabs(busy - take) <= 1e-9 * take))
            fail_msg("%s, layout %s: ranks are busy for %g, and actions take %g", cases[k].schedule,
                     cases[k].spec, busy, take);
        arena_free(tmp);
        model_close(&t);
        model_close(&r.t);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static int verdict(const Plan *p, bool folded)
{
    FILE *quiet = fopen("/dev/null", "w");
    Check c = {.p = p, .m = p->module, .prog = p->train, .out = quiet, .at = -1};
    c.tmp = arena_new();
    check_ranks(&c, folded);
    arena_free(c.tmp);
    fclose(quiet);
    return c.broken;
}

static bool proved(const Plan *p)
{
    FILE *quiet = fopen("/dev/null", "w");
    int n = plan_check(p, quiet);
    fclose(quiet);
    return n == 0;
}

static bool passes_on(const mg_pipe_op *o)
{
    return o->step > MG_PIPE_W && o->step <= MG_PIPE_WAIT;
}

/* An operation of a rank's table that is no computation. */
static mg_pipe_op *draw_message(const Pipe *pipe, uint64_t *rng)
{
    mg_pipe_op *row = pipe->ops[draw_int(rng, pipe->ranks)], *found = NULL;
    int seen = 0;
    for (mg_pipe_op *o = row; o->step; o++)
        if (passes_on(o) && draw_int(rng, ++seen) == 0)
            found = o;
    return found;
}

/* A table with one thing wrong; false: nothing was changed. */
static bool damage(Plan *p, int kind, uint64_t *rng)
{
    const Pipe *pipe = p->train->pipe;
    mg_pipe_op *o = draw_message(pipe, rng), *end = o;
    while (end->step)
        end++;
    switch (kind) {
    case 0: /* left out */
        memmove(o, o + 1, (size_t)(end - o) * sizeof *o);
        return true;
    case 1: { /* two change places */
        mg_pipe_op x = *o;
        if (o[1].step <= MG_PIPE_W || o[1].step == o->step)
            return false;
        *o = o[1];
        o[1] = x;
        return true;
    }
    case 2: /* of another microbatch */
        o->microbatch += o->microbatch ? -1 : 1;
        return true;
    case 3: /* the other way */
        if (o->step == MG_PIPE_WAIT)
            return false;
        o->step = o->step == MG_PIPE_SEND_F   ? MG_PIPE_SEND_B
                  : o->step == MG_PIPE_SEND_B ? MG_PIPE_SEND_F
                  : o->step == MG_PIPE_RECV_F ? MG_PIPE_RECV_B
                                              : MG_PIPE_RECV_F;
        return true;
    default: /* in another buffer */
        o->in ^= 1;
        o->out ^= 1;
        return true;
    }
}

/* A collective along the axis of stages is not made by all. */
static bool leave_out(Plan *p, uint64_t *rng)
{
    Action *found = NULL;
    int seen = 0;
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *a = &p->train->actions.data[i];
        if (a->kind == ACT_comm && (a->comm.axes & p->module->layout.pipeline.axis) &&
            draw_int(rng, ++seen) == 0)
            found = a;
    }
    if (found)
        found->on = AT_FIRST;
    return found;
}

static void faults(void **state)
{
    (void)state;
    uint64_t rng = 100 + sample_turn();
    int seen = 0, standing = 0, faults = SANITIZED && !sample_full() ? 36 : 120;
    for (int n = 0; n < faults; n++) {
        const Case *c = &cases[draw_int(&rng, CASES)];
        Reference r;
        Model t;
        Lies l[3];
        open_reference(&r, c->model, c->at_once);
        assert_true(open_local(&t, &r, c->spec, l));
        Plan *p = planned(&t, c, &test_device);
        assert_true(proved(p));
        int kind = n % 6;
        if (kind < 5 ? damage(p, kind, &rng) : leave_out(p, &rng)) {
            bool some = verdict(p, true) != 0, all = verdict(p, false) != 0;
            if (some != all)
                fail_msg("%s, layout %s, fault %d: %s", c->schedule, c->spec, kind,
                         some ? "seen folded alone" : "seen unfolded alone");
            /* Two that change places may be as good; a microbatch's number is the message's name.
             */
            if (kind != 1 && kind != 2 && proved(p))
                fail_msg("%s, layout %s: fault %d is proved", c->schedule, c->spec, kind);
            seen++;
            standing += some;
        }
        model_close(&t);
        model_close(&r.t);
    }
    print_message("%d faults, by %d of them ranks would stand still or disagree\n", seen, standing);
    assert_true(seen > faults / 2 && standing > faults / 10);
}

/* ---- what the proof says --------------------------------------------------------------------- */

/* The proof's messages; to be freed. */
static char *said_of(const Plan *p)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    plan_check(p, f);
    fclose(f);
    return text;
}

/* ---- a stage with fewer layers --------------------------------------------------------------- */

/* The plan was made for stages of one depth. Where the last has a layer less, the head would read
 * what no layer computed; and all of a stack would be moved over sums of gradients, with a slice
 * that is whatever lay there. */
static void fewer_layers(void **state)
{
    (void)state;
    static const struct {
        Case of;
        const char *said;
    } all[] = {
        {{&moved, "zb-h1", "pp=2; layers pp", 1}, "reads element 1 of 'repeat' (from 'copy')"},
        {{&even, "zb-h1", "pp=4; layers pp", 1}, "P3 is broken in train on the last rank"},
        {{&even, "1f1b", "pp=2; layers pp", 2}, "P3 is broken in train on the last rank"}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        Reference r;
        Model t;
        Lies l[3];
        open_reference(&r, all[k].of.model, all[k].of.at_once);
        assert_true(open_local(&t, &r, all[k].of.spec, l));
        Plan *p = planned(&t, &all[k].of, &test_device);
        assert_true(proved(p));
        Pipeline *stages = &t.m->layout.pipeline;
        stages->layers.data[stages->layers.n - 1]--;
        char *said = said_of(p);
        if (!strstr(said, all[k].said))
            fail_msg("%s, layout %s: not '%s', but '%s'", all[k].of.schedule, all[k].of.spec,
                     all[k].said, said);
        free(said);
        model_close(&t);
        model_close(&r.t);
    }
}

/* ---- several stages on a rank ---------------------------------------------------------------- */

/* The n-th broadcast along the axis of stages of a function's own region. */
static Ins *nth_broadcast(const Module *m, const Fn *fn, int n)
{
    for (size_t k = 0; k < fn->body->ins.n; k++) {
        Ins *i = fn->body->ins.data[k];
        if (i->op == OP_broadcast && i->attrs.axes == m->layout.pipeline.axis && n-- == 0)
            return i;
    }
    return NULL;
}

/* Takes a broadcast out of the program. */
static void take_out(Model *t, Fn *fn, const Ins *i)
{
    Value *map = NEW_ARRAY(t->a, Value, t->m->values.n);
    Region *r = fn->body;
    map[i->out[0]] = i->in[0];
    ir_replace(r, map);
    size_t kept = 0;
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k] != i)
            r->ins.data[kept++] = r->ins.data[k];
    r->ins.n = kept;
}

/* Plans the program without the n-th broadcast of @eval. False: there is none; then as it is. */
static bool without_broadcast(const Small *s, int n, int *refused)
{
    Model t;
    open_elaborated(&t, s);
    must_make(&t, NULL, NULL, "local");
    Fn *eval = module_fn(t.m, "eval");
    const Ins *i = nth_broadcast(t.m, eval, n);
    FILE *nowhere = fopen("/dev/null", "w");
    if (i)
        take_out(&t, eval, i);
    if (!i) {
        lower_physical(&t);
        assert_true(proved(plan_for(&t, &test_device)));
    } else if (!ir_verify(t.m, nowhere)) { /* all stages know it */
        lower_physical(&t);
        char *said = said_of(plan_for(&t, &test_device));
        if (!strstr(said, "P3 is broken in eval") ||
            !strstr(said, "in a further stage of the rank"))
            fail_msg("each stage adds to a total, and the proof says '%s'", said);
        ++*refused;
        free(said);
    }
    fclose(nowhere);
    model_close(&t);
    return i;
}

/* All stages know the weights of targets. The last one adds them to the evaluation's total and
 * sends that to the others. Without the broadcast the total is every stage's to add to, and a rank
 * with two stages adds a microbatch twice. In all else such a plan is sound. */
static void total_of_each_stage(void **state)
{
    (void)state;
    static const Small weighed = {
        MODELS_DIR "/../tests/programs/mended/total_of_each_stage.mg", 1, {"layers=4"}};
    int refused = 0;
    for (int n = 0; without_broadcast(&weighed, n, &refused); n++)
        ;
    assert_int_equal(refused, 1);
}

/* The number of stages is the layout's, whatever the plan says. */
static void other_stages(void **state)
{
    (void)state;
    static const Case c = {&llama, "interleaved", "pp=2; layers pp:2", 1};
    Reference r;
    Model t;
    Lies l[3];
    open_reference(&r, c.model, c.at_once);
    assert_true(open_local(&t, &r, c.spec, l));
    Plan *p = planned(&t, &c, &test_device);
    assert_true(proved(p));
    p->eval->pipe->stages = p->eval->pipe->ranks;
    char *said = said_of(p);
    assert_non_null(strstr(said, "2 stages on 2 ranks are not those of the layout"));
    free(said);
    model_close(&t);
    model_close(&r.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs),
                                       cmocka_unit_test(times),
                                       cmocka_unit_test(faults),
                                       cmocka_unit_test(fewer_layers),
                                       cmocka_unit_test(total_of_each_stage),
                                       cmocka_unit_test(other_stages)};
    return cmocka_run_group_tests_name("pipes", tests, NULL, NULL);
}
