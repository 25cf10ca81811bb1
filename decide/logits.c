/* logits.c - how many logits a head computes at once, by plans that are made with it.
 *
 * Each chunk of rows reads the whole weight and adds to its whole gradient, so fewer and larger
 * chunks are faster; their logits take memory that perhaps nothing else needs. Tried are all rows
 * at once, half of them, a quarter, and so on down to the planner's default, and on below it only
 * while nothing fits: so a program that fits with any of them is not refused. Of what fits and
 * takes within WORTH of the shortest time, the smallest is taken. */
#include "decide/logits.h"
#include "decide/make.h"
#include "plan/place/place.h"
#include "plan/rates.h"

static const double WORTH = 0.001;
enum { TRIES = 64, LEAST_ROWS = 128 };

typedef struct Try {
    int64_t logits;
    bool fits;
    double seconds;
} Try;

static Plan *plan_of(const Module *module, const Device *d, int64_t logits, Arena *a)
{
    Module *m = module_copy(module, NULL, diag_silent(module->diag, a), a);
    m->layout.logits = logits;
    PlanJob job = {
        .m = m, .d = d, .a = a, .after = "logits", .upto = "place", .decided = true, .log = stderr};
    plan_make(&job); /* what does not fit is timed as well */
    if (!job.plan)
        return NULL;
    job.after = "place";
    job.upto = "timeline";
    plan_make(&job);
    return job.plan;
}

static bool try(const Module *m, const Device *d, int64_t logits, Try *t)
{
    Arena *tmp = arena_new();
    const Plan *p = plan_of(m, d, logits, tmp);
    const Program *g = !p ? NULL : p->train ? p->train : p->eval;
    if (g)
        *t = (Try){logits, plan_bytes(p) <= plan_budget(m, d), g->seconds};
    arena_free(tmp);
    return g;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes of all logits of the longest head, of one row, and of those that the default has at once.
 * False: there is no head. */
static bool measure(const Module *m, const Device *d, int64_t *all, int64_t *row, int64_t *usual)
{
    Arena *tmp = arena_new();
    const Plan *p = plan_of(m, d, 0, tmp);
    const Program *const programs[] = {p ? p->train : NULL, p ? p->eval : NULL,
                                       p ? p->sample : NULL};
    *all = *row = *usual = 0;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; programs[k] && i < programs[k]->actions.n; i++) {
            const Action *a = &programs[k]->actions.data[i];
            if (a->kind != ACT_head && a->kind != ACT_head_loss)
                continue;
            const int64_t one = rate_logits(&a->head);
            *row = larger(*row, one);
            *all = larger(*all, one * a->head.xent.rows);
            *usual = larger(*usual, one * a->head.chunk);
        }
    arena_free(tmp);
    return *all > 0;
}

/* The smallest of those that fit and are as good as the fastest; they are in falling order. */
static int64_t best_of(const Try *t, int n)
{
    double least = 0;
    int64_t best = 0;
    for (int i = 0; i < n; i++)
        if (t[i].fits && (least == 0 || t[i].seconds < least))
            least = t[i].seconds;
    for (int i = 0; i < n; i++)
        if (t[i].fits && t[i].seconds <= (1 + WORTH) * least)
            best = t[i].logits;
    return best;
}

void logits_choose(Module *m, const Device *d)
{
    Try t[TRIES];
    int n = 0;
    int64_t all, row, usual, bytes;
    if (d->target != TARGET_cuda || !measure(m, d, &all, &row, &usual))
        return;
    for (bytes = all; bytes > usual && n < TRIES / 2; bytes = (bytes + 1) / 2)
        n += try(m, d, bytes, &t[n]);
    n += try(m, d, 0, &t[n]);
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= t[i].fits;
    for (bytes = usual / 2; !any && bytes > LEAST_ROWS * row / 2 && n < TRIES; bytes /= 2) {
        n += try(m, d, bytes, &t[n]);
        any = n && t[n - 1].fits;
    }
    m->layout.logits = best_of(t, n);
}
