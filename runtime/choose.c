/* choose.c - a token by its logit: penalty, temperature, then what is left out (top_k, top_p,
 * min_p, in this order), then one of the rest by its probability.
 *
 * Tokens, where none is left out, are added up in their order, else the likeliest first; of equal
 * ones the first comes first. So the same numbers give the same token anywhere. */
#include "runtime/sample.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    double z;
    int32_t token;
} candidate;

static int likelier(const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    return a->z > b->z ? -1 : a->z < b->z ? 1 : (a->token > b->token) - (a->token < b->token);
}

static void penalize(double by, double *z, int64_t n, const rt_text *t)
{
    bool *there = rt_alloc((size_t)n, sizeof *there);
    for (int64_t i = t->from; i < t->n; i++)
        if (!there[t->token[i]]) {
            double *of = &z[t->token[i]];
            *of = *of > 0 ? *of / by : *of * by;
            there[t->token[i]] = true;
        }
    free(there);
}

/* The largest of n numbers, none of them a NaN: of some at once. */
static double largest(const double *z, int64_t n)
{
    enum { LANES = 16 };
    const int64_t whole = n / LANES * LANES;
    double top[LANES];
    for (int k = 0; k < LANES; k++)
        top[k] = z[0];
    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++)
            top[k] = z[i + k] > top[k] ? z[i + k] : top[k];
    for (int64_t k = 0; k < n - whole; k++)
        top[k] = z[whole + k] > top[k] ? z[whole + k] : top[k];
    for (int k = 1; k < LANES; k++)
        top[0] = top[k] > top[0] ? top[k] : top[0];
    return top[0];
}

static int64_t likeliest(const double *z, int64_t n)
{
    bool good = true;
    for (int64_t i = 0; i < n; i++)
        good &= fabs(z[i]) <= DBL_MAX;
    for (int64_t i = 0; i < n && !good; i++)
        if (!isfinite(z[i]))
            rt_die(RT_FAILED, "--sample: the logit of token %lld is %g", (long long)i, z[i]);
    const double top = largest(z, n);
    int64_t best = 0;
    while (z[best] < top)
        best++;
    return best;
}

/* Of all, by the order of tokens. z becomes probabilities. */
static int32_t of_all(double *z, int64_t n, int64_t best, double temperature, double u)
{
    const double top = z[best];
    double sum = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        sum += z[i] = exp((z[i] - top) / temperature);
    u *= sum;
    for (int64_t i = 0; i < n; i++) {
        at += z[i];
        if (u < at)
            return (int32_t)i;
    }
    return (int32_t)best; /* rounding made u as large as the whole sum */
}

/* Puts the k likeliest of n in front, in any order: like quicksort, of one side only. */
static void divide(candidate *all, int64_t n, int64_t k)
{
    while (n > 1 && k > 0 && k < n) {
        const candidate middle = all[n / 2];
        int64_t i = 0, j = n - 1;
        for (;;) {
            while (likelier(&all[i], &middle) < 0)
                i++;
            while (likelier(&middle, &all[j]) < 0)
                j--;
            if (i >= j)
                break;
            const candidate c = all[i];
            all[i++] = all[j];
            all[j--] = c;
        }
        if (k <= i) { /* none behind i is likelier than one before it */
            n = i;
        } else {
            all += i;
            n -= i;
            k -= i;
        }
    }
}

/* A number that at least k of n logits reach, and few others do, as a vocabulary is long: of some
 * blocks of it, the largest of each is looked at, of which the k-th is such a number. */
static double reached(const double *z, int64_t n, int64_t k, candidate *all)
{
    enum { BLOCK = 64 };
    const int64_t blocks = n / BLOCK;
    if (k > blocks)
        return -INFINITY;
    for (int64_t i = 0; i < blocks; i++)
        all[i] = (candidate){largest(z + i * BLOCK, BLOCK), (int32_t)i};
    divide(all, blocks, k);
    double least = all[0].z;
    for (int64_t i = 1; i < k; i++)
        least = all[i].z < least ? all[i].z : least;
    return least;
}

/* The k likeliest in front of `all`, in any order. */
static void likeliest_of(const double *z, int64_t n, int64_t k, candidate *all)
{
    const double least = reached(z, n, k, all);
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (z[i] >= least)
            all[m++] = (candidate){z[i], (int32_t)i};
    divide(all, m, k);
}

/* The candidates whose probability beside that of the likeliest is at least `least`. */
static int64_t above(const double *z, int64_t n, const double *p, double least, candidate *all)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (p[i] >= least)
            all[m++] = (candidate){z[i], (int32_t)i};
    return m;
}

/* All that top_p and min_p may keep of all tokens, and few others: a vocabulary is long, and nearly
 * all of it unlikely, so that sorting it would take longer than a small model. p: beside the
 * likeliest. */
static int64_t likely(const rt_choice *c, const double *z, int64_t n, const double *p,
                      candidate *all)
{
    enum { STEP = 16 };
    double sum = 0, least = 1;
    if (c->top_p >= 1)
        return above(z, n, p, c->min_p, all);
    for (int64_t i = 0; i < n; i++)
        sum += p[i];
    for (double mass = 0; mass < c->top_p * sum && least > 0x1p-1000;) {
        least /= STEP;
        mass = 0;
        for (int64_t i = 0; i < n; i++)
            mass += p[i] >= least ? p[i] : 0;
    }
    return above(z, n, p, least, all);
}

/* How many of the likeliest are kept, of m in order, whose probabilities are p and have this sum
 * with all others. */
static int64_t kept(const rt_choice *c, const double *p, int64_t m, double sum)
{
    double at = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < m && (c->top_p >= 1 || at < c->top_p * sum); i++, n++)
        at += p[i];
    while (n > 1 && p[n - 1] < c->min_p * p[0])
        n--;
    return n > 0 ? n : 1;
}

static int32_t of_likeliest(const rt_choice *c, const double *z, int64_t n, int64_t best, double u)
{
    candidate *all = rt_alloc((size_t)n, sizeof *all);
    double *p = rt_alloc((size_t)n, sizeof *p), total = 0, sum = 0, so_far = 0;
    const bool few = c->top_k > 0 && c->top_k < n;
    int64_t m, at;
    for (int64_t i = 0; i < n && !few; i++)
        total += p[i] = exp((z[i] - z[best]) / c->temperature);
    if (few) {
        m = c->top_k;
        likeliest_of(z, n, m, all);
    } else {
        m = likely(c, z, n, p, all);
    }
    qsort(all, (size_t)m, sizeof *all, likelier);
    for (int64_t i = 0; i < m; i++)
        p[i] = exp((all[i].z - z[best]) / c->temperature);
    for (int64_t i = 0; i < m && few; i++)
        total += p[i];
    m = kept(c, p, m, total);
    for (int64_t i = 0; i < m; i++)
        sum += p[i];
    for (at = 0; at + 1 < m && (so_far += p[at]) <= u * sum; at++)
        ;
    const int32_t token = all[at].token;
    free(all);
    free(p);
    return token;
}

int32_t rt_choose(const rt_choice *c, double *z, int64_t n, const rt_text *t, double u)
{
    if (c->penalty > 1 || c->penalty < 1)
        penalize(c->penalty, z, n, t);
    const int64_t best = likeliest(z, n);
    if (c->temperature == 0)
        return (int32_t)best;
    if (c->top_k == 0 && c->top_p >= 1 && c->min_p <= 0)
        return of_all(z, n, best, c->temperature, u);
    return of_likeliest(c, z, n, best, u);
}
