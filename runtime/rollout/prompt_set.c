/* prompt_set.c - the prompts of a program with rollouts: files of JSON lines (NAME.jsonl), or token
 * files with an index as `mgc tok` writes them, in which each document is a prompt.
 *
 *   {"prompt": "2 + 2 = ", ...}    of a program that has a tokenizer, or whose tokens are bytes
 *   {"messages": [...], ...}       with a tokenizer that has a chat template, as in --batch
 *   {"tokens": [17, 4, 200], ...}
 *
 * Other keys of a line are for the command of --reward, which is given the line as it is. The order
 * is a function of seed and place, as that of all data is. */
#include "runtime/data/records.h"
#include "runtime/data/sources.h"
#include "runtime/rollout/rollout.h"
#include "runtime/speech.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/json.h"

enum { BYTES = 256 };
static const int64_t LARGEST = (int64_t)1 << 32;

typedef struct reader {
    rt_prompt_set *set;
    const mg_program *program;
    rt_speech *speech; /* or NULL */
    int64_t most;      /* tokens of a prompt */
    const char *path;
    int64_t line; /* or record, from 1 */
} reader;

static void add(const reader *f, int32_t *token, int64_t n, const char *record)
{
    rt_prompt_set *s = f->set;
    if (!n)
        rt_die(RT_BAD_DATA, "%s:%" PRId64 ": a prompt without tokens", f->path, f->line);
    if (n > f->most)
        rt_die(RT_BAD_DATA,
               "%s:%" PRId64 ": a prompt of %" PRId64 " tokens; rows of %" PRId64
               " have room for %" PRId64 " beside an answer of %" PRId64
               ": leave it out, or compile the program with a larger seq",
               f->path, f->line, n, f->program->seq + 1, f->most, f->program->rollout.tokens);
    if ((s->n & (s->n - 1)) == 0)
        s->prompt = rt_grow(s->prompt, s->n ? 2 * (size_t)s->n : 1, sizeof *s->prompt);
    s->prompt[s->n++] = (rt_prompt){.token = token, .n = n, .record = record};
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool read_ids(const reader *f, rt_json *j, int32_t **token, int64_t *n)
{
    int64_t id;
    if (!rt_json_enter(j, '['))
        return false;
    while (rt_json_item(j)) {
        if (!rt_json_int(j, &id))
            return false;
        if (id < 0 || id >= f->program->vocab)
            rt_die(RT_BAD_DATA,
                   "%s:%" PRId64 ": token %" PRId64 "; the program takes 0 to %" PRId64, f->path,
                   f->line, id, f->program->vocab - 1);
        if ((*n & (*n - 1)) == 0)
            *token = rt_grow(*token, *n ? 2 * (size_t)*n : 1, sizeof **token);
        (*token)[(*n)++] = (int32_t)id;
    }
    return !j->error;
}

static bool read_bytes(const reader *f, rt_json *j, int32_t **token, int64_t *n)
{
    if (!rt_json_string(j))
        return false;
    if (f->program->vocab != BYTES)
        rt_die(RT_BAD_DATA,
               "%s:%" PRId64 ": \"prompt\" is text, and this program's tokens are no bytes: give "
               "\"tokens\", or the folder of a tokenizer, --tokenizer DIR",
               f->path, f->line);
    *n = (int64_t)j->length;
    *token = rt_grow(*token, j->length + 1, sizeof **token);
    for (size_t i = 0; i < j->length; i++)
        (*token)[i] = (unsigned char)j->text[i];
    return true;
}

/* A prompt or messages, by the tokenizer. */
static int32_t *spoken(const reader *f, const char *line, size_t size, int64_t *n)
{
    char *why;
    int32_t *token = f->program->speech->question(f->speech, line, size, n, &why);
    if (!token)
        rt_die(RT_BAD_DATA, "%s:%" PRId64 ": %s", f->path, f->line, why);
    return token;
}

static void read_line(const reader *f, const char *line, size_t size)
{
    int32_t *token = NULL;
    int64_t n = 0;
    int given = 0;
    bool spoke = false;
    rt_json j;
    rt_json_begin(&j, line, size);
    bool good = rt_json_enter(&j, '{');
    while (good && rt_json_key(&j)) {
        const bool ids = !strcmp(j.text, "tokens"), talk = f->speech && !strcmp(j.text, "messages"),
                   text = talk || !strcmp(j.text, "prompt");
        if (text || ids)
            n = 0, given++;
        spoke |= text && f->speech;
        good = ids                  ? read_ids(f, &j, &token, &n)
               : text && !f->speech ? read_bytes(f, &j, &token, &n)
                                    : rt_json_skip(&j);
    }
    if (!good || j.error || !rt_json_end(&j))
        rt_die(RT_BAD_DATA, "%s:%" PRId64 ":%td: %s", f->path, f->line,
               (const char *)j.at - line + 1, j.error ? j.error : "this is no object");
    if (given != 1)
        rt_die(RT_BAD_DATA,
               "%s:%" PRId64
               ": a line has one of \"prompt\", a text, %sand \"tokens\", a list of ids; "
               "this one has %s",
               f->path, f->line, f->speech ? "\"messages\" " : "", given ? "several" : "none");
    rt_json_free(&j);
    if (spoke)
        token = spoken(f, line, size, &n);
    add(f, token, n, line);
}

static void read_json(reader *f)
{
    rt_prompt_set *s = f->set;
    s->text = rt_grow(s->text, (size_t)s->files + 1, sizeof *s->text);
    char *text = s->text[s->files++] = rt_file_need("", f->path, LARGEST, NULL);
    for (f->line = 1; *text; f->line++) {
        const size_t n = strcspn(text, "\n");
        char *next = text + n + (text[n] == '\n');
        text[n] = 0;
        if (text[strspn(text, " \t\r")])
            read_line(f, text, n);
        text = next;
    }
}

/* ---- token files ----------------------------------------------------------------------------- */

static void read_records(reader *f, rt_file *file)
{
    const mg_program *p = f->program;
    const mg_input in = {.name = "tokens", .elements = p->seq + 1, .limit = p->vocab};
    rt_records r = rt_records_open(file, &in, true);
    if (r.index < 0)
        rt_die(
            RT_BAD_DATA,
            "%s has no index beside it, which says where prompts begin: make it by `mgc tok`, or "
            "give prompts as lines of NAME.jsonl",
            f->path);
    for (int64_t k = 0; k < r.rows; k++) {
        int32_t *token = rt_alloc((size_t)in.elements, sizeof *token);
        int64_t n = 0;
        rt_records_read(file, &r, &in, k, -1, token);
        while (n < in.elements && token[n] >= 0)
            n++;
        f->line = k + 1;
        add(f, token, n, NULL);
    }
    rt_records_close(&r);
}

/* ---- the set --------------------------------------------------------------------------------- */

static bool is_json(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && !strcmp(end, ".jsonl");
}

void rt_prompt_set_open(rt_prompt_set *s, mg_run *r, int64_t most)
{
    rt_speech *speech = rt_speech_of(r);
    rt_data *d = rt_alloc(1, sizeof *d); /* the files alone */
    for (int i = 0; i < r->options->data.n; i++)
        rt_data_add(d, r->options->data.item[i], "data");
    for (int i = 0; i < d->nfiles; i++) {
        reader f = {.set = s,
                    .program = r->program,
                    .speech = speech,
                    .most = most,
                    .path = d->file[i].path};
        if (is_json(f.path)) {
            d->file[i].fd = -1;
            read_json(&f);
        } else {
            read_records(&f, &d->file[i]);
        }
    }
    if (!s->n)
        rt_die(RT_BAD_DATA, "--data %s has no prompt", r->options->data.item[0]);
    rt_data_close(d);
}

void rt_prompt_set_close(rt_prompt_set *s)
{
    for (int64_t k = 0; k < s->n; k++)
        free(s->prompt[k].token);
    for (int i = 0; i < s->files; i++)
        free(s->text[i]);
    free(s->prompt);
    free(s->text);
}

const rt_prompt *rt_prompt_set_at(const rt_prompt_set *s, uint64_t seed, int64_t index)
{
    const uint64_t n = (uint64_t)s->n, epoch = (uint64_t)index / n;
    const uint64_t key = rt_mix64(seed ^ rt_mix64(epoch + 1));
    return &s->prompt[rt_permute(key, n, (uint64_t)index % n)];
}
