/* adapter.c - directories of adapters as PEFT writes them, and what they add to a tensor. */
#include "compiler/merge/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define PREFIX "base_model.model."

static bool refuse(Session *s, const MergedAdapter *m, const char *what)
{
    diag_error(s->diag, (Span){0}, 621, "%s: %s", m->dir, what);
    return false;
}

/* ---- adapter_config.json
 * ------------------------------------------------------------------------- */

/* Whether a setting is there and says something. */
static bool says(const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_array(v) && !json_array_size(v)) &&
           !(json_is_object(v) && !json_object_size(v));
}

static bool built(Session *s, const MergedAdapter *m)
{
    static const char *const not_built[] = {"target_parameters",
                                            "trainable_token_indices",
                                            "lora_bias",
                                            "use_qalora",
                                            "alora_invocation_tokens",
                                            "layer_replication",
                                            "use_bdlora",
                                            "arrow_config",
                                            "velora_config"};
    const char *type = json_string_value(json_object_get(m->config, "peft_type"));
    const json_t *init = json_object_get(m->config, "init_lora_weights");
    const char *way = json_string_value(init);
    if (!type || strcmp(type, "LORA") != 0)
        return refuse(
            s, m, arena_printf(s->arena, "peft_type is '%.40s': LORA is built", type ? type : ""));
    for (size_t i = 0; i < sizeof not_built / sizeof *not_built; i++)
        if (says(m->config, not_built[i]))
            return refuse(s, m, arena_printf(s->arena, "'%s' is not built", not_built[i]));
    if (way && strcmp(way, "gaussian") != 0 && strcmp(way, "eva") != 0 &&
        strcmp(way, "orthogonal") != 0)
        return refuse(
            s, m,
            arena_printf(
                s->arena,
                "init_lora_weights is '%.40s', which changes the base as it begins: convert "
                "the adapter (save_pretrained with path_initial_model_for_weight_conversion)",
                way));
    return true;
}

/* DIR or DIR=0.7. */
static bool read_word(Session *s, MergedAdapter *m, const char *word)
{
    const char *equals = strrchr(word, '=');
    char *end;
    m->dir = word;
    m->weight = 1;
    if (!equals)
        return true;
    m->weight = strtod(equals + 1, &end);
    m->dir = arena_strndup(s->arena, word, (size_t)(equals - word));
    return (equals[1] && !*end && isfinite(m->weight)) ||
           refuse(s, m, arena_printf(s->arena, "'%s' is no weight of an adapter", equals + 1));
}

bool merge_adapter_open(Session *s, MergedAdapter *m, const char *word)
{
    json_error_t e;
    *m = (MergedAdapter){0};
    if (!read_word(s, m, word))
        return false;
    const char *path = arena_printf(s->arena, "%s/adapter_config.json", m->dir);
    m->config = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(m->config))
        return refuse(s, m,
                      arena_printf(s->arena, "no adapter_config.json that can be read: %s",
                                   m->config ? "no object" : e.text));
    if (!built(s, m))
        return false;
    const json_t *alpha = json_object_get(m->config, "lora_alpha");
    m->alpha = json_is_number(alpha) ? json_number_value(alpha) : 8;
    m->alphas = json_object_get(m->config, "alpha_pattern");
    m->stabilized = json_is_true(json_object_get(m->config, "use_rslora"));
    m->turned = json_is_true(json_object_get(m->config, "fan_in_fan_out"));
    return store_open(s, &m->store, m->dir, "adapter_model.safetensors");
}

void merge_adapter_close(MergedAdapter *m)
{
    store_close(&m->store);
    json_decref(m->config);
    *m = (MergedAdapter){0};
}

/* ---- patterns
 * ------------------------------------------------------------------------------------ */

/* As PEFT: (.*\.)?(KEY)$, from the beginning of the module's name. */
static bool matches(const char *key, const char *module)
{
    int error;
    PCRE2_SIZE at;
    const size_t n = strlen(key);
    char *pattern = malloc(n + 16);
    if (!pattern)
        return false;
    snprintf(pattern, n + 16, "\\A(.*\\.)?(%s)\\z", key);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &at, NULL);
    pcre2_match_data *found = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    const bool yes =
        found && pcre2_match(code, (PCRE2_SPTR)module, strlen(module), 0, 0, found, NULL) > 0;
    pcre2_match_data_free(found);
    pcre2_code_free(code);
    free(pattern);
    return yes;
}

static double alpha_of(const MergedAdapter *m, const char *module)
{
    const char *key;
    json_t *v;
    json_object_foreach(m->alphas, key, v)
        if (json_is_number(v) && matches(key, module))
            return json_number_value(v);
    return m->alpha;
}

/* ---- what is added
 * ------------------------------------------------------------------------------- */

void merge_addend_free(Addend *a)
{
    free(a->left);
    free(a->right);
    free(a->magnitude);
    free(a->length);
    free(a->whole);
    *a = (Addend){0};
}

static double *transposed(Session *s, double *from, int64_t rows, int64_t columns)
{
    double *to = from ? calloc((size_t)(rows * columns) + 1, sizeof *to) : NULL;
    if (from && !to)
        diag_error(s->diag, (Span){0}, 620, "no memory");
    for (int64_t i = 0; to && i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            to[k * rows + i] = from[i * columns + k];
    free(from);
    return to;
}

/* The tensor of the adapter for `module`, with any of the prefixes that base files leave out. */
static Stored *part(Session *s, const MergedAdapter *m, const char *module, const char *what,
                    const char **found)
{
    static const char *const before[] = {"", "model.", "transformer.", "base_model."};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *whole = arena_printf(s->arena, "%s%s", before[i], module);
        Stored *t = store_find(&m->store, arena_printf(s->arena, PREFIX "%s%s", whole, what));
        if (t) {
            *found = whole;
            return t;
        }
    }
    return NULL;
}

static bool wrong_shape(Session *s, const MergedAdapter *m, const Stored *w, const Stored *t)
{
    return refuse(s, m,
                  arena_printf(s->arena, "'%s' does not fit '%s' of the base", t->name, w->name));
}

typedef struct Pair {
    Stored *a, *b, *magnitude;
    bool table; /* of an embedding */
    const char *module;
} Pair;

static bool read_magnitude(Session *s, MergedAdapter *m, const Stored *w, const Pair *p,
                           bool turned, Addend *out)
{
    Stored *t = p->magnitude;
    if (!t)
        return true;
    t->used = true;
    out->by_column = turned || p->table;
    if (t->n != w->shape[out->by_column])
        return wrong_shape(s, m, w, t);
    if (m->weight != 1)
        return refuse(s, m,
                      "an adapter of DoRA has the weight 1: its lengths are those of the whole");
    return (out->magnitude = store_all(s, t));
}

/* PEFT's dtypes are numbers of the base's; a rank is that of the tensors. */
static bool read_pair(Session *s, MergedAdapter *m, const Stored *w, const Pair *p, Addend *out)
{
    Stored *a = p->a, *b = p->b;
    a->used = b->used = true;
    if (w->rank != 2 || a->rank != 2 || b->rank != 2 || a->shape[0] != b->shape[1] ||
        a->element == ELEMENT_other || b->element == ELEMENT_other)
        return wrong_shape(s, m, w, w->rank == 2 ? b : a);
    const bool straight = b->shape[0] == w->shape[0] && a->shape[1] == w->shape[1];
    const bool crossed = b->shape[0] == w->shape[1] && a->shape[1] == w->shape[0];
    const bool turned = p->table || (crossed && (!straight || m->turned));
    if (!(turned ? crossed : straight))
        return wrong_shape(s, m, w, b);
    out->rank = a->shape[0];
    const double rank = (double)out->rank, alpha = alpha_of(m, p->module);
    const double scale = m->weight * alpha / (m->stabilized ? sqrt(rank) : rank);
    double *of_a = store_all(s, a), *of_b = store_all(s, b);
    out->left = turned ? transposed(s, of_a, a->shape[0], a->shape[1]) : of_b;
    out->right = turned ? transposed(s, of_b, b->shape[0], b->shape[1]) : of_a;
    double *scaled = turned ? out->right : out->left; /* B, as a program does that exports */
    for (int64_t i = 0; scaled && i < b->n; i++)
        scaled[i] *= scale;
    return out->left && out->right && read_magnitude(s, m, w, p, turned, out);
}

static const char *without_weight(Session *s, const char *name)
{
    const size_t n = strlen(name), k = strlen(".weight");
    return n > k && !strcmp(name + n - k, ".weight") ? arena_strndup(s->arena, name, n - k) : NULL;
}

/* A tensor in place of the base's. */
static bool read_whole(Session *s, const MergedAdapter *m, const Stored *w, Stored *t, Addend *out)
{
    t->used = true;
    if (m->weight != 1)
        return refuse(s, m, "what is trained whole has the weight 1");
    if (t->element == ELEMENT_other || t->n != w->n || t->rank != w->rank ||
        memcmp(t->shape, w->shape, (size_t)w->rank * sizeof *w->shape) != 0)
        return wrong_shape(s, m, w, t);
    return (out->whole = store_all(s, t));
}

int merge_addend(Session *s, MergedAdapter *m, const Stored *w, Addend *out)
{
    const char *module = without_weight(s, w->name);
    Pair p = {.module = module};
    *out = (Addend){0};
    if (module && (p.a = part(s, m, module, ".lora_A.weight", &p.module)))
        p.b = part(s, m, module, ".lora_B.weight", &p.module);
    else if (module && (p.a = part(s, m, module, ".lora_embedding_A", &p.module))) {
        p.table = true;
        p.b = part(s, m, module, ".lora_embedding_B", &p.module);
    }
    if (p.a && !p.b)
        return refuse(s, m, arena_printf(s->arena, "'%s' without its lora_B", p.a->name)) ? 1 : -1;
    if (p.a) {
        Stored *base =
            part(s, m, module, ".base_layer.weight", &p.module); /* of tables, as saved */
        p.magnitude = part(s, m, module, ".lora_magnitude_vector", &p.module);
        return read_pair(s, m, w, &p, out) && (!base || read_whole(s, m, w, base, out)) ? 1 : -1;
    }
    Stored *t = part(s, m, w->name, "", &p.module); /* modules_to_save, or a bias */
    return !t ? 0 : read_whole(s, m, w, t, out) ? 1 : -1;
}
