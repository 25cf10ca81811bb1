/* sample.c - generates tokens: of prompts (--sample), or as answers to lines (--chat).
 *
 * Token i of text k is drawn with Philox keyed by (seed + k, "sample") at counter i. So text k of a
 * run is the first of a run with the seed seed + k. */
#include "runtime/sample.h"
#include "runtime/speech.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint/safetensors.h"

enum { BYTES = 256, ANSWER = 256 };

/* A text as it is shown: tokens that may yet be part of what ends it are held back. */
typedef rt_output output;

typedef struct rt_sampler {
    mg_run *r;
    rt_speech *speech; /* NULL: tokens are bytes or ids */
    rt_choice choice;
    rt_text *stop; /* sequences of tokens that end a text, without a tokenizer */
    int stops;
    float *logits; /* of --logits: [rows, vocab] */
    int64_t rows;
    bool quiet; /* nothing is shown */
} sampler;

/* ---- text to tokens ---------------------------------------------------------------------------
 */

/* By a tokenizer, if there is one. With a vocabulary of 256, bytes are tokens; otherwise the text
 * is a list of token ids. */
void rt_read_tokens(rt_text *t, mg_run *r, const char *text, const char *option)
{
    const mg_program *p = r->program;
    if (r->speech) {
        int64_t n;
        int32_t *id = p->speech->encode(r->speech, text, !t->n, &n);
        for (int64_t i = 0; i < n; i++)
            rt_text_push(t, id[i]);
        free(id);
        return;
    }
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
            rt_die(RT_USAGE, "%s: '%.20s': without a tokenizer a text is token ids (0 to %lld)%s",
                   option, s, (long long)p->vocab - 1,
                   r->options->ids ? "" : "; --tokenizer DIR names the folder of one");
        rt_text_push(t, (int32_t)id);
        s = end;
    }
}

static void read_prompt(output *o, mg_run *r, const char *prompt)
{
    if ((prompt && *prompt) || r->speech)
        rt_read_tokens(&o->text, r, prompt ? prompt : "", "--prompt");
    if (!o->text.n)
        rt_text_push(&o->text, r->program->vocab == BYTES && !r->speech ? '\n' : 0);
    if (r->speech)
        rt_said_begin(&o->said, r, &o->text);
    o->prompt = o->shown = o->text.n;
}

rt_choice rt_choice_of(const rt_options *o)
{
    return (rt_choice){.temperature = isnan(o->temperature) ? 1 : o->temperature,
                       .top_k = o->top_k == RT_UNSET ? 0 : o->top_k,
                       .top_p = isnan(o->top_p) ? 1 : o->top_p,
                       .min_p = isnan(o->min_p) ? 0 : o->min_p,
                       .penalty = isnan(o->penalty) ? 1 : o->penalty};
}

static sampler open_sampler(mg_run *r)
{
    const rt_options *o = r->options;
    sampler s = {.r = r, .speech = rt_speech_of(r), .choice = rt_choice_of_model(r)};
    s.stops = s.speech ? 0 : o->stop.n;
    s.stop = rt_alloc((size_t)s.stops + 1, sizeof *s.stop);
    for (int k = 0; k < s.stops; k++)
        rt_read_tokens(&s.stop[k], r, o->stop.item[k], "--stop");
    if (o->chat && !s.stops && !s.speech) /* an answer is a line */
        rt_read_tokens(&s.stop[s.stops++], r, r->program->vocab == BYTES ? "\n" : "0", "--stop");
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
    if (o->said.stream)
        rt_said_show(&o->said, &o->screen);
    else
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

/* Whether a text ends with its last token, and how many at its end are not to be shown yet. */
static int64_t hear(const sampler *s, output *o)
{
    bool whole = false;
    int64_t held = 0;
    if (s->speech)
        whole = !rt_said_token(&o->said, o->text.token[o->text.n - 1]);
    else
        held = begins_stop(s, &o->text, o->prompt, &whole);
    o->text.done = whole;
    return held;
}

/* The first text is shown as it grows, if it is alone. */
void rt_sampler_grow(sampler *s, output *o, int n)
{
    const mg_program *p = s->r->program;
    rt_text *t = rt_alloc((size_t)n, sizeof *t);
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
                               rt_token_draw(s->r->state.seed, o[k].number, o[k].drawn, 0)));
        o[k].drawn++;
        const int64_t held = hear(s, &o[k]);
        if (n == 1 && !s->quiet)
            show(&o[k], p, o[k].text.n - held);
    }
    free(t);
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
    for (int64_t i = 0; i < tokens && !all_done(o, n) && !rt_signal_stop(); i++)
        rt_sampler_grow(s, o, n);
    for (int k = 0; k < n; k++) {
        bool whole = false;
        const int64_t held = begins_stop(s, &o[k].text, o[k].prompt, &whole);
        if (s->speech)
            rt_said_end(&o[k].said);
        if (n > 1)
            printf("== %d\n", k + 1);
        show(&o[k], s->r->program, o[k].text.n - (whole ? held : 0));
        end_shown(&o[k]);
    }
}

int64_t rt_answer_most(mg_run *r)
{
    rt_speech *speech = rt_speech_of(r);
    return r->options->sample != RT_UNSET                ? r->options->sample
           : speech && r->program->speech->talks(speech) ? r->program->seq
                                                         : ANSWER;
}

/* The line is a turn of a conversation: what the template writes of all of it is the text, of which
 * the caches have the beginning already. */
static void next_turn(sampler *s, rt_talk *talk, output *o, char *line)
{
    const struct mg_speech *v = s->r->program->speech;
    int64_t n;
    v->say(talk, "user", line, strcspn(line, "\n"));
    int32_t *id = v->turn(talk, &n);
    rt_text_become(&o->text, s->r->program, id, n);
    free(id);
    rt_said_begin(&o->said, s->r, NULL);
}

/* The text goes on with the line. */
static void next_line(sampler *s, output *o, const char *line)
{
    rt_read_tokens(&o->text, s->r, line, "--chat");
    o->text.done = false;
    if (s->speech)
        rt_said_begin(&o->said, s->r, &o->text);
}

/* One line after the other: the text goes on with it, then with the answer. */
static void chat(sampler *s)
{
    const struct mg_speech *v = s->r->program->speech;
    rt_talk *talk =
        s->speech && v->talks(s->speech) ? v->talk(s->speech, s->r->options->system) : NULL;
    const int64_t most = rt_answer_most(s->r);
    const bool asks = isatty(STDIN_FILENO);
    output o = {0};
    char *line = NULL;
    size_t room = 0;
    int64_t turns = 0, all = 0; /* tokens of all turns, each with those before it */
    for (;;) {
        if (asks)
            fputs("> ", stdout), fflush(stdout);
        if (rt_signal_stop() || getline(&line, &room, stdin) < 0)
            break;
        if (talk && strcspn(line, "\n"))
            next_turn(s, talk, &o, line);
        else if (!talk)
            next_line(s, &o, line);
        if (!o.text.n || (talk && !strcspn(line, "\n")))
            continue;
        o.prompt = o.shown = o.text.n;
        generate(s, &o, 1, most);
        if (!talk)
            continue;
        v->say(talk, "assistant", o.said.text, o.said.n);
        turns++;
        all += o.text.n - 1; /* what follows the last one is not asked for */
    }
    if (turns > 1)
        rt_note("%" PRId64 " turns: %" PRId64 " tokens computed, of %" PRId64, turns,
                o.text.computed, all);
    free(line);
    rt_text_free(&o.text);
    rt_said_free(&o.said);
    if (talk)
        v->forget(talk);
}

rt_sampler *rt_sampler_new(mg_run *r)
{
    sampler *s = rt_alloc(1, sizeof *s);
    *s = open_sampler(r);
    s->quiet = true;
    return s;
}

void rt_sampler_free(sampler *s)
{
    close_sampler(s);
    free(s);
}

void rt_sample(mg_run *r)
{
    const rt_options *options = r->options;
    if (options->batch) {
        rt_batch_answer(r);
        return;
    }
    sampler s = open_sampler(r);
    const int each = rt_texts_each(r->program),
              n = each * (options->prompt.n ? options->prompt.n : 1);
    output *o = rt_alloc((size_t)n, sizeof *o);
    if (options->chat) {
        chat(&s);
    } else {
        for (int k = 0; k < n; k++) {
            o[k].number = k;
            read_prompt(&o[k], r, options->prompt.n ? options->prompt.item[k / each] : NULL);
        }
        generate(&s, o, n, options->sample);
    }
    if (options->logits && s.rows)
        write_logits(&s, options->logits);
    for (int k = 0; k < n; k++) {
        rt_text_free(&o[k].text);
        rt_said_free(&o[k].said);
    }
    free(o);
    close_sampler(&s);
}

void rt_prompt_check(mg_run *r, const char *prompt)
{
    rt_text t = {0};
    rt_speech_of(r);
    rt_read_tokens(&t, r, prompt, "--prompts");
    rt_text_free(&t);
}

char *rt_sample_text(mg_run *r, const char *prompt, int number, int64_t tokens)
{
    sampler s = open_sampler(r);
    output o = {.number = number};
    char *text;
    size_t size;
    bool whole = false;
    s.quiet = true;
    read_prompt(&o, r, prompt);
    for (int64_t i = 0; i < tokens && !o.text.done && !rt_signal_stop(); i++)
        rt_sampler_grow(&s, &o, 1);
    const int64_t held = begins_stop(&s, &o.text, o.prompt, &whole);
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for a sample");
    if (s.speech)
        rt_said_end(&o.said);
    for (size_t i = 0; i < o.said.n; i++)
        fputs(o.said.text[i] ? (char[2]){o.said.text[i]} : "\xef\xbf\xbd", f);
    for (int64_t i = o.prompt; i < o.text.n - (whole ? held : 0) && !s.speech; i++)
        if (r->program->vocab != BYTES)
            fprintf(f, "%s%d", i > o.prompt ? " " : "", o.text.token[i]);
        else if (o.text.token[i])
            putc(o.text.token[i], f);
        else
            fputs("\xef\xbf\xbd", f); /* a byte of 0 would end the text */
    fclose(f);
    rt_said_free(&o.said);
    rt_text_free(&o.text);
    close_sampler(&s);
    return text;
}
