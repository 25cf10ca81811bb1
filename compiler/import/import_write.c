/* import_write.c - the .mg file of a Hugging Face model.
 *
 * The text is what a person would have written by hand for this model; mgc fmt leaves it as it is.
 * The config block keeps every key that it can say, those that follow from dims as expressions. */
#include "compiler/import/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The shortest decimal that reads back as x, as the language writes numbers. */
static const char *real_text(const HfModel *h, double x)
{
    if (fabs(x) < 1e15 && x == floor(x))
        return arena_printf(h->s->arena, "%.0f", x);
    for (int digits = 1; digits <= 17; digits++) {
        char *text = arena_printf(h->s->arena, "%.*g", digits, x), *e = strchr(text, 'e');
        if (strtod(text, NULL) != x)
            continue;
        char *zero = e ? e + 1 + (e[1] == '-' || e[1] == '+') : NULL;
        if (zero && *zero == '0') /* 1e-06 */
            memmove(zero, zero + 1, strlen(zero));
        return text;
    }
    return "0";
}

static void blank(FILE *out)
{
    fputc('\n', out);
}

/* ---- llama and its kin --------------------------------------------------------------------- */

static void write_projection(const HfModel *h, FILE *out, const char *name, bool grouped)
{
    const char *dims = grouped ? "kv_heads, group, head" : "kv_heads, head";
    const char *merged = grouped ? "kv_heads group head" : "kv_heads head";
    fprintf(out, "    w%s : param[hidden, %s] ~ normal(std) as \"%s_proj.weight\" [(%s), hidden]\n",
            name, dims, name, merged);
    if (h->qkv_bias)
        fprintf(out, "    b%s : param[%s] = 0 as \"%s_proj.bias\" [(%s)]\n", name, dims, name,
                merged);
}

/* Queries, keys and values behind each other in one tensor. */
static void write_joined(FILE *out)
{
    static const struct {
        const char *name, *dims, *merged, *at;
    } parts[] = {{"wq", "kv_heads, group, head", "kv_heads group head", "0"},
                 {"wk", "kv_heads, head", "kv_heads head", "kv_heads * group * head"},
                 {"wv", "kv_heads, head", "kv_heads head", "kv_heads * (group + 1) * head"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fprintf(out,
                "    %s : param[hidden, %s] ~ normal(std) as \"qkv_proj.weight\" [(%s) at %s, "
                "hidden]\n",
                parts[i].name, parts[i].dims, parts[i].merged, parts[i].at);
}

/* Positions turn the first elements of a head. */
static void write_partial_rope(FILE *out)
{
    fputs("block turned(x[head]) {\n"
          "    y = rope(x[head = 0 .. turn], along seq, over turn, theta = theta)\n"
          "    return join(y, x[head = turn .. head -> still], (turn, still) -> head)\n}\n\n",
          out);
}

static bool partial(const HfModel *h)
{
    return h->turn && h->turn < h->head;
}

static void write_rope(const HfModel *h, FILE *out, const char *name)
{
    const char *x = arena_printf(h->s->arena, "x @ w%s over hidden%s%s", name,
                                 h->qkv_bias ? " + b" : "", h->qkv_bias ? name : "");
    if (h->qk_norm)
        x = arena_printf(h->s->arena, "rmsnorm(%s, n%s, over head, eps = eps)", x, name);
    if (partial(h)) {
        fprintf(out, "    %s = turned(%s)\n", name, x);
        return;
    }
    fprintf(out, "    %s = %s(%s, along seq, over head, theta = theta", name,
            h->scaled ? "rope_llama3" : "rope", x);
    if (h->scaled)
        fprintf(out, ", factor = %s, low = %s, high = %s, original = %s", real_text(h, h->factor),
                real_text(h, h->low), real_text(h, h->high), real_text(h, h->original));
    fputs(")\n", out);
}

void import_write_attention(const HfModel *h, FILE *out)
{
    if (partial(h))
        write_partial_rope(out);
    fputs("block attend(x[hidden]) {\n", out);
    if (h->family == FAMILY_phi3) {
        write_joined(out);
    } else {
        write_projection(h, out, "q", true);
        write_projection(h, out, "k", false);
        write_projection(h, out, "v", false);
    }
    fputs("    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "
          "\"o_proj.weight\" [hidden, (kv_heads group head)]\n",
          out);
    if (h->qk_norm)
        fputs("    nq : param[head] = 1 as \"q_norm.weight\"\n"
              "    nk : param[head] = 1 as \"k_norm.weight\"\n",
              out);
    write_rope(h, out, "q");
    write_rope(h, out, "k");
    fprintf(out, "    v = x @ wv over hidden%s\n", h->qkv_bias ? " + bv" : "");
    fprintf(out,
            "    return attention(q, k, v, along seq, over head, causal%s) @ wo over (kv_heads, "
            "group, head)\n}\n",
            h->window ? ", window = window" : "");
}

void import_write_mlp(const HfModel *h, FILE *out)
{
    const bool one = h->family == FAMILY_phi3;
    fprintf(out,
            "block swiglu(x[hidden]) {\n"
            "    gate : param[hidden, ffn] ~ normal(std) as \"%s.weight\" [ffn%s, hidden]\n"
            "    up : param[hidden, ffn] ~ normal(std) as \"%s.weight\" [ffn%s, hidden]\n"
            "    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "
            "\"down_proj.weight\" [hidden, ffn]\n"
            "    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn\n}\n\n",
            one ? "gate_up_proj" : "gate_proj", one ? " at 0" : "",
            one ? "gate_up_proj" : "up_proj", one ? " at ffn" : "");
}

static void write_experts(FILE *out)
{
    fputs("block router(x[hidden]) {\n"
          "    gate : param[hidden, choice] ~ normal(std) as \"gate.weight\" [choice, hidden]\n"
          "    return softmax(x @ gate over hidden, over choice)\n}\n\n"
          "block moe(x[hidden], score[choice]) {\n"
          "    w1 : param[experts, hidden, ffn] ~ normal(std) as \"experts.{}.w1.weight\" [ffn, "
          "hidden]\n"
          "    w3 : param[experts, hidden, ffn] ~ normal(std) as \"experts.{}.w3.weight\" [ffn, "
          "hidden]\n"
          "    w2 : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "
          "\"experts.{}.w2.weight\" [hidden, ffn]\n"
          "    chosen = top(score, choice -> best)\n"
          "    share = scores_of(score, chosen)\n"
          "    z = dispatch(x, chosen, seq -> rows)\n"
          "    u = grouped(z, w1, chosen, experts -> rows, over hidden)\n"
          "    u = silu(u) * grouped(z, w3, chosen, experts -> rows, over hidden)\n"
          "    y = grouped(u, w2, chosen, experts -> rows, over ffn)\n"
          "    return combine(y, chosen, share / sum(share, over best), rows -> seq)\n}\n\n",
          out);
}

/* The unit behind attention in a layer: experts, or an MLP. */
static void write_unit(const HfModel *h, FILE *out)
{
    if (!h->experts) {
        fputs("        x = x + swiglu(norm(x) as \"post_attention_layernorm\") as \"mlp\"\n", out);
        return;
    }
    fputs("        h = norm(x) as \"post_attention_layernorm\"\n"
          "        score = router(h) as \"block_sparse_moe\"\n"
          "        x = x + moe(h, score) as \"block_sparse_moe\"\n",
          out);
    if (h->balancing > 0)
        fputs("        uneven = uneven + mean(imbalance(score, top(score, choice -> best), along "
              "seq, over best), over batch)\n",
              out);
}

void import_write_norm(FILE *out)
{
    fputs("block norm(x[hidden]) {\n"
          "    gain : param[hidden] = 1 as \"weight\"\n"
          "    return rmsnorm(x, gain, over hidden, eps = eps)\n}\n\n",
          out);
}

static void write_llama(const HfModel *h, FILE *out)
{
    import_write_norm(out);
    import_write_attention(h, out);
    blank(out);
    if (h->experts)
        write_experts(out);
    else
        import_write_mlp(h, out);
    fprintf(out, "model %s(tokens[batch, seq] : token(vocab)) {\n",
            json_string_value(json_object_get(h->config, "model_type")));
    fputs("    embed : param[vocab, hidden] ~ normal(std) as \"model.embed_tokens.weight\"\n"
          "    x = embed[tokens]\n",
          out);
    if (h->balancing > 0)
        fputs("    uneven = 0\n", out);
    fputs("    repeat layers as \"model.layers.{}\" {\n"
          "        x = x + attend(norm(x) as \"input_layernorm\") as \"self_attn\"\n",
          out);
    write_unit(h, out);
    fputs("    }\n", out);
    if (!h->tied)
        fputs("    unembed : param[vocab, hidden] ~ normal(std) as \"lm_head.weight\"\n", out);
    fprintf(out,
            "    loss = cross_entropy((norm(x) as \"model.norm\") @ %s over hidden, "
            "next(tokens))%s\n}\n",
            h->tied ? "embed" : "unembed",
            h->balancing > 0 ? " + balancing / layers * uneven" : "");
}

/* ---- GPT-2 --------------------------------------------------------------------------------- */

static void write_gpt2(const HfModel *h, FILE *out)
{
    /* Published files have bare names, those that save_pretrained writes begin with this. */
    bool bare = h->tensors && json_object_get(h->tensors, "wte.weight");
    const char *base = bare ? "" : "transformer.";
    fputs(
        "block norm(x[hidden]) {\n"
        "    gain : param[hidden] = 1 as \"weight\"\n"
        "    bias : param[hidden] = 0 as \"bias\"\n"
        "    return layernorm(x, gain, bias, over hidden, eps = eps)\n}\n\n"
        "block attend(x[hidden]) {\n"
        "    w : param[hidden, qkv, heads, head] ~ normal(std) as \"c_attn.weight\" [hidden, (qkv "
        "heads head)]\n"
        "    b : param[qkv, heads, head] = 0 as \"c_attn.bias\" [(qkv heads head)]\n"
        "    wo : param[heads, head, hidden] ~ normal(std / sqrt(2 * layers)) as "
        "\"c_proj.weight\" [(heads head), hidden]\n"
        "    bo : param[hidden] = 0 as \"c_proj.bias\"\n"
        "    y = x @ w over hidden + b\n"
        "    q = pick(y, along qkv, at = 0)\n"
        "    k = pick(y, along qkv, at = 1)\n"
        "    v = pick(y, along qkv, at = 2)\n"
        "    return attention(q, k, v, along seq, over head, causal) @ wo over (heads, head) + "
        "bo\n}\n\n"
        "block mlp(x[hidden]) {\n"
        "    w : param[hidden, ffn] ~ normal(std) as \"c_fc.weight\"\n"
        "    b : param[ffn] = 0 as \"c_fc.bias\"\n"
        "    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as \"c_proj.weight\"\n"
        "    bo : param[hidden] = 0 as \"c_proj.bias\"\n"
        "    return gelu_tanh(x @ w over hidden + b) @ wo over ffn + bo\n}\n\n",
        out);
    fprintf(out,
            "model gpt2(tokens[batch, seq] : token(vocab)) {\n"
            "    wte : param[vocab, hidden] ~ normal(std) as \"%swte.weight\"\n"
            "    wpe : param[seq, hidden] ~ normal(std / 2) as \"%swpe.weight\"\n"
            "    x = wte[tokens] + wpe\n"
            "    repeat layers as \"%sh.{}\" {\n"
            "        x = x + attend(norm(x) as \"ln_1\") as \"attn\"\n"
            "        x = x + mlp(norm(x) as \"ln_2\") as \"mlp\"\n    }\n"
            "    loss = cross_entropy((norm(x) as \"%sln_f\") @ wte over hidden, next(tokens))\n"
            "}\n",
            base, base, base, base);
}

/* ---- the config block ---------------------------------------------------------------------- */

/* Keys that follow from what the file says of the model. */
static const struct {
    const char *key, *value;
} derived[] = {{"hidden_size", "hidden"},
               {"intermediate_size", "ffn"},
               {"num_hidden_layers", "layers"},
               {"num_attention_heads", "kv_heads * group"},
               {"num_key_value_heads", "kv_heads"},
               {"num_local_experts", "experts"},
               {"num_experts_per_tok", "best"},
               {"head_dim", "head"},
               {"vocab_size", "vocab"},
               {"rms_norm_eps", "eps"},
               {"rope_theta", "theta"},
               {"sliding_window", "window"},
               {"layer_norm_epsilon", "eps"},
               {"num_heads", "lanes"},
               {"state_size", "state"},
               {"mamba_n_heads", "lanes"},
               {"mamba_d_head", "lane"},
               {"mamba_d_state", "state"},
               {"n_embd", "hidden"},
               {"n_inner", "ffn"},
               {"n_layer", "layers"},
               {"n_head", "heads"},
               {"n_positions", "seq"},
               {"initializer_range", "std"},
               {"torch_dtype", "\"float32\""},
               {"dtype", "\"float32\""},
               {"tie_word_embeddings", NULL}};

static bool sayable_name(const char *s)
{
    static const char *const reserved[] = {"dim",    "const",  "block", "model",  "train",
                                           "layout", "config", "param", "repeat", "return",
                                           "as",     "over",   "along", "where",  "to"};
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (const char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(s, reserved[i]) == 0)
            return false;
    return strlen(s) < 100;
}

/* Can the language say it? Strings are printable ASCII without quotes; lists are not empty. */
static bool sayable(const json_t *v, int depth)
{
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_string(v)) {
        for (const char *c = json_string_value(v); *c; c++)
            if (*c < 32 || *c > 126 || *c == '"' || *c == '\\')
                return false;
    } else if (json_is_array(v)) {
        if (depth > 8 || !json_array_size(v))
            return false;
        json_array_foreach(v, i, item)
            if (!sayable(item, depth + 1))
                return false;
    } else if (json_is_object(v)) {
        if (depth > 8 || !json_object_size(v))
            return false;
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
            if (!sayable_name(key) || !sayable(item, depth + 1))
                return false;
    }
    return true;
}

static void write_value(const HfModel *h, FILE *out, const json_t *v)
{
    const char *key, *between = "";
    json_t *item;
    size_t i;
    switch (json_typeof(v)) {
    case JSON_STRING:
        fprintf(out, "\"%s\"", json_string_value(v));
        break;
    case JSON_INTEGER:
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_REAL: {
        const char *text = real_text(h, json_real_value(v));
        fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
        break;
    }
    case JSON_ARRAY:
        fputc('[', out);
        json_array_foreach(v, i, item) {
            fputs(between, out);
            write_value(h, out, item);
            between = ", ";
        }
        fputc(']', out);
        break;
    case JSON_OBJECT:
        fputc('{', out);
        json_object_foreach((json_t *)(uintptr_t)v, key, item) {
            fprintf(out, "%s%s = ", between, key);
            if (strcmp(key, "rope_theta") == 0 && h->theta > 0)
                fputs("theta", out);
            else
                write_value(h, out, item);
            between = ", ";
        }
        fputc('}', out);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        fputs(json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null", out);
    }
}

static const char *value_from_model(const HfModel *h, const char *key)
{
    bool gpt2 = h->family == FAMILY_gpt2;
    if (strcmp(key, "tie_word_embeddings") == 0)
        return h->tied ? "true" : "false";
    if (strcmp(key, "sliding_window") == 0 && !h->window)
        return NULL;
    if (h->family == FAMILY_mamba2 && strcmp(key, "head_dim") == 0)
        return "lane";
    if (gpt2 && (strcmp(key, "head_dim") == 0 || strncmp(key, "num_", 4) == 0))
        return NULL; /* dims of those names are not in the file */
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
        if (strcmp(derived[i].key, key) == 0)
            return derived[i].value;
    return NULL;
}

static void write_config(const HfModel *h, FILE *out)
{
    const char *key;
    json_t *v;
    fputs("config {\n", out);
    json_object_foreach(h->config, key, v) {
        const char *value = json_is_null(v) ? NULL : value_from_model(h, key);
        /* layer_types lists every layer, and says nothing here: all are alike. A time_step_limit
         * is the one that is meant without it. */
        if (strcmp(key, "layer_types") == 0 || strcmp(key, "time_step_limit") == 0 ||
            !sayable_name(key) || (!value && !sayable(v, 0)))
            continue;
        fprintf(out, "    %s = ", key);
        if (value)
            fputs(value, out);
        else
            write_value(h, out, v);
        fputc('\n', out);
    }
    fputs("}\n", out);
}

/* ---- the file ------------------------------------------------------------------------------ */

static void write_dims(const HfModel *h, FILE *out)
{
    enum { WINDOW = 4096 }; /* tokens of a training sequence, where the model takes more */
    bool gpt2 = h->family == FAMILY_gpt2, attends = h->family != FAMILY_mamba2;
    int64_t seq = gpt2 || h->positions < WINDOW ? h->positions : WINDOW;
    fprintf(out, "dim layers = %" PRId64 ", hidden = %" PRId64 "%s", h->layers, h->hidden,
            attends ? ", " : "\n");
    if (gpt2)
        fprintf(out, "heads = %" PRId64, h->heads);
    else if (attends)
        fprintf(out, "kv_heads = %" PRId64 ", group = %" PRId64, h->kv_heads,
                h->heads / h->kv_heads);
    if (attends)
        fprintf(out, ", head = %" PRId64 ", ffn = %" PRId64 "%s\n", h->head, h->ffn,
                gpt2 ? ", qkv = 3" : "");
    if (h->lanes)
        import_mixer_dims(h, out);
    if (h->experts)
        fprintf(out,
                "# Each choice has a row, sorted by expert: nothing is dropped.\n"
                "dim experts = %" PRId64 ", choice = experts, best = %" PRId64
                ", rows = best * seq\n",
                h->experts, h->best);
    if (partial(h))
        fprintf(out, "dim turn = %" PRId64 ", still = head - turn\n", h->turn);
    fprintf(out, "dim vocab = %" PRId64 ", seq = %" PRId64 ", batch = 8\n", h->vocab, seq);
    if (gpt2 || !attends)
        fprintf(out, "const eps = %s, std = %s\n\n", real_text(h, h->eps), real_text(h, h->std));
    else
        fprintf(out, "const eps = %s, theta = %s, std = %s%s%s\n\n", real_text(h, h->eps),
                real_text(h, h->theta), real_text(h, h->std),
                h->window ? arena_printf(h->s->arena, ", window = %" PRId64, h->window) : "",
                h->balancing > 0
                    ? arena_printf(h->s->arena, ", balancing = %s", real_text(h, h->balancing))
                    : "");
}

static const char train_text[] =
    "train {\n"
    "    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)\n"
    "    lr cosine(peak = 2e-5, warmup = 100, steps = 2000, floor = 2e-6)\n"
    "    clip 1.0\n"
    "}\n";

/* No axis splits the sequence of a recurrence. */
static void write_mixer_layout(const HfModel *h, FILE *out)
{
    const bool attends = h->family == FAMILY_bamba;
    fprintf(out,
            "layout {  # the default: one rank\n"
            "    device cpu\n"
            "    mesh pp = 1, dp = 1%s\n"
            "    batch -> dp\n"
            "%s"
            "    layers -> pp (schedule = 1f1b)\n"
            "    microbatch 1  # sequences computed at once; the rest accumulates\n"
            "    recompute auto\n}\n",
            attends ? ", tp = 1" : "", attends ? "    kv_heads, ffn, vocab -> tp\n" : "");
}

static void write_layout(const HfModel *h, FILE *out)
{
    if (h->lanes) {
        write_mixer_layout(h, out);
        return;
    }
    fprintf(out,
            "layout {  # the default: one rank\n"
            "    device cpu\n"
            "    mesh pp = 1, dp = 1, %scp = 1, tp = 1\n%s"
            "    batch -> dp%s\n"
            "    %s, ffn, vocab -> tp\n"
            "    seq -> cp (zigzag), tp\n"
            "    layers -> pp (schedule = 1f1b)\n"
            "    microbatch 1  # sequences computed at once; the rest accumulates\n"
            "    recompute auto\n}\n",
            h->experts ? "ep = 1, " : "", h->experts ? "    experts -> ep\n" : "",
            h->experts ? ", ep" : "", h->family == FAMILY_gpt2 ? "heads" : "kv_heads");
}

void import_write(const HfModel *h, FILE *out)
{
    fprintf(out,
            "# A model of the kind '%s', from its config.json: its weights go in by --init, and\n"
            "# what is trained can be loaded where it came from.\n",
            json_string_value(json_object_get(h->config, "model_type")));
    write_dims(h, out);
    if (h->family == FAMILY_gpt2)
        write_gpt2(h, out);
    else if (h->family == FAMILY_mamba2)
        import_write_mamba2(h, out);
    else if (h->family == FAMILY_bamba)
        import_write_bamba(h, out);
    else
        write_llama(h, out);
    blank(out);
    fputs(train_text, out);
    blank(out);
    write_layout(h, out);
    blank(out);
    write_config(h, out);
}
