/* try.c - a point's plan; see try.h. */
#include "search/try.h"

#include <stdlib.h>
#include <string.h>

#include "decide/make.h"
#include "ir/cost.h"
#include "plan/levels.h"
#include "plan/place/place.h"
#include "plan/volume.h"
#include "plan/whole.h"

static void note_size(const Plan *p, Tried *t)
{
    t->bytes = plan_bytes(p);
    t->kept = p->memory[OWN_activations];
    t->seconds = plan_judged(p)->seconds;
}

static void note_plan(const Plan *p, Tried *t)
{
    const Program *g = plan_judged(p);
    const Whole w = plan_parts(p);
    const Volumes sent = plan_volumes(p->module, g);
    const double peak = peak_flops(p->device, &p->module->train);
    note_size(p, t);
    t->parts = (Parts){w.bubble * w.step, 0, g->again};
    for (int i = 0; i < w.naxes; i++)
        t->parts.waits += w.along[i].exposed;
    t->mfu = g->seconds > 0 && peak > 0 ? g->flops / g->seconds / peak : 0;
    t->sent = sent.bytes;
}

/* From behind a decision to the timeline, and no other decision. overlap: collectives have what
 * room they need to run beside the rest. NULL: there is no plan. */
static const Plan *plan_rest(Module *m, const Device *d, Arena *a, const char *after, bool overlap,
                             FILE *log)
{
    m->layout.overlap = overlap;
    PlanJob job = plan_compared(m, d, a, after);
    job.rough = true;
    job.log = log;
    return plan_timed(&job) && job.plan->train ? job.plan : NULL;
}

static bool has_room(const Plan *p)
{
    return plan_bytes(p) <= plan_budget(p->module, p->device) && levels_fit(p);
}

/* As far as decisions of how attention runs along what is split, and of experts. */
static Module *begin(Module *m, const Device *d, Arena *a, FILE *log)
{
    PlanJob job = {.m = m, .d = d, .a = a, .upto = "experts", .compared = true, .log = log};
    if (plan_make(&job) != PASS_ok)
        return NULL;
    job.after = "experts";
    job.upto = "send_rows";
    job.decided = true;
    return plan_make(&job) == PASS_ok ? job.m : NULL;
}

static Tried rough(Module *m, const Device *d, Arena *a, FILE *log)
{
    Tried t = {0};
    m = begin(m, d, a, log);
    const Plan *p = m ? plan_rest(m, d, a, "frontier", true, log) : NULL;
    if (p) {
        note_size(p, &t);
        t.fits = has_room(p);
    }
    return t;
}

static Tried quick(Module *m, const Device *d, Arena *a, FILE *log)
{
    Tried t = {0};
    m = begin(m, d, a, log);
    PlanJob job = {.m = m,
                   .d = d,
                   .a = a,
                   .after = "stages",
                   .upto = "frontier",
                   .compared = true,
                   .log = log};
    if (!m || plan_make(&job) != PASS_ok)
        return t;
    Module *copy = module_copy(job.m, NULL, diag_silent(job.m->diag, a), a);
    const Plan *p = plan_rest(copy, d, a, "frontier", true, log);
    if (p && !has_room(p))
        p = plan_rest(job.m, d, a, "frontier", false, log);
    if (p) {
        note_plan(p, &t);
        t.fits = has_room(p);
    }
    return t;
}

static Tried whole(Module *m, const Device *d, Arena *a, FILE *log)
{
    Tried t = {0};
    PlanJob job = {.m = m, .d = d, .a = a, .upto = "asserts", .compared = true, .log = log};
    t.fits = plan_make(&job) == PASS_ok;
    if (job.plan && job.plan->train && (t.fits || !strcmp(job.at, "asserts")))
        note_plan(job.plan, &t);
    else if (job.plan)
        t.bytes = plan_bytes(job.plan);
    return t;
}

Tried try_point(SearchElaborate *elaborate, void *ctx, const char *layout, TryDepth depth,
                FILE *log)
{
    Arena *a = arena_new();
    Device d;
    int code = 0;
    Tried t = {0};
    Module *m = elaborate(ctx, layout, a, &d, &code);
    if (m)
        t = depth == TRY_rough   ? rough(m, &d, a, log)
            : depth == TRY_quick ? quick(m, &d, a, log)
                                 : whole(m, &d, a, log);
    t.code = t.bytes ? 0 : code;
    arena_free(a);
    return t;
}

/* ---- many ------------------------------------------------------------------------------------ */

void try_write(SearchElaborate *elaborate, void *ctx, const char *layout, TryDepth depth, FILE *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&text, &n);
    if (!log)
        return;
    Tried t = try_point(elaborate, ctx, layout, depth, log);
    fclose(log);
    t.failed = n > 0;
    fwrite(&t, sizeof t, 1, out);
    fwrite(text, 1, strcspn(text, "\n"), out);
    free(text);
}

void try_all(int n, ParallelCall *f, void *ctx, Arena *a, Tried *t, const char **why)
{
    Written *w = NEW_ARRAY(a, Written, n);
    parallel_apart(n, f, ctx, a, w, why);
    for (int k = 0; k < n; k++) {
        t[k] = (Tried){.failed = why[k] != NULL};
        if (w[k].n < sizeof t[k])
            continue;
        memcpy(&t[k], w[k].bytes, sizeof t[k]);
        if (t[k].failed)
            why[k] = arena_strndup(a, w[k].bytes + sizeof t[k], w[k].n - sizeof t[k]);
    }
}
