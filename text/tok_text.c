/* tok_text.c - from a document to pieces: added tokens, normalization, the splits in order. Each
 * byte on its way knows which byte of the document it comes from. */
#include "text/tok_class.h"
#include "text/tok_split.h"
#include "text/tok_team.h"

#include <stdlib.h>
#include <string.h>

static void encode_plain(TokWorker *w, TokPiece p);

/* ---- UTF-8 --------------------------------------------------------------------------------- */

size_t tok_whole_char(const unsigned char *p, size_t n, size_t *bad)
{
    unsigned char c = p[0], low = 0x80, high = 0xbf;
    size_t want = c < 0x80                ? 1
                  : c >= 0xc2 && c < 0xe0 ? 2
                  : c >= 0xe0 && c < 0xf0 ? 3
                  : c >= 0xf0 && c < 0xf5 ? 4
                                          : 0;
    *bad = 1;
    if (want < 2)
        return want;
    low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : low;
    high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : high;
    for (size_t i = 1; i < want; i++, low = 0x80, high = 0xbf) {
        if (i >= n || p[i] < low || p[i] > high) {
            *bad = i;
            return 0;
        }
    }
    return want;
}

/* A copy in which what is no UTF-8 is U+FFFD, one for each maximal part; NULL if all is well. */
static char *repaired(const char *text, size_t n, size_t *size)
{
    size_t bad, i = 0;
    while (i < n) {
        size_t k = tok_whole_char((const unsigned char *)text + i, n - i, &bad);
        if (!k)
            break;
        i += k;
    }
    if (i == n)
        return NULL;
    char *copy = malloc(3 * n + 1);
    if (!copy)
        abort();
    memcpy(copy, text, i);
    *size = i;
    while (i < n) {
        size_t k = tok_whole_char((const unsigned char *)text + i, n - i, &bad);
        memcpy(copy + *size, k ? text + i : "\xef\xbf\xbd", k ? k : 3);
        *size += k ? k : 3;
        i += k ? k : bad;
    }
    return copy;
}

/* ---- pieces -------------------------------------------------------------------------------- */

static void grow(TokMade *m, size_t n)
{
    if (m->n + n <= m->cap)
        return;
    m->cap = m->n + n > 2 * m->cap ? m->n + n : 2 * m->cap;
    m->p = realloc(m->p, m->cap);
    m->from = realloc(m->from, m->cap * sizeof *m->from);
    if (!m->p || !m->from)
        abort();
}

void tok_made_add(TokMade *m, const char *p, size_t n, uint32_t origin)
{
    if (!n)
        return;
    grow(m, n);
    memcpy(m->p + m->n, p, n);
    for (size_t i = 0; i < n; i++)
        m->from[m->n++] = origin;
}

void tok_made_copy(TokMade *m, const TokPiece *p, size_t begin, size_t end)
{
    if (begin >= end)
        return;
    grow(m, end - begin);
    memcpy(m->p + m->n, p->p + begin, end - begin);
    for (size_t i = begin; i < end; i++)
        m->from[m->n++] = tok_origin(p, i);
}

void tok_made_free(TokMade *m)
{
    free(m->p);
    free(m->from);
    *m = (TokMade){0};
}

static TokPiece made(const TokMade *m)
{
    return (TokPiece){m->p ? m->p : "", m->n, m->from, 0};
}

/* ---- splits -------------------------------------------------------------------------------- */

static void split_from(TokWorker *w, size_t at, TokPiece p);

/* The piece with something before it, or with spaces replaced: in memory of its own. */
static void metaspace(TokWorker *w, size_t at, TokPiece p)
{
    const TokSplit *s = &w->t->split.data[at];
    size_t k = strlen(s->mark), from = 0;
    TokMade m = {0};
    bool marked = p.n && (*p.p == ' ' || (p.n >= k && memcmp(p.p, s->mark, k) == 0));
    if (p.n && !marked && (s->scheme == 2 || (s->scheme == 1 && p.n && !tok_origin(&p, 0))))
        tok_made_add(&m, s->mark, k, p.n ? tok_origin(&p, 0) : p.base);
    for (size_t i = 0, end; i < p.n; i = end) {
        for (end = i; end < p.n && p.p[end] != ' ';)
            end++;
        tok_made_copy(&m, &p, i, end);
        if (end < p.n) {
            tok_made_add(&m, s->mark, k, tok_origin(&p, end));
            end++;
        }
    }
    TokPiece whole = made(&m);
    for (size_t i = 1; s->cut && i + k <= whole.n; i++)
        if (memcmp(whole.p + i, s->mark, k) == 0) {
            split_from(w, at + 1, tok_part(&whole, from, i));
            from = i;
        }
    split_from(w, at + 1, tok_part(&whole, from, whole.n));
    tok_made_free(&m);
}

static void prefix_space(TokWorker *w, size_t at, TokPiece p)
{
    TokMade m = {0};
    if (!p.n || *p.p == ' ') {
        split_from(w, at + 1, p);
        return;
    }
    tok_made_add(&m, " ", 1, tok_origin(&p, 0));
    tok_made_copy(&m, &p, 0, p.n);
    split_from(w, at + 1, made(&m));
    tok_made_free(&m);
}

static void as_bytes(TokWorker *w, size_t at, TokPiece p)
{
    TokMade m = {0};
    char out[4];
    for (size_t i = 0; i < p.n; i++)
        tok_made_add(&m, out, tok_put_char(out, w->t->char_of[(unsigned char)p.p[i]]),
                     tok_origin(&p, i));
    split_from(w, at + 1, made(&m));
    tok_made_free(&m);
}

static void split_from(TokWorker *w, size_t at, TokPiece p)
{
    if (at == w->t->split.n) {
        size_t i = w->n;
        tok_piece(w, p.p, p.n);
        for (; i < w->n; i++)
            w->at[i] = tok_origin(&p, w->at[i]);
        return;
    }
    TokSplitKind kind = w->t->split.data[at].kind;
    if (kind == SPLIT_metaspace) {
        if (!tok_marks_wide(w, at, &p, split_from))
            metaspace(w, at, p);
    } else if (kind == SPLIT_prefix_space) {
        prefix_space(w, at, p);
    } else if (kind == SPLIT_bytes) {
        as_bytes(w, at, p);
    } else if (!tok_split_wide(w, at, &p, split_from)) {
        tok_split(w, at, &p, split_from);
    }
}

/* ---- added tokens -------------------------------------------------------------------------- */

/* The length of the white space at p, of n bytes, or 0. */
static size_t space_at(const char *p, size_t n)
{
    uint32_t c;
    size_t k = n ? tok_char(p, &c) : 0;
    return k && tok_is(CLASS_space, c) ? k : 0;
}

/* The beginning of the white space that ends at i, not before `from`. */
static size_t space_before(const char *p, size_t from, size_t i)
{
    while (i > from) {
        size_t at = i - 1;
        while (at > from && ((unsigned char)p[at] & 0xc0) == 0x80)
            at--;
        if (!space_at(p + at, i - at))
            break;
        i = at;
    }
    return i;
}

/* Whether p[begin] to p[end] has no character of a word before or behind it. */
static bool stands_alone(const char *p, size_t n, size_t begin, size_t end)
{
    uint32_t c;
    size_t before = begin;
    while (before && ((unsigned char)p[--before] & 0xc0) == 0x80)
        continue;
    if (begin && tok_char(p + before, &c) && tok_is(CLASS_word, c))
        return false;
    return end >= n || !tok_char(p + end, &c) || !tok_is(CLASS_word, c);
}

/* The first added token in p from `from` on, the longest of those that begin there; NULL if there
 * is none. One within a word, of a token that has to stand alone, is text up to its end. */
static const TokAdded *find_added(const Tokenizer *t, const char *p, size_t n, size_t from,
                                  bool in_normalized, size_t *at)
{
    for (size_t i = from; i < n; i++) {
        const TokAdded *best = NULL;
        if (!t->begins[in_normalized][(unsigned char)p[i]])
            continue;
        for (size_t k = 0; k < t->added.n; k++) {
            const TokAdded *a = &t->added.data[k];
            if (a->normalized == in_normalized && *a->find == p[i] && a->length <= n - i &&
                (!best || a->length > best->length) && memcmp(p + i, a->find, a->length) == 0)
                best = a;
        }
        if (best && best->single && !stands_alone(p, n, i, i + best->length)) {
            i += best->length - 1;
        } else if (best) {
            *at = i;
            return best;
        }
    }
    return NULL;
}

/* Texts between added tokens, and the tokens, in order. Of a long text they wait until there
 * are many, which the team then does together: each is by itself. */
typedef struct Item {
    TokPiece piece; /* empty: a token */
    int32_t id;
    uint32_t origin;
} Item;
typedef struct Cut {
    TokWorker *w;
    bool in_normalized, waits;
    Item *item;
    size_t n, cap, bytes; /* of those that wait */
    const size_t *end;    /* of each part, while the team does them */
} Cut;

enum { WAITING = 1 << 16 };

static void do_item(TokWorker *w, const Cut *c, const Item *x)
{
    if (!x->piece.n)
        tok_push(w, x->id, x->origin);
    else if (c->in_normalized)
        split_from(w, 0, x->piece);
    else
        encode_plain(w, x->piece);
}

static void do_part(TokWorker *w, size_t part, void *ctx)
{
    const Cut *c = ctx;
    for (size_t i = part ? c->end[part - 1] : 0; i < c->end[part]; i++)
        do_item(w, c, &c->item[i]);
}

/* Parts of about as many bytes each. */
static void do_together(Cut *c)
{
    size_t parts = 0, bytes = 0, least = c->bytes / (4 * c->w->teams);
    size_t *end = malloc(c->n * sizeof *end);
    TokShare *share = malloc(c->n * sizeof *share);
    if (!end || !share)
        abort();
    for (size_t i = 0; i < c->n; i++) {
        bytes += c->item[i].piece.n;
        if (bytes > least || i + 1 == c->n) {
            end[parts++] = i + 1;
            bytes = 0;
        }
    }
    c->end = end;
    tok_team(c->w, parts, do_part, c, share);
    for (size_t i = 0; i < parts; i++)
        tok_share_take(c->w, &share[i], 0, 0);
    free(share);
    free(end);
}

static void do_waiting(Cut *c)
{
    if (tok_is_wide(c->w, c->bytes))
        do_together(c);
    else
        for (size_t i = 0; i < c->n; i++)
            do_item(c->w, c, &c->item[i]);
    c->n = c->bytes = 0;
}

static void give(Cut *c, Item x)
{
    bool whole = !c->waits || x.piece.n >= TOK_WIDE;
    if (c->n && (whole || c->n == WAITING))
        do_waiting(c);
    if (whole) {
        do_item(c->w, c, &x);
        return;
    }
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 256;
        c->item = realloc(c->item, c->cap * sizeof *c->item);
        if (!c->item)
            abort();
    }
    c->item[c->n++] = x;
    c->bytes += x.piece.n;
}

static void cut_added(TokWorker *w, TokPiece p, bool in_normalized)
{
    Cut c = {.w = w, .in_normalized = in_normalized, .waits = tok_is_wide(w, p.n)};
    size_t from = 0, search = 0, at, k;
    for (;;) {
        const TokAdded *a =
            w->t->added.n ? find_added(w->t, p.p, p.n, search, in_normalized, &at) : NULL;
        size_t end = a ? at : p.n, after = a ? end + a->length : p.n;
        uint32_t origin = a ? tok_origin(&p, end) : 0;
        search = after; /* what a token takes behind it may begin the next one */
        if (a && a->left && end > from)
            end = space_before(p.p, from, end);
        if (end > from)
            give(&c, (Item){.piece = tok_part(&p, from, end)});
        if (!a)
            break;
        give(&c, (Item){.id = a->id, .origin = origin});
        while (a->right && (k = space_at(p.p + after, p.n - after)) > 0)
            after += k;
        from = after;
    }
    do_waiting(&c);
    free(c.item);
}

/* Text without added tokens of the first kind. */
static void encode_plain(TokWorker *w, TokPiece p)
{
    const Tokenizer *t = w->t;
    TokMade own = {0};
    for (size_t i = 0; i < t->norm.n; i++) {
        TokMade next = {0};
        if (!tok_normalized(w, &t->norm.data[i], &p, &next))
            continue;
        tok_made_free(&own);
        own = next;
        p = made(&own);
    }
    cut_added(w, p, true);
    tok_made_free(&own);
}

void tok_encode(TokWorker *w, const char *text, size_t n)
{
    size_t size = n;
    char *copy = repaired(text, n, &size);
    cut_added(w, (TokPiece){copy ? copy : text, size, NULL, 0}, false);
    free(copy);
}

size_t tok_ends_added(const Tokenizer *t, const char *text, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; i < t->added.n; i++) {
        const char *a = t->added.data[i].text;
        size_t k = strlen(a);
        if (k <= n && k > best && memcmp(text + n - k, a, k) == 0)
            best = k;
    }
    return best;
}

size_t tok_begins_added(const Tokenizer *t, const char *text, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; i < t->added.n; i++) {
        const char *a = t->added.data[i].text;
        size_t k = strlen(a);
        if (k <= n && k > best && memcmp(text, a, k) == 0)
            best = k;
    }
    return best;
}

void tok_push_all(TokWorker *w, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tok_push(w, id[i], 0);
}

TokWorker *tok_worker_new(const Tokenizer *t)
{
    TokWorker *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->t = t;
    w->cache_arena = arena_new();
    w->cache = calloc(1 << 16, sizeof *w->cache);
    w->match = pcre2_match_data_create(16, NULL);
    if (!w->cache || !w->match)
        abort();
    return w;
}

void tok_worker_free(TokWorker *w)
{
    pcre2_match_data_free(w->match);
    arena_free(w->cache_arena);
    free(w->cache);
    free(w->id);
    free(w->at);
    free(w);
}
