/* A program that learns what it generates: @prefill and @decode beside @train and @eval, in one
 * plan. All of them compute what the interpreter does, caches lie over what a step has, and the
 * proof sees caches that lie where something is alive. @spread gives texts what their prompts left.
 */
#include "tests/plan/trial.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const Small small = {PLAN_DIR "/rollout.mg", 1, {NULL}};
static const char *const functions[] = {"train", "eval", "prefill", "decode"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static bool is_cache(const Buffer *b)
{
    return b->persistent && b->owner == OWN_cache;
}

static bool overlap(const Buffer *a, const Buffer *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void computes(void **state)
{
    (void)state;
    Model t;
    Run run[FUNCTIONS];
    open_model(&t, &small, DT_f64);
    for (int f = 0; f < FUNCTIONS; f++) {
        run[f] = interpret(&t, functions[f], 5);
        assert_non_null(run[f].fn);
    }
    lower_physical(&t);
    Plan *p = plan_for(&t, &test_device);
    must_hold(p);
    unsigned char *arena = malloc((size_t)p->arena_bytes);
    for (int64_t i = 0; i < p->arena_bytes; i++)
        arena[i] = 0xff;
    for (int f = 0; f < FUNCTIONS; f++) {
        size_t which;
        Tensor64 *results = NEW_ARRAY(t.a, Tensor64, run[f].fn->results.n);
        assert_true(run_planned(&t, p, &run[f], arena, results, NULL, NULL));
        const double off = worst_difference(run[f].fn, results, run[f].results, &which);
        if (!(off < 1e-11))
            fail_msg("result %zu of @%s differs by %g", which, functions[f], off);
    }
    free(arena);
    model_close(&t);
}

static Tensor64 *cache_in(const Run *run, uint32_t number)
{
    for (size_t k = 0; k < run->fn->args.n; k++)
        if (run->fn->args.data[k].role == ARG_cache && run->fn->args.data[k].tensor == number)
            return &run->args[k];
    fail_msg("no cache %u", number);
    return NULL;
}

/* Texts 0, 2 and 3 of four take what their prompt left, of two texts each; text 1 keeps its own. */
static void spreads(void **state)
{
    (void)state;
    static const int take[] = {1, 0, 1, 1};
    enum { TEXTS = 4, GROUP = 2 };
    Model t;
    open_model(&t, &small, DT_f64);
    lower_physical(&t);
    Plan *p = plan_for(&t, &test_device);
    must_hold(p);
    Run run = interpret(&t, "spread", 5);
    assert_non_null(run.fn);
    assert_int_equal(run.fn->args.data[0].role, ARG_count);
    for (int k = 0; k < TEXTS; k++)
        run.args[0].data[k] = take[k];
    run.results = run_fn(&t, run.fn, run.args);
    unsigned char *arena = malloc((size_t)p->arena_bytes);
    Tensor64 *planned = NEW_ARRAY(t.a, Tensor64, run.fn->results.n);
    size_t which;
    assert_true(run_planned(&t, p, &run, arena, planned, NULL, NULL));
    assert_true(worst_difference(run.fn, planned, run.results, &which) <= 0);
    assert_int_equal(run.fn->results.n, 2);
    for (uint32_t c = 0; c < 2; c++) {
        const Tensor64 *own = cache_in(&run, c), *of_prompt = cache_in(&run, 2 + c);
        const int at = type_find(&own->type, t.m->batch.name);
        int64_t inner = 1, outer = 1;
        assert_int_equal(own->type.dims[at].size, TEXTS);
        assert_int_equal(of_prompt->type.dims[at].size, TEXTS / GROUP);
        for (int k = 0; k < own->type.rank; k++)
            *(k < at ? &outer : &inner) *= k == at ? 1 : own->type.dims[k].size;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t k = 0; k < TEXTS; k++)
                for (int64_t i = 0; i < inner; i++) {
                    const int64_t mine = (o * TEXTS + k) * inner + i;
                    const double want =
                        take[k] ? of_prompt->data[(o * (TEXTS / GROUP) + k / GROUP) * inner + i]
                                : own->data[mine];
                    assert_true(run.results[c].data[mine] == want);
                }
    }
    free(arena);
    model_close(&t);
}

static void shares(void **state)
{
    (void)state;
    Model t;
    int caches = 0, over_step = 0;
    int64_t most = 0;
    open_model(&t, &small, DT_f64);
    lower_physical(&t);
    Plan *p = plan_for(&t, &test_device);
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (p->programs[k] && p->programs[k]->peak > most)
            most = p->programs[k]->peak;
    assert_int_equal(p->arena_bytes, p->persistent_bytes + most);
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *a = &p->buffers.data[i];
        if (!is_cache(a))
            continue;
        caches++;
        assert_true(a->offset >= p->persistent_bytes);
        for (size_t k = 0; k < p->buffers.n; k++) {
            const Buffer *b = &p->buffers.data[k];
            const bool transient = !b->persistent && b->first >= 0 && b->bytes;
            over_step += transient && b->program == 0 && overlap(a, b);
            if (i != k && (b->persistent || (transient && b->program >= 4)))
                assert_false(overlap(a, b));
        }
    }
    assert_int_equal(caches, 4); /* keys and values, of texts and of prompts */
    assert_true(over_step > 0);
    model_close(&t);
}

/* ---- lies ------------------------------------------------------------------------------------ */

static Buffer *cache_of(Plan *p)
{
    for (size_t i = 0; i < p->buffers.n; i++)
        if (is_cache(&p->buffers.data[i]))
            return &p->buffers.data[i];
    return NULL;
}

static bool over_parameters(Plan *p)
{
    cache_of(p)->offset = 0;
    return true;
}

static bool over_each_other(Plan *p)
{
    Buffer *first = cache_of(p);
    for (size_t i = 0; i < p->buffers.n; i++)
        if (is_cache(&p->buffers.data[i]) && &p->buffers.data[i] != first)
            p->buffers.data[i].offset = first->offset;
    return true;
}

/* ... of a value that @decode computes. */
static bool over_decode(Plan *p)
{
    for (size_t i = 0; i < p->buffers.n; i++) {
        Buffer *b = &p->buffers.data[i];
        if (b->persistent || b->program != 5 || b->first < 0 || !b->bytes)
            continue;
        b->offset = cache_of(p)->offset;
        return true;
    }
    return false;
}

static bool without_caches(Plan *p)
{
    p->decode->peak -= p->cache_bytes;
    return true;
}

static bool fewer_alive(Plan *p)
{
    p->prefill->live_bound -= p->cache_bytes;
    return true;
}

static void lies(void **state)
{
    (void)state;
    static const Said all[] = {{over_parameters, "is on the wrong side of the persistent bytes"},
                               {over_each_other, "share bytes and are alive together"},
                               {over_decode, "share bytes and are alive together"},
                               {without_caches, "it claims a peak of"},
                               {fewer_alive, "it claims that at most"}};
    Trial x = {0};
    open_model(&x.t, &small, DT_f64);
    trial_start(&x);
    trial_each_is_said(&x, all, sizeof all / sizeof *all);
    trial_mutations(&x, "rollout.mg", 3, 150);
    model_close(&x.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(computes), cmocka_unit_test(spreads),
                                       cmocka_unit_test(shares), cmocka_unit_test(lies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
