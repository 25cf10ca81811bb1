/* test_lower.c - lowering of tables: sends right behind what makes them, receives where the rule
 * puts them, one issue between two that compute, waits before what needs them. */
#include "tests/pipeline/simulate.h"
#include "tests/pipeline/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void as_text(void **state)
{
    (void)state;
    Bench b;
    char *text;
    size_t size;
    bench_open(&b);
    FILE *f = open_memstream(&text, &size);
    pipe_print_program(pipe_lower(b.arena, built_in(&b, PIPE_1F1B, 3, 1, 3)), f);
    fclose(f);
    assert_string_equal(text, "rank 0, which sends from 2 buffers forward and 0 back\n"
                              "    0F0\n"
                              "    start 0SEND_F0\n"
                              "    0F1\n"
                              "    start 0SEND_F1\n"
                              "    wait 0SEND_F0\n"
                              "    0F2\n"
                              "    start 0SEND_F2 0RECV_B0\n"
                              "    wait 0RECV_B0\n"
                              "    0B0\n"
                              "    start 0RECV_B1\n"
                              "    wait 0RECV_B1\n"
                              "    0B1\n"
                              "    start 0RECV_B2\n"
                              "    wait 0RECV_B2\n"
                              "    0B2\n"
                              "    wait 0SEND_F1\n"
                              "    wait 0SEND_F2\n"
                              "rank 1, which sends from 2 buffers forward and 2 back\n"
                              "    start 1RECV_F0\n"
                              "    wait 1RECV_F0\n"
                              "    1F0\n"
                              "    start 1RECV_F1 1SEND_F0\n"
                              "    wait 1RECV_F1\n"
                              "    1F1\n"
                              "    start 1SEND_F1 1RECV_B0\n"
                              "    wait 1RECV_B0\n"
                              "    1B0\n"
                              "    start 1RECV_F2 1SEND_B0\n"
                              "    wait 1RECV_F2\n"
                              "    wait 1SEND_F0\n"
                              "    1F2\n"
                              "    start 1SEND_F2 1RECV_B1\n"
                              "    wait 1RECV_B1\n"
                              "    1B1\n"
                              "    start 1SEND_B1 1RECV_B2\n"
                              "    wait 1RECV_B2\n"
                              "    wait 1SEND_B0\n"
                              "    1B2\n"
                              "    start 1SEND_B2\n"
                              "    wait 1SEND_F1\n"
                              "    wait 1SEND_F2\n"
                              "    wait 1SEND_B1\n"
                              "    wait 1SEND_B2\n"
                              "rank 2, which sends from 0 buffers forward and 2 back\n"
                              "    start 2RECV_F0\n"
                              "    wait 2RECV_F0\n"
                              "    2F0\n"
                              "    2B0\n"
                              "    start 2RECV_F1 2SEND_B0\n"
                              "    wait 2RECV_F1\n"
                              "    2F1\n"
                              "    2B1\n"
                              "    start 2RECV_F2 2SEND_B1\n"
                              "    wait 2RECV_F2\n"
                              "    2F2\n"
                              "    wait 2SEND_B0\n"
                              "    2B2\n"
                              "    start 2SEND_B2\n"
                              "    wait 2SEND_B1\n"
                              "    wait 2SEND_B2\n");
    free(text);
    bench_close(&b);
}

/* ---- what the rule says --------------------------------------------------------------------- */

static bool same(PipeAction a, PipeAction b)
{
    return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch;
}

/* The row is there in its order; a send stands between what makes it and the next that computes;
 * what stands together has one number, up to the second message to a rank or from it. */
static void check_rank(const PipeProgram *p, int rank)
{
    const PipeRow *row = &p->table->row[rank];
    const PipeOps *ops = &p->rank[rank];
    size_t at = 0;
    int64_t issue = -1;
    bool more = false,
         met[2][PIPE_RANKS_MAX]; /* sent to that rank in this issue; received from it */
    for (size_t i = 0; i < ops->n; i++) {
        const PipeOp *op = &ops->data[i];
        if (op->step == PIPE_COMPUTE)
            assert_true(same(op->action, row->data[at++]));
        if (op->step == PIPE_WAIT) {
            assert_true(op->of < i && ops->data[op->of].step == PIPE_START);
            assert_true(same(ops->data[op->of].action, op->action));
        }
        if (op->step != PIPE_START) {
            more = false;
            continue;
        }
        bool *one =
            &met[pipe_sends(op->action.kind)][pipe_rank(p->table, pipe_peer(op->action).stage)];
        if (!more || *one) {
            memset(met, 0, sizeof met);
            issue++;
        }
        *one = more = true;
        assert_int_equal(op->issue, issue);
        PipeAction send;
        if (pipe_sends(op->action.kind))
            assert_true(at && pipe_send_of(p->table, row->data[at - 1], &send) &&
                        same(send, op->action));
    }
    assert_int_equal(at, row->n);
    assert_true(p->buffers[rank][0] <= 2 && p->buffers[rank][1] <= 2);
}

static size_t starts(const PipeProgram *p)
{
    size_t n = 0;
    for (int rank = 0; rank < p->table->ranks; rank++)
        for (size_t i = 0; i < p->rank[rank].n; i++)
            n += p->rank[rank].data[i].step == PIPE_START;
    return n;
}

static void random_tables(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        Bench b;
        bench_open(&b);
        uint64_t seed = i;
        const PipeTable *t = random_table(&b, &seed);
        const PipeProgram *p = pipe_lower(b.arena, t);
        int boundaries = t->ranks > 1 ? t->stages - 1 - (t->placement == MG_V) : 0;
        size_t crossings = (size_t)boundaries * (size_t)t->microbatches;
        assert_int_equal(starts(p), 4 * crossings);
        if (!t->comms)
            for (int rank = 0; rank < t->ranks; rank++)
                check_rank(p, rank);
        /* With its messages in it, it is lowered to the same. */
        const PipeTable *c = pipe_with_comms(b.arena, p);
        assert_true(pipe_complete(c, b.diag));
        const PipeProgram *again = pipe_lower(b.arena, c);
        for (int rank = 0; rank < t->ranks; rank++) {
            assert_int_equal(again->rank[rank].n, p->rank[rank].n);
            for (size_t k = 0; k < p->rank[rank].n; k++) {
                const PipeOp *x = &p->rank[rank].data[k], *y = &again->rank[rank].data[k];
                assert_true(x->step == y->step && same(x->action, y->action) &&
                            x->issue == y->issue && x->of == y->of);
            }
        }
        bench_close(&b);
    }
}

/* Receives right before what needs them, and neighbours together: interleaved stands still with one
 * queue a rank. So the rule is needed, and the simulation sees why. */
static void right_before(void **state)
{
    (void)state;
    Bench b;
    bench_open(&b);
    const PipeTable *t = built_in(&b, PIPE_INTERLEAVED, 4, 2, 8);
    PipeTable c = *t;
    c.comms = true;
    c.row = NEW_ARRAY(b.arena, PipeRow, t->ranks);
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++) {
            PipeAction a = t->row[rank].data[i], message;
            if (pipe_recv_of(t, a, &message))
                vec_push(b.arena, &c.row[rank], message);
            vec_push(b.arena, &c.row[rank], a);
            if (pipe_send_of(t, a, &message))
                vec_push(b.arena, &c.row[rank], message);
        }
    PipeProof proof;
    assert_false(simulate_single(&c));
    assert_true(simulate_queues(&c, false));
    assert_false(proved(&b, &c, &proof));
    assert_non_null(strstr(bench_said(&b), "stands still, with one queue a rank"));
    assert_true(simulate_single(pipe_with_comms(b.arena, pipe_lower(b.arena, t))));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_text),
        cmocka_unit_test(random_tables),
        cmocka_unit_test(right_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
