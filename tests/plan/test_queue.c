/* Collectives as a queue: random programs with loops in loops, in which whoever computes must never
 * touch what may still be in the queue; how long they take; what sinks behind a loop. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/order/streams.h"
#include "tests/plan/planned.h"
#include "plan/order/order.h"

enum { FEW = 6, MANY = 30, DEPTH = 3, ITERATIONS = 5, LONG = 40, BYTES = 64 };

/* A program whose buffers are each a few pieces, of which some actions take one, by the index of
 * a loop around them, or one of its halves. */
typedef struct Case {
    Arena *a;
    Device d;
    Module m;
    Plan p;
    Program g;
    int depth, around, buffers;
    bool may_guard;
} Case;

static void add_operand(Case *c, Action *act, bool write, uint64_t *rng)
{
    const int part = draw_int(rng, 3), parts = part ? 2 : 1;
    Operand o = {
        .at = {.buffer = (uint32_t)draw_int(rng, c->buffers), .offset = part == 2 ? BYTES / 2 : 0},
        .type = {.dtype = DT_f32, .rank = 1, .dims = {{1, BYTES / 4 / parts}}},
        .stride = {1},
        .read = !write,
        .write = write};
    if (c->around >= 0 && draw_int(rng, 2)) {
        int loop = c->around;
        while (c->g.loops.data[loop].parent >= 0 && draw_int(rng, 2))
            loop = c->g.loops.data[loop].parent;
        o.at.loop[o.at.nloops].loop = (uint32_t)loop;
        o.at.loop[o.at.nloops++].stride = BYTES;
    }
    act->operand[act->noperands++] = o;
}

static void add_action(Case *c, uint64_t *rng)
{
    Action act = {.kind = draw_int(rng, 3) ? ACT_kernel : ACT_comm,
                  .id = (uint32_t)c->g.actions.n,
                  .around = c->around,
                  .seconds = 1 + draw_int(rng, 9)};
    if (c->may_guard && draw_int(rng, 12) == 0)
        act.kind = ACT_guard;
    if (act.kind == ACT_comm)
        act.comm.kind = draw_int(rng, 6) ? MG_ALL_REDUCE : MG_SHARD;
    act.operand = NEW_ARRAY(c->a, Operand, 3);
    add_operand(c, &act, true, rng);
    add_operand(c, &act, false, rng);
    if (draw_int(rng, 2))
        add_operand(c, &act, false, rng);
    vec_push(c->a, &c->g.actions, act);
}

static void add_body(Case *c, int max, uint64_t *rng);

static void add_loop(Case *c, int max, uint64_t *rng)
{
    const int number = (int)c->g.loops.n, outside = c->around;
    const int iterations = c->depth && max > ITERATIONS ? ITERATIONS : max;
    Loop l = {.dim = {1, 1 + draw_int(rng, iterations)},
              .reverse = draw_int(rng, 2),
              .parent = outside,
              .begin = (int)c->g.actions.n};
    Action begin = {
        .kind = ACT_loop, .id = UINT32_MAX, .loop = (uint32_t)number, .around = outside};
    Action end = begin;
    end.kind = ACT_end;
    vec_push(c->a, &c->g.loops, l);
    vec_push(c->a, &c->g.actions, begin);
    c->around = number;
    c->depth++;
    add_body(c, max, rng);
    c->depth--;
    c->around = outside;
    c->g.loops.data[number].end = (int)c->g.actions.n;
    vec_push(c->a, &c->g.actions, end);
}

static void add_body(Case *c, int max, uint64_t *rng)
{
    for (int n = 2 + draw_int(rng, 7); n > 0; n--)
        if (c->depth < DEPTH && draw_int(rng, 4) == 0)
            add_loop(c, max, rng);
        else
            add_action(c, rng);
}

/* Loops have at most so many iterations, those in others no more than ROUNDS. */
static void open_case(Case *c, int buffers, int max, uint64_t *rng)
{
    const int64_t bytes = BYTES * (int64_t)(max > ITERATIONS ? max : ITERATIONS);
    *c = (Case){.a = arena_new(), .d = test_device, .around = -1, .buffers = buffers};
    c->may_guard = draw_int(rng, 2);
    c->d.products_wait = true;
    c->p.device = &c->d;
    c->p.module = &c->m;
    c->p.train = &c->g;
    for (int b = 0; b < buffers; b++)
        vec_push(c->a, &c->p.buffers, (Buffer){.bytes = bytes, .offset = b * bytes});
    add_body(c, max, rng);
    c->may_guard = false;
    add_action(c, rng);
}

/* ---- the thread that runs it
 * --------------------------------------------------------------------- */

/* One in the queue: its bytes in the iteration in which it began, when it begins and ends there. */
typedef struct Sent {
    size_t action;
    int64_t lo[3];
    double end;
} Sent;

typedef struct Thread {
    const Case *c;
    int64_t iteration[64];
    VEC(Sent) sent;
    int64_t *number; /* per action: 1 + its place in the queue, the last time */
    int64_t done;    /* of the queue */
    int64_t after;   /* what is put there next begins when so many are done */
    double now, free, computed, sent_seconds, waited, alone;
    int beyond; /* waits for the iteration before */
    int broken;
} Thread;

static int64_t place_of(const Thread *r, const Operand *o)
{
    int64_t at = r->c->p.buffers.data[o->at.buffer].offset + o->at.offset;
    for (int i = 0; i < o->at.nloops; i++)
        at += o->at.loop[i].stride * r->iteration[o->at.loop[i].loop];
    return at;
}

static int64_t bytes_of(const Operand *o)
{
    return 4 * o->type.dims[0].size;
}

static bool sends(const Action *a)
{
    return a->kind == ACT_comm && a->comm.kind != MG_SHARD;
}

/* A queued action behind the first `done` may be anywhere between its first byte and its last:
 * beside what computes, and beside what the queue takes up next. */
static void check_touches(Thread *r, const Action *a, int64_t done)
{
    for (int64_t k = done; k < (int64_t)r->sent.n; k++) {
        const Sent *s = &r->sent.data[k];
        const Action *b = &r->c->g.actions.data[s->action];
        r->broken += !a->stream && (sends(a) || a->kind == ACT_guard);
        for (int i = 0; i < a->noperands; i++)
            for (int n = 0; n < b->noperands; n++)
                r->broken += (a->operand[i].write || b->operand[n].write) &&
                             place_of(r, &a->operand[i]) < s->lo[n] + bytes_of(&b->operand[n]) &&
                             s->lo[n] < place_of(r, &a->operand[i]) + bytes_of(&a->operand[i]);
    }
}

static void run_one(Thread *r, size_t i)
{
    const Action *a = &r->c->g.actions.data[i];
    for (int s = 0; s < MAX_STREAMS; s++) {
        if (!a->wait[s])
            continue;
        const int64_t upto = r->number[a->wait[s] - 1];
        r->beyond += a->wait[s] - 1 > i && upto > r->done;
        if (a->stream) {
            r->after = upto > r->after ? upto : r->after;
            continue;
        }
        r->done = upto > r->done ? upto : r->done;
        if (upto && r->sent.data[upto - 1].end > r->now) {
            r->waited += r->sent.data[upto - 1].end - r->now;
            r->now = r->sent.data[upto - 1].end;
        }
    }
    if (a->stream) {
        Sent s = {.action = i};
        check_touches(r, a, r->after > r->done ? r->after : r->done);
        for (int k = 0; k < a->noperands; k++)
            s.lo[k] = place_of(r, &a->operand[k]);
        r->free = s.end = fmax(r->free, r->now) + a->seconds;
        r->sent_seconds += a->seconds;
        vec_push(r->c->a, &r->sent, s);
        r->number[i] = (int64_t)r->sent.n;
        return;
    }
    check_touches(r, a, r->done);
    if (sends(a)) {
        r->alone += a->seconds;
        r->now += a->seconds;
        return;
    }
    /* In small steps: slower while the queue is at work. */
    for (double left = a->seconds; left > 1e-12;) {
        const double slow = r->free > r->now ? r->c->d.link_slowdown : 1;
        double t = left * slow;
        if (r->free > r->now && r->now + t > r->free)
            t = r->free - r->now;
        left -= t / slow;
        r->now += t;
    }
    r->computed += a->seconds;
}

static void run(Thread *r, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const Action *a = &r->c->g.actions.data[i];
        run_one(r, i);
        if (a->kind != ACT_loop)
            continue;
        const Loop *l = &r->c->g.loops.data[a->loop];
        for (int64_t k = 0; k < l->dim.size; k++) {
            r->iteration[a->loop] = l->reverse ? l->dim.size - 1 - k : k;
            run(r, i + 1, (size_t)l->end);
            run_one(r, (size_t)l->end);
        }
        i = (size_t)l->end;
    }
}

static Thread run_all(const Case *c)
{
    Thread r = {.c = c, .number = NEW_ARRAY(c->a, int64_t, c->g.actions.n)};
    run(&r, 0, c->g.actions.n);
    r.broken += r.done < (int64_t)r.sent.n;
    return r;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void waits(void **state)
{
    (void)state;
    int beyond = 0, needed = 0, all = 0;
    uint64_t rng = sample_turn() + 1;
    for (int n = 0; n < (SANITIZED ? 300 : 3000); n++) {
        Case c;
        open_case(&c, FEW, ITERATIONS, &rng);
        plan_streams(&c.p);
        assert_true(c.g.queued);
        Thread r = run_all(&c);
        assert_int_equal(r.broken, 0);
        beyond += r.beyond;
        for (size_t i = 0; i < c.g.actions.n; i++) {
            uint32_t *wait = &c.g.actions.data[i].wait[2], was = *wait;
            *wait = 0;
            needed += was && run_all(&c).broken;
            all += was != 0;
            *wait = was;
        }
        arena_free(c.a);
    }
    print_message("%d of %d waits are needed; %d for the iteration before\n", needed, all, beyond);
    /* The others are for places of one buffer that are other ones in any two iterations. */
    assert_true(needed > 3 * all / 4 && beyond > 500);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* One thread computes or waits: so long a program takes. Loops of few iterations are run as they
 * are.
 */
enum { TIMED = 600 };
static void times(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 2;
    double max_off = 0, all_off = 0;
    for (int n = 0; n < TIMED; n++) {
        Case c;
        const int max = n % 2 ? 3 : LONG;
        open_case(&c, FEW, max, &rng);
        plan_streams(&c.p);
        plan_timeline(&c.p);
        const Thread r = run_all(&c);
        double exposed = 0, *count = NEW_ARRAY(c.a, double, c.g.actions.n);
        for (size_t i = 0; i < c.g.actions.n; i++) {
            const Action *a = &c.g.actions.data[i];
            count[i] = 1;
            for (int l = a->around; l >= 0; l = c.g.loops.data[l].parent)
                count[i] *= (double)c.g.loops.data[l].dim.size;
            exposed += count[i] * a->exposed;
            assert_true(a->exposed >= 0 && a->exposed <= a->seconds + 1e-9 && a->end >= a->begin);
        }
        const double hidden = r.sent_seconds + r.alone - exposed;
        const double slower = (1 - 1 / c.d.link_slowdown) * hidden;
        if (max == 3) {
            assert_true(fabs(c.g.seconds - r.computed - slower - exposed) < 1e-6);
            assert_true(fabs(c.g.seconds - r.now) < 1e-6);
            assert_true(fabs(exposed - r.waited - r.alone) < 1e-6);
        } else {
            const double off = fabs(c.g.seconds - r.now) / r.now;
            max_off = fmax(max_off, off);
            all_off += off;
        }
        arena_free(c.a);
    }
    print_message("loops of more iterations: off by %.2f%% on average, %.1f%% at most\n",
                  100 * all_off / (TIMED / 2), 100 * max_off);
    assert_true(all_off < 0.001 * TIMED / 2 && max_off < 0.01);
}

/* ---- what sinks ------------------------------------------------------------------------------ */

/* The end, in its buffer, of what an operand is in any iteration. */
static int64_t end_of(const Program *g, const Operand *o)
{
    int64_t end = o->at.offset + bytes_of(o);
    for (int i = 0; i < o->at.nloops; i++)
        end += o->at.loop[i].stride * (g->loops.data[o->at.loop[i].loop].dim.size - 1);
    return end;
}

static bool touch(const Program *g, const Action *a, const Action *b)
{
    for (int i = 0; i < a->noperands; i++)
        for (int k = 0; k < b->noperands; k++) {
            const Operand *x = &a->operand[i], *y = &b->operand[k];
            if (x->at.buffer == y->at.buffer && (x->write || y->write) &&
                x->at.offset < end_of(g, y) && y->at.offset < end_of(g, x))
                return true;
        }
    return false;
}

static size_t place_now(const Program *g, uint32_t id)
{
    size_t i = 0;
    while (g->actions.data[i].id != id)
        i++;
    return i;
}

/* Actions on the same buffer stay in order, loops stay whole, and no wait stands before a loop
 * unless it must. */
static void sinks(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 3;
    int sunk = 0, moved = 0;
    for (int n = 0; n < 2000; n++) {
        Case c;
        open_case(&c, MANY, ITERATIONS, &rng);
        Program was = c.g;
        was.actions.data = NEW_ARRAY(c.a, Action, c.g.actions.n);
        memcpy(was.actions.data, c.g.actions.data, c.g.actions.n * sizeof *was.actions.data);
        sunk += sink_waits(&c.p, &c.g, c.a);
        for (size_t i = 0; i < c.g.loops.n; i++) {
            const Loop *l = &c.g.loops.data[i];
            assert_true(c.g.actions.data[l->begin].kind == ACT_loop &&
                        c.g.actions.data[l->begin].loop == i);
            assert_true(c.g.actions.data[l->end].kind == ACT_end &&
                        c.g.actions.data[l->end].loop == i);
        }
        for (size_t i = 0; i < was.actions.n; i++)
            for (size_t k = 0; k < i; k++) {
                const Action *a = &was.actions.data[k], *b = &was.actions.data[i];
                if (a->id == UINT32_MAX || b->id == UINT32_MAX)
                    continue;
                const bool in_order = place_now(&c.g, a->id) < place_now(&c.g, b->id);
                assert_true(in_order || !touch(&was, a, b));
                assert_true(in_order || !sends(a) || !sends(b));
                moved += !in_order;
            }
        for (size_t i = 0; i < c.g.actions.n; i++) {
            int depth = -1;
            for (size_t k = 0; k < c.g.loops.n; k++)
                if ((int)i > c.g.loops.data[k].begin && (int)i < c.g.loops.data[k].end)
                    depth = (int)k; /* loops are numbered from the outermost */
            assert_int_equal(c.g.actions.data[i].around, depth);
        }
        plan_streams(&c.p);
        assert_int_equal(run_all(&c).broken, 0);
        arena_free(c.a);
    }
    print_message("%d of 2000 programs: %d pairs in another order\n", sunk, moved);
    assert_true(sunk > 40 && moved > sunk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits),
        cmocka_unit_test(times),
        cmocka_unit_test(sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
