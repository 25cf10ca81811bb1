/* logits.c - how many logits a head computes at once, by plans that are made with it.
 *
 * Each chunk of rows reads the whole weight and adds to its whole gradient, so fewer and larger
 * chunks are faster; their logits take memory that perhaps nothing else needs. Tried are all rows
 * at once, half of them, a quarter, and so on down to the planner's default, and on below it only
 * while nothing fits: so a program that fits with any of them is not refused. Of what fits and
 * takes within WORTH of the shortest time, the smallest is taken; both are found by bisection. */
#include "decide/logits.h"

#include <string.h>

#include "base/parallel.h"
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
    PlanJob job = plan_compared(m, d, a, "logits");
    job.rough = true;
    plan_make(&job); /* what does not fit is timed as well */
    if (!job.plan)
        return NULL;
    job.after = "place";
    job.upto = "timeline";
    plan_make(&job);
    return job.plan;
}

static bool judge(const Plan *p, int64_t logits, Try *t)
{
    const Program *g = !p ? NULL : p->train ? p->train : p->eval;
    if (g)
        *t = (Try){logits, plan_bytes(p) <= plan_budget(p->module, p->device), g->seconds};
    return g;
}

static bool try(const Module *m, const Device *d, int64_t logits, Try *t)
{
    Arena *tmp = arena_new();
    const bool judged = judge(plan_of(m, d, logits, tmp), logits, t);
    arena_free(tmp);
    return judged;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes of all logits of the longest head, of one row, and of those that the default has at once;
 * and the default, tried. False: there is no head. */
static bool measure(const Module *m, const Device *d, int64_t *all, int64_t *row, int64_t *usual,
                    Try *t)
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
    judge(p, 0, t);
    arena_free(tmp);
    return *all > 0;
}

typedef struct Tries {
    const Module *m;
    const Device *d;
    Try t[TRIES]; /* logits in falling order; 0, the planner's default, is the last */
    bool tried[TRIES];
    int n;
} Tries;

/* Some of them. */
typedef struct Some {
    const Tries *all;
    int from;
} Some;

static void tell_try(void *ctx, int k, FILE *out)
{
    const Some *some = ctx;
    const Tries *all = some->all;
    Try t = all->t[some->from + k];
    try(all->m, all->d, t.logits, &t);
    fwrite(&t, sizeof t, 1, out);
}

/* Tries those from one on, up to another, at once; with a first that is not tried yet. */
static void try_some(Tries *all, int from, int end)
{
    enum { MOST = 2 };
    Arena *tmp = arena_new();
    Written w[MOST];
    int n = 0;
    while (n < MOST && from + n < end && !all->tried[from + n])
        n++;
    parallel_map(n, tell_try, &(Some){all, from}, tmp, w);
    for (int k = 0; k < n; k++) {
        if (w[k].n == sizeof *all->t)
            memcpy(&all->t[from + k], w[k].bytes, sizeof *all->t);
        all->tried[from + k] = true;
    }
    arena_free(tmp);
}

static const Try *tried(Tries *all, int i)
{
    try_some(all, i, i + 1);
    return &all->t[i];
}

/* The first that fits: fewer at once take no more memory. all->n: none does. Beside each the next
 * is tried, which is asked for soon: where this one does not fit, or whether fewer are as good. */
static int first_that_fits(Tries *all)
{
    int from = 0, to = all->n;
    while (from < to) {
        const int middle = (from + to) / 2;
        try_some(all, middle, all->n);
        if (tried(all, middle)->fits)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

/* The last from `first` on that is as good: fewer at once are no faster. */
static int last_as_good(Tries *all, int first)
{
    const double most = (1 + WORTH) * tried(all, first)->seconds;
    int from = first, to = all->n - 1;
    while (from < to) {
        const int middle = (from + to + 1) / 2;
        if (tried(all, middle)->fits && tried(all, middle)->seconds <= most)
            from = middle;
        else
            to = middle - 1;
    }
    return from;
}

void logits_choose(Module *m, const Device *d)
{
    Tries all = {.m = m, .d = d};
    Try t = {0}, by_default = {0};
    int64_t most, row, usual, bytes;
    if (d->target != TARGET_cuda || !measure(m, d, &most, &row, &usual, &by_default))
        return;
    for (bytes = most; bytes > usual && all.n < TRIES - 1; bytes = (bytes + 1) / 2)
        all.t[all.n++].logits = bytes;
    all.tried[all.n] = true;
    all.t[all.n++] = by_default;
    const int first = first_that_fits(&all);
    m->layout.logits = first < all.n ? all.t[last_as_good(&all, first)].logits : 0;
    for (bytes = usual / 2; first == all.n && !t.fits && bytes > LEAST_ROWS * row / 2; bytes /= 2)
        if (try(m, d, bytes, &t) && t.fits)
            m->layout.logits = bytes;
}
