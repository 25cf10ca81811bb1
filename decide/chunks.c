/* chunks.c - how many positions of a linear recurrence are computed at once, by plans that are made
 * with it.
 *
 * Longer chunks mean fewer iterations that wait for each other and fewer states that are kept, but
 * more scores of positions with each other. Tried are powers of two, and one position at a time.
 * Taken is the fastest step; the backward pass is planned as by default, since the frontier is
 * chosen afterwards, and without offload: neither changes the program that is computed, so neither
 * may change its bits. */
#include "decide/chunks.h"

#include "decide/make.h"
#include "passes/model/linear.h"

#include <string.h>

enum { LEAST = 8, MOST = 256 };

/* The longest linear scan of a region. */
static int64_t longest(Module *m, const Region *r, Arena *tmp)
{
    int64_t most = 0;
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        Linear x;
        int64_t here = i->body ? longest(m, i->body, tmp) : 0;
        if (i->op == OP_repeat && i->attrs.scan && linear_scan(m, i, tmp, &x))
            here = i->attrs.dim.size;
        most = here > most ? here : most;
    }
    return most;
}

/* The seconds of a step, or of an evaluation where nothing is trained; 0: there is no plan. */
static double seconds(const Module *module, const Device *d, int64_t chunk)
{
    Arena *a = arena_new();
    Module *m = module_copy(module, NULL, diag_silent(module->diag, a), a);
    m->layout.chunk = chunk;
    m->layout.recompute = RECOMPUTE_auto;
    memset(m->layout.offload, 0, sizeof m->layout.offload);
    m->layout.offloads = OFFLOADS_as_given;
    PlanJob job = plan_compared(m, d, a, "chunks");
    double s = 0;
    if (plan_timed(&job)) {
        const Program *g = job.plan->train ? job.plan->train : job.plan->eval;
        s = g ? g->seconds : 0;
    }
    arena_free(a);
    return s;
}

void chunks_choose(Module *m, const Device *d)
{
    Arena *tmp = arena_new();
    int64_t all = 0;
    for (size_t f = 0; !m->layout.chunk && f < m->fns.n; f++) {
        const int64_t here = longest(m, m->fns.data[f]->body, tmp);
        all = here > all ? here : all;
    }
    arena_free(tmp);
    if (!all)
        return;
    double least = seconds(m, d, 1); /* 0 where a rule splits the dim: ranks have chunks */
    int64_t best = least > 0 ? 1 : LEAST;
    for (int64_t chunk = LEAST; chunk <= MOST && chunk / 2 < all; chunk *= 2) {
        const double s = seconds(m, d, chunk);
        if (s > 0 && (s < least || least <= 0)) {
            least = s;
            best = chunk;
        }
    }
    m->layout.chunk = best;
}
