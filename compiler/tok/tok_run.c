/* tok_run.c - mgc tok: files of text and records, tokenized by some threads, into OUT.bin and
 * OUT.idx.
 *
 * Records are read a batch at a time, encoded by all threads and written in their order; memory
 * holds one batch. After each batch the progress is saved (tok_write.c): the same command goes on
 * there. */
#include "compiler/tok/tok_run.h"
#include "compiler/tok/tok_source.h"
#include "compiler/tok/tok_write.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_BYTES = 16 << 20, BATCH_DOCUMENTS = 1 << 14, THREADS_MAX = 256, LONG = 1 << 19 };

typedef struct Run {
    Session *s;
    const Options *o;
    TokPlan plan;
    TokOutput out;
    int threads;
    TokHand hand[THREADS_MAX];
    Document *doc;
    size_t ndocs, bytes;
    const char *path; /* of the documents */
    atomic_size_t next;
} Run;

/* ---- encoding ------------------------------------------------------------------------------ */

typedef struct Job {
    Run *r;
    int number;
} Job;

static void *encode_some(void *ctx)
{
    const Job *j = ctx;
    Run *r = j->r;
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < r->ndocs;) {
        if (r->doc[i].size >= LONG)
            continue; /* those are for all threads together */
        r->doc[i].worker = j->number;
        tok_document(&r->plan, &r->hand[j->number], &r->doc[i]);
    }
    return NULL;
}

/* One text, by the first thread with a team. */
static void encode_long(Run *r, Document *d)
{
    TokWorker *w = r->hand[0].w;
    TokWorker *team[THREADS_MAX];
    for (int i = 0; i < r->threads; i++)
        team[i] = tok_worker_new(r->plan.t);
    w->team = team;
    w->teams = (size_t)r->threads;
    d->worker = 0;
    tok_document(&r->plan, &r->hand[0], d);
    w->team = NULL;
    w->teams = 0;
    for (int i = 0; i < r->threads; i++)
        tok_worker_free(team[i]);
}

static void encode_batch(Run *r)
{
    pthread_t thread[THREADS_MAX];
    Job job[THREADS_MAX];
    int started = 0;
    atomic_store(&r->next, 0);
    for (int i = 0; i < r->threads; i++) {
        r->hand[i].w->n = 0;
        job[i] = (Job){r, i};
    }
    for (int i = 1; i < r->threads; i++, started++)
        if (pthread_create(&thread[i], NULL, encode_some, &job[i]))
            break; /* with those there are */
    encode_some(&job[0]);
    for (int i = 1; i <= started; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < r->ndocs; i++)
        if (r->doc[i].size >= LONG)
            encode_long(r, &r->doc[i]);
}

static void free_batch(Run *r)
{
    for (size_t i = 0; i < r->ndocs; i++) {
        free(r->doc[i].text);
        free(r->doc[i].wrong);
    }
    r->ndocs = r->bytes = 0;
}

/* A line of a .jsonl as FILE:LINE, a record of an array by its number. */
static Exit tell_wrong(Run *r, const Document *d)
{
    const ChatTemplate *c = r->plan.chat;
    bool line = tok_source_form(r->path) == SOURCE_lines;
    const char *place = !d->number ? r->path
                        : line
                            ? arena_printf(r->s->arena, "%s:%" PRId64, r->path, d->number)
                            : arena_printf(r->s->arena, "%s: record %" PRId64, r->path, d->number);
    Span at =
        d->failed ? tok_span(r->s, &c->from[d->failed == c->tools], d->e.at, d->e.end) : (Span){0};
    diag_error(r->s->diag, at, 574, "%s: %s", place, d->wrong);
    return EXIT_source;
}

static Exit flush_batch(Run *r)
{
    Exit status = EXIT_done;
    if (r->ndocs)
        encode_batch(r);
    for (size_t i = 0; i < r->ndocs && !status; i++) {
        const Document *d = &r->doc[i];
        status = d->wrong ? tell_wrong(r, d)
                          : tok_output_document(r->s, &r->out, d, &r->hand[d->worker]);
    }
    if (r->ndocs && !status)
        status = tok_output_save(r->s, &r->out);
    free_batch(r);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------- */

static Exit add_document(Run *r, const Source *from, const char *text, size_t n)
{
    Document *d = &r->doc[r->ndocs];
    *d = (Document){.text = malloc(n + 1), .size = n};
    if (!d->text)
        return tok_failed(r->s, r->path, "no memory for a record");
    memcpy(d->text, text, n);
    d->number = tok_source_form(r->path) == SOURCE_text ? 0 : tok_source_number(from);
    r->ndocs++;
    r->bytes += n;
    r->out.done.offset = tok_source_at(from);
    r->out.done.number = tok_source_number(from);
    return r->bytes >= BATCH_BYTES || r->ndocs == BATCH_DOCUMENTS ? flush_batch(r) : EXIT_done;
}

static Exit read_file(Run *r)
{
    const char *why, *text;
    size_t n;
    if (r->plan.weighted && tok_source_form(r->path) == SOURCE_text)
        return tok_failed(r->s, r->path,
                          r->plan.chat ? "is no .json, .jsonl or .parquet: it has no conversations"
                                       : "is no .json, .jsonl or .parquet: it has no prompts");
    Source *from = tok_source_open(r->path, &why);
    if (!from)
        return tok_failed(r->s, r->path, why);
    Exit status = EXIT_done;
    SourceGot got =
        tok_source_go(from, r->out.done.offset, r->out.done.number) ? SOURCE_record : SOURCE_failed;
    while (got == SOURCE_record && !status)
        if ((got = tok_source_next(from, &text, &n)) == SOURCE_record)
            status = add_document(r, from, text, n);
    if (got == SOURCE_failed && !status)
        status = tok_failed(r->s, r->path,
                            tok_source_form(r->path) == SOURCE_array && tok_source_number(from)
                                ? arena_printf(r->s->arena, "record %" PRId64 ": %s",
                                               tok_source_number(from), tok_source_why(from))
                                : tok_source_why(from));
    tok_source_close(from);
    if (status)
        return status;
    r->out.done.file++;
    r->out.done.offset = r->out.done.number = 0;
    return flush_batch(r);
}

static Exit read_files(Run *r)
{
    Exit status = EXIT_done;
    while (!status && (size_t)r->out.done.file < r->o->words.n) {
        r->path = r->o->words.data[r->out.done.file];
        status = read_file(r);
    }
    free_batch(r);
    return status;
}

/* ---- beginning, going on, ending ----------------------------------------------------------- */

static uint64_t mixed(uint64_t h, const void *p, size_t n)
{
    return (h ^ tok_hash(p, n)) * 0x9e3779b97f4a7c15u;
}

static uint64_t mixed_text(uint64_t h, const char *text)
{
    text = text ? text : "\001";
    return mixed(h, text, strlen(text) + 1);
}

static uint64_t mixed_file(uint64_t h, const char *path)
{
    struct stat st;
    h = mixed_text(h, path);
    if (path && stat(path, &st) == 0)
        h = mixed(mixed(h, &st.st_size, sizeof st.st_size), &st.st_mtim, sizeof st.st_mtim);
    return h;
}

/* Of the arguments, of the template, and of the sizes and times of all files. */
static uint64_t command_key(const Run *r)
{
    const Options *o = r->o;
    const ChatTemplate *c = r->plan.chat;
    const char *const option[] = {o->json_key, o->json_prompt, o->format,   o->template_name,
                                  o->train_on, o->max_length,  o->too_long, o->eod};
    uint64_t h = (uint64_t)(r->plan.eod + 2) * 31 + (uint64_t)r->plan.kind;
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        h = mixed_text(h, option[i]);
    h = mixed_file(h, o->tokenizer);
    for (int i = 0; c && i < 2; i++)
        if (c->from[i].text)
            h = mixed(h, c->from[i].text, c->from[i].size);
    for (size_t i = 0; i < o->words.n; i++)
        h = mixed_file(h, o->words.data[i]);
    return h;
}

static Exit run(Run *r)
{
    Exit status = tok_output_begin(r->s, &r->out, &r->plan, r->o->out, command_key(r));
    if (!r->out.done.time)
        r->out.done.time = time(NULL);
    if (r->plan.chat)
        r->plan.chat->now = (time_t)r->out.done.time;
    r->doc = NEW_ARRAY(r->s->arena, Document, BATCH_DOCUMENTS + 1);
    json_object_seed(0); /* before there are threads */
    for (int i = 0; i < r->threads; i++)
        r->hand[i] = (TokHand){tok_worker_new(r->plan.t), r->plan.weighted, NULL, 0};
    if (!status)
        status = read_files(r);
    for (int i = 0; i < r->threads; i++) {
        tok_worker_free(r->hand[i].w);
        free(r->hand[i].weight);
    }
    if (!status && !r->out.done.documents) {
        diag_error(r->s->diag, (Span){0}, 574, "%s%s: no record, so there is nothing to learn",
                   r->o->words.data[0], r->o->words.n > 1 ? " and the others" : "");
        if (r->out.done.dropped)
            diag_help(r->s->diag,
                      "%" PRId64 " records were dropped: --max-length is below all of them",
                      r->out.done.dropped);
        status = EXIT_source;
    }
    if (!tok_output_shut(&r->out) && !status)
        status = tok_failed(r->s, r->out.sink[0].bin_part, strerror(errno));
    if (status == EXIT_source && !r->out.done.documents)
        tok_output_drop(&r->out);
    return status ? status : tok_output_finish(r->s, &r->out);
}

Exit command_tok(Session *s)
{
    const Options *o = s->o;
    Run *r = NEW(s->arena, Run);
    *r = (Run){.s = s, .o = o, .threads = 1, .plan = {.o = o, .eod = -1}};
    if (!o->tokenizer || !o->out || !o->words.n) {
        diag_error(s->diag, (Span){0}, 0,
                   "the form is: mgc tok --tokenizer tokenizer.json -o OUT FILE...");
        return EXIT_usage;
    }
    struct stat at;
    if (!stat(o->tokenizer, &at) && S_ISDIR(at.st_mode)) {
        diag_error(s->diag, (Span){0}, 560, "'%s' is a directory; --tokenizer takes a file",
                   o->tokenizer);
        const char *inside = arena_printf(s->arena, "%s/tokenizer.json", o->tokenizer);
        if (!access(inside, R_OK))
            diag_help(s->diag, "--tokenizer %s", inside);
        return EXIT_source;
    }
    Tokenizer *t = r->plan.t = tok_read(s, o->tokenizer);
    if (!t)
        return EXIT_source;
    Exit status = EXIT_done;
    if (o->eod && (r->plan.eod = tok_named(t, o->eod)) < 0) {
        diag_error(s->diag, (Span){0}, 572, "%s has no token '%s'", o->tokenizer, o->eod);
        status = EXIT_source;
    }
    cpu_set_t may; /* run on */
    long cores = sched_getaffinity(0, sizeof may, &may) ? 1 : CPU_COUNT(&may);
    r->threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores;
    if (!status)
        status = tok_plan_make(s, &r->plan);
    if (!status)
        status = run(r);
    tok_free(t);
    return status;
}
