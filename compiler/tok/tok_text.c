/* tok_text.c - from a document to pieces: added tokens, normalization, the splits in order. */
#include "compiler/tok/tok.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static void encode_plain(TokWorker *w, const char *p, size_t n, bool first);

/* ---- UTF-8 --------------------------------------------------------------------------------- */

/* The length of the character at p, or 0 and in *bad how many bytes cannot begin or go on one. */
static size_t whole_char(const unsigned char *p, size_t n, size_t *bad)
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
        size_t k = whole_char((const unsigned char *)text + i, n - i, &bad);
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
        size_t k = whole_char((const unsigned char *)text + i, n - i, &bad);
        memcpy(copy + *size, k ? text + i : "\xef\xbf\xbd", k ? k : 3);
        *size += k ? k : 3;
        i += k ? k : bad;
    }
    return copy;
}

/* ---- splits -------------------------------------------------------------------------------- */

static void split_from(TokWorker *w, size_t at, const char *p, size_t n, bool first);

static void regex_split(TokWorker *w, size_t at, const char *p, size_t n, bool first)
{
    const TokSplit *s = &w->t->split.data[at];
    PCRE2_SIZE *match = pcre2_get_ovector_pointer(w->match);
    for (size_t from = 0, search = 0; from < n;) {
        int found =
            pcre2_match(s->regex, (PCRE2_SPTR)p, n, search, PCRE2_NO_UTF_CHECK, w->match, NULL);
        size_t begin = found < 0 ? n : match[0], end = found < 0 ? n : match[1];
        if (found >= 0 && begin == end) { /* an empty match cuts nothing */
            search = end + 1;
            while (search < n && ((unsigned char)p[search] & 0xc0) == 0x80)
                search++;
            if (search < n)
                continue;
            begin = end = n;
        }
        if (begin > from && s->gaps)
            split_from(w, at + 1, p + from, begin - from, first && from == 0);
        if (end > begin && s->matches)
            split_from(w, at + 1, p + begin, end - begin, first && begin == 0);
        from = search = end;
    }
}

/* The piece with something before it, or with spaces replaced: in memory of its own. */
static void metaspace(TokWorker *w, size_t at, const char *p, size_t n, bool first)
{
    const TokSplit *s = &w->t->split.data[at];
    size_t k = strlen(s->mark), size = 0;
    char *copy = malloc((n + 1) * k + n + 1);
    if (!copy)
        abort();
    bool marked = n && (*p == ' ' || (n >= k && memcmp(p, s->mark, k) == 0));
    if (!marked && (s->scheme == 2 || (s->scheme == 1 && first))) {
        memcpy(copy, s->mark, k);
        size = k;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(copy + size, p[i] == ' ' ? s->mark : p + i, p[i] == ' ' ? k : 1);
        size += p[i] == ' ' ? k : 1;
    }
    size_t from = 0;
    for (size_t i = 1; s->cut && i + k <= size; i++)
        if (memcmp(copy + i, s->mark, k) == 0) {
            split_from(w, at + 1, copy + from, i - from, first && !from);
            from = i;
        }
    split_from(w, at + 1, copy + from, size - from, first && !from);
    free(copy);
}

static void prefix_space(TokWorker *w, size_t at, const char *p, size_t n, bool first)
{
    if (!n || *p == ' ') {
        split_from(w, at + 1, p, n, first);
        return;
    }
    char *copy = malloc(n + 1);
    if (!copy)
        abort();
    *copy = ' ';
    memcpy(copy + 1, p, n);
    split_from(w, at + 1, copy, n + 1, first);
    free(copy);
}

static void split_from(TokWorker *w, size_t at, const char *p, size_t n, bool first)
{
    if (at == w->t->split.n)
        tok_piece(w, p, n);
    else if (w->t->split.data[at].kind == SPLIT_regex)
        regex_split(w, at, p, n, first);
    else if (w->t->split.data[at].kind == SPLIT_metaspace)
        metaspace(w, at, p, n, first);
    else
        prefix_space(w, at, p, n, first);
}

/* ---- normalization ------------------------------------------------------------------------- */

static char *replaced(const char *p, size_t n, const TokNorm *norm, size_t *size)
{
    size_t from = strlen(norm->text), to = strlen(norm->by), count = 0;
    for (size_t i = 0; i + from <= n; i++)
        if (memcmp(p + i, norm->text, from) == 0) {
            count++;
            i += from - 1;
        }
    char *out = malloc(n + count * to + 1);
    if (!out)
        abort();
    *size = 0;
    for (size_t i = 0; i < n;) {
        bool here = i + from <= n && memcmp(p + i, norm->text, from) == 0;
        memcpy(out + *size, here ? norm->by : p + i, here ? to : 1);
        *size += here ? to : 1;
        i += here ? from : 1;
    }
    return out;
}

static char *normalized(const TokNorm *norm, const char *p, size_t n, size_t *size)
{
    if (norm->kind == NORM_replace)
        return replaced(p, n, norm, size);
    char *out = NULL;
    if (norm->kind == NORM_prepend) {
        size_t k = n ? strlen(norm->text) : 0; /* nothing stays nothing */
        out = malloc(n + k + 1);
        if (!out)
            abort();
        memcpy(out, norm->text, k);
        memcpy(out + k, p, n);
        *size = n + k;
        return out;
    }
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t made_size = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n,
                                              &made, (utf8proc_option_t)norm->form);
    if (made_size < 0)
        abort(); /* the text was checked; no memory */
    *size = (size_t)made_size;
    return (char *)made;
}

static bool is_ascii(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] >= 0x80)
            return false;
    return true;
}

/* ---- added tokens -------------------------------------------------------------------------- */

static bool space_before(const char *p, size_t i, size_t *k)
{
    if (i && (p[i - 1] == ' ' || (p[i - 1] >= 9 && p[i - 1] <= 13))) {
        *k = 1;
        return true;
    }
    return false;
}

/* The first added token in p, the longest of those that begin there; NULL if there is none. */
static const TokAdded *find_added(const Tokenizer *t, const char *p, size_t n, bool in_normalized,
                                  size_t *at)
{
    for (size_t i = 0; i < n; i++) {
        const TokAdded *best = NULL;
        if (!t->begins[in_normalized][(unsigned char)p[i]])
            continue;
        for (size_t k = 0; k < t->added.n; k++) {
            const TokAdded *a = &t->added.data[k];
            if (a->normalized == in_normalized && *a->text == p[i] && a->length <= n - i &&
                (!best || a->length > best->length) && memcmp(p + i, a->text, a->length) == 0)
                best = a;
        }
        if (best) {
            *at = i;
            return best;
        }
    }
    return NULL;
}

static void cut_added(TokWorker *w, const char *p, size_t n, bool in_normalized, bool first)
{
    size_t from = 0, at, k;
    for (;;) {
        const TokAdded *a =
            w->t->added.n ? find_added(w->t, p + from, n - from, in_normalized, &at) : NULL;
        size_t end = a ? from + at : n, after = a ? end + a->length : n;
        while (a && a->left && end > from && space_before(p, end, &k))
            end -= k;
        if (end > from && in_normalized)
            split_from(w, 0, p + from, end - from, first && !from);
        else if (end > from)
            encode_plain(w, p + from, end - from, first && !from);
        if (!a)
            return;
        tok_push(w, a->id);
        while (a->right && after < n && space_before(p, after + 1, &k))
            after += k;
        from = after;
    }
}

/* Text without added tokens of the first kind. */
static void encode_plain(TokWorker *w, const char *p, size_t n, bool first)
{
    const Tokenizer *t = w->t;
    char *own = NULL;
    for (size_t i = 0; i < t->norm.n; i++) {
        if (t->norm.data[i].kind == NORM_form && is_ascii(p, n))
            continue; /* every form leaves it */
        size_t size;
        char *next = normalized(&t->norm.data[i], p, n, &size);
        free(own);
        own = next;
        p = own;
        n = size;
    }
    cut_added(w, p, n, true, first);
    free(own);
}

void tok_encode(TokWorker *w, const char *text, size_t n)
{
    size_t size = n;
    char *copy = repaired(text, n, &size);
    cut_added(w, copy ? copy : text, size, false, true);
    free(copy);
}

void tok_push_all(TokWorker *w, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tok_push(w, id[i]);
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
    free(w);
}
