/* tok_split.c - the matches of a split and what lies between them, cut as its behavior says. */
#include "text/tok_split.h"
#include "text/tok_class.h"

void tok_cutter_flush(TokCutter *c)
{
    if (c->held && c->end > c->begin)
        c->take(c->w, c->at + 1, tok_part(c->p, c->begin, c->end));
    c->held = false;
}

/* The next part of the piece, a match or not. */
static void part(TokCutter *c, size_t begin, size_t end, bool match)
{
    match ^= c->s->invert;
    bool joins = (c->s->behavior == BEHAVE_previous && match && !c->matched) ||
                 (c->s->behavior == BEHAVE_next && !match && c->matched) ||
                 (c->s->behavior == BEHAVE_contiguous && match == c->matched);
    if (c->held && joins) {
        c->end = end;
    } else {
        tok_cutter_flush(c);
        c->begin = begin;
        c->end = end;
        c->held = !(match && c->s->behavior == BEHAVE_removed);
    }
    c->matched = match;
}

static bool next_regex(const TokCutter *c, size_t search, size_t *begin, size_t *end)
{
    const PCRE2_SIZE *match = pcre2_get_ovector_pointer(c->w->match);
    if (pcre2_match(c->s->regex, (PCRE2_SPTR)c->p->p, c->p->n, search, PCRE2_NO_UTF_CHECK,
                    c->w->match, NULL) < 0)
        return false;
    *begin = match[0];
    *end = match[1];
    return true;
}

static bool next_class(const TokCutter *c, size_t search, size_t *begin, size_t *end)
{
    const TokPiece *p = c->p;
    uint32_t u;
    for (size_t i = search, k; i < p->n; i += k) {
        k = tok_char(p->p + i, &u);
        if (c->s->class < 0 ? u != c->s->only : !tok_is((TokClass)c->s->class, u))
            continue;
        *begin = i;
        *end = i + k;
        return true;
    }
    return false;
}

static int word_kind(const TokPiece *p, size_t i, size_t *k)
{
    uint32_t u;
    *k = tok_char(p->p + i, &u);
    return tok_is(CLASS_word, u) ? 2 : tok_is(CLASS_space, u) ? 0 : 1;
}

static bool next_words(const TokCutter *c, size_t search, size_t *begin, size_t *end)
{
    const TokPiece *p = c->p;
    size_t i = search, k;
    int kind = 0;
    while (i < p->n && !(kind = word_kind(p, i, &k)))
        i += k;
    *begin = i;
    while (i < p->n && word_kind(p, i, &k) == kind)
        i += k;
    *end = i;
    return *end > *begin;
}

/* Empty matches cut, too; but none counts that begins where the last one ended. */
bool tok_cutter_step(TokCutter *c)
{
    const TokPiece *p = c->p;
    size_t search = c->from, begin, end;
    while (search <= p->n) {
        bool found = c->s->kind == SPLIT_regex   ? next_regex(c, search, &begin, &end)
                     : c->s->kind == SPLIT_class ? next_class(c, search, &begin, &end)
                                                 : next_words(c, search, &begin, &end);
        if (!found)
            break;
        if (begin == end && c->any && begin == c->from) {
            for (search++; search < p->n && ((unsigned char)p->p[search] & 0xc0) == 0x80;)
                search++;
            continue;
        }
        if (end > c->farthest)
            return false;
        if (begin > c->from)
            part(c, c->from, begin, false);
        part(c, begin, end, true);
        c->from = end;
        c->any = true;
        return true;
    }
    if (p->n > c->farthest)
        return false;
    if (c->from < p->n)
        part(c, c->from, p->n, false);
    c->from = p->n;
    return false;
}

void tok_split(TokWorker *w, size_t at, const TokPiece *p, TokTake *take)
{
    TokCutter c = {w, at, p, take, &w->t->split.data[at], .farthest = p->n};
    while (tok_cutter_step(&c))
        continue;
    tok_cutter_flush(&c);
}
