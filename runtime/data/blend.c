/* blend.c - reads several sources of data in proportion to their weights.
 *
 * Sequence g of a run comes from the source that is furthest behind its share of the first g + 1
 * sequences (of equal ones the first). The choice depends only on the weights and g, and each
 * prefix of the run has each share to within one sequence. The k-th sequence taken from a source is
 * the k-th of that source: each source is permuted and repeated independently. The counts at the
 * last g are kept, because runs go forward; for an earlier g they are counted again from the
 * start. */
#include "runtime/run.h"
#include "runtime/data/sources.h"

#include <stdlib.h>
#include <string.h>

struct rt_blend {
    int n;
    rt_data **source;
    double *share;      /* sums to 1 */
    int64_t *count, at; /* sequences of each source before number `at` */
};

rt_blend *rt_blend_new(rt_data **source, const double *weight, int n)
{
    rt_blend *b = rt_alloc(1, sizeof *b);
    double sum = 0;
    b->n = n;
    b->source = source;
    b->share = rt_alloc((size_t)n, sizeof *b->share);
    b->count = rt_alloc((size_t)n, sizeof *b->count);
    for (int i = 0; i < n; i++)
        sum += weight[i];
    for (int i = 0; i < n; i++)
        b->share[i] = weight[i] / sum;
    return b;
}

static int next_source(const rt_blend *b, int64_t g)
{
    int best = 0;
    double max = -1e300;
    for (int i = 0; i < b->n; i++) {
        double behind = b->share[i] * (double)(g + 1) - (double)b->count[i];
        if (behind > max) {
            max = behind;
            best = i;
        }
    }
    return best;
}

const rt_data *rt_blend_pick(rt_blend *b, int64_t g, int64_t *index)
{
    if (g < b->at) {
        memset(b->count, 0, (size_t)b->n * sizeof *b->count);
        b->at = 0;
    }
    for (; b->at < g; b->at++)
        b->count[next_source(b, b->at)]++;
    int i = next_source(b, g);
    *index = b->count[i];
    return b->source[i];
}

const rt_data *rt_blend_in_order(const rt_blend *b, int64_t *index)
{
    int i = 0;
    while (i + 1 < b->n && *index >= b->source[i]->windows) {
        *index -= b->source[i]->windows;
        i++;
    }
    return b->source[i];
}

uint64_t rt_blend_key(const rt_blend *b)
{
    uint64_t key = (uint64_t)b->n;
    for (int i = 0; i < b->n; i++) {
        uint64_t bits;
        memcpy(&bits, &b->share[i], sizeof bits);
        key = rt_mix64(key ^ bits);
    }
    return key;
}

int rt_blend_sources(const rt_blend *b, rt_data ***source)
{
    *source = b->source;
    return b->n;
}

/* A blend with the same shares of other data sets: those that were held out of each source. */
rt_blend *rt_blend_like(const rt_blend *b, rt_data **source)
{
    return rt_blend_new(source, b->share, b->n);
}

void rt_blend_free(rt_blend *b)
{
    for (int i = 0; i < b->n; i++)
        rt_data_close(b->source[i]);
    free(b->source);
    free(b->share);
    free(b->count);
    free(b);
}
