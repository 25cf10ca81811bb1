/* batch.c - --batch: each line of a file is answered, as many at a time as the program has room
 * for.
 *
 * Record i, from 0, draws as text i of a run does, and what is computed of a text does not depend
 * on those beside it: its answer is the same whichever stand there. A place that is free takes the
 * next record. Answers are written in the order of the records.
 *
 * A program of groups of G texts answers each record G times: answer j of record i draws as text
 * i * G + j, and a record waits for all places of a group. */
#include "runtime/sample.h"
#include "runtime/speech.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files.h"

typedef struct answers {
    mg_run *r;
    FILE *in, *out;
    char *line; /* of getline */
    size_t room;
    int64_t number, next; /* lines that were read; answers that were given a place */
    int each;             /* answers to a record */
    int64_t most;         /* tokens of an answer */
    char **ready;         /* of answers from `written` on: their lines, or NULL */
    int64_t written, cap;
} answers;

/* ---- records -------------------------------------------------------------------------------- */

static void begin_text(answers *a, rt_output *o, const int32_t *id, int64_t n)
{
    o->text.from = o->text.known = 0; /* what stood there before changes no bit of it */
    rt_text_become(&o->text, a->r->program, id, n);
    o->prompt = n;
    o->number = a->next++;
    o->drawn = 0;
    rt_said_begin(&o->said, a->r, NULL);
}

/* Puts the next record into the places of a group; false: there is none. */
static bool begin(answers *a, rt_output *o)
{
    const struct mg_speech *v = a->r->program->speech;
    const char *path = a->r->options->batch;
    ssize_t size;
    do {
        errno = 0;
        size = getline(&a->line, &a->room, a->in);
        a->number++;
    } while (size > 0 && a->line[strspn(a->line, " \t\r\n")] == 0 &&
             (size_t)size == strlen(a->line));
    if (size < 0 && errno)
        rt_die(RT_IO, "--batch %s: %s", path, strerror(errno));
    if (size < 0)
        return false;
    char *why = NULL;
    int64_t n;
    int32_t *id = v->question(a->r->speech, a->line, (size_t)size, &n, &why);
    if (!id)
        rt_die(RT_BAD_DATA, "--batch %s:%lld: %s", path, (long long)a->number, why);
    for (int k = 0; k < a->each; k++)
        begin_text(a, &o[k], id, n);
    free(id);
    return true;
}

/* ---- answers -------------------------------------------------------------------------------- */

static char *answer_line(const answers *a, const rt_output *o)
{
    static const char *const why[] = {
        [RT_SAID_MORE] = "length", [RT_SAID_END] = "end", [RT_SAID_STOP] = "stop"};
    char *text = rt_alloc(3 * o->said.n + 1, 1), *to = text;
    for (size_t i = 0; i < o->said.n; i++)
        to = o->said.text[i] ? (*to = o->said.text[i], to + 1) : stpcpy(to, "\xef\xbf\xbd");
    char *escaped = rt_json_escape(text);
    char *choice =
        a->each > 1 ? rt_printf(", \"choice\": %lld", (long long)(o->number % a->each)) : NULL;
    char *line = rt_printf("{\"record\": %lld%s, \"answer\": \"%s\", \"tokens\": %lld, \"ended\": "
                           "\"%s\"}\n",
                           (long long)(o->number / a->each), choice ? choice : "", escaped,
                           (long long)o->drawn, why[o->said.why]);
    free(choice);
    free(escaped);
    free(text);
    return line;
}

static void finish(answers *a, rt_output *o)
{
    rt_said_end(&o->said);
    if (o->number - a->written >= a->cap) {
        const int64_t cap = 2 * (o->number - a->written) + 16;
        a->ready = rt_grow(a->ready, (size_t)cap, sizeof *a->ready);
        memset(a->ready + a->cap, 0, (size_t)(cap - a->cap) * sizeof *a->ready);
        a->cap = cap;
    }
    a->ready[o->number - a->written] = answer_line(a, o);
    while (a->ready[0]) {
        if (fputs(a->ready[0], a->out) < 0)
            rt_die(RT_IO, "--answers %s: %s", a->r->options->answers, strerror(errno));
        free(a->ready[0]);
        memmove(a->ready, a->ready + 1, (size_t)(a->cap - 1) * sizeof *a->ready);
        a->ready[a->cap - 1] = NULL;
        a->written++;
    }
    if (fflush(a->out))
        rt_die(RT_IO, "--answers %s: %s", a->r->options->answers, strerror(errno));
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool any(const bool *x, int n)
{
    bool is = false;
    for (int k = 0; k < n; k++)
        is |= x[k];
    return is;
}

static void run(answers *a, rt_output *o, int n)
{
    rt_sampler *s = rt_sampler_new(a->r);
    bool *busy = rt_alloc((size_t)n, sizeof *busy);
    bool more = true;
    int going;
    do {
        going = 0;
        for (int k = 0; k < n; k += a->each) {
            const bool begun = more && !any(busy + k, a->each) && (more = begin(a, &o[k]));
            for (int i = k; i < k + a->each; i++) {
                busy[i] = busy[i] || begun;
                o[i].text.done = !busy[i];
                going += busy[i];
            }
        }
        if (going)
            rt_sampler_grow(s, o, n);
        for (int k = 0; k < n; k++)
            if (busy[k] && (o[k].text.done || o[k].drawn == a->most)) {
                finish(a, &o[k]);
                busy[k] = false;
            }
    } while (going && !rt_signal_stop());
    free(busy);
    rt_sampler_free(s);
}

void rt_batch_answer(mg_run *r)
{
    const rt_options *options = r->options;
    const int n = rt_texts_most(r->program);
    const int64_t began = rt_now_ns();
    answers a = {.r = r, .most = rt_answer_most(r), .each = rt_texts_each(r->program)};
    const int fd = rt_file_open(AT_FDCWD, options->batch, O_RDONLY);
    if (fd < 0 || !(a.in = fdopen(fd, "rb")))
        rt_die(RT_BAD_DATA, "--batch %s: %s", options->batch, rt_file_error());
    if (!(a.out = fopen(options->answers, "we")))
        rt_die(RT_IO, "--answers %s: %s", options->answers, strerror(errno));
    rt_output *o = rt_alloc((size_t)n, sizeof *o);
    run(&a, o, n);
    if (fclose(a.out))
        rt_die(RT_IO, "--answers %s: %s", options->answers, strerror(errno));
    fclose(a.in);
    rt_note("%lld of %lld records answered in %s", (long long)(a.written / a.each),
            (long long)(a.next / a.each),
            rt_duration_text((double)(rt_now_ns() - began) / 1e9).text);
    for (int k = 0; k < n; k++) {
        rt_text_free(&o[k].text);
        rt_said_free(&o[k].said);
    }
    for (int64_t k = 0; k < a.cap; k++)
        free(a.ready[k]);
    free(a.ready);
    free(a.line);
    free(o);
}
