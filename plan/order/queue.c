/* queue.c - who waits for collectives where they are a queue that the thread that computes carries
 * on meanwhile (runtime/net/async_comm.c), as on processors.
 *
 *   iteration 2   dw ----- dx ----- norm' ---- | dw waits: it writes what is sent
 *              \-> send dw -----------------> still under way when the iteration ends
 *   iteration 1                                | dw ----- dx ----- norm' ----
 *
 * Computation is in order by itself. The queue is in order, too, but the messages of several
 * collectives may be under way at once (runtime/queue.h has its rules). So there is one question,
 * for what computes and for each collective: which collectives may still run when an action begins
 * that touches their bytes? It waits for the last of those, and so for all that began before it:
 * the thread that computes by standing still, a collective in the queue, with all behind it. Loops
 * are no answer: the last collectives of an iteration go on in the next one, and those before a
 * loop in all of its iterations. So ranks may be apart by most of an iteration, and who was late in
 * one iteration and early in the next is waited for in neither.
 *
 * Open are, in the order in which they began, those that may still run. At the top of an iteration
 * that is what was open before the loop, and behind it what may have begun in the iteration before;
 * in the first iteration that is nothing, and waiting for it is for nothing. So that a wait is
 * right in all iterations, a loop waits at its beginning for all that anything in it would wait
 * for, and what is open from before it stays so.
 *
 * check_queue.c proves the result, and shares nothing with this file but plan/plan.h. */
#include <string.h>

#include "plan/levels.h"
#include "plan/order/streams.h"

enum { COMPUTES = MG_STREAM_REST, SENDS = MG_STREAM_COLLECTIVES };
enum {
    LIMIT = MAX_NEST + 1
}; /* times that one is open: of this iteration, and of each loop's before */

/* A collective that may still run. */
typedef struct Open {
    uint32_t action;
    int carried; /* the loop in whose iteration before this one it began, if there was one; -1: it
                    began */
    bool
        awaited; /* by a collective behind it: it is done before whatever the queue takes up next */
} Open;

/* In the order in which they began. */
typedef struct Queue {
    Open *open;
    int n;
} Queue;

typedef struct Walk {
    const Plan *p;
    Program *g;
    Arena *tmp;
    int sends; /* collectives of the program */
} Walk;

bool has_queue(const Plan *p, const Program *g)
{
    return p->device->products_wait && p->device->streams > 1 && !p->device->collectives_wait &&
           !g->pipe && !levels_used(p->module);
}

/* ---- what is open ---------------------------------------------------------------------------- */

static Queue queue_copy(const Walk *w, const Queue *q)
{
    Queue copy = {NEW_ARRAY(w->tmp, Open, LIMIT * w->sends + 1), q->n};
    if (q->n)
        memcpy(copy.open, q->open, (size_t)q->n * sizeof *q->open);
    return copy;
}

static void drop(Queue *q, int k)
{
    memmove(q->open + k, q->open + k + 1, (size_t)(--q->n - k) * sizeof *q->open);
}

static void begin(Queue *q, uint32_t action)
{
    for (int k = q->n - 1; k >= 0; k--)
        if (q->open[k].action == action)
            drop(q, k); /* it began again: who waits for it waits for this time */
    q->open[q->n++] = (Open){.action = action, .carried = -1};
}

/* After a wait for the k-th: those before it are done, of one that may not have begun only those
 * that began if it did. In the queue they are done for what comes later there: who computes does
 * not know yet. */
static void done(Queue *q, int k, bool in_queue)
{
    const int carried = q->open[k].carried;
    for (; k >= 0; k--)
        if (carried >= 0 && q->open[k].carried != carried)
            continue;
        else if (in_queue)
            q->open[k].awaited = true;
        else
            drop(q, k);
}

/* Has a collective that is open to be done before action i begins? One that was not carried over is
 * of the same iteration of all loops around both. */
static bool comes_before(const Walk *w, const Open *open, size_t i)
{
    const Action *act = w->g->actions.data, *sent = &act[open->action];
    const bool once = open->carried < 0;
    if (act[i].stream == SENDS)
        return !open->awaited && (once ? conflict_once(w->p, w->g, sent, &act[i])
                                       : conflict(w->p, w->g, sent, &act[i], true));
    return act[i].kind == ACT_guard || in_order(w->p, w->g, open->action, i, once);
}

/* The last of those, or -1. */
static int last_before(const Walk *w, const Queue *q, size_t i)
{
    int k = q->n - 1;
    while (k >= 0 && !comes_before(w, &q->open[k], i))
        k--;
    return k;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void wait_for(const Walk *w, size_t i, Queue *q, int k)
{
    Action *a = &w->g->actions.data[i];
    a->wait[SENDS] = k < 0 ? 0 : q->open[k].action + 1;
    if (k >= 0)
        done(q, k, a->stream == SENDS);
}

static void walk(const Walk *w, size_t from, size_t to, Queue *q);

/* The collectives that are open at the top of the next iteration: those of this one's end, behind
 * those from before the loop. */
static Queue carried_over(const Walk *w, int loop, const Queue *before, const Queue *end)
{
    const Loop *l = &w->g->loops.data[loop];
    Queue q = queue_copy(w, before);
    for (int k = 0; k < end->n; k++)
        if ((int)end->open[k].action > l->begin && (int)end->open[k].action < l->end)
            q.open[q.n++] = (Open){end->open[k].action, loop, end->open[k].awaited};
    return q;
}

static void walk_loop(const Walk *w, int loop, Queue *q)
{
    const Loop *l = &w->g->loops.data[loop];
    int last = -1;
    for (int i = l->begin + 1; i < l->end; i++) {
        int k = last_before(w, q, (size_t)i);
        last = k > last ? k : last;
    }
    wait_for(w, (size_t)l->begin, q, last);
    const Queue before = queue_copy(w, q);
    walk(w, (size_t)l->begin + 1, (size_t)l->end, q);
    if (l->dim.size > 1) {
        /* Now what an iteration leaves is known; with that at its top it leaves no more. */
        *q = carried_over(w, loop, &before, q);
        walk(w, (size_t)l->begin + 1, (size_t)l->end, q);
    }
    for (int k = 0; k < q->n; k++)
        if (q->open[k].carried == loop)
            q->open[k].carried = -1;
}

/* Actions [from, to), whole loops. */
static void walk(const Walk *w, size_t from, size_t to, Queue *q)
{
    const Action *act = w->g->actions.data;
    for (size_t i = from; i < to; i++)
        if (act[i].kind == ACT_loop) {
            walk_loop(w, (int)act[i].loop, q);
            i = (size_t)w->g->loops.data[act[i].loop].end;
        } else {
            wait_for(w, i, q, last_before(w, q, i));
            if (act[i].stream == SENDS)
                begin(q, (uint32_t)i);
        }
}

void queue_streams(const Plan *p, Program *g)
{
    Arena *tmp = arena_new();
    Walk w = {.p = p, .g = g, .tmp = tmp};
    g->queued = true;
    for (size_t i = 0; i < g->actions.n; i++) {
        Action *a = &g->actions.data[i];
        /* The last of a program waits for all, and one of them may not be for what waits. */
        bool leaves = needs_links(a) && i + 1 < g->actions.n && w.sends < MG_POINTS_MAX;
        a->stream = leaves ? SENDS : COMPUTES;
        memset(a->wait, 0, sizeof a->wait);
        w.sends += leaves;
    }
    Queue q = queue_copy(&w, &(Queue){0});
    walk(&w, 0, g->actions.n, &q);
    if (q.n) {
        Action *last = &g->actions.data[g->actions.n - 1];
        last->wait[SENDS] = q.open[q.n - 1].action + 1;
    }
    arena_free(tmp);
}
