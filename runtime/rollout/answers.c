/* answers.c - generates the answers of a rollout, by the program's own prefill and decode.
 *
 * Text k of a rollout draws as text k of a program that generates alone (sample.c), where the
 * number of the rollout is a part of the counter: equal seeds, weights and prompts give equal
 * tokens in the first, and a run that is resumed draws what it would have drawn. */
#include "runtime/rollout/rollout.h"
#include "runtime/sample.h"
#include "runtime/speech.h"

#include <stdlib.h>
#include <string.h>

typedef struct answering {
    mg_run *r;
    rt_choice choice;
    rt_speech *speech; /* NULL: tokens are bytes or ids */
    rt_text *stop;     /* without it */
    int stops;
    int64_t rollout;
} answering;

/* An answer that grows. */
typedef struct answered {
    rt_said said; /* with a tokenizer */
    bool ended;
} answered;

/* Whether a text ends with its last token; `from`: where the answer begins. */
static bool ends(const answering *g, const rt_text *t, int64_t from, rt_said *said)
{
    if (g->speech)
        return !rt_said_token(said, t->token[t->n - 1]);
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
static bool grow(const answering *g, rt_text *t, answered *to, const rt_answer *a, int n,
                 int64_t first)
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
        to[k].ended = ends(g, &t[k], a[k].prompt->n, &to[k].said);
        t[k].done = to[k].ended || i + 1 == p->rollout.tokens;
        more |= !t[k].done;
    }
    return more;
}

/* n answers at once; false: a signal stopped it. */
static bool some(const answering *g, rt_answer *a, int n, int64_t first)
{
    rt_text *t = rt_alloc((size_t)n, sizeof *t);
    answered *to = rt_alloc((size_t)n, sizeof *to);
    for (int k = 0; k < n; k++) {
        for (int64_t i = 0; i < a[k].prompt->n; i++)
            rt_text_push(&t[k], a[k].prompt->token[i]);
        if (g->speech)
            rt_said_begin(&to[k].said, g->r, &t[k]);
    }
    bool stopped = rt_signal_stop();
    while (!stopped && grow(g, t, to, a, n, first))
        stopped = rt_signal_stop();
    for (int k = 0; k < n; k++) {
        a[k].token = rt_grow(a[k].token, (size_t)t[k].n, sizeof *a[k].token);
        memcpy(a[k].token, t[k].token, (size_t)t[k].n * sizeof *a[k].token);
        a[k].n = t[k].n;
        a[k].ended = to[k].ended;
        rt_text_free(&t[k]);
        rt_said_free(&to[k].said);
    }
    free(to);
    free(t);
    return !stopped;
}

bool rt_answers(mg_run *r, int64_t rollout, rt_answer *a, int64_t n)
{
    const mg_program *p = r->program;
    const int most = rt_texts_most(p);
    answering g = {
        .r = r, .choice = rt_choice_of(r->options), .speech = rt_speech_of(r), .rollout = rollout};
    bool good = true;
    g.choice.temperature = p->rollout.temperature;
    g.stops = g.speech ? 0 : r->options->stop.n;
    g.stop = rt_alloc((size_t)g.stops + 1, sizeof *g.stop);
    for (int k = 0; k < g.stops; k++)
        rt_read_tokens(&g.stop[k], r, r->options->stop.item[k], "--stop");
    for (int64_t at = 0; at < n && good; at += most) /* the compiler: `most` divides n */
        good = some(&g, a + at, most, at);
    for (int k = 0; k < g.stops; k++)
        rt_text_free(&g.stop[k]);
    free(g.stop);
    return good;
}

/* The tokenizer's text of tokens [from, n), behind those before them. */
static char *spoken(mg_run *r, rt_speech *speech, const int32_t *token, int64_t from, int64_t n)
{
    const struct mg_speech *v = r->program->speech;
    rt_stream *stream = v->stream(speech);
    char *text = NULL;
    size_t size, length;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for an answer");
    for (int64_t i = 0; i < n; i++) {
        const char *more = v->put(stream, token[i], &length);
        if (i >= from)
            fwrite(more, 1, length, f);
    }
    const char *rest = v->end(stream, &length);
    fwrite(rest, 1, length, f);
    v->drop(stream);
    fclose(f);
    return text;
}

char *rt_tokens_text(mg_run *r, const int32_t *token, int64_t from, int64_t n)
{
    enum { BYTES = 256 };
    rt_speech *speech = rt_speech_of(r);
    if (speech)
        return spoken(r, speech, token, from, n);
    if (r->program->vocab != BYTES)
        return NULL;
    char *bytes = rt_alloc((size_t)(n - from) + 1, 1);
    for (int64_t i = from; i < n; i++)
        bytes[i - from] = (char)(token[i] ? token[i] : BYTES - 1); /* a byte of 0 would end it */
    char *text = rt_whole_utf8(bytes);
    free(bytes);
    return text;
}
