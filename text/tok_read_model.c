/* tok_read_model.c - the model of a tokenizer.json. */
#include "text/tok.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- byte-level tokens --------------------------------------------------------------------- */

/* The character that stands for a byte: itself if it can be printed, else 256, 257, ... in order.
 */
int32_t tok_char_of_byte(int byte)
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

static void find_bytes(Tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char name[8], byte = (char)b;
        int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte[b] = t->byte_level ? tok_table_get(&t->vocab, &byte, 1)
                                   : tok_table_get(&t->vocab, name, (size_t)n);
    }
}

static bool read_vocab(TokReader *r, json_t *vocab)
{
    Tokenizer *t = r->t;
    int16_t back[512];
    const char *key;
    json_t *v;
    memset(back, -1, sizeof back);
    for (int b = 0; b < 256; b++)
        back[t->char_of[b]] = (int16_t)b;
    if (!json_is_object(vocab) || !json_object_size(vocab))
        return tok_bad(r, "model.vocab", "is no object of tokens");
    json_object_foreach(vocab, key, v) {
        size_t n = strlen(key), size;
        char *bytes = arena_alloc(t->a, n + 1);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= 1 << 24)
            return tok_bad(r, key, "has no id between 0 and 2^24");
        int32_t id = (int32_t)json_integer_value(v);
        t->size = id >= t->size ? id + 1 : t->size;
        t->longest = n > t->longest ? n : t->longest;
        tok_add_name(t, id, key, false);
        if (t->byte_level && bytes_of(key, n, back, bytes, &size))
            tok_table_put(t->a, &t->vocab, bytes, size, id);
        else if (!t->byte_level)
            tok_table_put(t->a, &t->vocab, key, n, id);
    }
    find_bytes(t);
    return true;
}

/* The ids of the two sides and of what they make. */
static bool merge_ids(TokReader *r, json_t *vocab, const char *left, size_t n, const char *right,
                      TokMerge *m)
{
    size_t skip = strlen(r->t->prefix); /* what the right one has only within a word */
    if (strlen(right) < skip)
        return tok_bad(r, right, "merges, and is shorter than continuing_subword_prefix");
    const char *both = arena_printf(r->t->a, "%.*s%s", (int)n, left, right + skip);
    json_t *a = json_object_get(vocab, arena_strndup(r->t->a, left, n));
    json_t *b = json_object_get(vocab, right), *c = json_object_get(vocab, both);
    if (!json_is_integer(a) || !json_is_integer(b) || !json_is_integer(c))
        return tok_bad(r, both, "is made by a merge of tokens that are not all in the vocabulary");
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

void tok_put_merges(Tokenizer *t, const TokMerge *merge, size_t n)
{
    for (t->merges = 16; t->merges < 2 * n;)
        t->merges *= 2;
    t->merge = NEW_ARRAY(t->a, TokMerge, t->merges);
    for (size_t i = 0; i < t->merges; i++)
        t->merge[i].id = -1;
    for (size_t i = 0; i < n; i++)
        put_merge(t, &merge[i]);
}

/* "a b", or ["a", "b"]. */
static bool read_merges(TokReader *r, json_t *merges, json_t *vocab)
{
    Tokenizer *t = r->t;
    size_t i;
    json_t *v;
    if (!json_is_array(merges) || json_array_size(merges) >= 1 << 24)
        return tok_bad(r, "model.merges", "is no list");
    TokMerge *list = NEW_ARRAY(t->a, TokMerge, json_array_size(merges) + 1);
    json_array_foreach(merges, i, v) {
        TokMerge m = {.rank = (int32_t)i};
        const char *left = json_string_value(v), *right;
        if (left) {
            const char *space = strchr(left, ' ');
            if (!space)
                return tok_bad(r, left, "is no merge: two tokens with a space between them");
            right = space + 1;
            if (!merge_ids(r, vocab, left, (size_t)(space - left), right, &m))
                return false;
        } else {
            left = json_string_value(json_array_get(v, 0));
            right = json_string_value(json_array_get(v, 1));
            if (!left || !right || json_array_size(v) != 2)
                return tok_bad(r, "model.merges", "holds what is no pair of tokens");
            if (!merge_ids(r, vocab, left, strlen(left), right, &m))
                return false;
        }
        list[i] = m;
    }
    tok_put_merges(t, list, json_array_size(merges));
    return true;
}

static bool is_ascii(const char *p)
{
    while (*p && (unsigned char)*p < 0x80)
        p++;
    return !*p;
}

/* Bytes that become characters last stay bytes, if nothing looks at the characters. */
static void keep_bytes(Tokenizer *t)
{
    size_t n = t->split.n;
    t->byte_level = n && t->split.data[n - 1].kind == SPLIT_bytes && !t->byte_fallback &&
                    !*t->prefix && !*t->suffix;
    t->split.n -= t->byte_level;
}

static bool read_bpe(TokReader *r, const json_t *model)
{
    Tokenizer *t = r->t;
    json_t *vocab = json_object_get(model, "vocab"), *dropout = json_object_get(model, "dropout");
    if (json_is_number(dropout) && json_number_value(dropout) > 0)
        return tok_bad(r, "model.dropout",
                       "is set: it draws other tokens each time, and a corpus is written once");
    t->fuse_unk = tok_json_flag(model, "fuse_unk", false);
    t->byte_fallback = tok_json_flag(model, "byte_fallback", false);
    t->ignore_merges = tok_json_flag(model, "ignore_merges", false);
    t->prefix = arena_strdup(t->a, tok_json_text(model, "continuing_subword_prefix"));
    t->suffix = arena_strdup(t->a, tok_json_text(model, "end_of_word_suffix"));
    if (!is_ascii(t->prefix) || strlen(t->prefix) > 16 || strlen(t->suffix) > 16)
        return tok_bad(r, "continuing_subword_prefix or end_of_word_suffix",
                       "is of more than 16 bytes, or a prefix that is not ASCII");
    keep_bytes(t);
    return read_vocab(r, vocab) && read_merges(r, json_object_get(model, "merges"), vocab);
}

/* A list of tokens and scores: the ids are their places. */
static bool read_unigram(TokReader *r, const json_t *model)
{
    Tokenizer *t = r->t;
    json_t *vocab = json_object_get(model, "vocab"), *v, *unk = json_object_get(model, "unk_id");
    size_t i, n = json_array_size(vocab);
    if (!n || n >= 1 << 24)
        return tok_bad(r, "model.vocab", "is no list of tokens and scores");
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
        json_integer_value(unk) >= (json_int_t)n)
        return tok_bad(r, "model.unk_id",
                       "is no place in the vocabulary: unknown characters would have no token");
    t->score = NEW_ARRAY(t->a, double, n);
    json_array_foreach(vocab, i, v) {
        json_t *text = json_array_get(v, 0), *score = json_array_get(v, 1);
        if (!json_is_string(text) || !json_is_number(score) || json_string_length(text) > 1 << 16)
            return tok_bad(r, "model.vocab", "holds what is no token and score");
        t->score[i] = json_number_value(score);
        tok_add_name(t, (int32_t)i, json_string_value(text), false);
        t->least = !i || t->score[i] < t->least ? t->score[i] : t->least;
        tok_table_put(t->a, &t->vocab, json_string_value(text), json_string_length(text),
                      (int32_t)i);
    }
    t->byte_fallback = tok_json_flag(model, "byte_fallback", false);
    t->unk = (int32_t)json_integer_value(unk);
    t->size = (int32_t)n;
    find_bytes(t);
    tok_unigram_trie(t);
    return true;
}

static bool read_words(TokReader *r, const json_t *model)
{
    Tokenizer *t = r->t;
    json_t *most = json_object_get(model, "max_input_chars_per_word");
    json_t *prefix = json_object_get(model, "continuing_subword_prefix");
    t->most = json_is_integer(most) && json_integer_value(most) >= 0
                  ? (size_t)json_integer_value(most)
                  : 100;
    if (t->model == MODEL_wordpiece)
        t->prefix = json_is_string(prefix) ? arena_strdup(t->a, json_string_value(prefix)) : "##";
    return read_vocab(r, json_object_get(model, "vocab"));
}

/* Older files of BPE do not say so. */
static bool model_kind(TokReader *r, const json_t *model)
{
    static const char *const names[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    const char *type = tok_json_text(model, "type");
    for (int i = 0; i < 4; i++)
        if (strcmp(*type ? type : "BPE", names[i]) == 0) {
            r->t->model = (TokModel)i;
            return true;
        }
    return tok_bad(
        r, "model.type",
        arena_printf(r->t->a, "is %.40s: built are BPE, Unigram, WordPiece and WordLevel", type));
}

bool tok_read_model(TokReader *r, const json_t *model)
{
    Tokenizer *t = r->t;
    t->unk = -1;
    if (!model_kind(r, model))
        return false;
    if (t->model == MODEL_unigram)
        return read_unigram(r, model);
    if (!(t->model == MODEL_bpe ? read_bpe(r, model) : read_words(r, model)))
        return false;
    if (tok_json_given(model, "unk_token")) {
        json_t *id =
            json_object_get(json_object_get(model, "vocab"), tok_json_text(model, "unk_token"));
        if (!json_is_integer(id))
            return tok_bad(r, "model.unk_token", "is not in the vocabulary");
        t->unk = (int32_t)json_integer_value(id);
    }
    return t->model == MODEL_bpe || t->unk >= 0 ||
           tok_bad(r, "model.unk_token", "is missing: unknown words would have no token");
}
