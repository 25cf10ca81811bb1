/* spike.c - --skip-spikes Z: a step that stands far above those before it changes nothing.
 *
 * Of loss and gradient norm the mean and variance are kept, each step counting 1/64 (the first 64
 * alike). A step whose loss or norm lies more than Z standard deviations above its mean is ended by
 * the guard, before a parameter changes; it is logged and counted, its batch is not read again, and
 * it does not enter the means. The first 64 steps are never skipped, and after 8 skipped in a row
 * the next is taken: then it is no spike. The numbers are kept in checkpoints, so that a resumed
 * run skips what the whole one would have. */
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
