/* The memory of the proof: rows that are kept as one against bytes that are written one by one. */
#include "plan/check/check.h"
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 96 };

typedef struct Byte {
    Value value;
    int64_t element;
} Byte;

static int64_t below(uint64_t *rng, int64_t n)
{
    return n > 0 ? draw_int(rng, (int)n) : 0;
}

/* Writes n rows, drawn so that they often take turns with others, in both. */
static void write_drawn(Memory *m, Byte *want, Value value, uint64_t *rng)
{
    const int64_t period = below(rng, 4) ? 8 : 6, row = 1 + below(rng, period);
    const int64_t n = below(rng, 3) ? 5 : 1 + below(rng, 8);
    const int64_t lo = below(rng, BYTES - period * n);
    const Piece p = {.lo = lo, .hi = lo + row, .value = value, .first = below(rng, 9), .bytes = 1};
    const int64_t step = below(rng, 2) ? row : below(rng, 3); /* they go on, or repeat */
    if (n > 1)
        memory_write_rows(m, p, n, period, step);
    else
        memory_write(m, p);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < row; i++)
            want[lo + k * period + i] = (Byte){value, p.first + k * step + i};
}

/* Rows that are kept as one are what each of them would be. What is forgotten may be more than was
 * asked for, and nothing is there that was not written. */
static void rows_as_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t rng = seed;
        Arena *a = arena_new();
        Memory *m = memory_new(a);
        Byte want[BYTES] = {{0}};
        const bool forgets = seed % 2;
        for (Value v = 1; v <= 12; v++) {
            if (forgets && below(&rng, 4) == 0) {
                const int64_t lo = below(&rng, BYTES), hi = lo + below(&rng, BYTES - lo);
                memory_forget(m, lo, hi);
                memset(want + lo, 0, (size_t)(hi - lo) * sizeof *want);
            }
            write_drawn(m, want, v, &rng);
            for (int64_t at = 0; at < BYTES; at++) {
                Piece p = {0};
                const bool there = memory_at(m, at, &p);
                assert_true(there || forgets || !want[at].value);
                assert_true(!there || (p.value == want[at].value && p.lo <= at && at < p.hi &&
                                       p.first + at - p.lo == want[at].element));
            }
        }
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_as_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
