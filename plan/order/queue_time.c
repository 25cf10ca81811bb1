/* queue_time.c - when each action of a program begins and ends, and how long it takes, where
 * collectives are a queue (queue.c).
 *
 * One thread computes: an action begins when the one before it is done and what it waits
 * for has ended; it is slower while the queue is at work. A collective that is in the queue begins
 * when the one before it there ends; of its time it is exposed for what an action waits.
 *
 * Iterations of a loop are run until one is as the one before: the first ones differ, as nothing is
 * under way yet, or less; and where more is sent than the links carry, the queue grows from each to
 * the next. The others take as long as the last of those. */
#include <math.h>
#include <string.h>

#include "plan/order/streams.h"

enum { ITERATIONS_MIN = 3, ITERATIONS_MAX = 1024 };

/* One in the queue. */
typedef struct Sent {
    size_t action;
    double begin, end;
} Sent;

typedef struct Clock {
    const Plan *p;
    Program *g;
    double now, since; /* seconds since the program began; when the iteration did */
    VEC(Sent) queue;   /* those that had not ended when they were last looked at, in order */
    double *ended;     /* per action: when it ended the last time; 0: not yet */
    double *exposed;   /* per action, of all its executions */
    double *times;     /* per action: executions */
    Arena *tmp;
} Clock;

static double queue_ends(const Clock *c)
{
    return c->queue.n ? c->queue.data[c->queue.n - 1].end : 0;
}

static void forget_ended(Clock *c)
{
    size_t n = 0;
    while (n < c->queue.n && c->queue.data[n].end <= c->now)
        n++;
    if (n) /* of an empty queue there is no memory */
        memmove(c->queue.data, c->queue.data + n, (c->queue.n - n) * sizeof *c->queue.data);
    c->queue.n -= n;
}

/* Nothing else runs until then. */
static void wait_until(Clock *c, double then)
{
    for (size_t k = 0; k < c->queue.n; k++) {
        const Sent *s = &c->queue.data[k];
        double from = fmax(s->begin, c->now), to = fmin(s->end, then);
        c->exposed[s->action] += to > from ? to - from : 0;
    }
    c->now = fmax(c->now, then);
    forget_ended(c);
}

/* So many seconds of work, slower while the queue is at work. */
static void compute(Clock *c, double seconds)
{
    const double slow = c->p->device->link_slowdown, beside = fmax(queue_ends(c) - c->now, 0);
    c->now += slow * seconds <= beside ? slow * seconds : beside + (seconds - beside / slow);
    forget_ended(c);
}

static void run(Clock *c, size_t i)
{
    Action *a = &c->g->actions.data[i];
    for (int s = 0; s < MAX_STREAMS; s++)
        if (a->wait[s] && !a->stream) /* one in the queue waits for those before it anyway */
            wait_until(c, c->ended[a->wait[s] - 1]);
    double begin = c->now;
    c->times[i]++;
    if (a->stream) {
        begin = fmax(c->now, queue_ends(c));
        c->ended[i] = begin + a->seconds;
        vec_push(c->tmp, &c->queue, (Sent){i, begin, c->ended[i]});
    } else if (needs_links(a)) {
        c->exposed[i] += a->seconds;
        c->now += a->seconds;
        c->ended[i] = c->now;
    } else {
        compute(c, a->seconds);
        c->ended[i] = c->now;
    }
    a->begin = begin - c->since;
    a->end = c->ended[i] - c->since;
}

static void walk(Clock *c, size_t from, size_t to);

/* `more` iterations like the last, which began when these had been executed and exposed so much. */
static void repeat(Clock *c, const Loop *l, int64_t more, const double *exposed,
                   const double *times)
{
    const double later = (double)more * (c->now - c->since);
    for (int i = l->begin; i <= l->end; i++) {
        c->exposed[i] += (double)more * (c->exposed[i] - exposed[i]);
        c->times[i] += (double)more * (c->times[i] - times[i]);
        c->ended[i] += later;
    }
    for (size_t k = 0; k < c->queue.n; k++) {
        c->queue.data[k].begin += later;
        c->queue.data[k].end += later;
    }
    c->now += later;
}

/* How an iteration ended: as the one before, if both took as long and left as much in the queue. */
typedef struct Iteration {
    double seconds, left;
} Iteration;

static bool is_alike(const Iteration *a, const Iteration *b)
{
    const double NEAR = 1e-3;
    return fabs(a->seconds - b->seconds) <= NEAR * a->seconds &&
           fabs(a->left - b->left) <= NEAR * a->seconds;
}

/* Iterations are shown alike: as the last one, in the time that they take on average. */
static void stretch(Clock *c, const Loop *l, double by)
{
    for (int i = l->begin + 1; i <= l->end; i++) {
        Action *a = &c->g->actions.data[i];
        a->begin *= by;
        a->end *= by;
        if (a->kind == ACT_loop)
            c->g->loops.data[a->loop].seconds *= by;
    }
}

static void walk_loop(Clock *c, Loop *l)
{
    const int64_t all = l->dim.size;
    int64_t iterations = 0;
    Iteration last = {0}, before = {0};
    const size_t n = c->g->actions.n;
    double *exposed = NEW_ARRAY(c->tmp, double, n), *times = NEW_ARRAY(c->tmp, double, n);
    const double first = c->now, outside = c->since;
    while (iterations < all && iterations < ITERATIONS_MAX &&
           (iterations < ITERATIONS_MIN || !is_alike(&last, &before))) {
        memcpy(exposed, c->exposed, n * sizeof *exposed);
        memcpy(times, c->times, n * sizeof *times);
        c->since = c->now;
        walk(c, (size_t)l->begin + 1, (size_t)l->end + 1);
        before = last;
        last = (Iteration){c->now - c->since, fmax(queue_ends(c) - c->now, 0)};
        iterations++;
    }
    if (all > iterations)
        repeat(c, l, all - iterations, exposed, times);
    l->seconds = (c->now - first) / (double)all;
    if (c->now > c->since)
        stretch(c, l, l->seconds * (double)(all - iterations + 1) / (c->now - c->since));
    c->since = outside;
}

/* Actions [from, to), whole loops. */
static void walk(Clock *c, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        Action *a = &c->g->actions.data[i];
        run(c, i);
        if (a->kind != ACT_loop)
            continue;
        Loop *l = &c->g->loops.data[a->loop];
        walk_loop(c, l);
        a->end = c->now - c->since;
        i = (size_t)l->end;
    }
}

void queue_times(const Plan *p, Program *g)
{
    const size_t n = g->actions.n;
    Clock c = {.p = p, .g = g, .tmp = arena_new()};
    c.ended = NEW_ARRAY(c.tmp, double, n);
    c.exposed = NEW_ARRAY(c.tmp, double, n);
    c.times = NEW_ARRAY(c.tmp, double, n);
    walk(&c, 0, n);
    for (size_t i = 0; i < n; i++)
        g->actions.data[i].exposed = c.times[i] > 0 ? c.exposed[i] / c.times[i] : 0;
    g->seconds = c.now;
    arena_free(c.tmp);
}
