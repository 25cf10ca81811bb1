/* spike.c - --skip-spikes Z: skips a step whose loss or gradient norm is far above earlier steps.
 *
 * The runtime keeps the mean and variance of loss and gradient norm; a new step has the weight 1/64
 * (the first 64 steps have equal weights). If the loss or norm of a step is more than Z standard
 * deviations above its mean, the guard ends the step before a parameter changes. The step is logged
 * and counted, its batch is not read again, and it does not enter the means. The first 64 steps are
 * never skipped, and after 8 skipped steps in a row the next one is taken: it is then no spike.
 * Checkpoints keep the numbers, so that a resumed run skips the same steps as an uninterrupted
 * one. */
#include "runtime/run.h"

#include <inttypes.h>
#include <math.h>

enum { MEMORY = 64, IN_A_ROW = 8 };

static bool far_above(const rt_spikes *s, int k, double x, double z)
{
    return x - s->mean[k] > z * sqrt(s->variance[k]);
}

bool rt_spike(mg_run *r, double loss, double norm)
{
    rt_spikes *s = &r->state.spikes;
    double z = r->options->skip_spikes;
    if (isnan(z) || s->seen < MEMORY || s->in_a_row >= IN_A_ROW ||
        (!far_above(s, 0, loss, z) && !far_above(s, 1, norm, z)))
        return false;
    r->skipped = true;
    s->skipped++;
    s->in_a_row++;
    return true;
}

void rt_spike_observe(mg_run *r, double loss, double norm)
{
    rt_spikes *s = &r->state.spikes;
    double x[2] = {loss, norm};
    s->in_a_row = 0;
    if (s->seen < MEMORY)
        s->seen++;
    for (int k = 0; k < 2; k++) {
        double off = x[k] - s->mean[k], share = 1 / (double)s->seen;
        s->mean[k] += off * share;
        s->variance[k] = (1 - share) * (s->variance[k] + share * off * off);
    }
}
