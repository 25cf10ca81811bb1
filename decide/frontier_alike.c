/* frontier_alike.c - what repeats keep for the backward part in a pipeline.
 *
 * All stages keep the same values, for all ranks run one text: the most that fits of what is worth
 * keeping, or else the least. Layers of several kinds are several loops, each of which keeps less
 * than before; so do layers before and behind the pipeline's, whose values wait for the backward
 * part of as many microbatches. */
#include "decide/frontier.h"

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

const KeepPlan *frontier_alike(const Module *m, const Device *d, Arena *a, KeepFit *fit)
{
    int64_t budget = plan_budget(m, d), persistent = 0;
    int64_t bytes = frontier_bytes(m, d, NULL, &persistent, NULL);
    *fit = frontier_fit(d, bytes, budget, persistent);
    if (bytes <= budget || persistent >= budget)
        return NULL;
    const Alike *s = alike_of(m, d, a);
    KeepPlan *plan = NULL;
    for (int less = 1; less < s->most; less++) {
        plan = alike_with(s, less, a);
        bytes = frontier_bytes(m, d, plan, &persistent, NULL);
        *fit = frontier_fit(d, bytes, budget, persistent);
        if (bytes < 0 || bytes <= budget)
            break;
    }
    return plan;
}
