/* tok_wide.c - one long piece on all cores: its first split, or the pieces that begin with a mark.
 *
 * A split's matches from the end of a match on depend only on what is behind it, if its pattern
 * never looks back. So each worker begins somewhere, and notes where its first matches end; where
 * the matches of the one before it end at such a place, both go on alike from there. What was found
 * before that place is thrown away. */
#include "text/tok_class.h"
#include "text/tok_split.h"
#include "text/tok_team.h"

#include <stdlib.h>
#include <string.h>

enum { NOTED = 256 };

typedef struct Chunk {
    size_t begin, limit, stop;
    size_t noted;
    struct {
        size_t at, ids;
    } note[NOTED];
} Chunk;

typedef struct Wide {
    const TokPiece *p;
    size_t at; /* the split */
    TokTake *take;
    Chunk *chunk;
} Wide;

static TokCutter cutter(TokWorker *w, const Wide *x, size_t from)
{
    return (TokCutter){.w = w,
                       .at = x->at,
                       .p = x->p,
                       .take = x->take,
                       .s = &w->t->split.data[x->at],
                       .from = from,
                       .any = from > 0,
                       .farthest = x->p->n};
}

/* One that finds no end near its limit gives up: a worker before it gets there. */
static void encode_chunk(TokWorker *w, size_t i, void *ctx)
{
    const Wide *x = ctx;
    Chunk *k = &x->chunk[i];
    TokCutter c = cutter(w, x, k->begin);
    size_t room = k->limit - k->begin, first = w->n;
    c.farthest = room < x->p->n - k->limit ? k->limit + room : x->p->n;
    while (c.from < k->limit && tok_cutter_step(&c)) {
        tok_cutter_flush(&c);
        if (k->noted < NOTED) {
            k->note[k->noted].at = c.from;
            k->note[k->noted++].ids = w->n - first;
        }
    }
    tok_cutter_flush(&c);
    k->stop = c.from;
}

static size_t next_character(const void *ctx, size_t i)
{
    const TokPiece *p = ctx;
    while (i < p->n && ((unsigned char)p->p[i] & 0xc0) == 0x80)
        i++;
    return i;
}

/* The ids of a chunk from the place `from` on; false if no match of it is known to end there. */
static bool joined(TokWorker *w, const Chunk *k, const TokShare *share, size_t from)
{
    size_t ids = 0;
    bool found = from == k->begin && !from;
    for (size_t i = 0; i < k->noted && !found; i++)
        if (k->note[i].at == from) {
            found = true;
            ids = k->note[i].ids;
        }
    if (found)
        tok_share_take(w, share, ids, 0);
    return found;
}

bool tok_split_wide(TokWorker *w, size_t at, const TokPiece *p, TokTake *take)
{
    const TokSplit *s = &w->t->split.data[at];
    uint32_t back = 1;
    bool plain = s->kind == SPLIT_class || s->kind == SPLIT_words;
    if (s->kind == SPLIT_regex)
        plain = pcre2_pattern_info(s->regex, PCRE2_INFO_MAXLOOKBEHIND, &back) == 0 && !back;
    if (!plain || !tok_is_wide(w, p->n) ||
        (s->behavior != BEHAVE_isolated && s->behavior != BEHAVE_removed))
        return false;
    Wide x = {.p = p, .at = at, .take = take};
    size_t chunks, *end = tok_team_ends(w, p->n, next_character, p, &chunks);
    TokShare *share = malloc(chunks * sizeof *share);
    x.chunk = calloc(chunks, sizeof *x.chunk);
    if (!share || !x.chunk)
        abort();
    for (size_t i = 0; i < chunks; i++) {
        x.chunk[i].begin = i ? end[i - 1] : 0;
        x.chunk[i].limit = end[i];
    }
    tok_team(w, chunks, encode_chunk, &x, share);
    size_t teams = w->teams;
    w->teams = 0; /* the team's ids are needed until all are joined */
    TokCutter c = cutter(w, &x, 0);
    for (size_t i = 0; i < chunks; i++) {
        const Chunk *k = &x.chunk[i];
        while (c.from < k->limit) {
            if (joined(w, k, &share[i], c.from)) {
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
    w->teams = teams;
    free(x.chunk);
    free(share);
    free(end);
    return true;
}

/* ---- marks --------------------------------------------------------------------------------- */

typedef struct Marks {
    const TokPiece *p;
    size_t at; /* the split */
    const char *mark;
    TokTake *take;
    const size_t *end;
} Marks;

static size_t next_mark(const void *ctx, size_t i)
{
    const Marks *x = ctx;
    size_t k = strlen(x->mark);
    while (i < x->p->n && x->p->p[i] != ' ' &&
           (x->p->n - i < k || memcmp(x->p->p + i, x->mark, k) != 0))
        i++;
    return i;
}

static void encode_marked(TokWorker *w, size_t i, void *ctx)
{
    const Marks *x = ctx;
    x->take(w, x->at, tok_part(x->p, i ? x->end[i - 1] : 0, x->end[i]));
}

/* A part that begins with a mark, or a space, gets none before it, and the marks of one character
 * are the same in a part as in the whole. */
bool tok_marks_wide(TokWorker *w, size_t at, const TokPiece *p, TokTake *take)
{
    const TokSplit *s = &w->t->split.data[at];
    uint32_t c;
    if (!tok_is_wide(w, p->n) || !s->cut || !*s->mark || tok_char(s->mark, &c) != strlen(s->mark))
        return false;
    Marks x = {.p = p, .at = at, .mark = s->mark, .take = take};
    size_t parts, *end = tok_team_ends(w, p->n, next_mark, &x, &parts);
    TokShare *share = malloc(parts * sizeof *share);
    if (!share)
        abort();
    x.end = end;
    tok_team(w, parts, encode_marked, &x, share);
    for (size_t i = 0; i < parts; i++)
        tok_share_take(w, &share[i], 0, 0);
    free(share);
    free(end);
    return true;
}
