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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
