/* gguf_tokens.c - the tokenizer: tokenizer.json and tokenizer_config.json as metadata.
 *
 * llama.cpp knows pre-tokenizers by name. A pattern that has none here is refused, for a tokenizer
 * that is nearly right is worse than none. Byte-pair encodings of bytes are its model "gpt2"; those
 * with a token for each byte that has no other ("byte fallback") are "llama", which merges by
 * scores: a token that is made earlier has a higher one. Without a tokenizer.json 256 tokens are
 * bytes. */
#include "compiler/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 };

typedef struct Tokens {
    Gguf *g;
    const json_t *file, *model, *config; /* tokenizer.json, its model; tokenizer_config.json */
    const char **text;
    int *type;
    int64_t n;
    bool bytes;      /* tokens are of bytes */
    const char *pre; /* the pre-tokenizer's name; NULL: there is none */
    bool any_pre;    /* nothing is merged: all split alike */
    bool space;      /* of byte fallback: a blank before the text */
} Tokens;

static bool bad(const Tokens *t, const char *what, const char *why)
{
    return gguf_refuse(t->g, 613, "tokenizer.json: %.100s %s", what, why);
}

static const char *text_of(const json_t *v, const char *key)
{
    const char *s = json_string_value(json_object_get(v, key));
    return s ? s : "";
}

static bool is_type(const json_t *v, const char *type)
{
    return !strcmp(text_of(v, "type"), type);
}

/* ---- pre-tokenizers ------------------------------------------------------------------------ */

#define BEFORE "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
#define BEHIND "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    const char *pattern, *name;
} patterns[] = {{BEFORE "{1,3}" BEHIND, "llama-bpe"}, {BEFORE BEHIND, "qwen2"}};

/* The parts of a pre-tokenizer, normalizer or post-processor, or the one that it is. */
static size_t parts_of(const json_t *v, const char *list, const json_t *part[4])
{
    const json_t *all = json_object_get(v, list), *one;
    size_t i, n = 0;
    if (!v || json_is_null(v))
        return 0;
    if (!is_type(v, "Sequence")) {
        part[0] = v;
        return 1;
    }
    json_array_foreach(all, i, one)
        if (n < 4)
            part[n++] = one;
    return json_array_size(all) > 4 ? 5 : n;
}

static bool splits_bytes(const json_t *v, bool regex)
{
    const json_t *r = json_object_get(v, "use_regex");
    return is_type(v, "ByteLevel") && !json_is_true(json_object_get(v, "add_prefix_space")) &&
           (r ? json_is_true(r) : true) == regex;
}

static bool read_pre_bytes(Tokens *t)
{
    const json_t *part[4], *pre = json_object_get(t->file, "pre_tokenizer");
    const size_t n = parts_of(pre, "pretokenizers", part);
    t->any_pre = json_array_size(json_object_get(t->model, "merges")) == 0;
    if (n == 1 && splits_bytes(part[0], true))
        t->pre = "gpt-2";
    else if (n == 1 && splits_bytes(part[0], false) && t->any_pre)
        t->pre = "gpt-2";
    else if (n == 2 && is_type(part[0], "Digits") && splits_bytes(part[1], true) &&
             json_is_true(json_object_get(part[0], "individual_digits")))
        t->pre = "smollm";
    for (size_t i = 0; n == 2 && i < sizeof patterns / sizeof *patterns; i++)
        if (is_type(part[0], "Split") && splits_bytes(part[1], false) &&
            !strcmp(text_of(part[0], "behavior"), "Isolated") &&
            !json_is_true(json_object_get(part[0], "invert")) &&
            !strcmp(text_of(json_object_get(part[0], "pattern"), "Regex"), patterns[i].pattern))
            t->pre = patterns[i].name;
    if (!t->pre)
        return bad(t, "pre_tokenizer",
                   "splits texts in a way that has no name in llama.cpp: those "
                   "of GPT-2, Llama 3, Qwen2 and SmolLM have");
    const json_t *norm = json_object_get(t->file, "normalizer");
    if (norm && !json_is_null(norm) && !(is_type(norm, "NFC") && !strcmp(t->pre, "qwen2")))
        return bad(t, "normalizer", "is set, and llama.cpp has none with this pre-tokenizer");
    const bool ignores = json_is_true(json_object_get(t->model, "ignore_merges"));
    if (!t->any_pre && ignores != !strcmp(t->pre, "llama-bpe"))
        return bad(t, "model.ignore_merges", "is otherwise in llama.cpp with this pre-tokenizer");
    return true;
}

/* Blanks become U+2581, and one may be put before the text. */
static bool read_pre_fallback(Tokens *t)
{
    const json_t *part[4], *pre = json_object_get(t->file, "pre_tokenizer");
    size_t n = parts_of(json_object_get(t->file, "normalizer"), "normalizers", part);
    bool good = n <= 2, blanks = false;
    for (size_t i = 0; good && i < n; i++) {
        const bool prepend = is_type(part[i], "Prepend"), replace = is_type(part[i], "Replace");
        good = (prepend && !strcmp(text_of(part[i], "prepend"), "\u2581")) ||
               (replace && !strcmp(text_of(part[i], "content"), "\u2581") &&
                !strcmp(text_of(json_object_get(part[i], "pattern"), "String"), " "));
        t->space |= prepend;
        blanks |= replace;
    }
    if (good && is_type(pre, "Metaspace")) {
        const char *scheme = text_of(pre, "prepend_scheme");
        good = n == 0 && !strcmp(text_of(pre, "replacement"), "\u2581") &&
               !json_is_true(json_object_get(pre, "split"));
        t->space = strcmp(scheme, "never") != 0;
        if (t->space)
            diag_notice(t->g->s->diag,
                        "tokenizer.json puts a blank before a text that does not begin "
                        "with one; llama.cpp puts one before each");
        blanks = true;
    } else if (good && pre && !json_is_null(pre)) {
        /* Gemma's: blanks are no longer there to be split at. */
        good = is_type(pre, "Split") && blanks &&
               !strcmp(text_of(json_object_get(pre, "pattern"), "String"), " ");
    }
    return (good && blanks) || bad(t, "normalizer and pre_tokenizer",
                                   "are none that llama.cpp has for tokens with byte fallback");
}

/* ---- tokens -------------------------------------------------------------------------------- */

static bool put_token(Tokens *t, const char *text, const json_t *id, int type)
{
    const int64_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= t->n)
        return bad(t, text,
                   arena_printf(t->g->s->arena,
                                "has the id %lld; config.json says %lld "
                                "tokens",
                                (long long)i, (long long)t->n));
    t->text[i] = text;
    t->type[i] = type;
    return true;
}

static bool is_byte_token(const char *s)
{
    return strlen(s) == 6 && !strncmp(s, "<0x", 3) && s[5] == '>';
}

static bool read_tokens(Tokens *t)
{
    const json_t *vocab = json_object_get(t->model, "vocab"), *id;
    const json_t *added = json_object_get(t->file, "added_tokens"), *v;
    const char *text, *unknown = text_of(t->model, "unk_token");
    size_t i;
    json_object_foreach((json_t *)vocab, text, id) {
        const int type = !t->bytes && is_byte_token(text)     ? BYTE
                         : *unknown && !strcmp(unknown, text) ? UNKNOWN
                                                              : NORMAL;
        if (!put_token(t, text, id, type))
            return false;
    }
    json_array_foreach(added, i, v) {
        const char *content = text_of(v, "content");
        const int type = *unknown && !strcmp(unknown, content)         ? UNKNOWN
                         : json_is_true(json_object_get(v, "special")) ? CONTROL
                                                                       : USER;
        if (!put_token(t, content, json_object_get(v, "id"), type))
            return false;
    }
    for (int64_t k = 0; k < t->n; k++)
        if (!t->text[k]) {
            t->text[k] = arena_printf(t->g->s->arena, "[PAD%lld]", (long long)k);
            t->type[k] = UNUSED;
        }
    return true;
}

static void write_list(const Tokens *t)
{
    Gguf *g = t->g;
    gguf_list(g, "tokenizer.ggml.tokens", "text", (uint64_t)t->n);
    for (int64_t i = 0; i < t->n; i++)
        gguf_put_text(g->meta, t->text[i], strlen(t->text[i]));
    gguf_list(g, "tokenizer.ggml.token_type", "i32", (uint64_t)t->n);
    for (int64_t i = 0; i < t->n; i++)
        gguf_put_u32(g->meta, (uint32_t)t->type[i]);
}

/* The two sides of a merge: "a b", or ["a", "b"]; NULL: it is none. */
static const char *merge_text(const Tokens *t, const json_t *v, size_t *left)
{
    const char *a = json_string_value(json_array_get(v, 0)),
               *b = json_string_value(json_array_get(v, 1)), *one = json_string_value(v);
    if (one && strchr(one, ' ')) {
        *left = (size_t)(strchr(one, ' ') - one);
        return one;
    }
    if (!a || !b || strchr(a, ' ') || strchr(b, ' '))
        return NULL;
    *left = strlen(a);
    return arena_printf(t->g->s->arena, "%s %s", a, b);
}

static bool write_merges(const Tokens *t)
{
    const json_t *merges = json_object_get(t->model, "merges"), *v;
    size_t i, left;
    gguf_list(t->g, "tokenizer.ggml.merges", "text", json_array_size(merges));
    json_array_foreach(merges, i, v) {
        const char *text = merge_text(t, v, &left);
        if (!text)
            return bad(t, "model.merges", "holds what is no pair of tokens without blanks");
        gguf_put_text(t->g->meta, text, strlen(text));
    }
    return true;
}

/* Minus the place of the first merge that makes a token; characters are never made. */
static bool write_scores(const Tokens *t)
{
    const json_t *merges = json_object_get(t->model, "merges"), *v;
    const json_t *vocab = json_object_get(t->model, "vocab");
    float *score = NEW_ARRAY(t->g->s->arena, float, (size_t)t->n);
    size_t i, left;
    for (int64_t k = 0; k < t->n; k++)
        score[k] = t->type[k] == NORMAL ? -1e9F : 0;
    for (i = json_array_size(merges); i-- > 0;) {
        v = json_array_get(merges, i);
        const char *text = merge_text(t, v, &left);
        if (!text)
            return bad(t, "model.merges", "holds what is no pair of tokens without blanks");
        const char *made = arena_printf(t->g->s->arena, "%.*s%s", (int)left, text, text + left + 1);
        const json_t *id = json_object_get(vocab, made);
        if (!json_is_integer(id))
            return bad(t, made, "is made by a merge and is no token");
        score[json_integer_value(id)] = -(float)(i + 1);
    }
    gguf_list(t->g, "tokenizer.ggml.scores", "f32", (uint64_t)t->n);
    for (int64_t k = 0; k < t->n; k++)
        gguf_put_f32(t->g->meta, score[k]);
    return true;
}

/* ---- special tokens ------------------------------------------------------------------------ */

/* By tokenizer_config.json, which names it, else by config.json, which has its number; -1: none. */
static int64_t special(const Tokens *t, const char *name)
{
    const char *key = arena_printf(t->g->s->arena, "%s_token", name);
    const json_t *v = json_object_get(t->config, key), *added, *one;
    const char *text = json_is_object(v) ? text_of(v, "content") : json_string_value(v);
    size_t i;
    added = json_object_get(t->file, "added_tokens");
    json_array_foreach(added, i, one)
        if (text && !strcmp(text_of(one, "content"), text))
            return json_integer_value(json_object_get(one, "id"));
    v = json_object_get(t->g->config, arena_printf(t->g->s->arena, "%s_id", key));
    v = json_is_array(v) ? json_array_get(v, 0) : v;
    return json_is_integer(v) && json_integer_value(v) < t->n ? json_integer_value(v) : -1;
}

/* Whether a document's template puts the token before the text, or behind it. */
static bool adds(const Tokens *t, int64_t id, bool before)
{
    const json_t *part[4], *post = json_object_get(t->file, "post_processor"), *v;
    const size_t n = parts_of(post, "processors", part);
    bool found = false, behind = false;
    size_t k;
    for (size_t i = 0; i < n && i < 4; i++) {
        const json_t *single = json_object_get(part[i], "single");
        json_array_foreach(single, k, v) {
            const json_t *token = json_object_get(v, "SpecialToken");
            behind |= json_object_get(v, "Sequence") != NULL;
            found |=
                token && behind != before && id >= 0 && !strcmp(text_of(token, "id"), t->text[id]);
        }
    }
    return found;
}

static void write_special(const Tokens *t)
{
    static const struct {
        const char *name, *written;
    } all[] = {{"bos", "tokenizer.ggml.bos_token_id"},
               {"eos", "tokenizer.ggml.eos_token_id"},
               {"unk", "tokenizer.ggml.unknown_token_id"},
               {"pad", "tokenizer.ggml.padding_token_id"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (special(t, all[i].name) >= 0)
            gguf_u32(t->g, all[i].written, special(t, all[i].name));
    gguf_flag(t->g, "tokenizer.ggml.add_bos_token", adds(t, special(t, "bos"), true));
    gguf_flag(t->g, "tokenizer.ggml.add_eos_token", adds(t, special(t, "eos"), false));
    const json_t *chat = json_object_get(t->config, "chat_template");
    const char *path = arena_printf(t->g->s->arena, "%s/chat_template.jinja", t->g->dir);
    FILE *f = fopen(path, "re");
    size_t size;
    const uint32_t file = f ? read_source(t->g->s, path) : 0;
    if (f)
        fclose(f);
    if (file)
        gguf_text(t->g, "tokenizer.chat_template", diag_text(t->g->s->diag, file, &size));
    else if (json_is_string(chat))
        gguf_text(t->g, "tokenizer.chat_template", json_string_value(chat));
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* The character that stands for a byte in texts of tokens: itself if it can be printed. */
static const char *char_of_byte(Arena *a, int byte)
{
    int next = 256, c = 0;
    for (int b = 0; b <= byte; b++) {
        const bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        c = itself ? b : next++;
    }
    return c < 128 ? arena_printf(a, "%c", c)
                   : arena_printf(a, "%c%c", 192 | c >> 6, 128 | (c & 63));
}

static bool write_bytes(Tokens *t)
{
    if (t->n != 256)
        return gguf_refuse(t->g, 613,
                           "%s has no tokenizer.json, and %lld tokens, which are not "
                           "bytes; copy the tokenizer's files there",
                           t->g->dir, (long long)t->n);
    for (int b = 0; b < 256; b++) {
        t->text[b] = char_of_byte(t->g->s->arena, b);
        t->type[b] = NORMAL;
    }
    gguf_text(t->g, "tokenizer.ggml.model", "gpt2");
    gguf_text(t->g, "tokenizer.ggml.pre", "gpt-2");
    write_list(t);
    gguf_list(t->g, "tokenizer.ggml.merges", "text", 0);
    write_special(t);
    return true;
}

bool gguf_tokens(Gguf *g)
{
    Tokens t = {.g = g, .n = json_integer_value(json_object_get(g->config, "vocab_size"))};
    const int before = diag_errors(g->s->diag);
    t.text = NEW_ARRAY(g->s->arena, const char *, (size_t)t.n);
    t.type = NEW_ARRAY(g->s->arena, int, (size_t)t.n);
    t.file = gguf_json(g, "tokenizer.json");
    t.config = gguf_json(g, "tokenizer_config.json");
    t.model = json_object_get(t.file, "model");
    if (diag_errors(g->s->diag) > before)
        return false;
    if (!t.file)
        return write_bytes(&t);
    const char *type = text_of(t.model, "type");
    const bool fallback = json_is_true(json_object_get(t.model, "byte_fallback"));
    t.bytes = !fallback;
    if (*type && strcmp(type, "BPE") != 0)
        return bad(&t, "model.type", "is not BPE");
    if (!(fallback ? read_pre_fallback(&t) : read_pre_bytes(&t)) || !read_tokens(&t))
        return false;
    gguf_text(g, "tokenizer.ggml.model", fallback ? "llama" : "gpt2");
    gguf_text(g, "tokenizer.ggml.pre", fallback ? "default" : t.pre);
    write_list(&t);
    if (fallback)
        gguf_flag(g, "tokenizer.ggml.add_space_prefix", t.space);
    if (!(fallback ? write_scores(&t) : write_merges(&t)))
        return false;
    write_special(&t);
    return true;
}
