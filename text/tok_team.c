/* tok_team.c - some threads, and the parts of a text. Each takes the next part that nobody has. */
#include "text/tok_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct Work {
    TokDo *what;
    void *ctx;
    TokShare *share;
    size_t parts;
    atomic_size_t next;
} Work;

typedef struct Hand {
    Work *work;
    TokWorker *w;
} Hand;

static void *take_parts(void *ctx)
{
    const Hand *h = ctx;
    Work *work = h->work;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->parts;) {
        work->share[i] = (TokShare){.w = h->w, .first = h->w->n};
        work->what(h->w, i, work->ctx);
        work->share[i].last = h->w->n;
    }
    return NULL;
}

void tok_team(TokWorker *w, size_t n, TokDo *what, void *ctx, TokShare *share)
{
    Work work = {.what = what, .ctx = ctx, .share = share, .parts = n};
    pthread_t *thread = malloc(w->teams * sizeof *thread);
    Hand *hand = malloc(w->teams * sizeof *hand);
    size_t started = 1;
    if (!thread || !hand)
        abort();
    for (size_t i = 0; i < w->teams; i++) {
        w->team[i]->n = 0;
        hand[i] = (Hand){&work, w->team[i]};
    }
    while (started < w->teams && started < n &&
           !pthread_create(&thread[started], NULL, take_parts, &hand[started]))
        started++; /* with those there are */
    take_parts(&hand[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < w->teams; i++)
        w->lost |= w->team[i]->lost;
    free(hand);
    free(thread);
}

void tok_share_take(TokWorker *w, const TokShare *share, size_t from, uint32_t by)
{
    for (size_t i = share->first + from; i < share->last; i++)
        tok_push(w, share->w->id[i], share->w->at[i] + by);
}

size_t *tok_team_ends(const TokWorker *w, size_t n, TokNext *next, const void *ctx, size_t *count)
{
    size_t size = n / (4 * w->teams) > TOK_LEAST ? n / (4 * w->teams) : TOK_LEAST;
    size_t *end = malloc((n / size + 1) * sizeof *end);
    if (!end)
        abort();
    *count = 0;
    for (size_t at = 0; at < n; end[(*count)++] = at)
        at = n - at > size ? next(ctx, at + size) : n;
    return end;
}
