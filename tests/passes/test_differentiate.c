/* differentiate, seen as text: what a loop keeps and computes again, what is not computed at all.
 * That the gradients are right is the business of test_vjp and test_gradient. */
#include "tests/passes/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD(recompute)                                                                            \
    "mgir 1\nmodel \"\" source \"\"\nbatch b=2 seq s=2 vocab 7\n"                                  \
    "train adamw beta1 0.9 beta2 0.95 eps 1e-08 momentum 0.9 power 0 threshold 0 clip 1 peak 0 "   \
    "floor 0 "                                                                                     \
    "lr constant warmup 0 steps 0 last 0 linear compute f64\n"                                     \
    "layout \"\" device \"\" microbatch 2 recompute " recompute " assert_peak 0\n"                 \
    "tensor \"x\" f64[i=3] external \"x\" slot \"\" of 0 stacked 0 valid [3] order [0] merge [1] " \
    "init const 0 0 decay 0 rate 1\n"                                                              \
    "tensor \"w\" f64[l=4, i=3] external \"w\" slot \"\" of 1 stacked 1 valid [4, 3] order [1] "   \
    "merge [1] init const 0 0 decay 0 rate 1\n"                                                    \
    "fn @train {\nrole param \"x\"\nrole param \"w\"\narg %x: f64[i=3]\narg %w: f64[l=4, i=3]\n"

/* x = x + sin(x * w) in every layer */
#define LAYERS                                                                                     \
    "%r: f64[i=3] = repeat %x, %w {dim=l=4, carried=1, reverse=no} {\n"                            \
    "arg %a: f64[i=3]\narg %s: f64[i=3]\narg %n: i32[]\n"                                          \
    "%p: f64[i=3] = mul %a, %s\n%q: f64[i=3] = sin %p\n%o: f64[i=3] = add %a, %q\ngive %o\n}\n"    \
    "%t: f64[] = sum %r {over=[i=3]}\ngive %t\n"

static const Rewrite again = {
    "cheap values are computed again from what the loop carries", LAYERS,
    "%r: f64[i=3], %a.1: f64[l=4, i=3] = repeat %x, %w {dim=l=4, carried=1, reverse=no} {\n"
    "arg %a: f64[i=3]\narg %s: f64[i=3]\narg %n: i32[]\n"
    "%p: f64[i=3] = mul %a, %s\n%q: f64[i=3] = sin %p\n%o: f64[i=3] = add %a, %q\n"
    "give %o, %a\n}\n"
    "%t: f64[] = sum %r {over=[i=3]}\n"
    "%const: f64[] = const {value=1} backward\n"
    "%copy: f64[i=3] = copy %const backward\n"
    "%repeat: f64[i=3], %repeat.1: f64[l=4, i=3] = repeat %copy, %a.1, %w "
    "{dim=l=4, carried=1, reverse=yes} backward {\n"
    "arg %da: f64[i=3]\narg %a.2: f64[i=3]\narg %w.1: f64[i=3]\narg %n.1: i32[]\n"
    "%p.1: f64[i=3] = mul %a.2, %w.1 again\n%cos: f64[i=3] = cos %p.1 backward\n"
    "%mul: f64[i=3] = mul %da, %cos backward\n%mul.1: f64[i=3] = mul %mul, %w.1 backward\n"
    "%mul.2: f64[i=3] = mul %mul, %a.2 backward\n%add: f64[i=3] = add %da, %mul.1 backward\n"
    "give %add, %mul.2\n}\n"
    "give %t, %repeat, %repeat.1\n"};

static const Rewrite kept = {
    "recompute none: all that is read is kept", LAYERS,
    "%r: f64[i=3], %p.1: f64[l=4, i=3], %a.1: f64[l=4, i=3] = repeat %x, %w "
    "{dim=l=4, carried=1, reverse=no} {\n"
    "arg %a: f64[i=3]\narg %s: f64[i=3]\narg %n: i32[]\n"
    "%p: f64[i=3] = mul %a, %s\n%q: f64[i=3] = sin %p\n%o: f64[i=3] = add %a, %q\n"
    "give %o, %p, %a\n}\n"
    "%t: f64[] = sum %r {over=[i=3]}\n"
    "%const: f64[] = const {value=1} backward\n"
    "%copy: f64[i=3] = copy %const backward\n"
    "%repeat: f64[i=3], %repeat.1: f64[l=4, i=3] = repeat %copy, %p.1, %w, %a.1 "
    "{dim=l=4, carried=1, reverse=yes} backward {\n"
    "arg %da: f64[i=3]\narg %p.2: f64[i=3]\narg %w.1: f64[i=3]\narg %a.2: f64[i=3]\n"
    "arg %n.1: i32[]\n"
    "%cos: f64[i=3] = cos %p.2 backward\n"
    "%mul: f64[i=3] = mul %da, %cos backward\n%mul.1: f64[i=3] = mul %mul, %w.1 backward\n"
    "%mul.2: f64[i=3] = mul %mul, %a.2 backward\n%add: f64[i=3] = add %da, %mul.1 backward\n"
    "give %add, %mul.2\n}\n"
    "give %t, %repeat, %repeat.1\n"};

static void loops(void **state)
{
    (void)state;
    static PassRun *const passes[] = {pass_recompute, pass_differentiate, NULL};
    bool both = rewrites_to(&again, HEAD("auto"), "result loss\n", "arg %w", passes);
    both &= rewrites_to(&kept, HEAD("none"), "result loss\n", "arg %w", passes);
    assert_true(both);
}

/* A carried value that no parameter changes has no cotangent and keeps nothing. */
static void inactive(void **state)
{
    (void)state;
    static const Rewrite r = {
        "no cotangent where none is wanted",
        "%z: f64[] = const {value=0.5}\n"
        "%r: f64[i=3], %u: f64[] = repeat %x, %z, %w {dim=l=4, carried=2, reverse=no} {\n"
        "arg %a: f64[i=3]\narg %b: f64[]\narg %s: f64[i=3]\narg %n: i32[]\n"
        "%c: f64[] = exp %b\n%o: f64[i=3] = add %a, %s\ngive %o, %c\n}\n"
        "%t: f64[] = sum %r {over=[i=3]}\n%e: f64[] = add %t, %u\ngive %e\n",
        "%z: f64[] = const {value=0.5}\n"
        "%r: f64[i=3], %u: f64[] = repeat %x, %z, %w {dim=l=4, carried=2, reverse=no} {\n"
        "arg %a: f64[i=3]\narg %b: f64[]\narg %s: f64[i=3]\narg %n: i32[]\n"
        "%c: f64[] = exp %b\n%o: f64[i=3] = add %a, %s\ngive %o, %c\n}\n"
        "%t: f64[] = sum %r {over=[i=3]}\n%e: f64[] = add %t, %u\n"
        "%const: f64[] = const {value=1} backward\n%copy: f64[i=3] = copy %const backward\n"
        "%repeat: f64[i=3], %repeat.1: f64[l=4, i=3] = repeat %copy "
        "{dim=l=4, carried=1, reverse=yes} backward {\n"
        "arg %da: f64[i=3]\narg %n.1: i32[]\ngive %da, %da\n}\n"
        "give %e, %repeat, %repeat.1\n"};
    static PassRun *const passes[] = {pass_recompute, pass_differentiate, NULL};
    assert_true(rewrites_to(&r, HEAD("auto"), "result loss\n", "arg %w", passes));
}

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

static void refused(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Dim s = dim_of(&t, "seq", 3), h = dim_of(&t, "h", 1), d = dim_of(&t, "d", 2);
    Attrs a = {.along = s, .over = {1, {d}}, .scale = 1};
    Value q = add_param(&t, "q", TYPE(DT_f64, s, h, d), 0);
    Ins *i = build_ins(&t.b, OP_attention, &a, 3, (Value[]){q, q, q});
    add_loss(&t, sum_all(&t.b, i->out[1]));
    assert_int_equal(try_pass(&t, pass_differentiate), PASS_error);
    assert_non_null(
        strstr(model_messages(&t), "error[MG0521]: 'attention' cannot be differentiated"));
    model_close(&t);
}

/* A loop over values of 8 dims that the backward pass would need of every round. */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops), cmocka_unit_test(inactive),
                                       cmocka_unit_test(large_values), cmocka_unit_test(refused),
                                       cmocka_unit_test(too_many_dims)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
