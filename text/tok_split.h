/* tok_split.h - a split on its way through a piece, match by match. */
#ifndef MGC_TOK_SPLIT_H
#define MGC_TOK_SPLIT_H

#include "text/tok.h"

typedef struct TokCutter {
    TokWorker *w;
    size_t at;
    const TokPiece *p;
    TokTake *take;
    const TokSplit *s;
    size_t begin, end;  /* a part that may still grow */
    bool held, matched; /* is there one; was the last part a match */
    size_t from;        /* the end of the last match, or the beginning */
    bool any;           /* was there a match */
    size_t farthest;    /* a match that ends behind it is not taken */
} TokCutter;

/* Goes on to the end of the next match; false if there is none, and then to the end of the piece.
 */
bool tok_cutter_step(TokCutter *c);
void tok_cutter_flush(TokCutter *c);

/* tok_wide.c: split number `at` of a long piece by all workers of the team. False: it has to be
 * done from the beginning to the end, and nothing was done. The first takes the parts between
 * matches on to the next split; the second, of a metaspace, takes parts that begin with a mark to
 * this one. */
bool tok_split_wide(TokWorker *w, size_t at, const TokPiece *p, TokTake *take);
bool tok_marks_wide(TokWorker *w, size_t at, const TokPiece *p, TokTake *take);

#endif
