/* run_experts.c - what calls on experts mean, in loops; see run_plan.h. */
#include "tests/plan/run_calls.h"

#include <stdlib.h>

#include "tests/plan/run_plan.h"

static double get(mg_dtype t, const void *p, int64_t i)
{
    return number_at(p, type_of_code(t), i);
}

static void put(mg_dtype t, void *p, int64_t i, double x)
{
    number_put(p, type_of_code(t), i, x);
}

static void add(mg_dtype t, void *p, int64_t i, double x)
{
    put(t, p, i, get(t, p, i) + x);
}

/* p: x y */
void run_top(const mg_top_desc *d, void *const *p)
{
    int32_t *y = p[1];
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t k = 0; k < d->top; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < d->n; i++) {
                bool taken = false;
                for (int64_t j = 0; j < k; j++)
                    taken |= y[r * d->top + j] == i;
                if (!taken && (best < 0 || get(d->dtype, p[0], r * d->n + i) >
                                               get(d->dtype, p[0], r * d->n + best)))
                    best = i;
            }
            y[r * d->top + k] = (int32_t)best;
        }
}

static void run_slots(const mg_experts_desc *d, const int32_t *choice, int32_t *slot)
{
    int64_t each = d->positions * d->choices, home = d->experts / d->homes;
    for (int64_t c = 0; c < d->groups * each; c++) {
        int64_t before = 0;
        for (int64_t k = c / each * each; k < c; k++)
            before += choice[k] == choice[c];
        for (int64_t k = c / each * each; k < (c / each + 1) * each; k++)
            before += choice[k] < choice[c] && choice[k] / home == choice[c] / home;
        slot[c] = before < d->slots ? (int32_t)before : -1;
    }
}

static void run_ends(const mg_experts_desc *d, const int32_t *choice, int32_t *end)
{
    int64_t each = d->positions * d->choices, home = d->experts / d->homes;
    for (int64_t u = 0; u < d->groups * d->experts; u++) {
        int64_t h = u / home / d->groups, g = u / home % d->groups;
        end[u] = 0;
        for (int64_t c = g * each; c < (g + 1) * each; c++)
            end[u] += choice[c] / home == h && choice[c] <= h * home + u % home;
        end[u] = end[u] < d->slots ? end[u] : (int32_t)d->slots;
    }
}

/* slots, ends: choice result; the others: rows of slots or positions, ... choice slot [weight]
 * result */
void run_experts(ActionKind kind, const mg_experts_desc *d, int n, void *const *p)
{
    bool product = kind == ACT_combine_weight, send = kind == ACT_dispatch;
    const int32_t *choice = p[product ? 2 : 1], *slot = p[product ? 3 : 2];
    const mg_dtype wide = d->dtype == MG_F64 ? MG_F64 : MG_F32;
    if (kind == ACT_slots) {
        run_slots(d, p[0], p[1]);
        return;
    }
    if (kind == ACT_ends) {
        run_ends(d, p[0], p[1]);
        return;
    }
    int64_t results = send      ? d->homes * d->groups * d->slots * d->inner
                      : product ? d->groups * d->positions * d->choices
                                : d->groups * d->positions * d->inner;
    for (int64_t e = 0; e < results; e++)
        put(product ? wide : d->dtype, p[n - 1], e, 0);
    for (int64_t c = 0; c < d->groups * d->positions * d->choices; c++) {
        int64_t g = c / (d->positions * d->choices), at = c / d->choices * d->inner;
        int64_t of = choice[c] / (d->experts / d->homes) * d->groups + g;
        int64_t z = (of * d->slots + slot[c]) * d->inner;
        double weight = n == 5 && !product ? get(wide, p[3], c) : 1, sum = 0;
        for (int64_t j = 0; slot[c] >= 0 && j < d->inner; j++) {
            if (send)
                put(d->dtype, p[n - 1], z + j, get(d->dtype, p[0], at + j) * weight);
            else if (!product)
                add(d->dtype, p[n - 1], at + j, get(d->dtype, p[0], z + j) * weight);
            sum += product ? get(d->dtype, p[0], z + j) * get(d->dtype, p[1], at + j) : 0;
        }
        if (product)
            put(wide, p[4], c, sum);
    }
}

/* p: z w end y, or of a weight's gradient z y end w */
void run_grouped(const mg_grouped_desc *d, bool weight, void *const *p)
{
    int64_t matrices = d->experts * d->k * d->n, rows = d->groups * d->rows;
    double *sum = calloc((size_t)(weight ? matrices : rows * d->n), sizeof *sum);
    for (int64_t r = 0; r < rows; r++) {
        const int32_t *end = (int32_t *)p[2] + r / d->rows * d->experts;
        int64_t e = 0;
        while (e < d->experts && r % d->rows >= end[e])
            e++;
        for (int64_t x = 0; x < d->k * d->n && e < d->experts; x++) {
            int64_t k = x / d->n, n = x % d->n,
                    w = e * d->k * d->n + (d->turned ? n * d->k + k : x);
            double z = get(d->dtype, p[0], r * d->k + k);
            if (weight)
                sum[w] += z * get(d->dtype, p[1], r * d->n + n);
            else
                sum[r * d->n + n] += z * get(d->dtype, p[1], w);
        }
    }
    for (int64_t x = 0; x < (weight ? matrices : rows * d->n); x++)
        put(d->out, p[3], x, sum[x] + (d->accumulate ? get(d->out, p[3], x) : 0));
    free(sum);
}
