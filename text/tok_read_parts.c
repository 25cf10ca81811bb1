/* tok_read_parts.c - the normalizer and the pre-tokenizer of a tokenizer.json. */
#include "text/tok.h"
#include "text/tok_class.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- normalizer ---------------------------------------------------------------------------- */

static TokNorm *add_norm(Tokenizer *t, TokNormKind kind)
{
    TokNorm norm = {.kind = kind};
    vec_push(t->a, &t->norm, norm);
    return &t->norm.data[t->norm.n - 1];
}

static void read_strip(Tokenizer *t, const json_t *n)
{
    TokNorm *norm = add_norm(t, NORM_strip);
    norm->left = tok_json_flag(n, "strip_left", false);
    norm->right = tok_json_flag(n, "strip_right", false);
}

/* Accents go with the case, if nothing is said of them. */
static void read_bert(Tokenizer *t, const json_t *n)
{
    bool lower = tok_json_flag(n, "lowercase", true);
    if (tok_json_flag(n, "clean_text", true))
        add_norm(t, NORM_clean);
    if (tok_json_flag(n, "handle_chinese_chars", true))
        add_norm(t, NORM_chinese);
    if (tok_json_flag(n, "strip_accents", lower)) {
        add_norm(t, NORM_form)->form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
        add_norm(t, NORM_nonspacing);
    }
    if (lower)
        add_norm(t, NORM_lower);
}

static bool read_replace(TokReader *r, const json_t *n)
{
    const char *from = tok_json_text(json_object_get(n, "pattern"), "String");
    if (!*from)
        return tok_bad(r, "normalizer Replace",
                       "has no text as its pattern: patterns of Regex are not built there");
    TokNorm *norm = add_norm(r->t, NORM_replace);
    norm->text = arena_strdup(r->t->a, from);
    norm->by = arena_strdup(r->t->a, tok_json_text(n, "content"));
    return true;
}

/* The bytes of base64; 0 if it is none. */
static size_t from_base64(const char *p, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, have = 0;
    size_t size = 0;
    while (n && p[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        const char *digit = p[i] ? strchr(digits, p[i]) : NULL;
        if (!digit)
            return 0;
        bits = bits << 6 | (uint32_t)(digit - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[size++] = (char)(bits >> have);
        }
    }
    return size;
}

static bool read_charsmap(TokReader *r, const json_t *n)
{
    json_t *v = json_object_get(n, "precompiled_charsmap");
    size_t k = json_string_length(v);
    char *bytes = arena_alloc(r->t->a, k + 8);
    TokNorm *norm = add_norm(r->t, NORM_charsmap);
    return tok_charsmap_read(&norm->map, bytes,
                             k ? from_base64(json_string_value(v), k, bytes) : 0) ||
           tok_bad(r, "normalizer Precompiled", "has a precompiled_charsmap that is no map");
}

bool tok_read_norm(TokReader *r, const json_t *n, int depth)
{
    static const struct {
        const char *name;
        int form;
    } forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
                 {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
                 {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                 {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    static const struct {
        const char *name;
        TokNormKind kind;
    } plain[] = {{"Lowercase", NORM_lower}, {"StripAccents", NORM_accents}, {"Nmt", NORM_nmt}};
    Tokenizer *t = r->t;
    const char *type = tok_json_text(n, "type");
    size_t i;
    json_t *v, *list = json_object_get(n, "normalizers");
    if (!n || json_is_null(n))
        return true;
    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        json_array_foreach(list, i, v)
            if (!tok_read_norm(r, v, depth + 1))
                return false;
        return true;
    }
    for (i = 0; i < 4; i++)
        if (strcmp(type, forms[i].name) == 0) {
            add_norm(t, NORM_form)->form = forms[i].form;
            return true;
        }
    for (i = 0; i < 3; i++)
        if (strcmp(type, plain[i].name) == 0) {
            add_norm(t, plain[i].kind);
            return true;
        }
    if (strcmp(type, "Prepend") == 0)
        add_norm(t, NORM_prepend)->text = arena_strdup(t->a, tok_json_text(n, "prepend"));
    else if (strcmp(type, "Strip") == 0)
        read_strip(t, n);
    else if (strcmp(type, "BertNormalizer") == 0)
        read_bert(t, n);
    else if (strcmp(type, "Precompiled") == 0)
        return read_charsmap(r, n);
    else if (strcmp(type, "Replace") == 0)
        return read_replace(r, n);
    else
        return tok_bad(r, "normalizer", arena_printf(t->a, "'%.40s' is not built", type));
    return true;
}

/* ---- pre-tokenizer ------------------------------------------------------------------------- */

/* Oniguruma's \s is Unicode's White_Space; PCRE2's has one character more. What the two read
 * otherwise than each other is refused. */
static const char *translated(TokReader *r, const char *pattern)
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
            else if (strchr("SwWhHRbBXKGAzZC", *p))
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
        if ((*p == '[' && in_class) || (p[0] == '{' && p[1] == ',' && !in_class))
            return NULL; /* a class in a class, or none to some: other things here */
        if ((*p == '$' || *p == '^') && !in_class) { /* of lines, there */
            out = arena_printf(a, "%s(?m:%c)", out, *p);
            continue;
        }
        in_class = *p == '[' ? true : *p == ']' ? false : in_class;
        out = arena_printf(a, "%s%c", out, *p);
    }
    return out;
}

static bool add_regex(TokReader *r, const char *pattern, TokBehavior behavior, bool invert)
{
    int error;
    PCRE2_SIZE at;
    const char *p = translated(r, pattern);
    TokSplit s = {.kind = SPLIT_regex, .behavior = behavior, .invert = invert};
    if (!p)
        return tok_bad(r, pattern, "is a pattern that PCRE2 reads otherwise: not built");
    s.regex = pcre2_compile((PCRE2_SPTR)p, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                            &at, NULL);
    if (!s.regex) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(error, why, sizeof why);
        return tok_bad(r, pattern, arena_printf(r->t->a, "is no pattern: %s", (char *)why));
    }
    pcre2_jit_compile(s.regex, PCRE2_JIT_COMPLETE);
    vec_push(r->t->a, &r->t->split, s);
    return true;
}

static bool read_behavior(TokReader *r, const json_t *n, TokBehavior *behavior)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = tok_json_text(n, "behavior");
    for (int i = 0; i < 5; i++)
        if (strcmp(*name ? name : "Isolated", names[i]) == 0) {
            *behavior = (TokBehavior)i;
            return true;
        }
    return tok_bad(r, "pre_tokenizer", arena_printf(r->t->a, "with '%.40s' is not built", name));
}

/* A text as a pattern that matches just that. */
static const char *escaped(Arena *a, const char *text)
{
    char *out = arena_alloc(a, 2 * strlen(text) + 1), *to = out;
    for (; *text; text++) {
        if (strchr("\\^$.|?*+()[]{}#-", *text))
            *to++ = '\\';
        *to++ = *text;
    }
    *to = 0;
    return out;
}

static bool read_split(TokReader *r, const json_t *n)
{
    json_t *pattern = json_object_get(n, "pattern");
    const char *regex = tok_json_text(pattern, "Regex"), *text = tok_json_text(pattern, "String");
    TokBehavior behavior = BEHAVE_isolated;
    if (!*regex && !*text)
        return tok_bad(r, "pre_tokenizer Split", "has no pattern");
    return read_behavior(r, n, &behavior) && add_regex(r, *regex ? regex : escaped(r->t->a, text),
                                                       behavior, tok_json_flag(n, "invert", false));
}

static bool add_split(TokReader *r, TokSplit s)
{
    vec_push(r->t->a, &r->t->split, s);
    return true;
}

static bool add_class(TokReader *r, TokClass class, TokBehavior behavior)
{
    return add_split(r, (TokSplit){.kind = SPLIT_class, .class = (int)class, .behavior = behavior});
}

static bool read_delimiter(TokReader *r, const json_t *n)
{
    json_t *v = json_object_get(n, "delimiter");
    uint32_t c;
    if (!json_is_string(v) || !json_string_length(v) ||
        tok_char(json_string_value(v), &c) != json_string_length(v))
        return tok_bad(r, "pre_tokenizer CharDelimiterSplit", "has no character as its delimiter");
    return add_split(
        r, (TokSplit){.kind = SPLIT_class, .class = -1, .only = c, .behavior = BEHAVE_removed});
}

static bool read_punctuation(TokReader *r, const json_t *n)
{
    TokBehavior behavior = BEHAVE_isolated;
    return read_behavior(r, n, &behavior) && add_class(r, CLASS_punctuation, behavior);
}

static bool read_byte_level(TokReader *r, const json_t *n)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                               "\\s+(?!\\S)|\\s+";
    if (tok_json_flag(n, "add_prefix_space", true))
        add_split(r, (TokSplit){.kind = SPLIT_prefix_space});
    if (tok_json_flag(n, "use_regex", true) && !add_regex(r, gpt2, BEHAVE_isolated, false))
        return false;
    return add_split(r, (TokSplit){.kind = SPLIT_bytes});
}

static bool read_metaspace(TokReader *r, const json_t *n)
{
    const char *mark = tok_json_text(n, "replacement"),
               *scheme = tok_json_text(n, "prepend_scheme");
    TokSplit s = {.kind = SPLIT_metaspace,
                  .mark = arena_strdup(r->t->a, *mark ? mark : "\xe2\x96\x81"),
                  .cut = tok_json_flag(n, "split", true),
                  .scheme = strcmp(scheme, "never") == 0   ? 0
                            : strcmp(scheme, "first") == 0 ? 1
                                                           : 2};
    vec_push(r->t->a, &r->t->split, s);
    return true;
}

bool tok_read_pre(TokReader *r, const json_t *n, int depth)
{
    const char *type = tok_json_text(n, "type");
    size_t i;
    json_t *v;
    if (!n || json_is_null(n))
        return true;
    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        json_array_foreach(json_object_get(n, "pretokenizers"), i, v)
            if (!tok_read_pre(r, v, depth + 1))
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
        return add_class(r, CLASS_number,
                         tok_json_flag(n, "individual_digits", false) ? BEHAVE_isolated
                                                                      : BEHAVE_contiguous);
    if (strcmp(type, "Punctuation") == 0)
        return read_punctuation(r, n);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_class(r, CLASS_space, BEHAVE_removed);
    if (strcmp(type, "BertPreTokenizer") == 0)
        return add_class(r, CLASS_space, BEHAVE_removed) &&
               add_class(r, CLASS_punctuation, BEHAVE_isolated);
    if (strcmp(type, "Whitespace") == 0)
        return add_split(
            r, (TokSplit){.kind = SPLIT_words, .behavior = BEHAVE_removed, .invert = true});
    if (strcmp(type, "CharDelimiterSplit") == 0)
        return read_delimiter(r, n);
    return tok_bad(r, "pre_tokenizer", arena_printf(r->t->a, "'%.40s' is not built", type));
}
