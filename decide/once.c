/* once.c - whether what an update gives of layers' parameters is gathered behind it, or by the next
 * step's first microbatch (passes/spmd/gather_once.c), by plans that are made with both.
 *
 * With ZeRO 1 and 2 each rank updates its part of a parameter, and all read the whole. Behind the
 * update nothing is left that gathers could run beside; in the first microbatch each layer's runs
 * beside the layer before. That costs the memory of the parts, as the whole is gathered beside
 * them, and evaluation and samples gather for themselves. So it is taken where a step is faster and
 * fits. Bits are the same. */
#include "decide/once.h"

#include "decide/make.h"
#include "passes/spmd/by_chunk.h"
#include "plan/place/place.h"

#include <math.h>

/* Of a step: what has to be saved. */
static const double WORTH = 0.001;

static bool of_layers(const Module *m, const Ins *i)
{
    return op_is(i->op, COMM) && type_find(type_of(m, i->in[0]), m->layout.pipeline.dim) >= 0;
}

bool once_has_phases(const Module *m)
{
    const Fn *train = m->layout.pipeline.axis ? module_fn((Module *)m, "train") : NULL;
    for (size_t k = 0; train && k < train->body->ins.n; k++) {
        const Ins *rounds = train->body->ins.data[k];
        for (size_t i = 0; is_rounds(rounds) && i < rounds->body->ins.n; i++)
            if (of_layers(m, rounds->body->ins.data[i]))
                return false;
    }
    return true;
}

/* Seconds of a step; INFINITY: it does not fit. */
static double seconds_with(const Module *module, const Device *d, bool once)
{
    Arena *tmp = arena_new();
    Module *m = module_copy(module, NULL, diag_silent(module->diag, tmp), tmp);
    m->layout.once = once;
    m->layout.overlap = true; /* collectives have the room to run beside the rest */
    PlanJob job = plan_compared(m, d, tmp, "frontier");
    job.rough = true;
    double seconds = INFINITY;
    if (plan_timed(&job) && once_has_phases(job.m) && plan_bytes(job.plan) <= plan_budget(m, d))
        seconds = job.plan->train->seconds;
    arena_free(tmp);
    return seconds;
}

/* Do the rules split state, and not parameters? */
static bool splits_state_alone(const Layout *l)
{
    bool state = false;
    for (size_t r = 0; r < l->rules.n; r++) {
        if (l->rules.data[r].of == CLASS_params)
            return false;
        state |= l->rules.data[r].of == CLASS_state;
    }
    return state;
}

/* Does something leave the device that moves with each microbatch? What the first one's layers
 * gather has the room of what they keep. */
static bool moves_each_microbatch(const Layout *l)
{
    return l->offload[OFFLOAD_parameters] || l->offload[OFFLOAD_gradients] ||
           l->offload[OFFLOAD_kept];
}

void once_choose(Module *m, const Device *d)
{
    m->layout.once = false;
    if (!m->layout.mesh.n || d->streams < 2 || d->collectives_wait || !m->train.half ||
        !splits_state_alone(&m->layout) || moves_each_microbatch(&m->layout) ||
        !module_fn(m, "train"))
        return;
    const double behind = seconds_with(m, d, false);
    m->layout.once = seconds_with(m, d, true) < (1 - WORTH) * behind;
}
