/* meaning.c - what elaborated programs compute, by the reference interpreter, against plain C.
 *
 * The llama of models/ with small dims is written here a second time, as loops over arrays; the
 * functions of the prelude one by one. Beyond that: the ops of attention and cross-entropy agree
 * with their definitions, one row of logits with the loss, a padded model with the plain one. */
#include "grammar/grammar.h"
#include "ir/interpret.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct World {
    Arena *arena;
    Names *names;
    Diag *diag;
    Module *module;
} World;

static const char train_block[] = "train { optimizer sgd()  lr 0.1 }\n";

static World elaborate(const char *text, size_t ndefine, const char *const *define,
                       bool inline_composites, const char *layout)
{
    World w = {.arena = arena_new()};
    w.names = names_new(w.arena);
    w.diag = diag_new(w.arena, stderr, false);
    uint32_t file = diag_add_file(w.diag, "test.mg", text, strlen(text));
    Ast *ast = mg_parse(w.arena, w.names, w.diag, file);
    assert_non_null(ast);
    ElaborateOptions o = {.define = define,
                          .ndefine = ndefine,
                          .inline_composites = inline_composites,
                          .layout = layout};
    w.module = mg_elaborate(w.arena, w.names, w.diag, ast, &o);
    assert_non_null(w.module);
    assert_int_equal(ir_verify(w.module, stderr), 0);
    return w;
}

static char *read_model(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s", MGC_SOURCE, name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char *text = calloc(1, 1 << 16);
    assert_true(fread(text, 1, (1 << 16) - 1, in) > 0);
    fclose(in);
    return text;
}

/* Element e of the tensor called `name`: about standard normal, the same in every program. */
static double element(const char *name, size_t e)
{
    double sum = 0;
    for (uint64_t i = 0; i < 6; i++)
        sum += ir_random(
            7, i, strlen(name) * 131 + (uint64_t)name[0] * 7 + (uint64_t)name[strlen(name) - 1], e);
    return (sum - 3) * 1.41;
}

static int token(size_t sequence, size_t position, int64_t vocab)
{
    return (int)((sequence * 31 + position * position * 7 + position * 3 + 5) % (size_t)vocab);
}

/* A parameter's arguments: element numbers run over its valid part, so padding changes nothing. */
static void fill_param(const Tensor *t, const char *name, double *data, double scale)
{
    int64_t index[MAX_RANK] = {0}, n = type_elements(&t->type);
    size_t e = 0;
    for (int64_t at = 0; at < n; at++) {
        bool valid = true;
        for (int d = 0; d < t->type.rank; d++)
            valid &= index[d] < t->valid[d];
        data[at] = valid ? scale * element(name, e++) : 0;
        for (int d = t->type.rank - 1; d >= 0 && ++index[d] == t->type.dims[d].size; d--)
            index[d] = 0;
    }
}

/* Runs a function on made-up arguments; `data` of its first result. */
static const double *run(World *w, const char *fn_name, int pos, double scale)
{
    const Module *m = w->module;
    const Fn *fn = module_fn(m, fn_name);
    assert_non_null(fn);
    size_t n = fn->args.n;
    Tensor64 *args = NEW_ARRAY(w->arena, Tensor64, n);
    for (size_t i = 0; i < n; i++) {
        args[i].type = *type_of(m, fn->body->args.data[i]);
        int64_t count = type_elements(&args[i].type);
        args[i].data = NEW_ARRAY(w->arena, double, count);
        if (fn->args.data[i].role == ARG_param) {
            const Tensor *t = &m->tensors.data[fn->args.data[i].tensor];
            fill_param(t, name_str(m->names, t->name), args[i].data, scale);
        } else if (fn->args.data[i].role == ARG_tokens) {
            int64_t window = args[i].type.dims[1].size;
            for (int64_t k = 0; k < count; k++)
                args[i].data[k] = token((size_t)(k / window), (size_t)(k % window), m->vocab);
        } else if (fn->args.data[i].role == ARG_pos) {
            args[i].data[0] = pos;
        } else if (fn->args.data[i].role == ARG_filled) {
            args[i].data[0] = (double)(m->layout.microbatch * mesh_batch_ranks(m));
        }
    }
    Tensor64 *results = NEW_ARRAY(w->arena, Tensor64, fn->results.n);
    ir_interpret(m, fn, args, results, w->arena, false);
    return results[0].data;
}

/* ---- functions of the prelude ------------------------------------------------------------- */

enum { SEQ = 3, WIDTH = 4 };

/* The sum over a probe of f(x), where x[seq, width] and probe[seq, width] are parameters. */
static double probed(const char *f)
{
    char text[2048];
    snprintf(text, sizeof text,
             "dim batch = 1, seq = %d, vocab = 8, width = %d\n"
             "model m(tokens[batch, seq] : token(vocab)) {\n"
             "  x : param[seq, width] = 0\n  y : param[seq, width] = 0\n  g : param[width] = 0\n"
             "  b : param[width] = 0\n  probe : param[seq, width] = 0\n"
             "  loss = sum((%s) * probe) + 0 * (sum(y) + sum(g) + sum(b) + sum(x))\n}\n%s",
             SEQ, WIDTH, f, train_block);
    World w = elaborate(text, 0, NULL, false, NULL);
    double r = run(&w, "eval", 0, 1)[0];
    arena_free(w.arena);
    return r;
}

typedef double Cell(const double *row, int s, int i);

static double expected(Cell *cell)
{
    double sum = 0;
    for (int s = 0; s < SEQ; s++) {
        double row[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            row[i] = element("x", (size_t)(s * WIDTH + i));
        for (int i = 0; i < WIDTH; i++)
            sum += cell(row, s, i) * element("probe", (size_t)(s * WIDTH + i));
    }
    return sum;
}

static double relu(const double *row, int s, int i)
{
    (void)s;
    return row[i] > 0 ? row[i] : 0;
}

static double silu(const double *row, int s, int i)
{
    (void)s;
    return row[i] / (1 + exp(-row[i]));
}

static double gelu(const double *row, int s, int i)
{
    (void)s;
    return row[i] * 0.5 * erfc(-row[i] / sqrt(2));
}

static double gelu_tanh(const double *row, int s, int i)
{
    (void)s;
    double x = row[i];
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
}

static double softmax(const double *row, int s, int i)
{
    (void)s;
    double sum = 0;
    for (int k = 0; k < WIDTH; k++)
        sum += exp(row[k]);
    return exp(row[i]) / sum;
}

static double rmsnorm(const double *row, int s, int i)
{
    (void)s;
    double sum = 0;
    for (int k = 0; k < WIDTH; k++)
        sum += row[k] * row[k];
    return row[i] / sqrt(sum / WIDTH + 0.125) * element("g", (size_t)i);
}

static double layernorm(const double *row, int s, int i)
{
    (void)s;
    double mean = 0, var = 0;
    for (int k = 0; k < WIDTH; k++)
        mean += row[k] / WIDTH;
    for (int k = 0; k < WIDTH; k++)
        var += (row[k] - mean) * (row[k] - mean) / WIDTH;
    return (row[i] - mean) / sqrt(var + 0.125) * element("g", (size_t)i) + element("b", (size_t)i);
}

static double rope(const double *row, int s, int i)
{
    int half = WIDTH / 2, pair = i % half;
    double angle = s * pow(100, -2.0 * pair / WIDTH);
    double other = i < half ? -row[i + half] : row[i - half];
    return row[i] * cos(angle) + other * sin(angle);
}

static double rounding(const double *row, int s, int i)
{
    double y = element("y", (size_t)(s * WIDTH + i));
    double m = row[0] > row[1] ? row[0] : row[1];
    m = m > row[2] ? m : row[2];
    m = m > row[3] ? m : row[3];
    double picked = row[2], low = row[i] < y ? row[i] : y;
    return m + 3 * picked + 5 * low + 7 * (s >= i ? row[i] : y) + pow(fabs(y), 1.5) + s;
}

static void functions_of_the_prelude(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        Cell *cell;
    } cases[] = {
        {"relu(x)", relu},
        {"silu(x)", silu},
        {"gelu(x)", gelu},
        {"gelu_tanh(x)", gelu_tanh},
        {"softmax(x, over width)", softmax},
        {"rmsnorm(x, g, over width, eps = 0.125)", rmsnorm},
        {"layernorm(x, g, b, over width, eps = 0.125)", layernorm},
        {"rope(x, along seq, over width, theta = 100)", rope},
        {"max(x, over width) + 3 * pick(x, along width, at = 2) + 5 * min(x, y) + "
         "7 * select(index(seq) >= index(width), x, y) + pow(abs(y), 1.5) + index(seq)",
         rounding},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double want = expected(cases[i].cell), have = probed(cases[i].text);
        if (fabs(want - have) > 1e-9 * (1 + fabs(want)))
            fail_msg("%s: %.12g, not %.12g", cases[i].text, have, want);
    }
}

/* ---- the llama, a second time ------------------------------------------------------------- */

enum { L = 2, H = 6, KV = 2, G = 3, D = 4, F = 5, V = 11, S = 7, B = 3 };
static const char *const small[] = {"layers=2", "hidden=6", "kv_heads=2", "group=3", "head=4",
                                    "ffn=5",    "vocab=11", "seq=7",      "batch=3"};
enum { NSMALL = sizeof small / sizeof *small };
static const double scale = 0.4;

static double weight(const char *name, size_t e)
{
    return scale * element(name, e);
}

static void ref_norm(const double *x, const char *gain, int layer, double *y)
{
    for (int s = 0; s < S; s++) {
        double sum = 0;
        for (int h = 0; h < H; h++)
            sum += x[s * H + h] * x[s * H + h];
        for (int h = 0; h < H; h++)
            y[s * H + h] =
                x[s * H + h] / sqrt(sum / H + 1e-5) * weight(gain, (size_t)(layer * H + h));
    }
}

static void ref_rope(double *v, int s)
{
    for (int i = 0; i < D / 2; i++) {
        double a = s * pow(10000, -2.0 * i / D), x = v[i], y = v[i + D / 2];
        v[i] = x * cos(a) - y * sin(a);
        v[i + D / 2] = y * cos(a) + x * sin(a);
    }
}

/* y[s, n] = sum_h x[s, h] w[layer, h, n] */
static void ref_product(const double *x, const char *w, int layer, int in, int out, double *y)
{
    for (int s = 0; s < S; s++)
        for (int n = 0; n < out; n++) {
            double sum = 0;
            for (int h = 0; h < in; h++)
                sum += x[s * in + h] * weight(w, (size_t)((layer * in + h) * out + n));
            y[s * out + n] = sum;
        }
}

static void ref_attend(const double *x, int layer, double *y)
{
    static double q[S][KV][G][D], k[S][KV][D], v[S][KV][D], o[S * KV * G * D];
    ref_product(x, "layers.self_attn.wq", layer, H, KV * G * D, &q[0][0][0][0]);
    ref_product(x, "layers.self_attn.wk", layer, H, KV * D, &k[0][0][0]);
    ref_product(x, "layers.self_attn.wv", layer, H, KV * D, &v[0][0][0]);
    for (int s = 0; s < S; s++)
        for (int h = 0; h < KV; h++) {
            ref_rope(k[s][h], s);
            for (int g = 0; g < G; g++)
                ref_rope(q[s][h][g], s);
        }
    for (int s = 0; s < S; s++)
        for (int hg = 0; hg < KV * G; hg++) {
            int h = hg / G;
            double p[S], sum = 0, *out = &o[(s * KV * G + hg) * D];
            for (int t = 0; t <= s; t++) {
                double score = 0;
                for (int d = 0; d < D; d++)
                    score += q[s][h][hg % G][d] * k[t][h][d];
                sum += p[t] = exp(score / sqrt(D));
            }
            for (int d = 0; d < D; d++) {
                out[d] = 0;
                for (int t = 0; t <= s; t++)
                    out[d] += p[t] / sum * v[t][h][d];
            }
        }
    ref_product(o, "layers.self_attn.wo", layer, KV * G * D, H, y);
}

static void ref_swiglu(const double *x, int layer, double *y)
{
    static double gate[S * F], up[S * F];
    ref_product(x, "layers.mlp.gate", layer, H, F, gate);
    ref_product(x, "layers.mlp.up", layer, H, F, up);
    for (int i = 0; i < S * F; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    ref_product(gate, "layers.mlp.down", layer, F, H, y);
}

/* Sum over the positions of one sequence of -log p(target). */
static double ref_sequence(int sequence)
{
    static double x[S * H], n[S * H], y[S * H];
    for (int s = 0; s < S; s++)
        for (int h = 0; h < H; h++)
            x[s * H + h] = weight("embed", (size_t)(token((size_t)sequence, (size_t)s, V) * H + h));
    for (int l = 0; l < L; l++) {
        ref_norm(x, "layers.input_layernorm.gain", l, n);
        ref_attend(n, l, y);
        for (int i = 0; i < S * H; i++)
            x[i] += y[i];
        ref_norm(x, "layers.post_attention_layernorm.gain", l, n);
        ref_swiglu(n, l, y);
        for (int i = 0; i < S * H; i++)
            x[i] += y[i];
    }
    ref_norm(x, "model.norm.gain", 0, n);
    double loss = 0;
    for (int s = 0; s < S; s++) {
        double sum = 0, hit = 0;
        for (int c = 0; c < V; c++) {
            double z = 0;
            for (int h = 0; h < H; h++)
                z += n[s * H + h] * weight("unembed", (size_t)(c * H + h));
            sum += exp(z);
            if (c == token((size_t)sequence, (size_t)s + 1, V))
                hit = z;
        }
        loss += log(sum) - hit;
    }
    return loss;
}

static void llama_is_the_llama(void **state)
{
    (void)state;
    char *text = read_model("llama_mini.mg");
    double want = 0;
    for (int b = 0; b < B; b++)
        want += ref_sequence(b) / (B * S);
    const char *define[NSMALL + 1];
    memcpy(define, small, sizeof small);
    char *layoutless = strstr(text, "microbatch 32");
    memcpy(layoutless, "microbatch 1 ", 13);
    for (int inlined = 0; inlined < 2; inlined++) {
        World w = elaborate(text, NSMALL, define, inlined, NULL);
        double have = run(&w, "train", 0, scale)[0];
        assert_true(fabs(have - want) < 1e-9);
        have = run(&w, "eval", 0, scale)[0];
        assert_true(fabs(have - ref_sequence(0) / S) < 1e-9);
        arena_free(w.arena);
    }
    free(text);
}

/* ---- programs against each other ---------------------------------------------------------- */

/* The mean over positions of -log softmax(sampled logits)[next] is the loss of one sequence. */
static void check_sample(World *w, int positions, int64_t vocab)
{
    double loss = run(w, "eval", 0, scale)[0], sum = 0;
    for (int s = 0; s < positions; s++) {
        const double *z = run(w, "sample", s, scale);
        double total = 0;
        for (int64_t c = 0; c < vocab; c++)
            total += exp(z[c]);
        sum += log(total) - z[token(0, (size_t)s + 1, vocab)];
    }
    assert_true(fabs(sum / positions - loss) < 1e-9);
}

static void one_row_of_logits(void **state)
{
    (void)state;
    static const char *const gpt[] = {"layers=2", "hidden=6", "heads=2", "head=4",
                                      "ffn=5",    "vocab=11", "seq=5",   "batch=2"};
    char *text = read_model("gpt2_124m.mg");
    for (int inlined = 0; inlined < 2; inlined++) {
        World w = elaborate(text, 8, gpt, inlined, NULL);
        check_sample(&w, 5, 11);
        arena_free(w.arena);
    }
    World plain = elaborate(text, 8, gpt, false, NULL);
    World inlined = elaborate(text, 8, gpt, true, NULL);
    assert_true(fabs(run(&plain, "train", 0, scale)[0] - run(&inlined, "train", 0, scale)[0]) <
                1e-9);
    arena_free(plain.arena);
    arena_free(inlined.arena);
    free(text);
}

/* A comparison with the token of a position is computed for all positions, as indices are not
 * looked up. */
static void one_row_of_what_compares_tokens(void **state)
{
    (void)state;
    char text[1024];
    snprintf(
        text, sizeof text,
        "dim batch = 2, seq = 5, vocab = 11, near = 3, best = 2\n"
        "model m(tokens[batch, seq] : token(vocab)) {\n"
        "  w : param[vocab, seq] ~ normal(1)\n  v : param[vocab, near] ~ normal(1)\n"
        "  x = select(index(vocab) < tokens, tanh(w), 0.5)\n"
        "  y = sum(select(index(near) == top(v[tokens], near -> best), 1, w), over (near, best))\n"
        "  loss = cross_entropy(2 * x + y, next(tokens))\n}\n%slayout { microbatch 1 }\n",
        train_block);
    World w = elaborate(text, 0, NULL, false, NULL);
    check_sample(&w, 5, 11);
    arena_free(w.arena);
}

/* The op of attention, and its definition written out, have one meaning with each part of a mask.
 */
static void attention_with_a_mask(void **state)
{
    (void)state;
    static const char *const how[] = {"causal, window = 2", "cap = 0.5",
                                      "causal, window = 3, cap = 2"};
    for (int k = 0; k < 6; k++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "dim batch = 2, seq = 7, vocab = 3, head = 2, wide = 4\n"
                 "model m(tokens[batch, seq] : token(vocab)) {\n"
                 "  a : param[vocab, head] ~ normal(1)\n  b : param[vocab, wide] ~ normal(1)\n"
                 "  x = a[tokens]\n"
                 "  start = document_start(tokens, along seq, separator = 1)\n"
                 "  y = attention(rope(x, start, along seq, over head), x, b[tokens], %s"
                 "along seq, over head, %s) + 0 * mean(start)\n"
                 "  loss = cross_entropy(y @ b over wide, next(tokens))\n}\n"
                 "%slayout { microbatch 1 }\n",
                 k < 3 ? "start, " : "", how[k % 3], train_block);
        World op = elaborate(text, 0, NULL, false, NULL),
              long_way = elaborate(text, 0, NULL, true, NULL);
        assert_true(fabs(run(&op, "train", 0, scale)[0] - run(&long_way, "train", 0, scale)[0]) <
                    1e-9);
        arena_free(op.arena);
        arena_free(long_way.arena);
    }
}

/* A sample leaves out a block that reads the next tokens: the parameters behind it are the same. */
static void parameters_behind_what_reads_next(void **state)
{
    (void)state;
    char text[1024];
    snprintf(text, sizeof text,
             "dim batch = 2, seq = 5, vocab = 11, wide = 3\n"
             "block ahead(x[wide]) {\n  w : param[vocab, wide] ~ normal(1)\n"
             "  return sum(x @ w over wide, over vocab)\n}\n"
             "model m(tokens[batch, seq] : token(vocab)) {\n"
             "  a : param[vocab, wide] ~ normal(1)\n  y = ahead(a[next(tokens)])\n"
             "  u : param[vocab, wide] ~ normal(1)\n"
             "  loss = cross_entropy(a[tokens] @ u over wide, next(tokens)) + 0 * mean(y)\n}\n"
             "%slayout { microbatch 1 }\n",
             train_block);
    World w = elaborate(text, 0, NULL, false, NULL);
    check_sample(&w, 5, 11);
    arena_free(w.arena);
}

static void padding_changes_nothing(void **state)
{
    (void)state;
    static const char *const gpt[] = {"layers=2", "hidden=6", "heads=2", "head=4",
                                      "ffn=5",    "vocab=11", "seq=5",   "batch=2"};
    char *text = read_model("gpt2_124m.mg");
    strcat(text, "layout padded : default { pad vocab to 16 }\n");
    World plain = elaborate(text, 8, gpt, false, NULL);
    double want = run(&plain, "train", 0, scale)[0];
    for (int inlined = 0; inlined < 2; inlined++) {
        World w = elaborate(text, 8, gpt, inlined, "padded");
        assert_int_equal(w.module->vocab, 11);
        assert_int_equal(w.module->tensors.data[0].type.dims[0].size, 16);
        assert_int_equal(w.module->tensors.data[0].valid[0], 11);
        assert_true(fabs(run(&w, "train", 0, scale)[0] - want) < 1e-9);
        check_sample(&w, 5, 11);
        arena_free(w.arena);
    }
    arena_free(plain.arena);
    free(text);
}

static bool always(void *who, const char *device)
{
    (void)who;
    (void)device;
    return true;
}

/* ... nor does that of a program for a GPU, which nobody asked for. */
static void padding_for_gpus(void **state)
{
    (void)state;
    static const char text[] =
        "dim batch = 2, seq = 5, vocab = 11, wide = 3\n"
        "model m(tokens[batch, seq] : token(vocab)) {\n"
        "  a : param[vocab, wide] ~ normal(1)\n  u : param[vocab, wide] ~ normal(1)\n"
        "  loss = cross_entropy(a[tokens] @ u over wide, next(tokens))\n}\n"
        "train { optimizer sgd()  lr 0.1  precision f32 }\nlayout { microbatch 1 }\n";
    World plain = elaborate(text, 0, NULL, false, NULL);
    World w = {.arena = arena_new()};
    w.names = names_new(w.arena);
    w.diag = diag_new(w.arena, stderr, false);
    const Ast *ast =
        mg_parse(w.arena, w.names, w.diag, diag_add_file(w.diag, "test.mg", text, strlen(text)));
    w.module = mg_elaborate(w.arena, w.names, w.diag, ast, &(ElaborateOptions){.is_gpu = always});
    assert_non_null(w.module);
    assert_int_equal(w.module->layout.padded.n, 1);
    assert_int_equal(w.module->layout.padded.data[0].size,
                     12); /* words of 16 bytes are of four floats */
    assert_int_equal(w.module->tensors.data[1].type.dims[0].size, 12);
    assert_int_equal(w.module->tensors.data[1].valid[0], 11);
    assert_true(fabs(run(&w, "train", 0, scale)[0] - run(&plain, "train", 0, scale)[0]) < 1e-9);
    check_sample(&w, 5, 11);
    arena_free(w.arena);
    arena_free(plain.arena);
}

/* The model that sees one window and predicts what follows it: its logits have no position. */
static void one_prediction_a_window(void **state)
{
    (void)state;
    static const char *const define[] = {"seq=3", "embed=4", "hidden=5", "vocab=11", "batch=1"};
    char *text = read_model("mlp.mg");
    memcpy(strstr(text, "microbatch 256"), "microbatch 1  ", 14);
    World w = elaborate(text, 5, define, false, NULL);
    double loss = run(&w, "eval", 0, scale)[0], total = 0;
    const double *z = run(&w, "sample", 0, scale);
    for (int c = 0; c < 11; c++)
        total += exp(z[c]);
    assert_true(fabs(log(total) - z[token(0, 3, 11)] - loss) < 1e-9);
    arena_free(w.arena);
    free(text);
}

/* Kept elements are scaled, the share that is dropped is p, eval drops none, rounds differ. */
static void dropout(void **state)
{
    (void)state;
    char text[1024];
    snprintf(
        text, sizeof text,
        "dim batch = 4, seq = 8, vocab = 4, wide = 64, deep = 3\n"
        "model m(tokens[batch, seq] : token(vocab)) {\n"
        "  w : param[vocab] = 1\n  one = 0 * w[tokens] + 1 + 0 * index(wide)\n  total = 0 * one\n"
        "  repeat deep { total = total + dropout(one, p = 0.25) }\n"
        "  loss = mean(total * total)\n}\n%slayout { microbatch 1 }\n",
        train_block);
    World w = elaborate(text, 0, NULL, false, NULL);
    assert_true(fabs(run(&w, "eval", 0, 1)[0] - 9) < 1e-12);
    /* Each round is 0 or 4/3: the square of the sum of 3 has mean 3 (4/3) + 6 = 10; were all rounds
     * the same draw it would be 12. */
    assert_true(fabs(run(&w, "train", 0, 1)[0] - 10) < 0.3);
    arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_the_prelude),
        cmocka_unit_test(llama_is_the_llama),
        cmocka_unit_test(one_row_of_logits),
        cmocka_unit_test(one_row_of_what_compares_tokens),
        cmocka_unit_test(attention_with_a_mask),
        cmocka_unit_test(parameters_behind_what_reads_next),
        cmocka_unit_test(padding_changes_nothing),
        cmocka_unit_test(padding_for_gpus),
        cmocka_unit_test(one_prediction_a_window),
        cmocka_unit_test(dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
