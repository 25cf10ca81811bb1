/* follow_layout.c - whether a layout that was drawn is followed, and what of it the program does;
 * see random_layout.h. */
#include "tests/plan/random_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide/make.h"
#include "decide/once.h"
#include "decide/overlap.h"
#include "ir/mesh.h"
#include "passes/passes.h"
#include "passes/walk.h"
#include "plan/check/check.h"

/* Ranks of which plans are run: those of more are proved alone, as that takes as long as for few.
 */
enum { PLANNED_RANKS = 16 };

typedef struct Follow {
    Drawn *d;
    const Device *device;
    uint64_t *rng;
    Model t;
    Lies l[SHARDED];
} Follow;

static bool asks(const Follow *f, uint64_t way)
{
    return f->d->ways & way;
}

/* The way is one of the program only if it was seen to be. */
static void seen(Follow *f, uint64_t way, bool is)
{
    if (!is)
        f->d->ways &= ~way;
}

/* Has the schedule no table of so many microbatches? */
static bool lacks_table(Follow *f)
{
    return strstr(model_messages(&f->t), "error[MG0581]") != NULL;
}

static void compare_here(Follow *f, const char *when)
{
    compare_all(&f->d->r, &f->t, f->l, f->d->spec, when);
}

/* ---- what is seen ---------------------------------------------------------------------------- */

typedef struct Counted {
    Op op;
    int n;
} Counted;

static void count_op(void *ctx, Ins *i)
{
    Counted *c = ctx;
    c->n += i->op == c->op;
}

static int ops_of(const Follow *f, Op op)
{
    Counted c = {op, 0};
    each_ins(module_fn(f->t.m, "train")->body, count_op, &c);
    return c.n;
}

static void ask_ahead(void *ctx, Ins *i)
{
    Module *m = ctx;
    if (OP_AMONG(i->op, OP_all_gather, OP_transfer))
        vec_push(m->arena, &m->layout.ahead, i->out[0]);
}

/* All that comes from elsewhere comes an iteration ahead, into a place of its own. */
static void ask_apart(Follow *f)
{
    Module *m = f->t.m;
    m->layout.ahead.n = 0;
    each_ins(module_fn(m, "train")->body, ask_ahead, m);
    m->layout.ahead_apart = true;
}

/* Is a tensor that a rank has smaller along the axes of a class, or larger than on one rank? */
static void see_tensors(Follow *f)
{
    const Module *m = f->t.m, *one = f->d->r.t.m;
    bool split[2] = {false, false}, padded = false;
    for (size_t k = 0; k < m->tensors.n; k++) {
        const Tensor *t = &m->tensors.data[k];
        int64_t whole = 1;
        for (int i = 0; i < t->type.rank; i++) {
            whole *= t->type.dims[i].size * mesh_size(m, t->type.dims[i].axes);
            split[t->slot == 0] |= t->type.dims[i].axes != 0;
        }
        padded |= whole > type_elements(&one->tensors.data[k].type);
    }
    seen(f, WAY(state) | WAY(grads), split[0]);
    seen(f, WAY(params), split[1]);
    seen(f, WAY(class_padded), padded && !m->layout.pipeline.axis && !f->d->r.padded);
    seen(f, WAY(dim_padded), padded);
}

static void see_collectives(Follow *f)
{
    const bool shifts = ops_of(f, OP_ring_shift) > 0, exchanges = ops_of(f, OP_all_to_all) > 0;
    seen(f, WAY(ring) | WAY(zigzag), shifts);
    seen(f, WAY(groups), shifts && exchanges);
    seen(f, WAY(heads) | WAY(rows) | WAY(bound) | WAY(peers) | WAY(peers_rows), exchanges);
}

/* Runs the passes up to one; whether that one changed the program. */
static bool changes(Follow *f, const char *after, const char *before, const char *pass)
{
    if (strcmp(after, before) != 0)
        must_make(&f->t, f->device, after, before);
    char *was = module_text(f->t.m);
    must_make(&f->t, f->device, before, pass);
    char *is = module_text(f->t.m);
    const bool other = strcmp(was, is) != 0;
    free(was);
    free(is);
    return other;
}

/* False: a decision would not have the layout so. */
static bool lay_out_all(Follow *f)
{
    if (f->device->products_wait) /* a processor has no other host */
        f->t.m->layout.optimizer = OPTIMIZER_device;
    seen(f, WAY(apart), changes(f, "local", "send_narrow", "largest"));
    compare_here(f, "largest");
    const bool cut = changes(f, "largest", "largest", "pieces");
    seen(f, WAY(pieces) | WAY(turns), cut);
    if (cut)
        compare_here(f, "pieces");
    const bool once = changes(f, "pieces", "pieces", "gather_once");
    seen(f, WAY(once), once);
    if (once)
        compare_here(f, "gather_once");
    if (f->t.m->layout.once && !once_has_phases(f->t.m))
        return false;
    const bool far = changes(f, "gather_once", "gather_once", "levels");
    seen(f, WAY(offload), far);
    if (far)
        compare_here(f, "levels");
    if (asks(f, WAY(ahead)))
        overlap_choose(f->t.m, f->device, NULL);
    seen(f, WAY(ahead), f->t.m->layout.ahead.n > 0);
    if (asks(f, WAY(ahead_apart)))
        ask_apart(f);
    const int loops = ops_of(f, OP_repeat);
    const bool moved = changes(f, "levels", "levels", "prefetch_gathers");
    seen(f, WAY(ahead_apart), ops_of(f, OP_repeat) > loops);
    seen(f, WAY(buckets), moved);
    if (moved)
        compare_here(f, "prefetch_gathers");
    return true;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void same_bits(const Follow *f, const Plan *p)
{
    const Fn *fn = module_fn(f->t.m, "train");
    const Tensor64 *args = f->d->r.args[0];
    Model *t = (Model *)&f->t;
    const Tensor64 *want = run_ranks_planned(args, t, p, "train", &f->l[0], NULL);
    const Tensor64 *got = run_ranks_planned(args, t, p, "train", &f->l[0], f->rng);
    for (size_t k = 0; k < fn->results.n * (size_t)mesh_ranks(t->m); k++)
        for (int64_t e = 0; e < type_elements(&got[k].type); e++)
            if (memcmp(&got[k].data[e], &want[k].data[e], sizeof got[k].data[e]))
                fail_msg("%s, layout %s: result %zu has other bits in another order",
                         f->d->r.small->file, f->d->spec, k % fn->results.n);
}

static void run_plans(Follow *f, const Plan *p)
{
    if (f->d->r.half) {
        same_bits(f, p);
        return;
    }
    for (int k = 0; k < SHARDED; k++)
        for (int order = 0; order < 2 && f->d->r.want[k]; order++) {
            const Compared c =
                run_many_planned(&f->d->r.t, f->d->r.args[k], f->d->r.want[k], &f->t, p,
                                 sharded_functions[k], &f->l[k], order ? f->rng : NULL);
            if (!(c.worst <= SHARD_BOUND))
                fail_msg("%s, layout %s, planned, order %d: @%s: %s is off by %g",
                         f->d->r.small->file, f->d->spec, order, sharded_functions[k], c.where,
                         c.worst);
        }
}

/* False: the schedule has none. */
static bool plan_it(Follow *f)
{
    PlanJob job = {.m = f->t.m,
                   .d = f->device,
                   .a = f->t.a,
                   .after = "prefetch_gathers",
                   .upto = "timeline",
                   .decided = true,
                   .log = stderr};
    const PassStatus s = plan_make(&job);
    f->t.m = job.m;
    if (s != PASS_ok && lacks_table(f))
        return false;
    if (s != PASS_ok)
        fail_msg("%s, layout %s: %s fails: %s", f->d->r.small->file, f->d->spec, job.at,
                 model_messages(&f->t));
    char *why;
    if (plan_breaks(job.plan, &why))
        fail_msg("%s, layout %s: %s", f->d->r.small->file, f->d->spec, why);
    free(why);
    const Pipe *pipe = job.plan->train->pipe;
    seen(f, WAY(pairs), pipe && pipe->join);
    f->d->ways |= pipe && pipe->ahead + pipe->behind ? WAY(beside) : 0;
    if (mesh_ranks(f->t.m) <= PLANNED_RANKS)
        run_plans(f, job.plan);
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* One rank drops rows of a bound as the layout has it. */
static bool open_bound(Drawn *d)
{
    Model t;
    const bool legal = open_many(&t, &d->r, d->spec);
    if (!legal && !refused_for_sizes(&t, d->spec))
        fail_msg("%s, layout %s: %s", d->r.small->file, d->spec, model_messages(&t));
    model_close(&t);
    if (!legal)
        return false;
    char *spec = strdup(d->spec);
    const Small *small = d->r.small;
    const int64_t at_once = d->r.at_once;
    model_close(&d->r.t);
    open_reference_as(&d->r, small, at_once, spec);
    d->spec = arena_printf(d->r.t.a, "%s", spec);
    free(spec);
    return true;
}

bool follow_layout(Drawn *d, const Device *device, uint64_t *rng)
{
    Follow f = {.d = d, .device = device, .rng = rng};
    if (d->ways & WAY(bound) && !open_bound(d))
        return false;
    bool runs = open_many(&f.t, &d->r, d->spec);
    if (!runs && !refused_for_sizes(&f.t, d->spec) && !lacks_table(&f))
        fail_msg("%s, layout %s: %s", d->r.small->file, d->spec, model_messages(&f.t));
    if (runs) {
        for (int k = 0; k < SHARDED; k++)
            if (d->r.want[k])
                f.l[k] = lies(&f.t, sharded_functions[k]);
        compare_here(&f, "shard");
        see_tensors(&f);
        must_pass(&f.t, pass_simplify);
        must_pass(&f.t, pass_local);
        see_collectives(&f);
        compare_here(&f, "local");
        runs = lay_out_all(&f) && plan_it(&f);
    }
    model_close(&f.t);
    return runs;
}
