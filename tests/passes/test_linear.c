/* test_linear.c - scans that update their state linearly: each form goes on in chunks, with the
 * same loss and gradients as one position after the other; what is not linear, or may not be,
 * remains a loop, and says why. */
#include "grammar/grammar.h"
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char head[] =
    "dim batch = 2, seq = 12, vocab = 7, hidden = 4, heads = 2, key = 3, value = 5\n"
    "model m(tokens[batch, seq] : token(vocab)) {\n"
    "    table : param[vocab, hidden] ~ normal(1)\n"
    "    wq : param[hidden, heads, key] ~ normal(1)\n"
    "    wk : param[hidden, heads, key] ~ normal(1)\n"
    "    wv : param[hidden, heads, value] ~ normal(1)\n"
    "    wa : param[hidden, heads] ~ normal(1)\n"
    "    wb : param[hidden, heads] ~ normal(1)\n"
    "    first : param[heads, key, value] ~ normal(1)\n"
    "    bonus : param[heads, key] ~ normal(1)\n"
    "    x = table[tokens]\n"
    "    q = x @ wq over hidden\n"
    "    k = x @ wk over hidden\n"
    "    v = x @ wv over hidden\n"
    "    a = x @ wa over hidden\n"
    "    b = x @ wb over hidden\n"
    "    d = exp(-abs(a))\n"
    "    dk = exp(-abs(q))\n"
    "    dv = sigmoid(v)\n"
    "    part = sigmoid(b)\n"
    "    kn = k * rsqrt(sum(k * k, over key) + 1)\n"
    "    kv = k * v\n"
    "    S = expand(0, over (batch, heads, key, value))\n"
    "    n = expand(0, over (batch, heads, key))\n"
    "    h = expand(0, over (batch, heads))\n";
static const char tail[] =
    "    loss = mean(y * y * y) + mean(y) + mean(S * S) + mean(n) + mean(h)"
    " + 0 * (mean(q) + mean(kv) + mean(d) + mean(dk) + mean(dv) + mean(kn) + mean(part)"
    " + mean(first) + mean(bonus))\n"
    "}\n"
    "train {\n"
    "    optimizer sgd()\n"
    "    lr constant(peak = 1, steps = 1)\n"
    "    precision f64\n"
    "}\n";

/* A program; why: NULL, or a part of what is said of one that remains a loop. */
typedef struct Form {
    const char *body, *why;
} Form;

#define SCAN(body)      "scan seq { " body " }\n"
#define READ            " y = q @ S over key"
#define LOOP(body, why) {SCAN(body), why}

static const Form forms[] = {
    /* what the state is scaled by */
    LOOP("S = S + k * v" READ, NULL),
    LOOP("S = 0.9 * S + k * v" READ, NULL),
    LOOP("S = d * S + k * v" READ, NULL),
    LOOP("S = S * sigmoid(a) + v * k" READ, NULL),
    LOOP("S = k * v + (1 - sigmoid(a)) * S" READ, NULL),
    LOOP("S = exp(a) * sigmoid(a) * S + k * v" READ, NULL),
    LOOP("S = (1 - pow(2, -(2 + index(heads)))) * S + k * v" READ, NULL),
    LOOP("S = pow(part, 0.25) * S + k * v" READ, NULL),
    LOOP("S = sigmoid(a) / (1 + exp(b)) * S + k * v" READ, NULL),
    LOOP("S = select(a > 0, d, 0.5) * S + k * v" READ, NULL),
    LOOP("S = (2 + tanh(a)) * S + k * v" READ, NULL),
    LOOP("S = dk * S + k * v" READ, NULL),
    LOOP("S = dv * S + k * v" READ, NULL),
    LOOP("S = dk * d * S + k * v" READ, NULL),
    LOOP("S = d * S" READ " S = 0.5 * S + k * v", NULL),
    /* what is added */
    LOOP("S = d * S + part * k * v" READ, NULL),
    LOOP("S = d * S - k * v" READ, NULL),
    LOOP("S = d * S + (-k) * v" READ, NULL),
    LOOP("S = d * S + kv" READ, NULL),
    LOOP("S = d * S + k" READ, NULL),
    LOOP("S = d * S + k * v / (1 + index(seq))" READ, NULL),
    LOOP("S = d * S + k * v + q * v" READ, NULL),
    LOOP("S = (S + k * v) * d" READ, NULL),
    LOOP("S = d * S + first" READ, NULL),
    {"S = S + first\n" SCAN("S = d * S + k * v" READ), NULL},
    /* where and how it is read */
    LOOP(READ " S = d * S + k * v", NULL),
    LOOP("S = d * S" READ " S = S + k * v", NULL),
    LOOP("S = d * S + k * v y = sum(q * S, over key)", NULL),
    LOOP("S = d * S + k * v y = v @ S over value", NULL),
    LOOP("S = dk * S + k * v y = v @ S over value", NULL),
    LOOP("S = d * S + k * v y = q @ S over (key) + b", NULL),
    LOOP("S = d * S + k * v y = sum(S, over key)", NULL),
    LOOP("y = q @ (S + bonus * k * v) over key S = dk * S + k * v", NULL),
    LOOP("y = q @ (0.5 * S - bonus * kv) over key S = dk * S + k * v", NULL),
    LOOP("S = d * S + k * v y = tanh(q @ S over key) * (k @ S over key)", NULL),
    {SCAN("S = d * S + k * v") "y = q @ S over key\n", NULL},
    {"scan seq reverse { S = d * S + k * v" READ " }\n", NULL},
    {"scan seq reverse { S = dk * S" READ " S = S + k * v }\n", NULL},
    /* states without an outer product */
    LOOP("h = sigmoid(a) * h + b y = h", NULL),
    LOOP("y = (h + b) * a h = sigmoid(a) * h + b", NULL),
    LOOP("n = dk * n + k y = sum(q * n, over key) * a", NULL),
    LOOP("n = d * n + k S = d * S + k * v y = (q @ S over key) / (1 + abs(q @ n over key))", NULL),
    /* the delta rule */
    LOOP("S = S + part * (v - kn @ S over key) * kn" READ, NULL),
    LOOP("S = d * S S = S + part * (v - kn @ S over key) * kn" READ, NULL),
    LOOP("S = d * S - part * (kn @ S over key) * kn + part * v * kn" READ, NULL),
    LOOP("r = kn @ S over key S = d * S + kn * (part * (v - r)) y = q @ S over key + r", NULL),
    LOOP("S = dk * S + (kn @ S over key) * bonus + k * v" READ, NULL),
    LOOP("S = dk * S S = S - kn * (part * (kn @ S over key)) + kn * v" READ, NULL),
    {"scan seq reverse { S = d * S S = S + part * (v - kn @ S over key) * kn" READ " }\n", NULL},
    /* near misses */
    LOOP("S = tanh(a) * S + k * v" READ, "may be 0 or less"),
    LOOP("S = (1 - 1.5 * sigmoid(a)) * S + k * v" READ, "may be 0 or less"),
    LOOP("S = a * S + k * v" READ, "may be 0 or less"),
    LOOP("S = max(S, 0) + k * v" READ, "not linear in what it carried"),
    LOOP("S = 0.01 * S * S + 0.01 * k * v" READ, "not linear in what it carried"),
    LOOP("S = k * v - S" READ, "not linear in what it carried"),
    LOOP("S = sigmoid(mean(S, over (key, value))) * S + k * v" READ,
         "not linear in what it carried"),
    LOOP("S = S + tanh(v - kn @ S over key) * kn" READ, "not linear in it"),
    LOOP("S = S + 0.1 * (kn @ S over key) * (k @ S over key) * kn" READ, "not linear in it"),
    LOOP("S = S + 0.01 * (kn @ S over key) * (v @ S over value)" READ, "two factors"),
    LOOP("S = S - (kn @ S over key) * kn + (k @ S over key) * k" READ, "two terms"),
    LOOP("n = d * n + k S = d * S + (sum(n, over key)) * k * v" READ, "not linear in it"),
    LOOP("S = d * S + k * v y = sum(S * S, over key)", "whole state is read"),
    LOOP("S = d * S + k * v y = max(S, over key)", "whole state is read"),
    LOOP("h = max(sigmoid(a) * h + b, 0) y = h", "not linear in what it carried"),
};
enum { FORMS = sizeof forms / sizeof *forms };

static void open_form(Model *t, const Form *f)
{
    model_open(t);
    const char *text = arena_printf(t->a, "%s%s%s", head, f->body, tail);
    const uint32_t file = diag_add_file(t->m->diag, "form.mg", text, strlen(text));
    Diag *d = t->m->diag;
    Names *names = names_new(t->a);
    Ast *ast = mg_parse(t->a, names, d, file);
    t->m = ast ? mg_elaborate(t->a, names, d, ast, &(ElaborateOptions){0}) : NULL;
    if (!t->m)
        fail_msg("%s%s", f->body, model_messages(t));
    t->fn = module_fn(t->m, "train");
}

static Tensor64 *loss_and_gradients(Model *t)
{
    must_pass(t, pass_precision);
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    return run_fn(t, t->fn, inputs_for(t, t->fn, 5, -1, 1));
}

static void same_results(Model *t, const Tensor64 *x, Model *u, const Tensor64 *y, const Form *f,
                         int chunk)
{
    assert_int_equal(t->fn->results.n, u->fn->results.n);
    for (size_t r = 0; r < t->fn->results.n; r++)
        if (!(difference(&x[r], &y[r]) <= 1e-9))
            fail_msg("result %zu differs by %.1e in chunks of %d: %s", r, difference(&x[r], &y[r]),
                     chunk, f->body);
}

/* Chunks mean what the loop means, of every size. */
static void linear_forms(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 5, 12};
    for (int k = 0; k < FORMS; k++) {
        Model u;
        open_form(&u, &forms[k]);
        const Tensor64 *y = loss_and_gradients(&u);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            Model t;
            open_form(&t, &forms[k]);
            t.m->layout.chunk = sizes[s];
            must_pass(&t, pass_chunk);
            assert_int_equal(t.m->layout.scans.n, 1);
            const ScanForm *said = &t.m->layout.scans.data[0];
            if (!said->why != !forms[k].why || (said->why && !strstr(said->why, forms[k].why)))
                fail_msg("'%s' of: %s", said->why ? said->why : "", forms[k].body);
            if (!said->why && (said->chunk < 2 || said->chunk > sizes[s] || 12 % said->chunk))
                fail_msg("chunks of %d: %s", (int)said->chunk, forms[k].body);
            same_results(&t, loss_and_gradients(&t), &u, y, &forms[k], sizes[s]);
            model_close(&t);
        }
        model_close(&u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(linear_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
