/* whole.c - ways from behind a decision to the end, with all later decisions; see settled.h. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "decide/settled.h"

/* Ways that are gone at once. */
typedef struct Ways {
    const Module *m;
    const Device *d;
    const char *after;
    const Layout *as;
} Ways;

static void go(void *ctx, int k, FILE *out)
{
    const Ways *w = ctx;
    Arena *tmp = arena_new();
    Module *m = module_copy(w->m, NULL, diag_silent(w->m->diag, tmp), tmp);
    Settled *found = NEW(tmp, Settled);
    m->layout = w->as[k];
    PlanJob job = plan_onward(m, w->d, tmp, w->after, found);
    const bool fits = plan_make(&job) == PASS_ok && job.plan->train;
    const double seconds = fits ? job.plan->train->seconds : INFINITY;
    fwrite(&seconds, sizeof seconds, 1, out);
    settled_write(out, found);
    arena_free(tmp);
}

void whole_ways(const Module *m, const Device *d, const char *after, const Layout *as, int n,
                Arena *a, WholeWay *way)
{
    Ways ways = {m, d, after, as};
    Arena *tmp = arena_new();
    Written *w = NEW_ARRAY(tmp, Written, n + 1);
    parallel_map(n, go, &ways, tmp, w);
    for (int k = 0; k < n; k++) {
        const size_t begins = sizeof way[k].seconds;
        way[k] = (WholeWay){.seconds = INFINITY};
        if (w[k].n < begins)
            continue;
        memcpy(&way[k].seconds, w[k].bytes, begins);
        if (!isinf(way[k].seconds))
            way[k].settled = settled_read(w[k].bytes + begins, w[k].n - begins, a);
    }
    arena_free(tmp);
}
