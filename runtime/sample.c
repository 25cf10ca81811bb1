/* sample.c - generates tokens: of prompts (--sample), or as answers to lines (--chat).
 *
 * Token i of text k is drawn with Philox keyed by (seed + k, "sample") at counter i. So text k of a
 * run is the first of a run with the seed seed + k. */
#include "runtime/sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint/safetensors.h"

enum { BYTES = 256, ANSWER = 256 };

/* A text as it is shown: tokens that may yet be part of what ends it are held back. */
typedef struct output {
    rt_text text;
    int64_t prompt, shown; /* tokens of the prompt; those that were shown, with it */
    int64_t drawn;         /* so many tokens were chosen so far */
    rt_screen screen;
    bool begun;
} output;

typedef struct sampler {
    mg_run *r;
    rt_choice choice;
    rt_text *stop; /* sequences of tokens that end a text */
    int stops;
    float *logits; /* of --logits: [rows, vocab] */
    int64_t rows;
    int number; /* of the first text */
    bool quiet; /* nothing is shown */
} sampler;

/* ---- text to tokens ---------------------------------------------------------------------------
 */

/* With a vocabulary of 256, bytes are tokens; otherwise the text is a list of token ids. */
void rt_read_tokens(rt_text *t, const mg_program *p, const char *text, const char *option)
{
    if (p->vocab == BYTES) {
        for (const char *s = text; *s; s++)
            rt_text_push(t, (unsigned char)*s);
        return;
    }
    for (const char *s = text; *(s += strspn(s, " ,\t\n"));) {
        char *end;
        errno = 0;
        long long id = strtoll(s, &end, 10);
        if (end == s || errno || id < 0 || id >= p->vocab)
            rt_die(RT_USAGE,
                   "%s: '%.20s': with a vocabulary of %lld a text is token ids (0 to %lld)", option,
                   s, (long long)p->vocab, (long long)p->vocab - 1);
        rt_text_push(t, (int32_t)id);
        s = end;
    }
}

static void read_prompt(output *o, const mg_program *p, const char *prompt)
{
    if (prompt && *prompt)
        rt_read_tokens(&o->text, p, prompt, "--prompt");
    if (!o->text.n)
        rt_text_push(&o->text, p->vocab == BYTES ? '\n' : 0);
    o->prompt = o->shown = o->text.n;
}

rt_choice rt_choice_of(const rt_options *o)
{
    return (rt_choice){.temperature = o->temperature,
                       .top_k = o->top_k == RT_UNSET ? 0 : o->top_k,
                       .top_p = isnan(o->top_p) ? 1 : o->top_p,
                       .min_p = isnan(o->min_p) ? 0 : o->min_p,
                       .penalty = isnan(o->penalty) ? 1 : o->penalty};
}

static sampler open_sampler(mg_run *r)
{
    const rt_options *o = r->options;
    sampler s = {.r = r, .choice = rt_choice_of(o)};
    s.stops = o->stop.n;
    s.stop = rt_alloc((size_t)s.stops + 1, sizeof *s.stop);
    for (int k = 0; k < s.stops; k++)
        rt_read_tokens(&s.stop[k], r->program, o->stop.item[k], "--stop");
    if (o->chat && !s.stops) /* an answer is a line */
        rt_read_tokens(&s.stop[s.stops++], r->program, r->program->vocab == BYTES ? "\n" : "0",
                       "--stop");
    return s;
}

static void close_sampler(sampler *s)
{
    for (int k = 0; k < s->stops; k++)
        rt_text_free(&s->stop[k]);
    free(s->stop);
    free(s->logits);
}

/* ---- tokens to text ---------------------------------------------------------------------------
 */

/* Of the tokens from `from` on, how many at the end are the beginning of a stop. *whole: one is
 * there. */
static int64_t begins_stop(const sampler *s, const rt_text *t, int64_t from, bool *whole)
{
    int64_t most = 0;
    for (int k = 0; k < s->stops; k++) {
        const rt_text *stop = &s->stop[k];
        for (int64_t n = stop->n < t->n - from ? stop->n : t->n - from; n > most; n--)
            if (!memcmp(t->token + t->n - n, stop->token, (size_t)n * sizeof *t->token)) {
                most = n;
                *whole |= n == stop->n;
            }
    }
    return most;
}

static void show(output *o, const mg_program *p, int64_t end)
{
    for (; o->shown < end; o->shown++) {
        if (p->vocab == BYTES)
            rt_screen_byte(&o->screen, (unsigned char)o->text.token[o->shown]);
        else
            printf("%s%d", o->begun ? " " : "", o->text.token[o->shown]);
        o->begun = true;
    }
    fflush(stdout);
}

static void end_shown(output *o)
{
    rt_screen_flush(&o->screen);
    putchar('\n');
    fflush(stdout);
    o->begun = false;
}

static void keep_logits(sampler *s, const rt_text *t)
{
    const int64_t n = s->r->program->vocab;
    s->logits = rt_grow(s->logits, (size_t)((s->rows + 1) * n), sizeof *s->logits);
    for (int64_t i = 0; i < n; i++)
        s->logits[s->rows * n + i] = (float)t->logit[i];
    s->rows++;
}

static void write_logits(const sampler *s, const char *path)
{
    const int64_t vocab = s->r->program->vocab;
    size_t size, data = (size_t)(s->rows * vocab) * sizeof *s->logits;
    rt_st_tensor t = {.name = "logits", .dtype = "F32", .rank = 2, .shape = {s->rows, vocab}};
    char *header = rt_st_header(&t, 1, &size);
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(header, 1, size, f) == size;
    good = good && fwrite(s->logits, 1, data, f) == data;
    if ((f && fclose(f)) || !good)
        rt_die(RT_IO, "--logits %s: %s", path, strerror(errno));
    free(header);
}

/* ---- generating -------------------------------------------------------------------------------
 */

double rt_token_draw(int64_t seed, int64_t text, int64_t i, int64_t rollout)
{
    const uint64_t key = mg_key("sample") ^ ((uint64_t)seed + (uint64_t)text), at = (uint64_t)i,
                   turn = (uint64_t)rollout;
    const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t w[4];
    mg_philox(
        (uint32_t[4]){(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)turn, (uint32_t)(turn >> 32)},
        words, w);
    return ((double)w[0] + (double)w[1] * 0x1p-32) * 0x1p-32;
}

/* Adds a token to each of n texts that is not done. The first is shown as it grows, if it is alone.
 */
static void grow(sampler *s, output *o, rt_text *t, int n)
{
    const mg_program *p = s->r->program;
    for (int k = 0; k < n; k++)
        t[k] = o[k].text;
    rt_texts_next(s->r, t, n);
    for (int k = 0; k < n; k++) {
        o[k].text = t[k];
        if (t[k].done)
            continue;
        if (s->r->options->logits)
            keep_logits(s, &t[k]);
        rt_text_push(&o[k].text,
                     rt_choose(&s->choice, t[k].logit, p->vocab, &t[k],
                               rt_token_draw(s->r->state.seed, s->number + k, o[k].drawn, 0)));
        o[k].drawn++;
        bool whole = false;
        const int64_t held = begins_stop(s, &o[k].text, o[k].prompt, &whole);
        o[k].text.done = whole;
        if (n == 1 && !s->quiet)
            show(&o[k], p, o[k].text.n - held);
    }
}

static bool all_done(const output *o, int n)
{
    for (int k = 0; k < n; k++)
        if (!o[k].text.done)
            return false;
    return true;
}

/* At most `tokens` more of each text, then what was held back. */
static void generate(sampler *s, output *o, int n, int64_t tokens)
{
    rt_text *t = rt_alloc((size_t)n, sizeof *t);
    for (int64_t i = 0; i < tokens && !all_done(o, n) && !rt_signal_stop(); i++)
        grow(s, o, t, n);
    for (int k = 0; k < n; k++) {
        bool whole = false;
        const int64_t held = begins_stop(s, &o[k].text, o[k].prompt, &whole);
        if (n > 1)
            printf("== %d\n", k + 1);
        show(&o[k], s->r->program, o[k].text.n - (whole ? held : 0));
        end_shown(&o[k]);
    }
    free(t);
}

/* One line after the other: the text goes on with it, then with the answer. */
static void chat(sampler *s)
{
    const mg_program *p = s->r->program;
    const int64_t most = s->r->options->sample == RT_UNSET ? ANSWER : s->r->options->sample;
    const bool asks = isatty(STDIN_FILENO);
    output o = {0};
    char *line = NULL;
    size_t room = 0;
    for (;;) {
        if (asks)
            fputs("> ", stdout), fflush(stdout);
        if (rt_signal_stop() || getline(&line, &room, stdin) < 0)
            break;
        rt_read_tokens(&o.text, p, line, "--chat");
        if (!o.text.n)
            continue;
        o.prompt = o.shown = o.text.n;
        o.text.done = false;
        generate(s, &o, 1, most);
    }
    free(line);
    rt_text_free(&o.text);
}

void rt_sample(mg_run *r)
{
    const rt_options *options = r->options;
    sampler s = open_sampler(r);
    const int n = options->prompt.n ? options->prompt.n : 1;
    output *o = rt_alloc((size_t)n, sizeof *o);
    if (options->chat) {
        chat(&s);
    } else {
        for (int k = 0; k < n; k++)
            read_prompt(&o[k], r->program, options->prompt.n ? options->prompt.item[k] : NULL);
        generate(&s, o, n, options->sample);
    }
    if (options->logits && s.rows)
        write_logits(&s, options->logits);
    for (int k = 0; k < n; k++)
        rt_text_free(&o[k].text);
    free(o);
    close_sampler(&s);
}

void rt_prompt_check(const mg_program *p, const char *prompt)
{
    rt_text t = {0};
    rt_read_tokens(&t, p, prompt, "--prompts");
    rt_text_free(&t);
}

char *rt_sample_text(mg_run *r, const char *prompt, int number, int64_t tokens)
{
    sampler s = open_sampler(r);
    output o = {0};
    char *text;
    size_t size;
    bool whole = false;
    s.quiet = true;
    s.number = number;
    read_prompt(&o, r->program, prompt);
    for (int64_t i = 0; i < tokens && !o.text.done && !rt_signal_stop(); i++) {
        rt_text t = o.text;
        grow(&s, &o, &t, 1);
    }
    const int64_t held = begins_stop(&s, &o.text, o.prompt, &whole);
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for a sample");
    for (int64_t i = o.prompt; i < o.text.n - (whole ? held : 0); i++)
        if (r->program->vocab != BYTES)
            fprintf(f, "%s%d", i > o.prompt ? " " : "", o.text.token[i]);
        else if (o.text.token[i])
            putc(o.text.token[i], f);
        else
            fputs("\xef\xbf\xbd", f); /* a byte of 0 would end the text */
    fclose(f);
    rt_text_free(&o.text);
    close_sampler(&s);
    return text;
}
