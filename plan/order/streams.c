/* streams.c - what may run beside the rest: products whose results nobody waits for, and
 * collectives.
 *
 *   0  rest         ... dy ------ dx ------ norm' ------ add ------ ... -- the next that touches
 *   1  products             \---- dw -------------------/               its bytes
 *   2  collectives  gather --/ ... \----- reduce_scatter ----/
 *   3  fetches      from another level of memory, one after the other
 *   4  offloads     to it
 *   5  host         kernels that run on the host of a GPU
 *   6  beside       what a step gathers and reduces once, beside a pipeline's table (beside.c)
 *   7  small        collectives of a few bytes, of communicators of their own (small.c)
 *   8  near         collectives among the ranks of a machine, beside those over the network
 * (near.c)
 *
 * Gradients of weights are needed at the end of an iteration, those of activations at once: while a
 * product of the first kind computes, kernels that only move bytes run beside it. A collective uses
 * the links, which nothing else does. Where things lie is decided before (place.c); a product goes
 * to a stream of its own if enough such kernels come before another action touches its bytes, a
 * collective if by the timeline anything runs beside it. What touches their bytes waits for them.
 * Loops and the guard meet all streams, and so does the last action of a program. On processors
 * only collectives and transfers run beside the rest; where there are no transfers and no stages,
 * collectives need not meet there: they are a queue (queue.c).
 *
 * There is one stream of collectives for all sets of axes that have the same links: side by side
 * they would only share what one alone has, and each comes after the one before
 * it, as on all other ranks, which run the same text. Libraries of several communicators promise
 * nothing for any other order. Small ones, which the links are nothing to, have another stream, and
 * where machines are several, so have those that stay within one.
 *
 * check_streams.c proves the result, and shares nothing with this file but plan/plan.h. */
#include "plan/order/streams.h"
#include "plan/levels.h"
#include "plan/order/order.h"

#include <string.h>

/* Of an action's own time: what has to run beside it. */
static const double WORTH = 0.1;

enum {
    REST = MG_STREAM_REST,
    PRODUCTS = MG_STREAM_PRODUCTS,
    COLLECTIVES = MG_STREAM_COLLECTIVES,
    FETCHES = MG_STREAM_FETCHES,
    OFFLOADS = MG_STREAM_OFFLOADS,
    HOST = MG_STREAM_HOST,
    SMALL = MG_STREAM_SMALL,
    NEAR = MG_STREAM_NEAR,
    USED
};

static const size_t NONE = SIZE_MAX;

/* The actions that are done before one begins: per stream, 1 + the last one of the stretch. */
typedef struct Before {
    uint32_t upto[USED];
} Before;

typedef struct Stretch {
    const Plan *p;
    Program *g;
    size_t from, end;
    Before *before; /* per action of the program */
    bool *point;    /* ... something waits for it */
    int points;     /* of the stretches before; here: two for each action that leaves the rest */
} Stretch;

Bytes operand_bytes_once(const Plan *p, const Operand *o, bool placed)
{
    Bytes b = {o->at.offset + (placed ? buffer_address(&p->buffers.data[o->at.buffer]) : 0), 0};
    b.hi = b.lo + dtype_bytes(o->type.dtype);
    for (int i = 0; i < o->type.rank; i++)
        b.hi += (o->type.dims[i].size - 1) * o->stride[i] * dtype_bytes(o->type.dtype);
    return b;
}

Bytes operand_bytes(const Plan *p, const Program *g, const Operand *o, bool placed)
{
    Bytes b = operand_bytes_once(p, o, placed);
    for (int i = 0; i < o->at.nloops; i++) {
        int64_t far = o->at.loop[i].stride * (g->loops.data[o->at.loop[i].loop].dim.size - 1);
        *(far < 0 ? &b.lo : &b.hi) += far;
    }
    return b;
}

bool meets_all(const Action *a)
{
    return action_is_mark(a) || a->kind == ACT_guard;
}

/* Two products side by side only share what one alone would have. */
Resource resource_of(const Action *a)
{
    return a->kind == ACT_comm && !action_sends(a) ? RESOURCE_bandwidth
           : a->kind == ACT_comm && a->comm.small  ? RESOURCE_small
           : a->kind == ACT_comm && a->near        ? RESOURCE_near
           : action_on_host(a)                     ? RESOURCE_host
                                                   : action_info[a->kind].resource;
}

bool moves_with(const Place *x, const Place *y)
{
    bool alike = x->nloops == y->nloops;
    for (int i = 0; alike && i < x->nloops; i++)
        alike = x->loop[i].loop == y->loop[i].loop && x->loop[i].stride == y->loop[i].stride;
    return alike;
}

bool bytes_meet(Bytes x, Bytes y)
{
    return x.lo < y.hi && y.lo < x.hi;
}

/* Have two operands bytes in common, in one iteration of the loops around both (once), or in any?
 * A phase of a pair keeps the order in which it touches a tensor, since P12 proves that by all its
 * bytes. */
static bool meet(const Plan *p, const Program *g, const Operand *x, const Operand *y, bool placed,
                 bool once)
{
    return once && moves_with(&x->at, &y->at)
               ? bytes_meet(operand_bytes_once(p, x, placed), operand_bytes_once(p, y, placed))
               : bytes_meet(operand_bytes(p, g, x, placed), operand_bytes(p, g, y, placed));
}

static bool conflicts(const Plan *plan, const Program *g, const Action *a, const Action *b,
                      bool placed, bool once)
{
    if (a->joined != b->joined)
        return false;
    for (int i = 0; i < a->noperands; i++)
        for (int k = 0; k < b->noperands; k++) {
            const Operand *x = &a->operand[i], *y = &b->operand[k];
            if ((x->write || y->write) && (placed || x->at.buffer == y->at.buffer) &&
                meet(plan, g, x, y, placed, once && !a->joined))
                return true;
        }
    return false;
}

bool conflict(const Plan *plan, const Program *g, const Action *a, const Action *b, bool placed)
{
    return conflicts(plan, g, a, b, placed, false);
}

bool conflict_once(const Plan *plan, const Program *g, const Action *a, const Action *b)
{
    return conflicts(plan, g, a, b, true, true);
}

bool needs_links(const Action *a)
{
    const Resource r = resource_of(a);
    return r == RESOURCE_links || r == RESOURCE_near || r == RESOURCE_small;
}

bool in_order(const Plan *p, const Program *g, size_t x, size_t y, bool once)
{
    const Action *a = &g->actions.data[x], *b = &g->actions.data[y];
    return (needs_links(a) && resource_of(a) == resource_of(b)) ||
           conflicts(p, g, a, b, true, once);
}

/* ---- which stream --------------------------------------------------------------------------- */

/* Kernels that may run beside a product, from the action after it on: their time. */
static double beside_product(const Stretch *s, size_t at)
{
    const Action *act = s->g->actions.data;
    double t = 0;
    for (size_t i = at + 1; i < s->end && !conflict_once(s->p, s->g, &act[at], &act[i]); i++)
        t += resource_of(&act[i]) == RESOURCE_bandwidth ? act[i].seconds : 0;
    return t;
}

/* Did anything that computes, and stands behind it, begin before it did? */
static bool lets_by(const Stretch *s, size_t i)
{
    const Action *act = s->g->actions.data;
    bool any = false;
    for (size_t k = i + 1; k < s->end && !any; k++) {
        const Resource r = resource_of(&act[k]);
        any = (r == RESOURCE_arithmetic || r == RESOURCE_bandwidth) && act[k].begin < act[i].begin;
    }
    return any;
}

/* A collective leaves the rest to see what runs beside it then; if that is too little, it goes
 * back, for nobody had to wait for it: unless it stood behind another collective meanwhile, and the
 * rest would do so with it. */
static int stream_for(const Stretch *s, size_t i, bool seen)
{
    const Action *a = &s->g->actions.data[i];
    const Device *d = s->p->device;
    if (a->kind == ACT_gemm && !d->products_wait && beside_product(s, i) >= WORTH * a->seconds)
        return PRODUCTS;
    if (needs_links(a) && d->streams > 1 && !d->collectives_wait &&
        (!seen || a->exposed <= (1 - WORTH) * a->seconds || lets_by(s, i)))
        return a->comm.small ? SMALL : a->near ? NEAR : COLLECTIVES;
    if (a->kind == ACT_fetch)
        return FETCHES;
    if (action_on_host(a))
        return HOST;
    return a->kind == ACT_offload ? OFFLOADS : REST;
}

/* The action before the stretch, where all streams meet, and transfers and collectives may begin.
 * NONE: the program begins, or it is a place of a pipeline's rounds, which has no point. */
static size_t meeting(const Stretch *s)
{
    const Program *g = s->g;
    if (!s->from)
        return NONE;
    const Action *a = &g->actions.data[s->from - 1];
    const bool rounds = g->pipe && (a->kind == ACT_phase || a->chunk ||
                                    (action_is_mark(a) && (int)a->loop == g->pipe->loop));
    return rounds ? NONE : s->from - 1;
}

/* Does it begin where the streams meet, if nothing holds it back? */
static bool begins_at_meeting(const Stretch *s, size_t i)
{
    const Action *a = &s->g->actions.data[i];
    return meeting(s) != NONE && (action_is_beside(a) || needs_links(a));
}

/* A stream begins after an action of the rest, which has met all streams, or where they meet. */
static bool can_leave(const Stretch *s, size_t i)
{
    const Action *act = s->g->actions.data;
    size_t k = s->from;
    if (s->points + 3 > MG_POINTS_MAX)
        return false;
    if (begins_at_meeting(s, i))
        return true;
    while (k < i && act[k].stream != REST)
        k++;
    return k < i;
}

/* ---- who waits for whom --------------------------------------------------------------------- */

static void wait_for(Stretch *s, size_t i, size_t k)
{
    Action *act = s->g->actions.data;
    Before *b = &s->before[i];
    act[i].wait[act[k].stream] = (uint32_t)k + 1;
    s->point[k] = true;
    for (int n = 0; n < USED; n++)
        if (s->before[k].upto[n] > b->upto[n])
            b->upto[n] = s->before[k].upto[n];
    if (k + 1 > b->upto[act[k].stream])
        b->upto[act[k].stream] = (uint32_t)k + 1;
}

/* Finds the actions that must be done before action i, the latest first, for it may imply the
 * others. all: every earlier action must be done. */
static void find_waits(Stretch *s, size_t i, bool all)
{
    Action *act = s->g->actions.data;
    Before *b = &s->before[i];
    size_t first = i;
    for (size_t k = i; k-- > s->from;)
        if (act[k].stream == act[i].stream) {
            *b = s->before[k];
            b->upto[act[k].stream] = (uint32_t)k + 1;
            break;
        }
    for (size_t k = i; k-- > s->from;) {
        first = act[k].stream == REST ? k : first;
        if (act[k].stream != act[i].stream && k + 1 > b->upto[act[k].stream] &&
            (all || in_order(s->p, s->g, k, i, true)))
            wait_for(s, i, k);
    }
    if (act[i].stream != REST && !b->upto[REST])
        wait_for(s, i, begins_at_meeting(s, i) ? meeting(s) : first);
}

/* Streams of the actions [from, end), and who waits; the one at `end` comes after all of them.
 * seen: the timeline has been told. */
static void choose(Stretch *s, bool seen)
{
    Action *act = s->g->actions.data;
    const int points = s->points;
    for (size_t i = s->from; i < s->end; i++) {
        int stream = can_leave(s, i) ? stream_for(s, i, seen) : REST;
        act[i].stream = (uint8_t)stream;
        s->points += stream != REST ? 2 : 0; /* who it waits for, and it */
        find_waits(s, i, false);
    }
    find_waits(s, s->end, true);
    s->points = points;
    for (size_t i = s->from; i < s->end; i++)
        s->points += s->point[i];
    s->points += meeting(s) != NONE && s->point[meeting(s)];
}

static void forget(Stretch *s)
{
    Action *act = s->g->actions.data;
    for (size_t i = s->from; i < s->end; i++) {
        s->points -= s->point[i];
        s->point[i] = false;
        s->before[i] = (Before){0};
        memset(act[i].wait, 0, sizeof act[i].wait);
        act[i].stream = REST;
    }
    if (meeting(s) != NONE) {
        s->points -= s->point[meeting(s)];
        s->point[meeting(s)] = false;
    }
    s->before[s->end] = (Before){0};
    memset(act[s->end].wait, 0, sizeof act[s->end].wait);
}

static void choose_twice(Stretch *s)
{
    bool any = false;
    for (size_t i = s->from; i < s->end; i++)
        any |= needs_links(&s->g->actions.data[i]);
    choose(s, false);
    if (!any)
        return;
    timeline_stretch(s->p, s->g, (int)s->from, (int)s->end, 0);
    forget(s);
    choose(s, true);
}

/* How many points a table needs for what is beside it. */
static int beside_points(const Plan *p, const Program *g)
{
    const bool any = g->pipe && (g->pipe->ahead || g->pipe->behind);
    return any ? MG_POINTS_BESIDE + p->module->layout.pipeline.chunks : 0;
}

/* On a processor nothing is beside: the thread that computes does it where the table says. */
static void put_beside(const Plan *p, Program *g)
{
    for (size_t i = 0; i < g->actions.n; i++)
        if (g->actions.data[i].chunk)
            g->actions.data[i].stream =
                p->device->target == TARGET_cuda ? MG_STREAM_BESIDE : MG_STREAM_REST;
}

void stretch_streams(const Plan *p, Program *g, size_t from, size_t end)
{
    Arena *tmp = arena_new();
    Stretch s = {.p = p, .g = g, .from = from, .end = end};
    s.before = NEW_ARRAY(tmp, Before, end + 1);
    s.point = NEW_ARRAY(tmp, bool, end + 1);
    s.points = beside_points(p, g);
    choose_twice(&s);
    arena_free(tmp);
}

static void choose_all(const Plan *p, Program *g)
{
    if (!g || !g->actions.n)
        return;
    if (has_queue(p, g)) {
        queue_streams(p, g);
        return;
    }
    Arena *tmp = arena_new();
    const size_t last = g->actions.n - 1;
    Stretch s = {.p = p, .g = g, .before = NEW_ARRAY(tmp, Before, last + 1)};
    s.point = NEW_ARRAY(tmp, bool, last + 1);
    s.points = beside_points(p, g);
    put_beside(p, g);
    s.from = actions_from(g->actions.data, last, 0);
    for (s.end = 0; s.end <= last; s.end++)
        if (meets_all(&g->actions.data[s.end]) || s.end == last) {
            choose_twice(&s);
            s.from = actions_from(g->actions.data, last, s.end + 1);
        }
    arena_free(tmp);
}

int plan_stream_count(const Plan *p)
{
    int n = p->device->streams;
    for (size_t i = 0; p->train && i < p->train->actions.n; i++)
        if (p->train->actions.data[i].stream >= n)
            n = p->train->actions.data[i].stream + 1;
    return n;
}

bool has_streams(const Module *m, const Device *d)
{
    return d->streams > 1 || levels_used(m);
}

void plan_streams(Plan *p)
{
    if (!has_streams(p->module, p->device))
        return;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        choose_all(p, p->programs[k]);
    pipe_join(p);
}
