/* test_generate.c - @prefill and @decode, call after call, give the logits of @sample, which
 * computes the whole window for each token: for shipped models made small, for every form in which
 * a model may look at positions before, for prompts of any lengths that take turns; in f64. What
 * looks at later positions is refused, with the place in the source. */
#include "tests/passes/generated.h"
#include "tests/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Small {
    const char *file;
    const char *define[12];
} Small;

static const Small models[] = {
    {"gpt2_124m.mg",
     {"layers=2", "hidden=6", "heads=2", "head=4", "ffn=8", "vocab=11", "seq=9", "batch=4"}},
    {"llama_mini.mg",
     {"layers=3", "hidden=4", "kv_heads=2", "head=2", "ffn=5", "vocab=7", "seq=9", "batch=16"}},
    {"llama3_8b.mg",
     {"layers=2", "hidden=6", "kv_heads=2", "group=2", "head=4", "ffn=5", "vocab=7", "seq=9",
      "batch=4"}},
    {"qwen2_0_5b.mg",
     {"layers=2", "hidden=6", "kv_heads=2", "group=2", "head=4", "ffn=5", "vocab=7", "seq=9",
      "batch=4"}},
    {"qwen3_0_6b.mg",
     {"layers=2", "hidden=6", "kv_heads=2", "group=2", "head=4", "ffn=5", "vocab=7", "seq=9",
      "batch=4"}},
    {"mistral_7b.mg",
     {"layers=2", "hidden=6", "kv_heads=2", "group=2", "head=4", "ffn=5", "vocab=7", "seq=9",
      "batch=4"}},
    {"gemma2.mg", {"vocab=13", "seq=16", "batch=8"}},
    {"gemma3.mg", {"vocab=13", "seq=16", "batch=8"}},
    {"mixtral_mini.mg", {"vocab=13", "seq=16", "batch=8"}},
    {"deepseek.mg", {"vocab=13", "seq=16", "batch=8"}},
    {"deepseek_v3.mg", {"vocab=13", "seq=16", "batch=8"}},
    {"mamba2.mg", {"vocab=13", "seq=16", "batch=8"}},
    {"bamba.mg", {"vocab=13", "seq=16", "batch=8"}},
};
enum { MODELS = sizeof models / sizeof *models };
enum {
    PARTS = SANITIZED ? 6 : 2
}; /* of these models and forms, each with all logits and with some, one in so many */

static int programs, cuts; /* so many were run; so many times texts were cut back, in all tests */

/* head: see generated_open. */
static void same_logits(const char *path, const char *text, const char *const *define, int64_t head)
{
    Model t, u;
    if (!generated_open(&t, path, text, define, GENERATED_TEXTS, head) ||
        !generated_open(&u, path, text, define, 0, 0))
        fail_msg("%s: %s", path, model_messages(&t));
    const Generated g = generated_compare(&t, &u, 14, 5);
    if (!(g.worst < 1e-12))
        fail_msg("%s: logits are off by %.1e", path, g.worst);
    assert_true(g.tokens > 8);
    programs++;
    cuts += g.cuts;
    model_close(&t);
    if (!generated_open_shared(&t, path, text, define, head))
        fail_msg("%s: %s", path, model_messages(&t));
    const Generated shared = generated_compare_shared(&t, &u, 6, 3);
    if (!(shared.worst < 1e-12))
        fail_msg("%s: logits behind a prompt that texts share are off by %.1e", path, shared.worst);
    assert_true(shared.tokens > 8);
    model_close(&t);
    model_close(&u);
}

static void shipped(void **state)
{
    (void)state;
    for (int k = 0; k < MODELS; k++) {
        char path[512], text[1 << 16];
        snprintf(path, sizeof path, "%s/%s", MODELS_DIR, models[k].file);
        FILE *f = fopen(path, "rb");
        if (!f)
            fail_msg("cannot read %s", path);
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        for (int h = 0; h < 2; h++) {
            if (sampled(2 * k + h, PARTS))
                same_logits(models[k].file, text, models[k].define, h);
        }
    }
}

/* ---- forms -------------------------------------------------------------------------------------
 */

static const char head[] = "dim seq = 12, batch = 4, vocab = 7, hidden = 6, heads = 2, head = 3\n"
                           "dim taps = 3, layers = 2, experts = 3, best = 2, slot = 3, rows = 24\n"
                           "model m(tokens[batch, seq] : token(vocab)) {\n"
                           "    table : param[vocab, hidden] ~ normal(1)\n"
                           "    place : param[seq, hidden] ~ normal(1)\n"
                           "    w : param[taps, hidden] ~ normal(1)\n"
                           "    wq : param[hidden, heads, head] ~ normal(1)\n"
                           "    wk : param[hidden, head] ~ normal(1)\n"
                           "    near : param[heads, seq, seq2] ~ normal(1)\n"
                           "    router : param[hidden, experts] ~ normal(1)\n"
                           "    we : param[experts, hidden, wide] ~ normal(1)\n"
                           "    down : param[hidden, latent] ~ normal(1)\n"
                           "    uk : param[latent, heads, head] ~ normal(1)\n"
                           "    uv : param[latent, heads, wide] ~ normal(1)\n"
                           "    x = tanh(table[tokens])\n"
                           "    q = x @ wq over hidden\n"
                           "    k = x @ wk over hidden\n";
static const char tail[] =
    "    loss = cross_entropy(y @ table over hidden, next(tokens))\n"
    "         + 0.001 * (sum(place) + sum(w) + sum(near) + sum(wq) + sum(wk)"
    " + sum(router) + sum(we) + sum(k) + sum(q) + sum(down) + sum(uk) + sum(uv))\n}\n"
    "train {\n    optimizer sgd()\n    lr constant(peak = 1, steps = 1)\n}\n";

static const char *const forms[] = {
    "y = x + place",
    "y = x[seq - 1] + 0.1 * x[seq - 3]",
    "y = sum(x[seq - taps] * w, over taps)",
    "y = x * cos(index(seq) * 0.3)",
    "z = tanh(x[seq - 2]) + place\n y = z[seq - 1] * x",
    "y = x + sum(attention(q, k, k, along seq, over head, causal), over (heads, head))",
    "y = x + sum(attention(q, k, k, along seq, over head, causal, window = 4, cap = 2), over "
    "(heads, head))",
    /* Rings that wrap: of one place, of fewer than a prompt's part has, as many, and more. */
    "y = x + sum(attention(q, k, k, along seq, over head, causal, window = 1), over (heads, head))",
    "y = x + sum(attention(q, k, k, along seq, over head, causal, window = 2), over (heads, head))",
    "y = x + sum(attention(q, k, k, along seq, over head, causal, window = 7, sink = 0.2), over "
    "(heads, head))",
    "y = x + sum(attention(q, k, k, along seq, over head, causal, window = 11), over (heads, "
    "head))",
    "y = x\n repeat layers {\n"
    " u : param[hidden, head] ~ normal(1)\n"
    " y = tanh(y + sum(attention(q, (y @ u over hidden) * cos(index(seq) * 0.3),"
    " y @ u over hidden, along seq, over head, causal, window = 3), over (heads, head)))\n}\n",
    /* Heads that are made of a shorter vector. */
    "z = tanh(x @ down over hidden)\n"
    "y = x + sum(attention(q, z @ uk over latent, z @ uv over latent, along seq, over head, "
    "causal), over heads)[wide -> hidden]",
    "z = tanh(x @ down over hidden)\n"
    "y = x + sum(attention(q, z @ uk over latent, z @ uv over latent, along seq, over head, "
    "causal, window = 3, cap = 2, sink = 0.3), over heads)[wide -> hidden]",
    "z = tanh(x @ down over hidden)\n"
    "u = join((z @ uk over latent)[head = 1 .. 3 -> part], rope(x, along seq, over hidden), (part, "
    "hidden) -> turn)\n"
    "r = join(q[head = 1 .. 3 -> part], x, (part, hidden) -> turn)\n"
    "y = x + sum(attention(r, u, z @ uv over latent, along seq, over turn, causal), over "
    "heads)[wide -> hidden]",
    "y = x + sum(attention(q, k[seq -> seq2], k[seq -> seq2], along seq, along seq2, over head, "
    "causal,"
    " bias = near), over (heads, head))",
    "y = rope(x, along seq, over hidden) + sum(attention(q, k, k, along seq, over head, causal,"
    " sink = 0.3, window = 3), over (heads, head))",
    "far = 0.1 * (index(seq2) - index(seq))\n"
    "y = x + sum(attention(q, k[seq -> seq2], k[seq -> seq2], along seq, along seq2, over head, "
    "causal,"
    " bias = far), over (heads, head))",
    "s = expand(0, over (batch, hidden))\n scan seq {\n s = tanh(0.5 * s + x)\n y = s * "
    "index(seq)\n}\n",
    "s = expand(1, over (batch, hidden))\n d = sigmoid(x)\n scan seq {\n s = d * s + x\n y = "
    "s\n}\n",
    "s = expand(0, over (hidden))\n scan seq {\n s = 0.9 * s + index(seq)\n y = s + x\n}\n",
    "y = x\n repeat layers {\n u : param[hidden] ~ normal(1)\n y = tanh(y * u + y[seq - 1])\n}\n",
    "y = x\n repeat layers {\n p : param[seq, hidden] ~ normal(1)\n"
    " t = expand(0, over (batch, hidden))\n scan seq {\n t = tanh(t + y + p)\n s = t\n}\n y = y + "
    "s\n}\n",
    "chosen = top(softmax(x @ router over hidden, over experts), experts -> best)\n"
    "z = dispatch(x, chosen, seq -> (experts, slot))\n"
    "y = x + combine(tanh(z @ we over hidden)[wide -> hidden], chosen, (experts, slot) -> seq)",
    "chosen = top(softmax(x @ router over hidden, over experts), experts -> best)\n"
    "z = dispatch(x, chosen, seq -> rows)\n"
    "y = x + combine(grouped(z, we, chosen, experts -> rows, over hidden)[wide -> hidden], chosen,"
    " rows -> seq)",
};
enum { FORMS = sizeof forms / sizeof *forms };

static const char *program(Arena *a, const char *form)
{
    return arena_printf(a,
                        "dim seq2 = seq, head2 = 3, wide = hidden, latent = 4, part = 2, turn = "
                        "part + hidden\n%s%s\n%s",
                        head, form, tail);
}

static void every_form(void **state)
{
    (void)state;
    Arena *a = arena_new();
    for (int k = 0; k < FORMS; k++) {
        for (int h = 0; h < 2; h++) {
            if (sampled(2 * k + h, PARTS))
                same_logits(forms[k], program(a, forms[k]), NULL, h);
        }
    }
    arena_free(a);
}

/* Numbers that a text keeps: of a window, and of a latent vector, no more than are needed. */
static const struct {
    const char *form;
    int64_t kept;
} keeps[] = {
    {"y = x + sum(attention(q, k, k, along seq, over head, causal), over (heads, head))",
     2 * 12 * 3},
    {"y = x + sum(attention(q, k, k, along seq, over head, causal, window = 4), over (heads, "
     "head))",
     2 * 4 * 3},
    {"y = x + sum(attention(q, k, k, along seq, over head, causal, window = 12), over (heads, "
     "head))",
     2 * 12 * 3},
    {"z = tanh(x @ down over hidden)\n"
     "y = x + sum(attention(q, z @ uk over latent, z @ uv over latent, along seq, over head, "
     "causal), over heads)[wide -> hidden]",
     12 * 4},
    {"z = tanh(x @ down over hidden)\n"
     "y = x + sum(attention(q, z @ uk over latent, z @ uv over latent, along seq, over head, "
     "causal, window = 5), over heads)[wide -> hidden]",
     5 * 4},
    /* All heads have the same keys and values, of 3 and 4 numbers, that are made of 6. */
    {"u = x @ down over hidden\n"
     "y = x + sum(attention(q, k, u, along seq, over head, causal), over (heads, latent))",
     12 * 6},
};
enum { KEEPS = sizeof keeps / sizeof *keeps };

static void caches_are_small(void **state)
{
    (void)state;
    Arena *a = arena_new();
    for (int k = 0; k < KEEPS; k++) {
        Model t;
        assert_true(generated_open(&t, "keeps.mg", program(a, keeps[k].form), NULL, 2, 0));
        const char *const fns[] = {"prefill", "decode"};
        for (int f = 0; f < 2; f++) {
            const Fn *fn = module_fn(t.m, fns[f]);
            int64_t kept = 0;
            for (size_t n = 0; n < fn->args.n; n++)
                if (fn->args.data[n].role == ARG_cache)
                    kept += type_elements(type_of(t.m, fn->body->args.data[n])) / 2;
            if (kept != keeps[k].kept)
                fail_msg("%s: a text keeps %lld numbers, not %lld", keeps[k].form, (long long)kept,
                         (long long)keeps[k].kept);
        }
        model_close(&t);
    }
    arena_free(a);
}

/* Forms that look at later positions, and a part of what is said. */
static const char *const refused[][2] = {
    {"y = x - mean(x, over seq)", "it mixes positions"},
    {"y = x[seq + 1]", "it reads later positions"},
    {"y = x + sum(attention(q, k, k, along seq, over head), over (heads, head))",
     "later positions"},
    {"s = expand(0, over (batch, hidden))\n scan seq reverse {\n s = tanh(s + x)\n y = s\n}\n",
     "from the last position to the first"},
    {"y = x * sum(sum(x[seq -> seq2] * 0.1, over seq2), over hidden)", "positions"},
    {"y = x + x[seq = 3]", "it mixes positions"},
    {"y = x + max(x, over seq)", "it mixes positions"},
    {"y = x - mean(x, over batch)", "it mixes texts"},
    {"y = x * index(batch)", "it tells texts apart"},
    {"y = x * uniform(over batch)", "it tells texts apart"},
    {"y = expand(1, over (batch, seq)) * w[taps = 0]", "do not depend on the tokens"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

static void later_positions_are_refused(void **state)
{
    (void)state;
    Arena *a = arena_new();
    for (int k = 0; k < REFUSED; k++) {
        Model t;
        assert_false(generated_open(&t, "refused.mg", program(a, refused[k][0]), NULL, 2, 0));
        const char *said = model_messages(&t);
        if (!strstr(said, "MG0535") || !strstr(said, refused[k][1]) || !strstr(said, "refused.mg:"))
            fail_msg("%s: said %s", refused[k][0], said);
        model_close(&t);
    }
    arena_free(a);
}

/* Of the programs above. */
static void some_were_cut_back(void **state)
{
    (void)state;
    assert_true(programs >= 12 && cuts > programs / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped), cmocka_unit_test(every_form),
                                       cmocka_unit_test(some_were_cut_back),
                                       cmocka_unit_test(caches_are_small),
                                       cmocka_unit_test(later_positions_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
