/* series.c - numbers by step; see series.h. */
#include "compiler/watch/series.h"

#include <math.h>

/* Two neighbours become one; a last one that has none stays. */
static void halve(Series *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->buckets.n; i += 2) {
        Bucket b = s->buckets.data[i];
        if (i + 1 < s->buckets.n) {
            const Bucket *c = &s->buckets.data[i + 1];
            b.last = c->last;
            b.min = fmin(b.min, c->min);
            b.max = fmax(b.max, c->max);
            b.sum += c->sum;
            b.n += c->n;
        }
        s->buckets.data[kept++] = b;
    }
    s->buckets.n = kept;
    s->per *= 2;
}

void series_add(Arena *a, Series *s, double step, double value)
{
    if (!s->per)
        s->per = 1;
    while (s->buckets.n && s->buckets.data[s->buckets.n - 1].last >= step)
        s->buckets.n--;
    s->newest = value;
    Bucket *last = s->buckets.n ? &s->buckets.data[s->buckets.n - 1] : NULL;
    if (last && last->n < s->per) {
        last->last = step;
        last->min = fmin(last->min, value);
        last->max = fmax(last->max, value);
        last->sum += value;
        last->n++;
        return;
    }
    if (s->buckets.n == SERIES_BUCKETS)
        halve(s);
    vec_push(a, &s->buckets, (Bucket){step, step, value, value, value, 1});
}

static double middle(const Bucket *b)
{
    return b->first + (b->last - b->first) / 2;
}

double series_at(const Series *s, double step)
{
    size_t low = 0, high = s->buckets.n;
    if (!high)
        return NAN;
    while (low < high) { /* the first whose middle is not before the step */
        const size_t m = low + (high - low) / 2;
        if (middle(&s->buckets.data[m]) < step)
            low = m + 1;
        else
            high = m;
    }
    if (low == 0)
        return bucket_mean(&s->buckets.data[0]);
    const Bucket *a = &s->buckets.data[low - 1];
    if (low == s->buckets.n)
        return bucket_mean(a);
    const Bucket *b = &s->buckets.data[low];
    const double part = (step - middle(a)) / (middle(b) - middle(a));
    return bucket_mean(a) + part * (bucket_mean(b) - bucket_mean(a));
}
