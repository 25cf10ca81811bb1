/* answers.c - generates the answers of a rollout, by the program's own prefill and decode.
 *
 * Text k of a rollout draws as text k of a program that generates alone (sample.c), where the
 * number of the rollout is a part of the counter: equal seeds, weights and prompts give equal
 * tokens in the first, and a run that is resumed draws what it would have drawn. */
#include "runtime/rollout/rollout.h"
#include "runtime/sample.h"

#include <stdlib.h>
#include <string.h>

typedef struct answering {
    mg_run *r;
    rt_choice choice;
    rt_text *stop;
    int stops;
    int64_t rollout;
} answering;

static bool ends(const answering *g, const rt_text *t, int64_t from)
{
    for (int k = 0; k < g->stops; k++) {
        const rt_text *s = &g->stop[k];
        if (s->n <= t->n - from &&
            !memcmp(t->token + t->n - s->n, s->token, (size_t)s->n * sizeof *s->token))
            return true;
    }
    return false;
}

/* One more token of each of n texts that is not done; the first is text number `first`. True: one
 * is not done yet. */
static bool grow(const answering *g, rt_text *t, const rt_answer *a, int n, int64_t first)
{
    const mg_program *p = g->r->program;
    bool more = false;
    rt_texts_next(g->r, t, n);
    for (int k = 0; k < n; k++) {
        if (t[k].done)
            continue;
        const int64_t i = t[k].n - a[k].prompt->n;
        const double u = rt_token_draw(g->r->state.seed, first + k, i, g->rollout);
        rt_text_push(&t[k], rt_choose(&g->choice, t[k].logit, p->vocab, &t[k], u));
        t[k].done = ends(g, &t[k], a[k].prompt->n) || i + 1 == p->rollout.tokens;
        more |= !t[k].done;
    }
    return more;
}

/* n answers at once; false: a signal stopped it. */
static bool some(const answering *g, rt_answer *a, int n, int64_t first)
{
    rt_text *t = rt_alloc((size_t)n, sizeof *t);
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < a[k].prompt->n; i++)
            rt_text_push(&t[k], a[k].prompt->token[i]);
    bool stopped = rt_signal_stop();
    while (!stopped && grow(g, t, a, n, first))
        stopped = rt_signal_stop();
    for (int k = 0; k < n; k++) {
        a[k].token = rt_grow(a[k].token, (size_t)t[k].n, sizeof *a[k].token);
        memcpy(a[k].token, t[k].token, (size_t)t[k].n * sizeof *a[k].token);
        a[k].n = t[k].n;
        a[k].ended = ends(g, &t[k], a[k].prompt->n);
        rt_text_free(&t[k]);
    }
    free(t);
    return !stopped;
}

bool rt_answers(mg_run *r, int64_t rollout, rt_answer *a, int64_t n)
{
    const mg_program *p = r->program;
    const int most = rt_texts_most(p);
    answering g = {.r = r, .choice = rt_choice_of(r->options), .rollout = rollout};
    bool good = true;
    g.choice.temperature = p->rollout.temperature;
    g.stops = r->options->stop.n;
    g.stop = rt_alloc((size_t)g.stops + 1, sizeof *g.stop);
    for (int k = 0; k < g.stops; k++)
        rt_read_tokens(&g.stop[k], p, r->options->stop.item[k], "--stop");
    for (int64_t at = 0; at < n && good; at += most) /* the compiler: `most` divides n */
        good = some(&g, a + at, most, at);
    for (int k = 0; k < g.stops; k++)
        rt_text_free(&g.stop[k]);
    free(g.stop);
    return good;
}

char *rt_tokens_text(const mg_program *p, const int32_t *token, int64_t n)
{
    enum { BYTES = 256 };
    if (p->vocab != BYTES)
        return NULL;
    char *bytes = rt_alloc((size_t)n + 1, 1);
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (char)(token[i] ? token[i] : BYTES - 1); /* a byte of 0 would end it */
    char *text = rt_whole_utf8(bytes);
    free(bytes);
    return text;
}
