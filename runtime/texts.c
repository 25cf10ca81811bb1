/* texts.c - the logits of the next token of texts. See sample.h.
 *
 * A program with caches computes each token once: those of a prompt some at a time, then one after
 * the other. It has room for seq of them. A text that is longer loses its first ones, so that half
 * of the room is free, and the others are computed once more. A program without caches computes the
 * last seq tokens of one text each time: a short text is at the beginning of its window, behind
 * which the window is in the causal future, and is never read. */
#include "runtime/sample.h"

#include <stdlib.h>
#include <string.h>

void rt_text_push(rt_text *t, int32_t token)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 256;
        t->token = rt_grow(t->token, (size_t)t->cap, sizeof *t->token);
    }
    t->token[t->n++] = token;
}

/* Caches that are cut: what is behind the place is put anew before it is read. */
static void cut_back(rt_text *t, const mg_program *p, int64_t to)
{
    if (t->from || t->known > p->cuts)
        to = 0;
    t->from = 0;
    t->known = to;
}

void rt_text_become(rt_text *t, const mg_program *p, const int32_t *token, int64_t n)
{
    int64_t same = 0;
    while (same < t->n && same < n && t->token[same] == token[same])
        same++;
    if (same < t->from + t->known ||
        n == t->from + t->known) /* the last one's logits are asked for */
        cut_back(t, p, same < n ? same : n - 1);
    t->n = 0;
    for (int64_t i = 0; i < n; i++)
        rt_text_push(t, token[i]);
    t->done = false;
}

void rt_text_free(rt_text *t)
{
    free(t->token);
    free(t->logit);
}

int rt_texts_most(const mg_program *p)
{
    return p->prefill.present ? (int)p->decode.batch : 1;
}

/* Texts that have a place of prefill together. */
static int share(const mg_program *p)
{
    return p->prefill.present ? (int)(p->decode.batch / p->prefill.batch) : 1;
}

int rt_texts_each(const mg_program *p)
{
    return p->step.present ? 1 : share(p);
}

/* The logits of sequence k, as doubles. */
static void read_logits(mg_run *r, const mg_entry *e, int k, rt_text *t)
{
    const mg_program *p = r->program;
    const int64_t each = mg_dtype_bytes(p->compute), n = p->vocab,
                  at = e->logits + k * e->logits_row * each;
    if (!t->logit)
        t->logit = rt_alloc((size_t)n, sizeof *t->logit);
    if (p->compute == MG_F64) {
        rt_get(r, at, t->logit, n * each);
        return;
    }
    /* Floats come into the upper half of the doubles, of which the first is written before the
     * place of the last one that was read. */
    char *from = (char *)t->logit + n * each;
    rt_get(r, at, from, n * each);
    for (int64_t i = 0; i < n; i++) {
        float z;
        memcpy(&z, from + i * each, sizeof z);
        t->logit[i] = (double)z;
    }
}

/* ---- without caches ---------------------------------------------------------------------------
 */

/* A program without a position input takes the logits at the end of the window. */
static void whole_window(mg_run *r, rt_text *t)
{
    const mg_entry *e = &r->program->sample;
    const int64_t n = t->n < e->window ? t->n : e->window, from = e->pos < 0 ? e->window - n : 0;
    int32_t *tokens = rt_alloc((size_t)(e->batch * e->window), sizeof *tokens),
            pos = (int32_t)(n - 1);
    for (int64_t b = 0; b < e->batch; b++)
        memcpy(tokens + b * e->window + from, t->token + t->n - n, (size_t)n * sizeof *tokens);
    rt_put_rows(r, e, e->tokens, tokens, e->window * 4);
    if (e->pos >= 0)
        rt_put(r, e->pos, &pos, sizeof pos);
    rt_fill_scalars(r, e, rt_updates(r));
    rt_run(r, RT_SAMPLE);
    read_logits(r, e, 0, t);
    free(tokens);
}

/* ---- with caches -----------------------------------------------------------------------------
 *
 * A program may read a prompt once for several texts that lie one after another
 * (mg_program.spread). Then prefill has places of its own, each for the texts of one group. Those
 * of a group that begin anew, with the same tokens, are read there together, and when no call of
 * prefill takes more of them, spread brings what is in the place's caches to the texts. Others of
 * the group wait for their turn; what a text has behind tokens that it knows is computed one by
 * one. */

/* Texts that are with one place of prefill. */
typedef struct place {
    int lead;  /* the first of them; -1: none */
    int count; /* tokens of them in the next call */
} place;

typedef struct texts {
    mg_run *r;
    rt_text *t;
    int n, group; /* of texts; of those that have one place */
    place *place;
    int places;
    bool *apart; /* of each text: what it knows is in the place's caches, not in its own */
} texts;

/* Sequence k of a program begins anew, on the ranks that have it. */
static void forget(mg_run *r, const mg_entry *e, int k)
{
    const mg_program *p = r->program;
    const int64_t rows = e->rows, ranks = rt_ranks_of(p, ~(uint32_t)0);
    const int half = p->spread.present ? p->ncaches / 2 : p->ncaches,
              from = p->spread.present && e == &p->prefill ? half : 0;
    for (int rank = 0; rank < ranks; rank++)
        for (int i = from; i < from + half && rt_place_of_rows(p, rank, e) == k / rows; i++) {
            const mg_cache *c = &p->caches[i];
            for (int64_t o = 0; o < c->outer; o++)
                rt_zero(r, rank, c->offset + (o * rows + k % rows) * c->bytes, c->bytes);
        }
}

/* Tokens of a text that are not in the caches yet. There is room for them. */
static int64_t missing(const mg_run *r, rt_text *t)
{
    const int64_t room = r->program->seq;
    if (t->n - t->from > room) {
        t->from = t->n - (room + 1) / 2;
        t->known = 0;
    }
    return t->done ? 0 : t->n - t->from - t->known;
}

/* How many of them a call takes. It does not depend on other texts, so that a text has the same
 * bits beside others as alone: one token is for the other program. */
static int64_t taken(const mg_program *p, const mg_entry *e, int64_t missing)
{
    const bool some = e->window == 1 || (missing > 1 && !p->whole_chunks);
    return missing >= e->window ? e->window : some ? missing : 0;
}

/* One call: count[k] tokens of the text in row k. */
static void go_on(mg_run *r, rt_program which, rt_text *const *row, int n, const int32_t *count)
{
    const mg_entry *e = which == RT_PREFILL ? &r->program->prefill : &r->program->decode;
    int32_t *tokens = rt_alloc((size_t)(e->batch * e->window), sizeof *tokens);
    int32_t *begin = rt_alloc((size_t)(2 * e->batch), sizeof *begin), *new = begin + e->batch;
    for (int k = 0; k < n; k++) {
        rt_text *t = row[k];
        begin[k] = t ? (int32_t)t->known : 0; /* at 0 a text would begin anew */
        if (!count[k])
            continue;
        if (!t->known)
            forget(r, e, k);
        new[k] = count[k];
        memcpy(tokens + k * e->window, t->token + t->from + t->known,
               (size_t)count[k] * sizeof *tokens);
        t->known += count[k];
        t->computed += count[k];
    }
    rt_put_rows(r, e, e->tokens, tokens, e->window * 4);
    rt_put_rows(r, e, e->begin, begin, 4);
    rt_put_rows(r, e, e->count, new, 4);
    rt_fill_scalars(r, e, rt_updates(r));
    rt_run(r, which);
    for (int k = 0; k < n; k++)
        if (count[k] && row[k]->known == row[k]->n - row[k]->from)
            read_logits(r, e, k, row[k]);
    free(tokens);
    free(begin);
}

/* Do both begin with the same tokens, all of them new? */
static bool same(const rt_text *a, const rt_text *b)
{
    return !a->known && !b->known && a->n - a->from == b->n - b->from &&
           !memcmp(a->token + a->from, b->token + b->from,
                   (size_t)(a->n - a->from) * sizeof *a->token);
}

/* Gives a place its texts, if it has none, and says how many tokens of them the next call takes. */
static void fill_place(texts *x, int p)
{
    const mg_program *program = x->r->program;
    place *at = &x->place[p];
    const int end = (p + 1) * x->group < x->n ? (p + 1) * x->group : x->n;
    for (int k = p * x->group; k < end && at->lead < 0; k++) {
        const int64_t now = taken(program, &program->prefill, missing(x->r, &x->t[k]));
        if (!now || (x->group > 1 && x->t[k].known))
            continue;
        at->lead = k;
        for (int other = k; other < end && x->group > 1; other++)
            x->apart[other] = other == k || (!x->t[other].done && same(&x->t[k], &x->t[other]));
    }
    at->count =
        at->lead < 0 ? 0 : (int)taken(program, &program->prefill, missing(x->r, &x->t[at->lead]));
}

/* Tells all texts of a place what the first of them knows now. */
static void tell_mates(texts *x, int p)
{
    const rt_text *lead = &x->t[x->place[p].lead];
    const size_t bytes = (size_t)x->r->program->vocab * sizeof *lead->logit;
    for (int k = x->place[p].lead + 1; k < x->n && k < (p + 1) * x->group; k++) {
        rt_text *t = &x->t[k];
        if (!x->apart[k])
            continue;
        t->known = lead->known;
        if (t->known < t->n - t->from)
            continue;
        if (!t->logit)
            t->logit = rt_alloc(bytes, 1);
        memcpy(t->logit, lead->logit, bytes);
    }
}

/* Texts whose place takes no more of them leave it, with what its caches have. */
static void spread(texts *x)
{
    const mg_program *p = x->r->program;
    int32_t *take = rt_alloc((size_t)p->decode.batch, sizeof *take);
    bool any = false;
    for (int k = 0; k < x->places; k++) {
        place *at = &x->place[k];
        if (at->lead < 0 || taken(p, &p->prefill, missing(x->r, &x->t[at->lead])))
            continue;
        at->lead = -1;
        for (int t = k * x->group; t < x->n && t < (k + 1) * x->group; t++) {
            any |= x->apart[t];
            take[t] = x->apart[t];
            x->apart[t] = false;
        }
    }
    if (any && p->spread.present) {
        rt_put_rows(x->r, &p->spread, p->spread.count, take, 4);
        rt_fill_scalars(x->r, &p->spread, rt_updates(x->r));
        rt_run(x->r, RT_SPREAD);
    }
    free(take);
}

/* One call of prefill; false: it would take nothing. */
static bool read_prompts(texts *x)
{
    rt_text **row = rt_alloc((size_t)x->places, sizeof *row);
    int32_t *count = rt_alloc((size_t)x->places, sizeof *count);
    bool any = false;
    for (int p = 0; p < x->places; p++) { /* a text that waits keeps what its own caches have */
        fill_place(x, p);
        count[p] = x->place[p].count;
        row[p] = count[p] ? &x->t[x->place[p].lead] : x->group == 1 ? &x->t[p] : NULL;
        any |= count[p] > 0;
    }
    if (any) {
        go_on(x->r, RT_PREFILL, row, x->places, count);
        for (int p = 0; p < x->places; p++)
            if (x->place[p].lead >= 0)
                tell_mates(x, p);
        spread(x);
    }
    free(row);
    free(count);
    return any;
}

/* One call of decode; false: it would take nothing. */
static bool go_one_on(texts *x)
{
    const mg_program *p = x->r->program;
    rt_text **row = rt_alloc((size_t)x->n, sizeof *row);
    int32_t *count = rt_alloc((size_t)x->n, sizeof *count);
    bool any = false;
    for (int k = 0; k < x->n; k++) {
        row[k] = &x->t[k];
        count[k] = (int32_t)taken(p, &p->decode, missing(x->r, row[k]));
        any |= count[k] > 0;
    }
    if (any)
        go_on(x->r, RT_DECODE, row, x->n, count);
    free(row);
    free(count);
    return any;
}

static void with_caches(mg_run *r, rt_text *t, int n)
{
    texts x = {.r = r, .t = t, .n = n, .group = share(r->program)};
    x.places = (n + x.group - 1) / x.group;
    x.place = rt_alloc((size_t)x.places, sizeof *x.place);
    x.apart = rt_alloc((size_t)n, sizeof *x.apart);
    for (int p = 0; p < x.places; p++)
        x.place[p].lead = -1;
    while (read_prompts(&x) || go_one_on(&x)) {
    }
    free(x.place);
    free(x.apart);
}

void rt_texts_next(mg_run *r, rt_text *t, int n)
{
    if (r->program->prefill.present)
        with_caches(r, t, n);
    for (int k = 0; k < n && !r->program->prefill.present; k++)
        if (!t[k].done)
            whole_window(r, &t[k]);
}
