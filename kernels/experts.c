/* experts.c - finds the largest of a few scores, and moves rows to experts and back. */
#include "kernels/experts.h"

#define MGK_BODY "kernels/experts_body.h"
#include "kernels/each_isa.h"

static mg_task *const send_tasks[][MGK_FLOATS] = MGK_TABLE(experts_send);
static mg_task *const fetch_tasks[][MGK_FLOATS] = MGK_TABLE(experts_fetch);
static mg_task *const product_tasks[][MGK_FLOATS] = MGK_TABLE(experts_product);

/* Units for a thread, so that it moves at least 32 KB. */
static int64_t grain(int64_t unit_bytes)
{
    return unit_bytes >= 32768 ? 1 : 32768 / (unit_bytes + 1) + 1;
}

/* ---- top ------------------------------------------------------------------------------------ */

typedef struct Top {
    const mg_top_desc *d;
    const void *x;
    int32_t *y;
} Top;

static double score(const Top *t, int64_t at)
{
    return t->d->dtype == MG_F64 ? ((const double *)t->x)[at] : (double)((const float *)t->x)[at];
}

/* True if number a at index `at` precedes b at `bt`: larger first, of equal ones the first, NaN
 * last. */
static bool before(double a, int64_t at, double b, int64_t bt)
{
    if (isnan(a) || isnan(b))
        return isnan(a) == isnan(b) ? at < bt : isnan(b);
    return a > b || (a == b && at < bt);
}

/* Each iteration takes the first number after the one taken before. */
static void top_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Top *t = ctx;
    const mg_top_desc *d = t->d;
    for (int64_t r = begin; r < end; r++) {
        int64_t last = -1;
        for (int64_t k = 0; k < d->top; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < d->n; i++) {
                double x = score(t, r * d->n + i);
                if (i != last && (last < 0 || before(score(t, r * d->n + last), last, x, i)) &&
                    (best < 0 || before(x, i, score(t, r * d->n + best), best)))
                    best = i;
            }
            t->y[r * d->top + k] = (int32_t)best;
            last = best;
        }
    }
}

void mg_top(mg_run *r, int action, const mg_top_desc *d, const void *x, int32_t *y)
{
    mgk_real(d->dtype, "mg_top");
    Top t = {d, x, y};
    mg_begin(r, action);
    mg_parallel(r, d->rows, grain(d->n * d->top * 8), top_rows, &t);
    mg_end(r, action);
    mg_output(r, action, y, d->rows * d->top, MG_I32);
}

/* ---- slots ---------------------------------------------------------------------------------- */

typedef struct Slots {
    const mg_experts_desc *d;
    const int32_t *choice;
    int32_t *slot;
} Slots;

/* A unit is an expert of a group, which counts its own choices, behind those of the experts before
 * it in its home. */
static void count_slots(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Slots *s = ctx;
    const mg_experts_desc *d = s->d;
    const int64_t all = d->positions * d->choices, each = d->experts / d->homes;
    for (int64_t u = begin; u < end; u++) {
        const int32_t e = (int32_t)(u % d->experts), *choice = s->choice + u / d->experts * all;
        const int32_t first = (int32_t)(e / each * each);
        int32_t *slot = s->slot + u / d->experts * all;
        int64_t next = 0;
        for (int64_t c = 0; first < e && c < all; c++)
            next += choice[c] >= first && choice[c] < e;
        for (int64_t c = 0; c < all; c++) {
            if (choice[c] != e)
                continue;
            slot[c] = next < d->slots ? (int32_t)next : -1;
            next++;
        }
    }
}

void mg_slots(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice, int32_t *slot)
{
    Slots s = {d, choice, slot};
    mg_begin(r, action);
    mg_parallel(r, d->groups * d->experts, grain(d->positions * d->choices * 4), count_slots, &s);
    mg_end(r, action);
    mg_output(r, action, slot, d->groups * d->positions * d->choices, MG_I32);
}

/* A unit is a group. */
static void count_ends(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Slots *s = ctx;
    const mg_experts_desc *d = s->d;
    const int64_t all = d->positions * d->choices, each = d->experts / d->homes;
    for (int64_t g = begin; g < end; g++) {
        for (int64_t h = 0; h < d->homes; h++)
            memset(s->slot + (h * d->groups + g) * each, 0, (size_t)each * sizeof *s->slot);
        for (int64_t c = g * all; c < (g + 1) * all; c++)
            s->slot[(s->choice[c] / each * d->groups + g) * each + s->choice[c] % each]++;
        for (int64_t h = 0; h < d->homes; h++) {
            int32_t *to = s->slot + (h * d->groups + g) * each;
            for (int64_t e = 0; e < each; e++) {
                to[e] += e ? to[e - 1] : 0;
                to[e] = to[e] < d->slots ? to[e] : (int32_t)d->slots;
            }
        }
    }
}

void mg_ends(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice, int32_t *end)
{
    Slots s = {d, choice, end};
    mg_begin(r, action);
    mg_parallel(r, d->groups, grain(d->positions * d->choices * 4), count_ends, &s);
    mg_end(r, action);
    mg_output(r, action, end, d->groups * d->experts, MG_I32);
}

/* ---- dispatch and combine ------------------------------------------------------------------- */

static void clear(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_experts *x = ctx;
    const int64_t bytes = x->d->inner * mg_dtype_bytes(x->d->dtype);
    memset((char *)x->z + begin * bytes, 0, (size_t)((end - begin) * bytes));
}

static int64_t row_grain(const mg_experts_desc *d, int64_t rows)
{
    return grain(rows * d->inner * mg_dtype_bytes(d->dtype));
}

void mg_dispatch(mg_run *r, int action, const mg_experts_desc *d, const void *rows,
                 const int32_t *choice, const int32_t *slot, const void *weight, void *z)
{
    const int type = mgk_float(d->dtype, "mg_dispatch");
    const int64_t all = d->homes * d->groups * d->slots;
    mgk_experts x = {d, (void *)rows, z, (void *)weight, choice, slot};
    mg_begin(r, action);
    mg_parallel(r, all, row_grain(d, 1), clear, &x);
    mg_parallel(r, d->groups * d->positions, row_grain(d, d->choices), send_tasks[mgk_isa()][type],
                &x);
    mg_end(r, action);
    mg_output(r, action, z, all * d->inner, d->dtype);
}

void mg_combine(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                const int32_t *choice, const int32_t *slot, const void *weight, void *rows)
{
    const int type = mgk_float(d->dtype, "mg_combine");
    const int64_t all = d->groups * d->positions;
    mgk_experts x = {d, rows, (void *)z, (void *)weight, choice, slot};
    mg_begin(r, action);
    mg_parallel(r, all, row_grain(d, d->choices), fetch_tasks[mgk_isa()][type], &x);
    mg_end(r, action);
    mg_output(r, action, rows, all * d->inner, d->dtype);
}

void mg_combine_weight(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                       const void *rows, const int32_t *choice, const int32_t *slot, void *weight)
{
    const int type = mgk_float(d->dtype, "mg_combine_weight");
    const int64_t all = d->groups * d->positions * d->choices;
    mgk_experts x = {d, (void *)rows, (void *)z, weight, choice, slot};
    mg_begin(r, action);
    mg_parallel(r, all, row_grain(d, 2), product_tasks[mgk_isa()][type], &x);
    mg_end(r, action);
    mg_output(r, action, weight, all, mgk_wide(d->dtype));
}
