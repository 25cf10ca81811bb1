/* The order of actions and their times: random stretches against every order there is, and the
 * timelines of small models against what streams and resources allow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/order/streams.h"
#include "tests/plan/planned.h"

/* ---- stretches ------------------------------------------------------------------------------ */

enum { ACTIONS = 7, BUFFERS = 8 };

typedef struct Case {
    Arena *a;
    Plan p;
    Program g;
    int64_t max; /* alive at once, in the order there is */
} Case;

/* Buffers of several sizes, of which some come from before or go on after; each action reads one or
 * two and writes one. */
static Case random_case(uint64_t *rng)
{
    Case c = {.a = arena_new(), .p.device = &test_device};
    for (int b = 0; b < BUFFERS; b++)
        vec_push(c.a, &c.p.buffers, (Buffer){.bytes = 64 * (1 + draw_int(rng, 20)), .first = -1});
    for (int i = 0; i < ACTIONS; i++) {
        Action act = {.kind = draw_int(rng, 2) ? ACT_gemm : ACT_kernel,
                      .id = (uint32_t)i,
                      .around = -1,
                      .seconds = 1 + draw_int(rng, 9),
                      .noperands = 2 + draw_int(rng, 2)};
        act.operand = NEW_ARRAY(c.a, Operand, act.noperands);
        for (int k = 0; k < act.noperands; k++)
            act.operand[k] = (Operand){.at = {.buffer = (uint32_t)draw_int(rng, BUFFERS)},
                                       .type = {.dtype = DT_f32},
                                       .read = k > 0,
                                       .write = k == 0};
        vec_push(c.a, &c.g.actions, act);
    }
    for (int b = 0; b < BUFFERS; b++) {
        Buffer *x = &c.p.buffers.data[b];
        x->first = x->last = draw_int(rng, ACTIONS) + 1;
        for (int i = 0; i < ACTIONS; i++)
            for (int k = 0; k < c.g.actions.data[i].noperands; k++)
                if (c.g.actions.data[i].operand[k].at.buffer == (uint32_t)b) {
                    x->first = x->first < i + 1 ? x->first : i + 1;
                    x->last = x->last > i + 1 ? x->last : i + 1;
                }
        x->first = draw_int(rng, 4) ? x->first : 0; /* the stretch is [1, ACTIONS + 1) */
        x->last = draw_int(rng, 4) ? x->last : ACTIONS + 1;
    }
    return c;
}

static bool touches(const Action *a, uint32_t b, bool *write)
{
    bool any = false;
    for (int k = 0; k < a->noperands; k++)
        if (a->operand[k].at.buffer == b) {
            any = true;
            *write |= a->operand[k].write;
        }
    return any;
}

static bool in_conflict(const Action *x, const Action *y)
{
    for (uint32_t b = 0; b < BUFFERS; b++) {
        bool write = false;
        if (touches(x, b, &write) && touches(y, b, &write) && write)
            return true;
    }
    return false;
}

/* The time of an order and its peak of live bytes. order[k]: the action at k. */
static double judge(const Case *c, const Action *const *order, int64_t *max)
{
    double end[ACTIONS] = {0}, resource[2] = {0}, all = 0;
    *max = 0;
    for (int i = 0; i < ACTIONS; i++) {
        double *free = &resource[order[i]->kind == ACT_gemm], begin = *free;
        for (int k = 0; k < i; k++)
            if (in_conflict(order[k], order[i]))
                begin = fmax(begin, end[k]);
        *free = end[i] = begin + order[i]->seconds;
        all = fmax(all, end[i]);
        int64_t live = 0;
        for (uint32_t b = 0; b < BUFFERS; b++) {
            const Buffer *x = &c->p.buffers.data[b];
            bool before = x->first<1, after = x->last> ACTIONS, now = false, write = false;
            for (int k = 0; k < ACTIONS; k++)
                if (touches(order[k], b, &write)) {
                    now |= k == i;
                    before |= k < i;
                    after |= k > i;
                }
            live += now || (before && after) ? x->bytes : 0;
        }
        *max = live > *max ? live : *max;
    }
    return all;
}

/* The least time of all orders that keep conflicts as they are and have no more than `max` bytes
 * alive. */
static double best_order(const Case *c, const Action **order, int n, bool *used, int64_t max)
{
    const Action *act = c->g.actions.data;
    double best = INFINITY;
    int64_t alive;
    if (n == ACTIONS) {
        double t = judge(c, order, &alive);
        return alive <= max ? t : INFINITY;
    }
    for (int i = 0; i < ACTIONS; i++) {
        bool may = !used[i];
        for (int k = 0; k < i; k++)
            may &= used[k] || !in_conflict(&act[k], &act[i]);
        if (!may)
            continue;
        used[i] = true;
        order[n] = &act[i];
        best = fmin(best, best_order(c, order, n + 1, used, max));
        used[i] = false;
    }
    return best;
}

static double judge_program(const Case *c, int64_t *max)
{
    const Action *order[ACTIONS];
    for (int i = 0; i < ACTIONS; i++)
        order[i] = &c->g.actions.data[i];
    return judge(c, order, max);
}

/* Buffers of which no action has anything to do with are alive beside the stretch or not at all:
 * they are no matter of its order. */
static void random_stretches(void **state)
{
    (void)state;
    enum { CASES = 400 };
    double was = 0, found = 0, least = 0;
    int changed = 0;
    for (int k = 0; k < CASES; k++) {
        uint64_t rng = 1000 * (uint64_t)sample_turn() + (uint64_t)k + 1;
        Case c = random_case(&rng);
        int64_t max, now;
        double before = judge_program(&c, &max);
        const Action *order[ACTIONS];
        bool used[ACTIONS] = {false};
        double best = best_order(&c, order, 0, used, max);
        Action old[ACTIONS];
        memcpy(old, c.g.actions.data, sizeof old);
        /* Actions are numbered from 1 here, so that a buffer can begin before them. */
        Program shifted = {0};
        vec_push(c.a, &shifted.actions, (Action){.kind = ACT_guard});
        for (int i = 0; i < ACTIONS; i++)
            vec_push(c.a, &shifted.actions, old[i]);
        bool any = arrange_stretch(&c.p, &shifted, 0, 1, ACTIONS + 1, max, c.a);
        memcpy(c.g.actions.data, shifted.actions.data + 1, sizeof old);
        double after = judge_program(&c, &now);
        assert_true(any ? after < before : memcmp(old, c.g.actions.data, sizeof old) == 0);
        assert_true(now <= max);
        assert_true(after >= best - 1e-9);
        for (int i = 0; i < ACTIONS; i++)
            for (int j = i + 1; j < ACTIONS; j++)
                if (in_conflict(&c.g.actions.data[i], &c.g.actions.data[j]))
                    assert_true(c.g.actions.data[i].id < c.g.actions.data[j].id);
        changed += any;
        was += before;
        found += after;
        least += best;
        arena_free(c.a);
    }
    print_message("%d of %d are changed; as they were %.3f of the best, arranged %.3f\n", changed,
                  CASES, was / least, found / least);
    assert_true(changed > CASES / 10);
    assert_true(found - least < 0.5 * (was - least));
}

/* An action that reads one buffer and writes another, which live inside the stretch. */
static void adds(Case *c, ActionKind kind, double seconds, uint32_t from, uint32_t to)
{
    Action act = {.kind = kind, .around = -1, .seconds = seconds, .noperands = 2};
    act.id = (uint32_t)c->g.actions.n;
    act.comm.kind = MG_ALL_TO_ALL;
    act.operand = NEW_ARRAY(c->a, Operand, 2);
    act.operand[0] = (Operand){.at = {.buffer = to}, .type = {.dtype = DT_f32}, .write = true};
    act.operand[1] = (Operand){.at = {.buffer = from}, .type = {.dtype = DT_f32}, .read = true};
    vec_push(c->a, &c->g.actions, act);
}

/* Of two that are to be sent the one of the longer path would go first, and what the other's
 * message is needed for would come last; by the program alone something that nobody waits for comes
 * before the second. What is to be sent first, in the program's order, is the best of all. */
static void turns(void **state)
{
    (void)state;
    enum { NOTHING, A0, M0, W, A1, M1, C0, C1 = C0 + 3, ALL };
    Case c = {.a = arena_new(), .p.device = &test_device};
    for (int b = 0; b < ALL; b++)
        vec_push(c.a, &c.p.buffers, (Buffer){.bytes = 64, .first = 0, .last = ALL + 1});
    vec_push(c.a, &c.g.actions, (Action){.kind = ACT_guard, .around = -1});
    adds(&c, ACT_kernel, 1, NOTHING, A0);
    adds(&c, ACT_comm, 1, A0, M0); /* three kernels need it */
    adds(&c, ACT_kernel, 3, NOTHING, W);
    adds(&c, ACT_kernel, 1, NOTHING, A1);
    adds(&c, ACT_comm, 10, A1, M1); /* and one this */
    for (uint32_t k = 0; k < 3; k++)
        adds(&c, ACT_kernel, 2, M0, C0 + k);
    adds(&c, ACT_kernel, 1, M1, C1);
    const int end = (int)c.g.actions.n;
    assert_true(arrange_stretch(&c.p, &c.g, 0, 1, end, INT64_MAX, c.a));
    int at[ALL + 1] = {0};
    for (int i = 1; i < end; i++)
        at[c.g.actions.data[i].operand[0].at.buffer] = i;
    assert_true(at[A0] < at[A1] && at[A1] < at[W]);
    assert_true(at[M0] < at[M1] && at[W] < at[C1] && at[C0] < at[C1]);
    /* Once more nothing is better. */
    assert_false(arrange_stretch(&c.p, &c.g, 0, 1, end, INT64_MAX, c.a));
    arena_free(c.a);
}

/* Two exchanges of which one has the longer path behind it, and comes first in the program; but two
 * kernels need the other, which run beside it if it is sent first. What most has to come after is
 * sent first then. */
static void most(void **state)
{
    (void)state;
    enum { NOTHING, G, Z, G1, Z1, Z2, ALL };
    Case c = {.a = arena_new(), .p.device = &test_device};
    for (int b = 0; b < ALL; b++)
        vec_push(c.a, &c.p.buffers, (Buffer){.bytes = 64, .first = 0, .last = ALL + 1});
    vec_push(c.a, &c.g.actions, (Action){.kind = ACT_guard, .around = -1});
    adds(&c, ACT_comm, 4, NOTHING, G);
    adds(&c, ACT_comm, 4, NOTHING, Z);
    adds(&c, ACT_kernel, 2.5, G, G1);
    adds(&c, ACT_kernel, 2, Z, Z1);
    adds(&c, ACT_kernel, 2, Z, Z2);
    const int end = (int)c.g.actions.n;
    assert_true(arrange_stretch(&c.p, &c.g, 0, 1, end, INT64_MAX, c.a));
    assert_int_equal(c.g.actions.data[1].operand[0].at.buffer, Z);
    assert_false(arrange_stretch(&c.p, &c.g, 0, 1, end, INT64_MAX, c.a));
    arena_free(c.a);
}

/* A product that nobody waits for stands last, and a kernel between two others. It comes beside the
 * kernel, also where a small collective is in the stretch; beside a long one all computation counts
 * as one stream, of which no order is shorter. */
static void small(void **state)
{
    (void)state;
    enum { NOTHING, TOP, DX1, NORM, DX2, DW, ALL };
    for (int small = 0; small < 2; small++) {
        Case c = {.a = arena_new(), .p.device = &test_device};
        for (int b = 0; b < ALL; b++)
            vec_push(c.a, &c.p.buffers, (Buffer){.bytes = 64, .first = 0, .last = ALL + 1});
        vec_push(c.a, &c.g.actions, (Action){.kind = ACT_guard, .around = -1});
        adds(&c, ACT_comm, 1, NOTHING, TOP);
        c.g.actions.data[1].comm.small = small;
        adds(&c, ACT_gemm, 10, TOP, DX1);
        adds(&c, ACT_kernel, 8, DX1, NORM);
        adds(&c, ACT_gemm, 10, NORM, DX2);
        adds(&c, ACT_gemm, 10, TOP, DW);
        const int end = (int)c.g.actions.n;
        assert_int_equal(arrange_stretch(&c.p, &c.g, 0, 1, end, INT64_MAX, c.a), small);
        assert_int_equal(c.g.actions.data[end - 1].operand[0].at.buffer, small ? DX2 : DW);
        arena_free(c.a);
    }
}

/* ---- timelines ------------------------------------------------------------------------------ */

static bool apart(const Action *a, const Action *b)
{
    const double tiny = 1e-12;
    return a->begin + a->seconds <= b->begin + tiny || b->begin + b->seconds <= a->begin + tiny;
}

static void check_timeline(const Program *g)
{
    const Action *act = g->actions.data;
    size_t from = 0;
    double meet = 0; /* when the streams last met */
    for (size_t i = 0; i < g->actions.n; i++) {
        if (meets_all(&act[i])) {
            for (size_t k = from; k < i; k++)
                assert_true(act[i].kind == ACT_end ||
                            act[k].begin + act[k].seconds <= act[i].begin + 1e-12);
            from = i + 1;
            meet = act[i].kind == ACT_guard ? act[i].begin + act[i].seconds
                   : act[i].kind == ACT_end ? act[g->loops.data[act[i].loop].begin].begin +
                                                  g->loops.data[act[i].loop].seconds *
                                                      (double)g->loops.data[act[i].loop].dim.size
                                            : 0;
            continue;
        }
        assert_true(act[i].begin >= meet - 1e-12);
        for (size_t k = from; k < i; k++) {
            if (act[k].stream == act[i].stream || resource_of(&act[k]) == resource_of(&act[i]))
                assert_true(apart(&act[k], &act[i]));
            if (act[i].wait[act[k].stream] == k + 1)
                assert_true(act[k].begin + act[k].seconds <= act[i].begin + 1e-12);
        }
    }
    assert_true(g->seconds <= g->busy * (1 + 1e-12));
    assert_true(g->seconds >= g->busy / RESOURCE_count);
}

static void models(void **state)
{
    (void)state;
    Device one = test_device;
    one.streams = 1;
    double faster = 0;
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        open_model(&t, &small_models[k], DT_f32);
        lower_physical(&t);
        const Plan *p = plan_for(&t, &test_device), *q = plan_for(&t, &one);
        Program *const *const two = p->programs;
        Program *const *const alone = q->programs;
        for (int n = 0; n < PLAN_PROGRAMS; n++) {
            if (!two[n])
                continue;
            check_timeline(two[n]);
            check_timeline(alone[n]);
            assert_true(fabs(alone[n]->seconds - alone[n]->busy) < 1e-9 * alone[n]->busy);
            assert_true(two[n]->live_bound <= alone[n]->live_bound);
            faster = fmax(faster, 1 - two[n]->seconds / alone[n]->seconds);
        }
        model_close(&t);
    }
    print_message("two streams take up to %.1f%% less\n", 100 * faster);
    assert_true(faster > 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_stretches),
        cmocka_unit_test(turns),
        cmocka_unit_test(most),
        cmocka_unit_test(small),
        cmocka_unit_test(models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
