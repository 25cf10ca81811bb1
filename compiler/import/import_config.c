/* import_config.c - config.json of a Hugging Face model, as far as mgc has what it asks for.
 *
 * Whatever would change the computation and is not built is an error; keys that do not matter for
 * training from given weights are left alone. */
#include "compiler/import/import.h"

#include <math.h>
#include <string.h>

typedef struct FamilyRow {
    const char *type; /* model_type */
    bool qkv_bias, qk_norm;
} FamilyRow;

static const FamilyRow families[] = {
    [FAMILY_llama] = {"llama", false, false},     [FAMILY_qwen2] = {"qwen2", true, false},
    [FAMILY_qwen3] = {"qwen3", false, true},      [FAMILY_mistral] = {"mistral", false, false},
    [FAMILY_mixtral] = {"mixtral", false, false}, [FAMILY_phi3] = {"phi3", false, false},
    [FAMILY_gpt2] = {"gpt2", true, false},        [FAMILY_mamba2] = {"mamba2", false, false},
    [FAMILY_bamba] = {"bamba", false, false}};
enum { FAMILIES = sizeof families / sizeof *families, LARGEST = 1 << 30 };

static bool bad(HfModel *h, const char *key, const char *why)
{
    diag_error(h->s->diag, (Span){0}, 570, "%s: \"%s\" %s", h->path, key, why);
    return false;
}

/* A key that is absent or null leaves the value as it is, if it has one. */
static bool whole(HfModel *h, const char *key, int64_t *x)
{
    json_t *v = json_object_get(h->config, key);
    if ((!v || json_is_null(v)) && *x > 0)
        return true;
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > LARGEST)
        return bad(h, key, "is not a whole number of at least 1");
    *x = json_integer_value(v);
    return true;
}

static bool real_of(HfModel *h, json_t *from, const char *key, double *x)
{
    json_t *v = json_object_get(from, key);
    if ((!v || json_is_null(v)) && *x > 0)
        return true;
    if (!json_is_number(v) || !(json_number_value(v) > 0) || !isfinite(json_number_value(v)))
        return bad(h, key, "is not a number above 0");
    *x = json_number_value(v);
    return true;
}

static bool flag(HfModel *h, const char *key, bool otherwise)
{
    json_t *v = json_object_get(h->config, key);
    return v && !json_is_null(v) ? json_is_true(v) : otherwise;
}

/* A key that may only say what is built. */
static bool only(HfModel *h, const char *key, const char *const *words)
{
    json_t *v = json_object_get(h->config, key);
    if (!v || json_is_null(v))
        return true;
    for (int i = 0; words[i]; i++)
        if (json_is_string(v) && strcmp(json_string_value(v), words[i]) == 0)
            return true;
    return bad(h, key, arena_printf(h->s->arena, "is not '%s', which is what is built", words[0]));
}

static bool no(HfModel *h, const char *key)
{
    return !flag(h, key, false) || bad(h, key, "is true, which is not built");
}

/* rope_theta and rope_scaling, or both in rope_parameters. */
static bool rope(HfModel *h)
{
    json_t *all = json_object_get(h->config, "rope_parameters");
    json_t *scaling = all ? all : json_object_get(h->config, "rope_scaling");
    h->theta = 10000;
    if (!real_of(h, all && json_object_get(all, "rope_theta") ? all : h->config, "rope_theta",
                 &h->theta))
        return false;
    if (!scaling || json_is_null(scaling))
        return true;
    json_t *type = json_object_get(scaling, "rope_type");
    type = type ? type : json_object_get(scaling, "type");
    const char *word = json_is_string(type) ? json_string_value(type) : "";
    if (strcmp(word, "default") == 0)
        return true;
    if (h->family == FAMILY_phi3 || h->family == FAMILY_bamba)
        return bad(h, "rope_type",
                   arena_printf(h->s->arena,
                                "is '%.40s'; 'default' is what is built for this "
                                "family",
                                word));
    if (strcmp(word, "llama3") != 0)
        return bad(h, "rope_type", "is neither 'default' nor 'llama3', which are built");
    h->scaled = true;
    bool ok = real_of(h, scaling, "factor", &h->factor) &&
              real_of(h, scaling, "low_freq_factor", &h->low) &&
              real_of(h, scaling, "high_freq_factor", &h->high) &&
              real_of(h, scaling, "original_max_position_embeddings", &h->original);
    return ok && (h->low < h->high || bad(h, "low_freq_factor", "is not below high_freq_factor"));
}

/* A window that is always used, and written as it is. */
static bool windowed(HfModel *h)
{
    json_t *window = json_object_get(h->config, "sliding_window");
    if (!window || json_is_null(window))
        return true;
    if (!json_is_integer(window) || json_integer_value(window) < 1)
        return bad(h, "sliding_window", "is not a whole number of at least 1");
    h->window = json_integer_value(window) < h->positions ? json_integer_value(window) : 0;
    return true;
}

/* The first elements of a head are turned by their position, the others are not. */
static bool partly_rotary(HfModel *h)
{
    json_t *all = json_object_get(h->config, "rope_parameters");
    double factor = h->family == FAMILY_bamba ? 0.5 : 1; /* bamba's files leave it out */
    const char *key = "partial_rotary_factor";
    if (!real_of(h, json_object_get(all, key) ? all : h->config, key, &factor))
        return false;
    h->turn = (int64_t)((double)h->head * factor);
    return (factor <= 1 && h->turn >= 2 && h->turn % 2 == 0) ||
           bad(h, key, "does not make an even number of a head's elements");
}

static bool full_attention(HfModel *h)
{
    size_t i;
    json_t *type, *types = json_object_get(h->config, "layer_types");
    json_array_foreach(types, i, type)
        if (!json_is_string(type) || strcmp(json_string_value(type), "full_attention") != 0)
            return bad(h, "layer_types", "has other layers than 'full_attention'");
    json_t *window = json_object_get(h->config, "sliding_window");
    bool used = h->family == FAMILY_mistral || h->family == FAMILY_mixtral ||
                flag(h, "use_sliding_window", false);
    if (used && json_is_integer(window) && json_integer_value(window) < h->positions) {
        if (json_integer_value(window) < 1)
            return bad(h, "sliding_window", "is not above 0");
        h->positions = json_integer_value(window); /* within it attention is full */
    }
    return true;
}

static bool read_gpt2(HfModel *h)
{
    static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    bool ok = whole(h, "n_embd", &h->hidden) & whole(h, "n_layer", &h->layers) &
              whole(h, "n_head", &h->heads) & whole(h, "n_positions", &h->positions) &
              real_of(h, h->config, "layer_norm_epsilon", &h->eps) &
              only(h, "activation_function", gelu) & no(h, "scale_attn_by_inverse_layer_idx") &
              no(h, "add_cross_attention");
    h->ffn = h->hidden * 4;
    h->kv_heads = h->heads;
    h->tied = flag(h, "tie_word_embeddings", true);
    if (ok && !h->tied)
        ok = bad(h, "tie_word_embeddings", "is false, which is not built for this family");
    if (ok && !flag(h, "scale_attn_weights", true))
        ok = bad(h, "scale_attn_weights", "is false, which is not built");
    return ok && whole(h, "n_inner", &h->ffn);
}

/* The loss of transformers counts how unevenly experts are used where it is asked for the router's
 * scores. */
static bool experts(HfModel *h)
{
    json_t *noise = json_object_get(h->config, "router_jitter_noise");
    double factor = 0.001;
    if (json_is_number(noise) && json_number_value(noise) != 0)
        return bad(h, "router_jitter_noise", "is not 0, which is what is built");
    h->experts = 8;
    h->best = 2;
    if (!whole(h, "num_local_experts", &h->experts) || !whole(h, "num_experts_per_tok", &h->best) ||
        !real_of(h, h->config, "router_aux_loss_coef", &factor))
        return false;
    h->balancing = flag(h, "output_router_logits", false) ? factor : 0;
    return h->best <= h->experts || bad(h, "num_experts_per_tok", "is more than there are experts");
}

static bool read_llama(HfModel *h)
{
    static const char *const silu[] = {"silu", "swish", NULL};
    bool ok = whole(h, "hidden_size", &h->hidden) & whole(h, "num_hidden_layers", &h->layers) &
              whole(h, "num_attention_heads", &h->heads) & whole(h, "intermediate_size", &h->ffn) &
              whole(h, "max_position_embeddings", &h->positions) &
              real_of(h, h->config, "rms_norm_eps", &h->eps) & only(h, "hidden_act", silu) &
              no(h, "mlp_bias");
    h->kv_heads = h->heads;
    h->tied = flag(h, "tie_word_embeddings", false);
    ok = ok && whole(h, "num_key_value_heads", &h->kv_heads) && rope(h) &&
         (h->family == FAMILY_phi3 ? windowed(h) : full_attention(h));
    if (h->family == FAMILY_mixtral)
        ok = ok && experts(h);
    if (h->family == FAMILY_qwen2)
        return ok;
    return ok && no(h, "attention_bias"); /* it would be on the output too */
}

/* A key that is one number where it is there. */
static bool is_number(HfModel *h, const char *key, double x)
{
    json_t *v = json_object_get(h->config, key);
    if (!v || json_is_null(v) || (json_is_number(v) && json_number_value(v) == x))
        return true;
    return bad(h, key, arena_printf(h->s->arena, "is not %g, which is what is built", x));
}

/* Steps in time have no upper limit: (0, Infinity), in any of the ways to write it. */
static bool unlimited(HfModel *h)
{
    json_t *v = json_object_get(h->config, "time_step_limit"), *low = json_array_get(v, 0);
    const char *high = json_string_value(json_object_get(json_array_get(v, 1), "__float__"));
    if (!v || json_is_null(v) ||
        (json_number_value(low) == 0 &&
         (json_is_null(json_array_get(v, 1)) || (high && strcmp(high, "Infinity") == 0))))
        return true;
    return bad(h, "time_step_limit", "is not 0 to Infinity, which is what is built");
}

/* The sizes of a mixer fit each other. */
static bool mixer_fits(HfModel *h, const char *key)
{
    int64_t wide = 2;
    return whole(h, key, &wide) && unlimited(h) &&
           (wide * h->hidden == h->lanes * h->lane ||
            bad(h, key,
                "times the hidden size is not the number of the mixer's heads times theirs"));
}

static bool read_mamba2(HfModel *h)
{
    static const char *const silu[] = {"silu", "swish", NULL};
    h->heads = h->kv_heads = 1;
    h->positions = LARGEST;
    h->taps = 4;
    h->tied = flag(h, "tie_word_embeddings", false);
    bool ok = whole(h, "hidden_size", &h->hidden) & whole(h, "num_hidden_layers", &h->layers) &
              whole(h, "num_heads", &h->lanes) & whole(h, "head_dim", &h->lane) &
              whole(h, "state_size", &h->state) & whole(h, "conv_kernel", &h->taps) &
              real_of(h, h->config, "layer_norm_epsilon", &h->eps) & only(h, "hidden_act", silu) &
              no(h, "use_bias") & is_number(h, "n_groups", 1);
    if (ok && !(flag(h, "use_conv_bias", true) && flag(h, "rms_norm", true)))
        ok = bad(h, flag(h, "rms_norm", true) ? "use_conv_bias" : "rms_norm",
                 "is false, which is not built");
    return ok && mixer_fits(h, "expand");
}

/* Layers that attend, by their numbers. */
static bool attending(HfModel *h)
{
    const char *key = "attn_layer_indices";
    size_t i;
    json_t *layer, *all = json_object_get(h->config, key);
    if (all && !json_is_null(all) && !json_is_array(all))
        return bad(h, key, "is no list");
    h->attending = all;
    json_array_foreach(all, i, layer)
        if (!json_is_integer(layer) || json_integer_value(layer) < 0)
            return bad(h, key, "has what is no number of a layer");
    return true;
}

static bool read_bamba(HfModel *h)
{
    h->taps = 4;
    bool ok = whole(h, "mamba_n_heads", &h->lanes) & whole(h, "mamba_d_state", &h->state) &
              whole(h, "mamba_d_conv", &h->taps) & is_number(h, "mamba_n_groups", 1) &
              no(h, "mamba_proj_bias") & is_number(h, "z_loss_coefficient", 0);
    if (ok && !flag(h, "mamba_conv_bias", true))
        ok = bad(h, "mamba_conv_bias", "is false, which is not built");
    if (!ok || !read_llama(h) || !attending(h))
        return false;
    json_t *size = json_object_get(h->config, "mamba_d_head");
    if (json_is_string(size) && strcmp(json_string_value(size), "auto") == 0)
        h->lane = 2 * h->hidden / h->lanes; /* mixer_fits says where the expansion is another */
    else
        ok = whole(h, "mamba_d_head", &h->lane);
    return ok && mixer_fits(h, "mamba_expand");
}

static bool family(HfModel *h)
{
    json_t *type = json_object_get(h->config, "model_type");
    if (!json_is_string(type))
        return bad(h, "model_type", "is missing: this is not the config.json of a model");
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].type, json_string_value(type)) == 0) {
            h->family = (Family)i;
            h->qkv_bias = families[i].qkv_bias;
            h->qk_norm = families[i].qk_norm;
            return true;
        }
    bad(h, "model_type", arena_printf(h->s->arena, "is '%.40s'", json_string_value(type)));
    diag_help(h->s->diag,
              "there is: llama, mistral, mixtral, qwen2, qwen3, phi3, gpt2, mamba2, bamba");
    return false;
}

/* Python writes Infinity, which is no JSON, where a time step has no limit: null here. */
static const char *without_infinity(HfModel *h, const char *text, size_t size)
{
    char *copy = arena_alloc(h->s->arena, size + 1), *at;
    memcpy(copy, text, size);
    copy[size] = 0;
    for (at = copy; (at = strstr(at, "Infinity")) != NULL; at += strlen("Infinity"))
        if (at == copy || strchr(" ,[:\n", at[-1]))
            memcpy(at, "null    ", strlen("Infinity"));
    return copy;
}

static bool read_family(HfModel *h)
{
    return h->family == FAMILY_gpt2     ? read_gpt2(h)
           : h->family == FAMILY_mamba2 ? read_mamba2(h)
           : h->family == FAMILY_bamba  ? read_bamba(h)
                                        : read_llama(h);
}

bool import_config(HfModel *h)
{
    json_error_t e;
    uint32_t file = read_source(h->s, h->path);
    size_t size;
    if (!file)
        return false;
    const char *text = diag_text(h->s->diag, file, &size);
    text = without_infinity(h, text, size);
    h->config = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
    json_array_append_new(h->owned, h->config);
    if (!json_is_object(h->config)) {
        diag_error(h->s->diag, (Span){0}, 570, "%s:%d:%d: %s", h->path, e.line, e.column,
                   h->config ? "no JSON object" : e.text);
        return false;
    }
    if (!family(h))
        return false;
    h->std = 0.02;
    const bool coarse = h->family == FAMILY_gpt2 || h->family == FAMILY_phi3 ||
                        h->family == FAMILY_mamba2 || h->family == FAMILY_bamba;
    h->eps = coarse ? 1e-5 : 1e-6;
    if (!whole(h, "vocab_size", &h->vocab) ||
        !real_of(h, h->config, "initializer_range", &h->std) || !read_family(h))
        return false;
    if (h->family == FAMILY_mamba2)
        return true;
    if (h->heads % h->kv_heads)
        return bad(h, "num_key_value_heads", "does not divide num_attention_heads");
    h->head = h->hidden / h->heads;
    json_t *head = json_object_get(h->config, "head_dim");
    if (!(head && !json_is_null(head)) && h->hidden % h->heads)
        return bad(h, "num_attention_heads", "does not divide the hidden size");
    if (h->head < 1)
        h->head = 1;
    return (h->family == FAMILY_gpt2 || whole(h, "head_dim", &h->head)) &&
           ((h->family != FAMILY_phi3 && h->family != FAMILY_bamba) || partly_rotary(h)) &&
           (h->head % 2 == 0 || h->family == FAMILY_gpt2 ||
            bad(h, "head_dim", "is odd: rotary positions turn pairs"));
}
