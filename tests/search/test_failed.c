/* A layout on which mgc itself fails, or ends, is told of, and the search goes on; it never ends
 * the search, with one processor as with several. */
#include "search/search.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Ends the process with tp = 4 and tp = 8, and refuses all else. */
static Module *elaborate(void *ctx, const char *layout, Arena *a, Device *d, int *code)
{
    const pid_t *parent = ctx;
    (void)a, (void)d;
    assert_true(getpid() != *parent);
    if (strstr(layout, "tp = 8"))
        abort();
    if (strstr(layout, "tp = 4")) {
        fprintf(stderr, "mgc: internal error: no such thing\n");
        exit(70);
    }
    *code = 332;
    return NULL;
}

static void searched(void)
{
    Arena *a = arena_new();
    pid_t parent = getpid();
    const Device d = {.link_bandwidth = 1e9, .node_bandwidth = 1e8};
    const Basis b = {.rate = 1, .flops = 8, .seconds = 1, .budget = 1e9, .device = &d, .batch = 8};
    Space s = {.arena = a,
               .axis = {[ROLE_dp] = "dp", [ROLE_tp] = "tp"},
               .order = {ROLE_pp, ROLE_dp, ROLE_ep, ROLE_cp, ROLE_tp},
               .batch = "batch",
               .nbatch = 8,
               .node = 8};
    SpaceRule rule[2] = {{.dims = "batch"}, {.dims = "ffn"}};
    vec_push(a, &rule[0].axes, ((SpaceAxis){ROLE_dp, NULL}));
    vec_push(a, &rule[1].axes, ((SpaceAxis){ROLE_tp, NULL}));
    vec_push(a, &s.rules, rule[0]);
    vec_push(a, &s.rules, rule[1]);
    Search r = {.arena = a,
                .space = &s,
                .basis = &b,
                .elaborate = elaborate,
                .ctx = &parent,
                .ranks = 8,
                .exhaustive = true};
    search_run(&r);
    int failed = 0, refused = 0;
    for (size_t i = 0; i < r.all.n; i++) {
        const Candidate *c = &r.all.data[i];
        const int64_t tp = c->point.size[ROLE_tp];
        assert_int_equal(c->state, tp >= 4 ? CANDIDATE_failed : CANDIDATE_refused);
        if (tp == 4)
            assert_string_equal(c->why, "mgc: internal error: no such thing; exit code 70");
        else if (tp == 8)
            assert_non_null(strstr(c->why, "signal 6"));
        else
            assert_int_equal(c->code, 332);
        failed += tp >= 4;
        refused += tp < 4;
    }
    assert_true(failed > 4 && refused > 4);
    assert_int_equal(r.best, -1);
    assert_int_equal(r.count[CANDIDATE_failed], failed);
    char *told = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&told, &n);
    assert_non_null(out);
    search_failed(&r, out);
    fclose(out);
    assert_non_null(strstr(told, arena_printf(a, "mgc itself failed on %d layouts", failed)));
    assert_non_null(strstr(told, "layout failed {\n"));
    free(told);
    arena_free(a);
}

static void test_several(void **state)
{
    (void)state;
    searched();
}

static void test_one_processor(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int k = 0; k < CPU_SETSIZE && !CPU_COUNT(&one); k++)
        if (CPU_ISSET(k, &all))
            CPU_SET(k, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    searched();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_several),
                                       cmocka_unit_test(test_one_processor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
