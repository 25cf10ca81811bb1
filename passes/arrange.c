/* arrange.c - the order of a stretch's actions, where a device has several streams.
 *
 * List scheduling. An action is ready once all are placed that it has to come after: those before
 * it in the program that touch the same bytes of a buffer, one of them writing. Products and what
 * moves bytes need different things of the device, and may run side by side; of the actions that
 * are ready the one is taken that can begin first, of several the one with the longest path of
 * actions behind it.
 *
 *   as it was    dx1 | dw1 | norm1 | dx2 | dw2 | norm2      dw waits for nothing and nothing for it
 *   arranged     dx1 | dw1   dx2 | dw2                      arithmetic
 *                      norm1     norm2                      bandwidth
 *
 * Memory is a limit and no objective: an action that would make more bytes alive than the program
 * needs at its peak anyway is not ready; where that leaves none, the one is taken that leaves least
 * alive. The order is kept only if it is faster by the same measure, and within the limit: so no
 * order costs memory, and what a plan needs does not depend on how many streams there are. */
#include "passes/streams.h"

#include <stdlib.h>
#include <string.h>

/* An order has to save so much of the time to be taken. */
static const double WORTH = 0.002;

typedef struct Touch {
    uint32_t buffer;
    Bytes bytes;
    bool write;
} Touch;

/* An action of the stretch, by its place in it. */
typedef struct Node {
    const Action *a;
    int ntouches;
    Touch *touch;
    bool *before; /* per node: it comes after that one */
    double tail;  /* seconds of the longest path that begins with it */
    /* While an order is made: */
    int waiting;  /* of those before it, how many are not placed */
    double ready; /* when those that are placed are done */
    bool placed;
} Node;

/* A buffer that the stretch touches. */
typedef struct Use {
    int64_t bytes; /* 0: alive all the time, whatever the order */
    bool born, dies;
    int left, touched; /* actions that touch it: not placed, placed */
} Use;

typedef struct Stretch {
    const Plan *p;
    int n;
    Node *node;
    Use *use; /* per buffer of the plan */
    int64_t most, outside;
    Arena *tmp;
} Stretch;

/* ---- what comes after what ------------------------------------------------------------------ */

static void read_touches(Stretch *s, const Program *g, Node *v)
{
    const Action *a = v->a;
    v->touch = NEW_ARRAY(s->tmp, Touch, a->noperands + 1);
    for (int k = 0; k < a->noperands; k++) {
        const Operand *o = &a->operand[k];
        v->touch[v->ntouches++] = (Touch){o->at.buffer, operand_bytes(s->p, g, o, false), o->write};
    }
}

static bool conflict(const Node *x, const Node *y)
{
    for (int i = 0; i < x->ntouches; i++)
        for (int k = 0; k < y->ntouches; k++) {
            const Touch *a = &x->touch[i], *b = &y->touch[k];
            if (a->buffer == b->buffer && (a->write || b->write) && a->bytes.lo < b->bytes.hi &&
                b->bytes.lo < a->bytes.hi)
                return true;
        }
    return false;
}

static void read_order(Stretch *s)
{
    for (int i = s->n - 1; i >= 0; i--) {
        Node *v = &s->node[i];
        v->before = NEW_ARRAY(s->tmp, bool, s->n);
        for (int k = 0; k < i; k++)
            v->before[k] = conflict(&s->node[k], v);
    }
    for (int i = s->n - 1; i >= 0; i--) {
        Node *v = &s->node[i];
        for (int k = i + 1; k < s->n; k++)
            if (s->node[k].before[i] && s->node[k].tail > v->tail)
                v->tail = s->node[k].tail;
        v->tail += v->a->seconds;
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Is it the first operand of its action in that buffer? */
static bool first_touch(const Node *v, int k)
{
    for (int i = 0; i < k; i++)
        if (v->touch[i].buffer == v->touch[k].buffer)
            return false;
    return true;
}

static void read_buffers(Stretch *s, int program, int from, int end)
{
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->node[i].ntouches; k++)
            if (first_touch(&s->node[i], k))
                s->use[s->node[i].touch[k].buffer].left++;
    for (size_t b = 0; b < s->p->buffers.n; b++) {
        const Buffer *x = &s->p->buffers.data[b];
        if (x->persistent || x->program != program || x->first < 0)
            continue;
        bool begins = x->first >= from && x->first < end, ends = x->last >= from && x->last < end;
        if (begins || ends)
            s->use[b] =
                (Use){.bytes = x->bytes, .born = begins, .dies = ends, .left = s->use[b].left};
        if (!begins && x->first < from && x->last >= from)
            s->outside += x->bytes;
    }
}

/* Bytes alive while an action runs after those that are placed, and after it, beside those now. */
static void live_bytes(const Stretch *s, const Node *v, int64_t *during, int64_t *after)
{
    *during = *after = 0;
    for (int k = 0; k < v->ntouches; k++) {
        const Use *u = &s->use[v->touch[k].buffer];
        if (!first_touch(v, k))
            continue;
        if (u->born && !u->touched)
            *during += u->bytes;
        if (u->dies && u->left == 1)
            *after -= u->bytes;
    }
    *after += *during;
}

/* ---- time ----------------------------------------------------------------------------------- */

typedef struct State {
    double free[RES_count];
    int64_t live;
    int *place; /* per position: the node there */
    int n;
} State;

static double begins(const State *t, const Node *v)
{
    double free = t->free[resource_of(v->a)];
    return free > v->ready ? free : v->ready;
}

/* Places node i next. False: more is alive then than may be. */
static bool put(Stretch *s, State *t, int i)
{
    Node *v = &s->node[i];
    int64_t during, after;
    live_bytes(s, v, &during, &after);
    bool fits = t->live + during <= s->most;
    double end = begins(t, v) + v->a->seconds;
    t->free[resource_of(v->a)] = end;
    t->live += after;
    v->placed = true;
    t->place[t->n++] = i;
    for (int k = 0; k < v->ntouches; k++)
        if (first_touch(v, k)) {
            s->use[v->touch[k].buffer].left--;
            s->use[v->touch[k].buffer].touched++;
        }
    for (int k = i + 1; k < s->n; k++)
        if (s->node[k].before[i]) {
            s->node[k].waiting--;
            s->node[k].ready = end > s->node[k].ready ? end : s->node[k].ready;
        }
    return fits;
}

static State begin(Stretch *s)
{
    State t = {.live = s->outside};
    t.place = NEW_ARRAY(s->tmp, int, s->n);
    for (int i = 0; i < s->n; i++) {
        Node *v = &s->node[i];
        v->waiting = 0;
        v->ready = 0;
        v->placed = false;
        for (int k = 0; k < i; k++)
            v->waiting += v->before[k];
    }
    for (size_t b = 0; b < s->p->buffers.n; b++) {
        s->use[b].left += s->use[b].touched;
        s->use[b].touched = 0;
    }
    return t;
}

static double makespan(const State *t)
{
    double end = 0;
    for (int r = 0; r < RES_count; r++)
        end = t->free[r] > end ? t->free[r] : end;
    return end;
}

/* The node to place next among those that nothing holds back. */
static int pick(const Stretch *s, const State *t)
{
    int best = -1, least = -1;
    double when = 0;
    int64_t kept = 0;
    for (int i = 0; i < s->n; i++) {
        const Node *v = &s->node[i];
        if (v->waiting || v->placed)
            continue;
        int64_t during, after;
        live_bytes(s, v, &during, &after);
        if (least < 0 || after < kept) {
            least = i;
            kept = after;
        }
        if (t->live + during > s->most)
            continue;
        double begin = begins(t, v);
        if (best < 0 || begin < when || (begin == when && v->tail > s->node[best].tail)) {
            best = i;
            when = begin;
        }
    }
    return best >= 0 ? best : least;
}

bool arrange_stretch(const Plan *p, Program *g, int program, int from, int end, int64_t most,
                     Arena *tmp)
{
    Stretch s = {.p = p, .n = end - from, .most = most, .tmp = tmp};
    s.node = NEW_ARRAY(tmp, Node, s.n);
    s.use = NEW_ARRAY(tmp, Use, p->buffers.n);
    bool used[RES_count] = {false};
    for (int i = 0; i < s.n; i++) {
        s.node[i].a = &g->actions.data[from + i];
        used[resource_of(s.node[i].a)] = true;
        read_touches(&s, g, &s.node[i]);
    }
    if (!used[RES_arithmetic] || !used[RES_bandwidth])
        return false;
    read_order(&s);
    read_buffers(&s, program, from, end);
    State was = begin(&s);
    for (int i = 0; i < s.n; i++)
        put(&s, &was, i);
    State now = begin(&s);
    bool fits = true;
    while (now.n < s.n)
        fits &= put(&s, &now, pick(&s, &now));
    if (!fits || makespan(&now) > (1 - WORTH) * makespan(&was))
        return false;
    Action *in_order = NEW_ARRAY(tmp, Action, s.n);
    for (int i = 0; i < s.n; i++)
        in_order[i] = *s.node[now.place[i]].a;
    memcpy(&g->actions.data[from], in_order, (size_t)s.n * sizeof *in_order);
    return true;
}
