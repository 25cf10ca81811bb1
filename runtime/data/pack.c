/* pack.c - puts documents into windows: first-fit decreasing.
 *
 * A window has seq + 1 tokens, of which the last is a target alone. A document of n tokens takes n
 * of them, and has n - 1 targets; one of fewer than two tokens has none, and is left out. A longer
 * document than a window is cut into pieces seq apart, each of seq + 1 tokens but the last, so that
 * each of its tokens but the first is the target of one piece; or it is left out (--long-documents
 * drop). Where the program reads further than the next token, a piece of seq + 1 tokens, which is
 * alone in its window, has those of its document behind it.
 *
 * Pieces are numbered by falling length, equal ones in the order of the files: slots. Which window
 * a slot is in depends on lengths alone, so it is found once, for all epochs. In each epoch the
 * pieces of one length change their slots, by a permutation that is computed: a resumed run needs
 * no state. First fit finds the first window with enough room by a tree of the largest room below
 * each of its nodes: n pieces take O(n log n). */
#include "runtime/data/pack.h"
#include "runtime/data/batch.h"
#include "runtime/data/sources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- first fit ------------------------------------------------------------------------------ */

enum {
    FAN = 16, /* children of a node: a line of the cache */
    LEVELS = 16
};

/* Level 0 has the room of each window, level k the largest of FAN nodes below. */
typedef struct rooms {
    int32_t *level[LEVELS];
    int64_t n[LEVELS];
    int levels;
} rooms;

static rooms new_rooms(int64_t windows, int32_t capacity)
{
    rooms r = {0};
    int64_t n = windows;
    do {
        n = (n + FAN - 1) / FAN;
        r.n[r.levels] = n * FAN;
        r.level[r.levels] = rt_alloc((size_t)(n * FAN), sizeof **r.level);
        for (int64_t k = 0; k < n * FAN; k++)
            r.level[r.levels][k] = capacity;
        r.levels++;
    } while (n > 1);
    return r;
}

static int64_t first_with(const rooms *r, int32_t room)
{
    int64_t at = 0;
    for (int l = r->levels - 1; l >= 0; l--) {
        at *= FAN;
        while (r->level[l][at] < room)
            at++;
    }
    return at;
}

static void take(rooms *r, int64_t at, int32_t room)
{
    r->level[0][at] -= room;
    for (int l = 1; l < r->levels; l++) {
        const int32_t *child = r->level[l - 1] + at / FAN * FAN;
        int32_t most = 0;
        for (int k = 0; k < FAN; k++)
            most = child[k] > most ? child[k] : most;
        at /= FAN;
        if (r->level[l][at] == most)
            return;
        r->level[l][at] = most;
    }
}

int64_t rt_pack_fit(const int32_t *length, int64_t n, int64_t total, int32_t capacity,
                    uint32_t *window)
{
    /* All windows but one are more than half full: two that are not would be one. */
    const int64_t most = 2 * (total / capacity) + 2;
    rooms r = new_rooms(most < n ? most : n, capacity);
    int64_t windows = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = first_with(&r, length[k]);
        take(&r, at, length[k]);
        window[k] = (uint32_t)at;
        windows = at >= windows ? at + 1 : windows;
    }
    for (int l = 0; l < r.levels; l++)
        free(r.level[l]);
    return windows;
}

/* ---- pieces --------------------------------------------------------------------------------- */

typedef struct piece {
    int64_t first; /* token, counted through all segments */
    int32_t tokens;
    int32_t after; /* of its document behind it, as far as a window reads */
} piece;

struct rt_pack {
    piece *piece; /* in the order of the files */
    int64_t pieces;
    uint32_t *by_length; /* pieces by slot */
    int64_t *longer;     /* of each length how many are longer: the first slot */
    uint32_t *slot;      /* slots by window, the longest first */
    int64_t *begin;      /* of each window in `slot`, and the end */
};

/* The making of pieces. */
typedef struct maker {
    const rt_data *d;
    rt_pack *p;
    rt_packing *count;
    int64_t from, to, base; /* tokens of the file that the segment has; its first one's number */
} maker;

static void add_piece(maker *m, int64_t first, int64_t tokens, int64_t left)
{
    const int64_t ahead = m->d->window - m->d->seq - 1;
    rt_pack *p = m->p;
    if ((p->pieces & (p->pieces - 1)) == 0) /* a power of two: twice as many */
        p->piece = rt_grow(p->piece, (size_t)p->pieces * 2 + 1, sizeof *p->piece);
    if (p->pieces == UINT32_MAX)
        rt_die(RT_BAD_DATA, "more than %" PRId64 " documents and pieces of documents in one set",
               p->pieces);
    p->piece[p->pieces++] =
        (piece){m->base + first - m->from, (int32_t)tokens, (int32_t)(left < ahead ? left : ahead)};
    m->count->tokens += tokens;
}

static void add_document(void *ctx, int64_t first, int64_t n)
{
    maker *m = ctx;
    const int64_t seq = m->d->seq;
    if (first < m->from || first + n > m->to) /* of what was held out */
        return;
    m->count->documents++;
    m->count->empty += n < 2;
    m->count->longer += n > seq + 1;
    if (n < 2 || (n > seq + 1 && m->d->drops))
        return;
    for (int64_t at = 0; at + 1 < n; at += seq) {
        const int64_t tokens = n - at < seq + 1 ? n - at : seq + 1;
        add_piece(m, first + at, tokens, n - at - tokens);
        m->count->pieces += n > seq + 1;
    }
}

static void add_pieces(const rt_data *d, rt_pack *p, rt_packing *count)
{
    maker m = {.d = d, .p = p, .count = count};
    for (int i = 0; i < d->nsegments; i++) {
        const rt_segment *s = &d->segment[i];
        m.from = s->first;
        m.to = s->first + s->tokens;
        rt_documents_each(&d->file[s->file], add_document, &m);
        m.base += s->tokens;
    }
}

/* Counting sort: by falling length, and by number. */
static void sort(rt_pack *p, int64_t capacity)
{
    int64_t *at = rt_alloc((size_t)capacity + 1, sizeof *at);
    p->longer = rt_alloc((size_t)capacity + 1, sizeof *p->longer);
    p->by_length = rt_alloc((size_t)p->pieces, sizeof *p->by_length);
    for (int64_t k = 0; k < p->pieces; k++)
        p->longer[p->piece[k].tokens - 1]++;
    for (int64_t n = capacity; n > 0; n--)
        p->longer[n - 1] += p->longer[n];
    memcpy(at, p->longer, (size_t)(capacity + 1) * sizeof *at);
    for (int64_t k = 0; k < p->pieces; k++)
        p->by_length[at[p->piece[k].tokens]++] = (uint32_t)k;
    free(at);
}

static void fit(rt_pack *p, int32_t capacity, rt_packing *count)
{
    int32_t *length = rt_alloc((size_t)p->pieces, sizeof *length);
    uint32_t *window = rt_alloc((size_t)p->pieces, sizeof *window);
    for (int64_t k = 0; k < p->pieces; k++)
        length[k] = p->piece[p->by_length[k]].tokens;
    count->windows = rt_pack_fit(length, p->pieces, count->tokens, capacity, window);
    p->begin = rt_alloc((size_t)count->windows + 1, sizeof *p->begin);
    p->slot = rt_alloc((size_t)p->pieces, sizeof *p->slot);
    for (int64_t k = 0; k < p->pieces; k++)
        p->begin[window[k] + 1]++;
    for (int64_t w = 0; w < count->windows; w++)
        p->begin[w + 1] += p->begin[w];
    int64_t *at = rt_alloc((size_t)count->windows, sizeof *at);
    memcpy(at, p->begin, (size_t)count->windows * sizeof *at);
    for (int64_t k = 0; k < p->pieces; k++)
        p->slot[at[window[k]]++] = (uint32_t)k;
    free(at);
    free(length);
    free(window);
}

/* Positions that a document has; a window's last token has none. */
static void count_positions(const rt_data *d, const rt_pack *p, rt_packing *count)
{
    for (int64_t w = 0; w < count->windows; w++) {
        int64_t tokens = 0;
        for (int64_t k = p->begin[w]; k < p->begin[w + 1]; k++)
            tokens += p->piece[p->by_length[p->slot[k]]].tokens;
        count->positions += tokens < d->seq ? tokens : d->seq;
    }
}

rt_pack *rt_pack_new(const rt_data *d, rt_packing *count)
{
    rt_pack *p = rt_alloc(1, sizeof *p);
    *count = (rt_packing){0};
    add_pieces(d, p, count);
    if (!p->pieces)
        rt_die(RT_BAD_DATA,
               "%s: of %" PRId64 " documents %" PRId64 " have fewer than two tokens and %" PRId64
               " are longer than a window of %" PRId64 ": there is nothing to learn",
               d->file[0].path, count->documents, count->empty, count->longer, d->seq + 1);
    sort(p, d->seq + 1);
    fit(p, (int32_t)(d->seq + 1), count);
    count_positions(d, p, count);
    return p;
}

void rt_pack_free(rt_pack *p)
{
    if (!p)
        return;
    free(p->piece);
    free(p->by_length);
    free(p->longer);
    free(p->slot);
    free(p->begin);
    free(p);
}

char *rt_packing_text(const rt_data *d)
{
    const rt_packing *p = &d->packing;
    const double all = (double)p->windows * (double)d->seq;
    char cut[64] = "left out";
    if (p->pieces)
        snprintf(cut, sizeof cut, "cut into %" PRId64 " pieces", p->pieces);
    char *longer = p->longer ? rt_printf("; %" PRId64 " are longer: %s", p->longer, cut) : NULL;
    char *empty = p->empty ? rt_printf("; %" PRId64 " have no target: left out", p->empty) : NULL;
    char *text =
        rt_printf("%" PRId64 " documents in %" PRId64 " windows of %" PRId64
                  ", %.2f%% of positions are padding%s%s",
                  p->documents, p->windows, d->seq, 100 * (all - (double)p->positions) / all,
                  longer ? longer : "", empty ? empty : "");
    free(longer);
    free(empty);
    return text;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The piece that an epoch has in a slot. */
static const piece *piece_in(const rt_pack *p, uint64_t key, uint32_t slot)
{
    const int32_t tokens = p->piece[p->by_length[slot]].tokens;
    const int64_t first = p->longer[tokens], alike = p->longer[tokens - 1] - first;
    if (!key)
        return &p->piece[p->by_length[slot]];
    return &p->piece[p->by_length[first + (int64_t)rt_permute(rt_mix64(key ^ (uint64_t)tokens),
                                                              (uint64_t)alike,
                                                              slot - (uint64_t)first)]];
}

/* A row as it is put together. */
typedef struct row {
    int64_t window;
    int32_t *token, *document;
    mg_dtype compute;
    char *weight; /* of each token as a target: of the first one, too */
} row;

static void weigh(const row *x, int64_t at, double weight)
{
    if (x->compute == MG_F64)
        ((double *)x->weight)[at] = weight;
    else
        ((float *)x->weight)[at] = (float)weight;
}

/* Tokens of a piece of the segments from place `at` on. */
static void put_piece(const rt_data *d, const row *x, int64_t at, const piece *p, int64_t n)
{
    const rt_segment *s = rt_data_segment(d, p->first);
    const rt_file *f = &d->file[s->file];
    const int64_t first = s->first + p->first - s->before;
    rt_tokens_read(f, first, n, x->token + at);
    if (f->weights)
        rt_targets_read(f, first, n, x->compute, x->weight + at * mg_dtype_bytes(x->compute));
    for (int64_t k = 0; k < n; k++) {
        x->document[at + k] = (int32_t)at;
        if (!f->weights)
            weigh(x, at + k, 1);
    }
}

/* Padding is read by nothing but itself, and weighs nothing. */
static void put_padding(const row *x, int64_t at)
{
    for (int64_t k = at; k < x->window; k++) {
        x->token[k] = 0;
        x->document[k] = (int32_t)k;
        weigh(x, k, 0);
    }
}

void rt_pack_row(const rt_data *d, uint64_t key, int64_t window, mg_dtype compute, rt_batch *b,
                 const mg_entry *e, int64_t number)
{
    const rt_pack *p = d->pack;
    const int64_t width = mg_dtype_bytes(compute), n = d->window;
    row x = {n, rt_alloc((size_t)n, 4), rt_alloc((size_t)n, 4), compute,
             rt_alloc((size_t)n, (size_t)width)};
    int64_t at = 0;
    for (int64_t k = p->begin[window]; k < p->begin[window + 1]; k++) {
        const piece *q = piece_in(p, key, p->slot[k]);
        const int64_t tokens = q->tokens + q->after;
        put_piece(d, &x, at, q, tokens);
        at += tokens;
    }
    put_padding(&x, at);
    rt_batch_row(b, e->tokens, number, x.token, e->window * 4);
    if (e->documents >= 0)
        rt_batch_row(b, e->documents, number, x.document, e->window * 4);
    if (e->weights >= 0)
        rt_batch_row(b, e->weights, number, x.weight + width, (e->window - 1) * width);
    free(x.token);
    free(x.document);
    free(x.weight);
}
