/* The clock of a pipeline: idle times by the formulas that are known, for stages alike and messages
 * that take no time; what messages add; slow ranks; the grid. */
#include "tests/pipeline/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Times of a stage; all are alike. */
typedef struct Alike {
    double f, i, w, send;
} Alike;

typedef struct Timed {
    PipeProof proof;
    PipeCosts costs;
    PipeClock *clock;
} Timed;

static Timed timed(Bench *b, const PipeTable *t, Alike c)
{
    Timed x;
    if (!proved(b, t, &x.proof))
        fail_msg("%s", bench_said(b));
    double *f = NEW_ARRAY(b->arena, double, t->stages), *i = NEW_ARRAY(b->arena, double, t->stages);
    double *w = NEW_ARRAY(b->arena, double, t->stages);
    for (int s = 0; s < t->stages; s++) {
        f[s] = c.f;
        i[s] = c.i;
        w[s] = c.w;
    }
    const double *none = NEW_ARRAY(b->arena, double, t->stages);
    x.costs = (PipeCosts){
        .forward = f, .input = i, .weight = w, .send = c.send, .unshard = none, .reduce = none};
    x.clock = pipe_clock(b->arena, x.proof.graph[PIPE_BY_WAY], &x.costs);
    return x;
}

static void idle_is(Bench *b, const PipeTable *t, Alike c, double idle)
{
    const PipeClock *k = timed(b, t, c).clock;
    double busy = t->microbatches * t->stages / t->ranks * (c.f + c.i + c.w);
    for (int r = 0; r < t->ranks; r++) {
        assert_true(fabs(k->busy[r] - busy) < 1e-9);
        if (fabs(k->step - k->busy[r] - idle) > 1e-9)
            fail_msg("%s, %d ranks, %d stages, %d microbatches, %g %g %g: rank %d is idle %.12g "
                     "instead of %.12g",
                     t->name, t->ranks, t->stages, t->microbatches, c.f, c.i, c.w, r,
                     k->step - k->busy[r], idle);
    }
    assert_true(fabs(k->bubble - idle / (idle + busy)) < 1e-9);
}

/* ---- formulas ------------------------------------------------------------------------------- */

static const Alike costs[] = {{1, 1, 1, 0},       {1, 2, 1, 0},       {3, 2, 1, 0},
                              {1, 1, 0.25, 0},    {2, 1.5, 1.5, 0},   {5, 1, 1, 0},
                              {0.7, 0.9, 0.3, 0}, {1.1, 1.3, 1.05, 0}};
enum { NCOSTS = sizeof costs / sizeof *costs };

static void formulas(void **state)
{
    (void)state;
    for (int p = 1; p <= 9; p++)
        for (int m = 1; m <= 24; m++)
            for (int i = 0; i < NCOSTS; i++) {
                Bench b;
                bench_open(&b);
                Alike c = costs[i];
                double all = c.f + c.i + c.w;
                idle_is(&b, built_in(&b, PIPE_GPIPE, p, 1, m), c, (p - 1) * all);
                idle_is(&b, built_in(&b, PIPE_1F1B, p, 1, m), c, (p - 1) * all);
                /* W fills the end as far as there are so many. */
                int fill = (m < p ? m : p) - 1;
                idle_is(&b, built_in(&b, PIPE_ZB_H1, p, 1, m), c,
                        (p - 1) * (c.f + c.i) - fill * c.w);
                if (m >= p)
                    assert_true(fabs((p - 1) * (c.f + c.i) - fill * c.w -
                                     (p - 1) * (c.f + c.i - c.w)) < 1e-9);
                bench_close(&b);
            }
}

/* A rank's share is cut into v chunks: the idle time is that of 1f1b, by v. */
static void formula_interleaved(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int v = 2; v <= 4; v++)
            for (int groups = 1; groups <= 4; groups++)
                for (int i = 0; i < NCOSTS; i++) {
                    Bench b;
                    bench_open(&b);
                    Alike c = costs[i], chunk = {c.f / v, c.i / v, c.w / v, 0};
                    idle_is(&b, built_in(&b, PIPE_INTERLEAVED, p, v, p * groups), chunk,
                            (p - 1) * (c.f + c.i + c.w) / v);
                    bench_close(&b);
                }
}

/* Times in eighths, from a half to 2, that `may` takes. */
static Alike drawn(uint64_t *seed, bool may(Alike c))
{
    for (;;) {
        const Alike c = {.f = (4 + any_of(seed, 13)) / 8.0,
                         .i = (4 + any_of(seed, 13)) / 8.0,
                         .w = (4 + any_of(seed, 13)) / 8.0};
        if (may(c))
            return c;
    }
}

static bool near_alike(Alike c)
{
    return c.w <= c.i && c.i <= 2 * c.w && c.f <= c.i + c.w;
}

static bool falling(Alike c)
{
    return c.w <= c.i && c.i <= c.f && c.f <= c.i + c.w;
}

/* The times of a chunk. The last rank begins when the first microbatch has come to it, and is not
 * idle after that if all parts take equally long: (p - 1) F. If I takes longer, all wait for it on
 * the way back instead. If F does, they wait for it on the way there, and on the way back by as
 * much as it is longer, but for the last rank, whose next stage is its own. */
static double idle_zb_v(int p, Alike c)
{
    return p == 1 ? 0 : (p - 1) * fmax(c.f, c.i) + (p - 2) * fmax(0, c.f - c.i);
}

static void formulas_of_a_v(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int p = 1; p <= 9; p++)
        for (int m = 2 * p; m <= 24; m++)
            for (int i = 0; i < 8; i++) {
                Bench b;
                bench_open(&b);
                Alike c = i ? drawn(&seed, near_alike) : costs[0];
                idle_is(&b, built_in(&b, PIPE_ZB_V, p, 2, m), c, idle_zb_v(p, c));
                c = i ? drawn(&seed, falling) : costs[0];
                idle_is(&b, built_in(&b, PIPE_DUALPIPE_V, p, 2, m), c,
                        (p - 1) * (2 * c.f + c.i - c.w));
                bench_close(&b);
            }
}

/* DeepSeek's formula, of the last rank, with F&B for a pair: (p - 1) (F&B + B - 3 W) where F and I
 * take equally long; each rank hands on F - I later where F takes longer. */
static void pairs(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int p = 1; p <= 9; p++)
        for (int m = 2 * p; m <= 24; m++)
            for (int i = 0; i < 6; i++) {
                Bench b;
                bench_open(&b);
                Alike c = i ? drawn(&seed, falling) : costs[0];
                const double back = c.i + c.w, hidden = fmin(c.f, back) * any_of(&seed, 9) / 8;
                Timed x = timed(&b, built_in(&b, PIPE_DUALPIPE_V, p, 2, m), c);
                x.costs.hidden = hidden;
                const PipeClock *k = pipe_clock(b.arena, x.proof.graph[PIPE_BY_WAY], &x.costs);
                const double pair = c.f + back - hidden;
                const double idle = (p - 1) * (pair + back - 3 * c.w + c.f - c.i);
                if (fabs(k->step - k->busy[p - 1] - idle) > 1e-9)
                    fail_msg("%d ranks, %d microbatches, %g %g %g less %g: the last rank is idle "
                             "%.12g instead of %.12g",
                             p, m, c.f, c.i, c.w, hidden, k->step - k->busy[p - 1], idle);
                bench_close(&b);
            }
}

static void known_steps(void **state)
{
    (void)state;
    static const struct {
        PipeSchedule s;
        int p, v, m;
        double cost, step;
    } known[] = {{PIPE_1F1B, 4, 1, 8, 1, 33},
                 {PIPE_1F1B, 8, 1, 32, 1, 117},
                 {PIPE_1F1B, 4, 1, 2, 1, 15},
                 {PIPE_INTERLEAVED, 4, 2, 8, 0.5, 28.5},
                 {PIPE_INTERLEAVED, 8, 4, 32, 0.25, 101.25},
                 {PIPE_ZB_H1, 4, 1, 8, 1, 27},
                 {PIPE_ZB_V, 4, 2, 8, 0.5, 25.5},
                 {PIPE_ZB_V, 4, 2, 3, 0.5, 13},
                 {PIPE_DUALPIPE_V, 4, 2, 8, 0.5, 27}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        Bench b;
        bench_open(&b);
        double c = known[i].cost;
        const PipeTable *t = built_in(&b, known[i].s, known[i].p, known[i].v, known[i].m);
        assert_true(fabs(timed(&b, t, (Alike){c, c, c, 0}).clock->step - known[i].step) < 1e-9);
        bench_close(&b);
    }
}

/* Messages shorter than what they pass: each boundary adds one there and one back. */
static void messages(void **state)
{
    (void)state;
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 8; m++) {
            Bench b;
            bench_open(&b);
            Timed x = timed(&b, built_in(&b, PIPE_GPIPE, p, 1, m), (Alike){1, 1, 1, 0.25});
            assert_true(fabs(x.clock->step - (m + p - 1) * 3 - 2 * (p - 1) * 0.25) < 1e-9);
            bench_close(&b);
        }
    /* Longer: the link is what all wait for. */
    Bench b;
    bench_open(&b);
    Timed x = timed(&b, built_in(&b, PIPE_GPIPE, 2, 1, 8), (Alike){1, 1, 1, 5});
    assert_true(fabs(x.clock->step - (1 + 8 * 5 + 1 + 2 + 8 * 5 + 2)) < 1e-9);
    bench_close(&b);
}

/* When what an action needs of another stage is there; INFINITY: not yet. */
static double needed_since(const PipeTable *t, const PipeAction *a, double *end[2], double send)
{
    const bool back = a->kind == PIPE_B || a->kind == PIPE_I;
    const int from = a->kind == PIPE_F ? a->stage - 1 : back ? a->stage + 1 : -1;
    if (from < 0 || from >= t->stages)
        return 0;
    const double made = end[back][from * t->microbatches + a->microbatch];
    const bool sent = pipe_rank(t, from) != pipe_rank(t, a->stage);
    return made == 0 ? INFINITY : made + (sent ? send : 0);
}

/* Run by sweeping over the ranks: an action begins when its rank is free and what it needs has been
 * computed, and sent if that was elsewhere. Links carry any number of messages at once. */
static double swept(Bench *b, const PipeTable *t, Alike c)
{
    double *end[2], *free = NEW_ARRAY(b->arena, double, t->ranks), step = 0;
    size_t *at = NEW_ARRAY(b->arena, size_t, t->ranks);
    for (int back = 0; back < 2; back++)
        end[back] = NEW_ARRAY(b->arena, double, (size_t)t->stages *(size_t)t->microbatches);
    for (bool on = true; on;) {
        on = false;
        for (int rank = 0; rank < t->ranks; rank++)
            while (at[rank] < t->row[rank].n) {
                const PipeAction *a = &t->row[rank].data[at[rank]];
                const size_t n = a->pair ? 2 : 1;
                double since = free[rank], took = 0;
                for (size_t i = 0; i < n; i++) {
                    since = fmax(since, needed_since(t, &a[i], end, c.send));
                    took += a[i].kind == PIPE_F   ? c.f
                            : a[i].kind == PIPE_B ? c.i + c.w
                            : a[i].kind == PIPE_I ? c.i
                                                  : c.w;
                }
                if (isinf(since))
                    break;
                free[rank] = since + took;
                for (size_t i = 0; i < n; i++)
                    if (a[i].kind != PIPE_W)
                        end[a[i].kind != PIPE_F][a[i].stage * t->microbatches + a[i].microbatch] =
                            free[rank];
                step = fmax(step, free[rank]);
                at[rank] += n;
                on = true;
            }
    }
    return step;
}

/* Nothing that is put in holds anything up: with queues by way the schedules that are built in take
 * as long as where receives are always there and links are free. */
static void no_hold_up(void **state)
{
    (void)state;
    static const double sends[] = {0, 0.1, 0.25, 0.5};
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 12; m++)
            for (int s = 0; s < PIPE_SCHEDULES; s++)
                for (int i = 0; i < 4; i++) {
                    int v =
                        pipe_schedule_chunks((PipeSchedule)s) + (s == PIPE_INTERLEAVED ? m % 2 : 0);
                    if ((s == PIPE_INTERLEAVED && m % p) || (s == PIPE_DUALPIPE_V && m < 2 * p))
                        continue;
                    Bench b;
                    bench_open(&b);
                    Alike c = {1, 1.25, 0.75, sends[i]};
                    const PipeTable *t = built_in(&b, (PipeSchedule)s, p, v, m);
                    double step = timed(&b, t, c).clock->step;
                    if (fabs(step - swept(&b, t, c)) > 1e-9)
                        fail_msg(
                            "%s, %d ranks, %d chunks, %d microbatches, send %g: %g instead of %g",
                            t->name, p, v, m, c.send, step, swept(&b, t, c));
                    bench_close(&b);
                }
}

/* With one queue a rank nothing is faster; and no order of begin and end is broken. */
static void single_queue(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 300; seed++) {
        Bench b;
        bench_open(&b);
        uint64_t s = seed;
        const PipeTable *t = random_table(&b, &s);
        Timed x = timed(&b, t, (Alike){1, 1.5, 0.5, 0.25});
        const PipeClock *one = pipe_clock(b.arena, x.proof.graph[PIPE_ONE], &x.costs);
        assert_true(one->step >= x.clock->step - 1e-9);
        for (int r = 0; r < t->ranks; r++)
            assert_true(x.clock->step >= x.clock->busy[r] - 1e-9);
        bench_close(&b);
    }
}

/* ---- slow ranks ----------------------------------------------------------------------------- */

static void stragglers(void **state)
{
    (void)state;
    Bench b;
    bench_open(&b);
    const PipeTable *t = built_in(&b, PIPE_1F1B, 4, 1, 8);
    Timed x = timed(&b, t, (Alike){1, 1, 1, 0});
    /* Slowed by a little, rank r delays what lies on the longest ways: of its 8 microbatches 5 + r.
     */
    const double *little =
        pipe_slower(b.arena, x.proof.graph[PIPE_BY_WAY], &x.costs, x.clock, 0).longer;
    for (int r = 0; r < 4; r++)
        assert_true(fabs(little[r] - (5 + r) / 8.0) < 1e-6);
    /* Alone on the way: all of it counts. */
    double *f = (double *)(uintptr_t)x.costs.forward;
    f[1] = 10;
    PipeClock *k = pipe_clock(b.arena, x.proof.graph[PIPE_BY_WAY], &x.costs);
    little = pipe_slower(b.arena, x.proof.graph[PIPE_BY_WAY], &x.costs, k, 0).longer;
    assert_true(fabs(little[1] - (8 * 10 + 6 * 2) / (8.0 * 12)) < 1e-6);
    for (int r = 0; r < 4; r++)
        if (r != 1)
            assert_true(fabs(little[r] - 1 / 8.0) < 1e-6);
    /* By the difference of two simulations, each from its own costs. */
    const double *tenth = pipe_slower(b.arena, x.proof.graph[PIPE_BY_WAY], &x.costs, k, 0.1).longer;
    double *i = (double *)(uintptr_t)x.costs.input, *w = (double *)(uintptr_t)x.costs.weight;
    f[2] *= 1.1;
    i[2] *= 1.1;
    w[2] *= 1.1;
    double step = pipe_clock(b.arena, x.proof.graph[PIPE_BY_WAY], &x.costs)->step;
    assert_true(fabs(tenth[2] - (step - k->step) / (0.1 * k->busy[2])) < 1e-9);
    bench_close(&b);
}

/* In a V a rank has a stage on the way there and one on the way back, and both take longer. */
static void stragglers_in_a_v(void **state)
{
    (void)state;
    enum { P = 3, M = 8 };
    for (int s = PIPE_ZB_V; s <= PIPE_DUALPIPE_V; s++)
        for (int r = 0; r < P; r++) {
            Bench b;
            bench_open(&b);
            Timed x = timed(&b, built_in(&b, (PipeSchedule)s, P, 2, M), (Alike){1, 1.25, 0.75, 0});
            const PipeGraph *g = x.proof.graph[PIPE_BY_WAY];
            const double tenth = pipe_slower(b.arena, g, &x.costs, x.clock, 0.1).longer[r];
            const double *const of[] = {x.costs.forward, x.costs.input, x.costs.weight};
            for (int k = 0; k < 3; k++) {
                ((double *)(uintptr_t)of[k])[r] *= 1.1;
                ((double *)(uintptr_t)of[k])[2 * P - 1 - r] *= 1.1;
            }
            const PipeClock *k = pipe_clock(b.arena, g, &x.costs);
            assert_true(fabs(k->busy[r] - 1.1 * x.clock->busy[r]) < 1e-9);
            assert_true(tenth > 0 && tenth < 1.5);
            assert_true(fabs(tenth - (k->step - x.clock->step) / (0.1 * x.clock->busy[r])) < 1e-9);
            bench_close(&b);
        }
}

/* ---- how much work it is ----------------------------------------------------------------------
 */

/* The work of proof and summary per action. */
static double work_of(PipeSchedule s, int ranks, int microbatches)
{
    Bench b;
    bench_open(&b);
    Timed x = timed(&b, built_in(&b, s, ranks, 1, microbatches), (Alike){1, 1, 1, 0.25});
    const PipeGraph *g = x.proof.graph[PIPE_BY_WAY];
    PipeSlower slower = pipe_slower(b.arena, g, &x.costs, x.clock, 0.1);
    assert_false(isnan(slower.longer[0]) || isnan(slower.longer[ranks - 1]));
    double work = (double)(x.proof.work + slower.work) / (2.0 * ranks * microbatches);
    bench_close(&b);
    return work;
}

static void linear(void **state)
{
    (void)state;
    for (PipeSchedule s = PIPE_1F1B; s <= PIPE_ZB_H1; s += PIPE_ZB_H1 - PIPE_1F1B) {
        double some = work_of(s, PIPE_SLOWER_MAX, 256);
        assert_true(some > PIPE_SLOWER_MAX); /* it counts what is done */
        assert_true(work_of(s, 4 * PIPE_SLOWER_MAX, 256) < 1.1 * some);
        assert_true(work_of(s, PIPE_RANKS_MAX, 256) < 1.1 * some);
        assert_true(work_of(s, PIPE_SLOWER_MAX, 1024) < 1.1 * some);
    }
    /* Of many ranks those apart and the busiest are tried. */
    Bench b;
    bench_open(&b);
    Timed x = timed(&b, built_in(&b, PIPE_1F1B, 200, 1, 32), (Alike){1, 1, 1, 0});
    ((double *)(uintptr_t)x.costs.forward)[101] = 9;
    const PipeGraph *g = x.proof.graph[PIPE_BY_WAY];
    PipeSlower slower = pipe_slower(b.arena, g, &x.costs, pipe_clock(b.arena, g, &x.costs), 0.1);
    int tried = 0;
    for (int r = 0; r < 200; r++) {
        tried += !isnan(slower.longer[r]);
        assert_false(slower.longer[r] > slower.longer[101]);
    }
    assert_int_equal(tried, PIPE_SLOWER_MAX);
    assert_false(isnan(slower.longer[101]));
    bench_close(&b);
}

/* ---- the grid ------------------------------------------------------------------------------- */

static char *grid(Bench *b, const PipeTable *t, Alike c, bool color)
{
    char *text;
    size_t size;
    double columns;
    FILE *f = open_memstream(&text, &size);
    Timed x = timed(b, t, c);
    bool good = pipe_print_grid(pipe_lower(b->arena, t), x.clock, color, f, &columns);
    fclose(f);
    char *kept = good ? arena_strndup(b->arena, text, size) : NULL;
    free(text);
    return kept;
}

static void grids(void **state)
{
    (void)state;
    Bench b;
    bench_open(&b);
    const PipeTable *t = built_in(&b, PIPE_1F1B, 2, 1, 2);
    assert_string_equal(grid(&b, t, (Alike){1, 1, 1, 0}, false),
                        "time     0              5             \n"
                        "rank 0   F0 F1 .  .  B0 -  .  B1 - \n"
                        "rank 1   .  F0 B0 -  F1 B1 -  .  . \n"
                        "         - the action goes on, . idle; one column is 1\n");
    const char *color = grid(&b, t, (Alike){1, 1, 1, 0}, true);
    /* Forward blue, back green; an action that goes on has its ground over both columns. */
    assert_non_null(strstr(color, "rank 0   \033[48;5;20;38;5;231m0\033[0m "
                                  "\033[48;5;20;38;5;231m1\033[0m     "
                                  "\033[48;5;28;38;5;231m0  \033[0m"));
    t = built_in(&b, PIPE_INTERLEAVED, 2, 2, 2);
    color = grid(&b, t, (Alike){1, 1, 1, 0}, true);
    assert_non_null(strstr(color, "\033[48;5;26;38;5;231m0")); /* the second chunk */
    assert_non_null(
        strstr(grid(&b, t, (Alike){1, 1, 1, 0}, false), "rank 1   .   1F0 1F1 3F0 3B0 -"));
    /* Times that are no whole columns are rounded, and nothing is left out. */
    t = built_in(&b, PIPE_ZB_H1, 1, 1, 2);
    assert_non_null(
        strstr(grid(&b, t, (Alike){1, 1.4, 1.2, 0}, false), "rank 0   F0 I0 W0 -  F1 I1 W1\n"));
    assert_null(grid(&b, built_in(&b, PIPE_1F1B, 1, 1, 1366), (Alike){1, 1, 1, 0}, false));
    assert_non_null(grid(&b, built_in(&b, PIPE_1F1B, 1, 1, 1365), (Alike){1, 1, 1, 0}, false));
    bench_close(&b);
}

/* ---- beside the table ------------------------------------------------------------------------ */

/* A row waits for what is gathered of a stage before that computes, and reduces it once behind. */
static void in_order(const PipeProgram *p)
{
    for (int rank = 0; rank < p->table->ranks; rank++) {
        int has[64] = {0}, reduced[64] = {0};
        for (size_t i = 0; i < p->rank[rank].n; i++) {
            const PipeOp *op = &p->rank[rank].data[i];
            const int stage = op->action.stage;
            if (op->action.kind == PIPE_UNSHARD)
                has[stage] += op->step == PIPE_WAIT;
            else if (op->step == PIPE_BESIDE)
                reduced[stage]++;
            else if (op->step == PIPE_COMPUTE)
                assert_true(has[stage] == 1 && !reduced[stage]);
        }
        for (int chunk = 0; chunk < p->table->stages / p->table->ranks; chunk++)
            assert_true(reduced[pipe_stage(p->table, rank, chunk)] == 1);
    }
}

/* Of all gathers the first chunk's are waited for, of all reductions the last's; and what is slower
 * meanwhile is so once, not on one rank after the other. */
static void beside(void **state)
{
    (void)state;
    const Alike c = {0.5, 0.5, 0.5, 0};
    for (int p = 2; p <= 6; p++)
        for (int v = 2; v <= 4; v++)
            for (int groups = 2; groups <= 3; groups++) {
                Bench b;
                bench_open(&b);
                PipeTable t = *built_in(&b, PIPE_INTERLEAVED, p, v, p * groups);
                const double alone = timed(&b, &t, c).clock->step;
                t.unshards = t.reduces = true;
                double *unshard = NEW_ARRAY(b.arena, double, t.stages);
                double *reduce = NEW_ARRAY(b.arena, double, t.stages);
                Timed x = {0};
                assert_true(proved(&b, &t, &x.proof));
                const PipeGraph *g = x.proof.graph[PIPE_BY_KIND];
                in_order(pipe_lower(b.arena, &t));
                for (int s = 0; s < t.stages; s++) {
                    unshard[s] = 0.4;
                    reduce[s] = 0.8;
                }
                PipeCosts costs = timed(&b, &t, c).costs;
                costs.unshard = unshard;
                costs.reduce = reduce;
                const double hidden = pipe_clock(b.arena, g, &costs)->step;
                if (fabs(hidden - alone - 1.2) > 1e-9)
                    fail_msg("%d ranks, %d chunks: %g instead of %g", p, v, hidden, alone + 1.2);
                costs.slows = 0.25;
                const double slower = pipe_clock(b.arena, g, &costs)->step;
                if (!(slower > hidden && slower <= hidden + 2 * 0.25 * v * 1.2))
                    fail_msg("%d ranks, %d chunks: %g, and %g where it is slower", p, v, hidden,
                             slower);
                bench_close(&b);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),        cmocka_unit_test(formula_interleaved),
        cmocka_unit_test(formulas_of_a_v), cmocka_unit_test(pairs),
        cmocka_unit_test(known_steps),     cmocka_unit_test(messages),
        cmocka_unit_test(no_hold_up),      cmocka_unit_test(single_queue),
        cmocka_unit_test(stragglers),      cmocka_unit_test(stragglers_in_a_v),
        cmocka_unit_test(linear),          cmocka_unit_test(grids),
        cmocka_unit_test(beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
