/* lives.c - the order of a program's actions, and when buffers are alive in it.
 *
 * A buffer is alive from the first action that touches it to the last; what crosses a loop's
 * iterations, in the whole loop. Where a device has several streams the actions between two places
 * where all streams meet are put in another order first (arrange.c), and what a collective touches
 * is alive as long as it may run, so that its bytes are nobody else's then: without that, it would
 * have to wait for them, and others for it. */
#include "plan/order/order.h"
#include "plan/order/streams.h"
#include "plan/outside.h"
#include "plan/place/place.h"

typedef struct Lives {
    Plan *p;
    Program *prog;
    int program; /* its number in Buffer.program */
    Arena *tmp;
    int64_t *alive; /* while lives are extended: bytes of transient buffers, at each action */
    int64_t most;   /* of these */
} Lives;

/* The innermost loop around an action that is inside `home`'s body, or is the home's own level: -1.
 * A buffer new in each iteration of `home` that a deeper loop touches is alive in all of that loop.
 */
static int loop_under(const Program *p, int around, int home)
{
    int under = -1;
    for (int l = around; l >= 0 && l != home; l = p->loops.data[l].parent)
        under = l;
    return under;
}

void plan_touched(const Plan *p, const Program *g, int *first, int *last)
{
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        for (int k = 0; k < a->noperands; k++) {
            const uint32_t b = a->operand[k].at.buffer;
            const int l = loop_under(g, a->around, p->buffers.data[b].home);
            const int begin = l < 0 ? (int)i : g->loops.data[l].begin;
            const int end = l < 0 ? (int)i : g->loops.data[l].end;
            first[b] = first[b] < 0 || begin < first[b] ? begin : first[b];
            last[b] = end > last[b] ? end : last[b];
        }
    }
}

/* Buffers that an action touches live from `first` to `last` at least. */
static void extend(Lives *s, const Action *a, int first, int last)
{
    for (int k = 0; k < a->noperands; k++) {
        Buffer *b = &s->p->buffers.data[a->operand[k].at.buffer];
        b->first = first < b->first ? first : b->first;
        b->last = last > b->last ? last : b->last;
    }
}

/* While microbatches are under way: what has slots, and what messages lie in; and what collectives
 * beside the table touch. Behind the loop these stand in another order than they run in. */
static void pipe_lifetimes(Lives *s)
{
    const Pipe *p = s->prog->pipe;
    if (!p)
        return;
    for (int i = 0; i < (int)s->prog->actions.n; i++) {
        const Action *a = &s->prog->actions.data[i];
        if (a->chunk)
            extend(s, a, i < p->ahead ? 0 : s->prog->loops.data[p->loop].begin,
                   i < p->ahead ? s->prog->loops.data[p->loop].end : pipe_behind(s->prog));
    }
    const Loop *micro = &s->prog->loops.data[p->loop];
    for (size_t k = 0; k < s->p->buffers.n; k++) {
        Buffer *b = &s->p->buffers.data[k];
        bool message = false;
        for (int way = 0; way < 2 && p->message[way]; way++)
            message |= k == p->sent[way] || k == p->received[way];
        if (b->program == s->program && b->first >= 0 && (b->slot || message)) {
            b->first = micro->begin;
            b->last = micro->end;
        }
    }
}

static void set_lifetimes(Lives *s)
{
    const size_t n = s->p->buffers.n;
    int *first = NEW_ARRAY(s->tmp, int, n + 1), *last = NEW_ARRAY(s->tmp, int, n + 1);
    for (size_t b = 0; b < n; b++) {
        first[b] = s->p->buffers.data[b].first;
        last[b] = s->p->buffers.data[b].last;
    }
    plan_touched(s->p, s->prog, first, last);
    for (size_t b = 0; b < n; b++) {
        s->p->buffers.data[b].first = first[b];
        s->p->buffers.data[b].last = last[b];
    }
    pipe_lifetimes(s);
}

/* Does a buffer take bytes of the program's own, while it is alive? */
static bool is_counted(const Lives *s, const Buffer *b)
{
    return !b->persistent && !b->level && b->program == s->program && b->first >= 0;
}

static int64_t most_of(const int64_t *alive, size_t n)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = alive[i] > most ? alive[i] : most;
    return most;
}

static void count_alive(Lives *s)
{
    const size_t n = s->prog->actions.n;
    int64_t *alive = NEW_ARRAY(s->tmp, int64_t, n + 1);
    for (size_t k = 0; k < s->p->buffers.n; k++) {
        const Buffer *b = &s->p->buffers.data[k];
        if (!is_counted(s, b))
            continue;
        alive[b->first] += b->bytes;
        alive[b->last + 1] -= b->bytes;
    }
    for (size_t i = 1; i < n; i++)
        alive[i] += alive[i - 1];
    s->alive = alive;
    s->most = most_of(alive, n);
}

/* The most bytes of transient buffers that are alive at once. */
static int64_t max_alive(Lives *s)
{
    count_alive(s);
    return s->most;
}

/* Bytes are alive at actions from one on up to another, which is not among them; most is no less
 * than it was. */
static void add_alive(Lives *s, int from, int end, int64_t bytes)
{
    for (int i = from; i < end; i++) {
        s->alive[i] += bytes;
        s->most = s->alive[i] > s->most ? s->alive[i] : s->most;
    }
}

/* A life becomes a longer one, or a shorter one. */
static void move_life(Lives *s, Buffer *b, int first, int last)
{
    if (is_counted(s, b)) {
        add_alive(s, first, b->first, b->bytes);
        add_alive(s, b->first, first, -b->bytes);
        add_alive(s, b->last + 1, last + 1, b->bytes);
        add_alive(s, last + 1, b->last + 1, -b->bytes);
    }
    b->first = first;
    b->last = last;
}

/* The end of the stretch that begins at `from`: what meets all streams there, or the program's end.
 */
static int stretch_end(const Program *g, int from)
{
    int i = from;
    while (i < (int)g->actions.n && !meets_all(&g->actions.data[i]))
        i++;
    return i;
}

/* A stretch begins behind what is beside a pipeline's table, which is in none. */
static int next_stretch(const Program *g, int from)
{
    return (int)actions_from(g->actions.data, g->actions.n, (size_t)from);
}

static bool touches_written(const Action *a, const Action *by)
{
    for (int i = 0; i < by->noperands; i++)
        for (int k = 0; by->operand[i].write && k < a->noperands; k++)
            if (a->operand[k].at.buffer == by->operand[i].at.buffer)
                return true;
    return false;
}

/* The same, if no more is alive then than may be. */
static void extend_if_room(Lives *s, const Action *a, int first, int last, int64_t limit)
{
    Buffer *const all = s->p->buffers.data, was[MAX_OPERANDS];
    for (int k = 0; k < a->noperands; k++)
        was[k] = all[a->operand[k].at.buffer];
    for (int k = 0; k < a->noperands; k++) {
        Buffer *b = &all[a->operand[k].at.buffer];
        move_life(s, b, first < b->first ? first : b->first, last > b->last ? last : b->last);
    }
    for (int k = 0; k < a->noperands && s->most > limit; k++) {
        move_life(s, &all[a->operand[k].at.buffer], was[k].first, was[k].last);
        s->most = most_of(s->alive, s->prog->actions.n);
    }
}

/* In a queue it may still run when its stretch is over: in the next iterations of the loops around
 * it, and behind them, up to whom all wait for or who needs its result; *after begins where the
 * stretch ends. */
static void goes_on(const Program *p, const Action *a, int *first, int *after)
{
    const Action *act = p->actions.data;
    for (int n = (int)p->actions.n, inside = a->around; *after < n; ++*after) {
        const Action *x = &act[*after];
        if (x->kind == ACT_guard || touches_written(x, a))
            break;
        if (x->kind == ACT_end && (int)x->loop == inside) {
            const Loop *l = &p->loops.data[x->loop];
            *first = l->begin < *first ? l->begin : *first;
            inside = l->parent;
        }
    }
}

/* A collective runs beside others: it may begin while the action before it runs, and is done when
 * the first begins that needs its result. What it touches is alive in all that time. */
static void extend_stretch(Lives *s, int from, int end, int64_t limit)
{
    const Program *p = s->prog;
    const Action *act = p->actions.data;
    for (int i = from, before = from; i < end; i++) {
        if (!needs_links(&act[i])) {
            before = i;
            continue;
        }
        int first = before, after = i + 1;
        while (after < end && !touches_written(&act[after], &act[i]))
            after++;
        if (after == end && has_queue(s->p, p))
            goes_on(p, &act[i], &first, &after);
        after = after < (int)p->actions.n ? after : (int)p->actions.n - 1;
        extend_if_room(s, &act[i], first, after, limit);
    }
}

/* Kernels may run beside a product (streams.c) as long as they touch none of its bytes: what it
 * touches stays alive beside as many of those that follow as it takes time for, so that they are
 * not given its bytes, if no more is alive then than is anyway. */
static void extend_products(Lives *s, int from, int end)
{
    const Action *act = s->prog->actions.data;
    for (int i = from; i < end; i++) {
        double beside = 0;
        int last = i;
        if (act[i].kind != ACT_gemm)
            continue;
        while (last + 1 < end && beside < act[i].seconds &&
               !conflict(s->p, s->prog, &act[i], &act[last + 1], false)) {
            last++;
            beside += resource_of(&act[last]) == RESOURCE_bandwidth ? act[last].seconds : 0;
        }
        if (beside > 0)
            extend_if_room(s, &act[i], i, last, s->most);
    }
}

/* Transfers of one way follow each other without a gap, if there is room: one may begin when the
 * one before it begins, and is done when the next one is. */
static void extend_transfers(Lives *s, int from, int end, int64_t limit)
{
    const Action *act = s->prog->actions.data;
    for (int i = from, fetched = from; i < end; i++) {
        int next = i + 1;
        if (!action_transfers(&act[i]))
            continue;
        while (next + 1 < end && act[next].kind != act[i].kind)
            next++;
        if (act[i].kind == ACT_fetch)
            extend_if_room(s, &act[i], fetched, i, limit);
        else
            extend_if_room(s, &act[i], i, next < end ? next : i, limit);
        fetched = act[i].kind == ACT_fetch ? i : fetched;
    }
}

static void renew_lifetimes(Lives *s)
{
    for (size_t b = 0; b < s->p->buffers.n; b++) {
        Buffer *x = &s->p->buffers.data[b];
        if (!x->persistent && x->program == s->program)
            x->first = x->last = -1;
    }
    set_lifetimes(s);
}

static void number_actions(Program *g)
{
    uint32_t id = UINT32_MAX;
    for (size_t i = 0; i < g->actions.n; i++)
        id = g->actions.data[i].id < id ? g->actions.data[i].id : id;
    for (size_t i = 0; i < g->actions.n; i++) /* in the order of the program, as before */
        if (g->actions.data[i].id != UINT32_MAX)
            g->actions.data[i].id = id++;
}

/* Is it on the device in the whole program? */
static bool takes_room(const Lives *s, const Buffer *b)
{
    return !b->level && (buffer_always(b) || (b->persistent && program_has_caches(s->program)));
}

/* Bytes that may be alive: no more than are anyway, or, where collectives may take room, than the
 * device has, but for what a packing may lose. */
static int64_t max_allowed(Lives *s)
{
    const double PACKED = 0.98;
    int64_t max = max_alive(s),
            room = (int64_t)(PACKED * (double)(plan_budget(s->p->module, s->p->device) -
                                               outside_bytes(s->p)));
    for (size_t b = 0; b < s->p->buffers.n; b++)
        room -= takes_room(s, &s->p->buffers.data[b]) ? s->p->buffers.data[b].bytes : 0;
    return s->p->module->layout.overlap && room > max ? room : max;
}

/* Puts what a step gathers and reduces once beside its pipeline's table, if there is room. */
static bool put_beside(Lives *s, int64_t limit)
{
    if (!pipe_beside(s->p, s->prog, s->tmp))
        return false;
    renew_lifetimes(s);
    if (max_alive(s) > limit)
        pipe_alone(s->p, s->prog);
    return true;
}

static void order_actions(Lives *s)
{
    Program *g = s->prog;
    set_lifetimes(s);
    if (!has_streams(s->p->module, s->p->device))
        return;
    const int64_t limit = max_allowed(s);
    bool any = has_queue(s->p, g) && s->p->module->layout.overlap && sink_waits(s->p, g, s->tmp);
    any |= put_beside(s, limit);
    if (any)
        renew_lifetimes(s);
    for (int from = next_stretch(g, 0); from < (int)g->actions.n; from = next_stretch(g, from)) {
        int end = stretch_end(g, from);
        if (end - from > 1)
            any |= arrange_stretch(s->p, g, s->program, from, end, limit, s->tmp);
        any |= place_fetches(s->p, g, from, end, s->tmp);
        from = end + 1;
    }
    if (any) {
        number_actions(g);
        renew_lifetimes(s);
    }
    count_alive(s);
    for (int from = next_stretch(g, 0); from < (int)g->actions.n; from = next_stretch(g, from)) {
        int end = stretch_end(g, from);
        if (s->p->module->layout.overlap && s->p->device->streams > 1)
            extend_stretch(s, from, end, limit);
        extend_transfers(s, from, end, limit);
        if (!s->p->device->products_wait)
            extend_products(s, from, end);
        from = end + 1;
    }
}

void plan_order(Plan *p)
{
    Program *const *const all = p->programs;
    Arena *tmp = arena_new();
    for (int i = 0; i < PLAN_PROGRAMS; i++)
        if (all[i])
            order_actions(&(Lives){.p = p, .prog = all[i], .program = i, .tmp = tmp});
    arena_free(tmp);
}
