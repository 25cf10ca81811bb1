/* trace_walk.c - one training step in the order of time, as it is predicted.
 *
 * Loops are shown iteration by iteration up to a limit; a loop with more iterations is shown by its
 * first ones and one slice for the rest, so that there are few slices whatever the depth.
 *
 * With a pipeline each rank along the axis of stages has its own timeline: what comes before the
 * loop over microbatches, the phases and messages of its row at the times of the clock, and what
 * comes after. Inside a phase its actions are told for the first microbatch alone, and of at most
 * DETAILED stages; the phases and messages of all ranks together are at most TraceScope.phases,
 * those that end first, and one slice a rank stands for the others. */
#include "compiler/report/trace.h"
#include "plan/order/order.h"
#include "plan/order/pipe_time.h"

#include <math.h>

enum { DETAILED = 16 };

const TraceScope trace_all = {TRACE_all, 4, 1 << 16};

typedef struct Walker {
    const Plan *plan;
    const Program *program;
    const Action *times; /* the program's actions, with the times of this rank */
    TraceScope scope;
    TraceFn *tell;
    void *ctx;
    int depth;                /* loops around */
    int rank;                 /* along the axis of stages */
    int stage;                /* whose phase this is in; -1: none */
    double free[MAX_STREAMS]; /* in a phase: when a stream is through */
} Walker;

static void tell(const Walker *w, TraceSlice s)
{
    s.depth = w->depth;
    s.rank = w->rank;
    w->tell(w->ctx, &s);
}

static bool is_done_here(const Walker *w, const Action *a)
{
    const Pipe *pipe = w->program->pipe;
    if (!pipe)
        return true;
    return w->stage >= 0 ? pipe_does(a->on, w->stage, pipe->stages)
                         : pipe_does(a->on, w->rank, pipe->ranks);
}

/* ---- actions and loops ----------------------------------------------------------------------- */

static void walk(Walker *w, int from, int to, double since);

/* Returns how long it takes. */
static double walk_loop(Walker *w, const Loop *l, const Action *a, double begin)
{
    int64_t iterations =
        w->stage >= 0 ? pipe_iterations(w->plan, w->program, l, w->stage) : l->dim.size;
    TraceSlice s = {.action = a,
                    .loop = l,
                    .iterations = iterations,
                    .begin = begin,
                    .seconds = (double)iterations * l->seconds};
    tell(w, s);
    w->depth++;
    const int64_t shown = iterations < w->scope.iterations ? iterations : w->scope.iterations;
    for (int64_t i = 0; i < shown; i++)
        walk(w, l->begin + 1, l->end, begin + (double)i * l->seconds);
    w->depth--;
    if (iterations > shown) {
        s.iterations -= shown;
        s.rest = true;
        s.begin += (double)shown * l->seconds;
        s.seconds -= (double)shown * l->seconds;
        tell(w, s);
    }
    return (double)iterations * l->seconds;
}

/* Actions [from, to) of an iteration that began at `since`. */
static void walk(Walker *w, int from, int to, double since)
{
    for (int i = from; i < to; i++) {
        const Action *a = &w->program->actions.data[i], *of = &w->times[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &w->program->loops.data[a->loop];
            walk_loop(w, l, a, since + of->begin);
            i = l->end;
        } else if (is_done_here(w, a)) {
            tell(w, (TraceSlice){
                        .action = a, .begin = since + of->begin, .seconds = of->end - of->begin});
        }
    }
}

/* ---- pipelines ------------------------------------------------------------------------------- */

/* The outermost actions and loops of a phase. Each adds some time; the sum is the time of the
 * phase. An action of another stream ends when its own time is over. */
static void walk_phase(Walker *w, int from, int to, double begin)
{
    double now = begin;
    w->depth++; /* the phase is around them as an iteration of the loop would be */
    for (int s = 0; s < MAX_STREAMS; s++)
        w->free[s] = begin;
    for (int i = from; i < to; i++) {
        const Action *a = &w->program->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &w->program->loops.data[a->loop];
            now += walk_loop(w, l, a, now);
            i = l->end;
        } else if (a->kind != ACT_phase && is_done_here(w, a)) {
            now += pipe_adds(a);
            double since = fmax(now - (a->end - a->begin), w->free[a->stream]);
            since = a->stream ? since : now - a->seconds;
            tell(w, (TraceSlice){.action = a, .begin = since, .seconds = now - since});
            w->free[a->stream] = now;
        }
    }
    w->depth--;
}

static void walk_actions(Walker *w, PipeAction of, double begin)
{
    const Pipe *pipe = w->program->pipe;
    const int k = of.kind == PIPE_F ? 0 : of.kind == PIPE_W ? 2 : 1;
    const int to = k + 1 < pipe->phases && of.kind != PIPE_B
                       ? pipe->begin[k + 1]
                       : w->program->loops.data[pipe->loop].end;
    w->stage = of.stage;
    walk_phase(w, pipe->begin[k], to, begin);
    w->stage = -1;
}

static bool is_shown(const PipeOp *op)
{
    return op->step == PIPE_COMPUTE || op->step == PIPE_START;
}

/* Tells what is gathered or reduced of a stage. */
static void walk_beside(Walker *w, PipeAction of, double begin)
{
    const Pipe *pipe = w->program->pipe;
    const Loop *micro = &w->program->loops.data[pipe->loop];
    const bool gathers = of.kind == PIPE_UNSHARD;
    double now = begin;
    for (int i = gathers ? 0 : micro->end + 1;
         i < (gathers ? pipe->ahead : pipe_behind(w->program)); i++) {
        const Action *a = &w->program->actions.data[i];
        if (a->chunk - 1 != of.stage / pipe->ranks || !is_done_here(w, a))
            continue;
        tell(w, (TraceSlice){.action = a, .begin = now, .seconds = a->seconds});
        now += a->seconds;
    }
}

/* The ranks that are told, in the arena; *n of them. */
static const int *ranks_told(const Plan *p, TraceScope scope, Arena *a, int *n)
{
    TraceAlike *alike = NULL;
    const int each = scope.rank == TRACE_each ? trace_alike(p, a, &alike) : 0;
    *n = scope.rank >= 0 ? 1 : each ? each : trace_ranks(p);
    int *all = NEW_ARRAY(a, int, (size_t)*n);
    for (int k = 0; k < *n; k++)
        all[k] = scope.rank >= 0 ? scope.rank : each ? alike[k].told : k;
    return all;
}

/* When the last is over of what is shown of n ranks. */
static double shown_until(const Pipe *pipe, const PipeClock *k, const int *ranks, int n, int phases)
{
    const size_t limit = (size_t)(phases / n);
    double until = k->step;
    for (int r = 0; r < n; r++) {
        const int rank = ranks[r];
        size_t told = 0;
        const PipeOps *ops = &pipe->program->rank[rank];
        for (size_t i = 0; i < ops->n; i++)
            if (is_shown(&ops->data[i]) && ++told > limit)
                until = fmin(until, k->begin[rank][i]);
    }
    return until;
}

static void walk_row(Walker *w, const PipeClock *k, double since, double until)
{
    const Pipe *pipe = w->program->pipe;
    const PipeOps *ops = &pipe->program->rank[w->rank];
    int64_t left = 0;
    double over = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const PipeOp *op = &ops->data[i];
        const double begin = k->begin[w->rank][i], end = k->end[w->rank][i];
        const bool computes = op->step == PIPE_COMPUTE, shown = end <= until;
        if (op->step == PIPE_BESIDE)
            walk_beside(w, op->action, since + begin);
        if (!is_shown(op))
            continue;
        left += computes && !shown;
        if (!shown)
            continue;
        over = computes ? end : over;
        tell(w, (TraceSlice){.of = &op->action, .begin = since + begin, .seconds = end - begin});
        if (computes && op->action.microbatch == 0 &&
            (op->action.stage < DETAILED - 1 || op->action.stage == pipe->stages - 1))
            walk_actions(w, op->action, since + begin);
    }
    if (left)
        tell(w, (TraceSlice){.rest = true,
                             .iterations = left,
                             .begin = since + over,
                             .seconds = k->step - over});
}

static void walk_pipeline(Walker *w, const PipeClock *k, Arena *tmp)
{
    const Pipe *pipe = w->program->pipe;
    const Loop *micro = &w->program->loops.data[pipe->loop];
    int n;
    const int *ranks = ranks_told(w->plan, w->scope, tmp, &n);
    const double since = w->program->actions.data[micro->begin].begin,
                 until = shown_until(pipe, k, ranks, n, w->scope.phases);
    for (int r = 0; r < n; r++) {
        const Program own = plan_timeline_of_rank(w->plan, w->plan->train, ranks[r], tmp);
        w->times = own.actions.data;
        w->rank = ranks[r];
        walk(w, pipe->ahead, micro->begin, 0);
        walk_row(w, k, since, until);
        walk(w, pipe_behind(w->program), (int)w->program->actions.n,
             k->step - (double)micro->dim.size * micro->seconds);
        w->times = w->program->actions.data;
    }
}

void trace_walk(const Plan *p, TraceScope scope, TraceFn *tell, void *ctx)
{
    Walker w = {.plan = p,
                .program = p->train,
                .times = p->train->actions.data,
                .scope = scope,
                .tell = tell,
                .ctx = ctx,
                .stage = -1};
    Arena *tmp = arena_new();
    const PipeClock *k = p->train->pipe ? pipe_run(p, p->train, tmp) : NULL;
    if (k)
        walk_pipeline(&w, k, tmp);
    else
        walk(&w, 0, (int)p->train->actions.n, 0);
    arena_free(tmp);
}

int trace_ranks(const Plan *p)
{
    return p->train->pipe ? p->train->pipe->ranks : 1;
}

int trace_typical(const Plan *p)
{
    return trace_ranks(p) > 2 ? 1 : 0;
}

/* Do two ranks do the same actions, and of each loop as many iterations, in all their stages? */
static bool do_the_same(const Plan *p, int one, int other)
{
    const Program *g = p->train;
    const Pipe *pipe = g->pipe;
    const Loop *micro = &g->loops.data[pipe->loop];
    for (int chunk = 0; chunk < pipe->stages / pipe->ranks; chunk++) {
        const int s = pipe_stage(pipe->program->table, one, chunk);
        const int t = pipe_stage(pipe->program->table, other, chunk);
        for (int i = 0; i < (int)g->actions.n; i++) {
            const Action *a = &g->actions.data[i];
            const bool phase = i > micro->begin && i < micro->end;
            if (phase && pipe_does(a->on, s, pipe->stages) != pipe_does(a->on, t, pipe->stages))
                return false;
            if (!phase &&
                pipe_does(a->on, one, pipe->ranks) != pipe_does(a->on, other, pipe->ranks))
                return false;
            if (phase && a->kind == ACT_loop &&
                pipe_iterations(p, g, &g->loops.data[a->loop], s) !=
                    pipe_iterations(p, g, &g->loops.data[a->loop], t))
                return false;
        }
    }
    return true;
}

int trace_alike(const Plan *p, Arena *a, TraceAlike **all)
{
    const int ranks = trace_ranks(p), typical = trace_typical(p);
    int n = 0;
    *all = NEW_ARRAY(a, TraceAlike, (size_t)ranks);
    for (int rank = 0; rank < ranks; rank++) {
        TraceAlike *last = n ? &(*all)[n - 1] : NULL;
        if (!last || !do_the_same(p, last->first, rank))
            (*all)[n++] = (TraceAlike){rank, rank, rank};
        else
            *last = (TraceAlike){last->first, rank, rank == typical ? rank : last->told};
    }
    return n;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* A transfer is in its lane where the rest waits for it, too. */
static TraceLane lane_of(const Action *a)
{
    if (!action_transfers(a))
        return (TraceLane){a->chunk            ? MG_STREAM_BESIDE
                           : action_on_host(a) ? MG_STREAM_HOST
                                               : a->stream,
                           LEVEL_device};
    return (TraceLane){a->kind == ACT_fetch ? MG_STREAM_FETCHES : MG_STREAM_OFFLOADS,
                       action_level(a)};
}

static bool has_lane(const Program *g, TraceLane l)
{
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        const TraceLane of = lane_of(a);
        if (!action_is_mark(a) && of.stream == l.stream && of.level == l.level)
            return true;
    }
    return false;
}

TraceLanes trace_lanes(const Plan *p)
{
    TraceLanes all = {0};
    for (int s = 0; s < MAX_STREAMS; s++)
        for (int l = LEVEL_device; l < LEVEL_count; l++) {
            const TraceLane lane = {s, (Level)l};
            if (has_lane(p->train, lane))
                all.lane[all.n++] = lane;
        }
    return all;
}

int trace_lane_of(const TraceLanes *all, const Action *a)
{
    const TraceLane of = lane_of(a);
    for (int k = 0; k < all->n; k++)
        if (all->lane[k].stream == of.stream && all->lane[k].level == of.level)
            return k;
    return 0;
}

const char *trace_lane_name(const TraceLane *l, Arena *a)
{
    static const char *const names[MAX_STREAMS] = {[MG_STREAM_REST] = "compute",
                                                   [MG_STREAM_PRODUCTS] = "products",
                                                   [MG_STREAM_COLLECTIVES] = "collectives",
                                                   [MG_STREAM_FETCHES] = "transfers in",
                                                   [MG_STREAM_OFFLOADS] = "transfers out",
                                                   [MG_STREAM_HOST] = "kernels on the host",
                                                   [MG_STREAM_BESIDE] = "once a step",
                                                   [MG_STREAM_SMALL] = "small collectives",
                                                   [MG_STREAM_NEAR] = "collectives in a machine"};
    if (l->level == LEVEL_device)
        return names[l->stream];
    return arena_printf(a, "%s, %s the %s", names[l->stream],
                        l->stream == MG_STREAM_OFFLOADS ? "to" : "from", level_names[l->level]);
}
