/* differentiate: what is large is computed again, and what it refuses. That the gradients are right
 * is the business of test_vjp and test_gradient; what comes of each op, of
 * text/differentiate*.mgir.
 */
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- outside loops --------------------------------------------------------------------------- */

static int count_ops(const Region *r, Op op, bool backward)
{
    int n = 0;
    for (size_t k = 0; k < r->ins.n; k++)
        n += r->ins.data[k]->op == op && r->ins.data[k]->backward == backward;
    return n;
}

/* y = f(a . b) of 90000 elements, z = y * y: the backward part reads y; and a . b, if f's rule
 * does. */
static void large(Model *t, Op f, Recompute recompute, Tensor64 **out)
{
    model_open(t);
    Dim i = dim_of(t, "i", 300), j = dim_of(t, "j", 300), k = dim_of(t, "k", 2);
    t->m->layout.recompute = recompute;
    Value a = add_param(t, "a", TYPE(DT_f64, i, k), 0),
          b = add_param(t, "b", TYPE(DT_f64, k, j), 0);
    Value y = build1(&t->b, f, build_dot(&t->b, a, b, &(DimList){1, {k}}));
    add_loss(t, sum_all(&t->b, build2(&t->b, OP_mul, y, y)));
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    *out = run_fn(t, t->fn, inputs_for(t, t->fn, 1, -1, 1));
}

static void large_values(void **state)
{
    (void)state;
    static const struct {
        Op f;
        int again;                           /* how often f is computed in the backward part */
    } cases[] = {{OP_sin, 1}, {OP_tanh, 0}}; /* tanh's rule reads its result only */
    for (int c = 0; c < 2; c++) {
        Model t, u;
        Tensor64 *x, *y;
        large(&t, cases[c].f, RECOMPUTE_auto, &x);
        large(&u, cases[c].f, RECOMPUTE_none, &y);
        assert_int_equal(count_ops(t.fn->body, cases[c].f, true), cases[c].again);
        assert_int_equal(count_ops(u.fn->body, cases[c].f, true), 0);
        for (size_t r = 0; r < t.fn->results.n; r++)
            assert_true(difference(&x[r], &y[r]) == 0);
        model_close(&t);
        model_close(&u);
    }
}

/* ---- what is refused --------------------------------------------------------------------------
 */

/* A loop over values of 8 dims that the backward pass would need of every iteration. */
static void too_many_dims(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Dim dims[8], l = dim_of(&t, "l", 2);
    for (int k = 0; k < 8; k++)
        dims[k] = dim_of(&t, (char[2]){(char)('a' + k), 0}, 1);
    Value x = add_param(&t, "x", type_in(DT_f64, 8, dims), 0);
    Builder in = {.m = t.m, .region = region_new(t.m, t.fn->body)};
    Value arg = region_arg(t.m, in.region, *type_of(t.m, x), 0);
    region_arg(t.m, in.region, SCALAR(DT_i32), 0);
    vec_push(t.a, &in.region->results, build2(&in, OP_mul, arg, arg));
    Attrs a = {.dim = l, .carried = 1};
    Type type = *type_of(t.m, x);
    Ins *loop = build_typed(&t.b, OP_repeat, &a, 1, &x, 1, &type, in.region);
    add_loss(&t, sum_all(&t.b, loop->out[0]));
    assert_int_equal(ir_verify(t.m, stderr), 0);
    assert_int_equal(try_pass(&t, pass_differentiate), PASS_error);
    assert_non_null(strstr(model_messages(&t), "error[MG0520]"));
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_values),
                                       cmocka_unit_test(too_many_dims)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
