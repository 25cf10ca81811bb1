/* Plans of pipelines in pairs: an F beside the B of another microbatch, layer by layer, in as many
 * orders as streams allow, computes what one rank does; what is changed of it is refused, or
 * computes the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/check/check.h"
#include "plan/order/pipe_time.h"
#include "tests/plan/sharded.h"

static const Small mixtral = {"mixtral_mini.mg",
                              0,
                              {"layers=5", "hidden=8", "kv_heads=4", "head=2", "ffn=8", "vocab=16",
                               "seq=8", "experts=4", "batch=8"}};
static const Small dropless = {"mixtral_8x7b_dropless.mg",
                               0,
                               {"layers=5", "hidden=8", "kv_heads=2", "group=2", "head=2", "ffn=8",
                                "vocab=16", "seq=8", "experts=4", "batch=8"}};
static const Small llama = {"llama7b.mg",
                            0,
                            {"layers=7", "hidden=16", "kv_heads=4", "group=1", "head=4", "ffn=8",
                             "vocab=16", "seq=8", "batch=8"}};

static const struct {
    const Small *model;
    const char *schedule, *spec;
} cases[] = {
    {&mixtral, "1f1b", "pp=2 ep=2; layers pp; experts ep; batch ep"},
    {&mixtral, "interleaved", "pp=2 ep=2; layers pp:2; experts ep; batch ep"},
    {&mixtral, "interleaved", "pp=2 ep=2; layers pp:2=3,1,1,0; experts ep; batch ep"},
    {&dropless, "1f1b", "pp=2 ep=2; layers pp; experts ep>; batch ep"},
    {&llama, "interleaved", "pp=2 tp=2; layers pp:2; kv_heads tp; ffn tp; vocab tp; seq tp"},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct Made {
    Reference r;
    Model t;
    Lies l[3];
    Plan *p;
} Made;

static PipeJoin *make(Made *x, int k, int pairs)
{
    open_reference(&x->r, cases[k].model, 2);
    assert_true(open_local(&x->t, &x->r, cases[k].spec, x->l));
    x->t.m->layout.pipeline.schedule = name_intern(x->t.m->names, cases[k].schedule);
    x->t.m->layout.pipeline.pairs = pairs;
    lower_physical(&x->t);
    x->p = plan_for(&x->t, &test_device);
    return x->p->train->pipe->join;
}

static void close(Made *x)
{
    model_close(&x->t);
    model_close(&x->r.t);
}

static bool proved(const Plan *p)
{
    FILE *quiet = fopen("/dev/null", "w");
    int n = plan_check(p, quiet);
    fclose(quiet);
    return n == 0;
}

static double off(Made *x, uint64_t *order)
{
    return run_many_planned(&x->r.t, x->r.args[0], x->r.want[0], &x->t, x->p, sharded_functions[0],
                            &x->l[0], order)
        .worst;
}

/* Each case is beside each other, proved, and one rank's in all orders. */
static void beside(void **state)
{
    (void)state;
    uint64_t order = sample_turn() + 1;
    for (int k = 0; k < CASES; k++) {
        Made x;
        if (!make(&x, k, PAIRS_all))
            fail_msg("%s, layout %s: nothing is beside the other", cases[k].schedule,
                     cases[k].spec);
        if (plan_check(x.p, stderr))
            fail_msg("%s, layout %s: not proved", cases[k].schedule, cases[k].spec);
        for (int n = 0; n < 3; n++)
            if (!(off(&x, &order) <= SHARD_BOUND))
                fail_msg("%s, layout %s: a step is off", cases[k].schedule, cases[k].spec);
        close(&x);
    }
}

/* A pair takes what both take less what the layers of both hide, and without pairs there is none.
 */
static void hides(void **state)
{
    (void)state;
    for (int k = 0; k < CASES; k++) {
        Made x;
        assert_null(make(&x, k, PAIRS_none));
        close(&x);
        const PipeJoin *join = make(&x, k, PAIRS_all);
        const Program *g = x.p->train;
        const double both =
            g->loops.data[join->loop[0]].seconds + g->loops.data[join->loop[1]].seconds;
        assert_true(join->hides > 0 && join->hides < both);
        close(&x);
    }
}

/* Seconds of a step in which ranks wait for collectives of layers. */
static double waits_of(const Made *x)
{
    const Program *g = x->p->train;
    double all = 0;
    for (size_t i = 0; i < g->actions.n; i++)
        all += g->actions.data[i].around >= 0
                   ? g->actions.data[i].exposed * g->actions.data[i].times
                   : 0;
    return all;
}

/* Waits are those of the order that runs: less than one after the other, and in each
 * layer of all pairs no more than its own order has, if the share of F in pairs is taken of it. */
static void waits(void **state)
{
    (void)state;
    int less = 0;
    for (int k = 0; k < CASES; k++) {
        Made x, apart;
        make(&apart, k, PAIRS_none);
        const PipeJoin *join = make(&x, k, PAIRS_all);
        const Pipe *pipe = x.p->train->pipe;
        double f = 0, paired = 0;
        for (int rank = 0; rank < pipe->ranks; rank++)
            for (const mg_pipe_op *o = pipe->ops[rank]; o->step; o++) {
                f += o->step == MG_PIPE_F;
                paired += o->step == MG_PIPE_F && o->with;
            }
        assert_true(paired > 0 && paired < f);
        for (size_t i = 0; i < join->body->actions.n; i++) {
            const Action *b = &join->body->actions.data[i];
            const Action *a = join->from[i] < 0 ? b : &x.p->train->actions.data[join->from[i]];
            assert_true(a->exposed >= paired / f * b->exposed - 1e-12);
            assert_true(a->exposed <= (1 - paired / f) * a->seconds + b->exposed + 1e-12);
        }
        less += waits_of(&x) < waits_of(&apart);
        close(&x);
        close(&apart);
    }
    assert_true(less >= CASES - 1);
}

/* Changes one thing of what is beside each other; false: there is nothing of the kind there. */
static bool damage(Made *x, PipeJoin *j, int kind, uint64_t *rng)
{
    Action *act = j->body->actions.data;
    const int n = (int)j->body->actions.n, i = 1 + draw_int(rng, n - 2);
    Action a;
    int from;
    switch (kind) {
    case 0: /* a wait is left out */
        for (int k = 0; k < n; k++)
            for (int s = 0; s < MAX_STREAMS; s++)
                if (act[(i + k) % n].wait[s]) {
                    act[(i + k) % n].wait[s] = 0;
                    return true;
                }
        return false;
    case 1: /* two change places */
        if (i + 2 >= n || act[i].stream != act[i + 1].stream)
            return false;
        a = act[i], act[i] = act[i + 1], act[i + 1] = a;
        from = j->from[i], j->from[i] = j->from[i + 1], j->from[i + 1] = from;
        return true;
    case 2: /* one is there twice, and another not */
        if (i + 2 >= n)
            return false;
        act[i + 1] = act[i];
        j->from[i + 1] = j->from[i];
        return true;
    case 3: /* of the other microbatch */
        act[i].joined = 3 - act[i].joined;
        return true;
    case 4: /* in another stream */
        act[i].stream = !act[i].stream;
        return true;
    case 5: { /* what a phase writes lies where the other has something */
        const Loop *l[2] = {&x->p->train->loops.data[j->loop[0]],
                            &x->p->train->loops.data[j->loop[1]]};
        const Action *f = &x->p->train->actions
                               .data[l[0]->begin + 1 + draw_int(rng, l[0]->end - l[0]->begin - 1)];
        const Action *b = &x->p->train->actions
                               .data[l[1]->begin + 1 + draw_int(rng, l[1]->end - l[1]->begin - 1)];
        Buffer *mine = NULL, *other = NULL;
        for (int k = 0; k < f->noperands; k++)
            if (f->operand[k].write)
                mine = &x->p->buffers.data[f->operand[k].at.buffer];
        for (int k = 0; k < b->noperands; k++)
            if (b->operand[k].write)
                other = &x->p->buffers.data[b->operand[k].at.buffer];
        if (!mine || !other || mine->persistent || other->persistent || mine->slot || other->slot)
            return false;
        mine->offset = other->offset;
        return true;
    }
    default: /* more than there is */
        for (mg_pipe_op *o = x->p->train->pipe->ops[0]; o->step; o++)
            if (o->step == MG_PIPE_F && !o->with && o[1].step != MG_PIPE_B) {
                o->with = 1;
                return true;
            }
        return false;
    }
}

/* A plan that is accepted computes the same. */
static void faults(void **state)
{
    (void)state;
    enum { KINDS = 7, FAULTS = 84 };
    uint64_t rng = 50 + sample_turn();
    int planted[KINDS] = {0}, seen[KINDS] = {0};
    for (int n = 0; n < FAULTS; n++) {
        const int kind = n % KINDS;
        Made x;
        PipeJoin *j = make(&x, draw_int(&rng, CASES), PAIRS_all);
        if (damage(&x, j, kind, &rng)) {
            const bool good = proved(x.p);
            planted[kind]++;
            seen[kind] += !good;
            for (int k = 0; k < 2 && good; k++)
                if (!(off(&x, &rng) <= SHARD_BOUND))
                    fail_msg("fault %d is proved, and a step is off", kind);
        }
        close(&x);
    }
    for (int k = 0; k < KINDS; k++) {
        print_message("fault %d: %d of %d are seen\n", k, seen[k], planted[k]);
        const bool all = k == 0 || k == 2 || k == 3 || k == 5 || k == 6;
        assert_true(planted[k] > 0 && (all ? seen[k] == planted[k] : seen[k] > 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside),
        cmocka_unit_test(hides),
        cmocka_unit_test(waits),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
