/* tok_words.c - the models that take words: WordPiece, greedily from the left, and WordLevel. */
#include "text/tok.h"
#include "text/tok_class.h"

#include <stdlib.h>
#include <string.h>

void tok_wordlevel(TokWorker *w, const char *p, size_t n)
{
    int32_t id = tok_table_get(&w->t->vocab, p, n);
    tok_push(w, id < 0 ? w->t->unk : id, 0);
}

static bool too_long(const Tokenizer *t, const char *p, size_t n)
{
    uint32_t c;
    size_t chars = 0;
    for (size_t i = 0; i < n && chars <= t->most; chars++)
        i += tok_char(p + i, &c);
    return chars > t->most;
}

/* The longest token that p begins with, as its bytes; 0: there is none. Behind the word's beginning
 * the prefix comes before it, which key already holds. */
static size_t longest(const Tokenizer *t, char *key, size_t prefix, const char *p, size_t n,
                      int32_t *id)
{
    if (prefix + n > t->longest) {
        n = t->longest > prefix ? t->longest - prefix : 0;
        while (n && ((unsigned char)p[n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(key + prefix, p, n);
    while (n) {
        if ((*id = tok_table_get(&t->vocab, key, prefix + n)) >= 0)
            return n;
        for (n--; n && ((unsigned char)p[n] & 0xc0) == 0x80;)
            n--;
    }
    return 0;
}

void tok_wordpiece(TokWorker *w, const char *p, size_t n)
{
    const Tokenizer *t = w->t;
    size_t from = w->n, prefix = strlen(t->prefix);
    int32_t id;
    bool good = !too_long(t, p, n);
    char *key = malloc(t->longest + prefix + 1);
    if (!key)
        abort();
    memcpy(key, t->prefix, prefix);
    for (size_t i = 0, k; i < n && good; i += k) {
        k = longest(t, key, i ? prefix : 0, p + i, n - i, &id);
        if (!i) /* the prefix lay under the first token */
            memcpy(key, t->prefix, prefix);
        good = k > 0;
        if (good)
            tok_push(w, id, (uint32_t)i);
    }
    free(key);
    if (good)
        return;
    w->n = from;
    tok_push(w, t->unk, 0);
}
