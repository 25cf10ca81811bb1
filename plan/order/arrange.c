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
 * Collectives need the links alone, and go into any order that their operands allow: the program's,
 * which is that of all ranks, is the one that is made here. One may begin while the action before
 * it runs, and may still run when the next one begins; so its operands are alive from the action
 * before it to the first that needs its result.
 *
 * The longest path is not all there is to it: where everything computes all the time anyway, what
 * is to be sent should be made early, so that the last messages have something to run beside. So
 * several orders are made: one by paths alone, one in which that comes first, and two that keep to
 * the program where two could begin as soon, of which one has that first, too. The last is for
 * pieces that take turns: what of a piece has arrived goes out again before the next piece does.
 * And one goes by all that has to come after, and not by the longest path of it: of two messages
 * that are ready the one that most waits for is sent first, and its products run beside the other.
 *
 * Times of collectives are late ones (PLAN_LATE). Where by these the links take longer than all
 * that computes, any order in which they are always busy is as good. There orders are made by times
 * that are not late, too, and that one is best whose two times together are least.
 *
 * If collectives are a queue, those of the loop before a stretch may still be under way when it
 * begins (queue_late.c): their results are ready later.
 *
 * Memory is a limit and no objective: an action that would make more bytes alive than are given is
 * not ready; where that leaves none, the one is taken that leaves least alive. The faster order is
 * kept only if it is faster than the program's by the same measure, and within the limit. */
#include "plan/order/streams.h"

#include <stdlib.h>
#include <string.h>

/* An order has to save so much of the time to be taken. */
static const double WORTH = 0.002;
/* And the one by all that has to come after so much more, for it goes least by the program. */
static const double MOST_WORTH = 0.02;

/* Times by which an order is made: collectives are late, or they are not. */
typedef enum Pace { PACE_late, PACE_on_time, PACES } Pace;

typedef struct Touch {
    uint32_t buffer;
    Bytes bytes, now; /* of all iterations of the loops around; of one */
    const Place *at;
    bool write;
} Touch;

/* An action of the stretch, by its place in it. */
typedef struct Node {
    const Action *a;
    bool sends;
    bool gives;     /* a collective waits for it */
    double seconds; /* that it takes, by the times of a pace */
    double of[PACES];
    double late; /* from the beginning until what it needs of those before is there */
    int ntouches, nuses;
    Touch *touch;
    uint32_t *use; /* buffers that are alive while it runs: those it touches, and those that a
                      collective reads whose result it is the first to need */
    bool *before;  /* per node: it comes after that one */
    double tail;   /* seconds of the longest path behind it */
    double behind; /* of all that comes after it */
    /* While an order is made: */
    int waiting;  /* of those before it, how many are not placed */
    double ready; /* when those that are placed are done */
    bool placed;
} Node;

/* A buffer that the stretch touches. */
typedef struct Use {
    int64_t bytes; /* 0: alive all the time, whatever the order */
    bool born, dies;
    int left, placed; /* actions that use it: not placed, placed */
} Use;

typedef struct Stretch {
    const Plan *p;
    int n;
    Node *node;
    Use *use;       /* per buffer of the plan */
    bool sends;     /* there are collectives */
    bool apart;     /* kernels run beside products: no collective takes longer than they do */
    bool exchanges; /* and among them such that ranks exchange what they have by */
    bool queue;     /* which are a queue */
    bool placed;    /* buffers have places; what is alive is settled */
    bool bound;     /* late collectives take longer than all that computes, within the stretch */
    double late;    /* until the collectives of before are through */
    int64_t limit, outside;
    Arena *tmp;
} Stretch;

/* ---- what comes after what ------------------------------------------------------------------ */

static void add_use(Node *v, uint32_t buffer)
{
    for (int i = 0; i < v->nuses; i++)
        if (v->use[i] == buffer)
            return;
    v->use[v->nuses++] = buffer;
}

static void read_touches(Stretch *s, const Program *g, Node *v)
{
    const Action *a = v->a;
    v->sends = needs_links(a);
    const double slowed = !v->sends && s->placed ? s->p->device->link_slowdown : 1;
    v->of[PACE_on_time] = slowed * a->seconds;
    v->of[PACE_late] = (v->sends && !s->placed ? PLAN_LATE : slowed) * a->seconds;
    v->seconds = v->of[PACE_late];
    v->touch = NEW_ARRAY(s->tmp, Touch, a->noperands + 1);
    v->use = NEW_ARRAY(s->tmp, uint32_t, s->p->buffers.n);
    for (int k = 0; k < a->noperands; k++) {
        const Operand *o = &a->operand[k];
        v->touch[v->ntouches++] = (Touch){.buffer = s->placed ? 0 : o->at.buffer,
                                          .bytes = operand_bytes(s->p, g, o, s->placed),
                                          .now = operand_bytes_once(s->p, o, s->placed),
                                          .at = &o->at,
                                          .write = o->write};
        add_use(v, o->at.buffer);
    }
}

/* May two not change places? A stretch is of one iteration: they may where they touch other bytes
 * of a buffer; in a pair they keep the order in which they touch a tensor, for P12 proves that by
 * all its bytes.
 */
static bool nodes_conflict(const Node *x, const Node *y)
{
    if (x->a->joined != y->a->joined)
        return false;
    for (int i = 0; i < x->ntouches; i++)
        for (int k = 0; k < y->ntouches; k++) {
            const Touch *a = &x->touch[i], *b = &y->touch[k];
            if (a->buffer == b->buffer && (a->write || b->write) &&
                bytes_meet(a->bytes, b->bytes) &&
                (x->a->joined || !moves_with(a->at, b->at) || bytes_meet(a->now, b->now)))
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
            v->before[k] = nodes_conflict(&s->node[k], v);
    }
    for (int i = s->n - 1; i >= 0; i--) {
        Node *v = &s->node[i];
        for (int k = i + 1; k < s->n; k++) {
            const Node *next = &s->node[k];
            if (next->before[i] && next->tail + next->seconds > v->tail)
                v->tail = next->tail + next->seconds;
            v->gives |= next->before[i] && next->sends && !v->sends;
        }
    }
}

/* Of each node, the seconds of all that has to come after it, directly or not. */
static void read_behind(Stretch *s)
{
    const int words = (s->n + 63) / 64;
    uint64_t *after = NEW_ARRAY(s->tmp, uint64_t, (size_t)s->n *(size_t)words);
    for (int i = s->n - 1; i >= 0; i--) {
        uint64_t *mine = after + (size_t)i * (size_t)words;
        for (int k = i + 1; k < s->n; k++) {
            if (!s->node[k].before[i])
                continue;
            const uint64_t *theirs = after + (size_t)k * (size_t)words;
            for (int w = 0; w < words; w++)
                mine[w] |= theirs[w];
            mine[k / 64] |= (uint64_t)1 << k % 64;
        }
        for (int k = i + 1; k < s->n; k++)
            s->node[i].behind += mine[k / 64] >> k % 64 & 1 ? s->node[k].seconds : 0;
    }
}

/* Collectives that began before the stretch and may run during it. */
static void read_late(Stretch *s, const Program *g, int from)
{
    const double *late = queue_late(g, from, s->tmp);
    for (int k = 0; k < from; k++) {
        s->late = late[k] > s->late ? late[k] : s->late;
        for (int i = 0; i < s->n && late[k] > 0; i++)
            if (late[k] > s->node[i].late &&
                conflict(s->p, g, &g->actions.data[k], s->node[i].a, false))
                s->node[i].late = late[k];
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

/* The operands of collective i live until the first action that needs its result; if the stretch
 * has none, beyond its end. */
static void hold_operands(Stretch *s, int i)
{
    const Node *v = &s->node[i];
    int first = i + 1;
    while (first < s->n && !s->node[first].before[i])
        first++;
    for (int k = 0; k < v->ntouches; k++)
        if (first < s->n)
            add_use(&s->node[first], v->touch[k].buffer);
        else
            s->use[v->touch[k].buffer].dies = false;
}

static void read_buffers(Stretch *s, int program, int from, int end)
{
    for (size_t b = 0; b < s->p->buffers.n; b++) {
        const Buffer *x = &s->p->buffers.data[b];
        if (x->persistent || x->program != program || x->first < 0)
            continue;
        bool begins = x->first >= from && x->first < end, ends = x->last >= from && x->last < end;
        if (begins || ends)
            s->use[b] = (Use){.bytes = x->bytes, .born = begins, .dies = ends};
        if (!begins && x->first < from && x->last >= from)
            s->outside += x->bytes;
    }
    for (int i = 0; i < s->n; i++)
        if (s->node[i].sends)
            hold_operands(s, i);
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->node[i].nuses; k++)
            s->use[s->node[i].use[k]].left++;
}

/* Bytes alive while an action runs after those that are placed, and after it, beside those now. */
static void live_bytes(const Stretch *s, const Node *v, int64_t *during, int64_t *after)
{
    *during = *after = 0;
    for (int k = 0; k < v->nuses; k++) {
        const Use *u = &s->use[v->use[k]];
        if (u->born && !u->placed)
            *during += u->bytes;
        if (u->dies && u->left == 1)
            *after -= u->bytes;
    }
    *after += *during;
}

/* ---- time ----------------------------------------------------------------------------------- */

typedef struct State {
    double free[RESOURCE_count];
    double since; /* when the last that is no collective begins */
    int64_t live;
    int64_t highest; /* alive while that runs, with what collectives after it write */
    int *place;      /* per position: the node there */
    int n;
} State;

/* The resource for which a node waits. Collectives take longer than kernels, so beside them all
 * computation is taken to be in one stream, as most of it is. Small ones are no such (small.c):
 * they leave kernels beside products, where layers wait for nothing but largest numbers. Transfers
 * take nothing from what computes. */
static Resource unit_of(const Stretch *s, const Node *v)
{
    const Resource r = resource_of(v->a);
    return r == RESOURCE_bandwidth && !s->apart ? RESOURCE_arithmetic : r;
}

/* A collective stands behind what runs when it begins. */
static double begins(const Stretch *s, const State *t, const Node *v)
{
    double when = t->free[unit_of(s, v)];
    when = v->ready > when ? v->ready : when;
    return v->sends && t->since > when ? t->since : when;
}

/* When it can be placed: what is to be sent is handed to a queue as soon as it is there. */
static double placed_at(const Stretch *s, const State *t, const Node *v)
{
    if (v->sends && s->queue)
        return v->ready > t->since ? v->ready : t->since;
    return begins(s, t, v);
}

static bool has_room(const Stretch *s, const State *t, const Node *v, int64_t during)
{
    return (v->sends ? t->highest : t->live) + during <= s->limit;
}

/* Places node i next. False: more is alive then than may be. */
static bool put(Stretch *s, State *t, int i)
{
    Node *v = &s->node[i];
    int64_t during, after;
    live_bytes(s, v, &during, &after);
    bool fits = has_room(s, t, v, during);
    double begin = begins(s, t, v), end = begin + v->seconds;
    t->since = v->sends ? t->since : begin;
    t->highest = (v->sends ? t->highest : t->live) + during;
    t->free[unit_of(s, v)] = end;
    t->live += after;
    v->placed = true;
    t->place[t->n++] = i;
    for (int k = 0; k < v->nuses; k++) {
        s->use[v->use[k]].left--;
        s->use[v->use[k]].placed++;
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
    State t = {.free[RESOURCE_links] = s->late, .live = s->outside, .highest = s->outside};
    t.place = NEW_ARRAY(s->tmp, int, s->n);
    for (int i = 0; i < s->n; i++) {
        Node *v = &s->node[i];
        v->waiting = 0;
        v->ready = v->late;
        v->placed = false;
        for (int k = 0; k < i; k++)
            v->waiting += v->before[k];
    }
    for (size_t b = 0; b < s->p->buffers.n; b++) {
        s->use[b].left += s->use[b].placed;
        s->use[b].placed = 0;
    }
    return t;
}

static double makespan(const State *t)
{
    double end = 0;
    for (int r = 0; r < RESOURCE_count; r++)
        end = t->free[r] > end ? t->free[r] : end;
    return end;
}

/* Seconds of the path that begins with it. Beside collectives those behind it: work that is done in
 * one place, and then has some way to go by itself, goes by how far that is. */
static double urgency(const Stretch *s, const Node *v)
{
    return v->tail + (s->sends ? 0 : v->seconds);
}

/* Reasons for an action to be the first of those that could begin as soon. */
typedef enum First {
    FIRST_longest, /* the longest path */
    FIRST_giving,  /* what is to be sent, then the longest path */
    FIRST_written, /* the program's order, in which pieces take turns (passes/spmd/pieces.c) */
    FIRST_turns,   /* what is to be sent, then the program's order */
    FIRST_most     /* what most has to come after */
} First;

/* Of two that could begin as soon; v stands behind the other in the program. */
static bool is_urgent(const Stretch *s, const Node *v, const Node *than, First first)
{
    if (first == FIRST_written)
        return false;
    if ((first == FIRST_giving || first == FIRST_turns) && v->gives != than->gives)
        return v->gives;
    if (first == FIRST_turns)
        return false;
    if (first == FIRST_most)
        return v->behind > than->behind;
    return urgency(s, v) > urgency(s, than);
}

/* The node to place next among those that nothing holds back. */
static int pick(const Stretch *s, const State *t, First first)
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
        if (!has_room(s, t, v, during))
            continue;
        double begin = placed_at(s, t, v);
        if (best < 0 || begin < when || (begin == when && is_urgent(s, v, &s->node[best], first))) {
            best = i;
            when = begin;
        }
    }
    return best >= 0 ? best : least;
}

static void set_pace(Stretch *s, Pace pace)
{
    for (int i = 0; i < s->n; i++)
        s->node[i].seconds = s->node[i].of[pace];
}

/* Seconds of an order, in which all nodes are placed, by times of a pace. */
static double takes(Stretch *s, const int *place, Pace pace)
{
    set_pace(s, pace);
    State t = begin(s);
    for (int k = 0; k < s->n; k++)
        put(s, &t, place ? place[k] : k);
    return makespan(&t);
}

/* Seconds that orders are compared by; place: NULL: as it is. */
static double cost(Stretch *s, const int *place)
{
    const double late = takes(s, place, PACE_late);
    return s->bound ? late + takes(s, place, PACE_on_time) : late;
}

/* An order, if it fits and is faster than *seconds, which it then is. */
static bool order(Stretch *s, First first, Pace pace, State *now, double *seconds)
{
    set_pace(s, pace);
    State t = begin(s);
    bool fits = true;
    while (t.n < s->n)
        fits &= put(s, &t, pick(s, &t, first));
    const double so = !fits || !s->bound ? makespan(&t) : cost(s, t.place);
    if (!fits || so > *seconds)
        return false;
    *seconds = so;
    *now = t;
    return true;
}

/* By times of each pace that counts. */
static bool order_paces(Stretch *s, First first, State *now, double *seconds)
{
    bool any = order(s, first, PACE_late, now, seconds);
    any |= s->bound && order(s, first, PACE_on_time, now, seconds);
    return any;
}

/* Do collectives take longer than all that computes, if they are late? Of a queue, which goes on
 * behind the stretch, it is not asked. */
static bool links_bind(const Stretch *s)
{
    double sends = 0, computes = 0;
    for (int i = 0; i < s->n; i++) {
        const Resource r = resource_of(s->node[i].a);
        sends += r == RESOURCE_links ? s->node[i].of[PACE_late] : 0;
        computes +=
            r == RESOURCE_arithmetic || r == RESOURCE_bandwidth ? s->node[i].of[PACE_late] : 0;
    }
    return sends > computes && !s->placed && !s->queue;
}

bool arrange_stretch(const Plan *p, Program *g, int program, int from, int end, int64_t limit,
                     Arena *tmp)
{
    Stretch s = {.p = p, .n = end - from, .limit = limit, .placed = program == PLACED, .tmp = tmp};
    s.node = NEW_ARRAY(tmp, Node, s.n);
    s.use = NEW_ARRAY(tmp, Use, p->buffers.n);
    bool used[RESOURCE_count] = {false};
    int resources = 0;
    for (int i = 0; i < s.n; i++) {
        s.node[i].a = &g->actions.data[from + i];
        resources += !used[resource_of(s.node[i].a)];
        used[resource_of(s.node[i].a)] = true;
        read_touches(&s, g, &s.node[i]);
        s.sends |= s.node[i].sends;
        s.exchanges |= s.node[i].sends && s.node[i].a->comm.kind == MG_ALL_TO_ALL;
    }
    if (resources < 2 || (s.sends ? p->device->collectives_wait || p->device->streams < 2
                                  : p->device->products_wait))
        return false;
    s.apart = !used[RESOURCE_links];
    read_order(&s);
    if (s.exchanges)
        read_behind(&s);
    s.queue = has_queue(p, g);
    if (s.queue && from > 0 && g->actions.data[from - 1].around < 0)
        read_late(&s, g, from);
    read_buffers(&s, program, from, end);
    s.bound = links_bind(&s);
    for (int i = 0; i < s.n && s.bound; i++) /* beside links that are always busy */
        s.node[i].of[PACE_on_time] *= s.node[i].sends ? 1 : p->device->link_slowdown;
    State now;
    double seconds = (1 - WORTH) * cost(&s, NULL);
    bool any = order_paces(&s, FIRST_longest, &now, &seconds);
    for (First f = FIRST_giving; s.sends && f <= FIRST_turns; f++)
        any |= order_paces(&s, f, &now, &seconds);
    seconds *= 1 - MOST_WORTH;
    any |= s.exchanges && order_paces(&s, FIRST_most, &now, &seconds);
    if (!any)
        return false;
    Action *in_order = NEW_ARRAY(tmp, Action, s.n);
    for (int i = 0; i < s.n; i++)
        in_order[i] = *s.node[now.place[i]].a;
    memcpy(&g->actions.data[from], in_order, (size_t)s.n * sizeof *in_order);
    return true;
}
