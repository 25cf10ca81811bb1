/* tok_read_decode.c - the decoder of a tokenizer.json, and the names of ids. One that is not built
 * is no error here: to encode needs none. */
#include "text/tok.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 64 }; /* each calls the next one */

/* ---- names --------------------------------------------------------------------------------- */

void tok_add_name(Tokenizer *t, int32_t id, const char *text, bool special)
{
    TokName name = {id, special, arena_strdup(t->a, text), t->name.n};
    vec_push(t->a, &t->name, name);
}

static int by_id(const void *a, const void *b)
{
    const TokName *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : x->order < y->order ? -1 : 1;
}

void tok_sort_names(Tokenizer *t)
{
    if (t->name.n)
        qsort(t->name.data, t->name.n, sizeof *t->name.data, by_id);
}

const TokName *tok_name_of(const Tokenizer *t, int32_t id)
{
    size_t low = 0, high = t->name.n; /* the first whose id is larger */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (t->name.data[middle].id <= id)
            low = middle + 1;
        else
            high = middle;
    }
    return low && t->name.data[low - 1].id == id ? &t->name.data[low - 1] : NULL;
}

/* ---- the decoder --------------------------------------------------------------------------- */

static size_t count_of(const json_t *n, const char *key)
{
    json_t *v = json_object_get(n, key);
    const json_int_t k = json_is_integer(v) ? json_integer_value(v) : 0;
    return k > 0 && k < 1 << 20 ? (size_t)k : 0;
}

static const char *text_of(const TokReader *r, const json_t *n, const char *key, const char *none)
{
    const char *text = json_string_value(json_object_get(n, key));
    return arena_strdup(r->t->a, text ? text : none);
}

static bool fill(const TokReader *r, const json_t *n, TokDecode *d)
{
    const char *scheme = tok_json_text(n, "prepend_scheme");
    switch (d->kind) {
    case DECODE_strip:
        d->text = text_of(r, n, "content", "");
        d->left = count_of(n, "start");
        d->right = count_of(n, "stop");
        break;
    case DECODE_replace:
        d->text = text_of(r, json_object_get(n, "pattern"), "String", "");
        d->by = text_of(r, n, "content", "");
        return *d->text;
    case DECODE_metaspace:
        d->text = text_of(r, n, "replacement", "\xe2\x96\x81");
        d->first =
            *scheme ? strcmp(scheme, "never") != 0 : tok_json_flag(n, "add_prefix_space", true);
        break;
    case DECODE_wordpiece:
        d->text = text_of(r, n, "prefix", "##");
        d->clean = tok_json_flag(n, "cleanup", true);
        break;
    case DECODE_suffix:
        d->text = text_of(r, n, "suffix", "</w>");
        return *d->text;
    case DECODE_bytes:
    case DECODE_fallback:
    case DECODE_fuse:
        break;
    }
    return true;
}

void tok_read_decode(TokReader *r, const json_t *n, int depth)
{
    static const struct {
        const char *name;
        TokDecodeKind kind;
    } kinds[] = {{"ByteLevel", DECODE_bytes},     {"ByteFallback", DECODE_fallback},
                 {"Fuse", DECODE_fuse},           {"Strip", DECODE_strip},
                 {"Replace", DECODE_replace},     {"Metaspace", DECODE_metaspace},
                 {"WordPiece", DECODE_wordpiece}, {"BPEDecoder", DECODE_suffix}};
    Tokenizer *t = r->t;
    const char *type = tok_json_text(n, "type");
    size_t i;
    json_t *v;
    if (!n || json_is_null(n)) {
        t->spaced = !depth;
        return;
    }
    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        json_array_foreach(json_object_get(n, "decoders"), i, v)
            tok_read_decode(r, v, depth + 1);
        return;
    }
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        TokDecode d = {.kind = kinds[i].kind};
        if (strcmp(type, kinds[i].name) != 0)
            continue;
        if (!fill(r, n, &d))
            t->undecoded = arena_printf(
                t->a, "decoder %s has no text as its pattern: others are not built", kinds[i].name);
        else if (t->decode.n < STEPS)
            vec_push(t->a, &t->decode, d);
        else
            t->undecoded = "a decoder of more than 64 steps is not built";
        return;
    }
    t->undecoded = arena_printf(t->a, "decoder '%.40s' is not built", type);
}
