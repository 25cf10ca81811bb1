/* try.c - a point's plan; see try.h. */
#include "search/try.h"

#include <string.h>

#include "decide/make.h"
#include "ir/cost.h"
#include "plan/levels.h"
#include "plan/place/place.h"
#include "plan/volume.h"
#include "plan/whole.h"

static void note_plan(const Plan *p, Tried *t)
{
    const Program *g = plan_judged(p);
    const Whole w = plan_whole(p);
    const Volumes sent = plan_volumes(p->module, g);
    const double peak = peak_flops(p->device, &p->module->train);
    t->bytes = plan_bytes(p);
    t->seconds = g->seconds;
    t->parts = (Parts){w.bubble * w.step, 0, g->again};
    for (int i = 0; i < w.naxes; i++)
        t->parts.waits += w.along[i].exposed;
    t->mfu = g->seconds > 0 && peak > 0 ? g->flops / g->seconds / peak : 0;
    t->sent = sent.bytes;
}

/* From behind the last decision but those for which there are plans of plans, to the timeline. */
static bool plan_rest(Module *m, const Device *d, Arena *a, bool overlap, FILE *log, Tried *t)
{
    m->layout.overlap = overlap;
    PlanJob job = plan_compared(m, d, a, "frontier");
    job.rough = true;
    job.log = log;
    if (!plan_timed(&job) || !job.plan->train)
        return false;
    note_plan(job.plan, t);
    return t->bytes <= plan_budget(job.m, d) && levels_fit(job.plan);
}

/* Decisions of what is kept, of how attention runs along what is split, and of experts. */
static Tried quick(Module *m, const Device *d, Arena *a, FILE *log)
{
    Tried t = {0};
    PlanJob job = {.m = m, .d = d, .a = a, .upto = "experts", .compared = true, .log = log};
    if (plan_make(&job) != PASS_ok)
        return t;
    job.after = "experts";
    job.upto = "send_rows";
    job.decided = true;
    if (plan_make(&job) != PASS_ok)
        return t;
    job.after = "stages";
    job.upto = "frontier";
    job.decided = false;
    if (plan_make(&job) != PASS_ok)
        return t;
    Module *copy = module_copy(job.m, NULL, diag_silent(job.m->diag, a), a);
    t.fits = plan_rest(copy, d, a, true, log, &t);
    if (!t.fits)
        t.fits = plan_rest(job.m, d, a, false, log, &t);
    return t;
}

static Tried whole(Module *m, const Device *d, Arena *a, FILE *log)
{
    Tried t = {0};
    PlanJob job = {.m = m, .d = d, .a = a, .upto = "asserts", .log = log};
    t.fits = plan_make(&job) == PASS_ok;
    if (job.plan && job.plan->train && (t.fits || !strcmp(job.at, "asserts")))
        note_plan(job.plan, &t);
    else if (job.plan)
        t.bytes = plan_bytes(job.plan);
    return t;
}

static Tried bare(Module *m, const Device *d, Arena *a, FILE *log)
{
    Tried t = {0};
    m->layout.overlap = true;
    PlanJob job = plan_compared(m, d, a, NULL);
    job.rough = true;
    job.log = log;
    if (!plan_timed(&job) || !job.plan->train)
        return t;
    note_plan(job.plan, &t);
    t.fits = t.bytes <= plan_budget(job.m, d) && levels_fit(job.plan);
    return t;
}

Tried try_point(SearchElaborate *elaborate, void *ctx, const char *layout, TryDepth depth)
{
    Arena *a = arena_new();
    FILE *nowhere = fopen("/dev/null", "w");
    Device d;
    int code = 0;
    Tried t = {0};
    Module *m = nowhere ? elaborate(ctx, layout, a, &d, &code) : NULL;
    if (m)
        t = depth == TRY_bare    ? bare(m, &d, a, nowhere)
            : depth == TRY_quick ? quick(m, &d, a, nowhere)
                                 : whole(m, &d, a, nowhere);
    t.code = t.bytes ? 0 : code;
    if (nowhere)
        fclose(nowhere);
    arena_free(a);
    return t;
}
