/* Every op with a derivative: the gradient that differentiate makes against differences of the
 * loss, in the interpreter. An op without a case fails the test. */
#include "tests/passes/model.h"

#include "ir/vjp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const DType F = DT_f64;

static Dim I(Model *t)
{
    return dim_of(t, "i", 4);
}
static Dim J(Model *t)
{
    return dim_of(t, "j", 3);
}
static Dim K(Model *t)
{
    return dim_of(t, "k", 2);
}

static Type like(Model *t, Value v)
{
    Type r = *type_of(t->m, v);
    r.dtype = F;
    r.indexes = 0;
    return r;
}

/* Differentiates sum of x * weights over all given values and compares. */
static void check(Model *t, const char *what, int n, const Value *x)
{
    Value loss = 0;
    for (int k = 0; k < n; k++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", k);
        Value part = weighed(t, x[k], add_param(t, name, like(t, x[k]), 0));
        loss = loss ? build2(&t->b, OP_add, loss, part) : part;
    }
    add_loss(t, loss);
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    double error = gradient_error(t, t->fn, inputs_for(t, t->fn, 1, 0.5, 1.5), 0, 1);
    if (error > 1e-6)
        ir_print(t->m, stderr);
    if (error > 1e-6)
        fail_msg("%s: gradient is off by %.1e", what, error);
}

/* The same with a loss that gives the value one and the same cotangent everywhere: it then has
 * fewer dims than the value. */
static void check_flat(Model *t, const char *what, Value x)
{
    Value s = build_cast(&t->b, sum_all(&t->b, x), F);
    add_loss(t, build2(&t->b, OP_mul, s, s));
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    double error = gradient_error(t, t->fn, inputs_for(t, t->fn, 2, 0.5, 1.5), 0, 1);
    if (error > 1e-6)
        fail_msg("%s with a flat cotangent: gradient is off by %.1e", what, error);
}

typedef Value CaseFn(Model *t); /* what is differentiated, of parameters it adds */

static void check_both(const char *what, CaseFn *f)
{
    Model t;
    model_open(&t);
    Value x = f(&t);
    check(&t, what, 1, &x);
    model_close(&t);
    model_open(&t);
    check_flat(&t, what, f(&t));
    model_close(&t);
}

/* ---- pointwise ------------------------------------------------------------------------------- */

static Value pointwise_case(Model *t, Op op, int variant)
{
    Dim i = I(t), j = J(t);
    Type shapes[2][3] = {{TYPE(F, i, j), TYPE(F, j), SCALAR(F)},
                         {TYPE(F, j), TYPE(F, j, i), TYPE(F, i)}};
    Value in[3];
    for (int k = 0; k < op_info[op].min; k++) {
        char name[2] = {(char)('a' + k), 0};
        in[k] = add_param(t, name, shapes[variant][k], 0);
    }
    if (op == OP_select)
        in[0] = build2(&t->b, OP_gt, in[0], build_const(&t->b, F, 1));
    if (op == OP_abs)
        in[0] = build2(&t->b, OP_sub, in[0], build_const(&t->b, F, 1));
    return build(&t->b, op, NULL, op_info[op].min, in);
}

static void pointwise(void **state)
{
    (void)state;
    for (Op op = OP_none + 1; op < OP_count; op++) {
        if (!op_is(op, POINTWISE))
            continue;
        VjpText text;
        Arena *a = arena_new();
        const char *wrong = vjp_read(op, op_info[op].vjp, &text, a);
        if (wrong)
            fail_msg("%s: %s", op_info[op].name, wrong);
        arena_free(a);
        if (op_is(op, CONDITION | INTEGER))
            continue; /* no derivative: select has the test that none is asked for */
        for (int variant = 0; variant < 2; variant++) {
            Model t;
            model_open(&t);
            Value x = pointwise_case(&t, op, variant);
            if (op == OP_select) /* so that the compared parameter has a gradient */
                x = build2(&t.b, OP_add, x, t.fn->body->args.data[0]);
            check(&t, op_info[op].name, 1, &x);
            model_close(&t);
        }
    }
}

static void wrong_texts(void **state)
{
    (void)state;
    static const char *const wrong[] = {"ga = mull g a", "ga = neg b",   "ga = neg g g",
                                        "ga neg g",      "ga = sum g",   "ga = neg",
                                        "t = neg u",     "ga = mul g 1x"};
    Arena *a = arena_new();
    VjpText text;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!vjp_read(OP_neg, wrong[i], &text, a))
            fail_msg("'%s' was read as a rule of neg", wrong[i]);
    assert_null(vjp_read(OP_neg, "t = mul g -2.5e1; ga = neg t", &text, a));
    assert_int_equal(text.text.lines, 2);
    assert_int_equal(text.gradient[0], 1);
    const OpTerm *number = &text.text.line[0].in[1];
    assert_true(number->kind == TERM_number && number->number == -25);
    arena_free(a);
}

/* ---- all others ------------------------------------------------------------------------------ */

static Value case_cast(Model *t)
{
    return build_cast(&t->b, add_param(t, "x", TYPE(DT_f32, I(t), J(t)), 0), F);
}

static Value case_rename(Model *t)
{
    Attrs a = {.dim = I(t), .to = dim_of(t, "i2", 4)};
    Value x = add_param(t, "x", TYPE(F, I(t), J(t)), 0);
    return build(&t->b, OP_rename, &a, 1, &x);
}

static Value case_pick(Model *t)
{
    Attrs a = {.dim = I(t), .at = 2};
    Value x = add_param(t, "x", TYPE(F, I(t), J(t)), 0);
    return build(&t->b, OP_pick, &a, 1, &x);
}

static Value case_window(Model *t)
{
    Attrs a = {.along = dim_of(t, "i", 2), .at = 1};
    Value x = add_param(t, "x", TYPE(F, J(t), I(t)), 0);
    return build(&t->b, OP_window, &a, 1, &x);
}

/* Cut from the outermost dim: the cotangent is joined with zeros. */
static Value case_outer_window(Model *t)
{
    Attrs a = {.along = dim_of(t, "i", 2), .at = 1};
    Value x = add_param(t, "x", TYPE(F, I(t), J(t)), 0);
    return build(&t->b, OP_window, &a, 1, &x);
}

static Value case_split(Model *t)
{
    Attrs a = {.dim = dim_of(t, "k", 3), .to = dim_of(t, "n", 2)};
    Value x = add_param(t, "x", TYPE(F, J(t), dim_of(t, "k", 6)), 0);
    return build(&t->b, OP_split, &a, 1, &x);
}

static Value case_merge(Model *t)
{
    Attrs a = {.dim = dim_of(t, "k", 3), .to = dim_of(t, "n", 2)};
    Value x = add_param(t, "x", TYPE(F, J(t), dim_of(t, "n", 2), dim_of(t, "k", 3)), 0);
    return build(&t->b, OP_merge, &a, 1, &x);
}

static Value case_join(Model *t)
{
    Attrs a = {.dim = dim_of(t, "i", 5)};
    Value in[] = {add_param(t, "x", TYPE(F, dim_of(t, "i", 2), J(t)), 0),
                  add_param(t, "y", TYPE(F, dim_of(t, "i", 3), J(t)), 0)};
    return build(&t->b, OP_join, &a, 2, in);
}

/* Along an inner dim, of parts in another order of dims; and of parts that lack the dim. */
static Value case_inner_join(Model *t)
{
    Attrs a = {.dim = dim_of(t, "i", 5)};
    Value in[] = {add_param(t, "x", TYPE(F, J(t), dim_of(t, "i", 2)), 0),
                  add_param(t, "y", TYPE(F, dim_of(t, "i", 3), J(t)), 0)};
    return build(&t->b, OP_join, &a, 2, in);
}

static Value case_join_of_picks(Model *t)
{
    Attrs a = {.dim = dim_of(t, "n", 2)};
    Value in[] = {add_param(t, "x", TYPE(F, I(t), J(t)), 0),
                  add_param(t, "y", TYPE(F, J(t), I(t)), 0)};
    return build(&t->b, OP_join, &a, 2, in);
}

/* A stride of 2 and a tap, some of it outside; with its own dim and every second place; a diagonal.
 */
static Value case_reindex(Model *t)
{
    const Dim tap = dim_of(t, "tap", 2), n = dim_of(t, "n", 3);
    Attrs a = {.dim = I(t), .at = -1, .every = 1, .over = {2, {n, tap}}, .factors = {2, {2, -1}}};
    Value x = add_param(t, "x", TYPE(F, J(t), I(t)), 0);
    return build(&t->b, OP_reindex, &a, 1, &x);
}

static Value case_reindex_apart(Model *t)
{
    Attrs a = {.dim = I(t), .at = 1, .every = 2, .over = {2, {J(t), I(t)}}, .factors = {2, {1, 3}}};
    Value x = add_param(t, "x", TYPE(F, J(t), I(t)), 0);
    return build(&t->b, OP_reindex, &a, 1, &x);
}

static Value case_diagonal(Model *t)
{
    Attrs a = {.dim = I(t), .at = 1, .every = 1, .over = {1, {J(t)}}, .factors = {1, {-1}}};
    Value x = add_param(t, "x", TYPE(F, J(t), K(t), I(t)), 0);
    return build(&t->b, OP_reindex, &a, 1, &x);
}

static Value case_rotate(Model *t)
{
    Attrs a = {.dim = I(t)};
    Value x = add_param(t, "x", TYPE(F, J(t), I(t)), 0);
    return build(&t->b, OP_rotate, &a, 1, &x);
}

static Value case_sum(Model *t)
{
    DimList over = {1, {J(t)}};
    return build_sum(&t->b, add_param(t, "x", TYPE(F, I(t), J(t), K(t)), 0), &over);
}

static Value case_rmax(Model *t)
{
    Attrs a = {.over = {2, {I(t), K(t)}}};
    Value x = add_param(t, "x", TYPE(F, I(t), J(t), K(t)), 0);
    return build(&t->b, OP_rmax, &a, 1, &x);
}

static Value case_dot(Model *t)
{
    Dim n = dim_of(t, "n", 2);
    Attrs a = {.over = {1, {J(t)}}};
    Value in[] = {add_param(t, "x", TYPE(F, K(t), I(t), J(t)), 0),
                  add_param(t, "y", TYPE(F, n, J(t), K(t)), 0),
                  add_param(t, "z", TYPE(F, K(t), I(t), n), 0)};
    return build(&t->b, OP_dot, &a, 3, in);
}

/* Indices that the interpreter computes: 2 i mod 3, with repetitions. */
static Value index_of(Model *t, Dim d, int n)
{
    Value i = build_iota(&t->b, DT_i32, d), two = build_const(&t->b, DT_i32, 2);
    return build2(&t->b, OP_min, build2(&t->b, OP_mul, i, two), build_const(&t->b, DT_i32, n - 1));
}

static Value case_gather(Model *t)
{
    Attrs a = {.dim = J(t)};
    Value in[] = {add_param(t, "table", TYPE(F, K(t), J(t)), 0), index_of(t, I(t), 3)};
    return build(&t->b, OP_gather, &a, 2, in);
}

/* Both have i, and j is the index's own, too. */
static Value case_gather_each(Model *t)
{
    Attrs a = {.dim = J(t)};
    Value at = build2(&t->b, OP_add, index_of(t, J(t), 4), index_of(t, I(t), 3));
    Value in[] = {add_param(t, "table", TYPE(F, K(t), J(t), I(t)), 0),
                  build2(&t->b, OP_min, at, build_const(&t->b, DT_i32, 2))};
    return build(&t->b, OP_gather, &a, 2, in);
}

static Value case_scatter_each(Model *t)
{
    Attrs a = {.dim = J(t), .over = {1, {I(t)}}};
    Value at = build2(&t->b, OP_add, index_of(t, K(t), 2), index_of(t, I(t), 3));
    Value in[] = {add_param(t, "g", TYPE(F, I(t), K(t)), 0),
                  build2(&t->b, OP_min, at, build_const(&t->b, DT_i32, 2))};
    return build(&t->b, OP_scatter_add, &a, 2, in);
}

static Value case_scatter_add(Model *t)
{
    Attrs a = {.dim = J(t), .over = {1, {I(t)}}};
    Value in[] = {add_param(t, "g", TYPE(F, I(t), K(t)), 0), index_of(t, I(t), 3),
                  add_param(t, "c", TYPE(F, J(t), K(t)), 0)};
    return build(&t->b, OP_scatter_add, &a, 3, in);
}

/* Each of 3 positions in 2 groups makes 2 choices of 3 experts, who have 2 slots for each group. */
static const Attrs *routed(Model *t, Value in[2])
{
    Attrs *a = NEW(t->a, Attrs);
    Dim s = dim_of(t, "seq", 3), k = dim_of(t, "best", 2), g = dim_of(t, "group", 2);
    *a = (Attrs){
        .along = s, .over = {1, {k}}, .dim = dim_of(t, "experts", 3), .to = dim_of(t, "slot", 2)};
    Value sum =
        build2(&t->b, OP_add, build_iota(&t->b, DT_i32, g),
               build2(&t->b, OP_add, build_iota(&t->b, DT_i32, s), build_iota(&t->b, DT_i32, k)));
    in[0] = build2(&t->b, OP_min, sum, build_const(&t->b, DT_i32, 2));
    in[1] = build(&t->b, OP_slots, a, 1, in);
    return a;
}

static Value case_dispatch(Model *t)
{
    Value in[4] = {add_param(t, "x", TYPE(F, K(t), dim_of(t, "seq", 3), dim_of(t, "group", 2)), 0)};
    const Attrs *a = routed(t, in + 1);
    in[3] = add_param(t, "w", TYPE(F, a->along, dim_of(t, "group", 2), a->over.dim[0]), 0);
    return build(&t->b, OP_dispatch, a, 4, in);
}

static Value add_slots(Model *t)
{
    return add_param(
        t, "z", TYPE(F, dim_of(t, "slot", 2), K(t), dim_of(t, "group", 2), dim_of(t, "experts", 3)),
        0);
}

static Value case_combine(Model *t)
{
    Value in[4] = {add_slots(t)};
    const Attrs *a = routed(t, in + 1);
    in[3] = add_param(t, "w", TYPE(F, dim_of(t, "group", 2), a->along, a->over.dim[0]), 0);
    return build(&t->b, OP_combine, a, 4, in);
}

static Value case_combine_weight(Model *t)
{
    Value in[4] = {add_slots(t),
                   add_param(t, "y", TYPE(F, dim_of(t, "seq", 3), K(t), dim_of(t, "group", 2)), 0)};
    const Attrs *a = routed(t, in + 2);
    return build(&t->b, OP_combine_weight, a, 4, in);
}

/* The same with sorted rows: a row for each of the 6 choices of a group. */
static const Attrs *sorted(Model *t, Value in[2])
{
    Attrs *a = NEW(t->a, Attrs);
    *a = *routed(t, in);
    a->to = dim_of(t, "rows", 6);
    a->sorted = true;
    in[1] = build(&t->b, OP_slots, a, 1, in);
    return a;
}

static Value case_sorted(Model *t)
{
    Value in[4] = {add_param(t, "x", TYPE(F, K(t), dim_of(t, "seq", 3), dim_of(t, "group", 2)), 0)};
    const Attrs *a = sorted(t, in + 1);
    in[3] = add_param(t, "w", TYPE(F, a->along, dim_of(t, "group", 2), a->over.dim[0]), 0);
    in[0] = build(&t->b, OP_dispatch, a, 4, in);
    in[3] = add_param(t, "v", TYPE(F, dim_of(t, "group", 2), a->along, a->over.dim[0]), 0);
    return build(&t->b, OP_combine, a, 4, in);
}

static Attrs grouped_attrs(Model *t, Value *ends)
{
    Value in[2];
    Attrs of_ends = *sorted(t, in);
    *ends = build(&t->b, OP_ends, &of_ends, 1, in);
    return (Attrs){
        .over = {1, {K(t)}}, .along = of_ends.to, .dim = dim_of(t, "matrix", 3), .to = of_ends.dim};
}

static Value case_grouped(Model *t)
{
    Value in[3] = {add_param(t, "z", TYPE(F, dim_of(t, "rows", 6), dim_of(t, "group", 2), K(t)), 0),
                   add_param(t, "w", TYPE(F, I(t), dim_of(t, "matrix", 3), K(t)), 0)};
    const Attrs a = grouped_attrs(t, &in[2]);
    return build(&t->b, OP_grouped, &a, 3, in);
}

static Value case_grouped_weight(Model *t)
{
    Value in[4] = {
        add_param(t, "z", TYPE(F, dim_of(t, "group", 2), dim_of(t, "rows", 6), K(t)), 0),
        add_param(t, "y", TYPE(F, I(t), dim_of(t, "rows", 6), dim_of(t, "group", 2)), 0)};
    Attrs a = grouped_attrs(t, &in[2]);
    a.over.n = 0;
    in[3] = add_param(t, "c", TYPE(F, K(t), I(t), dim_of(t, "matrix", 3)), 0);
    return build(&t->b, OP_grouped_weight, &a, 4, in);
}

static const Attrs *attention_attrs(Model *t, bool causal)
{
    Attrs *a = NEW(t->a, Attrs);
    *a = (Attrs){.along = dim_of(t, "seq", 3), .over = {1, {I(t)}}, .causal = causal, .scale = 0.7};
    return a;
}

static Value case_attention(Model *t)
{
    Dim s = dim_of(t, "seq", 3), b = dim_of(t, "batch", 2), g = dim_of(t, "group", 2);
    Value in[] = {add_param(t, "q", TYPE(F, b, s, K(t), g, I(t)), 0),
                  add_param(t, "k", TYPE(F, b, s, K(t), I(t)), 0),
                  add_param(t, "v", TYPE(F, b, s, K(t), I(t)), 0)};
    return build(&t->b, OP_attention, attention_attrs(t, true), 3, in);
}

/* Values with a head of their own, a window of 2 keys, capped scores; position 2 begins a document.
 */
static Value case_masked_attention(Model *t)
{
    Dim s = dim_of(t, "seq", 3), b = dim_of(t, "batch", 2), g = dim_of(t, "group", 2);
    Attrs a = *attention_attrs(t, true);
    a.window = 2;
    a.cap = 0.5;
    a.within = true;
    Value two = build_const(&t->b, DT_i32, 2), none = build_const(&t->b, DT_i32, 0);
    Value begins = build2(&t->b, OP_ge, build_iota(&t->b, DT_i32, s), two);
    Value in[] = {add_param(t, "q", TYPE(F, b, s, K(t), g, I(t)), 0),
                  add_param(t, "k", TYPE(F, b, s, K(t), I(t)), 0),
                  add_param(t, "v", TYPE(F, b, s, K(t), dim_of(t, "value", 5)), 0),
                  build(&t->b, OP_select, NULL, 3, (Value[]){begins, two, none})};
    return build(&t->b, OP_attention, &a, 4, in);
}

/* A bias of each group that all batches share, beside a sink, under a causal mask and a cap. */
static Value case_biased_attention(Model *t)
{
    Dim s = dim_of(t, "seq", 3), b = dim_of(t, "batch", 2), g = dim_of(t, "group", 2);
    Dim key = dim_of(t, "key", 3);
    Attrs a = *attention_attrs(t, true);
    a.cap = 0.5;
    a.keys = key;
    a.sunk = a.biased = true;
    Value in[] = {add_param(t, "q", TYPE(F, b, s, K(t), g, I(t)), 0),
                  add_param(t, "k", TYPE(F, b, key, K(t), I(t)), 0),
                  add_param(t, "v", TYPE(F, b, key, K(t), I(t)), 0),
                  add_param(t, "sink", TYPE(F, g), 0), add_param(t, "bias", TYPE(F, key, g, s), 0)};
    return build(&t->b, OP_attention, &a, 5, in);
}

static Value case_cross_entropy(Model *t)
{
    Attrs a = {.over = {1, {J(t)}}, .valid = 2};
    Value in[] = {add_param(t, "z", TYPE(F, K(t), I(t), J(t)), 0),
                  build_as(&t->b, index_of(t, I(t), 2), TYPE(DT_i32, K(t), I(t)))};
    return build(&t->b, OP_cross_entropy, &a, 2, in);
}

static Value case_head_loss(Model *t)
{
    Attrs a = {.over = {1, {K(t)}}, .dim = J(t), .valid = 3};
    Value in[] = {add_param(t, "x", TYPE(F, I(t), K(t)), 0),
                  add_param(t, "w", TYPE(F, J(t), K(t)), 0), index_of(t, I(t), 3)};
    return build(&t->b, OP_head_loss, &a, 3, in);
}

static CaseFn *const cases[OP_count] = {
    [OP_cast] = case_cast,
    [OP_rename] = case_rename,
    [OP_pick] = case_pick,
    [OP_window] = case_window,
    [OP_reindex] = case_reindex,
    [OP_rotate] = case_rotate,
    [OP_sum] = case_sum,
    [OP_rmax] = case_rmax,
    [OP_dot] = case_dot,
    [OP_gather] = case_gather,
    [OP_scatter_add] = case_scatter_add,
    [OP_attention] = case_attention,
    [OP_cross_entropy] = case_cross_entropy,
    [OP_head_loss] = case_head_loss,
    [OP_split] = case_split,
    [OP_merge] = case_merge,
    [OP_join] = case_join,
    [OP_dispatch] = case_dispatch,
    [OP_combine] = case_combine,
    [OP_combine_weight] = case_combine_weight,
    [OP_grouped] = case_grouped,
    [OP_grouped_weight] = case_grouped_weight,
};

/* Operations without a case: made after differentiation, without an operand, or loops
 * (test_gradient). */
static bool no_case(Op op)
{
    return op == OP_const || op == OP_fused || op == OP_repeat || op == OP_head ||
           op == OP_head_frozen || (op_is_product(op) && op != OP_dot) || op == OP_conv ||
           op == OP_attention_grad || op == OP_attention_bias_grad || op == OP_cross_entropy_grad ||
           op_is(op, INTEGER | EFFECT);
}

static void others(void **state)
{
    (void)state;
    for (Op op = OP_none + 1; op < OP_count; op++) {
        if (op_is(op, POINTWISE) || no_case(op))
            continue;
        if (!cases[op])
            fail_msg("%s has a derivative and no test", op_info[op].name);
        check_both(op_info[op].name, cases[op]);
    }
    check_both("attention with all parts", case_masked_attention);
    check_both("attention with a bias", case_biased_attention);
    check_both("window of the outermost dim", case_outer_window);
    check_both("join along an inner dim", case_inner_join);
    check_both("join of parts without the dim", case_join_of_picks);
    check_both("reindex by its own dim, apart", case_reindex_apart);
    check_both("reindex along a diagonal", case_diagonal);
    check_both("gather of a table each", case_gather_each);
    check_both("scatter_add into a table each", case_scatter_each);
    check_both("sorted rows, there and back", case_sorted);
}

/* Ties share: 2 of 3 equal elements get half each. */
static void ties(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Attrs a = {.over = {1, {J(&t)}}};
    Value x = add_param(&t, "x", TYPE(F, J(&t)), 0);
    add_loss(&t, build(&t.b, OP_rmax, &a, 1, &x));
    must_pass(&t, pass_recompute);
    must_pass(&t, pass_differentiate);
    Tensor64 in = {TYPE(F, J(&t)), (double[]){2, 1, 2}};
    Tensor64 *out = run_fn(&t, t.fn, &in);
    assert_true(out[1].data[0] == 0.5 && out[1].data[1] == 0 && out[1].data[2] == 0.5);
    model_close(&t);
}

/* The slope at a kink is that of PyTorch (2.15, float64): abs, maximum, minimum, pow, sqrt of these
 * numbers, backward from a sum. */
static void kinks(void **state)
{
    (void)state;
    static const struct {
        Op op;
        double a, b, ga, gb;
    } cases_at[] = {
        {OP_abs, 0, 0, 0, 0},
        {OP_abs, -0.0, 0, 0, 0},
        {OP_abs, -3, 0, -1, 0},
        {OP_sign, 0, 0, 0, 0},
        {OP_sign, -3, 0, 0, 0},
        {OP_max, 2, 2, 0.5, 0.5},
        {OP_max, 0, 0, 0.5, 0.5},
        {OP_max, 1, 2, 0, 1},
        {OP_min, 2, 2, 0.5, 0.5},
        {OP_min, 1, 2, 1, 0},
        {OP_pow, 0, 0, 0, 0},
        {OP_pow, 0, 1, 1, 0},
        {OP_pow, 0, 2, 0, 0},
        {OP_pow, 0, 0.5, INFINITY, 0},
        {OP_pow, 3, 0, 0, 1.0986122886681098},
        {OP_pow, 0, -1, -INFINITY, -INFINITY},
        {OP_sqrt, 0, 0, INFINITY, 0},
    };
    for (size_t k = 0; k < sizeof cases_at / sizeof *cases_at; k++) {
        Model t;
        model_open(&t);
        const int n = op_info[cases_at[k].op].min;
        Value in[2] = {add_param(&t, "a", SCALAR(F), 0),
                       n > 1 ? add_param(&t, "b", SCALAR(F), 0) : 0};
        add_loss(&t, build(&t.b, cases_at[k].op, NULL, (uint32_t)n, in));
        must_pass(&t, pass_recompute);
        must_pass(&t, pass_differentiate);
        Tensor64 at[2] = {{SCALAR(F), (double[]){cases_at[k].a}},
                          {SCALAR(F), (double[]){cases_at[k].b}}};
        Tensor64 *out = run_fn(&t, t.fn, at);
        const double want[2] = {cases_at[k].ga, cases_at[k].gb};
        for (int i = 0; i < n; i++)
            if (out[1 + i].data[0] != want[i])
                fail_msg("%s of %g, %g: slope %d is %g, not %g", op_info[cases_at[k].op].name,
                         cases_at[k].a, cases_at[k].b, i, out[1 + i].data[0], want[i]);
        model_close(&t);
    }
}

/* ---- composites against their definition in primitive ops ------------------------------------ */

static Value softmax(Builder *b, Value z, Dim over)
{
    Attrs a = {.over = {1, {over}}};
    Value e = build1(b, OP_exp, build2(b, OP_sub, z, build(b, OP_rmax, &a, 1, &z)));
    return build2(b, OP_div, e, build_sum(b, e, &a.over));
}

static Value plain_attention(Model *t, const Value *in)
{
    Builder *b = &t->b;
    Dim s = dim_of(t, "seq", 3), keys = dim_of(t, "keys", 3);
    Attrs to_keys = {.dim = s, .to = keys};
    Value k = build(b, OP_rename, &to_keys, 1, &in[1]),
          v = build(b, OP_rename, &to_keys, 1, &in[2]);
    DimList head = {1, {I(t)}}, over = {1, {keys}};
    Value z = build2(b, OP_mul, build_dot(b, in[0], k, &head), build_const(b, F, 0.7));
    Value future = build2(b, OP_gt, build_iota(b, DT_i32, keys), build_iota(b, DT_i32, s));
    Value masked[] = {future, build_const(b, F, -1e30), z};
    return build_dot(b, softmax(b, build(b, OP_select, NULL, 3, masked), keys), v, &over);
}

static Value plain_cross_entropy(Model *t, const Value *in)
{
    Builder *b = &t->b;
    Attrs a = {.over = {1, {J(t)}}};
    Value classes = build_iota(b, DT_i32, J(t)), none = build_const(b, F, 0);
    Value valid = build2(b, OP_lt, classes, build_const(b, DT_i32, 2));
    Value masked[] = {valid, in[0], build_const(b, F, -1e30)};
    Value z = build(b, OP_select, NULL, 3, masked);
    Value top = build(b, OP_rmax, &a, 1, &z);
    Value e = build1(b, OP_exp, build2(b, OP_sub, z, top));
    Value lse = build2(b, OP_add, build1(b, OP_log, build_sum(b, e, &a.over)), top);
    Value at[] = {build2(b, OP_eq, in[1], classes), in[0], none};
    Value target = build_sum(b, build(b, OP_select, NULL, 3, at), &a.over);
    return build2(b, OP_sub, lse, target);
}

/* Both programs have the same parameters: all gradients must agree. */
static void against_definition(CaseFn *composite, Value (*plain)(Model *, const Value *))
{
    Tensor64 *out[2];
    Model t[2];
    for (int k = 0; k < 2; k++) {
        model_open(&t[k]);
        Value y = composite(&t[k]);
        const Ins *i = t[k].m->values.data[y].def;
        Type type = *type_of(t[k].m, y);
        if (k)
            y = build_as(&t[k].b, plain(&t[k], i->in), type);
        add_loss(&t[k], weighed(&t[k], y, add_param(&t[k], "w", type, 0)));
        must_pass(&t[k], pass_recompute);
        must_pass(&t[k], pass_differentiate);
        out[k] = run_fn(&t[k], t[k].fn, inputs_for(&t[k], t[k].fn, 5, -1, 1));
    }
    assert_int_equal(t[0].fn->results.n, t[1].fn->results.n);
    for (size_t r = 0; r < t[0].fn->results.n; r++)
        assert_true(difference(&out[0][r], &out[1][r]) < 1e-12);
    model_close(&t[0]);
    model_close(&t[1]);
}

static void definitions(void **state)
{
    (void)state;
    against_definition(case_attention, plain_attention);
    against_definition(case_cross_entropy, plain_cross_entropy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointwise), cmocka_unit_test(wrong_texts), cmocka_unit_test(others),
        cmocka_unit_test(ties),      cmocka_unit_test(kinks),       cmocka_unit_test(definitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
