/* pairs.c - whether an F of a pipeline's table is beside the B behind it, layer by layer
 * (plan/order/join.c), by plans that are made with both.
 *
 * So rows go to experts on other machines beside what another microbatch computes.
 * It takes a microbatch more under way in a chunk, twice as many with one chunk a rank, and what
 * both phases make beside each other: memory that layers could keep more in. And it begins and ends
 * later. So it is not even tried where little is waited for; then by rough plans, with what layers
 * keep by default; and taken if the step is shorter by plans with all that is decided later. The
 * gradients of microbatches are added in the same order: bits are the same. */
#include "decide/pairs.h"

#include "decide/make.h"
#include "plan/whole.h"

#include <math.h>
#include <string.h>

/* Of a step: what has to be waited for, and what has to be saved. */
static const double WAITS = 0.1, WORTH = 0.01;

/* Seconds of a step; INFINITY: it does not fit. rough: by what is kept by default, whether or not
 * that fits. *waits: seconds in which only collectives run. */
static double seconds_with(const Module *module, const Device *d, int pairs, bool rough,
                           double *waits)
{
    Arena *a = arena_new();
    Module *m = module_copy(module, rough ? "train" : NULL, diag_silent(module->diag, a), a);
    m->layout.pipeline.pairs = pairs;
    PlanJob job = plan_compared(m, d, a, "turns");
    double seconds = INFINITY;
    bool any;
    if (rough) {
        m->layout.overlap = true; /* collectives have the room to run beside the rest */
        job.rough = true;
        any = plan_timed(&job);
    } else {
        job.upto = "timeline";
        job.decided = false;
        any = plan_make(&job) == PASS_ok;
    }
    if (any && job.plan && job.plan->train) {
        const Whole w = plan_parts(job.plan);
        seconds = job.plan->train->seconds;
        *waits = 0;
        for (int k = 0; k < w.naxes; k++)
            *waits += w.along[k].exposed;
    }
    arena_free(a);
    return seconds;
}

static bool can_have(const Module *m, const Device *d)
{
    const Pipeline *l = &m->layout.pipeline;
    const char *schedule = l->axis ? name_str(m->names, l->schedule) : "";
    return (!strcmp(schedule, "1f1b") || !strcmp(schedule, "interleaved")) && !l->pairs &&
           d->streams > 1 && !d->collectives_wait && module_fn((Module *)m, "train");
}

void pairs_choose(Module *m, const Device *d)
{
    Pipeline *l = &m->layout.pipeline;
    double waits = 0, other;
    if (!can_have(m, d))
        return;
    const double rough = seconds_with(m, d, PAIRS_none, true, &waits);
    l->pairs = PAIRS_none;
    if (waits < WAITS * rough || seconds_with(m, d, PAIRS_all, true, &other) > (1 - WORTH) * rough)
        return;
    const double without = seconds_with(m, d, PAIRS_none, false, &waits);
    const double with = seconds_with(m, d, PAIRS_all, false, &other);
    if (with < (1 - WORTH) * without)
        l->pairs = PAIRS_all;
    if (!isinf(with) && !isinf(without)) {
        l->paired[0] = without;
        l->paired[1] = with;
    }
}
