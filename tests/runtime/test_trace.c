/* test_trace.c - what is recorded for --trace: how much of it, of which phase, and in whose time.
 */
#include "tests/runtime/unit.h"

#include "runtime/log/trace.h"

static const mg_action actions[] = {
    {.name = "a \"b\"", .kind = "product", .where = "m.mg:1", .predicted_us = 5},
    {.name = "x", .kind = "send", .where = "m.mg:2", .predicted_us = 1}};
static const mg_program program = {.name = "p",
                                   .actions = actions,
                                   .nactions = 2,
                                   .step = {.predicted_ms = 0.1},
                                   .naxes = 1,
                                   .axes = {{"pp", 2}},
                                   .stages = {.axis = 1}};

/* A rank's record as the text of a trace; to be freed. */
static char *written(const rt_record *of, int64_t origin)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    rt_trace_rank(f, &program, 1, of, origin);
    fclose(f);
    return text;
}

/* The time of the n-th slice of the measured track, from 0. */
static double time_of(const char *text, int n)
{
    static const char mark[] = "\"tid\":0,\"ts\":";
    const char *at = text;
    for (int i = 0; i <= n; i++) {
        at = strstr(at, mark);
        assert_non_null(at);
        at += strlen(mark);
    }
    return strtod(at, NULL);
}

/* Rank 0's time T is T + ahead + T * rate on the other's clock; asked at 0 and 1 s with an error of
 * so much, which the answers have in full. */
static void check_clock(double rate, int64_t error, double within_us)
{
    const int64_t ahead = 5000000000;
    rt_event e[4];
    rt_record of = {.event = e, .n = 4};
    for (int i = 0; i < 2; i++) {
        int64_t at = i * (int64_t)1000000000;
        of.clock[i] =
            (rt_clock){at, ahead + (int64_t)((double)at * rate) + (i ? error : -error), error};
    }
    const double begins[] = {0.1e9, 0.2e9, 0.9e9};
    for (int i = 0; i < 3; i++) {
        double own = begins[i] + (double)ahead + begins[i] * rate;
        e[i] = (rt_event){.begin = (int64_t)own, .end = (int64_t)own + 1000, .step = 1};
    }
    e[3] = (rt_event){.begin = e[0].begin, .end = e[2].end, .step = 1, .action = RT_EVENT_STEP};
    char *text = written(&of, 50000000);
    const double want[] = {0.1e9, 0.1e9, 0.2e9, 0.9e9}; /* the step is the first */
    for (int i = 0; i < 4; i++)
        assert_true(fabs(time_of(text, i) - (want[i] - 50e6) / 1e3) <= within_us);
    free(text);
}

static void test_clocks(void **state)
{
    (void)state;
    check_clock(0, 0, 0.002);
    check_clock(0, 20000, 20);
    check_clock(1e-6, 2000, 3);   /* hidden by the error */
    check_clock(1e-4, 1000, 1.1); /* seen */
    check_clock(-1e-4, 1000, 1.1);
}

static void test_phases(void **state)
{
    (void)state;
    const mg_pipe_op ops[] = {
        {.step = MG_PIPE_RECV_F, .with = 1, .stage = 1, .microbatch = 7},
        {.step = MG_PIPE_SEND_B, .stage = 1, .microbatch = 6},
        {.step = MG_PIPE_WAIT, .of = MG_PIPE_RECV_F, .stage = 1, .microbatch = 7},
        {.step = MG_PIPE_F, .stage = 1, .microbatch = 7, .at = 40, .lasts = 8},
        {.step = MG_PIPE_END, .at = 60}};
    rt_trace *t = rt_trace_new(&program);
    int64_t began = rt_trace_now(t);
    for (int i = 0; i < 5; i++) {
        rt_trace_phase(t, &ops[i]);
        for (int k = 0;
             ops[i].step == MG_PIPE_RECV_F ? k < 2 : k < 1 && ops[i].step != MG_PIPE_SEND_B; k++) {
            rt_trace_begin(t, i < 3);
            rt_trace_end(t, i < 3);
        }
    }
    rt_trace_step(t, 3, began);
    const rt_record *of = rt_trace_record(t);
    char *text = written(of, 0);
    static const char *const in_order[] = {"step 3", "1RECV_F7",    "1SEND_B6",   "wait 1RECV_F7",
                                           "1F7",    "a \\\"b\\\"", "a \\\"b\\\""};
    const char *at = text;
    for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++) {
        char *name = rt_printf("\"name\":\"%s\"", in_order[i]);
        at = strstr(at, name);
        assert_non_null(at);
        at++;
        free(name);
    }
    /* Predicted: the phase at 40 us, its action with it, what follows the table at 60. */
    const double step = time_of(text, 0);
    static const double predicted[] = {0, 40, 40, 60};
    static const char mark[] = "\"tid\":1,\"ts\":";
    at = text;
    for (int i = 0; i < 4; i++) {
        at = strstr(at, mark);
        assert_non_null(at);
        at += strlen(mark);
        assert_true(fabs(strtod(at, NULL) - step - predicted[i]) < 0.01);
    }
    assert_null(strstr(at, mark));
    free(text);
    rt_trace_free(t);
}

/* However many steps are traced, a rank records so much and says what is missing; steps are all
 * there. */
static void test_bound(void **state)
{
    (void)state;
    enum { MANY = 700000 };
    rt_trace *t = rt_trace_new(&program);
    for (int step = 1; step <= 2; step++) {
        for (int i = 0; i < MANY; i++) {
            rt_trace_begin(t, 0);
            rt_trace_end(t, 0);
        }
        rt_trace_step(t, step, 0);
    }
    const rt_record *of = rt_trace_record(t);
    assert_true(of->n <= (1 << 19) + 2);
    assert_int_equal(of->n + of->left_out, 2 * MANY + 2);
    assert_int_equal(of->event[of->n - 1].step, 2);
    assert_int_equal(of->event[of->n - 2].step, 1);
    rt_trace_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clocks), cmocka_unit_test(test_phases),
                                       cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
