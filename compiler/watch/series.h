/* series.h - a number of a run by step, in bounded memory.
 *
 * A point is a step and a number. Points are kept in buckets: of one point each until there are
 * SERIES_BUCKETS of them; then two neighbours become one, and from there on a bucket takes twice as
 * many. So a run of any length has thousands of buckets, each with its least, greatest and mean
 * number: no spike is lost, and the mean of a bucket is exact. Invariant: steps rise, within a
 * bucket and from one to the next. */
#ifndef MGC_SERIES_H
#define MGC_SERIES_H

#include "base/arena.h"

enum { SERIES_BUCKETS = 4096 };

typedef struct Bucket {
    double first, last; /* steps */
    double min, max, sum;
    int64_t n; /* points, at least 1 */
} Bucket;

typedef struct Series {
    const char *name;
    int64_t per; /* points of a full bucket */
    VEC(Bucket) buckets;
    double newest; /* the number of the newest point */
} Series;

/* Adds a point. Points from `step` on are dropped first: a run that was resumed makes them anew. Of
 * a bucket that has such points together with earlier ones the earlier ones go, too. */
void series_add(Arena *a, Series *s, double step, double value);
static inline double bucket_mean(const Bucket *b)
{
    return b->sum / (double)b->n;
}
/* The number at a step, between the means of the two buckets around it; at the ends theirs.
 * NAN without points. */
double series_at(const Series *s, double step);

#endif
