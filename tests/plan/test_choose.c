/* The choice of ranges against every choice there is, on random prices. */
#include "decide/frontier.h"
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ITERATIONS = 6, PROBLEMS = 3000 };

typedef struct Random {
    KeepProblem p;
    KeepKind kind[2][8];
} Random;

static void draw_problem(Random *r, uint64_t seed)
{
    uint64_t rng = seed;
    memset(r, 0, sizeof *r);
    r->p.loops = 1 + (seed % 4 == 0);
    for (int l = 0; l < r->p.loops; l++) {
        r->p.iterations[l] = 1 + draw_int(&rng, r->p.loops == 1 ? ITERATIONS : 3);
        r->p.kinds[l] = 1 + (int)draw_int(&rng, 5);
        r->p.kind[l] = r->kind[l];
        r->p.start[l] = 1e-6 * (double)draw_int(&rng, 3);
        for (int k = 0; k < r->p.kinds[l]; k++) {
            KeepKind *kind = &r->kind[l][k];
            kind->segment = draw_int(&rng, 3) ? 1 : 2 + draw_int(&rng, 2);
            kind->stored = 1 + draw_int(&rng, 30);
            kind->fixed = draw_int(&rng, 4);
            kind->transient = draw_int(&rng, 40);
            kind->seconds = 1e-6 * (double)draw_int(&rng, 20);
        }
    }
    r->p.between = draw_int(&rng, 30);
    r->p.limit = 20 + draw_int(&rng, 160);
}

typedef struct Best {
    const KeepProblem *p;
    KeepChoice now, best;
    bool found;
} Best;

/* Every sequence of ranges, in any order. */
static void try_all(Best *b, int loop, int64_t left)
{
    if (left == 0 && loop + 1 == b->p->loops) {
        keep_measure(b->p, &b->now);
        bool better = !b->found || b->now.seconds < b->best.seconds - 1e-12 ||
                      (b->now.seconds < b->best.seconds + 1e-12 && b->now.peak < b->best.peak);
        if (b->now.peak <= b->p->limit && better) {
            b->best = b->now;
            b->found = true;
        }
        return;
    }
    if (left == 0) {
        try_all(b, loop + 1, b->p->iterations[loop + 1]);
        return;
    }
    if (b->now.n == KEEP_RANGES)
        return;
    for (int k = 0; k < b->p->kinds[loop]; k++)
        for (int64_t n = b->p->kind[loop][k].segment; n <= left; n += b->p->kind[loop][k].segment) {
            b->now.range[b->now.n].loop = loop;
            b->now.range[b->now.n].kind = k;
            b->now.range[b->now.n].iterations = n;
            b->now.n++;
            try_all(b, loop, left - n);
            b->now.n--;
        }
}

static void best_of_all(void **state)
{
    (void)state;
    int fit = 0;
    for (uint64_t n = 0; n < PROBLEMS; n++) {
        uint64_t seed = PROBLEMS * sample_turn() + n;
        Random r;
        draw_problem(&r, seed);
        Best b = {.p = &r.p};
        try_all(&b, 0, r.p.iterations[0]);
        Arena *tmp = arena_new();
        KeepChoice c = {0};
        bool found = keep_choose(&r.p, &c, tmp);
        if (found != b.found)
            fail_msg("problem %d: %s fits", (int)seed, b.found ? "something" : "nothing");
        if (found && (c.peak != b.best.peak || c.seconds != b.best.seconds || c.peak > r.p.limit))
            fail_msg("problem %d: %lld bytes, %g s where %lld bytes, %g s are possible", (int)seed,
                     (long long)c.peak, c.seconds, (long long)b.best.peak, b.best.seconds);
        int64_t iterations[2] = {0};
        for (int k = 0; found && k < c.n; k++)
            iterations[c.range[k].loop] += c.range[k].iterations;
        for (int l = 0; found && l < r.p.loops; l++)
            assert_int_equal(iterations[l], r.p.iterations[l]);
        fit += found;
        arena_free(tmp);
    }
    assert_true(fit > PROBLEMS / 4 && fit < PROBLEMS);
}

/* More memory never makes the step slower or the peak smaller. */
static void monotone(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 300; n++) {
        Random r;
        draw_problem(&r, 300 * sample_turn() + n);
        r.p.iterations[0] = 12;
        KeepChoice last = {0};
        bool had = false;
        for (r.p.limit = 0; r.p.limit < 400; r.p.limit += 7) {
            Arena *tmp = arena_new();
            KeepChoice c = {0};
            bool found = keep_choose(&r.p, &c, tmp);
            assert_true(found || !had);
            if (had && (c.seconds > last.seconds || c.peak < last.peak))
                fail_msg("problem %d: %lld bytes give %g s and %lld at the peak, fewer %g and %lld",
                         (int)n, (long long)r.p.limit, c.seconds, (long long)c.peak, last.seconds,
                         (long long)last.peak);
            had = found;
            last = c;
            arena_free(tmp);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(best_of_all), cmocka_unit_test(monotone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
