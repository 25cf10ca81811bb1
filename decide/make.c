/* make.c - runs steps.def; see make.h.
 *
 * Twelve rows are decisions, which are made by planning: they call plan_make in turn. That ends,
 * because a decision hands on `decided`: the plans it compares take all decisions as the layout
 * has them, so no row of the inner run decides. They begin after the decision's own row:
 *
 *   chunks     after chunks, up to timeline: the whole way, with what the backward part keeps by
 *              default.
 *   context    after context, up to timeline: the same, of @train alone.
 *   experts    after experts, up to timeline: the same, of @train alone.
 *   turns      after turns, up to timeline: the same, of @train alone.
 *   pairs      after turns, up to timeline: the same, of @train alone; then with the decisions on
 * the way, but without its own. stages     after stages, up to timeline, with the decisions on the
 * way. offload    the decision of frontier, and after frontier up to place; then streams and
 * timeline. Where nothing is said of it, first the decision of frontier, and if that does not fit,
 * after frontier up to place, with the decisions on the way. frontier   after frontier, up to
 * place: what a choice needs, and the sum of what it takes. The decision behind it is not made yet,
 * and is taken as "nothing beside the rest". once       after frontier, up to place, and from there
 * up to timeline; as if with overlap. overlap    after overlap, up to place; then, with collectives
 * that are late, from there up to timeline. What the backward part keeps is in the module already.
 *   optimizer  after optimizer, up to place; then from there up to timeline. The decision behind it
 *              is not made yet.
 *   logits     after logits, up to timeline. All else is in the module already.
 *
 * So runs are four deep at the most, and but for stages and offload, which ask whether anything
 * fits, a decision depends on no later one. */
#include "decide/apart.h"
#include "decide/make.h"

#include "decide/chunks.h"
#include "decide/context.h"
#include "decide/experts.h"
#include "decide/frontier.h"
#include "decide/logits.h"
#include "decide/offload.h"
#include "decide/once.h"
#include "decide/optimizer.h"
#include "decide/overlap.h"
#include "decide/pairs.h"
#include "decide/pieces.h"
#include "decide/settled.h"
#include "decide/stages.h"
#include "plan/asserts.h"
#include "plan/check/check.h"
#include "plan/order/order.h"
#include "plan/levels.h"
#include "plan/place/place.h"
#include "plan/rates.h"
#include "plan/schedule/actions.h"

#include <string.h>

/* ---- decisions ------------------------------------------------------------------------------- */

/* A decision has gone the rest of the way, and found this on it; NULL: it has not. */
static void take_settled(PlanJob *j, const Settled *settled)
{
    if (settled)
        j->settled = settled;
}

static PassStatus decide_chunks(PlanJob *j)
{
    chunks_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_context(PlanJob *j)
{
    context_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_experts(PlanJob *j)
{
    experts_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_turns(PlanJob *j)
{
    pieces_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_pairs(PlanJob *j)
{
    take_settled(j, pairs_choose(j->m, j->d, j->a));
    return PASS_ok;
}

static PassStatus decide_stages(PlanJob *j)
{
    take_settled(j, stages_decide(j->m, j->d, j->a));
    return PASS_ok;
}

static PassStatus decide_offload(PlanJob *j)
{
    OffloadFound found = {0};
    j->kept_known = offload_choose(j->m, j->d, j->a, &found);
    j->kept = found.kept;
    j->missing = found.missing;
    take_settled(j, found.settled);
    return PASS_ok;
}

/* For the memory of the device, unless the layout says. */
static PassStatus decide_frontier(PlanJob *j)
{
    if (j->kept_known)
        j->m->layout.plan = j->kept;
    else if (j->m->layout.recompute == RECOMPUTE_auto && module_fn(j->m, "train")) {
        KeepAsk ask = {0};
        j->m->layout.plan = frontier_choose(j->m, j->d, j->a, &ask);
        take_settled(j, ask.settled);
    }
    return PASS_ok;
}

static PassStatus decide_once(PlanJob *j)
{
    once_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_apart(PlanJob *j)
{
    apart_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_overlap(PlanJob *j)
{
    Module *fused = overlap_choose(j->m, j->d, j->compared && !j->done ? j->a : NULL);
    if (fused)
        j->m = fused;
    j->fused = fused != NULL;
    return PASS_ok;
}

static PassStatus decide_optimizer(PlanJob *j)
{
    optimizer_choose(j->m, j->d);
    return PASS_ok;
}

static PassStatus decide_logits(PlanJob *j)
{
    logits_choose(j->m, j->d);
    return PASS_ok;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static PassStatus step_schedule(PlanJob *j)
{
    j->plan = plan_schedule(j->m, j->d, j->compared, j->a);
    return j->plan ? PASS_ok : PASS_infeasible;
}

static PassStatus step_rates(PlanJob *j)
{
    plan_rates(j->plan);
    return PASS_ok;
}

static PassStatus step_order(PlanJob *j)
{
    plan_order(j->plan);
    return PASS_ok;
}

static PassStatus step_place(PlanJob *j)
{
    j->plan->rough = j->rough;
    const bool fits = plan_place(j->plan);
    return !levels_fit(j->plan) ? PASS_error : fits ? PASS_ok : PASS_infeasible;
}

static PassStatus step_streams(PlanJob *j)
{
    plan_streams(j->plan);
    return PASS_ok;
}

static PassStatus step_timeline(PlanJob *j)
{
    plan_timeline(j->plan);
    return PASS_ok;
}

static PassStatus step_asserts(PlanJob *j)
{
    return plan_asserts(j->plan) ? PASS_ok : PASS_infeasible;
}

static PassStatus step_check(PlanJob *j)
{
    int broken = plan_check(j->plan, j->log);
    if (!broken)
        return PASS_ok;
    fprintf(j->log, "mgc: internal error: the plan breaks %d invariants\n", broken);
    return PASS_broken;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ALL         (~0u)
#define AFTER(name) (1u << STEP_ID_##name)

const StepInfo step_info[STEP_count] = {
#define PASSES(first, last, needs, keeps, holds)                                                   \
    [STEP_ID_##last] = {#last, holds, needs, keeps, PASS_ID_##first, PASS_ID_##last, false, NULL},
#define DECIDE(name, needs, keeps, holds)                                                          \
    [STEP_ID_##name] = {#name, holds, needs, keeps, -1, -1, true, decide_##name},
#define STEP(name, needs, keeps, holds)                                                            \
    [STEP_ID_##name] = {#name, holds, needs, keeps, -1, -1, false, step_##name},
#include "decide/steps.def"
};

_Static_assert(STEP_count <= 32, "what holds is a set of 32 bits");

enum {
    PASSES_IN_RANGES = 0
#define PASSES(first, last, needs, keeps, holds) +PASS_ID_##last - PASS_ID_##first + 1
#include "decide/steps.def"
};
_Static_assert((int)PASSES_IN_RANGES == (int)PASS_count,
               "each pass is in one range of decide/steps.def");

/* Names of passes and of other steps differ: --print-after shows what is called so. */
enum {
#define PASS(name, needs, keeps, summary) NAMED_##name,
#include "passes/passes.def"
#define DECIDE(name, needs, keeps, holds) NAMED_##name,
#define STEP(name, needs, keeps, holds)   NAMED_##name,
#include "decide/steps.def"
};

/* A place on the way: how much of it is done after a row, or after a pass of it. */
typedef struct Mark {
    int row, pass; /* pass: of a range of passes, or -1 */
} Mark;

/* False: nothing is called that. */
static bool find(const char *name, Mark *at)
{
    const int pass = pass_find(name);
    for (int i = 0; i < STEP_count; i++) {
        const StepInfo *s = &step_info[i];
        const bool here =
            s->first < 0 ? !strcmp(s->name, name) : pass >= s->first && pass <= s->last;
        if (!here)
            continue;
        *at = (Mark){i, s->first < 0 ? -1 : pass};
        return true;
    }
    return false;
}

static bool comes_before(Mark at, const char *pass)
{
    Mark m;
    return find(pass, &m) && (at.row < m.row || (at.row == m.row && at.pass < m.pass));
}

/* ---- running --------------------------------------------------------------------------------- */

static void tell_done(PlanJob *j, const char *step)
{
    j->at = step;
    if (j->done)
        j->done(j->ctx, step, j);
}

static void pass_done(void *ctx, const char *pass, const Job *job)
{
    PlanJob *j = ctx;
    j->m = job->m;
    tell_done(j, pass);
}

static PassStatus run_passes(PlanJob *j, int first, int last)
{
    Job job = {.m = j->m, .log = j->log, .fusion = j->fusion, .compared = j->compared};
    const PassRange range = {pass_info[first].name, pass_info[last].name, pass_done, j};
    j->at = NULL;
    PassStatus s = passes_run(&job, &range);
    j->m = job.m;
    if (s != PASS_ok)
        j->at = pass_info[j->at ? pass_find(j->at) + 1 : first].name;
    return s;
}

static PassStatus run_step(PlanJob *j, const StepInfo *s)
{
    const StepId row = (StepId)(s - step_info);
    if (s->decides && j->decided)
        return PASS_ok;
    j->at = s->name;
    Module *const m = j->m; /* a decision may go on with another, behind passes */
    const bool known = s->decides && j->settled && settled_take(j->settled, row, m);
    const PassStatus status = known ? PASS_ok : s->run(j);
    if (status == PASS_ok && s->decides && j->found)
        settled_note(j->found, row, m, j->a);
    if (status == PASS_ok)
        tell_done(j, s->name);
    return status;
}

PlanJob plan_compared(Module *m, const Device *d, Arena *a, const char *after)
{
    if (m->layout.optimizer == OPTIMIZER_auto)
        m->layout.optimizer = optimizer_guess(m, d);
    return (PlanJob){.m = m,
                     .d = d,
                     .a = a,
                     .after = after,
                     .upto = "place",
                     .decided = true,
                     .compared = true,
                     .log = stderr};
}

PlanJob plan_onward(Module *m, const Device *d, Arena *a, const char *after, Settled *found)
{
    const OptimizerAt optimizer = m->layout.optimizer;
    PlanJob job = plan_compared(m, d, a, after);
    m->layout.optimizer = optimizer; /* which a decision of the way says */
    job.upto = "timeline";
    job.decided = false;
    job.found = found;
    return job;
}

const Program *plan_judged(const Plan *p)
{
    return p->train ? p->train : p->decode;
}

bool plan_timed(PlanJob *j)
{
    plan_make(j); /* fails where it does not fit, too */
    if (!j->plan)
        return false;
    j->after = "place";
    j->upto = "timeline";
    plan_make(j);
    return true;
}

PassStatus plan_make(PlanJob *j)
{
    const Job said = {.log = j->log};
    Mark after = {-1, -1}, upto = {STEP_count - 1, -1};
    if (j->after && !find(j->after, &after))
        return pass_bug(&said, NULL, "no pass or step is called '%s'", j->after);
    if (j->upto && !find(j->upto, &upto))
        return pass_bug(&said, NULL, "no pass or step is called '%s'", j->upto);
    unsigned holds = 0;
    if (comes_before(after, "prefetch_gathers") && j->m->layout.mesh.n && j->d)
        j->m->layout.scatter = message_least(j->d);
    if (comes_before(after, "emulate")) /* which the device decides */
        j->m->train.fp8_products = j->m->train.fp8 && j->d && j->d->flops_fp8 > 0;
    for (int i = 0; i <= upto.row; i++) {
        const StepInfo *s = &step_info[i];
        int first = s->first, last = s->last;
        if (i == after.row && first >= 0)
            first = after.pass + 1;
        if (i == upto.row && first >= 0)
            last = upto.pass;
        const bool done = i < after.row || (i == after.row && (s->first < 0 || first > last)) ||
                          (i == STEP_ID_fuse && j->fused);
        PassStatus status = PASS_ok;
        if (!done && s->needs & ~holds)
            status = pass_bug(&said, NULL, "'%s' runs before a step that it needs", s->name);
        else if (!done)
            status = s->first < 0 ? run_step(j, s) : run_passes(j, first, last);
        if (status != PASS_ok)
            return status;
        holds = (holds & s->keeps) | 1u << i;
    }
    return PASS_ok;
}
