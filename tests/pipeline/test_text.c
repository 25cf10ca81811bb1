/* Tables as text: what is read prints the same, and what is wrong is told with its place. */
#include "tests/pipeline/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void reads_as(const char *text, const char *same)
{
    Bench b;
    bench_open(&b);
    PipeTable *t = read_text(&b, text);
    if (!t)
        fail_msg("'%s': %s", text, bench_said(&b));
    assert_string_equal(printed(&b, t), same);
    assert_string_equal(bench_said(&b), "");
    bench_close(&b);
}

static void forms(void **state)
{
    (void)state;
    const char *plain = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
    reads_as(plain, plain);
    reads_as("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1", plain);
    /* As csv.writer does, a rank that waits being an empty cell. */
    reads_as("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n", plain);
    reads_as("# two ranks\n\n \t0F0\t0F1 , 0B0 0B1 # the first\n\n1F0,1B0,1F1,1B1\n\n", plain);
    reads_as("00F000,0B0\n", "0F0,0B0\n");
    reads_as("0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1B0,1SEND_B0",
             "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
}

/* A pair overlaps: what is printed is a pair again. */
static void pairs(void **state)
{
    (void)state;
    reads_as("0F0,3F0,0F1,(3F1;0B0)OVERLAP_F_B,3B0,3B1,0B1\n1F0,2F0,(1F1;2I0)OVERLAP_F_B\n",
             "0F0,3F0,0F1,(3F1;0B0)OVERLAP_F_B,3B0,3B1,0B1\n1F0,2F0,(1F1;2I0)OVERLAP_F_B\n");
    reads_as("(0F1;0BW0)OVERLAP_F_B,0B1\n", "(0F1;0B0)OVERLAP_F_B,0I1\n");
}

/* Two chunks a rank are a loop or a V: the rows say which. */
static void placements(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mg_placement placement;
    } of[] = {{"0F0,2F0\n1F0,3F0\n", MG_LOOP},
              {"0F0,3F0\n1F0,2F0\n", MG_V},
              {"0F0,3F0,2F0\n1F0,2F0\n", MG_V}, /* most of it */
              {"0F0,3F0,2F0\n1F0\n", MG_LOOP},
              {"0F0,1F0\n", MG_LOOP},
              {"0F0\n1F0\n", MG_LOOP},
              {"0F0,5F0\n1F0,4F0\n2F0,3F0\n", MG_V},
              {"0F0,4F0\n1F0,3F0\n2F0,5F0\n", MG_LOOP}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        Bench b;
        bench_open(&b);
        assert_int_equal(read_text(&b, of[i].text)->placement, of[i].placement);
        bench_close(&b);
    }
}

/* BW is the whole backward, and B then the gradient of the input. */
static void old_spelling(void **state)
{
    (void)state;
    reads_as("0F0,0F1,0BW0,0B1,0W1\n1F0,1BW0,1F1,1BW1\n", "0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1B1\n");
}

static void printed_is_read(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        Bench b;
        bench_open(&b);
        uint64_t seed = i;
        const PipeTable *t = i % 2 ? random_table(&b, &seed) : random_built_in(&b, &seed);
        char *text = printed(&b, t);
        const PipeTable *again = read_text(&b, text);
        assert_non_null(again);
        assert_string_equal(printed(&b, again), text);
        assert_int_equal(again->ranks, t->ranks);
        assert_int_equal(again->stages, t->stages);
        assert_int_equal(again->microbatches, t->microbatches);
        assert_int_equal(again->comms, t->comms);
        if (t->ranks > 1)
            assert_int_equal(again->placement, t->placement);
        bench_close(&b);
    }
}

/* ---- what is wrong -------------------------------------------------------------------------- */

static void says(const char *text, size_t size, const char *what)
{
    Bench b;
    bench_open(&b);
    uint32_t file = diag_add_file(b.diag, "t.csv", arena_strndup(b.arena, text, size), size);
    assert_null(pipe_read(b.arena, b.diag, file));
    if (!strstr(bench_said(&b), what))
        fail_msg("instead of '%s': %s", what, bench_said(&b));
    bench_close(&b);
}

static void wrong(const char *text, const char *what)
{
    says(text, strlen(text), what);
}

static void words(void **state)
{
    (void)state;
    wrong("0F0,0B0\n1F0,1X0\n", "t.csv:2:5: error[MG0582]: 'X' is no kind of action");
    wrong("0F0,0SEND_G0", "t.csv:1:5: error[MG0582]: 'SEND_G' is no kind of action");
    wrong("0F0,0SEND_G0", "help: did you mean SEND_F?");
    wrong("0F0 F0", "t.csv:1:5: error[MG0582]: 'F0' is no action");
    wrong("0F0 0B", "t.csv:1:5: error[MG0582]: '0B' is no action");
    wrong("0F0 0B0x", "t.csv:1:5: error[MG0582]: '0B0x' is no action");
    wrong("0F0 7", "t.csv:1:5: error[MG0582]: '7' is no action");
    wrong("0F0;0B0", "t.csv:1:1: error[MG0582]: '0F0;0B0' is no action");
    wrong("0UNSHARD,0F0", "'UNSHARD' is not for a table: parameters are gathered where the layout");
    wrong("0F0,0B0,0REDUCE_GRAD", "'REDUCE_GRAD' is not for a table: gradients are added up");
    wrong("(0F0;0B1)OVERLAP", "t.csv:1:1: error[MG0582]: '(0F0;0B1)OVERLAP' is no pair of actions");
    wrong("(0F0;0B0)OVERLAP_F_B", "is no pair of actions");
    wrong("(0B0;0F1)OVERLAP_F_B", "is no pair of actions");
    wrong("(0F0;0W1)OVERLAP_F_B", "is no pair of actions");
    wrong("(0F0;0F1)OVERLAP_F_B", "is no pair of actions");
    wrong("(0F0)OVERLAP_F_B", "is no pair of actions");
    wrong("(;)OVERLAP_F_B", "'' is no action");
    wrong(")OVERLAP_F_B", "is no action");
    wrong("(;", "'(;' is no pair of actions");
    wrong("0F0,(0F1;0Q0)OVERLAP_F_B", "t.csv:1:10: error[MG0582]: 'Q' is no kind of action");
    wrong("0F0,0BW0,0I1", "t.csv:1:10: error[MG0582]: '0I1' beside BW");
    says("0F0\0,0B0", 8, "t.csv:1:1: error[MG0582]: '0F0?' is no action");
    says("\x7f"
         "ELF\1\n\0\0",
         8, "t.csv:1:1: error[MG0582]: '?ELF?' is no action");
}

static void sizes(void **state)
{
    (void)state;
    wrong("4096F0", "t.csv:1:1: error[MG0583]: stage 4096 is too large: they are counted from "
                    "0 to 4095");
    wrong("0F99999999999999999999", "t.csv:1:3: error[MG0583]: microbatch 99999999999999999999 is "
                                    "too large: they are counted from 0 to 65535");
    wrong("4095F65535", "t.csv:1:1: error[MG0583]: 4096 stages of 65536 microbatches are more than "
                        "262144 cells");
    Bench b;
    bench_open(&b);
    char *many = NEW_ARRAY(b.arena, char, 4 * 257 + 1);
    for (int i = 0; i < 257; i++)
        memcpy(many + 4 * i, "0F0\n", 4);
    wrong(many, "t.csv:257:1: error[MG0583]: more than 256 rows");
    size_t n = 7 * 262144 + 1;
    char *long_row = NEW_ARRAY(b.arena, char, 4 * n + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(long_row + 4 * i, "0F0,", 4);
    wrong(long_row, "error[MG0583]: more than 1835008 actions");
    bench_close(&b);
}

static void shapes(void **state)
{
    (void)state;
    wrong("", "t.csv:1:1: error[MG0584]: there are no actions");
    wrong("# nothing\n\n  \n", "t.csv:1:1: error[MG0584]: there are no actions");
    wrong("0F0,0B0\n,,,\n1F0,1B0\n", "t.csv:2:1: error[MG0584]: rank 1 has no actions");
    wrong("0F0,0B0,2F0,2B0\n1F0,1B0\n", "2 rows, one a rank, and 3 stages");
    wrong("0F0,0B0,2F0,2B0\n1F0,1B0\n", "help: 2 stages, or 4");
    wrong("0F0,0B0\n1F0,1B0\n2F0\n1F1\n", "help: 4 stages, or 3 rows");
}

/* No more is told than anybody reads. */
static void enough(void **state)
{
    (void)state;
    Bench b;
    bench_open(&b);
    char *noise = NEW_ARRAY(b.arena, char, 4001);
    for (int i = 0; i < 2000; i++)
        memcpy(noise + 2 * i, "?,", 2);
    wrong(noise, "mgc: more than 20 errors: the rest is not shown");
    bench_close(&b);
}

/* ---- what rows show ------------------------------------------------------------------------- */

static void incomplete(const char *text, const char *what)
{
    Bench b;
    bench_open(&b);
    const PipeTable *t = read_text(&b, text);
    assert_non_null(t);
    assert_false(pipe_complete(t, b.diag));
    if (!strstr(bench_said(&b), what))
        fail_msg("instead of '%s': %s", what, bench_said(&b));
    bench_close(&b);
}

static void rows(void **state)
{
    (void)state;
    incomplete("0F0,0B0\n0F1,1B0\n", "t.csv:2:1: error[MG0585]: 0F1 is in the row of rank 1: of 2 "
                                     "ranks, stage 0 is on rank 0");
    /* Of two chunks a rank both placements are named. */
    incomplete("0F0,3F0,2F0\n1F0,2F0,1F0\n",
               "t.csv:1:9: error[MG0585]: 2F0 is in the row of rank 0: of 2 ranks, stage 2 is on "
               "rank 0 in a loop, on rank 1 in a V");
    incomplete("0F0,3F0,2F0\n1F0,2F0,1F0\n",
               "help: here belong stages 0 and 2 in a loop (stage s is on rank s mod 2), stages 0 "
               "and 3 in a V (stages s and 3 - s are on rank s)");
    incomplete("0F0,3F0\n1F0,2F0,0B0\n", "of 2 ranks, stage 0 is on rank 0\n");
    incomplete(
        "0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n",
        "t.csv:1:1: error[MG0586]: 0B1 is missing from the row of rank 0, and it is not there "
        "as I and W either");
    incomplete("0F0,0F1,0B0\n1F1,1B1\n", "t.csv:2:1: error[MG0586]: 1F0 and 1 more are missing");
    incomplete("0F0,0I0\n", "error[MG0586]: 0W0 is missing from the row of rank 0: I alone");
    incomplete("0F0,0W0\n", "error[MG0586]: 0I0 is missing from the row of rank 0: W alone");
    incomplete("0F0,0F0,0B0\n", "t.csv:1:5: error[MG0587]: 0F0 stands there twice");
    incomplete("0F0,0F0,0B0\n", "t.csv:1:1: note: 0F0 is here");
    incomplete("0F0,0B0,0W0\n", "t.csv:1:9: error[MG0587]: 0W0 is a part of the backward");
    incomplete("0F0,0I0,0W0,0B0\n", "t.csv:1:13: error[MG0587]: 0B0 is the whole backward");
    incomplete("0B0,0F0\n", "t.csv:1:1: error[MG0588]: 0B0 needs 0F0, which stands behind it");
    incomplete("0F0,0W0,0I0\n", "t.csv:1:5: error[MG0588]: 0W0 needs 0I0");
    incomplete("1F0,0F0,1B0,0B0\n", "t.csv:1:1: error[MG0588]: 1F0 needs 0F0");
    incomplete("0F0,1F0,0B0,1I0,1W0\n", "t.csv:1:9: error[MG0588]: 0B0 needs 1I0");
    /* In a V the last rank hands on to itself. */
    incomplete("0F0,3F0,3B0,0B0\n2F0,1F0,2B0,1B0\n",
               "t.csv:2:1: error[MG0588]: 2F0 needs 1F0, which stands behind it");
    incomplete("0F0,3F0,3B0,0B0\n1F0,2F0,1B0,2B0\n",
               "t.csv:2:9: error[MG0588]: 1B0 needs 2B0, which stands behind it");
}

static void sends(void **state)
{
    (void)state;
    incomplete("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
               "t.csv:2:1: error[MG0588]: 1F0 needs 1RECV_F0, which stands behind it");
    incomplete("0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
               "t.csv:1:1: error[MG0588]: 0SEND_F0 needs 0F0");
    incomplete("0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1I0,1W0\n",
               "t.csv:2:14: error[MG0588]: 1SEND_B0 needs 1I0");
    incomplete(
        "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        "t.csv:1:1: error[MG0589]: 0SEND_F0 is missing from the row of rank 0, and its other "
        "end waits for it");
    incomplete("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0\n",
               "t.csv:2:1: error[MG0589]: 1RECV_F0 and 1 more are missing from the row of rank 1");
    incomplete("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0\n",
               "t.csv:2:14: error[MG0589]: 1SEND_F0: there is no stage 2 of 2");
    incomplete("0F0,0SEND_F0,1F0,1B0,0B0\n",
               "error[MG0589]: 0SEND_F0: on one rank nothing is sent");
    incomplete("0F0,3F0,3B0,0B0\n1F0,1SEND_F0,2F0,2B0,1B0\n",
               "t.csv:2:5: error[MG0589]: 1SEND_F0: stages 1 and 2 are both on rank 1, and nothing "
               "is sent between them");
    incomplete("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
               "t.csv:1:14: error[MG0587]: 0SEND_F0 stands there twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),           cmocka_unit_test(pairs),
        cmocka_unit_test(placements),      cmocka_unit_test(old_spelling),
        cmocka_unit_test(printed_is_read), cmocka_unit_test(words),
        cmocka_unit_test(sizes),           cmocka_unit_test(shapes),
        cmocka_unit_test(enough),          cmocka_unit_test(rows),
        cmocka_unit_test(sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
