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
    return p->prefill.present ? (int)p->prefill.batch : 1;
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
    float *z = rt_alloc((size_t)n, sizeof *z);
    rt_get(r, at, z, n * each);
    for (int64_t i = 0; i < n; i++)
        t->logit[i] = (double)z[i];
    free(z);
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

/* ---- with caches ------------------------------------------------------------------------------
 */

/* Sequence k begins anew, on the ranks that have it. */
static void forget(mg_run *r, int k)
{
    const mg_program *p = r->program;
    const int64_t rows = p->decode.rows, ranks = rt_ranks_of(p, ~(uint32_t)0);
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < p->ncaches && rt_place_of(p, rank, p->decode.batch_axes) == k / rows;
             i++) {
            const mg_cache *c = &p->caches[i];
            for (int64_t o = 0; o < c->outer; o++)
                rt_zero(r, rank, c->offset + (o * rows + k % rows) * c->bytes, c->bytes);
        }
}

/* Tokens of a text that are not in the caches yet. There is room for them. */
static int64_t missing(mg_run *r, rt_text *t, int k)
{
    const int64_t room = r->program->seq;
    if (t->n - t->from > room) {
        t->from = t->n - (room + 1) / 2;
        t->known = 0;
    }
    if (t->known == 0)
        forget(r, k);
    return t->n - t->from - t->known;
}

/* How many of them a call takes. It does not depend on other texts, so that a text has the same
 * bits beside others as alone: one token is for the other program. */
static int64_t taken(const mg_program *p, const mg_entry *e, int64_t missing)
{
    const bool some = e->window == 1 || (missing > 1 && !p->whole_chunks);
    return missing >= e->window ? e->window : some ? missing : 0;
}

/* One call: `count` tokens of each text. */
static void go_on(mg_run *r, rt_program which, rt_text *t, int n, const int32_t *count)
{
    const mg_entry *e = which == RT_PREFILL ? &r->program->prefill : &r->program->decode;
    int32_t *tokens = rt_alloc((size_t)(e->batch * e->window), sizeof *tokens);
    int32_t *begin = rt_alloc((size_t)(2 * e->batch), sizeof *begin), *new = begin + e->batch;
    for (int k = 0; k < n; k++) {
        begin[k] = (int32_t)t[k].known;
        new[k] = count[k];
        memcpy(tokens + k * e->window, t[k].token + t[k].from + t[k].known,
               (size_t)count[k] * sizeof *tokens);
        t[k].known += count[k];
        t[k].computed += count[k];
    }
    rt_put_rows(r, e, e->tokens, tokens, e->window * 4);
    rt_put_rows(r, e, e->begin, begin, 4);
    rt_put_rows(r, e, e->count, new, 4);
    rt_fill_scalars(r, e, rt_updates(r));
    rt_run(r, which);
    for (int k = 0; k < n; k++)
        if (count[k] && t[k].known == t[k].n - t[k].from)
            read_logits(r, e, k, &t[k]);
    free(tokens);
    free(begin);
}

static void with_caches(mg_run *r, rt_text *t, int n)
{
    const mg_program *p = r->program;
    int32_t *count = rt_alloc((size_t)n, sizeof *count);
    for (;;) {
        int64_t most = 0, chunk = 0;
        for (int k = 0; k < n; k++) {
            const int64_t m = t[k].done ? 0 : missing(r, &t[k], k);
            const int64_t now = taken(p, &p->prefill, m);
            most = m > most ? m : most;
            chunk = now > chunk ? now : chunk;
            count[k] = (int32_t)now;
        }
        if (!most)
            break;
        for (int k = 0; k < n && !chunk; k++)
            count[k] = (int32_t)taken(p, &p->decode, t[k].done ? 0 : missing(r, &t[k], k));
        go_on(r, chunk ? RT_PREFILL : RT_DECODE, t, n, count);
    }
    free(count);
}

void rt_texts_next(mg_run *r, rt_text *t, int n)
{
    if (r->program->prefill.present)
        with_caches(r, t, n);
    for (int k = 0; k < n && !r->program->prefill.present; k++)
        if (!t[k].done)
            whole_window(r, &t[k]);
}
