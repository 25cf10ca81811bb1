/* test_evaluate.c - the evaluation of a set, batch after batch, is the loss of one batch that is
 * the set. The one is @eval after pass evaluate, run as the runtime runs it, for each number of
 * rows at once, the last batch filled up with its last row; the other is @train of a batch of all
 * rows. */
#include "grammar/grammar.h"
#include "passes/step/parts.h"
#include "tests/passes/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 12 };

static const char head[] = "dim batch = 12, wide = 3, classes = 4, deep = 3, narrow = wide\n"
                           "const share = 1 / (batch * wide), area = batch * 2\n"
                           "model m(x[batch, wide], y[batch] : token(classes), w[batch]) {\n"
                           "    a : param[wide] ~ normal(1)\n"
                           "    u : param[wide, classes] ~ normal(1)\n"
                           "    h = tanh(x * a)\n"
                           "    e = sum(h * h, over wide)\n";
static const char tail[] = "}\n"
                           "train {\n"
                           "    optimizer sgd()\n"
                           "    lr constant(peak = 1, steps = 1)\n"
                           "    precision f64\n"
                           "}\n";

/* Every way in which a loss takes something from all rows. In the last ones the batch is no factor:
 * it is that of training. */
static const char *const losses[] = {
    "loss = mean(e)",
    "loss = sum(e)",
    "loss = sum(e) / batch",
    "loss = sum(e * share)",
    "loss = sum(h) * share + sum(a * a)",
    "loss = sum(e) / area - mean(h) / 3",
    "loss = cross_entropy(h @ u over wide, y)",
    "loss = cross_entropy(h @ u over wide, y, w)",
    "loss = sum(w * e) / sum(w)",
    "loss = sum(w * e) / max(sum(w), 0.5) + 0.1 * mean(sum(h, over wide))",
    "loss = exp(mean(e))",
    "loss = max(e, over batch)",
    "loss = max(e, over batch) / mean(e) + max(-e, over batch)",
    "p = mean(h, over batch)\n loss = sum(p * log(1.5 + p))",
    "p = max(h, over batch)\n loss = sum(p * mean(h, over batch))",
    "loss = (h @ (w * e) over batch) @ a over wide / batch",
    "loss = mean(e * index(batch))",
    "loss = select(mean(e) > 0.1, sum(w * e) / sum(w), mean(e))",
    "r = 0\n repeat deep { v : param[wide] ~ normal(1)\n r = r + mean(h * v) }\n loss = r / deep",
    "r = 0\n repeat deep { v : param[wide] ~ normal(1)\n h = tanh(h * v)\n r = r + "
    "sum(mean(h, over batch) * mean(h * h, over batch)) }\n loss = r + mean(h)",
    "r = 1\n repeat deep { v : param[wide] ~ normal(1)\n r = r * mean(h * v) + sum(v * v) }\n"
    "loss = r",
    "r = 0\n repeat deep { q = 0\n repeat narrow { v : param[wide] ~ normal(1)\n h = tanh(h * v)\n"
    "q = q + sum(w * h) / sum(w) }\n r = r + q * q }\n loss = r",
    "r = sum(a * a)\n repeat deep { v : param[wide] ~ normal(1)\n r = r + sum(v * v) }\n"
    "loss = mean(e) + 0.01 * r",
    "loss = sum(a * a) + 0 * mean(e)",
    "loss = sum(e * (w / sum(w)))",
    "n = sum(w)\n loss = sum(e * (w / n) + w * e * 2 / n) / 3 - mean(e * mean(e))",
    "r = 0\n repeat deep { v : param[wide] ~ normal(1)\n h = tanh(h * v)\n"
    "r = r + sum(h * (w / sum(w * w))) }\n loss = r * r",
    "r = 0\n n = sum(w * w)\n repeat deep { v : param[wide] ~ normal(1)\n h = tanh(h * v)\n"
    "r = r + sum(h * (w / n)) }\n loss = r",
    "n = sum(w)\n loss = sum(n * (h * w)) + mean(e * 2) * sum(w * (e / n))",
    "loss = sqrt(sum(e)) * mean(w)",
    "loss = sum(e) / (batch + 1)",
    "loss = sqrt(sum(e)) * mean(w) + log(1 + batch)",
    "loss = mean(e * exp(-batch / 10))",
    "loss = mean(e / sqrt(batch))",
    "loss = mean(tanh(e * (1 / batch)))",
};
enum { LOSSES = sizeof losses / sizeof *losses, OF_TRAINING = 5 };

/* Losses whose rows depend on each other. In the last ones they depend on inputs alone, so
 * training can be in iterations. */
static const char *const mixing[] = {
    "d = e - mean(e)\n loss = mean(d * d)",
    "loss = mean(log(sum(exp(h @ (h[batch -> other]) over wide), over other)))",
    "loss = pick(e, along batch, at = 0)",
    "loss = sum(exp(e * (w / sum(w))))",
    "loss = mean(select(w > mean(w), e, 0))",
};
enum { MIXING = sizeof mixing / sizeof *mixing, MICROBATCHES = 2 };

/* Element k of row r of an input, the same whatever is computed at once. */
static double datum(uint32_t input, int64_t row, int64_t k)
{
    double u = ir_random(3, (uint64_t)input, (uint64_t)row, (uint64_t)k);
    return input == 1 ? floor(4 * u) : input == 2 ? 0.25 + u : 2 * u - 1;
}

typedef struct Totals {
    double *data[16];
} Totals;

/* Rows first, ... of which `filled` count; results of @fn. */
static const Tensor64 *batch(Model *t, const Fn *fn, int64_t first, int64_t filled,
                             const Totals *totals)
{
    Tensor64 *args = NEW_ARRAY(t->a, Tensor64, fn->args.n);
    for (size_t i = 0; i < fn->args.n; i++) {
        const FnArg a = fn->args.data[i];
        args[i].type = *type_of(t->m, fn->body->args.data[i]);
        int64_t n = type_elements(&args[i].type), row = n;
        args[i].data = NEW_ARRAY(t->a, double, n);
        for (int d = 0; a.role == ARG_input && d <= type_find(&args[i].type, t->m->batch.name); d++)
            row /= args[i].type.dims[d].size;
        for (int64_t k = 0; k < n; k++) {
            int64_t r = k / row < filled ? k / row : filled - 1;
            args[i].data[k] = a.role == ARG_input    ? datum(a.tensor, first + r, k % row)
                              : a.role == ARG_filled ? (double)filled
                              : a.role == ARG_before ? (double)first
                              : a.role == ARG_total  ? totals->data[a.tensor][k]
                                                     : datum(10 + a.tensor, 0, k);
        }
    }
    return run_fn(t, fn, args);
}

/* The messages stay in model_messages. */
static void open_program(Model *t, const char *body, int64_t size, int64_t at_once)
{
    char text[4000], define[30];
    snprintf(text, sizeof text, "%s%s%s\n%s", strstr(body, "other") ? "dim other = batch\n" : "",
             head, body, tail);
    snprintf(define, sizeof define, "batch=%d", (int)size);
    const ElaborateOptions options = {
        .microbatch = at_once, .define = (const char *[]){define}, .ndefine = 1};
    *t = (Model){.a = arena_new()};
    t->messages = open_memstream(&t->text, &t->size);
    Names *names = names_new(t->a);
    Diag *diag = diag_new(t->a, t->messages, false);
    uint32_t file = diag_add_file(diag, "m.mg", text, strlen(text));
    const Ast *ast = mg_parse(t->a, names, diag, file);
    t->m = ast ? mg_elaborate(t->a, names, diag, ast, &options) : NULL;
    if (!t->m)
        fail_msg("%s\ndoes not compile: %s", text, model_messages(t));
}

/* The loss of a set of `size` rows; where the program has a metric, that. */
static double evaluated(const char *body, int64_t size, int64_t at_once)
{
    Model t;
    open_program(&t, body, BATCH, at_once);
    must_pass(&t, pass_evaluate);
    const Fn *fn = module_fn(t.m, "eval");
    Totals totals = {0};
    for (size_t i = 0; i < fn->args.n; i++) {
        const FnArg a = fn->args.data[i];
        int64_t n = type_elements(type_of(t.m, fn->body->args.data[i]));
        if (a.role != ARG_total)
            continue;
        totals.data[a.tensor] = NEW_ARRAY(t.a, double, n);
        for (int64_t k = 0; k < n; k++)
            totals.data[a.tensor][k] = fn->totals.data[a.tensor] ? -INFINITY : 0;
    }
    double loss = NAN;
    assert_int_equal(fn_rows(t.m, fn), at_once);
    for (int64_t first = 0; first < size; first += at_once) {
        int64_t filled = size - first < at_once ? size - first : at_once;
        const Tensor64 *results = batch(&t, fn, first, filled, &totals);
        for (size_t i = 0; i < fn->results.n; i++) {
            const FnResult r = fn->results.data[i];
            if (r.role == (t.m->metrics.n ? RES_metric : RES_loss))
                loss = results[i].data[0];
            else if (r.role == RES_total)
                totals.data[r.tensor] = results[i].data;
        }
    }
    assert_null(strstr(model_messages(&t), "MG0530"));
    model_close(&t);
    return loss;
}

/* That of @train with this batch. */
static double trained(const char *body, int64_t size)
{
    Model t;
    open_program(&t, body, size, 0);
    const Tensor64 *results = batch(&t, module_fn(t.m, "train"), 0, size, NULL);
    double loss = results[0].data[0];
    model_close(&t);
    return loss;
}

static void must_equal(const char *body, double have, double want, int at_once, int size)
{
    if (!(fabs(have - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%s: %.17g of %d rows, %d at once, and %.17g of one batch", body, have, size,
                 at_once, want);
}

static void as_one_batch(void **state)
{
    (void)state;
    static const int sets[] = {1, 7, BATCH, 17, 24}, at_once[] = {1, 2, 3, 4, 6, 12};
    for (int k = 0; k < LOSSES; k++)
        for (int s = 0; s < 5; s++) {
            bool own = k < LOSSES - OF_TRAINING || sets[s] == BATCH;
            double want = own ? trained(losses[k], sets[s]) : evaluated(losses[k], sets[s], 1);
            assert_true(isfinite(want));
            for (int i = 0; i < 6; i++)
                must_equal(losses[k], evaluated(losses[k], sets[s], at_once[i]), want, at_once[i],
                           sets[s]);
        }
}

/* A metric is of the set what a loss of the same text is, beside another loss. */
static void metrics_as_losses(void **state)
{
    (void)state;
    static const int sets[] = {7, BATCH, 24}, at_once[] = {1, 3, 12};
    for (int k = 0; k < LOSSES; k++) {
        char body[2000];
        const int before = (int)(strstr(losses[k], "loss = ") - losses[k]);
        snprintf(body, sizeof body, "%.*smetric it = %s\n loss = sum(e * e) / sum(w)", before,
                 losses[k], losses[k] + before + 7);
        for (int s = 0; s < 3; s++) {
            bool own = k < LOSSES - OF_TRAINING || sets[s] == BATCH;
            double want = own ? trained(losses[k], sets[s]) : evaluated(losses[k], sets[s], 1);
            for (int i = 0; i < 3; i++)
                must_equal(body, evaluated(body, sets[s], at_once[i]), want, at_once[i], sets[s]);
        }
    }
}

/* Every change of one row that counts changes the loss; none of a row that only fills. */
static void rows_that_count(void **state)
{
    (void)state;
    for (int k = 0; k < LOSSES; k++)
        for (int filled = 1; filled < 4; filled++)
            must_equal(losses[k], evaluated(losses[k], filled, 4), evaluated(losses[k], filled, 1),
                       4, filled);
    assert_true(evaluated(losses[0], 3, 4) != evaluated(losses[0], 4, 4));
}

/* Rows that depend on each other are computed as they are trained on: the whole batch, in
 * microbatches where that can be. It is said once, and nothing is carried. */
static void whole_batches(void **state)
{
    (void)state;
    for (int k = 0; k < MIXING; k++)
        for (int in_microbatches = 0; in_microbatches <= (k >= MIXING - MICROBATCHES);
             in_microbatches++) {
            Model t;
            open_program(&t, mixing[k], BATCH, in_microbatches ? 4 : 0);
            double want = trained(mixing[k], BATCH);
            must_pass(&t, pass_evaluate);
            assert_non_null(strstr(model_messages(&t), "MG0530"));
            const Fn *fn = module_fn(t.m, "eval");
            assert_int_equal(fn_rows(t.m, fn), BATCH);
            assert_int_equal(fn->results.n, 1);
            for (size_t i = 0; i < fn->args.n; i++)
                assert_true(fn->args.data[i].role <= ARG_input);
            must_equal(mixing[k], batch(&t, fn, 0, BATCH, NULL)[0].data[0], want, BATCH, BATCH);
            must_pass(&t, pass_differentiate);
            must_pass(&t, pass_microbatch);
            must_equal(mixing[k], batch(&t, fn, 0, BATCH, NULL)[0].data[0], want, 4, BATCH);
            model_close(&t);
        }
}

/* Totals are part of the text of a module. */
static void as_text(void **state)
{
    (void)state;
    for (int k = 0; k < LOSSES; k++) {
        Model t;
        open_program(&t, losses[k], BATCH, 3);
        must_pass(&t, pass_evaluate);
        char *first = module_text(t.m);
        uint32_t file = diag_add_file(t.m->diag, "m.mgir", first, strlen(first));
        Module *again = ir_parse(t.a, names_new(t.a), t.m->diag, file);
        assert_non_null(again);
        assert_int_equal(ir_verify(again, stderr), 0);
        char *second = module_text(again);
        assert_string_equal(first, second);
        free(first);
        free(second);
        model_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_batch),    cmocka_unit_test(metrics_as_losses),
        cmocka_unit_test(rows_that_count), cmocka_unit_test(whole_batches),
        cmocka_unit_test(as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
