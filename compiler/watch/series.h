/* series.h - a number of a run by step, in bounded memory.
 *
 * A point is a step and a number. Points are kept in bins: of one point each until there are
 * SERIES_BINS of them; then two neighbours become one, and from there on a bin takes twice as
 * many. So a run of any length has thousands of bins, each with its least, greatest and mean
 * number: no spike is lost, and the mean of a bin is exact. Invariant: steps rise, within a
 * bin and from one to the next. */
#ifndef MGC_SERIES_H
#define MGC_SERIES_H

#include "base/arena.h"

enum { SERIES_BINS = 4096 };

typedef struct Bin {
    double first, last; /* steps */
    double min, max, sum;
    int64_t n; /* points, at least 1 */
} Bin;

typedef struct Series {
    const char *name;
    int64_t per; /* points of a full bin */
    VEC(Bin) bins;
    double newest; /* the number of the newest point */
} Series;

/* Adds a point. Points from `step` on are dropped first: a run that was resumed makes them anew. Of
 * a bin that has such points together with earlier ones the earlier ones go, too. */
void series_add(Arena *a, Series *s, double step, double value);
static inline double bin_mean(const Bin *b)
{
    return b->sum / (double)b->n;
}

#endif
