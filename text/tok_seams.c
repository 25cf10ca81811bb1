/* tok_seams.c - places at which byte-pair encoding merges nothing.
 *
 * A token is made of the symbols of its text, of single characters or bytes. A merge of l and r
 * joins the last symbol of l with the first of r; so where no merge of the vocabulary joins symbols
 * a and b, no token ever has a place between them inside. What merges on one side of such a place,
 * and in which order, does not depend on the other side: the piece may be cut there. */
#include "text/tok_seams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { UNMADE = -2 }; /* no symbol; no merge is known to make it */

struct TokSeams {
    uint64_t *pair;         /* those that merges join, and ABSENT */
    size_t slots;           /* a power of two */
    uint64_t ascii[128][2]; /* a bit for each character behind: there is a seam */
};

static const uint64_t ABSENT = UINT64_MAX;

static uint64_t pair_of(int32_t a, int32_t b)
{
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

static size_t slot_of(const TokSeams *s, uint64_t pair)
{
    size_t i = (pair * 0x9e3779b97f4a7c15u >> 32) & (s->slots - 1);
    while (s->pair[i] != ABSENT && s->pair[i] != pair)
        i = (i + 1) & (s->slots - 1);
    return i;
}

/* Whether the character p[i], of k bytes, is known by itself or as bytes that are; then its first
 * and last symbol. */
static bool symbols(const Tokenizer *t, const char *p, size_t k, int32_t *first, int32_t *last)
{
    if (t->byte_level) {
        *first = *last = t->byte[(unsigned char)*p];
        return *first >= 0;
    }
    *first = *last = tok_table_get(&t->vocab, p, k);
    if (*first >= 0)
        return true;
    for (int b = 0; b < 256; b++)
        if (!t->byte_fallback || t->byte[b] < 0)
            return false; /* something is unknown, and waits for what is known (first_symbols) */
    *first = t->byte[(unsigned char)p[0]];
    *last = t->byte[(unsigned char)p[k - 1]];
    return true;
}

static size_t length_at(const Tokenizer *t, const char *p)
{
    unsigned char c = (unsigned char)*p;
    return t->byte_level || c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Whether a token is a symbol of some text. */
static void mark_symbols(const Tokenizer *t, bool *symbol)
{
    for (size_t i = 0; i < t->vocab.slots; i++) {
        const TokEntry *e = &t->vocab.slot[i];
        if (e->key && e->length && e->length == length_at(t, e->key))
            symbol[e->id] = true;
    }
    for (int b = 0; b < 256; b++)
        if (t->byte[b] >= 0)
            symbol[t->byte[b]] = true;
    if (t->unk >= 0)
        symbol[t->unk] = true;
}

/* The first and last symbols of all tokens. False if one is a symbol and made by a merge, or made
 * of several. */
static bool find_ends(const Tokenizer *t, const bool *symbol, int32_t *first, int32_t *last)
{
    for (int32_t i = 0; i < t->size; i++)
        first[i] = last[i] = symbol[i] ? i : UNMADE;
    for (size_t i = 0; i < t->merges; i++)
        if (t->merge[i].id >= 0 && symbol[t->merge[i].id])
            return false;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < t->merges; i++) {
            const TokMerge *m = &t->merge[i];
            if (m->id < 0)
                continue;
            int32_t a = first[m->pair >> 32], b = last[(uint32_t)m->pair];
            if (a == UNMADE || b == UNMADE)
                continue;
            if (first[m->id] == UNMADE) {
                first[m->id] = a;
                last[m->id] = b;
                more = true;
            } else if (first[m->id] != a || last[m->id] != b) {
                return false;
            }
        }
    }
    return true;
}

static void join(const Tokenizer *t, TokSeams *s, const int32_t *first, const int32_t *last)
{
    for (s->slots = 16; s->slots < 2 * t->merges;)
        s->slots *= 2;
    s->pair = NEW_ARRAY(t->a, uint64_t, s->slots);
    memset(s->pair, 0xff, s->slots * sizeof *s->pair);
    for (size_t i = 0; i < t->merges; i++) {
        const TokMerge *m = &t->merge[i];
        if (m->id < 0)
            continue;
        int32_t a = last[m->pair >> 32], b = first[(uint32_t)m->pair];
        if (a != UNMADE && b != UNMADE)
            s->pair[slot_of(s, pair_of(a, b))] = pair_of(a, b);
    }
}

/* Of two neighbours, the characters at a and b. */
static bool is_seam(const Tokenizer *t, const TokSeams *s, const char *a, const char *b)
{
    int32_t none, last, first;
    return symbols(t, a, length_at(t, a), &none, &last) &&
           symbols(t, b, length_at(t, b), &first, &none) &&
           s->pair[slot_of(s, pair_of(last, first))] == ABSENT;
}

static TokSeams *make(const Tokenizer *t)
{
    TokSeams *s = NEW(t->a, TokSeams);
    bool *symbol = calloc((size_t)t->size + 1, sizeof *symbol);
    int32_t *first = malloc(((size_t)t->size + 1) * 2 * sizeof *first), *last = first + t->size;
    if (!symbol || !first)
        abort();
    mark_symbols(t, symbol);
    bool good = find_ends(t, symbol, first, last);
    if (good)
        join(t, s, first, last);
    free(first);
    free(symbol);
    for (int i = 0; good && i < 128 * 128; i++) {
        char a = (char)(i / 128), b = (char)(i % 128);
        if (is_seam(t, s, &a, &b))
            s->ascii[i / 128][i % 128 / 64] |= (uint64_t)1 << i % 64;
    }
    return good ? s : NULL;
}

const TokSeams *tok_seams(const Tokenizer *t)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    TokSeamsOnce *once = t->seams;
    if (!atomic_load_explicit(&once->made, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load_explicit(&once->made, memory_order_relaxed)) {
            bool can = t->model == MODEL_bpe && !t->ignore_merges && !*t->prefix && !*t->suffix;
            once->seams = can && t->merges ? make(t) : NULL;
            atomic_store_explicit(&once->made, true, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    return once->seams;
}

size_t tok_next_seam(const Tokenizer *t, const TokSeams *s, const char *p, size_t n, size_t i)
{
    size_t before = i;
    while (before && !t->byte_level && ((unsigned char)p[--before] & 0xc0) == 0x80)
        continue;
    before -= t->byte_level && before;
    for (i = before + (n ? length_at(t, p + before) : 0); i < n;
         i = before + length_at(t, p + before)) {
        unsigned char a = (unsigned char)p[before], b = (unsigned char)p[i];
        bool seam = a < 128 && b < 128 ? s->ascii[a][b / 64] >> b % 64 & 1
                                       : is_seam(t, s, p + before, p + i);
        if (seam)
            return i;
        before = i;
    }
    return n;
}
