/* follows.c - layouts of a model against one rank, in the interpreter and as a plan that plain
 * loops execute: follows F.mg LAYOUT... (tests/plan/sharded.h says how a layout is written). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/plan/sharded.h"

typedef struct Given {
    const char *model;
    char **layouts;
} Given;

static void each_follows(void **state)
{
    const Given *g = *state;
    const Small small = {g->model, 0, {"batch=4"}};
    Reference r;
    open_reference(&r, &small, 4);
    for (char **l = g->layouts; *l; l++)
        assert_true(layout_follows(&r, *l));
    model_close(&r.t);
}

int main(int argc, char **argv)
{
    Given g = {argc > 2 ? argv[1] : "", argv + 2};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(each_follows, &g)};
    return argc > 2 ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
