/* Contractions as matrix products: of every order of dims, with one, several or no dims in each
 * group, of size 1 too; and what is copied for it. */
#include "passes/library/product.h"
#include "passes/view.h"
#include "tests/passes/model.h"
#include "tests/plan/run_calls.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GROUPS = 4, LIMIT = 2 }; /* batch, M, N, K; dims in each */

/* A contraction drawn from a seed: dims of each group, each tensor's in some order. */
typedef struct Case {
    Dim dim[GROUPS][LIMIT];
    int n[GROUPS];
    Type type[3]; /* a, b, result */
    DimList over;
} Case;

static void shuffle(Type *t, uint64_t *seed)
{
    for (int i = t->rank - 1; i > 0; i--) {
        int k = draw_int(seed, i + 1);
        Dim d = t->dims[i];
        t->dims[i] = t->dims[k];
        t->dims[k] = d;
    }
}

static Case draw_case(Model *t, uint64_t seed)
{
    static const bool has[GROUPS][3] = {{1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 0}};
    static const char *const names[GROUPS][LIMIT] = {
        {"b", "c"}, {"m", "l"}, {"n", "o"}, {"k", "j"}};
    Case c = {0};
    for (int w = 0; w < 3; w++)
        c.type[w].dtype = DT_f64;
    for (int g = 0; g < GROUPS; g++) {
        c.n[g] = draw_int(&seed, LIMIT + 1);
        for (int i = 0; i < c.n[g]; i++) {
            c.dim[g][i] = dim_of(t, names[g][i], 1 + draw_int(&seed, 4));
            for (int w = 0; w < 3; w++)
                if (has[g][w])
                    c.type[w].dims[c.type[w].rank++] = c.dim[g][i];
            if (g == 3)
                c.over.dim[c.over.n++] = c.dim[g][i];
        }
    }
    for (int w = 0; w < 3; w++)
        if (draw_int(&seed, 3))
            shuffle(&c.type[w], &seed);
    return c;
}

/* The product of two tensors as the descriptor says, against the interpreter. */
static void must_multiply(const Module *m, const Ins *dot, const Tensor64 *x, const Product *p)
{
    const Tensor64 *a = &x[dot->in[0]], *b = &x[dot->in[1]];
    const Type *t = type_of(m, dot->out[0]);
    double *c = calloc((size_t)type_elements(t) + 1, sizeof *c);
    void *ptr[3] = {p->swap ? b->data : a->data, p->swap ? a->data : b->data, c};
    run_gemm(&p->desc, ptr);
    for (int64_t e = 0; e < type_elements(t); e++)
        assert_true(fabs(c[e] - x[dot->out[0]].data[e]) < 1e-12);
    free(c);
}

static Strided dense(const Type *t)
{
    Strided s = {.type = t};
    strides_dense(t, s.stride);
    return s;
}

/* Whatever the order, after the pass every dot is a product, and all numbers are the same. */
static void orders(void **state)
{
    (void)state;
    int copied = 0, tried = 0;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        Model t;
        model_open(&t);
        Case c = draw_case(&t, seed * 977);
        Value in[2] = {add_param(&t, "a", c.type[0], 0), add_param(&t, "b", c.type[1], 0)};
        Attrs attrs = {.over = c.over};
        Value r = build_typed(&t.b, OP_dot, &attrs, 2, in, 1, &c.type[2], NULL)->out[0];
        vec_push(t.a, &t.fn->results, (FnResult){.role = RES_logits});
        vec_push(t.a, &t.fn->body->results, r);
        Tensor64 *args = inputs_for(&t, t.fn, seed, -1, 1), *before = run_fn(&t, t.fn, args);
        must_pass(&t, pass_products);
        assert_true(difference(before, run_fn(&t, t.fn, args)) < 1e-12);
        /* The operands of the dot that is left, in the interpreter's numbers. */
        Tensor64 *x = NEW_ARRAY(t.a, Tensor64, t.m->values.n);
        const Ins *dot = NULL;
        for (size_t i = 0; i < t.fn->body->ins.n; i++) {
            Ins *ins = t.fn->body->ins.data[i];
            if (ins->op == OP_dot)
                dot = ins;
            copied += ins->op == OP_copy;
        }
        assert_non_null(dot);
        tried++;
        Value want[3] = {dot->in[0], dot->in[1], dot->out[0]};
        t.fn->results.n = t.fn->body->results.n = 0;
        for (int w = 0; w < 3; w++) {
            vec_push(t.a, &t.fn->results, (FnResult){.role = RES_logits});
            vec_push(t.a, &t.fn->body->results, want[w]);
        }
        Tensor64 *now = run_fn(&t, t.fn, args);
        for (int w = 0; w < 3; w++)
            x[want[w]] = now[w];
        Strided s[3];
        for (int w = 0; w < 3; w++)
            s[w] = dense(type_of(t.m, want[w]));
        Product p;
        assert_true(product_match(&s[0], &s[1], &s[2], &dot->attrs.over, &p));
        must_multiply(t.m, dot, x, &p);
        model_close(&t);
    }
    assert_true(copied > 0 && copied < tried); /* some orders need a copy; most do not */
}

typedef struct Shape {
    const char *what;
    int64_t size[GROUPS];
    int64_t batch, m, n, k;
} Shape;

/* Vectors and numbers are products too. */
static void degenerate(void **state)
{
    (void)state;
    static const Shape shapes[] = {
        {"matrix and matrix", {0, 3, 4, 5}, 1, 3, 4, 5},
        {"matrix and vector", {0, 3, 0, 5}, 1, 3, 1, 5},
        {"vector and matrix", {0, 0, 4, 5}, 1, 1, 4, 5},
        {"vector and vector", {0, 0, 0, 5}, 1, 1, 1, 5},
        {"outer product", {0, 3, 4, 0}, 1, 3, 4, 1},
        {"scaled", {0, 3, 0, 0}, 1, 3, 1, 1},
        {"numbers", {0, 0, 0, 0}, 1, 1, 1, 1},
        {"a batch", {2, 3, 4, 5}, 2, 3, 4, 5},
        {"element by element", {7, 0, 0, 0}, 7, 1, 1, 1},
    };
    static const bool has[GROUPS][3] = {{1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 0}};
    static const char *const names[GROUPS] = {"b", "m", "n", "k"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Model t;
        model_open(&t);
        Type type[3] = {{.dtype = DT_f32}, {.dtype = DT_f32}, {.dtype = DT_f32}};
        Strided s[3];
        for (int w = 0; w < 3; w++) {
            for (int g = 0; g < GROUPS; g++)
                if (has[g][w] && shapes[i].size[g])
                    type[w].dims[type[w].rank++] = dim_of(&t, names[g], shapes[i].size[g]);
            s[w] = dense(&type[w]);
        }
        Product p;
        const DimList over = {1, {dim_of(&t, names[3], shapes[i].size[3])}};
        if (!product_match(&s[0], &s[1], &s[2], &over, &p))
            fail_msg("%s is no product", shapes[i].what);
        assert_int_equal(p.desc.batch, shapes[i].batch);
        assert_int_equal(p.desc.m * p.desc.n, shapes[i].m * shapes[i].n);
        assert_int_equal(p.desc.k, shapes[i].k);
        model_close(&t);
    }
}

/* The residual of a forward pass is summed by the product if nothing needs it afterwards. */
static void residual(void **state)
{
    (void)state;
    for (int needed = 0; needed < 2; needed++) {
        Model t;
        model_open(&t);
        Dim i = dim_of(&t, "i", 4), j = dim_of(&t, "j", 5), k = dim_of(&t, "k", 6);
        Value a = add_param(&t, "a", TYPE(DT_f32, i, k), 0),
              b = add_param(&t, "b", TYPE(DT_f32, k, j), 0);
        Value c = add_param(&t, "c", TYPE(DT_f32, i, j), 0);
        DimList over = {1, {k}};
        Value x = build_dot(&t.b, a, b, &over), y = build_dot(&t.b, a, b, &over);
        Value u = build2(&t.b, OP_mul, x, c), r = build2(&t.b, OP_add, x, y);
        Value last = needed ? build2(&t.b, OP_mul, x, r) : r;
        for (int n = 0; n < 2; n++) {
            vec_push(t.a, &t.fn->results, (FnResult){.role = RES_logits});
            vec_push(t.a, &t.fn->body->results, n ? last : u);
        }
        must_pass(&t, pass_products);
        int adding = 0;
        for (size_t n = 0; n < t.fn->body->ins.n; n++)
            adding += t.fn->body->ins.data[n]->op == OP_dot && t.fn->body->ins.data[n]->nin == 3;
        assert_int_equal(adding, needed ? 0 : 1);
        model_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(orders), cmocka_unit_test(degenerate),
                                       cmocka_unit_test(residual)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
