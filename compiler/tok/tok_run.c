/* tok_run.c - mgc tok: files of text, tokenized by some threads, into OUT.bin and OUT.idx.
 *
 * A document is a file, or the value of a key of a line of JSON (.jsonl), perhaps after a prompt
 * under another key: OUT.bin.weights then says, a byte a token, which of them are targets (1) and
 * which are only read (0). Documents are read a
 * batch at a time, encoded by all threads and written in their order; memory holds one batch. After
 * each batch OUT.part.json says how far it came: the same command goes on from there. The index is
 * Megatron's (a sequence a document), which says where documents end. */
#include "base/open.h"
#include "compiler/tok/tok.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_BYTES = 16 << 20, BATCH_DOCUMENTS = 1 << 14, THREADS_MAX = 256 };

typedef struct Document {
    char *text, *prompt; /* malloc'ed */
    size_t size, prompt_size;
    size_t begin, n, unweighed; /* its ids, in those of its worker; the first that are no targets */
    int worker;
} Document;

typedef struct Progress {
    int64_t file, offset;     /* read up to here */
    int64_t documents, bytes; /* written */
} Progress;

typedef struct Run {
    Session *s;
    Tokenizer *t;
    const Options *o;
    int width, threads;
    int32_t eod; /* after each document, or -1 */
    TokWorker *worker[THREADS_MAX];
    Document *doc;
    size_t ndocs;
    atomic_size_t next;
    Progress done;
    FILE *bin, *lengths, *weights; /* NULL without prompts */
    const char *bin_part, *lengths_part, *weights_part, *progress_part;
    uint64_t key; /* of the command: what is gone on with has to be the same */
    int64_t tokens;
} Run;

static Exit failed(Run *r, const char *path, const char *why)
{
    diag_error(r->s->diag, (Span){0}, 573, "%s: %s", path, why);
    return EXIT_tool;
}

/* ---- encoding ------------------------------------------------------------------------------ */

typedef struct Job {
    Run *r;
    int number;
} Job;

static void *encode_some(void *ctx)
{
    const Job *j = ctx;
    Run *r = j->r;
    TokWorker *w = r->worker[j->number];
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < r->ndocs;) {
        Document *d = &r->doc[i];
        d->worker = j->number;
        d->begin = w->n;
        tok_push_all(w, r->t->before.data, r->t->before.n);
        if (d->prompt)
            tok_encode(w, d->prompt, d->prompt_size);
        d->unweighed = w->n - d->begin;
        tok_encode(w, d->text, d->size);
        tok_push_all(w, r->t->after.data, r->t->after.n);
        if (r->eod >= 0)
            tok_push(w, r->eod);
        d->n = w->n - d->begin;
    }
    return NULL;
}

static void encode_batch(Run *r)
{
    pthread_t thread[THREADS_MAX];
    Job job[THREADS_MAX];
    int started = 0;
    atomic_store(&r->next, 0);
    for (int i = 0; i < r->threads; i++) {
        r->worker[i]->n = 0;
        job[i] = (Job){r, i};
    }
    for (int i = 1; i < r->threads; i++, started++)
        if (pthread_create(&thread[i], NULL, encode_some, &job[i]))
            break; /* with those there are */
    encode_some(&job[0]);
    for (int i = 1; i <= started; i++)
        pthread_join(thread[i], NULL);
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool write_ids(Run *r, const int32_t *id, size_t n)
{
    uint16_t narrow[4096];
    if (r->width == 4)
        return fwrite(id, 4, n, r->bin) == n;
    for (size_t i = 0; i < n; i += 4096) {
        size_t k = n - i < 4096 ? n - i : 4096;
        for (size_t j = 0; j < k; j++)
            narrow[j] = (uint16_t)id[i + j];
        if (fwrite(narrow, 2, k, r->bin) != k)
            return false;
    }
    return true;
}

static bool write_weights(Run *r, const Document *d)
{
    for (size_t i = 0; i < d->n && r->weights; i++)
        putc(i >= d->unweighed, r->weights);
    return !r->weights || !ferror(r->weights);
}

static bool to_disk(FILE *f)
{
    return !f || (fflush(f) == 0 && fsync(fileno(f)) == 0);
}

static Exit save_progress(Run *r)
{
    const char *temp = arena_printf(r->s->arena, "%s.tmp", r->progress_part);
    if (!to_disk(r->bin) || !to_disk(r->lengths) || !to_disk(r->weights))
        return failed(r, r->bin_part, strerror(errno));
    FILE *f = open_own(temp, true);
    if (!f)
        return failed(r, temp, open_error());
    fprintf(f,
            "{\"key\": \"%016" PRIx64 "\", \"file\": %" PRId64 ", \"offset\": %" PRId64
            ", \"documents\": %" PRId64 ", \"bytes\": %" PRId64 "}\n",
            r->key, r->done.file, r->done.offset, r->done.documents, r->done.bytes);
    bool good = fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (fclose(f) || !good || rename(temp, r->progress_part))
        return failed(r, r->progress_part, strerror(errno));
    return EXIT_done;
}

static Exit write_batch(Run *r)
{
    for (size_t i = 0; i < r->ndocs; i++) {
        Document *d = &r->doc[i];
        int32_t length = (int32_t)d->n;
        free(d->text);
        free(d->prompt);
        d->text = d->prompt = NULL;
        if (d->n > INT32_MAX)
            return failed(r, r->bin_part, "a document of more than 2^31 tokens");
        if (!write_ids(r, r->worker[d->worker]->id + d->begin, d->n) ||
            fwrite(&length, sizeof length, 1, r->lengths) != 1 || !write_weights(r, d))
            return failed(r, r->bin_part, strerror(errno));
        r->done.documents++;
        r->done.bytes += (int64_t)d->n * r->width;
    }
    r->ndocs = 0;
    return EXIT_done;
}

static Exit flush_batch(Run *r)
{
    if (!r->ndocs)
        return EXIT_done;
    encode_batch(r);
    Exit status = write_batch(r);
    return status ? status : save_progress(r);
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool is_jsonl(const char *path)
{
    size_t n = strlen(path);
    return (n > 6 && strcmp(path + n - 6, ".jsonl") == 0) ||
           (n > 7 && strcmp(path + n - 7, ".ndjson") == 0);
}

static Exit read_text(Run *r, const char *path, FILE *f)
{
    struct stat st;
    if (fstat(fileno(f), &st))
        return failed(r, path, strerror(errno));
    Document d = {.text = malloc((size_t)st.st_size + 1)};
    if (!d.text)
        return failed(r, path, "no memory to read it whole");
    d.size = fread(d.text, 1, (size_t)st.st_size, f);
    r->doc[r->ndocs++] = d;
    r->done.file++;
    r->done.offset = 0;
    return ferror(f) ? failed(r, path, strerror(errno)) : EXIT_done;
}

static const char *text_key(const Run *r)
{
    return r->o->json_key ? r->o->json_key : "text";
}

/* A line being read, for messages. */
typedef struct Line {
    const char *path;
    int64_t offset;
    json_t *json;
} Line;

/* The text under a key; NULL after telling what is wrong with it. */
static char *line_text(Run *r, const Line *l, const char *key, size_t *size)
{
    json_t *text = json_object_get(l->json, key);
    if (!json_is_string(text)) {
        diag_error(r->s->diag, (Span){0}, 574,
                   "%s: the line at byte %" PRId64 ": no text under the key '%s'", l->path,
                   l->offset, key);
        return NULL;
    }
    *size = json_string_length(text);
    char *copy = malloc(*size + 1);
    if (copy)
        memcpy(copy, json_string_value(text), *size);
    else
        failed(r, l->path, "no memory for a line");
    return copy;
}

static bool read_line(Run *r, Line *l, const char *line, size_t n, Document *d)
{
    json_error_t e;
    *d = (Document){0};
    l->json = json_loadb(line, n, JSON_ALLOW_NUL, &e);
    if (!l->json)
        diag_error(r->s->diag, (Span){0}, 574, "%s: the line at byte %" PRId64 ": %s", l->path,
                   l->offset, e.text);
    bool good = l->json && (d->text = line_text(r, l, text_key(r), &d->size)) != NULL;
    if (good && r->o->json_prompt)
        good = (d->prompt = line_text(r, l, r->o->json_prompt, &d->prompt_size)) != NULL;
    if (!good)
        free(d->text);
    json_decref(l->json);
    return good;
}

static Exit read_lines(Run *r, const char *path, FILE *f)
{
    char *line = NULL;
    size_t cap = 0, bytes = 0;
    ssize_t n;
    Exit status =
        fseeko(f, (off_t)r->done.offset, SEEK_SET) ? failed(r, path, strerror(errno)) : EXIT_done;
    while (!status && (n = getline(&line, &cap, f)) > 0) {
        Line l = {.path = path, .offset = r->done.offset};
        r->done.offset += n;
        if (strspn(line, " \t\r\n") == (size_t)n)
            continue;
        Document *d = &r->doc[r->ndocs];
        if (!read_line(r, &l, line, (size_t)n, d)) {
            status = EXIT_source;
            break;
        }
        r->ndocs++;
        bytes += d->size + d->prompt_size;
        if (bytes >= BATCH_BYTES || r->ndocs == BATCH_DOCUMENTS) {
            status = flush_batch(r);
            bytes = 0;
        }
    }
    if (!status && ferror(f))
        status = failed(r, path, strerror(errno));
    free(line);
    r->done.file++;
    r->done.offset = 0;
    return status ? status : flush_batch(r);
}

static Exit read_files(Run *r)
{
    Exit status = EXIT_done;
    while (!status && (size_t)r->done.file < r->o->words.n) {
        const char *path = r->o->words.data[r->done.file];
        FILE *f = open_file(path);
        if (!f)
            return failed(r, path, open_error());
        if (r->o->json_prompt && !is_jsonl(path))
            status = failed(r, path, "is no .jsonl: it has no prompts");
        else
            status = is_jsonl(path) ? read_lines(r, path, f) : read_text(r, path, f);
        fclose(f);
        if (!status && r->ndocs)
            status = flush_batch(r);
    }
    for (size_t i = 0; i < r->ndocs; i++) {
        free(r->doc[i].text);
        free(r->doc[i].prompt);
    }
    return status;
}

/* ---- beginning, going on, ending ----------------------------------------------------------- */

static uint64_t mixed(uint64_t h, const void *p, size_t n)
{
    return (h ^ tok_hash(p, n)) * 0x9e3779b97f4a7c15u;
}

/* Of the arguments, and of the sizes and times of all files. */
static uint64_t command_key(const Run *r)
{
    uint64_t h = (uint64_t)(r->eod + 2) * 31 + (uint64_t)r->width;
    struct stat st;
    const char *prompt = r->o->json_prompt ? r->o->json_prompt : "";
    h = mixed(h, text_key(r), strlen(text_key(r)));
    h = mixed(h, prompt, strlen(prompt));
    for (size_t i = 0; i <= r->o->words.n; i++) {
        const char *path = i ? r->o->words.data[i - 1] : r->o->tokenizer;
        h = mixed(h, path, strlen(path));
        if (stat(path, &st) == 0)
            h = mixed(mixed(h, &st.st_size, sizeof st.st_size), &st.st_mtim, sizeof st.st_mtim);
    }
    return h;
}

/* The progress that an earlier run of the same command left; empty if there was none. */
static void find_progress(Run *r)
{
    json_error_t e;
    char key[20];
    FILE *f = open_file(r->progress_part);
    json_t *v = f ? json_loadf(f, 0, &e) : NULL;
    if (f)
        fclose(f);
    snprintf(key, sizeof key, "%016" PRIx64, r->key);
    const char *has = json_string_value(json_object_get(v, "key"));
    if (has && strcmp(has, key) == 0) {
        r->done.file = json_integer_value(json_object_get(v, "file"));
        r->done.offset = json_integer_value(json_object_get(v, "offset"));
        r->done.documents = json_integer_value(json_object_get(v, "documents"));
        r->done.bytes = json_integer_value(json_object_get(v, "bytes"));
        struct stat b, l, w;
        if ((r->o->json_prompt &&
             (stat(r->weights_part, &w) || w.st_size < r->done.bytes / r->width)) ||
            r->done.file < 0 || r->done.offset < 0 || r->done.documents < 0 || r->done.bytes < 0 ||
            stat(r->bin_part, &b) || b.st_size < r->done.bytes || stat(r->lengths_part, &l) ||
            l.st_size < 4 * r->done.documents)
            r->done = (Progress){0};
    }
    json_decref(v);
}

static FILE *open_part(const char *path, int64_t size)
{
    FILE *f = open_own(path, !size);
    if (f && (ftruncate(fileno(f), (off_t)size) || fseeko(f, (off_t)size, SEEK_SET))) {
        fclose(f);
        return NULL;
    }
    return f;
}

static Exit write_index(Run *r, const char *path)
{
    const char *temp = arena_printf(r->s->arena, "%s.tmp", path);
    FILE *in = open_file(r->lengths_part), *f = in ? fopen(temp, "wbe") : NULL;
    if (!f) {
        if (in)
            fclose(in);
        return failed(r, temp, strerror(errno));
    }
    uint64_t version = 1, n = (uint64_t)r->done.documents, ends = n + 1;
    uint8_t type = r->width == 2 ? 8 : 4;
    int64_t at = 0;
    int32_t length;
    fwrite("MMIDIDX\0", 1, 9, f);
    fwrite(&version, 8, 1, f);
    fwrite(&type, 1, 1, f);
    fwrite(&n, 8, 1, f);
    fwrite(&ends, 8, 1, f);
    while (fread(&length, 4, 1, in) == 1)
        fwrite(&length, 4, 1, f);
    rewind(in);
    while (fread(&length, 4, 1, in) == 1) {
        fwrite(&at, 8, 1, f);
        at += (int64_t)length * r->width;
    }
    for (uint64_t i = 0; i < ends; i++)
        fwrite(&i, 8, 1, f);
    bool good = !ferror(f) && !ferror(in) && fflush(f) == 0 && fsync(fileno(f)) == 0;
    fclose(in);
    if (fclose(f) || !good || rename(temp, path))
        return failed(r, path, strerror(errno));
    return EXIT_done;
}

/* The index and the weights first: a .bin without them is read as something else. */
static Exit finish(Run *r, const char *out)
{
    Exit status = write_index(r, arena_printf(r->s->arena, "%s.idx", out));
    if (status)
        return status;
    if (r->weights && rename(r->weights_part, arena_printf(r->s->arena, "%s.bin.weights", out)))
        return failed(r, out, strerror(errno));
    if (rename(r->bin_part, arena_printf(r->s->arena, "%s.bin", out)))
        return failed(r, out, strerror(errno));
    unlink(r->lengths_part);
    unlink(r->progress_part);
    printf("%s.bin: %" PRId64 " tokens of %" PRId64 " documents, %d bytes each\n", out,
           r->done.bytes / r->width, r->done.documents, r->width);
    return EXIT_done;
}

static Exit run(Run *r, const char *out)
{
    Arena *a = r->s->arena;
    r->bin_part = arena_printf(a, "%s.part.bin", out);
    r->lengths_part = arena_printf(a, "%s.part.lengths", out);
    r->weights_part = arena_printf(a, "%s.part.weights", out);
    r->progress_part = arena_printf(a, "%s.part.json", out);
    r->key = command_key(r);
    find_progress(r);
    r->bin = open_part(r->bin_part, r->done.bytes);
    r->lengths = open_part(r->lengths_part, 4 * r->done.documents);
    if (r->o->json_prompt)
        r->weights = open_part(r->weights_part, r->done.bytes / r->width);
    if (!r->bin || !r->lengths || (r->o->json_prompt && !r->weights))
        return failed(r, r->bin_part, strerror(errno));
    if (r->done.documents)
        fprintf(stderr, "mgc: going on after %" PRId64 " documents\n", r->done.documents);
    r->doc = NEW_ARRAY(a, Document, BATCH_DOCUMENTS + 1);
    for (int i = 0; i < r->threads; i++)
        r->worker[i] = tok_worker_new(r->t);
    Exit status = read_files(r);
    for (int i = 0; i < r->threads; i++)
        tok_worker_free(r->worker[i]);
    bool closed = fclose(r->bin) == 0;
    closed &= fclose(r->lengths) == 0;
    closed &= !r->weights || fclose(r->weights) == 0;
    if (!status && !closed)
        status = failed(r, r->bin_part, strerror(errno));
    return status ? status : finish(r, out);
}

Exit command_tok(Session *s)
{
    const Options *o = s->o;
    Run r = {.s = s, .o = o, .eod = -1, .threads = 1};
    if (!o->tokenizer || !o->out || !o->words.n) {
        diag_error(s->diag, (Span){0}, 0,
                   "the form is: mgc tok --tokenizer tokenizer.json -o OUT FILE...");
        return EXIT_usage;
    }
    r.t = tok_read(s, o->tokenizer);
    if (!r.t)
        return EXIT_source;
    r.width = r.t->size <= 65536 ? 2 : 4;
    if (o->eod && (r.eod = tok_named(r.t, o->eod)) < 0) {
        diag_error(s->diag, (Span){0}, 572, "%s has no token '%s'", o->tokenizer, o->eod);
        return EXIT_source;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    r.threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores;
    Exit status = run(&r, o->out);
    tok_free(r.t);
    return status;
}
