/* optimizer.c - where kernels run that update what is on the host of a GPU, by plans made with
 * both.
 *
 * On the device, state and masters come and go: what a link moves both ways is what an update
 * takes. On the host they stay, and its cores read and write them at the speed of their memory,
 * while gradients come and rounded parameters go. Which is faster depends on how many ranks share
 * that memory, and on what else there is to transfer. */
#include "decide/optimizer.h"

#include "base/parallel.h"
#include "decide/make.h"
#include "passes/levels/levels.h"
#include "plan/levels.h"
#include "plan/place/place.h"

#include <math.h>
#include <string.h>

/* Bytes of a number that is stored in `t`, or where nothing is said as all is computed. */
static double bytes_of(const Module *m, DType t)
{
    return (double)dtype_bytes(t ? t : m->train.compute);
}

/* Numbers of state per parameter of a layer. */
static double slots(const Module *m)
{
    int64_t state = 0, parameters = 0;
    for (size_t k = 0; k < m->tensors.n; k++) {
        const Tensor *t = &m->tensors.data[k];
        if (t->stacked && !t->master && !t->ahead)
            *(t->slot && !tensor_is_rounded(t) ? &state : &parameters) += type_elements(&t->type);
    }
    return parameters ? (double)state / (double)parameters : 0;
}

OptimizerAt optimizer_guess(const Module *m, const Device *d)
{
    const Train *t = &m->train;
    const DeviceLevel *host = &d->level[LEVEL_host];
    if (m->layout.offload[OFFLOAD_state] != LEVEL_host || !(d->host_bandwidth > 0))
        return OPTIMIZER_device;
    /* of a parameter: what is transferred by either way, and what the host's cores move */
    const bool masters = t->half && m->layout.offload[OFFLOAD_masters] == LEVEL_host;
    const double stays = slots(m) * bytes_of(m, t->goal[0].state) +
                         (masters ? bytes_of(m, t->master) : 0),
                 rounded = masters ? bytes_of(m, t->half) : 0,
                 parameter = masters ? 0 : 2 * bytes_of(m, t->half ? t->master : DT_none);
    const double there = 2 * stays, here = bytes_of(m, t->sums) + rounded + parameter;
    const double on_host = (there + here) * (double)levels_ranks(m, d) / d->host_bandwidth;
    return fmax(here / host->both, on_host) < there / host->both ? OPTIMIZER_host
                                                                 : OPTIMIZER_device;
}

static const OptimizerAt places[] = {OPTIMIZER_host, OPTIMIZER_device};
enum { PLACES = sizeof places / sizeof *places };

typedef struct Question {
    const Module *m;
    const Device *d;
} Question;

/* Seconds of a step with the kernels in a place; INFINITY: it does not fit. */
static void tell_seconds(void *ctx, int place, FILE *out)
{
    const Question *q = ctx;
    Arena *tmp = arena_new();
    Module *m = module_copy(q->m, NULL, diag_silent(q->m->diag, tmp), tmp);
    m->layout.optimizer = places[place];
    PlanJob job = plan_compared(m, q->d, tmp, "optimizer");
    job.rough = true;
    double seconds = INFINITY;
    if (plan_timed(&job) && plan_bytes(job.plan) <= plan_budget(m, q->d) && levels_fit(job.plan))
        seconds = job.plan->train->seconds;
    fwrite(&seconds, sizeof seconds, 1, out);
    arena_free(tmp);
}

/* The place with which a step takes less; the device, if both take the same. */
static OptimizerAt faster(const Module *m, const Device *d, Arena *tmp)
{
    double seconds[PLACES] = {INFINITY, INFINITY};
    Written w[PLACES];
    parallel_map(PLACES, tell_seconds, &(Question){m, d}, tmp, w);
    for (int k = 0; k < PLACES; k++)
        if (w[k].n == sizeof *seconds)
            memcpy(&seconds[k], w[k].bytes, sizeof *seconds);
    return seconds[0] < seconds[1] ? places[0] : places[1];
}

void optimizer_choose(Module *m, const Device *d)
{
    Arena *tmp = arena_new();
    if (m->layout.optimizer == OPTIMIZER_auto) {
        m->layout.optimizer = OPTIMIZER_device;
        if (d->host_bandwidth > 0 && m->layout.offload[OFFLOAD_state] == LEVEL_host &&
            module_fn(m, "train") && levels_update_on_host(m, tmp))
            m->layout.optimizer = faster(m, d, tmp);
    }
    arena_free(tmp);
}
