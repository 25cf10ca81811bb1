/* Processes that give back what they computed: the results of a loop, whatever becomes of them; and
 * what the backward part keeps, handed from one to another. */
#include "base/parallel.h"
#include "decide/frontier.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 40, LONG = 300000, VALUES = 7 };

typedef struct Seen {
    pid_t parent;
    bool dies; /* every third call of another process ends it */
    int processors;
    int here; /* calls in this process */
} Seen;

/* Bytes of result k: more than a pipe holds for some, none for others. */
static size_t bytes_of(int k)
{
    return k % 5 == 0 ? LONG + (size_t)k : k % 5 == 1 ? 0 : 3;
}

static void on_one(void (*f)(void))
{
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int k = 0; k < CPU_SETSIZE && !CPU_COUNT(&one); k++)
        if (CPU_ISSET(k, &all))
            CPU_SET(k, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    f();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void call(void *ctx, int k, FILE *out)
{
    Seen *s = ctx;
    s->here++;
    if (s->dies && getpid() != s->parent && k % 3 == 0)
        _exit(70);
    assert_true(parallel_most() >= 1 && parallel_most() <= s->processors);
    for (size_t n = 0; n < bytes_of(k); n++)
        fputc((int)((n + (size_t)k) % 251), out);
}

static void has_results(Seen *s, int n)
{
    Arena *a = arena_new();
    Written w[MANY];
    parallel_map(n, call, s, a, w);
    for (int k = 0; k < n; k++) {
        assert_int_equal(w[k].n, bytes_of(k));
        for (size_t i = 0; i < w[k].n; i++)
            assert_int_equal((unsigned char)w[k].bytes[i], (i + (size_t)k) % 251);
    }
    arena_free(a);
}

static void test_results(void **state)
{
    (void)state;
    const int processors = parallel_most();
    for (int n = 0; n <= MANY; n += n < 3 ? 1 : 37) {
        Seen s = {.parent = getpid(), .processors = processors};
        has_results(&s, n);
        assert_true(s.here <= n && (s.here == n || (processors > 1 && n > 1)));
    }
}

/* A process that ends: its number, and what nobody took then, are called here. */
static void test_ended(void **state)
{
    (void)state;
    Seen s = {.parent = getpid(), .dies = true, .processors = parallel_most()};
    has_results(&s, MANY);
    assert_true(s.here > 0);
}

static void all_here(void)
{
    Seen s = {.parent = getpid(), .processors = 1};
    has_results(&s, MANY);
    assert_int_equal(s.here, MANY);
}

static void test_one_processor(void **state)
{
    (void)state;
    on_one(all_here);
}

static void ending_call(void *ctx, int k, FILE *out)
{
    const Seen *s = ctx;
    assert_true(getpid() != s->parent);
    if (k % 7 == 3)
        fprintf(stderr, "\nnumber %d is wrong\nand more\n", k);
    if (k % 7 == 3)
        exit(70);
    if (k % 7 == 5)
        raise(SIGKILL);
    fprintf(out, "%d", k);
}

/* Calls that end their processes: each is told of, none runs here, and all others have results. */
static void apart(void)
{
    Arena *a = arena_new();
    Written w[MANY];
    const char *died[MANY];
    const Seen s = {.parent = getpid()};
    parallel_apart(MANY, ending_call, (void *)&s, a, w, died);
    for (int k = 0; k < MANY; k++) {
        const bool ends = k % 7 == 3 || k % 7 == 5;
        assert_int_equal(!w[k].bytes, ends);
        assert_int_equal(died[k] != NULL, ends);
        if (k % 7 == 3)
            assert_string_equal(died[k], arena_printf(a, "number %d is wrong; exit code 70", k));
        else if (ends)
            assert_string_equal(died[k], "signal 9 (Killed)");
        else
            assert_int_equal(atoi(w[k].bytes), k);
    }
    arena_free(a);
}

static void test_apart(void **state)
{
    (void)state;
    apart();
    on_one(apart);
}

/* ---- who runs at once -------------------------------------------------------------------------
 */

/* Calls that wait until both have come. */
typedef struct Meeting {
    atomic_int *come; /* in memory that all processes share: how many have */
    int leaves;       /* the number of a call that ends when both have */
} Meeting;

/* Some seconds: on a machine that does much else, too. */
static bool comes_true(bool (*is_true)(const void *), const void *ctx)
{
    for (int k = 0; k < 20000 && !is_true(ctx); k++)
        usleep(1000);
    return is_true(ctx);
}

static bool both_came(const void *come)
{
    return *(const atomic_int *)come >= 2;
}

static bool any_is_left(const void *ctx)
{
    (void)ctx;
    return parallel_most() > 1;
}

static void meeting_call(void *ctx, int k, FILE *out)
{
    const Meeting *m = ctx;
    (void)k;
    atomic_fetch_add(m->come, 1);
    fputc(comes_true(both_came, m->come) ? 'x' : '-', out);
}

static void have_met(Meeting *m)
{
    Arena *a = arena_new();
    Written w[2];
    *m->come = 0;
    parallel_map(2, meeting_call, m, a, w);
    for (int k = 0; k < 2; k++)
        assert_true(w[k].n == 1 && *w[k].bytes == 'x');
    arena_free(a);
}

/* One call ends; the other has its processor then, and maps with it. */
static void leaving_call(void *ctx, int k, FILE *out)
{
    Meeting *m = ctx;
    atomic_fetch_add(m->come, 1);
    const bool together = comes_true(both_came, m->come);
    if (k != m->leaves && comes_true(any_is_left, NULL)) {
        have_met(m);
        fputc('x', out);
    }
    fputc(together ? 'x' : '-', out);
}

/* Two calls run at once; and so do two in a call, once another call has ended. */
static void test_at_once(void **state)
{
    (void)state;
    if (parallel_most() < 2)
        skip();
    Meeting m = {.come = mmap(NULL, sizeof *m.come, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_true(m.come != MAP_FAILED);
    have_met(&m);
    Arena *a = arena_new();
    for (m.leaves = 0; m.leaves < 2; m.leaves++) {
        Written w[2];
        *m.come = 0;
        parallel_map(2, leaving_call, &m, a, w);
        assert_string_equal(w[m.leaves].bytes, "x");
        assert_string_equal(w[1 - m.leaves].bytes, "xx");
    }
    assert_true(parallel_most() >= 2);
    munmap(m.come, sizeof *m.come);
    arena_free(a);
}

/* ---- before and after -------------------------------------------------------------------------
 */

/* A call that has come while nobody waited for it. */
static void coming_call(void *ctx, int k, FILE *out)
{
    const Meeting *m = ctx;
    atomic_fetch_add(m->come, 1);
    fputc('a' + k, out);
}

static bool any_came(const void *come)
{
    return *(const atomic_int *)come >= 1;
}

static void waiting_call(void *ctx, int k, FILE *out)
{
    const Meeting *m = ctx;
    atomic_fetch_add(m->come, 1);
    pause();
    fputc(k, out);
}

static void finishes(Meeting *m, int n, bool begins)
{
    Arena *a = arena_new();
    *m->come = 0;
    ParallelMap *map = parallel_begin(n, coming_call, m, a);
    assert_int_equal(begins && comes_true(any_came, m->come), begins);
    Written w[3];
    parallel_map(3, coming_call, m, a, w); /* one that begins later, and ends before */
    const Written *all = parallel_finish(map);
    for (int k = 0; k < n; k++)
        assert_true(all[k].n == 1 && *all[k].bytes == 'a' + k);
    assert_int_equal(*m->come, n + 3);
    arena_free(a);
}

/* Calls begin before anyone waits, if there is a processor for them; each is called once, and all
 * results come. What is dropped is ended, and the next map has all processors. */
static void begun(void)
{
    Meeting m = {.come = mmap(NULL, sizeof *m.come, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_true(m.come != MAP_FAILED);
    const int processors = parallel_most();
    for (int n = 0; n < 20; n += 1 + n / 3)
        finishes(&m, n, n > 1 && processors > 1);
    Arena *a = arena_new();
    *m.come = 0;
    ParallelMap *map = parallel_begin(2, waiting_call, &m, a);
    if (processors > 1)
        assert_true(comes_true(any_came, m.come));
    parallel_drop(map);
    assert_int_equal(parallel_most(), processors);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* there is no child any more */
    finishes(&m, 4, processors > 1);
    arena_free(a);
    munmap(m.come, sizeof *m.come);
}

static void test_begun(void **state)
{
    (void)state;
    begun();
    on_one(begun);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

enum { PARTS = 24, PART = 512 << 10, GENERATIONS = 3 };

/* Parts of an arena's blocks, large ones among them, each filled with a number. */
typedef struct Parts {
    unsigned char *part[PARTS];
    int with;
} Parts;

static bool has_all(const unsigned char *p, int of)
{
    for (size_t k = 0; k < PART; k++)
        if (p[k] != of)
            return false;
    return true;
}

/* False: new memory was not zero. */
static bool fill(Parts *p, int with, Arena *a)
{
    bool zero = true;
    p->with = with;
    for (int k = 0; k < PARTS; k++) {
        p->part[k] = arena_alloc(a, PART);
        zero &= has_all(p->part[k], 0);
        memset(p->part[k], with, PART);
    }
    return zero;
}

/* Has this process, begun by others that had arenas, all that was in these, and is new memory zero,
 * though other arenas were there before? So it begins another. */
static bool has_arenas(int generation, Parts of[GENERATIONS])
{
    Parts other;
    for (int g = 0; g < generation; g++)
        for (int k = 0; k < PARTS; k++)
            if (!has_all(of[g].part[k], of[g].with))
                return false;
    if (generation == GENERATIONS)
        return true;
    for (int k = 0; k < 2; k++) {
        Arena *gone = arena_new();
        if (!fill(&other, 99, gone))
            return false;
        arena_free(gone);
    }
    Arena *a = arena_new();
    if (!fill(&of[generation], generation + 1, a))
        return false;
    Arena *gone = arena_new();
    fill(&other, 98, gone);
    arena_free(gone);
    const pid_t pid = arena_fork();
    if (!pid)
        _exit(!has_arenas(generation + 1, of));
    int status = -1;
    waitpid(pid, &status, 0);
    const bool here =
        fill(&other, 97, a) && has_all(of[generation].part[PARTS - 1], generation + 1);
    arena_free(a);
    return here && status == 0;
}

static void test_arenas(void **state)
{
    (void)state;
    Parts of[GENERATIONS];
    assert_true(has_arenas(0, of));
}

/* One call says that no other begins; those behind it wait until it has. */
typedef struct Stop {
    int at;
    atomic_int *said; /* of all processes */
} Stop;

static void stop_call(void *ctx, int k, FILE *out)
{
    const Stop *s = ctx;
    if (k == s->at) {
        parallel_stop();
        *s->said = 1;
    }
    while (s->at >= 0 && k > s->at && !*s->said)
        usleep(1000);
    fputc('x', out);
}

/* Calls that began have their results, the rest has none, and the next map has all. */
static void test_stopped(void **state)
{
    (void)state;
    atomic_int *said =
        mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(said != MAP_FAILED);
    for (int at = 0; at < MANY; at += 13) {
        Arena *a = arena_new();
        Written w[MANY];
        Stop s = {at, said};
        int with = 0;
        *said = 0;
        parallel_map(MANY, stop_call, &s, a, w);
        while (with < MANY && w[with].bytes)
            with++;
        for (int k = with; k < MANY; k++)
            assert_null(w[k].bytes);
        assert_true(with >= at + 1 && with <= at + parallel_most());
        s.at = -1;
        parallel_map(MANY, stop_call, &s, a, w);
        for (int k = 0; k < MANY; k++)
            assert_int_equal(w[k].n, 1);
        arena_free(a);
    }
    munmap(said, sizeof *said);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static const bool some[VALUES] = {false, true, true, false, false, true, false}, none[VALUES];

static KeepPlan *plan_of(int loops, Arena *a)
{
    KeepPlan *p = NEW(a, KeepPlan);
    for (int l = 0; l < loops; l++) {
        KeepRanges ranges = {0};
        for (int k = 0; k <= l; k++)
            vec_push(a, &ranges,
                     ((KeepRange){.iterations = 4 + k,
                                  .segment = 1 + l,
                                  .keep = k ? some : none,
                                  .says = k == 1 ? NULL : "q k v",
                                  .here = k > 1}));
        vec_push(a, &p->loops, ranges);
        vec_push(a, &p->dims, (Name)(l + 3));
    }
    return p;
}

static void are_same(const KeepPlan *x, const KeepPlan *y)
{
    assert_int_equal(x->loops.n, y->loops.n);
    assert_int_equal(x->dims.n, y->dims.n);
    for (size_t l = 0; l < x->loops.n; l++) {
        assert_int_equal(x->dims.data[l], y->dims.data[l]);
        assert_int_equal(x->loops.data[l].n, y->loops.data[l].n);
        for (size_t k = 0; k < x->loops.data[l].n; k++) {
            const KeepRange *r = &x->loops.data[l].data[k], *s = &y->loops.data[l].data[k];
            assert_int_equal(r->iterations, s->iterations);
            assert_int_equal(r->segment, s->segment);
            assert_int_equal(r->here, s->here);
            assert_memory_equal(r->keep, s->keep, VALUES * sizeof *r->keep);
            assert_true(!r->says == !s->says);
            if (r->says)
                assert_string_equal(r->says, s->says);
        }
    }
}

/* Each plan comes back as it was; no part of its bytes is taken for one, and none with more. */
static void test_kept(void **state)
{
    (void)state;
    for (int loops = -1; loops < 4; loops++) {
        Arena *a = arena_new();
        const KeepPlan *p = loops < 0 ? NULL : plan_of(loops, a), *back;
        char *bytes;
        size_t n;
        FILE *out = open_memstream(&bytes, &n);
        keep_write(out, p, VALUES);
        fputc(0, out);
        fclose(out);
        assert_true(keep_read(bytes, n - 1, VALUES, a, &back));
        assert_true(!p == !back);
        if (p)
            are_same(p, back);
        assert_false(keep_read(bytes, n, VALUES, a, &back));
        for (size_t part = 0; part < n - 1; part++)
            assert_false(keep_read(bytes, part, VALUES, a, &back));
        free(bytes);
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),       cmocka_unit_test(test_ended),
        cmocka_unit_test(test_apart),         cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_begun),         cmocka_unit_test(test_arenas),
        cmocka_unit_test(test_one_processor), cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
