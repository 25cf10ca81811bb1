/* Any bytes into the reader: random ones, words of the grammar in any order, and tables with bytes
 * changed. Nothing crashes or hangs, what is refused is told, and what is read and passes can be
 * lowered, proved, timed and printed. */
#include "tests/pipeline/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Tally {
    int refused, read, complete, proved;
} Tally;

static void time_it(Bench *b, const PipeTable *t, const PipeProof *proof)
{
    double *one = NEW_ARRAY(b->arena, double, t->stages);
    for (int s = 0; s < t->stages; s++)
        one[s] = 1;
    PipeCosts c = {.forward = one, .input = one, .weight = one, .send = 0.5, .hidden = 0.25};
    FILE *f = fopen("/dev/null", "w");
    double columns;
    assert_non_null(f);
    const PipeProgram *p = pipe_lower(b->arena, t);
    pipe_print_summary(p, proof, &c, f);
    pipe_print_program(p, f);
    pipe_print_grid(p, pipe_clock(b->arena, proof->graph[PIPE_BY_WAY], &c), t->stages % 2, f,
                    &columns);
    fclose(f);
}

static void feed(const char *bytes, size_t size, Tally *n)
{
    Bench b;
    bench_open(&b);
    const char *text = arena_strndup(b.arena, bytes, size);
    PipeTable *t = pipe_read(b.arena, b.diag, diag_add_file(b.diag, "t.csv", text, size));
    assert_true((t == NULL) == (diag_errors(b.diag) > 0));
    n->refused += !t;
    n->read += t != NULL;
    if (t) {
        PipeProof proof;
        char *once = printed(&b, t);
        PipeTable *again = read_text(&b, once);
        assert_non_null(again);
        assert_string_equal(printed(&b, again), once);
        bool complete = pipe_complete(t, b.diag);
        assert_true(complete == !diag_errors(b.diag));
        n->complete += complete;
        if (complete && proved(&b, t, &proof)) {
            n->proved++;
            time_it(&b, t, &proof);
        }
    }
    bench_close(&b);
}

static void random_bytes(void **state)
{
    (void)state;
    Tally n = {0};
    uint64_t seed = 1;
    for (int i = 0; i < 3000; i++) {
        char bytes[200];
        size_t size = (size_t)any_of(&seed, sizeof bytes);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (char)any(&seed);
        feed(bytes, size, &n);
    }
    assert_true(n.refused > 2500);
}

static void random_words(void **state)
{
    (void)state;
    static const char *const words[] = {
        "F",    "B", "I",     "W",       "BW", "SEND_F", "0",   "RECV_F", "SEND_B", "RECV_B",
        "1",    "0", "1",     ",",       " ",  "\n",     "0F0", "0B0",    "#",      "(",
        "\r\n", "2", "99999", "UNSHARD", ",,", "0F1",    "1F0", "1B0",    "-",      "\t"};
    Tally n = {0};
    uint64_t seed = 2;
    for (int i = 0; i < 20000; i++) {
        char text[200] = "";
        for (int k = any_of(&seed, 24); k > 0; k--) {
            strcat(text, words[any_of(&seed, sizeof words / sizeof *words)]);
            if (any_of(&seed, 3) == 0)
                strcat(text, ",");
        }
        feed(text, strlen(text), &n);
    }
    assert_true(n.refused > 1000 && n.read > 100);
}

static void changed_tables(void **state)
{
    (void)state;
    static const char letters[] = "0123456789FBIWSENDRCV_,,  \n\n#x";
    Tally n = {0};
    for (uint64_t i = 0; i < 4000; i++) {
        Bench b;
        bench_open(&b);
        uint64_t seed = i;
        PipeTable *t = any_of(&seed, 2) ? built_in(&b, PIPE_ZB_H1, 1 + any_of(&seed, 4), 1, 4)
                                        : random_table(&b, &seed);
        char *text = printed(&b, t);
        size_t size = strlen(text);
        for (int k = any_of(&seed, 3); k > 0; k--) {
            size_t at = (size_t)any_of(&seed, (int)size);
            if (any_of(&seed, 4) == 0)
                size = at; /* cut */
            else if (any_of(&seed, 8) == 0)
                text[at] = (char)any(&seed);
            else
                text[at] = letters[any_of(&seed, sizeof letters - 1)];
            if (!size)
                break;
        }
        feed(text, size, &n);
        bench_close(&b);
    }
    print_message("%d refused, %d read, %d complete, %d proved\n", n.refused, n.read, n.complete,
                  n.proved);
    assert_true(n.refused > 300 && n.read > n.complete + 300 && n.proved > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(random_words),
        cmocka_unit_test(changed_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
