/* timeline.c - when each action begins and ends, and how long a program takes.
 *
 * Within a stretch an action begins when the one before it in its stream is done, those it waits
 * for are, and those before it in the program that need what it needs to itself (arithmetic, the
 * memory's bandwidth, or the links). While a collective runs, what runs beside it is slower (one by
 * copies only makes transfers slower, and they it); while nothing does, the collective is exposed.
 * An iteration of a loop begins when all streams are through, and every iteration takes as long as
 * the first. (Where collectives are a queue: queue_time.c.) */
#include "plan/order/streams.h"
#include "plan/order/order.h"
#include "plan/order/pipe_time.h"

#include <math.h>
#include <string.h>

/* A stretch while it runs: per resource what runs, and what is next. */
typedef struct Clock {
    Action *act;
    int from, end;
    int running[RESOURCE_count]; /* -1: nothing */
    int next[RESOURCE_count];    /* the first that has not begun */
    double left[RESOURCE_count]; /* seconds of what runs, by itself */
    double now;
} Clock;

/* The first action from `at` on that needs a resource. */
static int next_user(const Clock *c, int resource, int at)
{
    while (at < c->end && (int)resource_of(&c->act[at]) != resource)
        at++;
    return at;
}

static bool is_done(const Action *a)
{
    return a->end >= 0;
}

/* Is all done that the streams have before action i? */
static bool may_begin(const Clock *c, int i)
{
    const Action *a = &c->act[i];
    int before = i - 1;
    while (before >= c->from && c->act[before].stream != a->stream)
        before--;
    bool may = before < c->from || is_done(&c->act[before]);
    for (int s = 0; s < MAX_STREAMS; s++)
        may &= (int)a->wait[s] <= c->from || is_done(&c->act[a->wait[s] - 1]);
    return may;
}

/* False: nothing is left to run. */
static bool begin_what_may(Clock *c)
{
    bool any = false;
    for (int r = 0; r < RESOURCE_count; r++) {
        int i = c->next[r];
        if (c->running[r] < 0 && i < c->end && may_begin(c, i)) {
            c->running[r] = i;
            c->left[r] = c->act[i].seconds;
            c->act[i].begin = c->now;
            c->next[r] = next_user(c, r, i + 1);
        }
        any |= c->running[r] >= 0;
    }
    return any;
}

/* Times as long as transfers take while there are some both ways, from and to one level. */
static double both_ways(const Device *d, const Clock *c)
{
    const int in = c->running[RESOURCE_fetches], out = c->running[RESOURCE_offloads];
    if (in < 0 || out < 0 || action_level(&c->act[in]) != action_level(&c->act[out]))
        return 1;
    const DeviceLevel *l = &d->level[action_level(&c->act[in])];
    return fmax(1, (l->in + l->out) / l->both);
}

/* Is what the links are used for a collective by copies? It takes nothing from what computes, and
 * has the way to the host together with transfers. */
static bool is_copied(const Clock *c)
{
    const Action *a = &c->act[c->running[RESOURCE_links]];
    return a->kind == ACT_comm && a->comm.piece;
}

static bool transfers(const Clock *c)
{
    return c->running[RESOURCE_fetches] >= 0 || c->running[RESOURCE_offloads] >= 0;
}

/* How many times as long what runs on a resource takes beside what runs on the links. Of two
 * messages on one link each has half of it, until the small one is through: a guess. */
static double beside_links(const Clock *c, const Device *d, int r)
{
    const bool transfer = r == RESOURCE_fetches || r == RESOURCE_offloads;
    const bool links = c->running[RESOURCE_links] >= 0, near = c->running[RESOURCE_near] >= 0;
    if (r == RESOURCE_small)
        return links || near ? 2 : 1;
    if (r == RESOURCE_near)
        return 1;
    const double slowed = near && r != RESOURCE_links ? d->link_slowdown : 1;
    if (!links)
        return slowed;
    if (!is_copied(c))
        return r == RESOURCE_links ? 1 : slowed * d->link_slowdown;
    return transfer || (r == RESOURCE_links && transfers(c)) ? 2 * slowed : slowed;
}

/* On to the time at which something is done. */
static void advance(Clock *c, const Device *d)
{
    const double both = both_ways(d, c);
    double lasts[RESOURCE_count], least = INFINITY;
    static const Resource sending[] = {RESOURCE_links, RESOURCE_near, RESOURCE_small};
    int sends = -1; /* of those that run, the first of these */
    for (int k = 2; k >= 0; k--)
        sends = c->running[sending[k]] >= 0 ? c->running[sending[k]] : sends;
    bool alone = sends >= 0, computes = false;
    for (int r = 0; r < RESOURCE_count; r++) {
        double pace = beside_links(c, d, r);
        pace *= r == RESOURCE_fetches || r == RESOURCE_offloads ? both : 1;
        lasts[r] = c->running[r] >= 0 ? pace * c->left[r] : INFINITY;
        alone &=
            r == RESOURCE_links || r == RESOURCE_near || r == RESOURCE_small || c->running[r] < 0;
        least = fmin(least, lasts[r]);
        computes |= c->running[r] >= 0 &&
                    (r == RESOURCE_arithmetic || r == RESOURCE_bandwidth || r == RESOURCE_host);
    }
    for (int r = RESOURCE_fetches; r <= RESOURCE_offloads && !computes && sends < 0; r++)
        if (c->running[r] >= 0) { /* the time of both ways counts once */
            c->act[c->running[r]].exposed += least;
            break;
        }
    if (alone)
        c->act[sends].exposed += least;
    c->now += least;
    for (int r = 0; r < RESOURCE_count; r++) {
        if (c->running[r] < 0)
            continue;
        if (lasts[r] > least) {
            c->left[r] *= 1 - least / lasts[r];
            continue;
        }
        c->act[c->running[r]].end = c->now;
        c->running[r] = -1;
    }
}

double timeline_stretch(const Plan *p, Program *g, int from, int end, double now)
{
    Clock c = {.act = g->actions.data, .from = from, .end = end, .now = now};
    for (int i = from; i < end; i++) {
        c.act[i].end = -1;
        c.act[i].exposed = 0;
    }
    for (int r = 0; r < RESOURCE_count; r++) {
        c.running[r] = -1;
        c.next[r] = next_user(&c, r, from);
    }
    while (begin_what_may(&c))
        advance(&c, p->device);
    return c.now;
}

/* A stretch on the rank at `at` along the axis of stages, which does its own actions alone; sets
 * when those begin and end. */
static double stretch_of_rank(const Plan *p, Program *g, int from, int end, double now, int at)
{
    Arena *tmp = arena_new();
    Action *act = &g->actions.data[from], *was = NEW_ARRAY(tmp, Action, end - from);
    memcpy(was, act, (size_t)(end - from) * sizeof *act);
    for (int k = 0; k < end - from; k++)
        act[k].seconds = pipe_does(act[k].on, at, g->pipe->ranks) ? act[k].seconds : 0;
    const double done = timeline_stretch(p, g, from, end, now);
    for (int k = 0; k < end - from; k++) {
        const bool does = pipe_does(act[k].on, at, g->pipe->ranks);
        act[k].seconds = was[k].seconds;
        act[k].begin = does ? act[k].begin : was[k].begin;
        act[k].end = does ? act[k].end : was[k].end;
        act[k].exposed = does ? act[k].exposed : 0;
    }
    arena_free(tmp);
    return done;
}

/* Outside of a pipeline's table its first rank, its last and those between do different actions at
 * once: a stretch takes as long as on the slowest of them, and that one's waits are the step's. */
static double stretch_of_ranks(const Plan *p, Program *g, int from, int end, double now)
{
    const int ranks = g->pipe->ranks, of[] = {0, ranks > 2, ranks - 1};
    double most = now;
    int slowest = 0;
    for (int k = 0; k < 3; k++) {
        const double done = stretch_of_rank(p, g, from, end, now, of[k]);
        slowest = done > most ? k : slowest;
        most = fmax(most, done);
    }
    return stretch_of_rank(p, g, from, end, now, of[slowest]);
}

static bool is_of_some_ranks(const Program *g, int from, int end)
{
    bool some = false;
    for (int i = from; i < end && g->pipe; i++)
        some |= g->actions.data[i].around < 0 && g->actions.data[i].on != AT_ALL;
    return some;
}

/* Actions [from, to), from 0 on: sets when each begins and ends, in its iteration of the loop
 * around it; outside of a pipeline's table as on the rank at `at`, if that is not ALL_RANKS.
 * Returns when all are done. */
enum { ALL_RANKS = -1 };
static double walk(const Plan *p, Program *g, int from, int to, int at)
{
    Action *act = g->actions.data;
    double now = 0;
    for (int i = from; i < to; i++) {
        Action *a = &act[i];
        if (a->chunk) { /* pipe_time.c says when */
            a->begin = a->end = now;
            a->exposed = 0;
            continue;
        }
        if (!meets_all(a)) {
            int end = i + 1;
            while (end < to && !meets_all(&act[end]))
                end++;
            const double since = now;
            const bool some = is_of_some_ranks(g, i, end);
            now = some ? stretch_of_ranks(p, g, i, end, since)
                       : timeline_stretch(p, g, i, end, since);
            if (some && at != ALL_RANKS)
                stretch_of_rank(p, g, i, end, since, at);
            i = end - 1;
            continue;
        }
        a->begin = now;
        now += a->seconds;
        if (a->kind == ACT_loop) {
            Loop *l = &g->loops.data[a->loop];
            l->seconds = walk(p, g, i + 1, l->end, at);
            now += (double)l->dim.size * l->seconds;
            i = l->end;
        }
        a->end = now;
    }
    return now;
}

void plan_timeline(Plan *p)
{
    Program *const *const all = p->programs;
    for (int i = 0; i < PLAN_PROGRAMS; i++)
        if (all[i] && all[i]->queued) {
            queue_times(p, all[i]);
        } else if (all[i]) {
            all[i]->seconds = walk(p, all[i], 0, (int)all[i]->actions.n, ALL_RANKS);
            if (all[i]->pipe)
                pipe_time(p, all[i]);
        }
}

Program plan_timeline_of_rank(const Plan *p, const Program *of, int at, Arena *a)
{
    Program g = *of;
    g.actions.data = NEW_ARRAY(a, Action, g.actions.n);
    memcpy(g.actions.data, of->actions.data, g.actions.n * sizeof *g.actions.data);
    g.loops.data = NEW_ARRAY(a, Loop, g.loops.n);
    memcpy(g.loops.data, of->loops.data, g.loops.n * sizeof *g.loops.data);
    if (!g.queued)
        walk(p, &g, 0, (int)g.actions.n, at);
    return g;
}
