/* gguf_family.c - the families that llama.cpp has under the same mathematics: which keys of
 * config.json become which metadata, and which tensors which.
 *
 * A tensor that no row names, and a key whose value would change what is computed, is refused by
 * its name. Rotary positions of the architecture "llama" are of neighbouring elements there and of
 * the two halves of a head here: the rows of queries and keys change places. */
#include "compiler/gguf/gguf_family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NORMS_AROUND = GEMMA2 | GEMMA3, HEAD_NORMS = QWEN3 | GEMMA3 | QWEN3_MOE };
enum { GEMMAS = GEMMA | GEMMA2 | GEMMA3, TURNED = LLAMA | MIXTRAL };

static const struct {
    const char *model_type, *arch;
    int is;
} families[] = {{"llama", "llama", LLAMA},
                {"mistral", "llama", LLAMA},
                {"qwen2", "qwen2", QWEN2},
                {"qwen3", "qwen3", QWEN3},
                {"gemma", "gemma", GEMMA},
                {"gemma2", "gemma2", GEMMA2},
                {"gemma3_text", "gemma3", GEMMA3},
                {"mixtral", "llama", MIXTRAL},
                {"qwen2_moe", "qwen2moe", QWEN2_MOE},
                {"qwen3_moe", "qwen3moe", QWEN3_MOE}};

/* turned: 'q' or 'k', whose rows change places; one: the model adds 1 to it (Gemma's norms). */
static const struct {
    const char *name, *written;
    int in;
    char turned;
    bool norm;
} tensors[] = {
    {"self_attn.q_proj.weight", "attn_q.weight", ALL, 'q', false},
    {"self_attn.k_proj.weight", "attn_k.weight", ALL, 'k', false},
    {"self_attn.v_proj.weight", "attn_v.weight", ALL, 0, false},
    {"self_attn.o_proj.weight", "attn_output.weight", ALL, 0, false},
    {"self_attn.q_proj.bias", "attn_q.bias", LLAMA | QWEN2 | QWEN2_MOE, 'q', false},
    {"self_attn.k_proj.bias", "attn_k.bias", LLAMA | QWEN2 | QWEN2_MOE, 'k', false},
    {"self_attn.v_proj.bias", "attn_v.bias", LLAMA | QWEN2 | QWEN2_MOE, 0, false},
    {"self_attn.o_proj.bias", "attn_output.bias", LLAMA, 0, false},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", HEAD_NORMS, 0, true},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", HEAD_NORMS, 0, true},
    {"mlp.gate_proj.weight", "ffn_gate.weight", DENSE, 0, false},
    {"mlp.up_proj.weight", "ffn_up.weight", DENSE, 0, false},
    {"mlp.down_proj.weight", "ffn_down.weight", DENSE, 0, false},
    {"mlp.gate_proj.bias", "ffn_gate.bias", LLAMA, 0, false},
    {"mlp.up_proj.bias", "ffn_up.bias", LLAMA, 0, false},
    {"mlp.down_proj.bias", "ffn_down.bias", LLAMA, 0, false},
    {"input_layernorm.weight", "attn_norm.weight", ALL, 0, true},
    {"post_attention_layernorm.weight", "ffn_norm.weight", ALL & ~NORMS_AROUND, 0, true},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", NORMS_AROUND, 0, true},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", NORMS_AROUND, 0, true},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", NORMS_AROUND, 0, true},
};

/* ---- config.json --------------------------------------------------------------------------- */

const json_t *gguf_key(const Family *f, const char *name)
{
    const json_t *v = json_object_get(f->g->config, name);
    return v && !json_is_null(v) ? v : NULL;
}

bool gguf_bad_key(const Family *f, const char *name, const char *why)
{
    const json_t *v = json_object_get(f->g->config, name);
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    gguf_refuse(f->g, 610, "config.json: \"%s\"%s%.60s%s: %s", name, text ? " is " : " is missing",
                text ? text : "", text && strlen(text) > 60 ? "..." : "", why);
    free(text);
    return false;
}

bool gguf_whole(const Family *f, const char *name, int64_t without, int64_t *out)
{
    const json_t *v = gguf_key(f, name);
    *out = v ? json_integer_value(v) : without;
    return (*out >= 1 && *out < (int64_t)1 << 31) ||
           gguf_bad_key(f, name, "a whole number from 1 is needed");
}

static double number(const json_t *v, double without)
{
    return json_is_number(v) ? json_number_value(v) : without;
}

static bool is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && !strcmp(json_string_value(v), word);
}

static const json_t *first_of(const Family *f, const char *a, const char *b)
{
    return gguf_key(f, a) ? gguf_key(f, a) : gguf_key(f, b);
}

/* The activation is none of the metadata: the family has it. */
static bool check_activation(const Family *f)
{
    const json_t *v =
        f->is & GEMMAS ? first_of(f, "hidden_activation", "hidden_act") : gguf_key(f, "hidden_act");
    const bool gelu =
        !v || is_word(v, "gelu_pytorch_tanh") || (f->is == GEMMA && is_word(v, "gelu"));
    if (f->is & GEMMAS ? gelu : !v || is_word(v, "silu"))
        return true;
    return gguf_bad_key(
        f, gguf_key(f, "hidden_activation") && f->is & GEMMAS ? "hidden_activation" : "hidden_act",
        f->is & GEMMAS ? "llama.cpp computes gelu_pytorch_tanh in this family"
                       : "llama.cpp computes silu in this family");
}

/* Of `every` layers all but the last attend to a window; 1: none does. */
static bool check_windows(const Family *f, int every)
{
    const json_t *types = gguf_key(f, "layer_types"),
                 *pattern = gguf_key(f, "sliding_window_pattern");
    for (size_t i = 0; types && i < (size_t)f->layers; i++)
        if (is_word(json_array_get(types, i), "sliding_attention") != ((int)i % every < every - 1))
            return gguf_bad_key(f, "layer_types", "llama.cpp has another pattern in this family");
    if (!types && pattern && json_integer_value(pattern) != every)
        return gguf_bad_key(f, "sliding_window_pattern", "llama.cpp has another in this family");
    return true;
}

static bool check_gemma(const Family *f)
{
    const json_t *scale = gguf_key(f, "query_pre_attn_scalar"),
                 *cap = gguf_key(f, "attn_logit_softcapping");
    if (f->is == GEMMA)
        return true;
    if (number(scale, 256) != (double)f->head)
        return gguf_bad_key(f, "query_pre_attn_scalar", "only the size of a head is written");
    if (f->is == GEMMA3 && cap)
        return gguf_bad_key(f, "attn_logit_softcapping", "llama.cpp has none in this family");
    if (f->is == GEMMA2 && (json_object_get(f->g->config, "attn_logit_softcapping") && !cap))
        return gguf_bad_key(f, "attn_logit_softcapping", "llama.cpp always has one in this family");
    if (f->is == GEMMA2 && json_object_get(f->g->config, "final_logit_softcapping") &&
        !gguf_key(f, "final_logit_softcapping"))
        return gguf_bad_key(f, "final_logit_softcapping",
                            "llama.cpp always has one in this family");
    if (!gguf_key(f, "sliding_window"))
        return gguf_bad_key(f, "sliding_window", "it is needed");
    const json_t *rope = json_object_get(gguf_key(f, "rope_parameters"), "sliding_attention");
    const json_t *local =
        rope ? json_object_get(rope, "rope_theta") : gguf_key(f, "rope_local_base_freq");
    if (f->is == GEMMA3 && number(local, 10000) != 10000)
        return gguf_bad_key(f, rope ? "rope_parameters" : "rope_local_base_freq",
                            "llama.cpp has 10000 for the layers with a window");
    return check_windows(f, f->is == GEMMA2 ? 2 : 6);
}

static bool check(const Family *f)
{
    static const struct {
        const char *name;
        double value;
    } fixed[] = {{"partial_rotary_factor", 1}, {"pretraining_tp", 1}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (number(gguf_key(f, fixed[i].name), fixed[i].value) != fixed[i].value)
            return gguf_bad_key(f, fixed[i].name, "only 1 is written");
    if (json_is_true(gguf_key(f, "use_sliding_window")))
        return gguf_bad_key(f, "use_sliding_window", "llama.cpp has no windows in this family");
    if (json_is_true(gguf_key(f, "use_bidirectional_attention")))
        return gguf_bad_key(f, "use_bidirectional_attention", "a model that generates is causal");
    if (gguf_key(f, "quantization_config"))
        return gguf_bad_key(f, "quantization_config", "weights of fewer bits are not read");
    if (!(f->is & GEMMAS) && !check_windows(f, 1))
        return false;
    return check_activation(f) && (!(f->is & GEMMAS) || check_gemma(f));
}

/* ---- rotary positions ---------------------------------------------------------------------- */

/* Llama 3's factors of the frequencies, as a tensor. */
static void llama3_factors(const Family *f)
{
    const int64_t n = f->head / 2;
    float *v = NEW_ARRAY(f->g->s->arena, float, (size_t)n);
    const double factor = number(json_object_get(f->rope, "factor"), 8),
                 low = number(json_object_get(f->rope, "low_freq_factor"), 1),
                 high = number(json_object_get(f->rope, "high_freq_factor"), 4),
                 context =
                     number(json_object_get(f->rope, "original_max_position_embeddings"), 8192);
    for (int64_t i = 0; i < n; i++) {
        const double turn = 2 * 3.14159265358979323846 *
                            pow(f->theta, 2 * (double)i / (double)f->head),
                     smooth = (context / turn - low) / (high - low);
        v[i] = (float)(turn < context / high  ? 1
                       : turn > context / low ? factor
                                              : 1 / ((1 - smooth) / factor + smooth));
    }
    GgufTensor t = {.name = "rope_freqs.weight", .values = v, .rank = 1, .shape = {n}};
    vec_push(f->g->s->arena, &f->g->tensor, t);
}

/* A scaling with other keys than these computes something else. */
static bool only_keys(const Family *f, const char *const *keys)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)f->rope, name, v) {
        bool known = !strcmp(name, "rope_type") || !strcmp(name, "type") ||
                     !strcmp(name, "rope_theta") ||
                     (!strcmp(name, "partial_rotary_factor") && number(v, 0) == 1);
        for (const char *const *k = keys; *k; k++)
            known |= !strcmp(name, *k);
        if (!known)
            return gguf_refuse(f->g, 610,
                               "config.json: \"%s\" of the rotary positions is not written", name);
    }
    return true;
}

static bool write_rope(const Family *f)
{
    static const char *const none[] = {NULL}, *const linear[] = {"factor", NULL};
    static const char *const yarn[] = {"factor", "original_max_position_embeddings", NULL};
    static const char *const llama3[] = {"factor", "low_freq_factor", "high_freq_factor",
                                         "original_max_position_embeddings", NULL};
    Gguf *g = f->g;
    const json_t *type = json_object_get(f->rope, "rope_type");
    type = type ? type : json_object_get(f->rope, "type");
    const double factor = number(json_object_get(f->rope, "factor"), 1);
    gguf_f32(g, ".rope.freq_base", f->theta);
    if (!type || is_word(type, "default"))
        return only_keys(f, none);
    if (is_word(type, "linear")) {
        gguf_text(g, ".rope.scaling.type", "linear");
        gguf_f32(g, ".rope.scaling.factor", factor);
        return only_keys(f, linear);
    }
    if (is_word(type, "yarn") && !(f->is & GEMMAS)) {
        gguf_text(g, ".rope.scaling.type", "yarn");
        gguf_f32(g, ".rope.scaling.factor", factor);
        gguf_u32(g, ".rope.scaling.original_context_length",
                 (int64_t)number(json_object_get(f->rope, "original_max_position_embeddings"),
                                 (double)f->positions));
        return only_keys(f, yarn);
    }
    if (is_word(type, "llama3") && f->is == LLAMA) {
        llama3_factors(f);
        return only_keys(f, llama3);
    }
    return gguf_refuse(g, 610,
                       "config.json: rotary positions of the type '%.40s' are not written "
                       "for %s",
                       json_is_string(type) ? json_string_value(type) : "?", f->model_type);
}

/* ---- metadata ------------------------------------------------------------------------------ */

/* rope_parameters, of transformers 5, have the rate with them; before, it was a key of its own. */
static void find_rope(Family *f)
{
    const json_t *all = gguf_key(f, "rope_parameters");
    if (json_object_get(all, "full_attention"))
        all = json_object_get(all, "full_attention");
    f->rope = all ? all : gguf_key(f, "rope_scaling");
    f->theta = number(json_object_get(all, "rope_theta"),
                      number(gguf_key(f, "rope_theta"), f->is == GEMMA3 ? 1e6 : 10000));
}

static bool write_sizes(Family *f)
{
    Gguf *g = f->g;
    int64_t ffn;
    if (!gguf_whole(f, "num_hidden_layers", 0, &f->layers) ||
        !gguf_whole(f, "hidden_size", 0, &f->hidden) ||
        !gguf_whole(f, "num_attention_heads", 0, &f->heads) ||
        !gguf_whole(f, "num_key_value_heads", f->heads, &f->kv_heads) ||
        !gguf_whole(f, "head_dim", f->hidden / f->heads, &f->head) ||
        !gguf_whole(f, "vocab_size", 0, &f->vocab) ||
        !gguf_whole(f, "intermediate_size", 0, &ffn) ||
        !gguf_whole(f, "max_position_embeddings", f->is & GEMMAS ? 8192 : 0, &f->positions))
        return false;
    find_rope(f);
    int64_t context = f->positions;
    const json_t *window = gguf_key(f, "sliding_window");
    if (f->is & TURNED && window && json_integer_value(window) < context) {
        context = json_integer_value(window);
        diag_notice(g->s->diag,
                    "llama.cpp has no windows in this family: the file's context is %lld "
                    "tokens, as far as a layer looks",
                    (long long)context);
    }
    gguf_u32(g, ".vocab_size", f->vocab);
    gguf_u32(g, ".context_length", context);
    gguf_u32(g, ".embedding_length", f->hidden);
    gguf_u32(g, ".block_count", f->layers);
    gguf_u32(g, ".feed_forward_length", ffn);
    gguf_u32(g, ".attention.head_count", f->heads);
    gguf_u32(g, ".attention.head_count_kv", f->kv_heads);
    gguf_u32(g, ".attention.key_length", f->head);
    gguf_u32(g, ".attention.value_length", f->head);
    gguf_u32(g, ".rope.dimension_count", f->head);
    gguf_f32(g, ".attention.layer_norm_rms_epsilon", number(gguf_key(f, "rms_norm_eps"), 1e-6));
    return true;
}

static void write_gemma(const Family *f)
{
    Gguf *g = f->g;
    if (f->is == GEMMA2)
        gguf_f32(g, ".attn_logit_softcapping", number(gguf_key(f, "attn_logit_softcapping"), 50));
    if (f->is == GEMMA2 || gguf_key(f, "final_logit_softcapping"))
        gguf_f32(g, ".final_logit_softcapping", number(gguf_key(f, "final_logit_softcapping"), 30));
    if (f->is & NORMS_AROUND)
        gguf_u32(g, ".attention.sliding_window", json_integer_value(gguf_key(f, "sliding_window")));
}

/* ---- tensors ------------------------------------------------------------------------------- */

GgufType gguf_matrix_type(const Gguf *g, int64_t n)
{
    return g->type == GGUF_q8_0 && n % 32 != 0 ? GGUF_f16 : g->type;
}

/* Vectors are f32. */
static bool add(const Family *f, const GgufSource *x, const char *name, char turned, bool norm)
{
    Gguf *g = f->g;
    GgufTensor t = {.name = name, .source = x, .rank = x->rank, .from_one = norm && f->is & GEMMAS};
    memcpy(t.shape, x->shape, sizeof x->shape);
    t.type = x->rank < 2 ? GGUF_f32 : gguf_matrix_type(g, x->shape[1]);
    if (turned && f->is & TURNED)
        t.turned = f->head;
    if (turned &&
        (x->shape[0] != f->head * (turned == 'q' ? f->heads : f->kv_heads) || f->head % 2))
        return gguf_refuse(g, 611, "%s has %lld rows, which config.json says otherwise", x->name,
                           (long long)x->shape[0]);
    vec_push(g->s->arena, &g->tensor, t);
    return true;
}

static bool add_layer(const Family *f, int64_t layer, int64_t *taken)
{
    Arena *a = f->g->s->arena;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const char *name =
            arena_printf(a, "model.layers.%lld.%s", (long long)layer, tensors[i].name);
        const GgufSource *x = gguf_source(f->g, name);
        const bool bias = strstr(name, ".bias");
        if (!(tensors[i].in & f->is))
            continue;
        if (!x && !bias)
            return gguf_refuse(f->g, 611, "%s is missing", name);
        if (x && !add(f, x, arena_printf(a, "blk.%lld.%s", (long long)layer, tensors[i].written),
                      tensors[i].turned, tensors[i].norm))
            return false;
        *taken += x != NULL;
    }
    return gguf_experts_layer(f, layer, taken);
}

static bool takes(const GgufTensor *t, const GgufSource *x)
{
    bool found = t->source == x;
    for (int64_t i = 0; i < t->parts && !found; i++)
        found = t->part[i] == x;
    return found;
}

/* The first tensor that no row takes. */
static bool refuse_rest(const Family *f, bool head)
{
    for (size_t i = 0; i < f->g->source.n; i++) {
        const char *name = f->g->source.data[i].name;
        bool used = !strcmp(name, "lm_head.weight") && !head;
        for (size_t k = 0; k < f->g->tensor.n && !used; k++)
            used = takes(&f->g->tensor.data[k], &f->g->source.data[i]);
        if (!used)
            return gguf_refuse(f->g, 611, "%s is a tensor that %s does not have in llama.cpp", name,
                               f->model_type);
    }
    return true;
}

static bool add_tensors(const Family *f)
{
    const GgufSource *embed = gguf_source(f->g, "model.embed_tokens.weight"),
                     *norm = gguf_source(f->g, "model.norm.weight"),
                     *head = gguf_source(f->g, "lm_head.weight");
    const json_t *said = gguf_key(f, "tie_word_embeddings");
    const bool tied = said ? json_is_true(said) : (f->is & GEMMAS) != 0;
    int64_t taken = 2 + (head != NULL);
    if (!embed || !norm || (!tied && !head))
        return gguf_refuse(f->g, 611, "%s is missing",
                           !embed  ? "model.embed_tokens.weight"
                           : !norm ? "model.norm.weight"
                                   : "lm_head.weight");
    if (embed->rank != 2 || embed->shape[0] != f->vocab)
        return gguf_refuse(f->g, 611,
                           "model.embed_tokens.weight has %lld rows, and config.json "
                           "says %lld tokens",
                           (long long)embed->shape[0], (long long)f->vocab);
    if (!add(f, embed, "token_embd.weight", 0, false) ||
        !add(f, norm, "output_norm.weight", 0, true) ||
        (!tied && !add(f, head, "output.weight", 0, false)))
        return false;
    for (int64_t l = 0; l < f->layers; l++)
        if (!add_layer(f, l, &taken))
            return false;
    return taken == (int64_t)f->g->source.n || refuse_rest(f, !tied);
}

bool gguf_family(Gguf *g)
{
    Family f = {.g = g, .model_type = json_string_value(json_object_get(g->config, "model_type"))};
    const char *known = "";
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        known = arena_printf(g->s->arena, "%s%s%s", known, i ? ", " : "", families[i].model_type);
        if (f.model_type && !strcmp(f.model_type, families[i].model_type)) {
            f.is = families[i].is;
            g->arch = families[i].arch;
        }
    }
    if (!f.is) {
        gguf_refuse(g, 610, "config.json: the model_type is %.60s; what can be written is %s",
                    f.model_type ? f.model_type : "missing", known);
        return false;
    }
    gguf_text(g, "general.architecture", g->arch);
    gguf_text(g, "general.type", "model");
    gguf_u32(g, "general.quantization_version", 2);
    gguf_u32(g, "general.file_type",
             g->type == GGUF_f32    ? 0
             : g->type == GGUF_f16  ? 1
             : g->type == GGUF_q8_0 ? 7
                                    : 32);
    if (!write_sizes(&f) || !gguf_experts_sizes(&f) || !check(&f) || !write_rope(&f))
        return false;
    write_gemma(&f);
    return add_tensors(&f);
}
