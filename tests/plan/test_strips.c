/* Strips: what the proof says of rows of a value, all at once, against the same of each element. */
#include "plan/check/check.h"
#include "tests/plan/trial.h"
#include "tests/plan/mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 1 << 13 };

typedef struct Source {
    Value value;
    uint64_t iterations;
    int64_t element;
} Source;

/* Sources of the elements of a value, by their place; and by how many calls. */
typedef struct Sources {
    Source at[MOST];
    int64_t n, calls;
} Sources;

static void note(void *ctx, Value v, uint64_t iterations, Strip s)
{
    Sources *x = ctx;
    x->calls++;
    for (int64_t row = 0; row < s.count; row++)
        for (int64_t i = 0; i < s.n; i++) {
            const int64_t at = s.at + row * s.stride + i;
            assert_in_range(at, 0, MOST - 1);
            assert_int_equal(x->at[at].value, 0); /* each once */
            x->at[at] = (Source){v, iterations, s.first + row * s.step + i};
            x->n++;
        }
}

static bool never(const void *ctx, const Ins *loop)
{
    (void)ctx;
    (void)loop;
    return false;
}

static bool always(const void *ctx, const Ins *loop, int64_t i)
{
    (void)ctx;
    (void)loop;
    (void)i;
    return true;
}

/* Strips of a value: all of it, and rows that are drawn, of which each lies where its elements are.
 */
static void compare(const Meaning *w, Value v, Strip s, Sources *rows, Sources *each)
{
    *rows = *each = (Sources){.n = 0};
    meaning_of(w, v, (Iterations){{0}}, s, note, rows);
    for (int64_t row = 0; row < s.count; row++)
        for (int64_t i = 0; i < s.n; i++)
            meaning_of(w, v, (Iterations){{0}},
                       (Strip){.first = s.first + row * s.step + i,
                               .n = 1,
                               .count = 1,
                               .at = s.at + row * s.stride + i},
                       note, each);
    assert_int_equal(rows->n, each->n);
    for (int64_t at = 0; at < MOST; at++) {
        assert_int_equal(rows->at[at].value, each->at[at].value);
        assert_true(rows->at[at].iterations == each->at[at].iterations);
        assert_int_equal(rows->at[at].element, each->at[at].element);
    }
}

#define DEEPSEEK(...)                                                                              \
    {                                                                                              \
        "deepseek_v3.mg", 0,                                                                       \
        {                                                                                          \
            "layers=2", "hidden=8", "heads=4", "still=4", "turn=2", "value=4", "latent=4",         \
                "narrow=4", "wide=8", "ffn=4", "experts=4", "vocab=16", "seq=8", "batch=2",        \
                __VA_ARGS__                                                                        \
        }                                                                                          \
    }
/* Heads that are joins: of parts as long as each other or not, of which one has no heads. */
static const Small joined[] = {
    DEEPSEEK("dense=0", "groups=2"),
    DEEPSEEK("dense=0", "groups=2", "turn=4"),
};

static void as_elements(void **state)
{
    (void)state;
    Sources *x = calloc(2, sizeof *x);
    int64_t joins = 0, fewer = 0;
    for (int k = 0; k < (int)(sizeof joined / sizeof *joined) + small_model_count; k++) {
        Model t = {0};
        uint64_t rng = (uint64_t)k + 1;
        open_model(&t, k < small_model_count ? &small_models[k] : &joined[k - small_model_count],
                   DT_f64);
        lower_physical(&t);
        const Meaning w = {.m = t.m, .shortened = never, .runs = always};
        for (Value v = 1; v < t.m->values.n; v++) {
            const Ins *def = t.m->values.data[v].def;
            const int64_t n = type_elements(type_of(t.m, v));
            if (!def || n < 2 || n > MOST || !(op_is(def->op, VIEW) || def->op == OP_join))
                continue;
            compare(&w, v, (Strip){.n = n, .count = 1}, x, x + 1);
            joins += def->op == OP_join;
            fewer += def->op == OP_join && x[0].calls * 4 < x[1].calls;
            for (int draw = 0; draw < 6; draw++) {
                Strip s = {.n = 1 + draw_int(&rng, 6), .step = draw_int(&rng, 17)};
                if (s.n > n)
                    continue;
                s.first = draw_int(&rng, (int)(n - s.n + 1));
                s.count = 1 + (s.step ? (n - s.n - s.first) / s.step : 3);
                s.stride = s.n + draw_int(&rng, 2);
                if (s.count * s.stride <= MOST)
                    compare(&w, v, s, x, x + 1);
            }
        }
        model_close(&t);
    }
    print_message("%d joins, %d in fewer calls\n", (int)joins, (int)fewer);
    assert_true(joins > 5 && fewer > joins / 2);
    free(x);
}

/* Plans of them with one mistake each. */
static void faults(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof joined / sizeof *joined; k++) {
        Trial x = {0};
        open_model(&x.t, &joined[k], DT_f64);
        trial_start(&x);
        trial_mutations(&x, joined[k].file, k + 1, 300);
        model_close(&x.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_elements), cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
