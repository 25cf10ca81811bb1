/* stages.c - how many layers each stage of a pipeline has, where a rank has several, by plans.
 *
 * Pass shard gives no stage more layers than it must (passes/spmd/stages.c), for a rank has as much
 * room in each chunk as the largest stage needs, and it compares counts of arithmetic and bytes. So
 * the program is planned as the pass cuts it. That tells what a layer takes in each phase, and what
 * is before the layers and behind them, and the table of the schedule says how long a step takes
 * with any other cut. The fastest is sought by moving a layer from one stage to another, as long as
 * that helps: with the room that there is, then with one layer more in the largest stage, and so
 * on. What was found is planned too, for its memory and what else changes with it; it is taken if
 * it fits, is faster, and more than a little. No number changes: each layer computes the same.
 *
 * Nothing depends on how long the search takes: it ends after so many cells of the table. */
#include "decide/stages.h"

#include "decide/make.h"
#include "plan/order/pipe_time.h"

#include <math.h>
#include <string.h>

/* Of a step: what another cut has to save, and one with more room beside one with less. */
static const double WORTH = 0.01, ROOM = 0.002;

enum {
    CELLS = 1 << 20, /* of tables that are run, at most, in all */
    ROOMS = 4        /* layers more that the largest stage may have */
};

typedef struct Search {
    PipeCuts *cuts;
    int ranks, stages;
    int64_t runs; /* that are left */
    int64_t most; /* layers of a stage */
} Search;

/* A cut, and the seconds of a step. */
typedef struct Cut {
    int64_t *layers;
    double seconds;
} Cut;

static Cut cut_new(const Search *s, Arena *a)
{
    return (Cut){.layers = NEW_ARRAY(a, int64_t, s->stages), .seconds = INFINITY};
}

static void cut_copy(const Search *s, Cut *to, const Cut *from)
{
    memcpy(to->layers, from->layers, (size_t)s->stages * sizeof *to->layers);
    to->seconds = from->seconds;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* All stages, those of the busiest ranks first. */
static void by_work(const Search *s, const Cut *c, int *order, Arena *tmp)
{
    double *work = NEW_ARRAY(tmp, double, s->ranks);
    for (int rank = 0; rank < s->ranks; rank++)
        work[rank] = pipe_cut_work(s->cuts, c->layers, rank);
    for (int k = 0; k < s->stages; k++) {
        int at = k;
        for (; at > 0 && work[order[at - 1] % s->ranks] < work[k % s->ranks]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
}

static bool may_lose(const Search *s, const Cut *c, int stage)
{
    return c->layers[stage] > (stage == 0 || stage == s->stages - 1 ? 0 : 1);
}

/* Moves a layer, the first of all moves that help. False: none does, or it was enough. */
static bool move(Search *s, Cut *c, Arena *tmp)
{
    int *order = NEW_ARRAY(tmp, int, s->stages);
    by_work(s, c, order, tmp);
    for (int i = 0; i < s->stages; i++)
        for (int k = s->stages - 1; k >= 0; k--) {
            const int from = order[i], to = order[k];
            if (from == to || !may_lose(s, c, from) || c->layers[to] >= s->most)
                continue;
            if (s->runs-- <= 0)
                return false;
            c->layers[from]--;
            c->layers[to]++;
            const double seconds = pipe_cut_seconds(s->cuts, c->layers);
            if (seconds < c->seconds * (1 - 1e-9)) {
                c->seconds = seconds;
                return true;
            }
            c->layers[from]++;
            c->layers[to]--;
        }
    return false;
}

/* The fastest cut that is found for some room, from the best with less room on. */
static void climb(Search *s, Cut *c)
{
    for (bool more = true; more;) {
        Arena *tmp = arena_new();
        more = move(s, c, tmp);
        arena_free(tmp);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void say(Module *m, const int64_t *layers, int stages)
{
    Pipeline *p = &m->layout.pipeline;
    p->layers.data = NULL; /* another module's, too */
    p->layers.n = p->layers.cap = 0;
    for (int s = 0; s < stages; s++)
        vec_push(m->arena, &p->layers, layers[s]);
}

/* The plan of a cut with all that is decided later, which is noted in *found, in a. NULL: it does
 * not fit. layers: NULL: as the pass cuts. */
static const Plan *planned(const Module *module, const Device *d, const int64_t *layers, int stages,
                           Arena *a, Settled *found)
{
    Module *m = module_copy(module, NULL, diag_silent(module->diag, a), a);
    if (layers)
        say(m, layers, stages);
    PlanJob job = plan_onward(m, d, a, "stages", found); /* logits take what memory is left */
    return plan_make(&job) == PASS_ok ? job.plan : NULL;
}

/* The cuts that save enough beside the pass's, each with more room than the one before. Returns how
 * many. */
static int found_cuts(Search *s, const Pipeline *pass, Cut *best, Arena *a)
{
    Cut now = cut_new(s, a);
    int n = 0;
    memcpy(now.layers, pass->layers.data, (size_t)s->stages * sizeof *now.layers);
    now.seconds = pipe_cut_seconds(s->cuts, now.layers);
    double least = now.seconds * (1 - WORTH) / (1 - ROOM);
    for (int more = 0; more <= ROOMS; more++) {
        s->most = pass->max_layers + more;
        climb(s, &now);
        if (now.seconds >= least * (1 - ROOM))
            continue;
        least = now.seconds;
        best[n] = cut_new(s, a);
        cut_copy(s, &best[n++], &now);
    }
    return n;
}

static void take(Module *m, const int64_t *layers, int stages, const Plan *as_cut, const Plan *p)
{
    say(m, layers, stages);
    m->layout.pipeline.compared[0] = as_cut->train->seconds;
    m->layout.pipeline.compared[1] = p->train->seconds;
}

const Settled *stages_decide(Module *m, const Device *d, Arena *result)
{
    const Pipeline *l = &m->layout.pipeline;
    if (!l->axis || l->chunks < 2 || l->layers.n || !module_fn(m, "train"))
        return NULL;
    Arena *a = arena_new();
    Search s = {.ranks = (int)mesh_size(m, l->axis), .stages = mesh_stages(m)};
    Settled *later = NEW(a, Settled), *settled = NULL;
    const Plan *as_cut = planned(m, d, NULL, s.stages, a, later);
    s.cuts = as_cut ? pipe_cuts(as_cut, a) : NULL;
    s.runs = CELLS / (s.stages * mesh_microbatches(m));
    Cut found[ROOMS + 1];
    const int n = s.cuts ? found_cuts(&s, &as_cut->module->layout.pipeline, found, a) : 0;
    for (int k = n - 1; k >= 0 && !l->layers.n; k--) {
        Arena *tmp = arena_new();
        Settled *with = NEW(tmp, Settled);
        const Plan *p = planned(m, d, found[k].layers, s.stages, tmp, with);
        if (p && p->train->seconds < (1 - WORTH) * as_cut->train->seconds) {
            take(m, found[k].layers, s.stages, as_cut, p);
            settled = settled_copy(with, result);
        }
        arena_free(tmp);
    }
    if (as_cut && !l->layers.n)
        settled = settled_copy(later, result);
    if (settled)
        settled_untold(settled, m);
    arena_free(a);
    return settled;
}
