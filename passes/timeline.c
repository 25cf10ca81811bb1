/* timeline.c - when each action begins, and how long a program takes.
 *
 * Within a stretch an action begins when the one before it in its stream is done, those it waits
 * for are, and no other stream uses what it needs to itself (arithmetic, or the memory's
 * bandwidth); a round of a loop begins when all streams are through, and every round takes as long
 * as the first. */
#include "passes/streams.h"

typedef struct Clock {
    double stream[MAX_STREAMS], resource[RES_count], latest;
} Clock;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static Clock clock_at(double now)
{
    Clock c = {.latest = now};
    for (int i = 0; i < MAX_STREAMS; i++)
        c.stream[i] = now;
    for (int i = 0; i < RES_count; i++)
        c.resource[i] = now;
    return c;
}

/* Actions [from, to), which begin at 0: sets when each begins, in its round of the loop around it.
 * Returns when all are done. */
static double walk(Program *g, int from, int to)
{
    Action *act = g->actions.data;
    Clock c = clock_at(0);
    for (int i = from; i < to; i++) {
        Action *a = &act[i];
        Resource use = resource_of(a);
        double begin = meets_all(a) ? c.latest : later(c.stream[a->stream], c.resource[use]);
        for (int s = 0; s < MAX_STREAMS; s++)
            if (a->wait[s]) {
                const Action *other = &act[a->wait[s] - 1];
                begin = later(begin, other->begin + other->seconds);
            }
        a->begin = begin;
        if (a->kind == ACT_loop) {
            Loop *l = &g->loops.data[a->loop];
            l->seconds = walk(g, i + 1, l->end);
            c = clock_at(begin + (double)l->dim.size * l->seconds);
            i = l->end;
        } else if (meets_all(a)) {
            c = clock_at(begin + a->seconds);
        } else {
            c.stream[a->stream] = c.resource[use] = begin + a->seconds;
            c.latest = later(c.latest, begin + a->seconds);
        }
    }
    return c.latest;
}

void plan_timeline(Plan *p)
{
    Program *const all[] = {p->train, p->eval, p->sample};
    for (int i = 0; i < 3; i++)
        if (all[i])
            all[i]->seconds = walk(all[i], 0, (int)all[i]->actions.n);
}
