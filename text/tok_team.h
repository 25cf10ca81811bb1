/* tok_team.h - parts of one long text, encoded by all workers of a team. */
#ifndef MGC_TEXT_TOK_TEAM_H
#define MGC_TEXT_TOK_TEAM_H

#include "text/tok.h"

/* Bytes: what is shorter is for one worker; a part that is shorter is not worth a worker's call. */
enum { TOK_WIDE = 1 << 18, TOK_LEAST = 1 << 15 };

typedef struct TokShare { /* the ids of a part */
    TokWorker *w;
    size_t first, last;
} TokShare;
typedef void TokDo(TokWorker *w, size_t part, void *ctx);

/* Whether n bytes are for the team of w. */
static inline bool tok_is_wide(const TokWorker *w, size_t n)
{
    return w->teams > 1 && n >= TOK_WIDE;
}

/* Calls `what` for each of the parts 0 to n - 1, each by one of the team, in any order. share[i]
 * then says where the ids of part i are, until the team's next call. A worker of a team has no team
 * itself. */
void tok_team(TokWorker *w, size_t n, TokDo *what, void *ctx, TokShare *share);
/* Appends the ids of a part from its id `from` on to those of w; their places grow by `by`. */
void tok_share_take(TokWorker *w, const TokShare *share, size_t from, uint32_t by);

/* The ends of the parts of n bytes: *count of them, malloc'ed, the last one n. next(ctx, i) is the
 * first place from i on where a part may end, at most n. */
typedef size_t TokNext(const void *ctx, size_t i);
size_t *tok_team_ends(const TokWorker *w, size_t n, TokNext *next, const void *ctx, size_t *count);

#endif
