/* The update: five steps in the interpreter against the formulas written out as loops over plain
 * arrays, on the gradients that differentiate gives. */
#include "tests/passes/model.h"
#include "ir/optimizers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 5 };

typedef struct Rules {
    Train train;
    uint64_t seed;
    int64_t microbatch;
} Rules;

static void open_model(Model *t, const Rules *r)
{
    model_open(t);
    random_model(t, r->seed);
    t->m->train = r->train;
    t->m->layout.microbatch = r->microbatch;
    must_pass(t, pass_precision);
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
}

/* ---- by hand --------------------------------------------------------------------------------- */

typedef struct Hand {
    Model t; /* loss and gradients */
    Tensor64 *args;
    double *m[64], *v[64]; /* per argument; sgd: m is the momentum buffer */
    double loss, norm;
} Hand;

static double rate(int step)
{
    return 0.02 / (1 + step);
}

static void adamw_by_hand(const Goal *tr, int step, double *p, double *m, double *v,
                          const double *g, int64_t n, double decay)
{
    double c1 = 1 - pow(tr->beta1, step + 1), c2 = 1 - pow(tr->beta2, step + 1);
    for (int64_t i = 0; i < n; i++) {
        m[i] = tr->beta1 * m[i] + (1 - tr->beta1) * g[i];
        v[i] = tr->beta2 * v[i] + (1 - tr->beta2) * g[i] * g[i];
        p[i] -= rate(step) * decay * p[i];
        p[i] -= rate(step) / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + tr->eps);
    }
}

static void sgd_by_hand(const Goal *tr, int step, double *p, double *m, const double *grad,
                        int64_t n, double decay)
{
    for (int64_t i = 0; i < n; i++) {
        double g = grad[i] + decay * p[i];
        m[i] = step ? tr->momentum * m[i] + g : g; /* the first step has no buffer yet */
        p[i] -= rate(step) * (tr->nesterov        ? g + tr->momentum * m[i]
                              : tr->momentum != 0 ? m[i]
                                                  : g);
    }
}

static void lion_by_hand(const Goal *tr, int step, double *p, double *m, const double *g, int64_t n,
                         double decay)
{
    for (int64_t i = 0; i < n; i++) {
        double u = tr->beta1 * m[i] + (1 - tr->beta1) * g[i];
        m[i] = tr->beta2 * m[i] + (1 - tr->beta2) * g[i];
        p[i] -= rate(step) * (decay * p[i] + (u > 0) - (u < 0));
    }
}

/* Every rule has a case: those of matrices are in tests/parity/rules.py alone. */
static void rule_by_hand(const Goal *tr, int step, double *p, double *m, double *v, double *g,
                         int64_t n, double decay)
{
    switch ((OptimizerId)(tr->optimizer - optimizers)) {
    case OPT_adamw:
        adamw_by_hand(tr, step, p, m, v, g, n, decay);
        break;
    case OPT_adam:
        for (int64_t k = 0; k < n; k++)
            g[k] += decay * p[k];
        adamw_by_hand(tr, step, p, m, v, g, n, 0);
        break;
    case OPT_sgd:
        sgd_by_hand(tr, step, p, m, g, n, decay);
        break;
    case OPT_lion:
        lion_by_hand(tr, step, p, m, g, n, decay);
        break;
    case OPT_adafactor:
    case OPT_muon:
    case OPT_count:
        fail_msg("the rule of %s is not here", tr->optimizer->name);
    }
}

static void step_by_hand(Hand *h, int step)
{
    const Goal *tr = &h->t.m->train.goal[0];
    const Fn *fn = h->t.fn;
    Tensor64 *out = run_fn(&h->t, fn, h->args);
    double squares = 0;
    for (size_t r = 1; r < fn->results.n; r++)
        for (int64_t k = 0; k < type_elements(&out[r].type); k++)
            squares += out[r].data[k] * out[r].data[k];
    h->loss = out[0].data[0];
    h->norm = sqrt(squares);
    double clip = tr->clip > 0 ? fmin(1, tr->clip / (h->norm + 1e-6)) : 1;
    for (size_t a = 0, r = 1; a < fn->args.n; a++) {
        if (fn->args.data[a].role != ARG_param)
            continue;
        const Tensor *tensor = &h->t.m->tensors.data[fn->args.data[a].tensor];
        int64_t n = type_elements(&tensor->type);
        double decay = tensor->decay;
        double *g = out[r++].data;
        if (!h->m[a]) {
            h->m[a] = NEW_ARRAY(h->t.a, double, n);
            h->v[a] = NEW_ARRAY(h->t.a, double, n);
        }
        for (int64_t k = 0; k < n; k++)
            g[k] *= clip;
        rule_by_hand(tr, step, h->args[a].data, h->m[a], h->v[a], g, n, decay);
    }
}

/* ---- by the program -------------------------------------------------------------------------- */

static void step_by_program(Model *t, Tensor64 *args, int step, double *loss, double *norm)
{
    const Fn *fn = t->fn;
    for (size_t a = 0; a < fn->args.n; a++) {
        if (fn->args.data[a].role == ARG_lr)
            args[a].data[0] = rate(step);
        if (fn->args.data[a].role == ARG_step)
            args[a].data[0] = step;
    }
    Tensor64 *out = run_fn(t, fn, args);
    for (size_t r = 0; r < fn->results.n; r++) {
        FnResult result = fn->results.data[r];
        if (result.role == RES_loss)
            *loss = out[r].data[0];
        if (result.role == RES_norm)
            *norm = out[r].data[0];
        for (size_t a = 0; a < fn->args.n; a++)
            if (result.role == RES_update && fn->args.data[a].role <= ARG_state &&
                fn->args.data[a].tensor == result.tensor)
                args[a] = out[r];
    }
}

static void compare(Rules r, bool simplify)
{
    Hand h = {0};
    Model t;
    open_model(&h.t, &r);
    open_model(&t, &r);
    must_pass(&t, pass_microbatch);
    must_pass(&t, pass_update);
    if (simplify)
        must_pass(&t, pass_simplify);
    h.args = inputs_for(&h.t, h.t.fn, 7, -0.7, 0.7);
    Tensor64 *args = inputs_for(&t, t.fn, 7, -0.7, 0.7);
    for (int step = 0; step < STEPS; step++) {
        double loss = 0, norm = 0;
        for (size_t a = 0; a < h.t.fn->args.n; a++)
            if (h.t.fn->args.data[a].role == ARG_step)
                h.args[a].data[0] = step;
        step_by_hand(&h, step);
        step_by_program(&t, args, step, &loss, &norm);
        assert_true(fabs(loss - h.loss) <= 1e-11 * fabs(h.loss));
        assert_true(fabs(norm - h.norm) <= 1e-11 * h.norm);
        for (size_t a = 0; a < h.t.fn->args.n; a++)
            if (h.t.fn->args.data[a].role == ARG_param)
                assert_true(difference(&h.args[a], &args[a]) < 1e-10);
    }
    model_close(&h.t);
    model_close(&t);
}

static const Train ADAMW = {.goal[0] = {.optimizer = &optimizers[OPT_adamw],
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .eps = 1e-3, /* so that tiny gradients compare */
                                        .clip = 0.5},
                            .goals = 1,
                            .compute = DT_f32};

static void adamw(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4};
    for (r.seed = 1; r.seed <= 6; r.seed++)
        compare(r, r.seed & 1);
    r.microbatch = 2;
    compare(r, true);
    r.train.goal[0].clip = 0;
    r.train.compute = DT_f64;
    r.train.goal[0].beta1 = 0; /* its logarithm must not be taken */
    compare(r, true);
}

/* Without a guard on the norm, and with every new value chosen: the same numbers. */
static void as_ready(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4};
    r.train.goal[0].clip = 0;
    r.train.as_ready = true;
    for (r.seed = 1; r.seed <= 4; r.seed++)
        compare(r, r.seed & 1);
    r.microbatch = 2;
    r.train.goal[0].optimizer = &optimizers[OPT_lion];
    compare(r, true);
}

static void sgd(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4};
    r.train.goal[0].optimizer = &optimizers[OPT_sgd];
    r.train.goal[0].momentum = 0.8;
    for (r.seed = 1; r.seed <= 3; r.seed++)
        compare(r, r.seed & 1);
    r.train.goal[0].momentum = 0;
    compare(r, true);
}

static void sgd_nesterov(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4, .seed = 4};
    r.train.goal[0].optimizer = &optimizers[OPT_sgd];
    r.train.goal[0].momentum = 0.9;
    r.train.goal[0].nesterov = true;
    compare(r, true);
}

static void adam(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4, .seed = 5};
    r.train.goal[0].optimizer = &optimizers[OPT_adam];
    compare(r, true);
}

static void lion(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4};
    r.train.goal[0].optimizer = &optimizers[OPT_lion];
    for (r.seed = 1; r.seed <= 3; r.seed++)
        compare(r, r.seed & 1);
}

/* The argument or result of a tensor's slot; NULL: of the parameter itself. */
static Tensor64 *of_tensor(const Model *t, Tensor64 *all, uint32_t parameter, const char *slot,
                           bool result)
{
    size_t n = result ? t->fn->results.n : t->fn->args.n;
    for (size_t k = 0; k < n; k++) {
        if (result ? t->fn->results.data[k].role != RES_update
                   : t->fn->args.data[k].role > ARG_state)
            continue;
        uint32_t i = result ? t->fn->results.data[k].tensor : t->fn->args.data[k].tensor;
        const Tensor *x = &t->m->tensors.data[i];
        if (slot ? x->slot && x->parameter == parameter &&
                       !strcmp(name_str(t->m->names, x->slot), slot)
                 : i == parameter)
            return &all[k];
    }
    fail_msg("no such tensor");
    return NULL;
}

/* An element whose new value is not finite stays what it was; its neighbours move. */
static void keeps_what_is_finite(void **state)
{
    (void)state;
    for (int ready = 0; ready < 2; ready++) {
        Rules r = {.train = ADAMW, .microbatch = 4, .seed = 3};
        r.train.goal[0].clip = 0;
        r.train.as_ready = ready;
        Model t;
        open_model(&t, &r);
        must_pass(&t, pass_microbatch);
        must_pass(&t, pass_update);
        Tensor64 *args = inputs_for(&t, t.fn, 7, 0.1, 0.7);
        of_tensor(&t, args, 0, "exp_avg_sq", false)->data[0] = -1e3; /* has no root */
        Tensor64 *out = run_fn(&t, t.fn, args);
        const double *was = of_tensor(&t, args, 0, NULL, false)->data;
        const double *is = of_tensor(&t, out, 0, NULL, true)->data;
        assert_true(ready ? is[0] == was[0] : isnan(is[0]));
        assert_true(isfinite(is[1]) && is[1] != was[1]);
        assert_true(of_tensor(&t, out, 0, "exp_avg", true)->data[0] !=
                    of_tensor(&t, args, 0, "exp_avg", false)->data[0]);
        model_close(&t);
    }
}

/* ---- the guard ------------------------------------------------------------------------------- */

static int roles(const Fn *fn, ArgRole role)
{
    int n = 0;
    for (size_t a = 0; a < fn->args.n; a++)
        n += fn->args.data[a].role == role;
    return n;
}

/* Each row has its block, which takes and gives what the row says: of vectors and of matrices, and
 * whether its numbers are zero or not. */
static void every_row(void **state)
{
    (void)state;
    for (int o = 0; o < OPT_count; o++)
        for (int zero = 0; zero < 2; zero++) {
            Rules r = {.train = ADAMW, .microbatch = 4, .seed = 3};
            r.train.goal[0].optimizer = &optimizers[o];
            for (int k = 0; k < NUMBER_count && zero; k++)
                *train_number(&r.train.goal[0], k) = 0;
            r.train.goal[0].threshold = r.train.goal[0].power = 1;
            Model t;
            open_model(&t, &r);
            size_t params = t.m->tensors.n;
            must_pass(&t, pass_microbatch);
            must_pass(&t, pass_update);
            for (size_t k = params; k < t.m->tensors.n; k++) {
                const char *slot = name_str(t.m->names, t.m->tensors.data[k].slot);
                bool named = optimizers[o].rest != &optimizers[o]; /* the states of others, too */
                for (int i = 0; i < STATES_MAX && optimizers[o].states[i].slot; i++)
                    named |= !strcmp(slot, optimizers[o].states[i].slot);
                assert_true(named);
            }
            assert_int_equal(roles(t.fn, ARG_state), (int)(t.m->tensors.n - params));
            must_pass(&t, pass_simplify);
            model_close(&t);
        }
}

/* A module whose text was read, of which nobody has said who writes the rules. */
static void no_rules(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4, .seed = 3};
    Model t;
    open_model(&t, &r);
    must_pass(&t, pass_microbatch);
    t.m->update_rule = NULL;
    FILE *log = fopen("/dev/null", "w");
    assert_int_equal(pass_update(&(Job){.m = t.m, .tmp = t.a, .log = log}), PASS_broken);
    fclose(log);
    model_close(&t);
}

/* The guard stands before everything that makes a new value. */
static void guard_first(void **state)
{
    (void)state;
    Rules r = {.train = ADAMW, .microbatch = 4, .seed = 2};
    Model t;
    open_model(&t, &r);
    must_pass(&t, pass_microbatch);
    must_pass(&t, pass_update);
    must_pass(&t, pass_simplify);
    bool seen = false;
    const Region *body = t.fn->body;
    for (size_t n = 0; n < body->ins.n; n++) {
        const Ins *i = body->ins.data[n];
        seen |= i->op == OP_guard;
        for (size_t k = 2; k < body->results.n; k++)
            for (uint32_t o = 0; o < i->nout; o++)
                assert_true(i->out[o] != body->results.data[k] || seen);
    }
    assert_true(seen);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adamw),
                                       cmocka_unit_test(as_ready),
                                       cmocka_unit_test(sgd),
                                       cmocka_unit_test(sgd_nesterov),
                                       cmocka_unit_test(adam),
                                       cmocka_unit_test(lion),
                                       cmocka_unit_test(keeps_what_is_finite),
                                       cmocka_unit_test(every_row),
                                       cmocka_unit_test(no_rules),
                                       cmocka_unit_test(guard_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
