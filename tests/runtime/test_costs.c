/* test_costs.c - the report, at the end of a run, of surprises: actions that took another time than
 * predicted. */
#include "unit.h"

enum { SLOW, RIGHT, QUICK, COMM, SMALL, ACTIONS };

static const mg_action actions[ACTIONS] = {
    [SLOW] = {.name = "slow", .kind = "kernel", .where = "m.mg:1", .predicted_us = 500},
    [RIGHT] = {.name = "right", .kind = "product", .where = "m.mg:2", .predicted_us = 3000},
    [QUICK] = {.name = "quick", .kind = "kernel", .where = "m.mg:3", .predicted_us = 60000},
    [COMM] = {.name = "wait", .kind = "communication", .where = "m.mg:4", .predicted_us = 1},
    [SMALL] = {.name = "small", .kind = "kernel", .where = "m.mg:5", .predicted_us = 0.001},
};
static const mg_program program = {.actions = actions, .nactions = ACTIONS};

/* The clock of the test: it moves where an action takes time. */
static int64_t now = 1000;

static void take(rt_costs *c, int action, int64_t us)
{
    rt_costs_begin(c, now);
    now += us * 1000;
    rt_costs_end(c, action, now);
}

static int run(rt_costs *c, int steps)
{
    static const int64_t us[ACTIONS] = {
        [SLOW] = 3000, [RIGHT] = 3000, [QUICK] = 3000, [COMM] = 2000};
    int measured = 0;
    for (int n = 0; n < steps; n++) {
        if (!rt_costs_step(c, now))
            continue;
        measured++;
        for (int a = 0; a < ACTIONS; a++)
            take(c, a, us[a]);
        rt_costs_stepped(c, now);
    }
    return measured;
}

/* By name and line, the longest first; neither waits nor what is nothing of a step. */
static void surprises(void **state)
{
    (void)state;
    rt_costs *c = rt_costs_new(&program);
    assert_null(rt_costs_text(NULL, &program));
    assert_null(rt_costs_text(c, &program));
    assert_int_equal(run(c, 2), 0); /* the first steps warm caches */
    assert_null(rt_costs_text(c, &program));
    assert_int_equal(run(c, 8), 8);
    char *text = rt_costs_text(c, &program);
    assert_non_null(text);
    assert_non_null(strstr(
        text,
        "surprise: slow (m.mg:1) takes 3.00 ms, 6 times the 0.500 ms predicted; 27% of a step"));
    assert_non_null(strstr(text, "surprise: quick (m.mg:3) takes "));
    assert_null(strstr(text, "right"));
    assert_null(strstr(text, "wait"));
    assert_null(strstr(text, "small"));
    free(text);
    assert_int_equal(run(c, 55), 1); /* then each 64th */
    rt_costs_free(c);
}

static void none(void **state)
{
    (void)state;
    rt_costs *c = rt_costs_new(&program);
    for (int n = 0; n < 6; n++)
        if (rt_costs_step(c, now)) {
            take(c, RIGHT, 3000);
            rt_costs_stepped(c, now);
        }
    assert_null(rt_costs_text(c, &program));
    rt_costs_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(surprises), cmocka_unit_test(none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
