/* overlap.c - whether collectives and transfers take memory to run beside the rest, and what is
 * reduced, gathered and fetched where there is a rest: by plans that are made with it.
 *
 *   1  as it is: what the program needs anyway is all there is
 *   2  with what the device has left, what a collective or a transfer touches is alive as long as
 *      it may run
 *   3  and gradients of layers are reduced in the iterations that make them (buckets.c)
 *   4  and what is waited for, of gathers and fetches, comes an iteration ahead
 *      (prefetch_gathers.c), in the better of these
 *   5  and what is sent is made earlier, by kernels that read more (fuse_delay.c)
 *
 * The fastest that fits is taken, by times in which collectives take half as long again
 * (PLAN_LATE). So a program that fits does so still. */
#include "decide/overlap.h"
#include "decide/make.h"
#include "ir/collective.h"
#include "plan/levels.h"
#include "plan/order/streams.h"
#include "plan/place/place.h"

/* Of a gather's time: what has to be waited for. */
static const double WORTH = 0.1;

static void collectives_are_late(Program *g)
{
    for (size_t i = 0; g && i < g->actions.n; i++)
        if (g->actions.data[i].kind == ACT_comm)
            g->actions.data[i].seconds *= PLAN_LATE;
}

static Plan *plan_of(const Module *module, const Device *d, const Layout *as, Arena *a)
{
    Module *m = module_copy(module, NULL, diag_silent(module->diag, a), a);
    m->layout = *as;
    PlanJob job = plan_compared(m, d, a, "overlap");
    job.rough = true;
    plan_make(&job); /* what does not fit is timed as well */
    if (!job.plan)
        return NULL;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        collectives_are_late(job.plan->programs[k]);
    job.after = "place";
    job.upto = "timeline";
    plan_make(&job);
    return job.plan;
}

/* A gather or a fetch in a loop that nothing, or next to nothing, runs beside. */
static bool is_waited_for(const Module *m, const Action *a)
{
    const bool brings =
        a->kind == ACT_fetch || (a->kind == ACT_comm && a->comm.kind == MG_ALL_GATHER);
    return brings && a->around >= 0 && a->operand[1].value < m->values.n &&
           a->exposed > WORTH * a->seconds;
}

static void note_gathers(const Module *m, const Program *g, Layout *as)
{
    for (size_t i = 0; g && i < g->actions.n; i++)
        if (is_waited_for(m, &g->actions.data[i]))
            vec_push(m->arena, &as->ahead, g->actions.data[i].operand[1].value);
}

/* Takes the plan made with a layout if it is the fastest so far, and fits. */
static bool is_better(Module *m, const Device *d, const Plan *p, const Layout *as, double *best)
{
    if (!p || plan_judged(p)->seconds >= *best || plan_bytes(p) > plan_budget(m, d))
        return false;
    m->layout = *as;
    *best = plan_judged(p)->seconds;
    return true;
}

/* FLOPs that are computed while a byte of gradients is added up over ranks. */
static double send_flops(const Program *g)
{
    double flops = 0, computes = 0, bytes = 0, sends = 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_gemm) {
            flops += a->flops;
            computes += a->seconds;
        }
        if (a->kind == ACT_comm && op_is(collective_of_kind(a->comm.kind)->op, SUMS)) {
            bytes += (double)type_bytes(&a->operand[0].type);
            sends += a->seconds;
        }
    }
    return computes > 0 && bytes > 0 ? flops / computes * sends / bytes : 0;
}

int64_t message_least(const Device *d)
{
    /* Times what a message costs at least, its bytes have to take. */
    const double WORTH_SENDING = 4;
    return 1 + (int64_t)(WORTH_SENDING * d->link_seconds * d->link_bandwidth);
}

void overlap_choose(Module *m, const Device *d)
{
    /* Of a step has to be saved, for it may take as much memory as all gradients. */
    const double WORTH_MEMORY = 0.01;
    if (!levels_used(m) && (d->streams < 2 || d->collectives_wait || !m->layout.mesh.n))
        return;
    Arena *tmp = arena_new();
    Layout as = m->layout;
    Plan *p = plan_of(m, d, &as, tmp), *with;
    double best = p ? plan_judged(p)->seconds : 0;
    as.overlap = true;
    p = p ? plan_of(m, d, &as, tmp) : NULL;
    is_better(m, d, p, &as, &best);
    Layout bucketed = as;
    bucketed.bucket = message_least(d);
    with = p && mesh_ranks(m) > 1 && d->streams > 1 ? plan_of(m, d, &bucketed, tmp) : NULL;
    double least = (1 - WORTH_MEMORY) * best;
    if (is_better(m, d, with, &bucketed, &least)) {
        best = least;
        p = with;
        as = bucketed;
    }
    if (p) {
        for (int k = 0; k < PLAN_PROGRAMS; k++)
            if (p->programs[k] != p->round)
                note_gathers(m, p->programs[k], &as);
    }
    if (as.ahead.n && is_better(m, d, with = plan_of(m, d, &as, tmp), &as, &best))
        p = with;
    if (p) {
        as = m->layout;
        as.send_flops = send_flops(plan_judged(p));
        if (as.send_flops > 0)
            is_better(m, d, plan_of(m, d, &as, tmp), &as, &best);
    }
    arena_free(tmp);
}
