/* A batch on its way: the rows that the program gets are those of the data, whether they are read
 * for this step or were read while the step before ran. */
#include "unit.h"

#include <unistd.h>

#include "runtime/data/batch.h"

enum { SEQ = 4, WINDOW = SEQ + 1, ROWS = 3, SIZE = 400, EVAL = 512 };

static const mg_program program = {.compute = MG_F32,
                                   .step = {.tokens = 0,
                                            .weights = -1,
                                            .documents = -1,
                                            .batch = ROWS,
                                            .rows = ROWS,
                                            .window = WINDOW},
                                   .eval = {.tokens = EVAL,
                                            .weights = -1,
                                            .documents = -1,
                                            .batch = ROWS,
                                            .rows = ROWS,
                                            .window = WINDOW}};

typedef struct Trial {
    mg_run r;
    _Alignas(64) char arena[1024];
    char *path;
} Trial;

static void fill_file(const Trial *t, int add)
{
    FILE *f = fopen(t->path, "r+");
    assert_non_null(f);
    for (int i = 0; i < SIZE; i++)
        fputc((i * 7 + add) % 251, f);
    assert_int_equal(fclose(f), 0);
}

static void start(Trial *t)
{
    char none[SIZE] = {0};
    const char *item[1];
    memset(t, 0, sizeof *t);
    item[0] = t->path = unit_file(none, SIZE);
    fill_file(t, 0);
    t->r.program = &program;
    t->r.arena = t->arena;
    t->r.lr.steps = 10;
    t->r.data = rt_data_open(&(rt_list){item, 1}, "data", SEQ, SEQ + 1, 256);
}

static void stop(Trial *t)
{
    for (int i = 0; i < RT_PROGRAMS; i++)
        rt_batch_free(t->r.batch[i]);
    rt_data_close(t->r.data);
    unlink(t->path);
    free(t->path);
}

/* Are the rows those of samples [first, first + n), of a file in which `add` was added? */
static bool has(const Trial *t, int64_t first, int64_t n, bool shuffled, int add)
{
    const int32_t *got = (const int32_t *)(t->arena + (shuffled ? 0 : EVAL));
    for (int64_t k = 0; k < ROWS; k++) {
        const int64_t index = first + (k < n ? k : n - 1);
        const rt_place p = shuffled ? rt_data_window(t->r.data, 0, index)
                                    : rt_data_window_in_order(t->r.data, index);
        for (int i = 0; i < WINDOW; i++)
            if (got[k * WINDOW + i] != ((p.first + i) * 7 + add) % 251)
                return false;
    }
    return true;
}

/* The sequence goes on where the step that runs ends. */
static void read_ahead(void **state)
{
    (void)state;
    Trial t;
    start(&t);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, 0, ROWS);
    assert_true(has(&t, 0, ROWS, true, 0));
    rt_batch_ahead(&t.r);
    fill_file(&t, 1);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, ROWS, ROWS);
    assert_true(has(&t, ROWS, ROWS, true, 0)); /* read before the file changed */
    rt_batch_fill(&t.r, RT_STEP, t.r.data, 2 * ROWS, ROWS);
    assert_true(has(&t, 2 * ROWS, ROWS, true, 1));
    stop(&t);
}

/* Rows that were read ahead are for one batch alone: the step that is run again reads anew. */
static void read_again(void **state)
{
    (void)state;
    Trial t;
    start(&t);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, 0, ROWS);
    rt_batch_ahead(&t.r);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, 0, ROWS);
    assert_true(has(&t, 0, ROWS, true, 0));
    fill_file(&t, 1);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, ROWS, ROWS);
    assert_true(has(&t, ROWS, ROWS, true, 1));
    stop(&t);
}

/* Behind the last step there is none to read for, and the other ranks read nothing. */
static void not_read(void **state)
{
    (void)state;
    for (int follower = 0; follower < 2; follower++) {
        Trial t;
        start(&t);
        rt_batch_fill(&t.r, RT_STEP, t.r.data, 0, ROWS);
        t.r.rank = follower;
        t.r.state.step = follower ? 0 : t.r.lr.steps - 1;
        rt_batch_ahead(&t.r);
        t.r.rank = 0;
        fill_file(&t, 1);
        rt_batch_fill(&t.r, RT_STEP, t.r.data, ROWS, ROWS);
        assert_true(has(&t, ROWS, ROWS, true, 1));
        stop(&t);
    }
}

/* Evaluation takes windows in order, and fills its last batch with copies; the step's batch stays.
 */
static void evaluation(void **state)
{
    (void)state;
    Trial t;
    start(&t);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, 0, ROWS);
    rt_batch_ahead(&t.r);
    rt_batch_fill(&t.r, RT_EVAL, t.r.data, 2, ROWS - 1);
    assert_true(has(&t, 2, ROWS - 1, false, 0));
    rt_batch_fill(&t.r, RT_EVAL, t.r.data, 2, ROWS);
    assert_true(has(&t, 2, ROWS, false, 0));
    fill_file(&t, 1);
    rt_batch_fill(&t.r, RT_STEP, t.r.data, ROWS, ROWS);
    assert_true(has(&t, ROWS, ROWS, true, 0));
    stop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(read_ahead), cmocka_unit_test(read_again),
                                       cmocka_unit_test(not_read), cmocka_unit_test(evaluation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
