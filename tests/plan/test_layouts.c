/* Random layouts of small models, against one rank: as they are split, and as they are planned.
 * Every way that a layout has (random_layout.h) is wanted in turn, and it is counted how often
 * programs have it. MGC_SHOW=1 tells each draw by the way wanted and the random state, and
 * MGC_DRAW=W:S begins with that. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/plan/random_layout.h"

enum { TRIES = 60 };

/* Draws until a layout follows and has the way. False: none of so many. */
static bool follow_one(Way wanted, uint64_t *rng, int *had, int *ran, int *refused)
{
    Device host = test_device;
    host.products_wait = true;
    for (int k = 0; k < TRIES; k++) {
        Drawn d;
        const uint64_t began = *rng;
        draw_layout(&d, wanted, rng);
        if (getenv("MGC_SHOW"))
            fprintf(stderr, "%d:%" PRIu64 ": %s, %d at once: %s\n", (int)wanted, began,
                    d.r.small->file, (int)d.r.at_once, d.spec);
        const bool on_gpu = d.ways & WAY(pairs) || wanted == WAY_beside || draw_int(rng, 3);
        const bool follows = follow_layout(&d, on_gpu ? &test_device : &host, rng);
        *ran += follows;
        *refused += !follows;
        for (int w = 0; w < WAY_count && follows; w++)
            had[w] += (int)(d.ways >> w & 1);
        model_close(&d.r.t);
        if (follows && d.ways >> wanted & 1)
            return true;
    }
    return false;
}

static void random_layouts(void **state)
{
    (void)state;
    enum { FEWEST = 7 }; /* in turn each way is wanted once more */
    const int wanted = sample_full() ? 300 : SANITIZED ? 6 : 12;
    uint64_t rng = 31 * sample_turn() + 7;
    int had[WAY_count] = {0}, ran = 0, refused = 0, without = 0;
    const char *draw = getenv("MGC_DRAW");
    unsigned way;
    if (draw && sscanf(draw, "%u:%" SCNu64, &way, &rng) == 2 && way < WAY_count) {
        assert_true(follow_one((Way)way, &rng, had, &ran, &refused));
        return;
    }
    for (int k = 0; k < wanted; k++) {
        /* Neighbours in turns of neighbouring numbers, all in a full run. */
        const Way w = (Way)((sample_turn() * (uint64_t)wanted + (uint64_t)k) % WAY_count);
        const bool found = follow_one(w, &rng, had, &ran, &refused);
        if (!found)
            print_message("no layout of %d has: %s\n", TRIES, way_says[w]);
        without += !found;
    }
    print_message("%d layouts follow, %d are refused\n", ran, refused);
    for (int w = 0; w < WAY_count; w++)
        print_message("%6d  %s\n", had[w], way_says[w]);
    assert_true(ran >= wanted - without && without <= wanted / 10);
    /* Collectives beside a table are seldom drawn; test_beside.c has them. */
    for (int w = 0; w < WAY_count && sample_full(); w++)
        if (had[w] < FEWEST && w != WAY_beside)
            fail_msg("%d layouts, and %d have: %s", ran, had[w], way_says[w]);
}

/* Layouts that did not follow once. */
static const struct {
    Small model;
    int64_t at_once;
    DType precision;
    const char *spec;
} mended[] = {
    /* A layer's slice of a window of what lies on the host has gaps, which was transferred. */
    {{MODELS_DIR "/../bench/published/qwen3_moe.mg",
      0,
      {"batch=16", "seq=8", "vocab=16", "hidden=8", "ffn=8", "experts=8", "best=2", "layers=4",
       "kv_heads=2", "group=2", "head=4", "part=2"}},
     16,
     DT_f64,
     "pp=2 dp=2; layers pp:1=2,2; schedule zb-h1; part dp; seq dp; kv_heads dp; experts dp; slot "
     "dp; vocab dp; ffn dp; head dp; choice dp; pieces 2 2t; state dp; grads dp; offload 9"},
    /* A window of a layer's matrix, which pieces multiply, was transferred with gaps, too. */
    {{MODELS_DIR "/../bench/published/qwen3_moe.mg",
      0,
      {"batch=16", "seq=8", "vocab=16", "hidden=8", "ffn=8", "experts=8", "best=2", "layers=4",
       "kv_heads=2", "group=2", "head=4", "part=2"}},
     4,
     DT_bf16,
     "cp=2; part cp; seq cp; kv_heads cp; vocab cp; ffn cp; part cp; head cp; group cp; hidden cp; "
     "slot cp; experts cp; batch cp; pieces 2t 2t; offload 14"},
    /* A view that is a result was copied in the phase of weights. */
    {{"gpt2_124m.mg",
      0,
      {"layers=4", "hidden=32", "heads=4", "head=8", "ffn=32", "vocab=16", "seq=8", "batch=16",
       AS_READY}},
     8,
     DT_bf16,
     "pp=2 tp=2; layers pp:1; schedule zb-h1; ffn tp; seq tp/2; pieces 2 2"},
};
enum { MENDED = sizeof mended / sizeof *mended };

static void mended_follow(void **state)
{
    (void)state;
    uint64_t rng = sample_turn() + 1;
    for (int k = 0; k < MENDED; k++) {
        Drawn d = {.spec = mended[k].spec};
        if (mended[k].precision == DT_f64)
            open_reference(&d.r, &mended[k].model, mended[k].at_once);
        else
            open_reference_in(&d.r, &mended[k].model, mended[k].at_once, mended[k].precision);
        if (!follow_layout(&d, &test_device, &rng))
            fail_msg("%s is refused", d.spec);
        model_close(&d.r.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mended_follow),
                                       cmocka_unit_test(random_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
