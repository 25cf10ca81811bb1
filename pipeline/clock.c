/* clock.c - how long a step takes, by running it: each operation begins as soon as what it waits
 * for is complete, which is the longest way through the graph of the proof. What is gathered and
 * reduced beside makes what computes meanwhile slower. */
#include "pipeline/graph.h"

#include <math.h>

static double cost_of(const PipeCosts *c, PipeAction a)
{
    double input = c->input[a.stage], weight = c->weight[a.stage];
    return a.kind == PIPE_F         ? c->forward[a.stage]
           : a.kind == PIPE_B       ? input + weight
           : a.kind == PIPE_I       ? input
           : a.kind == PIPE_W       ? weight
           : a.kind == PIPE_UNSHARD ? c->unshard[a.stage]
           : a.kind == PIPE_REDUCE  ? c->reduce[a.stage]
                                    : c->send;
}

PipePair pipe_pair(const PipeCosts *c, const PipeAction *of)
{
    return (PipePair){cost_of(c, of[0]), cost_of(c, of[1])};
}

/* The time that the two of a pair hide of each other. */
static double hidden_of(const PipeCosts *c, const PipeAction *of)
{
    if (!c->layers)
        return c->hidden;
    const int64_t forward = c->layers[of[0].stage], back = c->layers[of[1].stage];
    return c->hidden * (double)(forward < back ? forward : back);
}

/* The time of an operation; both of a pair are shorter by the same part. */
static double length_of(const PipeCosts *c, const PipeOps *ops, size_t i)
{
    const PipeAction a = ops->data[i].action;
    const bool behind = i && ops->data[i - 1].action.pair && pipe_computes(a.kind);
    if (ops->data[i].step != PIPE_COMPUTE || (!a.pair && !behind))
        return cost_of(c, a);
    const PipeAction of[2] = {ops->data[i - behind].action, ops->data[i - behind + 1].action};
    const PipePair pair = pipe_pair(c, of);
    return cost_of(c, a) * (1 - hidden_of(c, of) / (pair.forward + pair.back));
}

/* Seconds of what goes beside before an operation that computes, and behind the one before. */
static double beside(const PipeCosts *c, const PipeOps *ops, size_t i)
{
    double seconds = 0;
    if (ops->data[i].step != PIPE_COMPUTE)
        return 0;
    while (i-- > 0 && ops->data[i].step != PIPE_COMPUTE)
        if (ops->data[i].step == PIPE_BESIDE)
            seconds += cost_of(c, ops->data[i].action);
    return seconds;
}

/* The graph in its order, so that a run goes through memory once. */
typedef struct PipeWalk {
    const PipeGraph *graph;
    size_t nodes;
    int ranks;
    uint32_t *first, *next; /* as in the graph, of positions */
    uint32_t *position;     /* of a node */
    double *length;         /* of what ends here; what starts takes no time */
    int16_t *rank;          /* that computes what ends here; NOBODY */
    double *time;           /* when it is reached */
    /* Of what computes: seconds of what goes beside before it, and behind what computes before it;
     * by rank, until when something is beside, and since when nothing computes. */
    double slows, *beside, *busy, *free;
} PipeWalk;

enum { NOBODY = -1 };

PipeWalk *pipe_walk(Arena *a, const PipeGraph *g)
{
    size_t n = g->nodes, edges = 0;
    PipeWalk *w = NEW(a, PipeWalk);
    *w = (PipeWalk){.graph = g,
                    .nodes = n,
                    .ranks = g->program->table->ranks,
                    .first = NEW_ARRAY(a, uint32_t, n + 1),
                    .next = NEW_ARRAY(a, uint32_t, g->first[n]),
                    .position = NEW_ARRAY(a, uint32_t, n),
                    .length = NEW_ARRAY(a, double, n),
                    .rank = NEW_ARRAY(a, int16_t, n),
                    .time = NEW_ARRAY(a, double, n),
                    .beside = NEW_ARRAY(a, double, n),
                    .busy = NEW_ARRAY(a, double, g->program->table->ranks),
                    .free = NEW_ARRAY(a, double, g->program->table->ranks)};
    for (size_t i = 0; i < n; i++)
        w->position[g->order[i]] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        Node x = g->order[i];
        Place at = g->place[x / 2];
        const PipeOp *op = &g->program->rank[at.rank].data[at.op];
        w->rank[i] = x % 2 && op->step == PIPE_COMPUTE ? (int16_t)at.rank : NOBODY;
        for (uint32_t k = g->first[x]; k < g->first[x + 1]; k++)
            w->next[edges++] = w->position[g->next[k]];
        w->first[i + 1] = (uint32_t)edges;
    }
    return w;
}

static void set_lengths(PipeWalk *w, const PipeCosts *c)
{
    const PipeGraph *g = w->graph;
    w->slows = c->slows;
    for (size_t i = 0; i < g->nodes / 2; i++) {
        const Place at = g->place[i];
        const uint32_t end = w->position[2 * i + 1];
        w->length[end] = length_of(c, &g->program->rank[at.rank], at.op);
        w->beside[end] = beside(c, &g->program->rank[at.rank], at.op);
    }
}

static PipeWalk *walk_of(Arena *a, const PipeGraph *g, const PipeCosts *c)
{
    PipeWalk *w = pipe_walk(a, g);
    set_lengths(w, c);
    return w;
}

/* How long something takes to compute that begins now, on a rank: slower while something is beside.
 */
static double lasts(const PipeWalk *w, size_t i, double seconds)
{
    double *busy = &w->busy[w->rank[i]], now = w->time[i];
    *busy = w->beside[i] > 0 ? fmax(*busy, w->free[w->rank[i]]) + w->beside[i] : *busy;
    const double meanwhile = fmax(0, *busy - now), most = seconds / (1 - fmin(1, w->slows));
    const double all = fmin(seconds + meanwhile * w->slows, most);
    w->free[w->rank[i]] = now + all;
    return all;
}

/* The time of the last; a rank takes `factor` as long to compute. */
static double run(const PipeWalk *w, int rank, double factor)
{
    double step = 0;
    for (size_t i = 0; i < w->nodes; i++)
        w->time[i] = 0;
    for (int k = 0; k < w->ranks; k++)
        w->busy[k] = w->free[k] = 0;
    for (size_t i = 0; i < w->nodes; i++) {
        const double seconds = w->length[i] * (w->rank[i] == rank ? factor : 1);
        double t = w->time[i] + (w->rank[i] == NOBODY ? seconds : lasts(w, i, seconds));
        w->time[i] = t;
        step = t > step ? t : step;
        for (uint32_t k = w->first[i]; k < w->first[i + 1]; k++)
            if (w->time[w->next[k]] < t)
                w->time[w->next[k]] = t;
    }
    return step;
}

double pipe_walk_step(PipeWalk *w, const PipeCosts *c)
{
    set_lengths(w, c);
    return run(w, NOBODY, 1);
}

PipeClock *pipe_clock(Arena *a, const PipeGraph *g, const PipeCosts *c)
{
    Arena *tmp = arena_new();
    int ranks = g->program->table->ranks;
    PipeWalk *w = walk_of(tmp, g, c);
    PipeClock *k = NEW(a, PipeClock);
    k->step = run(w, NOBODY, 1);
    k->busy = NEW_ARRAY(a, double, ranks);
    k->begin = NEW_ARRAY(a, double *, ranks);
    k->end = NEW_ARRAY(a, double *, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        k->begin[rank] = NEW_ARRAY(a, double, g->program->rank[rank].n);
        k->end[rank] = NEW_ARRAY(a, double, g->program->rank[rank].n);
    }
    double busy = 0;
    for (size_t i = 0; i < g->nodes / 2; i++) {
        Place at = g->place[i];
        uint32_t end = w->position[2 * i + 1];
        k->begin[at.rank][at.op] = w->time[w->position[2 * i]];
        k->end[at.rank][at.op] = w->time[end];
        if (w->rank[end] != NOBODY) {
            const double lasted = w->time[end] - w->time[w->position[2 * i]];
            k->busy[at.rank] += lasted;
            busy += lasted;
        }
    }
    k->bubble = fmax(0, 1 - busy / (k->step * ranks));
    arena_free(tmp);
    return k;
}

/* The ranks that are tried as the slowest. */
static bool *tried(Arena *a, const PipeClock *k, int ranks)
{
    enum { APART = PIPE_SLOWER_MAX - 1 }; /* one more is the busiest */
    bool *try = NEW_ARRAY(a, bool, ranks);
    int busiest = 0;
    for (int rank = 0; rank < ranks; rank++) {
        try[rank] = ranks <= PIPE_SLOWER_MAX;
        busiest = k->busy[rank] > k->busy[busiest] ? rank : busiest;
    }
    for (int i = 0; i < APART && ranks > PIPE_SLOWER_MAX; i++)
        try[(int64_t)i * (ranks - 1) / (APART - 1)] = true;
    try[busiest] = true;
    return try;
}

PipeSlower pipe_slower(Arena *a, const PipeGraph *g, const PipeCosts *c, const PipeClock *k,
                       double factor)
{
    Arena *tmp = arena_new();
    int ranks = g->program->table->ranks;
    double *longer = NEW_ARRAY(a, double, ranks);
    PipeWalk *w = walk_of(tmp, g, c);
    uint64_t work = 0;
    const bool *try = tried(tmp, k, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        longer[rank] = NAN;
        if (!try[rank])
            continue;
        work += w->first[w->nodes];
        /* For the derivative so little that the longest way stays the longest. */
        double more = factor > 0 ? k->busy[rank] * factor : k->step * 0x1p-24;
        longer[rank] = (run(w, rank, 1 + more / k->busy[rank]) - k->step) / more;
    }
    arena_free(tmp);
    return (PipeSlower){longer, work};
}
