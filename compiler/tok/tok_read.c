/* tok_read.c - tokenizer.json, of which nothing is believed. What it asks for and is not built is
 * an error that names the part: a tokenizer that is nearly right is worse than none. */
#include "compiler/tok/tok.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct Reader {
    Session *s;
    Tokenizer *t;
    const char *path;
} Reader;

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

static bool bad(Reader *r, const char *what, const char *why)
{
    diag_error(r->s->diag, (Span){0}, 572, "%s: %.100s %s", r->path, what, why);
    return false;
}

static const char *text_of(const json_t *from, const char *key)
{
    const char *s = json_string_value(json_object_get(from, key));
    return s ? s : "";
}

static bool flag(const json_t *from, const char *key, bool otherwise)
{
    json_t *v = json_object_get(from, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static bool given(const json_t *from, const char *key)
{
    json_t *v = json_object_get(from, key);
    return v && !json_is_null(v) && !(json_is_string(v) && !json_string_length(v));
}

/* ---- byte-level tokens --------------------------------------------------------------------- */

/* The character that stands for a byte: itself if it can be printed, else 256, 257, ... in order.
 */
static int32_t char_of_byte(int byte)
{
    int32_t next = 256;
    for (int b = 0; b < 256; b++) {
        bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte)
            return itself ? b : next;
        next += !itself;
    }
    return -1;
}

/* The bytes that a token of such characters stands for; false if another character is in it. */
static bool bytes_of(const char *token, size_t n, const int16_t back[512], char *out, size_t *size)
{
    *size = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)token + i, (utf8proc_ssize_t)(n - i), &c);
        if (k < 1 || c > 511 || back[c] < 0)
            return false;
        out[(*size)++] = (char)back[c];
        i += (size_t)k;
    }
    return true;
}

/* ---- the model ----------------------------------------------------------------------------- */

static bool read_vocab(Reader *r, json_t *vocab)
{
    Tokenizer *t = r->t;
    int16_t back[512];
    const char *key;
    json_t *v;
    memset(back, -1, sizeof back);
    for (int b = 0; b < 256; b++)
        back[char_of_byte(b)] = (int16_t)b;
    if (!json_is_object(vocab) || !json_object_size(vocab))
        return bad(r, "model.vocab", "is no object of tokens");
    json_object_foreach(vocab, key, v) {
        size_t n = strlen(key), size;
        char *bytes = arena_alloc(t->a, n + 1);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= 1 << 24)
            return bad(r, key, "has no id between 0 and 2^24");
        int32_t id = (int32_t)json_integer_value(v);
        t->size = id >= t->size ? id + 1 : t->size;
        if (t->byte_level && bytes_of(key, n, back, bytes, &size))
            tok_table_put(t->a, &t->vocab, bytes, size, id);
        else if (!t->byte_level)
            tok_table_put(t->a, &t->vocab, key, n, id);
    }
    for (int b = 0; b < 256; b++) {
        char name[8], byte = (char)b;
        int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte[b] = t->byte_level ? tok_table_get(&t->vocab, &byte, 1)
                                   : tok_table_get(&t->vocab, name, (size_t)n);
    }
    return true;
}

/* The ids of the two sides and of what they make. */
static bool merge_ids(Reader *r, json_t *vocab, const char *left, size_t n, const char *right,
                      TokMerge *m)
{
    const char *both = arena_printf(r->t->a, "%.*s%s", (int)n, left, right);
    json_t *a = json_object_get(vocab, arena_strndup(r->t->a, left, n));
    json_t *b = json_object_get(vocab, right), *c = json_object_get(vocab, both);
    if (!json_is_integer(a) || !json_is_integer(b) || !json_is_integer(c))
        return bad(r, both, "is made by a merge of tokens that are not all in the vocabulary");
    m->pair = (uint64_t)json_integer_value(a) << 32 | (uint64_t)json_integer_value(b);
    m->id = (int32_t)json_integer_value(c);
    return true;
}

static void put_merge(Tokenizer *t, const TokMerge *m)
{
    size_t i = (m->pair * 0x9e3779b97f4a7c15u >> 32) & (t->merges - 1);
    for (; t->merge[i].id >= 0; i = (i + 1) & (t->merges - 1))
        if (t->merge[i].pair == m->pair)
            break; /* the last of equals holds, as in a map */
    t->merge[i] = *m;
}

/* "a b", or ["a", "b"]. */
static bool read_merges(Reader *r, json_t *merges, json_t *vocab)
{
    Tokenizer *t = r->t;
    size_t i;
    json_t *v;
    if (!json_is_array(merges) || json_array_size(merges) >= 1 << 24)
        return bad(r, "model.merges", "is no list");
    for (t->merges = 16; t->merges < 2 * json_array_size(merges);)
        t->merges *= 2;
    t->merge = NEW_ARRAY(t->a, TokMerge, t->merges);
    for (i = 0; i < t->merges; i++)
        t->merge[i].id = -1;
    json_array_foreach(merges, i, v) {
        TokMerge m = {.rank = (int32_t)i};
        const char *left = json_string_value(v), *right;
        if (left) {
            const char *space = strchr(left, ' ');
            if (!space)
                return bad(r, left, "is no merge: two tokens with a space between them");
            right = space + 1;
            if (!merge_ids(r, vocab, left, (size_t)(space - left), right, &m))
                return false;
        } else {
            left = json_string_value(json_array_get(v, 0));
            right = json_string_value(json_array_get(v, 1));
            if (!left || !right || json_array_size(v) != 2)
                return bad(r, "model.merges", "holds what is no pair of tokens");
            if (!merge_ids(r, vocab, left, strlen(left), right, &m))
                return false;
        }
        put_merge(t, &m);
    }
    return true;
}

static bool read_model(Reader *r, const json_t *model)
{
    Tokenizer *t = r->t;
    const char *type = text_of(model, "type");
    if (*type && strcmp(type, "BPE") != 0)
        return bad(r, "model.type", arena_printf(t->a, "is %.40s; BPE is built", type));
    for (int i = 0; i < 3; i++) {
        static const char *const absent[] = {"dropout", "continuing_subword_prefix",
                                             "end_of_word_suffix"};
        if (given(model, absent[i]))
            return bad(r, absent[i], "is set, which is not built");
    }
    t->fuse_unk = flag(model, "fuse_unk", false);
    t->byte_fallback = flag(model, "byte_fallback", false);
    t->ignore_merges = flag(model, "ignore_merges", false);
    json_t *vocab = json_object_get(model, "vocab");
    if (!read_vocab(r, vocab) || !read_merges(r, json_object_get(model, "merges"), vocab))
        return false;
    t->unk = -1;
    if (given(model, "unk_token")) {
        json_t *id = json_object_get(vocab, text_of(model, "unk_token"));
        if (!json_is_integer(id))
            return bad(r, "model.unk_token", "is not in the vocabulary");
        t->unk = (int32_t)json_integer_value(id);
    }
    return true;
}

/* ---- normalizer ---------------------------------------------------------------------------- */

static bool read_norm(Reader *r, const json_t *n, int depth)
{
    static const struct {
        const char *name;
        int form;
    } forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
                 {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
                 {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                 {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    Tokenizer *t = r->t;
    const char *type = text_of(n, "type");
    TokNorm norm = {0};
    size_t i;
    json_t *v, *list = json_object_get(n, "normalizers");
    if (!n || json_is_null(n))
        return true;
    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        json_array_foreach(list, i, v)
            if (!read_norm(r, v, depth + 1))
                return false;
        return true;
    }
    for (i = 0; i < 4; i++)
        if (strcmp(type, forms[i].name) == 0) {
            norm.form = forms[i].form;
            vec_push(t->a, &t->norm, norm);
            return true;
        }
    if (strcmp(type, "Prepend") == 0) {
        norm.kind = NORM_prepend;
        norm.text = arena_strdup(t->a, text_of(n, "prepend"));
    } else if (strcmp(type, "Replace") == 0 && *text_of(json_object_get(n, "pattern"), "String")) {
        norm.kind = NORM_replace;
        norm.text = arena_strdup(t->a, text_of(json_object_get(n, "pattern"), "String"));
        norm.by = arena_strdup(t->a, text_of(n, "content"));
    } else {
        return bad(r, "normalizer", arena_printf(t->a, "'%.40s' is not built", type));
    }
    vec_push(t->a, &t->norm, norm);
    return true;
}

/* ---- pre-tokenizer ------------------------------------------------------------------------- */

/* Oniguruma's \s is Unicode's White_Space; PCRE2's has one character more. What the two read
 * otherwise than each other is refused. */
static const char *translated(Reader *r, const char *pattern)
{
    static const char space[] =
        "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
        "\\x{202f}\\x{205f}\\x{3000}";
    Arena *a = r->t->a;
    const char *out = "";
    bool in_class = false;
    if (strstr(pattern, "&&") || strlen(pattern) > 4096)
        return NULL;
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '\\' && p[1]) {
            p++;
            if (*p == 's' || (*p == 'S' && !in_class))
                out = arena_printf(a,
                                   in_class    ? "%s%s"
                                   : *p == 's' ? "%s[%s]"
                                               : "%s[^%s]",
                                   out, space);
            else if (strchr("SwWhHRbBXKGAzZ", *p))
                return NULL;
            else if ((*p == 'p' || *p == 'P') && p[1] == '{' && strchr(p, '}')) {
                const char *end = strchr(p, '}');
                out = arena_printf(a, "%s\\%.*s", out, (int)(end + 1 - p), p);
                p = end;
            } else
                out = arena_printf(a, "%s\\%c", out, *p);
            continue;
        }
        if (p[0] == '}' && p[1] == '+' && !in_class)
            return NULL; /* possessive here, repeated there */
        in_class = *p == '[' ? true : *p == ']' ? false : in_class;
        out = arena_printf(a, "%s%c", out, *p);
    }
    return out;
}

static bool add_regex(Reader *r, const char *pattern, bool matches, bool gaps)
{
    int error;
    PCRE2_SIZE at;
    const char *p = translated(r, pattern);
    TokSplit s = {.kind = SPLIT_regex, .matches = matches, .gaps = gaps};
    if (!p)
        return bad(r, pattern, "is a pattern that PCRE2 reads otherwise: not built");
    s.regex = pcre2_compile((PCRE2_SPTR)p, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                            &at, NULL);
    if (!s.regex) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(error, why, sizeof why);
        return bad(r, pattern, arena_printf(r->t->a, "is no pattern: %s", (char *)why));
    }
    pcre2_jit_compile(s.regex, PCRE2_JIT_COMPLETE);
    vec_push(r->t->a, &r->t->split, s);
    return true;
}

static bool read_split(Reader *r, const json_t *n)
{
    json_t *pattern = json_object_get(n, "pattern");
    const char *behavior = text_of(n, "behavior"), *regex = text_of(pattern, "Regex");
    bool invert = flag(n, "invert", false), removed = strcmp(behavior, "Removed") == 0;
    if (!*regex)
        return bad(r, "pre_tokenizer Split", "has no Regex");
    if (!removed && strcmp(behavior, "Isolated") != 0)
        return bad(r, "pre_tokenizer Split",
                   arena_printf(r->t->a, "with '%.40s' is not built", behavior));
    return add_regex(r, regex, !removed || invert, !removed || !invert);
}

static bool read_byte_level(Reader *r, const json_t *n)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                               "\\s+(?!\\S)|\\s+";
    r->t->byte_level = true;
    if (flag(n, "add_prefix_space", true)) {
        TokSplit s = {.kind = SPLIT_prefix_space};
        vec_push(r->t->a, &r->t->split, s);
    }
    return !flag(n, "use_regex", true) || add_regex(r, gpt2, true, true);
}

static bool read_metaspace(Reader *r, const json_t *n)
{
    const char *mark = text_of(n, "replacement"), *scheme = text_of(n, "prepend_scheme");
    TokSplit s = {.kind = SPLIT_metaspace,
                  .mark = arena_strdup(r->t->a, *mark ? mark : "\xe2\x96\x81"),
                  .cut = flag(n, "split", true),
                  .scheme = strcmp(scheme, "never") == 0   ? 0
                            : strcmp(scheme, "first") == 0 ? 1
                                                           : 2};
    vec_push(r->t->a, &r->t->split, s);
    return true;
}

static bool read_pre(Reader *r, const json_t *n, int depth)
{
    const char *type = text_of(n, "type");
    size_t i;
    json_t *v;
    if (!n || json_is_null(n))
        return true;
    if (r->t->byte_level)
        return bad(r, "pre_tokenizer", "goes on after ByteLevel, which is not built");
    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        json_array_foreach(json_object_get(n, "pretokenizers"), i, v)
            if (!read_pre(r, v, depth + 1))
                return false;
        return true;
    }
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(r, n);
    if (strcmp(type, "Split") == 0)
        return read_split(r, n);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(r, n);
    if (strcmp(type, "Digits") == 0)
        return add_regex(r, flag(n, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", true, true);
    return bad(r, "pre_tokenizer", arena_printf(r->t->a, "'%.40s' is not built", type));
}

/* ---- added tokens and the template --------------------------------------------------------- */

static bool read_added(Reader *r, const json_t *list)
{
    Tokenizer *t = r->t;
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        json_t *id = json_object_get(v, "id");
        TokAdded a = {.text = arena_strdup(t->a, text_of(v, "content"))};
        a.length = strlen(a.text);
        if (!a.length || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= 1 << 24)
            return bad(r, "added_tokens", "holds one without content or id");
        a.single = flag(v, "single_word", false);
        a.id = (int32_t)json_integer_value(id);
        a.left = flag(v, "lstrip", false);
        a.right = flag(v, "rstrip", false);
        a.normalized = flag(v, "normalized", !flag(v, "special", false)) && t->norm.n;
        t->size = a.id >= t->size ? a.id + 1 : t->size;
        t->begins[a.normalized][(unsigned char)*a.text] = true;
        vec_push(t->a, &t->added, a);
    }
    return true;
}

int32_t tok_named(const Tokenizer *t, const char *content)
{
    for (size_t i = 0; i < t->added.n; i++)
        if (strcmp(t->added.data[i].text, content) == 0)
            return t->added.data[i].id;
    return tok_table_get(&t->vocab, content, strlen(content));
}

static bool read_template(Reader *r, const json_t *n)
{
    Tokenizer *t = r->t;
    size_t i, k;
    json_t *piece, *id;
    bool seen = false;
    json_array_foreach(json_object_get(n, "single"), i, piece) {
        json_t *special = json_object_get(piece, "SpecialToken");
        seen |= json_object_get(piece, "Sequence") != NULL;
        json_t *of = json_object_get(json_object_get(n, "special_tokens"), text_of(special, "id"));
        json_array_foreach(json_object_get(of, "ids"), k, id) {
            if (!json_is_integer(id) || json_integer_value(id) < 0 ||
                json_integer_value(id) >= 1 << 24)
                return bad(r, "post_processor", "has an id that is none");
            int32_t token = (int32_t)json_integer_value(id);
            t->size = token >= t->size ? token + 1 : t->size;
            if (seen)
                vec_push(t->a, &t->after, token);
            else
                vec_push(t->a, &t->before, token);
        }
    }
    return seen || bad(r, "post_processor", "is a template without the text");
}

static bool read_post(Reader *r, const json_t *n, int depth)
{
    const char *type = text_of(n, "type");
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
    return bad(r, "post_processor", arena_printf(r->t->a, "'%.40s' is not built", type));
}

void tok_free(Tokenizer *t)
{
    for (size_t i = 0; i < t->split.n; i++)
        pcre2_code_free(t->split.data[i].regex);
    t->split.n = 0;
}

Tokenizer *tok_read(Session *s, const char *path)
{
    Reader r = {.s = s, .t = NEW(s->arena, Tokenizer), .path = path};
    size_t size;
    json_error_t e;
    uint32_t file = read_source(s, path);
    if (!file)
        return NULL;
    r.t->a = s->arena;
    const char *text = diag_text(s->diag, file, &size);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(root)) {
        diag_error(s->diag, (Span){0}, 572, "%s:%d:%d: %s", path, e.line, e.column,
                   root ? "no JSON object" : e.text);
        json_decref(root);
        return NULL;
    }
    bool good = read_norm(&r, json_object_get(root, "normalizer"), 0) &&
                read_pre(&r, json_object_get(root, "pre_tokenizer"), 0) &&
                read_model(&r, json_object_get(root, "model")) &&
                read_added(&r, json_object_get(root, "added_tokens")) &&
                read_post(&r, json_object_get(root, "post_processor"), 0);
    json_decref(root);
    if (good)
        return r.t;
    tok_free(r.t);
    return NULL;
}
