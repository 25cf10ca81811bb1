/* tok_read.c - tokenizer.json, of which nothing is believed. What it asks for and is not built is
 * an error that names the part: a tokenizer that is nearly right is worse than none. */
#include "text/tok.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- tables -------------------------------------------------------------------------------- */

uint64_t tok_hash(const char *key, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)key[i]) * 1099511628211u; /* FNV-1a */
    return h ^ h >> 29;
}

static TokEntry *entry(const TokTable *t, const char *key, size_t n)
{
    size_t i = tok_hash(key, n) & (t->slots - 1);
    while (t->slot[i].key && (t->slot[i].length != n || memcmp(t->slot[i].key, key, n) != 0))
        i = (i + 1) & (t->slots - 1);
    return &t->slot[i];
}

void tok_table_put(Arena *a, TokTable *t, const char *key, size_t n, int32_t id)
{
    if (4 * (t->n + 1) > 3 * t->slots) {
        TokTable bigger = {.slots = t->slots ? 2 * t->slots : 1024};
        bigger.slot = NEW_ARRAY(a, TokEntry, bigger.slots);
        for (size_t i = 0; i < t->slots; i++)
            if (t->slot[i].key)
                *entry(&bigger, t->slot[i].key, t->slot[i].length) = t->slot[i];
        bigger.n = t->n;
        *t = bigger;
    }
    TokEntry *e = entry(t, key, n);
    t->n += !e->key;
    *e = (TokEntry){arena_strndup(a, key, n), (uint32_t)n, id};
}

int32_t tok_table_get(const TokTable *t, const char *key, size_t n)
{
    const TokEntry *e = t->slots ? entry(t, key, n) : NULL;
    return e && e->key ? e->id : -1;
}

/* ---- messages and small values ------------------------------------------------------------- */

bool tok_bad(TokReader *r, const char *what, const char *why)
{
    return text_error(r->e, r->t->a, "%s: %.100s %s", r->path, what, why);
}

const char *tok_json_text(const json_t *from, const char *key)
{
    const char *s = json_string_value(json_object_get(from, key));
    return s ? s : "";
}

bool tok_json_flag(const json_t *from, const char *key, bool otherwise)
{
    json_t *v = json_object_get(from, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

bool tok_json_given(const json_t *from, const char *key)
{
    json_t *v = json_object_get(from, key);
    return v && !json_is_null(v) && !(json_is_string(v) && !json_string_length(v));
}

/* ---- added tokens and the template --------------------------------------------------------- */

/* One that is looked for in normalized text is looked for as it is normalized itself. */
static void normalize_added(Tokenizer *t, TokAdded *a)
{
    TokWorker w = {.t = t};
    TokPiece p = {a->text, a->length, NULL, 0};
    for (size_t i = 0; i < t->norm.n; i++) {
        TokMade m = {0};
        if (!tok_normalized(&w, &t->norm.data[i], &p, &m))
            continue;
        p = (TokPiece){arena_strndup(t->a, m.p ? m.p : "", m.n), m.n, NULL, 0};
        tok_made_free(&m);
    }
    a->find = p.p;
    a->length = p.n;
}

static bool add_added(TokReader *r, const json_t *v, bool special)
{
    Tokenizer *t = r->t;
    json_t *id = json_object_get(v, "id"), *content = json_object_get(v, "content");
    TokAdded a = {.text = arena_strdup(t->a, tok_json_text(v, "content"))};
    a.find = a.text;
    a.length = strlen(a.text);
    if (!a.length || a.length != json_string_length(content) || !json_is_integer(id) ||
        json_integer_value(id) < 0 || json_integer_value(id) >= 1 << 24)
        return tok_bad(r, "added_tokens", "holds one without content or id");
    if (tok_json_flag(v, "special", false) != special)
        return true;
    a.single = tok_json_flag(v, "single_word", false);
    a.id = (int32_t)json_integer_value(id);
    a.left = tok_json_flag(v, "lstrip", false);
    a.right = tok_json_flag(v, "rstrip", false);
    a.normalized = tok_json_flag(v, "normalized", !special);
    if (a.normalized)
        normalize_added(t, &a);
    tok_add_name(t, a.id, arena_strndup(t->a, a.find, a.length), special);
    if (!a.length)
        return tok_bad(r, a.text, "is an added token of which the normalizer leaves nothing");
    t->size = a.id >= t->size ? a.id + 1 : t->size;
    t->begins[a.normalized][(unsigned char)*a.find] = true;
    vec_push(t->a, &t->added, a);
    return true;
}

/* Of two that are equal once they are normalized the first holds, and special ones come first. */
static bool read_added(TokReader *r, const json_t *list)
{
    size_t i;
    json_t *v;
    for (int special = 1; special >= 0; special--)
        json_array_foreach(list, i, v)
            if (!add_added(r, v, special))
                return false;
    return true;
}

int32_t tok_named(const Tokenizer *t, const char *content)
{
    for (size_t i = 0; i < t->added.n; i++)
        if (strcmp(t->added.data[i].text, content) == 0)
            return t->added.data[i].id;
    for (size_t i = 0; i < t->known.n; i++)
        if (strcmp(t->known.data[i].text, content) == 0)
            return t->known.data[i].id;
    return tok_table_get(&t->vocab, content, strlen(content));
}

/* The ids around what earlier processors have made: before the first, behind the last. */
static void surround(Tokenizer *t, const int32_t *before, size_t nb, const int32_t *after,
                     size_t na)
{
    for (size_t i = 0; i < nb; i++) {
        vec_push(t->a, &t->before, 0);
        for (size_t k = t->before.n - 1; k > i; k--)
            t->before.data[k] = t->before.data[k - 1];
        t->before.data[i] = before[i];
    }
    for (size_t i = 0; i < na; i++)
        vec_push(t->a, &t->after, after[i]);
}

static bool special_id(TokReader *r, const json_t *id, int32_t *out)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= 1 << 24)
        return tok_bad(r, "post_processor", "has an id that is none");
    *out = (int32_t)json_integer_value(id);
    r->t->size = *out >= r->t->size ? *out + 1 : r->t->size;
    return true;
}

static bool read_template(TokReader *r, const json_t *n)
{
    Tokenizer *t = r->t;
    VEC(int32_t) before = {0}, after = {0};
    size_t i, k;
    json_t *piece, *id;
    int seen = 0;
    json_array_foreach(json_object_get(n, "single"), i, piece) {
        json_t *special = json_object_get(piece, "SpecialToken");
        seen += json_object_get(piece, "Sequence") != NULL;
        json_t *of =
            json_object_get(json_object_get(n, "special_tokens"), tok_json_text(special, "id"));
        json_array_foreach(json_object_get(of, "ids"), k, id) {
            int32_t token = 0;
            if (!special_id(r, id, &token))
                return false;
            if (seen)
                vec_push(t->a, &after, token);
            else
                vec_push(t->a, &before, token);
        }
    }
    surround(t, before.data, before.n, after.data, after.n);
    return seen == 1 ||
           tok_bad(r, "post_processor",
                   seen ? "is a template with the text twice" : "is a template without the text");
}

/* BertProcessing and RobertaProcessing: cls before, sep behind. */
static bool read_pair(TokReader *r, const json_t *n)
{
    int32_t cls = 0, sep = 0;
    if (!special_id(r, json_array_get(json_object_get(n, "cls"), 1), &cls) ||
        !special_id(r, json_array_get(json_object_get(n, "sep"), 1), &sep))
        return false;
    surround(r->t, &cls, 1, &sep, 1);
    return true;
}

static bool read_post(TokReader *r, const json_t *n, int depth)
{
    const char *type = tok_json_text(n, "type");
    size_t i;
    json_t *v;
    if (!n || json_is_null(n) || strcmp(type, "ByteLevel") == 0) /* which moves offsets only */
        return true;
    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        json_array_foreach(json_object_get(n, "processors"), i, v)
            if (!read_post(r, v, depth + 1))
                return false;
        return true;
    }
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(r, n);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_pair(r, n);
    return tok_bad(r, "post_processor", arena_printf(r->t->a, "'%.40s' is not built", type));
}

void tok_free(Tokenizer *t)
{
    for (size_t i = 0; i < t->split.n; i++)
        pcre2_code_free(t->split.data[i].regex);
    t->split.n = 0;
}

Tokenizer *tok_parse(Arena *a, const char *path, const char *json, size_t n, TextError *e)
{
    TokReader r = {.e = e, .t = NEW(a, Tokenizer), .path = path};
    r.t->seams = NEW(a, TokSeamsOnce);
    json_error_t je;
    *e = (TextError){0};
    r.t->a = a;
    r.t->prefix = r.t->suffix = "";
    for (int b = 0; b < 256; b++)
        r.t->char_of[b] = (uint32_t)tok_char_of_byte(b);
    size_t length = strlen(path);
    if (length > 6 && strcmp(path + length - 6, ".model") == 0) {
        bool good = tok_read_sentencepiece(&r, json, n);
        tok_sort_names(r.t);
        return good ? r.t : NULL;
    }
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &je);
    if (!json_is_object(root)) {
        text_error(e, a, "%s:%d:%d: %s", path, je.line, je.column,
                   root ? "no JSON object" : je.text);
        json_decref(root);
        return NULL;
    }
    bool good = tok_read_norm(&r, json_object_get(root, "normalizer"), 0) &&
                tok_read_pre(&r, json_object_get(root, "pre_tokenizer"), 0) &&
                tok_read_model(&r, json_object_get(root, "model")) &&
                read_added(&r, json_object_get(root, "added_tokens")) &&
                read_post(&r, json_object_get(root, "post_processor"), 0);
    if (good)
        tok_read_decode(&r, json_object_get(root, "decoder"), 0);
    json_decref(root);
    tok_sort_names(r.t);
    if (good)
        return r.t;
    tok_free(r.t);
    return NULL;
}
