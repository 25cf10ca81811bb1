/* Fusion: a decision can be asked for, and an update is one kernel. Which instructions become one
 * is in tests/passes/text/fuse*.mgir; that no number changes is the business of test_physical. */
#include "passes/fuse/fuse.h"
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Why two instructions are not one kernel can be read. */
static void reasons(void **state)
{
    (void)state;
    Model t;
    char *text;
    size_t size;
    model_open(&t);
    Dim b = dim_of(&t, "b", 16), s = dim_of(&t, "s", 64), h = dim_of(&t, "h", 128);
    Value x = add_param(&t, "x", TYPE(DT_f32, b, s, h), 0),
          y = add_param(&t, "y", TYPE(DT_f32, b, s, h), 0),
          p = add_param(&t, "p", TYPE(DT_f32, s), 0);
    Value z = build2(&t.b, OP_mul, x, build1(&t.b, OP_exp, p));
    vec_push(t.a, &t.fn->body->results, build2(&t.b, OP_add, z, y));
    vec_push(t.a, &t.fn->results, (FnResult){.role = RES_logits});
    FILE *out = open_memstream(&text, &size);
    Arena *tmp = arena_new();
    fuse_module(t.m, tmp, out);
    fclose(out);
    assert_non_null(strstr(text, "apart: a value that costs something would be computed again"));
    assert_non_null(strstr(text, "): map\n"));
    free(text);
    arena_free(tmp);
    model_close(&t);
}

/* The update of a parameter reads and writes each tensor once, after the guard. */
static void optimizer(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Dim i = dim_of(&t, "i", 300), j = dim_of(&t, "j", 200);
    Value x = add_param(&t, "x", TYPE(DT_f32, i, j), 0), y = add_param(&t, "y", TYPE(DT_f32, j), 0);
    Value z = build1(&t.b, OP_tanh, build2(&t.b, OP_mul, x, y));
    add_loss(&t, build_cast(&t.b, sum_all(&t.b, z), DT_f64));
    PassRun *const passes[] = {pass_precision, pass_recompute, pass_differentiate, pass_microbatch,
                               pass_update,    pass_simplify,  pass_products,      pass_fuse};
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
        must_pass(&t, passes[k]);
    bool guarded = false;
    int updates = 0;
    for (size_t k = 0; k < t.fn->body->ins.n; k++) {
        const Ins *ins = t.fn->body->ins.data[k];
        guarded |= ins->op == OP_guard;
        for (size_t r = 0; r < t.fn->results.n; r++)
            if (t.fn->results.data[r].role == RES_update && ins->nout &&
                t.fn->body->results.data[r] == ins->out[0]) {
                assert_true(guarded);
                assert_int_equal(ins->nout, 3); /* parameter and both moments */
                updates++;
            }
    }
    assert_int_equal(updates, 2);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reasons), cmocka_unit_test(optimizer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
