/* frontier_plan.c - plans of programs whose repeats keep what is said, and what these need; see
 * frontier.h. */
#include "decide/frontier.h"

#include "plan/place/place.h"

Plan *frontier_plan_upto(const char *step, const Module *module, const Device *d,
                         const KeepPlan *kept, const char *fn, bool rough, Arena *a)
{
    Module *m = module_copy(module, fn, diag_silent(module->diag, a), a);
    m->layout.plan = kept;
    PlanJob job = plan_compared(m, d, a, "frontier");
    job.rough = rough;
    job.upto = step;
    plan_make(&job); /* what does not fit has a plan as well */
    return job.plan;
}

Plan *frontier_plan(const Module *m, const Device *d, const KeepPlan *kept, const char *fn,
                    Arena *a)
{
    return frontier_plan_upto("place", m, d, kept, fn, true, a);
}

KeepWhole frontier_whole(const Module *m, const Device *d, const KeepPlan *kept, KeepAsk *ask)
{
    const Ins *loops[KEEP_LOOPS];
    Arena *tmp = ask && ask->a ? ask->a : arena_new();
    Plan *p = frontier_plan(m, d, kept, NULL, tmp);
    KeepWhole w = {.planned = true, .bytes = p ? plan_bytes(p) : -1};
    KeepPrice price;
    if (p)
        w.persistent = plan_bytes(p) - p->arena_bytes + p->persistent_bytes;
    if (p && keep_price(p, keep_loops(m, loops, KEEP_LOOPS), tmp, &price))
        w.outside = price.outside;
    if (ask)
        ask->plan = ask->a ? p : NULL;
    if (!ask || !ask->a)
        arena_free(tmp);
    return w;
}

KeepFit frontier_fit(const Device *d, int64_t bytes, int64_t budget, int64_t persistent)
{
    return bytes <= budget ? KEEP_fits : persistent >= d->memory ? KEEP_hopeless : KEEP_too_large;
}
