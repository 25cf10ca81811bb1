/* series.c - numbers by step; see series.h. */
#include "compiler/watch/series.h"

#include <math.h>

/* Two neighbours become one; a last one that has none stays. */
static void halve(Series *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->bins.n; i += 2) {
        Bin b = s->bins.data[i];
        if (i + 1 < s->bins.n) {
            const Bin *c = &s->bins.data[i + 1];
            b.last = c->last;
            b.min = fmin(b.min, c->min);
            b.max = fmax(b.max, c->max);
            b.sum += c->sum;
            b.n += c->n;
        }
        s->bins.data[kept++] = b;
    }
    s->bins.n = kept;
    s->per *= 2;
}

void series_add(Arena *a, Series *s, double step, double value)
{
    if (!s->per)
        s->per = 1;
    while (s->bins.n && s->bins.data[s->bins.n - 1].last >= step)
        s->bins.n--;
    s->newest = value;
    Bin *last = s->bins.n ? &s->bins.data[s->bins.n - 1] : NULL;
    if (last && last->n < s->per) {
        last->last = step;
        last->min = fmin(last->min, value);
        last->max = fmax(last->max, value);
        last->sum += value;
        last->n++;
        return;
    }
    if (s->bins.n == SERIES_BINS)
        halve(s);
    vec_push(a, &s->bins, (Bin){step, step, value, value, value, 1});
}
