/* said.c - the text of a model that has a tokenizer, as it comes: what may be shown, where it ends.
 * See sample.h. */
#include "runtime/sample.h"
#include "runtime/speech.h"

#include <stdlib.h>
#include <string.h>

rt_speech *rt_speech_of(mg_run *r)
{
    const rt_options *o = r->options;
    const struct mg_speech *v = r->program->speech;
    if (r->spoke)
        return r->speech;
    r->spoke = true;
    if (v && !o->ids)
        r->speech = v->open(r);
    const char *asks = o->tokenizer       ? "tokenizer"
                       : o->chat_template ? "chat-template"
                       : o->system        ? "system"
                       : o->batch         ? "batch"
                                          : NULL;
    if (!r->speech && asks)
        rt_die(RT_USAGE, "--%s is of text, and there is no tokenizer%s", asks,
               o->ids ? ": leave out --ids"
                      : " beside the weights: --tokenizer DIR names the folder of one");
    return r->speech;
}

void rt_speech_close(mg_run *r)
{
    if (r->speech)
        r->program->speech->close(r->speech);
    r->speech = NULL;
}

/* ---- one text ------------------------------------------------------------------------------- */

void rt_said_begin(rt_said *t, mg_run *r, const rt_text *behind)
{
    const struct mg_speech *v = r->program->speech;
    size_t n;
    if (t->stream)
        v->drop(t->stream);
    free(t->text);
    *t = (rt_said){.r = r, .stream = v->stream(r->speech)};
    for (int64_t i = 0; behind && i < behind->n; i++)
        v->put(t->stream, behind->token[i], &n);
}

void rt_said_free(rt_said *t)
{
    if (t->stream)
        t->r->program->speech->drop(t->stream);
    free(t->text);
    *t = (rt_said){0};
}

/* The texts that end one. An answer without a template is a line, where none is given. */
static int stops_of(const rt_said *t)
{
    const rt_options *o = t->r->options;
    const bool line = o->chat && !t->r->program->speech->talks(t->r->speech);
    return o->stop.n || !line ? o->stop.n : 1;
}

static const char *stop_of(const rt_said *t, int k)
{
    return t->r->options->stop.n ? t->r->options->stop.item[k] : "\n";
}

static size_t longest_stop(const rt_said *t)
{
    size_t most = 0;
    for (int k = 0; k < stops_of(t); k++)
        most = strlen(stop_of(t, k)) > most ? strlen(stop_of(t, k)) : most;
    return most;
}

/* The text up to the first stop in it, from `from` on. */
static void cut(rt_said *t, size_t from)
{
    for (int k = 0; k < stops_of(t); k++) {
        const char *stop = stop_of(t, k);
        const char *at = memmem(t->text + from, t->n - from, stop, strlen(stop));
        if (at) {
            t->n = (size_t)(at - t->text);
            t->why = RT_SAID_STOP;
        }
        if (t->n <= from)
            return;
    }
}

/* How many bytes at the end may yet be a stop. */
static size_t held(const rt_said *t)
{
    size_t most = 0;
    for (int k = 0; k < stops_of(t); k++) {
        const size_t length = strlen(stop_of(t, k));
        for (size_t n = length < t->n ? length : t->n; n > most; n--)
            if (!memcmp(t->text + t->n - n, stop_of(t, k), n))
                most = n;
    }
    return most;
}

static void append(rt_said *t, const char *text, size_t n)
{
    const size_t before = t->n, back = longest_stop(t);
    if (t->n + n + 1 > t->cap) {
        t->cap = 2 * (t->n + n) + 64;
        t->text = rt_grow(t->text, t->cap, 1);
    }
    memcpy(t->text + t->n, text, n);
    t->text[t->n += n] = 0;
    cut(t, before > back ? before - back : 0);
    t->sure = t->why ? t->n : t->n - held(t);
}

bool rt_said_token(rt_said *t, int32_t token)
{
    const struct mg_speech *v = t->r->program->speech;
    size_t n;
    if (v->ends(t->r->speech, token)) {
        rt_said_end(t);
        t->why = t->why ? t->why : RT_SAID_END;
        return false;
    }
    const char *text = v->put(t->stream, token, &n);
    append(t, text, n);
    return !t->why;
}

void rt_said_end(rt_said *t)
{
    size_t n;
    const char *text = t->r->program->speech->end(t->stream, &n);
    if (!t->why)
        append(t, text, n);
    t->sure = t->n;
}

void rt_said_show(rt_said *t, rt_screen *screen)
{
    for (; t->shown < t->sure; t->shown++)
        rt_screen_byte(screen, (unsigned char)t->text[t->shown]);
}
