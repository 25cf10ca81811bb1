/* tok_bpe.c - byte-pair encoding of one piece: of all neighbours the pair that merges first, the
 * leftmost of equals, until none is left. Long pieces (a whole text is one where nothing splits it)
 * are cut at seams. Short parts are scanned; long ones are a linked list with a heap. What was seen
 * before is remembered. */
#include "text/tok_seams.h"
#include "text/tok_team.h"

#include <stdlib.h>
#include <string.h>

enum { SCANNED = 48, CACHE = 1 << 16, CACHED_LENGTH = 64, CACHE_BYTES = 32 << 20 };

static const TokMerge *find_merge(const Tokenizer *t, int32_t a, int32_t b)
{
    if (a < 0 || b < 0 || !t->merges)
        return NULL;
    uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    size_t i = (pair * 0x9e3779b97f4a7c15u >> 32) & (t->merges - 1);
    for (; t->merge[i].id >= 0; i = (i + 1) & (t->merges - 1))
        if (t->merge[i].pair == pair)
            return &t->merge[i];
    return NULL;
}

void tok_push(TokWorker *w, int32_t id, uint32_t at)
{
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 4096;
        w->id = realloc(w->id, w->cap * sizeof *w->id);
        w->at = realloc(w->at, w->cap * sizeof *w->at);
        if (!w->id || !w->at)
            abort();
    }
    w->at[w->n] = at;
    w->id[w->n++] = id;
}

static size_t char_length(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* The token of the character p[i], of k bytes, as it is in its place in the piece; and its text. */
static int32_t symbol(const Tokenizer *t, const char *p, size_t n, size_t i, size_t k,
                      char text[40], size_t *size)
{
    if (t->byte_level)
        return t->byte[(unsigned char)p[i]];
    *size = 0;
    if (i && *t->prefix)
        *size = strlen(strcpy(text, t->prefix));
    memcpy(text + *size, p + i, k);
    *size += k;
    if (i + k == n && *t->suffix)
        *size += strlen(strcpy(text + *size, t->suffix));
    return tok_table_get(&t->vocab, text, *size);
}

/* The tokens of single characters (bytes, where tokens are), appended to the ids. An unknown one
 * waits for the next that is known, which bytes are not. */
static void first_symbols(TokWorker *w, const char *p, size_t n)
{
    const Tokenizer *t = w->t;
    char text[40];
    size_t size = 0;
    int64_t waits = -1; /* an unknown one, here */
    for (size_t i = 0, k; i < n; i += k) {
        k = t->byte_level ? 1 : char_length(p + i);
        int32_t id = symbol(t, p, n, i, k, text, &size);
        bool bytes = id < 0 && t->byte_fallback;
        for (size_t j = 0; bytes && j < size; j++)
            bytes = t->byte[(unsigned char)text[j]] >= 0;
        for (size_t j = 0; bytes && j < size; j++)
            tok_push(w, t->byte[(unsigned char)text[j]], (uint32_t)i);
        if (bytes || (id < 0 && (t->unk < 0 || (waits >= 0 && t->fuse_unk))))
            continue;
        if (waits >= 0)
            tok_push(w, t->unk, (uint32_t)waits);
        waits = id < 0 ? (int64_t)i : -1;
        if (id >= 0)
            tok_push(w, id, (uint32_t)i);
    }
    if (waits >= 0)
        tok_push(w, t->unk, (uint32_t)waits);
}

static size_t merge_scanned(const Tokenizer *t, int32_t *id, uint32_t *at, size_t n)
{
    int32_t rank[SCANNED], made[SCANNED];
    for (size_t i = 0; i + 1 < n; i++) {
        const TokMerge *m = find_merge(t, id[i], id[i + 1]);
        rank[i] = m ? m->rank : INT32_MAX;
        made[i] = m ? m->id : -1;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == INT32_MAX)
            break;
        id[best] = made[best];
        memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
        memmove(at + best + 1, at + best + 2, (n - best - 2) * sizeof *at);
        memmove(rank + best, rank + best + 1, (n - best - 2) * sizeof *rank);
        memmove(made + best, made + best + 1, (n - best - 2) * sizeof *made);
        n--;
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const TokMerge *m = find_merge(t, id[i], id[i + 1]);
            rank[i] = m ? m->rank : INT32_MAX;
            made[i] = m ? m->id : -1;
        }
    }
    return n;
}

/* ---- long pieces --------------------------------------------------------------------------- */

typedef struct Pending { /* a merge of `at` and its neighbour that may be out of date */
    int32_t rank, at, left, right, id;
} Pending;
typedef struct Heap {
    Pending *item;
    size_t n, cap;
} Heap;

static bool sooner(const Pending *a, const Pending *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void heap_add(Heap *h, Pending p)
{
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 1024;
        h->item = realloc(h->item, h->cap * sizeof *h->item);
        if (!h->item)
            abort();
    }
    size_t i = h->n++;
    for (; i && sooner(&p, &h->item[(i - 1) / 2]); i = (i - 1) / 2)
        h->item[i] = h->item[(i - 1) / 2];
    h->item[i] = p;
}

static Pending heap_take(Heap *h)
{
    Pending first = h->item[0], last = h->item[--h->n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < h->n; i = k) {
        if (k + 1 < h->n && sooner(&h->item[k + 1], &h->item[k]))
            k++;
        if (!sooner(&h->item[k], &last))
            break;
        h->item[i] = h->item[k];
    }
    if (h->n)
        h->item[i] = last;
    return first;
}

static void propose(const Tokenizer *t, Heap *h, const int32_t *id, int32_t at, int32_t right)
{
    const TokMerge *m = right < 0 ? NULL : find_merge(t, id[at], id[right]);
    if (m)
        heap_add(h, (Pending){m->rank, at, id[at], id[right], m->id});
}

static size_t merge_listed(const Tokenizer *t, int32_t *id, uint32_t *place, size_t n)
{
    int32_t *next = malloc(2 * n * sizeof *next), *before = next + n;
    Heap h = {0};
    if (!next)
        abort();
    for (size_t i = 0; i < n; i++) {
        next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
        before[i] = (int32_t)i - 1;
    }
    for (size_t i = 0; i + 1 < n; i++)
        propose(t, &h, id, (int32_t)i, next[i]);
    while (h.n) {
        Pending p = heap_take(&h);
        int32_t right = id[p.at] == p.left ? next[p.at] : -1;
        if (right < 0 || id[right] != p.right)
            continue; /* one of the two is part of another by now */
        id[p.at] = p.id;
        id[right] = -1;
        next[p.at] = next[right];
        if (next[right] >= 0)
            before[next[right]] = p.at;
        if (before[p.at] >= 0)
            propose(t, &h, id, before[p.at], p.at);
        propose(t, &h, id, p.at, next[p.at]);
    }
    size_t kept = 0;
    for (int32_t i = 0; i >= 0; i = next[i]) {
        place[kept] = place[i];
        id[kept++] = id[i];
    }
    free(h.item);
    free(next);
    return kept;
}

/* ---- the cache ----------------------------------------------------------------------------- */

static TokWord *remembered(TokWorker *w, const char *p, size_t n)
{
    size_t i = tok_hash(p, n) & (CACHE - 1);
    for (int probe = 0; probe < 8; probe++, i = (i + 1) & (CACHE - 1))
        if (!w->cache[i].key || (w->cache[i].length == n && memcmp(w->cache[i].key, p, n) == 0))
            return &w->cache[i];
    return NULL;
}

static void remember(TokWorker *w, TokWord *word, const char *p, size_t n, size_t from)
{
    if (!word || word->key || w->cached_bytes > CACHE_BYTES)
        return;
    word->length = (uint32_t)n;
    word->n = (uint32_t)(w->n - from);
    word->key = arena_alloc(w->cache_arena, n + 1);
    memcpy(word->key, p, n);
    word->id = NEW_ARRAY(w->cache_arena, int32_t, 2 * word->n + 1);
    for (uint32_t i = 0; i < word->n; i++) {
        word->id[i] = w->id[from + i];
        word->id[word->n + i] = (int32_t)w->at[from + i];
    }
    w->cached_bytes += n + 2 * word->n * sizeof *word->id;
}

/* Without a look at seams. */
static void merge_piece(TokWorker *w, const char *p, size_t n)
{
    const Tokenizer *t = w->t;
    size_t from = w->n;
    first_symbols(w, p, n);
    size_t symbols = w->n - from;
    if (symbols) /* not if nothing is known, and there is no token for that */
        w->n = from + (symbols <= SCANNED ? merge_scanned(t, w->id + from, w->at + from, symbols)
                                          : merge_listed(t, w->id + from, w->at + from, symbols));
}

static void whole_piece(TokWorker *w, const char *p, size_t n)
{
    const Tokenizer *t = w->t;
    size_t from = w->n;
    TokWord *word = n <= CACHED_LENGTH ? remembered(w, p, n) : NULL;
    if (word && word->key) {
        for (uint32_t i = 0; i < word->n; i++)
            tok_push(w, word->id[i], (uint32_t)word->id[word->n + i]);
        return;
    }
    int32_t whole = t->model == MODEL_bpe && t->ignore_merges ? tok_table_get(&t->vocab, p, n) : -1;
    if (whole >= 0)
        tok_push(w, whole, 0);
    else if (t->model == MODEL_unigram)
        tok_unigram(w, p, n);
    else if (t->model == MODEL_wordpiece)
        tok_wordpiece(w, p, n);
    else if (t->model == MODEL_wordlevel)
        tok_wordlevel(w, p, n);
    else
        merge_piece(w, p, n);
    remember(w, word, p, n, from);
}

static void by_seams(TokWorker *w, const TokSeams *s, const char *p, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        size_t from = w->n;
        end = i + tok_next_seam(w->t, s, p + i, n - i, 0);
        whole_piece(w, p + i, end - i);
        for (size_t k = from; k < w->n; k++)
            w->at[k] += (uint32_t)i;
    }
}

/* ---- the team ------------------------------------------------------------------------------ */

typedef struct Seamed {
    const Tokenizer *t;
    const TokSeams *s;
    const char *p;
    size_t n;
    const size_t *end; /* of each part */
} Seamed;

static size_t next_seam(const void *ctx, size_t i)
{
    const Seamed *x = ctx;
    return tok_next_seam(x->t, x->s, x->p, x->n, i);
}

static void encode_seamed(TokWorker *w, size_t i, void *ctx)
{
    const Seamed *x = ctx;
    size_t begin = i ? x->end[i - 1] : 0;
    by_seams(w, x->s, x->p + begin, x->end[i] - begin);
}

static void by_seams_wide(TokWorker *w, const TokSeams *s, const char *p, size_t n)
{
    Seamed x = {w->t, s, p, n, NULL};
    size_t parts, *end = tok_team_ends(w, n, next_seam, &x, &parts);
    TokShare *share = malloc(parts * sizeof *share);
    if (!share)
        abort();
    x.end = end;
    tok_team(w, parts, encode_seamed, &x, share);
    for (size_t i = 0; i < parts; i++)
        tok_share_take(w, &share[i], 0, i ? (uint32_t)end[i - 1] : 0);
    free(share);
    free(end);
}

void tok_piece(TokWorker *w, const char *p, size_t n)
{
    const TokSeams *s = n > CACHED_LENGTH ? tok_seams(w->t) : NULL;
    if (!n)
        return;
    if (!s)
        whole_piece(w, p, n);
    else if (tok_is_wide(w, n))
        by_seams_wide(w, s, p, n);
    else
        by_seams(w, s, p, n);
}
