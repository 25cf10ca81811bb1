/* test_written.c - attention that is written out: each form becomes the operation of a call, with
 * the same loss and gradients; what differs from it by a little stays as it is, with its own. */
#include "grammar/grammar.h"
#include "tests/passes/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char head[] = "dim batch = 2, seq = 6, vocab = 7, hidden = 4, heads = 2, group = 2, "
                           "head = 4, wide = 3, row = 9\n"
                           "model m(tokens[batch, seq] : token(vocab)) {\n"
                           "    table : param[vocab, hidden] ~ normal(1)\n"
                           "    wq : param[hidden, heads, group, head] ~ normal(1)\n"
                           "    wk : param[hidden, heads, head] ~ normal(1)\n"
                           "    wv : param[hidden, heads, wide] ~ normal(1)\n"
                           "    wo : param[heads, group, wide, hidden] ~ normal(1)\n"
                           "    pk : param[row, head] ~ normal(1)\n"
                           "    pv : param[row, wide] ~ normal(1)\n"
                           "    extra : param[heads, group] ~ normal(1)\n"
                           "    r : param[seq, group, head] ~ normal(1)\n"
                           "    dim t = seq\n"
                           "    far : param[heads, group, seq, t] ~ normal(1)\n"
                           "    near : param[heads, row] ~ normal(1)\n"
                           "    wf : param[head, seq, heads, group] ~ normal(1)\n"
                           "    ft : param[t, head] ~ normal(1)\n"
                           "    x = table[tokens]\n"
                           "    kr = pk * (mean(x, over seq) @ wk over hidden)\n"
                           "    vr = pv * (mean(x, over seq) @ wv over hidden)\n"
                           "    begin = document_start(tokens, along seq, separator = 3)\n"
                           "    q = x @ wq over hidden\n"
                           "    k = x @ wk over hidden\n"
                           "    v = x @ wv over hidden\n"
                           "    kt = k[seq -> t]\n"
                           "    vt = v[seq -> t]\n"
                           "    kw = x[seq -> t] @ wk over hidden\n"
                           "    vw = x[seq -> t] @ wv over hidden\n"
                           "    i = index(seq)\n"
                           "    j = index(t)\n"
                           "    s = q @ kt over head\n";
static const char tail[] =
    "    x = x + y @ wo over (heads, group, wide)\n"
    "    loss = mean(x * x * x) + mean(x) + 0 * (mean(i) + mean(j) + mean(begin)) + 0 * mean(s)"
    " + 0 * (mean(k) + mean(v) + mean(vt) + mean(kr) + mean(vr) + mean(kw) + mean(vw) + mean(r) + "
    "mean(extra) + mean(far) + mean(near) + mean(wf) + mean(ft))\n"
    "}\n"
    "train {\n"
    "    optimizer sgd()\n"
    "    lr constant(peak = 1, steps = 1)\n"
    "    precision f64\n"
    "}\n";

/* A program, and the call that it is; NULL: none. */
typedef struct Form {
    const char *written, *call;
} Form;

#define CALL(rest) "y = attention(q, k, v, along seq, over head" rest ")\n"
#define BIAS(rest) "y = attention(q, kt, vt, along seq, along t, over head, bias = " rest ")\n"
#define TIMES      " @ vt over t\n"
#define SOFTMAX(s) "y = softmax(" s ", over t)" TIMES
#define DOCUMENTS  "y = attention(q, k, v, begin, along seq, over head, causal)\n"

static const Form forms[] = {
    {SOFTMAX("s / 2"), CALL("")},
    {SOFTMAX("s * 0.25"), CALL(", scale = 0.25")},
    {SOFTMAX("s"), CALL(", scale = 1")},
    /* the scale of queries, of keys, of both */
    {"y = softmax((q / 2) @ kt over head, over t)" TIMES, CALL("")},
    {"y = softmax((0.5 * q) @ (kt / 4) over head, over t)" TIMES, CALL(", scale = 0.125")},
    {"y = softmax(q @ (k * 0.5)[seq -> t] over head, over t)" TIMES, CALL("")},
    {"y = softmax(-(-(s)) / 2, over t)" TIMES, CALL("")},
    {"y = vt @ softmax((kt @ q over head) / 2, over t) over t\n", CALL("")},
    /* causal */
    {SOFTMAX("select(j <= i, s / 2, -1e30)"), CALL(", causal")},
    {SOFTMAX("select(j > i, -1e9, s / 2)"), CALL(", causal")},
    {SOFTMAX("select(i >= j, s, -1e9) / 2"), CALL(", causal")},
    {SOFTMAX("select(i - j >= 0, s / 2, -1e9)"), CALL(", causal")},
    {SOFTMAX("select(j - i < 1, s / 2, -1e9)"), CALL(", causal")},
    {SOFTMAX("select(j < i + 1, s / 2, -1e9)"), CALL(", causal")},
    {SOFTMAX("select(j - 0.5 < i, s / 2, -1e9)"), CALL(", causal")},
    {SOFTMAX("select(2 * j <= 2 * i + 1, s / 2, -1e9)"), CALL(", causal")},
    {SOFTMAX("s / 2 + select(j <= i, 0, -1e9)"), CALL(", causal")},
    {SOFTMAX("select(j > i, -1e9, 0) + s / 2"), CALL(", causal")},
    {SOFTMAX("(s + select(j > i, -1e9, 0)) / 2"), CALL(", causal")},
    {SOFTMAX("s / 2 - 1e9 * select(j > i, 1, 0)"), CALL(", causal")},
    {"m = select(j <= i, 1, 0)\n" SOFTMAX("s / 2 + (1 - m) * -1e9"), CALL(", causal")},
    {"m = select(j <= i, 1, 0)\n" SOFTMAX("s * m / 2 - 1e10 * (1 - m)"), CALL(", causal")},
    {"m = select(j <= i, 1, 0)\n" SOFTMAX("select(m > 0.5, s / 2, -1e9)"), CALL(", causal")},
    {SOFTMAX("s / 2 + min(0, (i - j) * 1e9)"), CALL(", causal")},
    /* windows */
    {SOFTMAX("select(i - j < 3, select(j <= i, s / 2, -1e9), -1e9)"), CALL(", causal, window = 3")},
    {SOFTMAX("select(j <= i, select(j > i - 3, s / 2, -1e9), -1e30)"),
     CALL(", causal, window = 3")},
    {SOFTMAX("s / 2 + select(j <= i, select(i - j < 3, 0, -1e9), -1e9)"),
     CALL(", causal, window = 3")},
    {SOFTMAX("select(abs(i - j - 1) <= 1, s / 2, -1e9)"), CALL(", causal, window = 3")},
    {SOFTMAX("select(i - j < 6, select(j <= i, s / 2, -1e9), -1e9)"), CALL(", causal")},
    /* caps */
    {SOFTMAX("tanh(s / 2 / 3) * 3"), CALL(", cap = 3")},
    {SOFTMAX("3 * tanh(s / 6)"), CALL(", cap = 3")},
    {SOFTMAX("select(j <= i, 3 * tanh(s / 6), -1e9)"), CALL(", causal, cap = 3")},
    {SOFTMAX("select(j <= i, tanh(s / 6), -1e9) * 3"), CALL(", causal, cap = 3")},
    /* documents */
    {SOFTMAX("select(j >= begin, select(j <= i, s / 2, -1e9), -1e9)"), DOCUMENTS},
    {SOFTMAX("select(j < begin, -1e9, select(j <= i, s / 2, -1e9))"), DOCUMENTS},
    {SOFTMAX("select(j <= i, s / 2, -1e9) + select(begin <= j, 0, -1e9)"), DOCUMENTS},
    /* softmax */
    {"e = exp(s / 2 - max(s / 2, over t))\ny = (e / sum(e, over t))" TIMES, CALL("")},
    {"e = exp(s / 2)\ny = (e / sum(e, over t))" TIMES, CALL("")},
    {"y = (exp(s / 2) / sum(exp(s / 2), over t))" TIMES, CALL("")},
    {"e = exp(s / 2 - stop(max(s / 2, over t)))\ny = (e @ vt over t) / sum(e, over t)\n", CALL("")},
    {"e = exp(s / 2)\ny = (e @ vt over t) * (1 / sum(e, over t))\n", CALL("")},
    {"e = exp(select(j <= i, s / 2, -1e9))\ny = (1 / sum(e, over t) * e)" TIMES, CALL(", causal")},
    /* another sequence: keys that were never along that of the queries */
    {"y = softmax(q @ kr over head, over row)"
     " @ vr over row\n",
     "y = attention(q, kr, vr, along seq, along row, over head, scale = 1)\n"},
    {"y = softmax(2 * tanh((kr * 0.25) @ q over head), over row)"
     " @ vr over row\n",
     "y = attention(q, kr, vr, along seq, along row, over head, cap = 2)\n"},
    {"y = softmax((q / 2) @ kw over head, over t) @ vw over t\n",
     "y = attention(q, kw, vw, along seq, along t, over head)\n"},
    {"y = softmax(select(j <= i, (q / 2) @ kw over head, -1e9), over t) @ vw over t\n",
     CALL(", causal")},
    /* queries that lack dims of the keys */
    {"y = softmax(r @ kr over head, over row) @ vr over row\n",
     "y = attention(r, kr, vr, along seq, along row, over head, scale = 1)\n"},
    /* one sequence whose keys have a name of their own */
    {SOFTMAX("select(j <= i, s / 2, -1e30)"),
     "y = attention(q, kt, vt, along seq, along t, over head, causal)\n"},
    {"y = softmax(select(index(row) <= i, q @ kr over head, -1e9), over row) @ vr over row\n",
     "y = attention(q, kr, vr, along seq, along row, over head, scale = 1, "
     "bias = select(index(row) <= i, 0, -1e30))\n"},
    /* near misses: of another sequence */
    {"y = softmax(select(index(row) < 8, q @ kr over head, -1e9), over row) @ vr over row\n", NULL},
    /* a sink */
    {"e = exp(s / 2)\ny = (e / (sum(e, over t) + exp(extra)))" TIMES, CALL(", sink = extra")},
    {"top = max(max(s / 2, over t), extra)\ne = exp(s / 2 - top)\n"
     "y = (e / (exp(extra - top) + sum(e, over t)))" TIMES,
     CALL(", sink = extra")},
    {"top = max(s / 2, over t)\ne = exp(s / 2 - top)\n"
     "y = (e @ vt over t) / (exp(0.5 - top) + sum(e, over t))\n",
     CALL(", sink = 0.5")},
    /* near misses: of a sink */
    {"e = exp(s / 2)\ny = (e / (sum(e, over t) + exp(extra) + exp(extra)))" TIMES, NULL},
    {"e = exp(s / 2)\ny = (e / (sum(e, over t) - exp(extra)))" TIMES, NULL},
    {"top = max(s / 2, over t)\ne = exp(s / 2 - top)\n"
     "y = (e / (exp(extra) + sum(e, over t)))" TIMES,
     NULL},
    {"top = max(s / 2, over t)\ne = exp(s / 2 - top)\n"
     "y = (e / (exp(extra - top / 2) + sum(e, over t)))" TIMES,
     NULL},
    /* a bias */
    {SOFTMAX("s / 2 + far"), BIAS("far")},
    {SOFTMAX("far + s / 2"), BIAS("far")},
    {SOFTMAX("(s - far) / 2"), BIAS("far * -0.5")},
    {SOFTMAX("-(far - s / 2)"), BIAS("-far")},
    {SOFTMAX("s / 2 + far * far + sum(far, over seq)"), BIAS("far * far + sum(far, over seq)")},
    {SOFTMAX("select(j <= i, s / 2 + far, -1e9)"), BIAS("far, causal")},
    {SOFTMAX("select(j <= i, s / 2, -1e9) + far"), BIAS("far, causal")},
    {SOFTMAX("select(i - j < 3, select(j <= i, 3 * tanh(s / 6) + far, -1e9), -1e9)"),
     BIAS("far, causal, window = 3, cap = 3")},
    {SOFTMAX("s / 2 + (j - i) * 0.5"), BIAS("(j - i) * 0.5")},
    {SOFTMAX("s / 2 - abs(i - j) * exp(-index(heads))"), BIAS("-abs(i - j) * exp(-index(heads))")},
    {SOFTMAX("select(j <= i, s / 2 - 0.3 * (i - j) * index(group), -1e9)"),
     BIAS("-0.3 * (i - j) * index(group), causal")},
    {SOFTMAX("s / 2 + select(j <= i, 1, -1e9)"), BIAS("select(j <= i, 1, -1e9), causal")},
    {SOFTMAX("s / 2 + q @ kt over head"), BIAS("s")},
    {SOFTMAX("ft @ wf over head + s / 2"), BIAS("ft @ wf over head")},
    {"e = exp(s / 2 + x @ wk over hidden @ wf over head)\n"
     "y = (e / (sum(e, over t) + exp(extra)))" TIMES,
     BIAS("x @ wk over hidden @ wf over head, sink = extra")},
    {"e = exp(s / 2 + far)\ny = (e / (sum(e, over t) + exp(extra)))" TIMES,
     BIAS("far, sink = extra")},
    {"y = softmax(q @ kr over head + near, over row) @ vr over row\n",
     "y = attention(q, kr, vr, along seq, along row, over head, scale = 1, bias = near)\n"},
    /* masks that are not causal are one, as far as each query sees a key */
    {SOFTMAX("select(j <= i + 1, s / 2, -1e9)"), BIAS("select(j <= i + 1, 0, -1e30)")},
    {SOFTMAX("select(j >= i, s / 2, -1e9)"), BIAS("select(j >= i, 0, -1e30)")},
    {SOFTMAX("select(i > j, -1e9, s / 2)"), BIAS("select(i > j, -1e30, 0)")},
    {SOFTMAX("select(abs(i - j) < 3, s / 2, -1e9)"), BIAS("select(abs(i - j) < 3, 0, -1e30)")},
    {SOFTMAX("select(i - j < 3, s / 2, -1e9)"), BIAS("select(i - j < 3, 0, -1e30)")},
    {SOFTMAX("select(i - j < 3, select(j - i < 2, s / 2 + far, -1e9), -1e9)"),
     BIAS("far + select(i - j < 3, select(j - i < 2, 0, -1e30), -1e30)")},
    /* near misses: rows that see no key, masks that are not known */
    {SOFTMAX("select(j < i, s / 2 + far, -1e9)"), NULL},
    {SOFTMAX("select(far > 0, s / 2, -1e9)"), NULL},
    {SOFTMAX("far - s / 2 * far"), NULL},
    {SOFTMAX("3 * tanh((s + far) / 6)"), NULL},
    {SOFTMAX("select(j <= i, s / 2, far)"), NULL},
    {SOFTMAX("select(j < i, s / 2, -1e9)"), NULL},
    {SOFTMAX("select(j < i + 0.3, s / 2, -1e9)"), NULL}, /* which f32 rounds, far along the dim */
    {SOFTMAX("select(j <= 2 * i, s / 2, -1e9)"), NULL},
    {SOFTMAX("select(j <= 3, s / 2, -1e9)"), NULL},
    {SOFTMAX("select(j <= i, s / 2, 0)"), NULL},
    {SOFTMAX("select(j <= i, s / 2, -1)"), NULL},
    {SOFTMAX("select(j <= i, s, -1e9) * 1e-9"), NULL},
    {SOFTMAX("select(j <= i, s, -1e9) / -2"), NULL},
    {SOFTMAX("select(j <= i, s, 0) / 2"), NULL},
    {"m = select(j <= i, 1, 0)\n" SOFTMAX("s * m / 2"), NULL},
    {"m = select(j <= i, 1, 0.5)\n" SOFTMAX("s * m / 2 + select(j < i, 0, -1e9)"), NULL},
    {"m = select(j <= i, 1, 0)\n" SOFTMAX("(s + (1 - m) * -1e9) * m / 2"), NULL},
    {SOFTMAX("tanh(select(j <= i, s / 2, -1e9)) * 3"), NULL},
    {SOFTMAX("tanh(tanh(s / 2) * 2) * 3"), NULL},
    {SOFTMAX("tanh(s / 2) * -3"), NULL},
    {SOFTMAX("tanh(s / 2 + 1) * 3"), NULL},
    {SOFTMAX("select(j > begin, select(j <= i, s / 2, -1e9), -1e9)"), NULL},
    {SOFTMAX("select(j >= i - begin, select(j <= i, s / 2, -1e9), -1e9)"), NULL},
    {SOFTMAX("select(j >= begin + 1, select(j <= i, s / 2, -1e9), -1e9)"), NULL},
    /* near misses: another softmax */
    {"e = exp(s / 2)\ny = (e / sum(e, over seq))" TIMES, NULL},
    {"e = exp(s / 2)\ny = (e / (sum(e, over t) + 1))" TIMES, NULL},
    {"e = exp(s / 2)\ny = (e / sum(exp(s / 3), over t))" TIMES, NULL},
    {"e = exp(s / 2 - max(s / 2, over group))\ny = (e / sum(e, over t))" TIMES, NULL},
    {"p = softmax(s / 2, over t)\ny = (p + 0.1)" TIMES, NULL},
    {"p = softmax(s / 2, over t)\ny = p @ vt over t * (1 + 0 * mean(p))\n", NULL},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void open_form(Model *t, const char *body, bool inlined)
{
    model_open(t);
    const char *text = arena_printf(t->a, "%s%s%s", head, body, tail);
    const uint32_t file = diag_add_file(t->m->diag, "form.mg", text, strlen(text));
    Diag *d = t->m->diag;
    Names *names = names_new(t->a);
    Ast *ast = mg_parse(t->a, names, d, file);
    t->m =
        ast ? mg_elaborate(t->a, names, d, ast, &(ElaborateOptions){.inline_composites = inlined})
            : NULL;
    if (!t->m)
        fail_msg("%s%s", body, model_messages(t));
    t->fn = module_fn(t->m, "train");
}

static int count_attention(const Model *t)
{
    int n = 0;
    for (size_t k = 0; k < t->fn->body->ins.n; k++)
        n += t->fn->body->ins.data[k]->op == OP_attention;
    return n;
}

static const Ins *the_attention(const Model *t)
{
    for (size_t k = 0; k < t->fn->body->ins.n; k++)
        if (t->fn->body->ins.data[k]->op == OP_attention)
            return t->fn->body->ins.data[k];
    return NULL;
}

static Tensor64 *loss_and_gradients(Model *t)
{
    must_pass(t, pass_precision);
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    must_pass(t, pass_sink);
    return run_fn(t, t->fn, inputs_for(t, t->fn, 5, -1, 1));
}

/* Every form means what it meant, and is the call. */
static void written_forms(void **state)
{
    (void)state;
    for (int k = 0; k < FORMS; k++) {
        Model t, u;
        open_form(&t, forms[k].written, false);
        open_form(&u, forms[k].written, false);
        must_pass(&t, pass_attention);
        if (count_attention(&t) != (forms[k].call != NULL))
            fail_msg("%d attention in: %s", count_attention(&t), forms[k].written);
        if (forms[k].call) {
            Model c;
            open_form(&c, forms[k].call, false);
            const Ins *x = the_attention(&t), *y = the_attention(&c);
            if (!y)
                fail_msg("no operation: %s", forms[k].call);
            Attrs a = x->attrs;
            if (a.scale - y->attrs.scale > 1e-12 || y->attrs.scale - a.scale > 1e-12)
                fail_msg("a scale of %g in: %s", a.scale, forms[k].written);
            if (a.causal != y->attrs.causal || a.window != y->attrs.window ||
                a.within != y->attrs.within || a.sunk != y->attrs.sunk ||
                a.biased != y->attrs.biased || a.keys.size != y->attrs.keys.size ||
                a.cap - y->attrs.cap > 1e-12 || y->attrs.cap - a.cap > 1e-12)
                fail_msg("another mask or cap in: %s", forms[k].written);
            for (uint32_t n = 0; n < 3; n++)
                assert_true(type_equal(type_of(t.m, x->in[n]), type_of(c.m, y->in[n])));
            assert_true(type_equal(type_of(t.m, x->out[0]), type_of(c.m, y->out[0])));
            model_close(&c);
        }
        Tensor64 *x = loss_and_gradients(&t), *y = loss_and_gradients(&u);
        assert_int_equal(t.fn->results.n, u.fn->results.n);
        for (size_t r = 0; r < t.fn->results.n; r++)
            if (difference(&x[r], &y[r]) > 1e-9)
                fail_msg("result %zu differs by %.1e: %s", r, difference(&x[r], &y[r]),
                         forms[k].written);
        model_close(&t);
        model_close(&u);
    }
}

/* The definition of a call is recognised as the call. */
static void definitions(void **state)
{
    (void)state;
    for (int k = 0; k < FORMS; k++) {
        if (!forms[k].call)
            continue;
        Model t;
        open_form(&t, forms[k].call, true);
        must_pass(&t, pass_attention);
        if (count_attention(&t) != 1)
            fail_msg("not recognised: the definition of %s", forms[k].call);
        model_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_forms),
                                       cmocka_unit_test(definitions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
