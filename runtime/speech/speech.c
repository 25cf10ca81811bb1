/* speech.c - finds the tokenizer of a model, reads it, and encodes and decodes by it. */
#include "runtime/speech/speech.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/files.h"

enum { LARGEST = 1 << 30 };

const char *rt_speech_file(void *ctx, const char *path, size_t *n)
{
    char *read = rt_file_need("", path, LARGEST, n), *text = arena_strndup(ctx, read, *n);
    free(read);
    return text;
}

/* The line and column of a place, from 1. */
static void locate(const TextError *e, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < e->begin && i < e->size; i++) {
        *column = e->source[i] == '\n' ? 1 : *column + 1;
        *line += e->source[i] == '\n';
    }
}

void rt_speech_wrong(const TextError *e)
{
    int line, column;
    const char *help = e->help ? e->help : "";
    locate(e, &line, &column);
    if (e->source)
        rt_die(RT_BAD_DATA, "%s:%d:%d: %s", e->path, line, column, e->text);
    rt_die(RT_BAD_DATA, "%s%s%s", e->text, *help ? "; " : "", help);
}

/* ---- finding -------------------------------------------------------------------------------- */

/* tokenizer.json in a folder, or in that of a file, or else tokenizer.model; NULL: neither. */
static const char *in_folder(Arena *a, const char *where)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    struct stat st;
    if (!where || stat(where, &st))
        return NULL;
    for (int i = 0; i < 2; i++) {
        const char *path = S_ISDIR(st.st_mode) ? arena_printf(a, "%s/%s", where, names[i])
                                               : chat_beside(a, where, names[i]);
        if (access(path, F_OK) == 0)
            return path;
    }
    return NULL;
}

static const char *find(Arena *a, const mg_run *r)
{
    struct stat st;
    const char *given = r->options->tokenizer, *path;
    if (given && stat(given, &st))
        rt_die(RT_BAD_DATA, "--tokenizer %s: %s", given, strerror(errno));
    if (given && !S_ISDIR(st.st_mode))
        return given;
    if (given && !(path = in_folder(a, given)))
        rt_die(RT_BAD_DATA,
               "--tokenizer %s: the folder has no tokenizer.json and no tokenizer.model", given);
    if (given)
        return path;
    path = in_folder(a, r->options->init);
    return path ? path : in_folder(a, r->base);
}

static void read_tokenizer(rt_speech *s)
{
    const int64_t vocab = s->r->program->vocab;
    size_t n;
    TextError e;
    const char *json = rt_speech_file(s->a, s->path, &n);
    s->t = tok_parse(s->a, s->path, json, n, &e);
    if (!s->t)
        rt_speech_wrong(&e);
    if (s->t->undecoded)
        rt_die(RT_BAD_DATA, "%s: %s: --ids goes without it", s->path, s->t->undecoded);
    if (s->t->size > vocab)
        rt_die(RT_BAD_DATA,
               "%s has ids up to %lld, and %s a vocabulary of %lld: it is another model's; "
               "--tokenizer DIR names the right one, --ids goes without",
               s->path, (long long)s->t->size - 1, s->r->program->name, (long long)vocab);
}

static rt_speech *open_speech(const mg_run *r)
{
    Arena *a = arena_new();
    const char *path = find(a, r);
    if (!path) {
        arena_free(a);
        return NULL;
    }
    rt_speech *s = NEW(a, rt_speech);
    s->r = r;
    s->a = a;
    s->path = path;
    read_tokenizer(s);
    s->w = tok_worker_new(s->t);
    rt_speech_ends(s);
    return s;
}

static void close_speech(rt_speech *s)
{
    tok_worker_free(s->w);
    tok_free(s->t);
    arena_free(s->a);
}

/* ---- text and ids --------------------------------------------------------------------------- */

int32_t *rt_speech_encode(rt_speech *s, const char *text, size_t size, bool begins, int64_t *n)
{
    s->w->n = 0;
    if (begins)
        tok_push_all(s->w, s->t->before.data, s->t->before.n);
    tok_encode(s->w, text, size);
    int32_t *id = rt_alloc(s->w->n, sizeof *id);
    if (s->w->n)
        memcpy(id, s->w->id, s->w->n * sizeof *id);
    *n = (int64_t)s->w->n;
    return id;
}

static int32_t *encode(rt_speech *s, const char *text, bool begins, int64_t *n)
{
    return rt_speech_encode(s, text, strlen(text), begins, n);
}

static bool ends(const rt_speech *s, int32_t id)
{
    for (size_t i = 0; i < s->end.n; i++)
        if (s->end.data[i] == id)
            return true;
    return false;
}

static rt_stream *stream(const rt_speech *s)
{
    return (rt_stream *)tok_stream_new(s->t);
}

static const char *put(rt_stream *t, int32_t id, size_t *n)
{
    return tok_stream_put((TokStream *)t, id, n);
}

static const char *end(rt_stream *t, size_t *n)
{
    return tok_stream_end((TokStream *)t, n);
}

static void drop(rt_stream *t)
{
    tok_stream_free((TokStream *)t);
}

const struct mg_speech mg_speech = {.open = open_speech,
                                    .close = close_speech,
                                    .encode = encode,
                                    .ends = ends,
                                    .stream = stream,
                                    .put = put,
                                    .end = end,
                                    .drop = drop,
                                    .talks = rt_speech_talks,
                                    .talk = rt_talk_new,
                                    .say = rt_talk_say,
                                    .turn = rt_talk_turn,
                                    .forget = rt_talk_free,
                                    .question = rt_talk_question};
