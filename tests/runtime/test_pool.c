/* The pool gives every unit to exactly one thread, in ranges of at least a grain, whoever sleeps,
 * and what a slow thread leaves to the others. */
#include "unit.h"

#include <unistd.h>

enum { UNITS = 1000 };

typedef struct seen {
    atomic_int unit[UNITS];
    atomic_int ranges;
    int64_t grain, units;
    atomic_int bad;
} seen;

static void mark(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    seen *s = ctx;
    atomic_fetch_add(&s->ranges, 1);
    if (end - begin < s->grain && end - begin < s->units)
        atomic_fetch_add(&s->bad, 1);
    if ((uintptr_t)scratch % 64)
        atomic_fetch_add(&s->bad, 1);
    *(int64_t *)scratch = begin; /* no two threads have the same scratch */
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&s->unit[i], 1);
    if (*(int64_t *)scratch != begin)
        atomic_fetch_add(&s->bad, 1);
}

static void covers(void **state)
{
    (void)state;
    static seen s;
    static const int threads[] = {1, 2, 3, 8};
    for (int k = 0; k < 4; k++) {
        rt_pool *p = rt_pool_new(threads[k], false);
        uint64_t seed = 3;
        rt_pool_scratch(p, 100);
        for (int iteration = 0; iteration < 2000; iteration++) {
            int64_t units = (int64_t)(unit_random(&seed) % UNITS),
                    grain = (int64_t)(unit_random(&seed) % 50);
            memset(&s, 0, sizeof s);
            s.grain = grain;
            s.units = units;
            if (iteration % 100 == 0)
                usleep(300); /* the workers fall asleep */
            rt_pool_run(p, units, grain, mark, &s);
            int64_t max = grain > 1 ? units / grain : units;
            max = max < 1 ? 1 : max < threads[k] ? max : threads[k];
            assert_true(s.ranges >= (units ? max : 0));
            if (max == 1)
                assert_int_equal(s.ranges, units ? 1 : 0);
            assert_int_equal(s.bad, 0);
            for (int64_t i = 0; i < UNITS; i++)
                assert_int_equal(s.unit[i], i < units);
        }
        rt_pool_free(p);
    }
}

typedef struct stuck {
    atomic_int done;
    int others;
} stuck;

/* The range that begins with unit 0 takes until the others are done, at most ten seconds. */
static void wait_in_first(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    stuck *s = ctx;
    for (int i = 0; begin == 0 && i < 10000 && s->done < s->others; i++)
        usleep(1000);
    if (begin)
        atomic_fetch_add(&s->done, (int)(end - begin));
}

/* A thread that does not return from its first piece keeps nobody from the rest of its range. */
static void helps(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 5; threads++) {
        const int units = 64 * threads;
        rt_pool *p = rt_pool_new(threads, false);
        stuck s = {.others = units - 32}; /* its first piece is at most half of its range */
        rt_pool_run(p, units, 1, wait_in_first, &s);
        assert_true(s.done >= s.others);
        rt_pool_free(p);
    }
}

static void slow_first(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    if (begin == 0)
        usleep(500); /* longer than the others spin for it */
    atomic_fetch_add((atomic_int *)ctx, (int)(end - begin));
}

static void slow_last(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    if (end == 4)
        usleep(500); /* the caller sleeps */
    atomic_fetch_add((atomic_int *)ctx, (int)(end - begin));
}

static void waits(void **state)
{
    (void)state;
    rt_pool *p = rt_pool_new(4, false);
    for (int i = 0; i < 100; i++) {
        atomic_int done = 0;
        rt_pool_run(p, 4, 1, i % 2 ? slow_first : slow_last, &done);
        assert_int_equal(done, 4);
    }
    rt_pool_free(p);
}

static void pins(void **state)
{
    (void)state;
    int n = rt_default_threads();
    assert_true(n >= 1);
    atomic_int done = 0;
    rt_pool *p = rt_pool_new(n, true);
    rt_pool_run(p, 4, 1, slow_last, &done);
    assert_int_equal(done, 4);
    rt_pool_free(p);
}

typedef struct looking {
    rt_pool *pool;
    bool deep;
    int looks;
} looking;

static bool look(void *ctx)
{
    ((looking *)ctx)->looks++;
    return true;
}

static void looks_in_it(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    looking *l = ctx;
    for (int64_t i = begin; i < end && l->deep; i++)
        rt_pool_look(l->pool, scratch);
}

/* The caller's own part looks after what runs beside it, in its midst as well; no other thread
 * does, which the sanitizers would tell of, and the number. */
static void looks(void **state)
{
    (void)state;
    enum { MANY = 64 };
    looking l = {.pool = rt_pool_new(2, false)};
    rt_pool_scratch(l.pool, 100);
    rt_pool_look(l.pool, NULL); /* nothing runs beside */
    rt_pool_beside(l.pool, look, &l);
    rt_pool_run(l.pool, 1, 1, looks_in_it, &l);
    const int outside = l.looks;
    l = (looking){.pool = l.pool, .deep = true};
    rt_pool_run(l.pool, 1, 1, looks_in_it, &l);
    assert_int_equal(l.looks, outside + 1);
    l.looks = 0;
    rt_pool_look(l.pool, &l); /* not its scratch */
    assert_int_equal(l.looks, 0);
    rt_pool_run(l.pool, MANY, 1, looks_in_it, &l);
    assert_true(l.looks > 0); /* the other thread may have taken some of its units */
    rt_pool_free(l.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(covers), cmocka_unit_test(waits),
                                       cmocka_unit_test(pins), cmocka_unit_test(looks),
                                       cmocka_unit_test(helps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
