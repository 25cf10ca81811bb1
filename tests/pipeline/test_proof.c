/* The proof of a pipeline: what is a schedule passes, what is none is refused with the reason; and
 * over 10000 tables it says what a simulation says that shares no code with it. */
#include "tests/pipeline/simulate.h"
#include "tests/pipeline/tables.h"
#include "tests/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool passes(Bench *b, const PipeTable *t)
{
    PipeProof proof;
    return proved(b, t, &proof);
}

/* ---- those built in ------------------------------------------------------------------------- */

static void built_in_pass(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++)
        for (int m = 1; m <= 20; m++) {
            Bench b;
            bench_open(&b);
            for (int s = 0; s < PIPE_SCHEDULES; s++) {
                if (s != PIPE_INTERLEAVED) {
                    const int v = pipe_schedule_chunks((PipeSchedule)s);
                    if (s != PIPE_DUALPIPE_V || m >= 2 * ranks)
                        assert_true(passes(&b, built_in(&b, (PipeSchedule)s, ranks, v, m)));
                    continue;
                }
                for (int chunks = 2; chunks <= 4; chunks++)
                    for (int group = ranks; group <= m; group++) {
                        if (m % group && m % group < ranks)
                            continue;
                        PipeForm f = {PIPE_INTERLEAVED, ranks, chunks, m, group, false};
                        assert_true(passes(&b, pipe_make(b.arena, b.diag, &f)));
                    }
            }
            bench_close(&b);
        }
}

/* ---- deadlocks that are known by name ------------------------------------------------------- */

static void refused(const char *text, const char *why)
{
    Bench b;
    PipeProof proof;
    bench_open(&b);
    PipeTable *t = read_text(&b, text);
    assert_true(!t || !proved(&b, t, &proof));
    if (!strstr(bench_said(&b), why))
        fail_msg("instead of '%s': %s", why, bench_said(&b));
    bench_close(&b);
}

static void accepted(const char *text)
{
    Bench b;
    bench_open(&b);
    PipeTable *t = read_text(&b, text);
    if (!t || !passes(&b, t))
        fail_msg("%s", bench_said(&b));
    bench_close(&b);
}

static void crossed_sends(void **state)
{
    (void)state;
    /* Both send, and compute before they receive. */
    refused("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0RECV_B0,0B0,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\n"
            "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2\n",
            "t.csv:2:27: error[MG0590]: the pipeline stands still, with one queue a rank: ");
    refused("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0RECV_B0,0B0,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\n"
            "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2\n",
            "rank 1: 1W0 <- rank 1: 1SEND_B0 <- rank 0: 0RECV_B0 <- rank 0: 0F2 <- rank 0: "
            "0SEND_F1 <- rank 1: 1RECV_F1 <- rank 1: 1W0");
    /* Side by side they are one issue. */
    accepted("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
             "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}

static void reordered_receives(void **state)
{
    (void)state;
    /* Rank 1 waits for a gradient that needs what it has not taken yet. */
    refused("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1RECV_B1,1B0,1SEND_B0,1RECV_F1,1F1,1SEND_F1,1B1,1SEND_"
            "B1\n"
            "2RECV_F0,2F0,2B0,2SEND_B0,2RECV_F1,2F1,2B1,2SEND_B1\n",
            "error[MG0590]: the pipeline stands still, with a queue each for computing, sending "
            "and receiving: ");
    /* From one rank in another order than it sends. */
    refused("0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F1,1RECV_F0,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n",
            "message 1 from rank 0 to rank 1 is sent as 0SEND_F0, which is 1RECV_F0 there, and "
            "received as 1RECV_F1");
}

static void orders_that_wait(void **state)
{
    (void)state;
    refused("0F0 0B0 0F1 0B1\n1F1 1F0 1B0 1B1\n",
            "error[MG0590]: the pipeline stands still, however it sends and receives: rank ");
    refused("0F0 0B0 0F1 0B1\n1F1 1F0 1B0 1B1\n",
            "rank 1: 1B0 <- rank 1: 1F0 <- rank 1: 1F1 <- rank 1: 1RECV_F1 <- rank 0: 0SEND_F1 <- "
            "rank 0: 0F1 <- rank 0: 0B0 <- rank 0: 0RECV_B0 <- rank 1: 1SEND_B0 <- rank 1: 1B0");
}

/* An F that waits for the B beside it, by way of another rank. */
static void pairs_that_wait(void **state)
{
    (void)state;
    const char *others = "\n1F0,1F1,1B0,1B1\n";
    char text[100];
    snprintf(text, sizeof text, "0F0,(0F1;0B0)OVERLAP_F_B,0B1%s", others);
    refused(text, "error[MG0590]: the pipeline stands still, however it sends and receives: rank ");
    snprintf(text, sizeof text, "0F0,0F1,0B0,0B1%s", others);
    accepted(text);
    accepted("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n");
    /* Sent when both have ended: not between them, and not before. */
    accepted("0F0,0SEND_F0,0RECV_B0,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0RECV_B1,0B1\n"
             "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}

/* ---- against a simulation ------------------------------------------------------------------- */

typedef struct Tally {
    int accepted, refused, stuck;
} Tally;

static bool simulated_ways(const PipeTable *t)
{
    return simulate_single(t) && simulate_queues(t, false) && simulate_queues(t, true);
}

static bool simulated(Bench *b, const PipeTable *t, bool complete)
{
    if (t->comms)
        return simulated_ways(t);
    if (!complete)
        return simulate_data(t);
    const PipeTable *c = pipe_with_comms(b->arena, pipe_lower(b->arena, t));
    return simulate_data(t) && (!c->comms || simulated_ways(c));
}

static void compare(Bench *b, const PipeTable *t, uint64_t seed, Tally *n)
{
    PipeProof proof;
    bool complete = pipe_complete(t, b->diag);
    const PipeProgram *p = complete ? pipe_lower(b->arena, t) : NULL;
    bool good = complete && pipe_prove(b->arena, p, b->diag, &proof);
    if (simulated(b, t, complete) != good)
        fail_msg("table %llu: the proof says %s, the simulation not\n%s\n%s",
                 (unsigned long long)seed, good ? "yes" : "no", printed(b, t), bench_said(b));
    if (good && !simulate_program(p, seed))
        fail_msg("table %llu: what is lowered does not wait for what it needs\n%s",
                 (unsigned long long)seed, printed(b, t));
    n->accepted += good;
    n->refused += !good;
    n->stuck += complete && !good;
}

static void print_tally(const char *what, Tally n)
{
    print_message("%s: %d accepted, %d refused, %d of them complete\n", what, n.accepted, n.refused,
                  n.stuck);
}

/* Tables in an order that can run, with none to three mistakes; those built in likewise; and both
 * with messages that stand anywhere. */
static void random_tables(void **state)
{
    (void)state;
    Tally right = {0}, mistaken = {0}, placed = {0};
    int ran = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        if (!sampled(i, SANITIZED ? 4 : 1))
            continue;
        ran++;
        Bench b;
        bench_open(&b);
        uint64_t seed = i;
        PipeTable *t = i % 3 ? random_table(&b, &seed) : random_built_in(&b, &seed);
        int mistakes = any_of(&seed, 4), messages = any_of(&seed, 3);
        if (messages == 0 && !t->comms)
            t = pipe_with_comms(b.arena, pipe_lower(b.arena, t));
        else if (messages == 1 && !t->comms) {
            t = with_messages(&b, t, &seed);
            mistakes = -1;
        }
        for (int k = 0; k < mistakes; k++)
            t = with_mistake(&b, t, &seed);
        compare(&b, t, i, mistakes < 0 ? &placed : mistakes ? &mistaken : &right);
        bench_close(&b);
    }
    print_tally("no mistake", right);
    print_tally("one to three mistakes", mistaken);
    print_tally("messages anywhere", placed);
    /* Both verdicts are common, and so are tables in which nothing but who waits for whom is wrong.
     */
    assert_int_equal(right.refused, 0);
    assert_true(ran >= 2500 && right.accepted > ran / 10);
    assert_true(mistaken.accepted > ran / 20 && mistaken.refused > ran / 5);
    assert_true(mistaken.stuck > ran / 34 && placed.accepted > ran / 34 && placed.stuck > ran / 34);
    assert_int_equal(placed.stuck, placed.refused);
}

/* ---- size ----------------------------------------------------------------------------------- */

static void large(void **state)
{
    (void)state;
    Bench b;
    bench_open(&b);
    assert_true(passes(&b, built_in(&b, PIPE_INTERLEAVED, 16, 8, 512)));
    assert_true(passes(&b, built_in(&b, PIPE_ZB_H1, 256, 1, 1024)));
    assert_true(passes(&b, built_in(&b, PIPE_ZB_V, 256, 2, 512)));
    assert_true(passes(&b, built_in(&b, PIPE_DUALPIPE_V, 128, 2, 1024)));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_pass),
        cmocka_unit_test(crossed_sends),
        cmocka_unit_test(reordered_receives),
        cmocka_unit_test(orders_that_wait),
        cmocka_unit_test(pairs_that_wait),
        cmocka_unit_test(random_tables),
        cmocka_unit_test(large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
