/* pairs.c - whether an F of a pipeline's table is beside the B behind it, layer by layer
 * (plan/order/join.c), by plans that are made with both.
 *
 * So rows go to experts on other machines beside what another microbatch computes.
 * It takes a microbatch more under way in a chunk, twice as many with one chunk a rank, and what
 * both phases make beside each other: memory that layers could keep more in. And it begins and ends
 * later. So it is not even tried where little is waited for; then by rough plans, with what layers
 * keep by default; and taken if the step is shorter by plans with all that is decided later, which
 * is then decided. The
 * gradients of microbatches are added in the same order: bits are the same. */
#include "decide/pairs.h"

#include "decide/make.h"
#include "plan/whole.h"

#include <math.h>
#include <string.h>

/* Of a step: what has to be waited for, and what has to be saved. */
static const double WAITS = 0.1, WORTH = 0.01;

/* Seconds of a step by what is kept by default, whether or not that fits; INFINITY: there is no
 * plan. *waits: seconds in which only collectives run. */
static double rough_seconds(const Module *module, const Device *d, int pairs, double *waits)
{
    Arena *a = arena_new();
    Module *m = module_copy(module, "train", diag_silent(module->diag, a), a);
    m->layout.pipeline.pairs = pairs;
    m->layout.overlap = true; /* collectives have the room to run beside the rest */
    PlanJob job = plan_compared(m, d, a, "turns");
    job.rough = true;
    double seconds = INFINITY;
    if (plan_timed(&job) && job.plan->train) {
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

const Settled *pairs_choose(Module *m, const Device *d, Arena *a)
{
    Pipeline *l = &m->layout.pipeline;
    double waits = 0, other;
    if (!can_have(m, d))
        return NULL;
    const double rough = rough_seconds(m, d, PAIRS_none, &waits);
    l->pairs = PAIRS_none;
    if (waits < WAITS * rough || rough_seconds(m, d, PAIRS_all, &other) > (1 - WORTH) * rough)
        return NULL;
    Layout as[2] = {m->layout, m->layout};
    WholeWay way[2];
    as[1].pipeline.pairs = PAIRS_all;
    whole_ways(m, d, "turns", as, 2, a, way);
    const bool with = way[1].seconds < (1 - WORTH) * way[0].seconds;
    if (with)
        l->pairs = PAIRS_all;
    if (!isinf(way[0].seconds) && !isinf(way[1].seconds)) {
        l->paired[0] = way[0].seconds;
        l->paired[1] = way[1].seconds;
    }
    if (way[with].settled)
        settled_untold(way[with].settled, m);
    return way[with].settled;
}
