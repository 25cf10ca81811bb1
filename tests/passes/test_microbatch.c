/* microbatch changes no number: that is the business of test_gradient; here is what random programs
 * do not have, positions along the batch. The loop it makes, and what it refuses, are in
 * text/microbatch*.mgir. */
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Small {
    Model t;
    Dim batch, seq, hid, vocab;
    Value tokens, table, x; /* x[batch, seq, hid] */
} Small;

static void open_small(Small *s, int64_t microbatch)
{
    Model *t = &s->t;
    model_open(t);
    s->batch = t->m->batch = dim_of(t, "batch", 6);
    s->seq = t->m->seq = dim_of(t, "seq", 3);
    s->hid = dim_of(t, "hid", 2);
    s->vocab = dim_of(t, "vocab", 5);
    t->m->vocab = 5;
    t->m->layout.microbatch = microbatch;
    s->tokens = add_arg(t, ARG_tokens, TYPE(DT_i32, s->batch, s->seq), "tokens");
    s->table = add_param(t, "table", TYPE(DT_f32, s->vocab, s->hid), 0);
    Attrs a = {.dim = s->vocab};
    s->x = build(&t->b, OP_gather, &a, 2, (Value[]){s->table, s->tokens});
}

/* The loss is the sum of y's squares. */
static void close_loss(Small *s, Value y)
{
    Builder *b = &s->t.b;
    add_loss(&s->t, build_cast(b, sum_all(b, build2(b, OP_mul, y, y)), DT_f64));
    must_pass(&s->t, pass_recompute);
    must_pass(&s->t, pass_differentiate);
}

static const Ins *only_repeat(const Region *r)
{
    const Ins *found = NULL;
    for (size_t n = 0; n < r->ins.n; n++)
        if (r->ins.data[n]->op == OP_repeat) {
            assert_null(found);
            found = r->ins.data[n];
        }
    assert_non_null(found);
    return found;
}

/* Values that stand for one row are those of the row's place in the whole batch. */
static Value by_position(Small *s)
{
    Builder *b = &s->t.b;
    Value i = build_iota(b, DT_f32, s->batch), k = build_iota(b, DT_i32, s->batch);
    Value odd = build2(b, OP_gt, k, build_const(b, DT_i32, 3));
    Value y = build2(b, OP_mul, s->x, build1(b, OP_cos, i));
    return build(b, OP_select, NULL, 3, (Value[]){odd, y, build1(b, OP_neg, s->x)});
}

/* A cotangent without the batch dim, an operand that is the same in all microbatches. */
static Value flat(Small *s)
{
    Builder *b = &s->t.b;
    Value p = add_param(&s->t, "p", TYPE(DT_f32, s->hid), 0);
    DimList rows = {2, {s->batch, s->seq}};
    Value sum = build_sum(b, build2(b, OP_add, s->x, p), &rows);
    add_loss(&s->t,
             build_cast(b, sum_all(b, build2(b, OP_mul, sum, build_const(b, DT_f32, 3))), DT_f64));
    return 0;
}

/* Parts that are divided, chosen, looked up, and added to by a product. */
static Value parts(Small *s)
{
    Builder *b = &s->t.b;
    Value c = add_param(&s->t, "c", TYPE(DT_f32, s->hid), 0);
    Dim other = dim_of(&s->t, "other", 2);
    Attrs to_other = {.dim = s->hid, .to = other}, dot = {.over = {2, {s->batch, s->seq}}};
    Value square = add_param(&s->t, "square", TYPE(DT_f32, s->hid, other), 0);
    Value sums[] = {s->x, build(b, OP_rename, &to_other, 1, &s->x), square};
    Value x = build(b, OP_dot, &dot, 3, sums); /* [hid, other]: x x^T + square */
    x = build2(b, OP_div, x, build2(b, OP_add, c, build_const(b, DT_f32, 3)));
    Value first = build2(b, OP_eq, build_iota(b, DT_i32, s->hid), build_const(b, DT_i32, 0));
    x = build(b, OP_select, NULL, 3, (Value[]){first, x, c});
    Attrs table = {.dim = other};
    Value index = build_iota(b, DT_i32, dim_of(&s->t, "n", 2));
    x = build(b, OP_gather, &table, 2, (Value[]){x, index});
    Value flat = build_sum(b, s->x, &dot.over);
    Value product[] = {c, square, build(b, OP_rename, &to_other, 1, &flat)};
    DimList hid = {1, {s->hid}};
    dot.over = hid;
    Value y =
        build(b, OP_dot, &dot, 3, product); /* a product that is the same in all microbatches */
    Value loss = build2(b, OP_sub, sum_all(b, x), sum_all(b, y));
    add_loss(&s->t, build_cast(b, loss, DT_f64));
    return 0;
}

/* A mean by weights that come with the batch: its divisor is a sum over all microbatches. */
static Value mean_by_weight(Small *s)
{
    Builder *b = &s->t.b;
    DimList hid = {1, {s->hid}};
    Value w = add_arg(&s->t, ARG_weight, TYPE(DT_f32, s->batch, s->seq), "weight");
    Value each = build_sum(b, build2(b, OP_mul, s->x, s->x), &hid);
    Value wide = build_cast(b, build2(b, OP_mul, w, build_const(b, DT_f32, 2)), DT_f64);
    Value least = build_const(b, DT_f64, 1e-30);
    Value total = build2(b, OP_max, sum_all(b, wide), least);
    Value sum = sum_all(b, build2(b, OP_mul, build_cast(b, each, DT_f64), wide));
    add_loss(&s->t, build2(b, OP_div, sum, total));
    return 0;
}

static Tensor64 *run_small(Small *s, int64_t microbatch, Value (*f)(Small *))
{
    open_small(s, microbatch);
    Value y = f(s);
    if (y)
        close_loss(s, y);
    else {
        must_pass(&s->t, pass_recompute);
        must_pass(&s->t, pass_differentiate);
    }
    must_pass(&s->t, pass_microbatch);
    must_pass(&s->t, pass_simplify);
    return run_fn(&s->t, s->t.fn, inputs_for(&s->t, s->t.fn, 3, -1, 1));
}

static void same_numbers(void **state)
{
    (void)state;
    static Value (*const programs[])(Small *) = {by_position, flat, parts, mean_by_weight};
    for (size_t p = 0; p < 4; p++)
        for (int64_t micro = 1; micro < 4; micro++) {
            Small a, b;
            Tensor64 *x = run_small(&a, 6, programs[p]), *y = run_small(&b, micro, programs[p]);
            for (size_t r = 0; r < a.t.fn->results.n; r++)
                assert_true(difference(&x[r], &y[r]) < 1e-12);
            model_close(&a.t);
            model_close(&b.t);
        }
}

/* Gradients that an inner loop stacks are added to inside it: no addition of whole stacks. */
static void in_place(void **state)
{
    (void)state;
    int stacked = 0;
    for (uint64_t seed = 1; seed < 20; seed++) {
        Model t;
        model_open(&t);
        random_model(&t, seed);
        t.m->layout.microbatch = 1;
        must_pass(&t, pass_recompute);
        must_pass(&t, pass_differentiate);
        must_pass(&t, pass_microbatch);
        const Ins *loop = only_repeat(t.fn->body);
        Name layers = name_intern(t.m->names, "layers");
        for (size_t n = 0; n < loop->body->ins.n; n++) {
            const Ins *i = loop->body->ins.data[n];
            bool stack = i->nout && type_find(type_of(t.m, i->out[0]), layers) >= 0;
            assert_true(i->op != OP_add || !stack);
        }
        for (size_t r = 0; r < loop->body->results.n; r++)
            stacked += type_find(type_of(t.m, loop->body->results.data[r]), layers) >= 0;
        model_close(&t);
    }
    assert_true(stacked > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_numbers), cmocka_unit_test(in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
