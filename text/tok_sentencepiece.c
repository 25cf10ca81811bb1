/* tok_sentencepiece.c - a text as SentencePiece normalizes it: by the longest keys of its map, with
 * user-defined pieces left as they are; spaces are marks, perhaps one for several. */
#include "text/tok.h"
#include "text/tok_class.h"

#include <string.h>

/* The length of the user-defined piece that p begins with, the longest; 0: none. */
static size_t kept(const Tokenizer *t, const char *p, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; t->keeps[(unsigned char)*p] && i < t->kept.n; i++) {
        const TokAdded *a = &t->kept.data[i];
        if (a->length > best && a->length <= n && memcmp(p, a->text, a->length) == 0)
            best = a->length;
    }
    return best;
}

/* The text that the beginning of p becomes; how many bytes of p that are. */
static size_t next(const Tokenizer *t, const TokNorm *norm, const char *p, size_t n,
                   const char **to, size_t *size)
{
    uint32_t c;
    size_t k = kept(t, p, n), mapped = 0;
    if (!k && norm->map.units)
        mapped = tok_charsmap_longest(&norm->map, p, n, to, size);
    if (mapped)
        return mapped;
    *to = p;
    return *size = k ? k : (size_t)tok_char(p, &c);
}

void tok_sentencepiece(const Tokenizer *t, const TokNorm *norm, const TokPiece *p, TokMade *m)
{
    size_t i = 0, k, size, mark = strlen(norm->text);
    const char *to;
    for (; norm->squeeze && i < p->n; i += k) {
        k = next(t, norm, p->p + i, p->n - i, &to, &size);
        if (size != 1 || *to != ' ')
            break;
    }
    if (i == p->n)
        return;
    if (norm->left)
        tok_made_add(m, norm->text, mark, tok_origin(p, i));
    for (bool space = norm->squeeze; i < p->n; i += k) {
        k = next(t, norm, p->p + i, p->n - i, &to, &size);
        for (; space && size && *to == ' '; size--)
            to++;
        for (size_t j = 0; j < size; j++)
            tok_made_add(m, to[j] == ' ' ? norm->text : to + j, to[j] == ' ' ? mark : 1,
                         tok_origin(p, i));
        if (size)
            space = norm->squeeze && to[size - 1] == ' ';
    }
    while (norm->squeeze && m->n >= mark && memcmp(m->p + m->n - mark, norm->text, mark) == 0)
        m->n -= mark;
    if (norm->right)
        tok_made_add(m, norm->text, mark, tok_origin(p, p->n - 1));
}
