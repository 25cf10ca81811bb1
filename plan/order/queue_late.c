/* queue_late.c - what of the queue is still under way when a stretch behind a loop begins.
 *
 *   loop     dw3 | send dw3 | dw2 | send dw2 | dw1 | send dw1
 *   behind                                                   sum dw3 | sum dw2 | sum dw1
 *   queue              [---dw3---][---dw2---][---dw1---]     ^ by then dw3 is there, dw1 is not
 *
 * An order of the stretch (arrange.c) takes first what need not wait. Before buffers are placed,
 * and before it is known who waits for what: as if nothing had waited so far, which makes it later
 * than it is. Of a loop the last few iterations count, whatever their number is. */
#include "plan/order/streams.h"

enum { ITERATIONS = 8 };

typedef struct Run {
    const Program *g;
    double now, sent; /* when what computes goes on; when the queue is empty */
    double *end;      /* per action: when it ended the last time */
} Run;

static void run(Run *r, int from, int to)
{
    for (int i = from; i < to; i++) {
        const Action *a = &r->g->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &r->g->loops.data[a->loop];
            for (int64_t k = 0; k < l->dim.size && k < ITERATIONS; k++)
                run(r, l->begin + 1, l->end);
            i = l->end;
        } else if (needs_links(a)) {
            r->sent = (r->sent > r->now ? r->sent : r->now) + PLAN_LATE * a->seconds;
            r->end[i] = r->sent;
        } else if (a->kind == ACT_guard) {
            r->now = r->sent > r->now ? r->sent : r->now; /* it waits for all */
        } else {
            r->now += a->seconds;
        }
    }
}

double *queue_late(const Program *g, int from, Arena *tmp)
{
    Run r = {.g = g, .end = NEW_ARRAY(tmp, double, g->actions.n)};
    run(&r, 0, from);
    for (int i = 0; i < from; i++)
        r.end[i] = r.end[i] > r.now ? r.end[i] - r.now : 0;
    return r.end;
}
