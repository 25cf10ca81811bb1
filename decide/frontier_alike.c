/* frontier_alike.c - what repeats keep for the backward part in a pipeline.
 *
 * All stages keep the same values, for all ranks run one text: the default if it fits; else the
 * fastest of what fits, from the most that does on; else the least. Layers of several kinds are
 * several loops, each of which keeps less than before; so do layers before and behind the
 * pipeline's, whose values wait for the backward part of as many microbatches. */
#include "decide/frontier.h"

#include <math.h>

#include "plan/place/place.h"

/* All loops of a program with a pipeline, with their options. */
typedef struct Alike {
    const Ins *loop[KEEP_LOOPS];
    KeepOption option[KEEP_LOOPS][KEEP_OPTIONS];
    int options[KEEP_LOOPS], loops, most;
} Alike;

static Alike *alike_of(const Module *m, const Device *d, Arena *a)
{
    Alike *s = NEW(a, Alike);
    s->loops = keep_loops(m, s->loop, KEEP_LOOPS);
    for (int l = 0; l < s->loops; l++) {
        s->options[l] = keep_options(m, l, d, a, s->option[l]);
        s->most = s->options[l] > s->most ? s->options[l] : s->most;
    }
    return s;
}

/* Each loop keeps what is `less` options below its last, which is the default, or its
 * first. */
static KeepPlan *alike_with(const Alike *s, int less, Arena *a)
{
    KeepPlan *plan = NEW(a, KeepPlan);
    for (int l = 0; l < s->loops; l++) {
        KeepRanges ranges = {0};
        const int last = s->options[l] - 1;
        const KeepOption *o = &s->option[l][last > less ? last - less : 0];
        if (last > 0)
            vec_push(a, &ranges,
                     ((KeepRange){.iterations = s->loop[l]->attrs.dim.size,
                                  .segment = 1,
                                  .keep = o->keep,
                                  .says = o->names}));
        vec_push(a, &plan->loops, ranges);
        vec_push(a, &plan->dims, s->loop[l]->attrs.dim.name);
    }
    return plan;
}

/* Seconds of a step with it; INFINITY: there is no plan. */
static double seconds_with(const Module *module, const Device *d, const KeepPlan *kept)
{
    Arena *tmp = arena_new();
    Module *m = module_copy(module, "train", diag_silent(module->diag, tmp), tmp);
    m->layout.plan = kept;
    m->layout.overlap = true; /* collectives have the room to run beside the rest */
    PlanJob job = plan_compared(m, d, tmp, "frontier");
    job.rough = true;
    const double seconds = plan_timed(&job) ? job.plan->train->seconds : INFINITY;
    arena_free(tmp);
    return seconds;
}

/* The fastest of those that keep at least `least` options less, which fits, until several in a row
 * are slower: less is kept with each, and room that is left may save more than it costs. */
static KeepPlan *fastest(const Module *m, const Device *d, const Alike *s, int least, Arena *a)
{
    enum { SLOWER = 3 };
    KeepPlan *best = alike_with(s, least, a);
    double seconds = seconds_with(m, d, best);
    for (int less = least + 1, slower = 0; less < s->most && slower < SLOWER; less++) {
        KeepPlan *plan = alike_with(s, less, a);
        const double with = seconds_with(m, d, plan);
        slower++;
        if (with >= seconds || frontier_whole(m, d, plan, NULL).bytes > plan_budget(m, d))
            continue;
        best = plan;
        seconds = with;
        slower = 0;
    }
    return best;
}

const KeepPlan *frontier_alike(const Module *m, const Device *d, Arena *a, KeepFit *fit)
{
    const int64_t budget = plan_budget(m, d);
    KeepWhole w = frontier_whole(m, d, NULL, NULL);
    *fit = frontier_fit(d, w.bytes, budget, w.persistent);
    if (w.bytes <= budget || w.persistent >= budget)
        return NULL;
    const Alike *s = alike_of(m, d, a);
    KeepPlan *plan = NULL;
    for (int less = 1; less < s->most; less++) {
        plan = alike_with(s, less, a);
        w = frontier_whole(m, d, plan, NULL);
        *fit = frontier_fit(d, w.bytes, budget, w.persistent);
        if (w.bytes < 0)
            break;
        if (w.bytes <= budget)
            return fastest(m, d, s, less, a);
    }
    return plan;
}
