/* tok_wide.c - one long piece on all cores. What a split finds from the end of a match on depends
 * only on what is behind it, if its pattern never looks back. So each worker begins somewhere, and
 * notes where its first matches end; where the matches of the one before it end at such a place,
 * both go on alike from there. What was found before that place is thrown away. */
#include "text/tok_split.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WIDE = 1 << 18, LEAST = 1 << 15, NOTED = 256 };

typedef struct Chunk {
    size_t begin, limit, stop;
    TokWorker *w;
    size_t first, last; /* its ids in w */
    size_t noted;
    struct {
        size_t at, ids;
    } note[NOTED];
} Chunk;

typedef struct Wide {
    const TokPiece *p;
    TokTake *take;
    Chunk *chunk;
    size_t chunks;
    atomic_size_t next;
} Wide;

typedef struct Hand {
    Wide *wide;
    TokWorker *w;
} Hand;

static TokCutter cutter(TokWorker *w, const TokPiece *p, TokTake *take, size_t from)
{
    return (TokCutter){
        w, 0, p, take, &w->t->split.data[0], .from = from, .any = from > 0, .farthest = p->n};
}

/* One that finds no end near its limit gives up: a worker before it gets there. */
static void encode_chunk(Wide *x, Chunk *k, TokWorker *w)
{
    TokCutter c = cutter(w, x->p, x->take, k->begin);
    size_t room = k->limit - k->begin;
    c.farthest = room < x->p->n - k->limit ? k->limit + room : x->p->n;
    k->w = w;
    k->first = w->n;
    while (c.from < k->limit && tok_cutter_step(&c)) {
        tok_cutter_flush(&c);
        if (k->noted < NOTED) {
            k->note[k->noted].at = c.from;
            k->note[k->noted++].ids = w->n;
        }
    }
    tok_cutter_flush(&c);
    k->stop = c.from;
    k->last = w->n;
}

static void *encode_chunks(void *ctx)
{
    const Hand *h = ctx;
    for (size_t i; (i = atomic_fetch_add(&h->wide->next, 1)) < h->wide->chunks;)
        encode_chunk(h->wide, &h->wide->chunk[i], h->w);
    return NULL;
}

static void run_team(Wide *x, const TokWorker *w)
{
    pthread_t *thread = malloc(w->teams * sizeof *thread);
    Hand *hand = malloc(w->teams * sizeof *hand);
    size_t started = 1;
    if (!thread || !hand)
        abort();
    for (size_t i = 0; i < w->teams; i++) {
        w->team[i]->n = 0;
        hand[i] = (Hand){x, w->team[i]};
    }
    while (started < w->teams &&
           !pthread_create(&thread[started], NULL, encode_chunks, &hand[started]))
        started++; /* with those there are */
    encode_chunks(&hand[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(thread[i], NULL);
    free(hand);
    free(thread);
}

static void make_chunks(Wide *x, size_t workers)
{
    const TokPiece *p = x->p;
    size_t size = p->n / (4 * workers) > LEAST ? p->n / (4 * workers) : LEAST, begin = 0;
    x->chunk = calloc(p->n / size + 1, sizeof *x->chunk);
    if (!x->chunk)
        abort();
    while (begin < p->n) {
        size_t end = p->n - begin > size ? begin + size : p->n;
        while (end < p->n && ((unsigned char)p->p[end] & 0xc0) == 0x80)
            end++;
        x->chunk[x->chunks].begin = begin;
        x->chunk[x->chunks++].limit = end;
        begin = end;
    }
}

/* The ids of a chunk from the place `from` on; false if no match of it is known to end there. */
static bool joined(TokWorker *w, const Chunk *k, size_t from)
{
    size_t ids = k->first;
    bool found = from == k->begin && !from;
    for (size_t i = 0; i < k->noted && !found; i++)
        if (k->note[i].at == from) {
            found = true;
            ids = k->note[i].ids;
        }
    for (size_t i = ids; found && i < k->last; i++)
        tok_push(w, k->w->id[i], k->w->at[i]);
    return found;
}

bool tok_split_wide(TokWorker *w, const TokPiece *p, TokTake *take)
{
    const TokSplit *s = &w->t->split.data[0];
    uint32_t back = 1;
    bool plain = s->kind == SPLIT_class || s->kind == SPLIT_words;
    if (s->kind == SPLIT_regex)
        plain = pcre2_pattern_info(s->regex, PCRE2_INFO_MAXLOOKBEHIND, &back) == 0 && !back;
    if (!plain || w->teams < 2 || p->n < WIDE ||
        (s->behavior != BEHAVE_isolated && s->behavior != BEHAVE_removed))
        return false;
    Wide x = {.p = p, .take = take};
    make_chunks(&x, w->teams);
    run_team(&x, w);
    TokCutter c = cutter(w, p, take, 0);
    for (size_t i = 0; i < x.chunks; i++) {
        const Chunk *k = &x.chunk[i];
        while (c.from < k->limit) {
            if (joined(w, k, c.from)) {
                c.from = k->stop;
                c.any = c.any || k->noted;
                break;
            }
            tok_cutter_step(&c);
            tok_cutter_flush(&c);
        }
    }
    while (c.from < p->n) {
        tok_cutter_step(&c);
        tok_cutter_flush(&c);
    }
    free(x.chunk);
    return true;
}
