/* convolution.c - how long a GPU computes a convolution, by the tiles that its kernels have
 * (runtime/conv.h).
 *
 * A block computes a tile of MG_CONV_ROWS x N elements, and two blocks share a multiprocessor. So
 * with T blocks, each of s tiles of terms, on S multiprocessors
 *   seconds = ceil(T / 2 S) (START + s 2 (2 MG_CONV_ROWS N terms) / (share peak / S))
 * and no less than the bytes take. For halves START and the shares are those that are expected of
 * the kernels' machine code (docs/gpu_bounds.md); SHARE_FLOATS, and the shares of halves for tf32,
 * are guessed. No kernel was measured. Operands that are copied an element at a time make the
 * copies take the time. Sums that are cut are written and read once more. */
#include "plan/convolution.h"

#include <math.h>

#include "runtime/grouped.h"

static const double START = 3.2e-6; /* tables, and the first tiles that arrive */
/* Shares of the peak of two blocks on a multiprocessor. On one with tensor cores of sm_90 mma.sync
 * does not reach the peak, and the L2 cache limits more. */
static const double SHARE = 0.9, SHARE_SM90 = 0.29, SHARE_FLOATS = 0.5;
/* A tile of 64 columns reads x as often as one of 128, which tells where the L2 cache limits. */
static const double NARROW = 0.93, NARROW_SM90 = 0.78;
/* Elements that a multiprocessor copies a second, one by one. */
static const double COPIES = 2.7e9;

/* The precision's peak of a multiprocessor, times the share of it that tiles reach. */
static double rate_of(const Plan *p, const mg_conv_desc *d, const mg_conv_way *w)
{
    const Device *v = p->device;
    const bool tf32 = d->dtype == MG_F32 && p->module->train.tf32;
    const bool floats = d->dtype == MG_F64 || (d->dtype == MG_F32 && !tf32);
    const double peak = d->dtype == MG_BF16  ? v->flops_bf16
                        : d->dtype == MG_F16 ? v->flops_f16
                        : d->dtype == MG_F64 ? v->flops_f64
                        : tf32               ? v->flops_tf32
                                             : v->flops_f32;
    const double share = floats ? SHARE_FLOATS : v->warpgroups ? SHARE_SM90 : SHARE;
    const double narrow = v->warpgroups ? NARROW_SM90 : NARROW;
    return peak / v->threads * share * (w->columns == 64 && !floats ? narrow : 1);
}

static double part_seconds(const Plan *p, mg_conv_desc *d)
{
    const Device *v = p->device;
    const mg_conv_way w = mg_conv_way_of(d, true, true);
    if (mg_conv_idle(d, &w))
        return 0;
    const double width = (double)mg_conv_step_terms(d->dtype), rows = MG_CONV_ROWS,
                 columns = w.columns;
    const double steps = ceil((double)w.k / (width * w.splits));
    const double waves = ceil((double)(mg_conv_tiles(&w) * w.splits) / (2.0 * v->threads));
    double step = 2 * rows * columns * width / rate_of(p, d, &w);
    const double copies = (w.wide_x ? 0 : rows * width) + (w.wide_w ? 0 : columns * width);
    step = fmax(step, copies / COPIES);
    double seconds = waves * (START + steps * 2 * step);
    if (w.splits > 1) {
        const double sums = (double)(w.batch * w.m * w.n);
        const double bytes = sums * ((double)(w.splits * mg_conv_sum_bytes(d->dtype)) +
                                     (double)mg_dtype_bytes(d->out));
        seconds += fmax(bytes / v->bandwidth, v->launch);
    }
    return fmax(seconds, v->launch);
}

double convolution_seconds(const Plan *p, const Action *a)
{
    mg_conv_parts parts = mg_conv_cut(&a->conv, 0, 0, 0);
    mg_conv_part part;
    double all = 0;
    while (mg_conv_next(&parts, &part))
        all += part_seconds(p, &part.d);
    return fmax(all, a->bytes_moved / p->device->bandwidth);
}

/* The same tiles: of sorted rows half a tile more for each expert of a group, as the last is; of a
 * weight's gradient as many steps as an expert has rows, if all have as many. */
double grouped_seconds(const Plan *p, const Action *a)
{
    const Device *v = p->device;
    const mg_grouped_desc *d = &a->grouped;
    const bool weight = a->kind == ACT_grouped_weight;
    const double used = /* of all rows: those that are said to be some expert's */
        a->flops / (2 * (double)(d->groups * d->rows) * (double)d->k * (double)d->n);
    const mg_conv_desc c = mg_grouped_conv(d, weight);
    const mg_conv_way w = mg_grouped_way(d, weight, true, true);
    const double width = (double)mg_conv_step_terms(d->dtype), rows = MG_CONV_ROWS,
                 columns = w.columns, groups = (double)d->groups, experts = (double)d->experts;
    const double across = ceil((double)d->n / columns);
    const double tiles = weight ? experts * ceil((double)d->k / rows)
                                : groups * (used * (double)d->rows / rows + 0.5 * experts);
    const double steps = weight ? groups * ceil(used * (double)d->rows / experts / width)
                                : ceil((double)d->k / width);
    const double waves = ceil(tiles * across / (2.0 * v->threads));
    double step = 2 * rows * columns * width / rate_of(p, &c, &w);
    const double copies = (w.wide_x ? 0 : rows * width) + (w.wide_w ? 0 : columns * width);
    step = fmax(step, copies / COPIES);
    return fmax(fmax(waves * (START + steps * 2 * step), v->launch), a->bytes_moved / v->bandwidth);
}
