/* The order of the data, and the learning rate: pure functions, checked against their definitions.
 */
#include "runtime/data/sources.h"
#include "unit.h"

#include <unistd.h>

static void permutes(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 5000; n += n < 300 ? 1 : 997) {
        char *seen = calloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t to = rt_permute(7, n, i);
            assert_true(to < n);
            assert_int_equal(seen[to]++, 0);
        }
        free(seen);
    }
    /* Far apart numbers of a huge range stay in it, and do not meet. */
    uint64_t n = ((uint64_t)1 << 40) + 12345;
    assert_true(rt_permute(1, n, 0) < n && rt_permute(1, n, n - 1) < n);
    assert_true(rt_permute(1, n, 0) != rt_permute(1, n, n - 1));
}

static void permutations_differ(void **state)
{
    (void)state;
    int same = 0, fixed = 0, next = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same += rt_permute(1, 1000, i) == rt_permute(2, 1000, i);
        fixed += rt_permute(1, 1000, i) == i;
        next += rt_permute(1, 1000, i) + 1 == rt_permute(1, 1000, (i + 1) % 1000);
    }
    assert_true(same < 12 && fixed < 12 && next < 12); /* one each is what chance gives */
}

enum { SEQ = 8 };

static rt_data *open_bytes(const unsigned char *bytes, const size_t *n, int files, char **path)
{
    const char *item[4];
    for (int i = 0; i < files; i++) {
        item[i] = path[i] = unit_file(bytes, n[i]);
        bytes += n[i];
    }
    return rt_data_open(&(rt_list){item, files}, "data", SEQ, SEQ + 1, 256);
}

static void shuffled(const rt_data *d, uint64_t seed, int64_t index, int32_t *out)
{
    rt_place p = rt_data_window(d, seed, index);
    rt_tokens_read(p.file, p.first, SEQ + 1, out);
}

static void in_order(const rt_data *d, int64_t index, int32_t *out)
{
    rt_place p = rt_data_window_in_order(d, index);
    rt_tokens_read(p.file, p.first, SEQ + 1, out);
}

static void forget(char **path, int files)
{
    for (int i = 0; i < files; i++) {
        unlink(path[i]);
        free(path[i]);
    }
}

/* Two files whose bytes say where they lie: every window is SEQ + 1 neighbours of one file; an
 * epoch has no window twice; the same index gives the same window; another seed another order. */
static void windows(void **state)
{
    (void)state;
    unsigned char bytes[200];
    size_t n[] = {120, 80};
    char *path[2];
    for (int i = 0; i < 200; i++)
        bytes[i] = (unsigned char)i;
    rt_data *d = open_bytes(bytes, n, 2, path);
    assert_int_equal(d->windows, 120 / SEQ - 1 + 80 / SEQ - 1);
    int moved = 0, touched[200] = {0};
    for (int epoch = 0; epoch < 60; epoch++) {
        bool started[200] = {false};
        for (int64_t i = 0; i < d->windows; i++) {
            int32_t w[SEQ + 1], again[SEQ + 1], other[SEQ + 1];
            shuffled(d, 5, epoch * d->windows + i, w);
            shuffled(d, 5, epoch * d->windows + i, again);
            shuffled(d, 6, epoch * d->windows + i, other);
            assert_memory_equal(w, again, sizeof w);
            moved += memcmp(w, other, sizeof w) != 0;
            for (int k = 0; k <= SEQ; k++) {
                assert_int_equal(w[k], w[0] + k);
                touched[w[k]]++;
            }
            assert_true(w[SEQ] < 120 || w[0] >= 120);
            assert_false(started[w[0]]);
            started[w[0]] = true;
        }
    }
    assert_true(moved > 50 * (int)d->windows);
    for (int i = 0; i < 200; i++)
        assert_true(touched[i] > 0);
    rt_data_close(d);
    forget(path, 2);
}

static void windows_in_order(void **state)
{
    (void)state;
    unsigned char bytes[100];
    size_t n[] = {SEQ + 1, 42, 49};
    char *path[3];
    for (int i = 0; i < 100; i++)
        bytes[i] = (unsigned char)i;
    rt_data *d = open_bytes(bytes, n, 3, path);
    rt_data_in_order(d);
    assert_int_equal(d->windows, 1 + 41 / SEQ + 48 / SEQ);
    static const int start[] = {0, 9, 17, 25, 33, 41, 51, 59, 67, 75, 83, 91};
    for (int64_t i = 0; i < d->windows; i++) {
        int32_t w[SEQ + 1];
        in_order(d, i, w);
        assert_int_equal(w[0], start[i]);
        assert_int_equal(w[SEQ], start[i] + SEQ);
    }
    rt_data_close(d);
    forget(path, 3);
}

/* Windows with more tokens behind them: in a file of any length all lie in it, the last as far back
 * as they can in the fixed order. */
static void windows_ahead(void **state)
{
    (void)state;
    unsigned char bytes[64];
    for (int i = 0; i < 64; i++)
        bytes[i] = (unsigned char)i;
    for (int ahead = 1; ahead <= SEQ; ahead++)
        for (int n = SEQ + ahead; n <= 64; n++) {
            char *path = unit_file(bytes, (size_t)n);
            const char *item[] = {path};
            rt_data *d = rt_data_open(&(rt_list){item, 1}, "data", SEQ, SEQ + ahead, 256);
            int64_t least = n, most = 0;
            for (int64_t i = 0; i < 20 * d->windows; i++) {
                rt_place p = rt_data_window(d, 5, i);
                least = p.first < least ? p.first : least;
                most = p.first > most ? p.first : most;
            }
            assert_true(least >= 0 && most + SEQ + ahead <= n);
            rt_data_in_order(d);
            rt_place last = rt_data_window_in_order(d, d->windows - 1);
            assert_true(last.first + SEQ + ahead <= n && last.first + 2 * SEQ + ahead > n);
            rt_data_close(d);
            unlink(path);
            free(path);
        }
}

static void holds_out_the_end(void **state)
{
    (void)state;
    unsigned char bytes[200];
    size_t n[] = {120, 80};
    char *path[2];
    for (int i = 0; i < 200; i++)
        bytes[i] = (unsigned char)i;
    rt_data *d = open_bytes(bytes, n, 2, path), *v = rt_data_hold_out(d, 0.45);
    assert_int_equal(v->tokens, 90); /* ten of the first file, and all of the second */
    assert_int_equal(v->nsegments, 2);
    assert_int_equal(v->windows, 1 + 79 / SEQ);
    assert_int_equal(d->tokens, 110);
    assert_int_equal(d->nsegments, 1);
    rt_data_close(d);
    rt_data_close(v);
    forget(path, 2);
}

static void holds_out_a_tail(void **state)
{
    (void)state;
    unsigned char bytes[200];
    size_t n[] = {200};
    char *path[1];
    for (int i = 0; i < 200; i++)
        bytes[i] = (unsigned char)i;
    rt_data *d = open_bytes(bytes, n, 1, path), *v = rt_data_hold_out(d, 0.25);
    assert_int_equal(d->tokens, 150);
    assert_int_equal(v->tokens, 50);
    int32_t w[SEQ + 1];
    for (int64_t i = 0; i < 10 * d->windows; i++) {
        shuffled(d, 1, i, w);
        assert_true(w[SEQ] < 150);
    }
    for (int64_t i = 0; i < v->windows; i++) {
        in_order(v, i, w);
        assert_int_equal(w[0], 150 + i * SEQ);
    }
    rt_data_close(d);
    rt_data_close(v);
    forget(path, 1);
}

/* Every prefix has every share to within one, and each source's numbers come one after another. */
static void blends(void **state)
{
    (void)state;
    static const double weights[][4] = {{1, 1}, {0.7, 0.3}, {5, 3, 2}, {0.01, 0.99}, {1, 2, 3, 4}};
    static const int sizes[] = {2, 2, 3, 2, 4};
    for (int k = 0; k < 5; k++) {
        int n = sizes[k];
        int64_t count[4] = {0};
        double sum = 0;
        rt_data **source = rt_alloc((size_t)n, sizeof *source);
        for (int i = 0; i < n; i++) {
            source[i] = rt_alloc(1, sizeof **source);
            source[i]->windows = 10 * (i + 1);
            sum += weights[k][i];
        }
        rt_blend *b = rt_blend_new(source, weights[k], n);
        for (int64_t g = 0; g < 5000; g++) {
            int64_t index;
            const rt_data *d = rt_blend_pick(b, g, &index);
            for (int i = 0; i < n; i++) {
                if (d == source[i])
                    assert_int_equal(index, count[i]++);
                double want = weights[k][i] / sum * (double)(g + 1);
                assert_true(fabs((double)count[i] - want) <= 1.0000001);
            }
        }
        int64_t there, again; /* any number can be asked for at any time */
        const rt_data *d = rt_blend_pick(b, 4321, &there);
        rt_blend_pick(b, 17, &again);
        assert_ptr_equal(d, rt_blend_pick(b, 4321, &again));
        assert_int_equal(there, again);
        there = 10;
        assert_ptr_equal(rt_blend_in_order(b, &there), source[1]);
        assert_int_equal(there, 0);
        rt_blend_free(b);
    }
}

static void learning_rates(void **state)
{
    (void)state;
    mg_lr c = {MG_LR_COSINE, 3e-4, 3e-5, 10, 110, 0, MG_SHAPE_LINEAR, false};
    assert_true(fabs(rt_lr(&c, 0) - 3e-5) < 1e-18 && rt_lr(&c, 9) == 3e-4);
    assert_true(fabs(rt_lr(&c, 10) - 3e-4) < 1e-18);
    assert_true(fabs(rt_lr(&c, 4) - 1.5e-4) < 1e-18);
    assert_true(fabs(rt_lr(&c, 60) - 1.65e-4) < 1e-16);
    assert_true(fabs(rt_lr(&c, 35) - (3e-5 + 2.7e-4 * (2 + sqrt(2)) / 4)) < 1e-16);
    assert_true(fabs(rt_lr(&c, 110) - 3e-5) < 1e-18 && rt_lr(&c, 500) == rt_lr(&c, 110));
    mg_lr l = {MG_LR_LINEAR, 1, 0.5, 0, 4, 0, MG_SHAPE_LINEAR, false};
    assert_true(rt_lr(&l, 0) == 1 && rt_lr(&l, 1) == 0.875 && rt_lr(&l, 4) == 0.5 &&
                rt_lr(&l, 9) == 0.5);
    mg_lr k = {MG_LR_CONSTANT, 0.25, 0, 2, 10, 0, MG_SHAPE_LINEAR, false};
    assert_true(rt_lr(&k, 0) == 0.125 && rt_lr(&k, 1) == 0.25 && rt_lr(&k, 7) == 0.25);
    mg_lr s = {MG_LR_COSINE, 1, 0, 5, 5, 0, MG_SHAPE_LINEAR, false}; /* all warm-up */
    assert_true(rt_lr(&s, 4) == 1 && rt_lr(&s, 5) == 1 && rt_lr(&s, 6) == 0);
}

static void follows(const mg_lr *lr, const double *want, int n, double within)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(rt_lr(lr, i) - want[i]) <= within))
            fail_msg("kind %d, step %d: %.9g, not %.9g", lr->kind, i, rt_lr(lr, i), want[i]);
}

/* DeepSpeed's WarmupCosineLR and WarmupLR of 4 and 10 steps, as its schedulers print them. */
static void deepspeed(void **state)
{
    (void)state;
    static const double cosine[] = {0,      .5,      .792481, 1,     .933019, .750025,
                                    .50005, .250075, .067081, .0001, .0001};
    static const double rise[] = {.1, .55, .8132331, 1, 1, 1, 1};
    static const double line[] = {.1, .325, .55, .775, 1, 1};
    mg_lr c = {MG_LR_WARMUP_COSINE, 1, 1e-4, 4, 10, 0, MG_SHAPE_LINEAR, true};
    mg_lr w = {MG_LR_WARMUP, 1, .1, 4, 10, 0, MG_SHAPE_LINEAR, true};
    mg_lr l = {MG_LR_WARMUP, 1, .1, 4, 10, 0, MG_SHAPE_LINEAR, false};
    mg_lr one = {MG_LR_WARMUP, 1, 0, 0, 10, 0, MG_SHAPE_LINEAR, true};
    follows(&c, cosine, 11, 1e-6);
    follows(&w, rise, 7, 1e-6);
    follows(&l, line, 6, 1e-12);
    assert_true(rt_lr(&one, 0) == 0 && rt_lr(&one, 1) == 1 && rt_lr(&one, 2) == 1);
}

static void stable_then_down(void **state)
{
    (void)state;
    static const double line[] = {.5, 1, 1, 1, 1, 1, 1, .8, .6, .4, .2, .2};
    static const double root[] = {.5, 1, 1, 1, 1, 1, 1, .6, .434315, .307180, .2, .2};
    static const double wave[] = {.5, 1, 1, 1, 1, 1, 1, .882843, .6, .317157, .2, .2};
    mg_lr w = {MG_LR_WSD, 1, .2, 2, 10, 4, MG_SHAPE_LINEAR, false};
    follows(&w, line, 12, 1e-9);
    w.shape = MG_SHAPE_SQRT;
    follows(&w, root, 12, 1e-6);
    w.shape = MG_SHAPE_COSINE;
    follows(&w, wave, 12, 1e-6);
    w.steps = 3; /* fewer steps than the descent: it begins at the peak */
    assert_true(rt_lr(&w, 1) == 1 && rt_lr(&w, 2) == 1 && rt_lr(&w, 3) == w.floor);
}

static void by_the_root(void **state)
{
    (void)state;
    static const double want[] = {.25, .5, .75, 1, .894427, .816497, .755929};
    mg_lr i = {MG_LR_INVERSE_SQRT, 1, .3, 4, 0, 0, MG_SHAPE_LINEAR, false};
    follows(&i, want, 7, 1e-6);
    assert_true(rt_lr(&i, 1000000) == .3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutes),         cmocka_unit_test(permutations_differ),
        cmocka_unit_test(windows),          cmocka_unit_test(windows_in_order),
        cmocka_unit_test(windows_ahead),    cmocka_unit_test(holds_out_the_end),
        cmocka_unit_test(holds_out_a_tail), cmocka_unit_test(blends),
        cmocka_unit_test(learning_rates),   cmocka_unit_test(deepspeed),
        cmocka_unit_test(stable_then_down), cmocka_unit_test(by_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
