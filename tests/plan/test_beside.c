/* Collectives of a step beside a pipeline's table: plans of ranks in one process,
 * whose collectives beside the table are done as soon or as late as it lets them, compute what one
 * rank does, and have the bits of plans in which nothing is beside; with one thing wrong they are
 * not proved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/mesh.h"
#include "passes/passes.h"
#include "pipeline/pipeline.h"
#include "plan/check/check.h"
#include "tests/plan/mutate.h"
#include "tests/plan/sharded.h"

#define SIZES(batch)                                                                               \
    "layers=4", "hidden=32", "kv_heads=4", "group=1", "head=8", "ffn=32", "vocab=16", "seq=8",     \
        "batch=" #batch
static const Small even = {"llama7b.mg", 0, {SIZES(16)}};
static const Small uneven = {"llama7b.mg",
                             0,
                             {"layers=7", "hidden=32", "kv_heads=4", "group=1", "head=8", "ffn=32",
                              "vocab=16", "seq=8", "batch=16"}};
static const Small gpt2 = {
    "gpt2_124m.mg",
    0,
    {"layers=5", "hidden=32", "heads=4", "head=8", "ffn=32", "vocab=16", "seq=8", "batch=16"}};

typedef struct Case {
    const Small *model;
    const char *schedule, *spec;
    int64_t at_once;       /* sequences of all ranks */
    bool gathers, reduces; /* something is beside the table */
} Case;

static const Case cases[] = {
    {&even, "interleaved", "pp=2 dp=2; layers pp:2; batch dp; state dp; once", 4, true, true},
    {&uneven, "interleaved", "pp=2 dp=2; layers pp:3; batch dp; state dp; once", 4, true, true},
    {&gpt2, "interleaved", "pp=2 dp=4; layers pp:2; batch dp", 4, false, true},
    {&uneven, "1f1b", "dp=2 pp=4; layers pp; batch dp; state dp; once", 4, true, true},
    {&even, "zb-h1", "pp=2 dp=2; layers pp; batch dp; state dp; once", 2, true, true},
    {&even, "gpipe", "pp=2 dp=2; layers pp; batch dp; state dp; once", 4, true, true},
    {&even, "interleaved",
     "pp=2 dp=2 tp=2; layers pp:2; batch dp; kv_heads tp; ffn tp; vocab tp; seq tp; state dp; once",
     4, true, true},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct Planned {
    Reference r;
    Model t;
    Lies l[SHARDED];
    Plan *p;
} Planned;

/* beside: else the plan is made for one stream, where nothing is. */
static void open_planned(Planned *x, const Case *c, bool beside)
{
    static Device d;
    d = test_device;
    d.collectives_wait = !beside;
    open_reference_in(&x->r, c->model, c->at_once, DT_bf16);
    assert_true(open_local(&x->t, &x->r, c->spec, x->l));
    x->t.m->layout.pipeline.schedule = name_intern(x->t.m->names, c->schedule);
    x->t.m->layout.overlap = true;
    x->t.m->layout.bucket = 1;
    lower_physical(&x->t);
    x->p = plan_for(&x->t, &d);
}

static void close_planned(Planned *x)
{
    model_close(&x->t);
    model_close(&x->r.t);
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Have all ranks the same bits of every result? What a rank does not have is NaN. */
static void same_bits(Planned *x, Planned *other, uint64_t *order)
{
    const Fn *fn = module_fn(x->t.m, "train");
    const Tensor64 *got = run_ranks_planned(x->r.args[0], &x->t, x->p, "train", &x->l[0], order);
    const Tensor64 *want =
        run_ranks_planned(x->r.args[0], &other->t, other->p, "train", &other->l[0], NULL);
    for (size_t k = 0; k < fn->results.n * (size_t)mesh_ranks(x->t.m); k++)
        for (int64_t e = 0; e < type_elements(&got[k].type); e++)
            if (memcmp(&got[k].data[e], &want[k].data[e], sizeof got[k].data[e]))
                fail_msg("%s: result %zu has other bits", x->r.small->file, k);
}

/* Programs that are cut by chunk are those of one rank still. */
static void numbers(void **state)
{
    (void)state;
    for (int k = 0; k < CASES; k++) {
        const Case *c = &cases[k];
        Reference r;
        Model t;
        Lies l[SHARDED];
        if (!sampled((uint64_t)k, SANITIZED ? 4 : 1))
            continue;
        open_reference_in(&r, c->model, c->at_once, DT_bf16);
        assert_true(open_local(&t, &r, c->spec, l));
        t.m->layout.pipeline.schedule = name_intern(t.m->names, c->schedule);
        t.m->layout.bucket = 1;
        must_pass(&t, pass_gather_once);
        must_pass(&t, pass_prefetch_gathers);
        for (int f = 0; f < SHARDED; f++) {
            if (!r.want[f])
                continue;
            Compared got = run_many(&r.t, r.args[f], r.want[f], &t, sharded_functions[f], &l[f]);
            if (!(got.worst <= SHARD_BOUND))
                fail_msg("%s, %s: @%s: %s is off by %g", c->schedule, c->spec, sharded_functions[f],
                         got.where, got.worst);
        }
        model_close(&t);
        model_close(&r.t);
    }
}

static void plans(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    for (int k = 0; k < CASES; k++) {
        if (!sampled((uint64_t)k, SANITIZED ? 7 : 3))
            continue;
        const Case *c = &cases[k];
        Planned x, alone;
        open_planned(&x, c, true);
        open_planned(&alone, c, false);
        must_hold(x.p);
        const Pipe *pipe = x.p->train->pipe;
        if ((pipe->ahead > 0) != c->gathers || (pipe->behind > 0) != c->reduces)
            fail_msg("%s, %s: %d gathers and %d reductions are beside the table", c->schedule,
                     c->spec, pipe->ahead, pipe->behind);
        assert_int_equal(alone.p->train->pipe->ahead + alone.p->train->pipe->behind, 0);
        for (int order = 0; order < 3; order++)
            same_bits(&x, &alone, order ? &rng : NULL);
        close_planned(&alone);
        close_planned(&x);
    }
}

/* ---- faults --------------------------------------------------------------------------------- */

static bool proved(const Plan *p)
{
    FILE *quiet = fopen("/dev/null", "w");
    const int n = plan_check(p, quiet);
    fclose(quiet);
    return n == 0;
}

static void must_break(const Plan *p, const char *what, int at)
{
    if (proved(p))
        fail_msg("%s of %d is not found", what, at);
}

/* A row without an operation, or with it before the one that stands before it, behind the one
 * behind it, or for another stage. */
static void each_op(Planned *x, int *planted)
{
    const Pipe *p = x->p->train->pipe;
    for (int rank = 0; rank < p->ranks; rank++) {
        mg_pipe_op *row = p->ops[rank], *end = row;
        while (end->step)
            end++;
        const size_t bytes = (size_t)(end + 1 - row) * sizeof *row;
        mg_pipe_op *was = arena_array(x->t.a, (size_t)(end + 1 - row), sizeof *row);
        memcpy(was, row, bytes);
        for (mg_pipe_op *o = row; o < end; o++) {
            const bool waits = o->step == MG_PIPE_UNSHARDED, reduces = o->step == MG_PIPE_REDUCE;
            if (!waits && !reduces)
                continue;
            const int at = (int)(o - row);
            memmove(o, o + 1, (size_t)(end - o) * sizeof *o);
            must_break(x->p, "an operation that is gone", at);
            memcpy(row, was, bytes);
            /* to behind the first action of its stage, or to before the last */
            mg_pipe_op *with = o;
            while (waits ? with < end && (with->step > MG_PIPE_W || with->stage != o->stage)
                         : with > row && (with->step > MG_PIPE_W || with->stage != o->stage))
                with += waits ? 1 : -1;
            const mg_pipe_op op = *o;
            if (waits)
                memmove(o, o + 1, (size_t)(with - o) * sizeof *o);
            else
                memmove(with + 1, with, (size_t)(o - with) * sizeof *o);
            *with = op;
            must_break(x->p, waits ? "a wait behind its reader" : "a reduction that is early", at);
            memcpy(row, was, bytes);
            if (p->stages > p->ranks) {
                o->stage = (uint16_t)((o->stage + p->ranks) % p->stages);
                must_break(x->p, "an operation of another stage", at);
            }
            memcpy(row, was, bytes);
            *planted += 2 + (p->stages > p->ranks);
        }
    }
}

/* A collective of another chunk, out of its place, of other layers, in another stream, or along the
 * axis of stages. */
static void each_collective(Planned *x, int *planted)
{
    const Program *g = x->p->train;
    const Pipe *pipe = g->pipe;
    const int chunks = pipe->stages / pipe->ranks, end = g->loops.data[pipe->loop].end + 1;
    for (int i = 0; i < end + pipe->behind; i++) {
        Action *a = &g->actions.data[i];
        const Action was = *a;
        if (!a->chunk)
            continue;
        if (chunks > 1) {
            a->chunk = a->chunk % chunks + 1;
            must_break(x->p, "the chunk", i);
            *a = was;
        }
        a->chunk = 0;
        must_break(x->p, "a collective beside the table that is of no chunk", i);
        *a = was;
        a->stream = a->stream ? 0 : MG_STREAM_COLLECTIVES;
        must_break(x->p, "the stream", i);
        *a = was;
        a->comm.axes = pipe->axis;
        must_break(x->p, "the axes", i);
        *a = was;
        *planted += 3 + (chunks > 1);
    }
    /* what is beside the table no more, or is too much */
    for (int k = 0; k < 4; k++) {
        int *n = k < 2 ? &g->pipe->ahead : &g->pipe->behind, had = *n;
        *n += k % 2 ? 1 : -1;
        must_break(x->p, "the number beside the table", k);
        *n = had;
        ++*planted;
    }
}

/* Something of another chunk, or of what stands before the loop, has bytes in common with it. */
static void each_buffer(Planned *x, int *planted)
{
    const Program *g = x->p->train;
    const Loop *micro = &g->loops.data[g->pipe->loop];
    for (int i = 0; i < (int)g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (!a->chunk)
            continue;
        Buffer *b = &x->p->buffers.data[a->operand[1].at.buffer];
        const int64_t was = b->offset;
        for (int k = micro->begin + 1; k < micro->end; k++) {
            const Action *other = &g->actions.data[k];
            if (!other->noperands || other->on != AT_ALL || k % 5)
                continue;
            const Buffer *of = &x->p->buffers.data[other->operand[other->noperands - 1].at.buffer];
            if (of == b)
                continue;
            b->offset = of->offset;
            must_break(x->p, "shared bytes", i);
            b->offset = was;
            ++*planted;
        }
    }
}

static void faults(void **state)
{
    (void)state;
    int ops = 0, collectives = 0, buffers = 0;
    for (int k = 0; k < CASES; k++) {
        Planned x;
        if (!sampled((uint64_t)k, SANITIZED ? 7 : 3))
            continue;
        open_planned(&x, &cases[k], true);
        must_hold(x.p);
        each_op(&x, &ops);
        each_collective(&x, &collectives);
        each_buffer(&x, &buffers);
        must_hold(x.p);
        close_planned(&x);
    }
    print_message("%d faults of the table, %d of collectives, %d of buffers: all are found\n", ops,
                  collectives, buffers);
    assert_true(ops > 0 && collectives > 0 && buffers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(plans),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests_name("beside", tests, NULL, NULL);
}
