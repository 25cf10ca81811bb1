/* The schedules that are built in: their rows, what they hold, and which numbers they take. */
#include "tests/pipeline/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- rows ----------------------------------------------------------------------------------- */

static void is_text(PipeSchedule s, int ranks, int chunks, int m, int group, const char *text)
{
    Bench b;
    bench_open(&b);
    PipeForm f = {s, ranks, chunks, m, group, false};
    PipeTable *t = pipe_make(b.arena, b.diag, &f);
    assert_non_null(t);
    assert_string_equal(printed(&b, t), text);
    bench_close(&b);
}

static void rows(void **state)
{
    (void)state;
    is_text(PIPE_GPIPE, 2, 1, 3, 0,
            "0F0,0F1,0F2,0B0,0B1,0B2\n"
            "1F0,1F1,1F2,1B0,1B1,1B2\n");
    is_text(PIPE_1F1B, 3, 1, 4, 0,
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
            "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
    is_text(PIPE_1F1B, 4, 1, 2, 0,
            "0F0,0F1,0B0,0B1\n"
            "1F0,1F1,1B0,1B1\n"
            "2F0,2F1,2B0,2B1\n"
            "3F0,3B0,3F1,3B1\n");
    is_text(PIPE_ZB_H1, 3, 1, 4, 0,
            "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
            "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
            "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n");
    is_text(PIPE_INTERLEAVED, 1, 2, 2, 0, "0F0,1F0,1B0,0F1,0B0,1F1,1B1,0B1\n");
    is_text(PIPE_1F1B, 1, 1, 1, 0, "0F0,0B0\n");
}

/* The second chunk of rank r is stage 2p - 1 - r. */
static void rows_of_a_v(void **state)
{
    (void)state;
    is_text(PIPE_ZB_V, 2, 2, 4, 0,
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,"
            "0I2,0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,"
            "1I3,1W2,2W3,1W3\n");
    /* Of one microbatch what the schedule has of others is left out. */
    is_text(PIPE_ZB_V, 2, 2, 1, 0, "0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,2W0,1I0,1W0\n");
    is_text(PIPE_ZB_V, 1, 2, 2, 0, "0F0,1F0,1I0,1W0,0F1,0I0,0W0,1F1,1I1,1W1,0I1,0W1\n");
    /* Of the last rank the first F and B do not overlap. */
    is_text(PIPE_DUALPIPE_V, 2, 2, 5, 0,
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,"
            "(0F4;3B2)OVERLAP_F_B,(3F3;0B1)OVERLAP_F_B,3B3,(3F4;0B2)OVERLAP_F_B,3B4,0I3,0W3,0I4,"
            "0W4\n"
            "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,"
            "(2F3;1B1)OVERLAP_F_B,(1F4;2B2)OVERLAP_F_B,(2F4;1B2)OVERLAP_F_B,2B3,1B3,2I4,1I4,2W4,"
            "1W4\n");
    is_text(PIPE_DUALPIPE_V, 1, 2, 2, 0, "0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0I1,0W1\n");
}

/* Groups of three, of which the last has two: microbatches 0 1 2 0 1 2 3 4 3 4 of chunks
 * 0 0 0 1 1 1 0 0 1 1, and back by the same list with chunks the other way round. */
static void groups(void **state)
{
    (void)state;
    is_text(PIPE_INTERLEAVED, 2, 2, 5, 3,
            "0F0,0F1,0F2,2F0,2F1,2F2,2B0,0F3,2B1,0F4,2B2,2F3,0B0,2F4,0B1,0B2,2B3,2B4,0B3,0B4\n"
            "1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1F3,1B0,1F4,1B1,3F3,1B2,3F4,3B3,3B4,1B3,1B4\n");
}

/* ---- what is held --------------------------------------------------------------------------- */

static void holds(const PipeTable *t, int rank, int to_input, int to_weight)
{
    PipeHeld h = pipe_held(t, rank);
    if (h.to_input != to_input || h.to_weight != to_weight)
        fail_msg("%s, %d ranks, %d microbatches, rank %d holds %d and %d instead of %d and %d",
                 t->name, t->ranks, t->microbatches, rank, h.to_input, h.to_weight, to_input,
                 to_weight);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void held(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 20; m++) {
            Bench b;
            bench_open(&b);
            const PipeTable *gpipe = built_in(&b, PIPE_GPIPE, p, 1, m);
            const PipeTable *one = built_in(&b, PIPE_1F1B, p, 1, m);
            const PipeTable *zero = built_in(&b, PIPE_ZB_H1, p, 1, m);
            for (int r = 0; r < p; r++) {
                holds(gpipe, r, m, m);
                holds(one, r, least(p - r, m), least(p - r, m));
                /* Nowhere more than 1f1b has on its first rank. */
                holds(zero, r, least(p - r, m), least(p, m));
            }
            for (int v = 2; v <= 4 && m % p == 0; v++) {
                const PipeTable *t = built_in(&b, PIPE_INTERLEAVED, p, v, m);
                for (int r = 0; r < p; r++) {
                    int n = least(2 * (p - r - 1) + (v - 1) * p + 1, m * v);
                    holds(t, r, n, n);
                }
            }
            bench_close(&b);
        }
}

/* Four ranks, two chunks: 11, 9, 7, 5 chunks in groups of 4, and 15 on rank 0 in groups of 8. */
/* Every rank holds as many chunks as there are stages, which is what rank 0 of 1f1b holds of whole
 * ranks; dualpipe-v one more. Where W is put off, I is too. */
static void held_by_a_v(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 20; m++) {
            Bench b;
            bench_open(&b);
            const PipeTable *zb = built_in(&b, PIPE_ZB_V, p, 2, m);
            const PipeTable *dual = m < 2 * p ? NULL : built_in(&b, PIPE_DUALPIPE_V, p, 2, m);
            for (int r = 0; r < p; r++) {
                if (m >= 2 * p - 1)
                    holds(zb, r, 2 * p, 2 * p);
                assert_true(pipe_held(zb, r).to_weight <= 2 * least(p, m));
                if (dual)
                    holds(dual, r, 2 * p + 1, 2 * p + 1);
            }
            bench_close(&b);
        }
}

static void held_by_groups(void **state)
{
    (void)state;
    Bench b;
    bench_open(&b);
    const PipeTable *t = built_in(&b, PIPE_INTERLEAVED, 4, 2, 8);
    for (int r = 0; r < 4; r++)
        holds(t, r, 11 - 2 * r, 11 - 2 * r);
    PipeForm wide = {PIPE_INTERLEAVED, 4, 2, 8, 8, false};
    holds(pipe_make(b.arena, b.diag, &wide), 0, 15, 15);
    bench_close(&b);
}

/* With pairs every F from the last rank's first B on is beside a B of another microbatch, tables
 * are schedules that end, and rank r of 1f1b holds 2 (p - r) microbatches. */
static void pairs(void **state)
{
    (void)state;
    for (int p = 1; p <= 5; p++)
        for (int v = 1; v <= 3; v++)
            for (int m = 1; m <= 12; m++) {
                PipeForm f = {v > 1 ? PIPE_INTERLEAVED : PIPE_1F1B, p, v, m, 0, true};
                if (!pipe_legal(&f))
                    continue;
                Bench b;
                bench_open(&b);
                const PipeTable *t = pipe_make(b.arena, b.diag, &f);
                PipeProof proof;
                if (!pipe_complete(t, b.diag) ||
                    !pipe_prove(b.arena, pipe_lower(b.arena, t), b.diag, &proof))
                    fail_msg("%d ranks, %d chunks, %d microbatches: %s", p, v, m, bench_said(&b));
                for (int r = 0; r < p && v == 1; r++)
                    assert_int_equal(pipe_held(t, r).to_input, m < 2 * (p - r) ? m : 2 * (p - r));
                bench_close(&b);
            }
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* The numbers of microbatches below and above of which there is a schedule. */
static void nearest(PipeForm f, int below, int above)
{
    assert_false(pipe_legal(&f));
    assert_int_equal(pipe_legal_microbatches(&f, -1), below);
    assert_int_equal(pipe_legal_microbatches(&f, 1), above);
}

static void refuses(PipeForm f, const char *why, const char *help)
{
    Bench b;
    bench_open(&b);
    assert_null(pipe_make(b.arena, b.diag, &f));
    if (!strstr(bench_said(&b), why) || !strstr(bench_said(&b), help))
        fail_msg("instead of '%s', '%s': %s", why, help, bench_said(&b));
    bench_close(&b);
}

static void numbers(void **state)
{
    (void)state;
    refuses((PipeForm){PIPE_1F1B, 0, 1, 8, 0, false}, "a pipeline has 1 to 256 ranks, not 0", "");
    refuses((PipeForm){PIPE_1F1B, 257, 1, 8, 0, false}, "a pipeline has 1 to 256 ranks, not 257",
            "");
    refuses((PipeForm){PIPE_1F1B, 4, 1, 0, 0, false}, "1 to 65536 microbatches, not 0", "");
    refuses((PipeForm){PIPE_GPIPE, 4, 2, 8, 0, false}, "gpipe has one chunk a rank, not 2",
            "interleaved is the schedule with any number of chunks from 2 on");
    refuses((PipeForm){PIPE_INTERLEAVED, 4, 1, 8, 0, false}, "at least 2 chunks a rank, not 1",
            "1f1b");
    refuses((PipeForm){PIPE_INTERLEAVED, 4, 1025, 8, 0, false}, "1 to 1024 chunks a rank, not 1025",
            "");
    refuses((PipeForm){PIPE_ZB_H1, 4, 1, 8, 4, false}, "zb-h1 has no groups of microbatches", "");
    refuses((PipeForm){PIPE_ZB_H1, 4, 1, 8, 0, true}, "zb-h1 has no pairs", "");
    refuses((PipeForm){PIPE_ZB_H1, 256, 1, 1025, 0, false},
            "256 stages of 1025 microbatches are more than 262144 cells", "");
    nearest((PipeForm){PIPE_ZB_H1, 256, 1, 1025, 0, false}, 1024, 0);
    refuses((PipeForm){PIPE_ZB_V, 4, 1, 8, 0, false},
            "zb-v has 2 chunks a rank, there and back, not 1", "interleaved");
    refuses((PipeForm){PIPE_ZB_V, 4, 2, 8, 4, false}, "zb-v has no groups of microbatches", "");
    refuses((PipeForm){PIPE_DUALPIPE_V, 4, 3, 8, 0, false}, "dualpipe-v has 2 chunks a rank", "");
    refuses((PipeForm){PIPE_DUALPIPE_V, 4, 2, 7, 0, false},
            "dualpipe-v has at least as many microbatches as stages: 8 of 4 ranks, not 7", "");
    nearest((PipeForm){PIPE_DUALPIPE_V, 4, 2, 7, 0, false}, 0, 8);
    nearest((PipeForm){PIPE_DUALPIPE_V, 256, 2, 511, 0, false}, 0, 512);
    nearest((PipeForm){PIPE_ZB_V, 256, 2, 513, 0, false}, 512, 0);
}

static void interleaved_numbers(void **state)
{
    (void)state;
    const PipeForm ten = {PIPE_INTERLEAVED, 4, 2, 10, 0, false},
                   three = {PIPE_INTERLEAVED, 4, 2, 3, 0, false},
                   six = {PIPE_INTERLEAVED, 4, 2, 14, 6, false},
                   narrow = {PIPE_INTERLEAVED, 4, 2, 8, 3, false};
    refuses(ten, "in groups of 4, and of 10 the last group has 2: too few for 4 ranks", "");
    nearest(ten, 8, 12);
    refuses(three, "in groups of 4, and there are 3", "");
    nearest(three, 0, 4);
    refuses(six, "in groups of 6, and of 14 the last group has 2: too few for 4 ranks", "");
    nearest(six, 12, 16);
    refuses(narrow, "a group of 3 microbatches is less than one for each of 4 ranks", "");
    nearest(narrow, 0, 0);
    nearest((PipeForm){PIPE_INTERLEAVED, 2, 2048, 63, 0, false}, 62, 64);
    nearest((PipeForm){PIPE_INTERLEAVED, 4, 1024, 63, 0, false}, 60, 64);
    nearest((PipeForm){PIPE_INTERLEAVED, 3, 1024, 85, 0, false}, 84, 0);
    nearest((PipeForm){PIPE_INTERLEAVED, 4, 1024, 64, 65, false}, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(rows_of_a_v),
        cmocka_unit_test(groups),
        cmocka_unit_test(held),
        cmocka_unit_test(held_by_a_v),
        cmocka_unit_test(held_by_groups),
        cmocka_unit_test(pairs),
        cmocka_unit_test(numbers),
        cmocka_unit_test(interleaved_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
