/* calibrate_rounds.c - what several runs of the same programs say together.
 *
 * A machine that others share changes its speed: within minutes, and for tenths of a second. All
 * programs take turns, some steps each, so that a slow minute meets all of them and not one. A
 * round that took much longer than the others does not count. Of those that do, each action counts
 * by its mean: a step is a sum of actions, some of which are slow in any round, and a median would
 * be blind to them. Where rounds differ much there are more of them. */
#include "compiler/calibrate_rounds.h"

#include <stdlib.h>
#include <string.h>

static const double SETTLED = 1.15; /* the slow half's median beside the fast half's */
static const double LONG = 20;      /* seconds of traced steps, some ten times a quiet machine's */
static const double SLOW = 1.4;     /* a round beside the median of all */

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(const double *sorted, int n)
{
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

bool calibrate_counts(const double *seconds, int n, int k)
{
    double sorted[CALIBRATE_MOST_ROUNDS];
    memcpy(sorted, seconds, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return seconds[k] <= SLOW * median(sorted, n);
}

/* Microseconds of action `id`, by the mean of the rounds that count. */
static double typical(const Report *run, const double *seconds, int n, size_t id)
{
    double us = 0;
    int have = 0;
    for (int k = 0; k < n; k++)
        if (id < run[k].actions.n && run[k].actions.data[id].name &&
            calibrate_counts(seconds, n, k)) {
            us += run[k].actions.data[id].measured;
            have++;
        }
    return have ? us / have : 0;
}

Report calibrate_typical(Arena *a, const Report *run, const double *seconds, int n)
{
    Report r = run[0];
    r.a = a;
    r.actions.data = NULL, r.actions.n = r.actions.cap = 0;
    r.kinds.data = NULL, r.kinds.n = r.kinds.cap = 0;
    for (size_t id = 0; id < run[0].actions.n; id++) {
        ReportLine l = run[0].actions.data[id];
        l.measured = l.name ? typical(run, seconds, n, id) : 0;
        vec_push(a, &r.actions, l);
        if (!l.name)
            continue;
        ReportLine *kind = report_kind(&r, l.kind);
        kind->calls += l.calls;
        kind->measured += l.measured;
        kind->predicted += l.predicted;
        kind->flops += l.flops;
        kind->bytes += l.bytes;
    }
    return r;
}

double calibrate_scatter(const double *seconds, int n)
{
    double sorted[CALIBRATE_MOST_ROUNDS];
    const int half = n / 2;
    memcpy(sorted, seconds, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return median(sorted + n - half, half) / median(sorted, half);
}

bool calibrate_settled(const double *seconds, int n)
{
    double all = 0;
    for (int k = 0; k < n; k++)
        all += seconds[k];
    return n >= CALIBRATE_MOST_ROUNDS || (n >= CALIBRATE_LEAST_ROUNDS && all > LONG) ||
           (n >= CALIBRATE_ROUNDS && calibrate_scatter(seconds, n) <= SETTLED);
}
