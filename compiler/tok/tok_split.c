/* tok_split.c - the matches of a split and what lies between them, cut as its behavior says. */
#include "compiler/tok/tok.h"
#include "compiler/tok/tok_class.h"

typedef struct Cutter {
    TokWorker *w;
    size_t at;
    const TokPiece *p;
    TokTake *take;
    const TokSplit *s;
    size_t begin, end;  /* a piece that may still grow */
    bool held, matched; /* is there one; was the last part a match */
} Cutter;

static void flush(Cutter *c)
{
    if (c->held && c->end > c->begin)
        c->take(c->w, c->at + 1, tok_part(c->p, c->begin, c->end));
    c->held = false;
}

/* The next part of the piece, a match or not. */
static void part(Cutter *c, size_t begin, size_t end, bool match)
{
    match ^= c->s->invert;
    bool joins = (c->s->behavior == BEHAVE_previous && match && !c->matched) ||
                 (c->s->behavior == BEHAVE_next && !match && c->matched) ||
                 (c->s->behavior == BEHAVE_contiguous && match == c->matched);
    if (c->held && joins) {
        c->end = end;
    } else {
        flush(c);
        c->begin = begin;
        c->end = end;
        c->held = !(match && c->s->behavior == BEHAVE_removed);
    }
    c->matched = match;
}

/* Empty matches cut, too; but none counts that begins where the last one ended. */
static void by_regex(Cutter *c)
{
    const TokPiece *p = c->p;
    PCRE2_SIZE *match = pcre2_get_ovector_pointer(c->w->match);
    size_t from = 0, search = 0;
    bool any = false;
    while (search <= p->n) {
        if (pcre2_match(c->s->regex, (PCRE2_SPTR)p->p, p->n, search, PCRE2_NO_UTF_CHECK,
                        c->w->match, NULL) < 0)
            break;
        size_t begin = match[0], end = match[1];
        if (begin == end && any && begin == from) {
            for (search++; search < p->n && ((unsigned char)p->p[search] & 0xc0) == 0x80;)
                search++;
            continue;
        }
        if (begin > from)
            part(c, from, begin, false);
        part(c, begin, end, true);
        from = search = end;
        any = true;
    }
    if (from < p->n)
        part(c, from, p->n, false);
}

static void by_class(Cutter *c)
{
    const TokPiece *p = c->p;
    size_t from = 0;
    uint32_t u;
    for (size_t i = 0, k; i < p->n; i += k) {
        k = tok_char(p->p + i, &u);
        if (c->s->class < 0 ? u != c->s->only : !tok_is((TokClass)c->s->class, u))
            continue;
        if (i > from)
            part(c, from, i, false);
        part(c, i, i + k, true);
        from = i + k;
    }
    if (from < p->n)
        part(c, from, p->n, false);
}

static int word_kind(uint32_t u)
{
    return tok_is(CLASS_word, u) ? 2 : tok_is(CLASS_space, u) ? 0 : 1;
}

static void by_words(Cutter *c)
{
    const TokPiece *p = c->p;
    uint32_t u;
    for (size_t i = 0, end; i < p->n; i = end) {
        end = i + tok_char(p->p + i, &u);
        int kind = word_kind(u);
        while (end < p->n) {
            size_t k = tok_char(p->p + end, &u);
            if (word_kind(u) != kind)
                break;
            end += k;
        }
        part(c, i, end, kind > 0);
    }
}

void tok_split(TokWorker *w, size_t at, const TokPiece *p, TokTake *take)
{
    Cutter c = {.w = w, .at = at, .p = p, .take = take, .s = &w->t->split.data[at]};
    if (c.s->kind == SPLIT_regex)
        by_regex(&c);
    else if (c.s->kind == SPLIT_class)
        by_class(&c);
    else
        by_words(&c);
    flush(&c);
}
