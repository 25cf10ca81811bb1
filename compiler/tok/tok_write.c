/* tok_write.c - OUT.bin, OUT.idx and what belongs to them, by way of OUT.part.*: after each batch
 * OUT.part.json says how far it came, and the same command goes on from there. The index is
 * Megatron's (a sequence a document). */
#include "compiler/tok/tok_write.h"
#include "base/open.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Exit tok_failed(Session *s, const char *path, const char *why)
{
    diag_error(s->diag, (Span){0}, 573, "%s: %s", path, why);
    return EXIT_tool;
}

/* ---- documents ----------------------------------------------------------------------------- */

static bool write_ids(const TokOutput *w, FILE *f, const int32_t *id, size_t n)
{
    uint16_t narrow[4096];
    if (w->width == 4)
        return fwrite(id, 4, n, f) == n;
    for (size_t i = 0; i < n; i += 4096) {
        size_t k = n - i < 4096 ? n - i : 4096;
        for (size_t j = 0; j < k; j++)
            narrow[j] = (uint16_t)id[i + j];
        if (fwrite(narrow, 2, k, f) != k)
            return false;
    }
    return true;
}

static bool write_part(TokOutput *w, Sink *k, const Document *d, int part, const TokHand *h)
{
    size_t begin = d->part[part].begin, n = d->part[part].n;
    int32_t length = (int32_t)n;
    k->tokens += (int64_t)n;
    w->done.learnt += (int64_t)d->part[part].learnt;
    return write_ids(w, k->bin, h->w->id + begin, n) &&
           fwrite(&length, sizeof length, 1, k->lengths) == 1 &&
           (!k->weights || fwrite(h->weight + begin, 1, n, k->weights) == n);
}

Exit tok_output_document(Session *s, TokOutput *w, const Document *d, const TokHand *h)
{
    w->done.cut += d->cut;
    w->done.dropped += !d->parts;
    if (!d->parts)
        return EXIT_done;
    for (int i = 0; i < d->parts; i++) {
        if (d->part[i].n > INT32_MAX)
            return tok_failed(s, w->sink[i].bin_part, "a document of more than 2^31 tokens");
        if (!write_part(w, &w->sink[i], d, i, h))
            return tok_failed(s, w->sink[i].bin_part, strerror(errno));
    }
    if (w->labels && putc(d->label, w->labels) == EOF)
        return tok_failed(s, w->labels_part, strerror(errno));
    w->done.documents++;
    w->done.turns += d->turns;
    return EXIT_done;
}

/* ---- progress ------------------------------------------------------------------------------ */

static bool to_disk(FILE *f)
{
    return !f || (fflush(f) == 0 && fsync(fileno(f)) == 0);
}

/* The numbers of a progress by name, in one place for writing and reading. */
static int64_t *number(Progress *p, size_t i, const char **name)
{
    static const char *const names[] = {"file",   "offset",  "number", "documents",
                                        "tokens", "tokens2", "turns",  "learnt",
                                        "cut",    "dropped", "time"};
    int64_t *const of[] = {&p->file,      &p->offset,    &p->number, &p->documents,
                           &p->tokens[0], &p->tokens[1], &p->turns,  &p->learnt,
                           &p->cut,       &p->dropped,   &p->time};
    if (i >= sizeof names / sizeof *names)
        return NULL;
    *name = names[i];
    return of[i];
}

Exit tok_output_save(Session *s, TokOutput *w)
{
    const char *temp = arena_printf(s->arena, "%s.tmp", w->progress_part), *name;
    bool good = to_disk(w->labels);
    for (int i = 0; i < w->sinks; i++) {
        Sink *k = &w->sink[i];
        good = good && to_disk(k->bin) && to_disk(k->lengths) && to_disk(k->weights);
        w->done.tokens[i] = k->tokens;
    }
    if (!good)
        return tok_failed(s, w->sink[0].bin_part, strerror(errno));
    FILE *f = open_own(temp, true);
    if (!f)
        return tok_failed(s, temp, open_error());
    fprintf(f, "{\"key\": \"%016" PRIx64 "\"", w->key);
    for (size_t i = 0; number(&w->done, i, &name); i++)
        fprintf(f, ", \"%s\": %" PRId64, name, *number(&w->done, i, &name));
    fprintf(f, "}\n");
    good = fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (fclose(f) || !good || rename(temp, w->progress_part))
        return tok_failed(s, w->progress_part, strerror(errno));
    return EXIT_done;
}

static bool holds(const char *path, int64_t size)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size >= size;
}

/* The progress that an earlier run of the same command left; empty if there was none. */
static void find_progress(TokOutput *w)
{
    json_error_t e;
    char key[20];
    const char *name;
    FILE *f = open_file(w->progress_part);
    json_t *v = f ? json_loadf(f, 0, &e) : NULL;
    Progress found = {0};
    if (f)
        fclose(f);
    snprintf(key, sizeof key, "%016" PRIx64, w->key);
    const char *has = json_string_value(json_object_get(v, "key"));
    bool good = has && strcmp(has, key) == 0;
    for (size_t i = 0; good && number(&found, i, &name); i++) {
        *number(&found, i, &name) = json_integer_value(json_object_get(v, name));
        good = *number(&found, i, &name) >= 0;
    }
    json_decref(v);
    for (int i = 0; i < w->sinks && good; i++) {
        const Sink *k = &w->sink[i];
        good = holds(k->bin_part, found.tokens[i] * w->width) &&
               holds(k->lengths_part, 4 * found.documents) &&
               (!k->weights_part || holds(k->weights_part, found.tokens[i]));
    }
    if (good && (!w->labels_part || holds(w->labels_part, found.documents)))
        w->done = found;
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

Exit tok_output_begin(Session *s, TokOutput *w, const TokPlan *p, const char *out, uint64_t key)
{
    static const char *const ends[] = {".chosen", ".rejected"};
    Arena *a = s->arena;
    *w = (TokOutput){.out = out, .sinks = p->kind == CHAT_pairs ? 2 : 1, .key = key};
    w->width = p->t->size <= 65536 ? 2 : 4;
    w->named = p->kind != CHAT_plain;
    w->most = p->most;
    w->progress_part = arena_printf(a, "%s.part.json", out);
    if (p->kind == CHAT_labelled)
        w->labels_part = arena_printf(a, "%s.part.labels", out);
    for (int i = 0; i < w->sinks; i++) {
        Sink *k = &w->sink[i];
        k->out = arena_printf(a, "%s%s", out, w->sinks > 1 ? ends[i] : "");
        k->bin_part = arena_printf(a, "%s.part.bin", k->out);
        k->lengths_part = arena_printf(a, "%s.part.lengths", k->out);
        if (p->weighted)
            k->weights_part = arena_printf(a, "%s.part.weights", k->out);
    }
    find_progress(w);
    for (int i = 0; i < w->sinks; i++) {
        Sink *k = &w->sink[i];
        k->tokens = w->done.tokens[i];
        k->bin = open_part(k->bin_part, k->tokens * w->width);
        k->lengths = open_part(k->lengths_part, 4 * w->done.documents);
        if (k->weights_part)
            k->weights = open_part(k->weights_part, k->tokens);
        if (!k->bin || !k->lengths || (k->weights_part && !k->weights))
            return tok_failed(s, k->bin_part, strerror(errno));
    }
    if (w->labels_part && !(w->labels = open_part(w->labels_part, w->done.documents)))
        return tok_failed(s, w->labels_part, strerror(errno));
    if (w->done.documents)
        fprintf(stderr, "mgc: going on after %" PRId64 " documents\n", w->done.documents);
    return EXIT_done;
}

static bool shut(FILE **f)
{
    bool good = !*f || fclose(*f) == 0;
    *f = NULL;
    return good;
}

bool tok_output_shut(TokOutput *w)
{
    bool good = shut(&w->labels);
    for (int i = 0; i < w->sinks; i++) {
        good &= shut(&w->sink[i].bin);
        good &= shut(&w->sink[i].lengths);
        good &= shut(&w->sink[i].weights);
    }
    return good;
}

/* ---- the end ------------------------------------------------------------------------------- */

static Exit write_index(Session *s, const TokOutput *w, const Sink *k, const char *path, int width)
{
    const char *temp = arena_printf(s->arena, "%s.tmp", path);
    FILE *in = open_file(k->lengths_part), *f = in ? fopen(temp, "wbe") : NULL;
    if (!f) {
        if (in)
            fclose(in);
        return tok_failed(s, temp, strerror(errno));
    }
    uint64_t version = 1, n = (uint64_t)w->done.documents, ends = n + 1;
    uint8_t type = width == 1 ? 1 : width == 2 ? 8 : 4;
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
        at += (int64_t)length * width;
    }
    for (uint64_t i = 0; i < ends; i++)
        fwrite(&i, 8, 1, f);
    bool good = !ferror(f) && !ferror(in) && fflush(f) == 0 && fsync(fileno(f)) == 0;
    fclose(in);
    if (fclose(f) || !good || rename(temp, path))
        return tok_failed(s, path, strerror(errno));
    return EXIT_done;
}

/* The index and the weights first: a .bin without them is read as something else. */
static Exit finish_sink(Session *s, const TokOutput *w, const Sink *k)
{
    Arena *a = s->arena;
    Exit status = write_index(s, w, k, arena_printf(a, "%s.idx", k->out), w->width);
    if (!status && k->weights_part && w->named)
        status = write_index(s, w, k, arena_printf(a, "%s.weights.idx", k->out), 1);
    if (status)
        return status;
    const char *weights = arena_printf(a, w->named ? "%s.weights.bin" : "%s.bin.weights", k->out);
    if (k->weights_part && rename(k->weights_part, weights))
        return tok_failed(s, weights, strerror(errno));
    const char *bin = arena_printf(a, "%s.bin", k->out);
    if (rename(k->bin_part, bin))
        return tok_failed(s, bin, strerror(errno));
    unlink(k->lengths_part);
    printf("%s: %" PRId64 " tokens of %" PRId64 " documents, %d bytes each\n", bin, k->tokens,
           w->done.documents, w->width);
    return EXIT_done;
}

Exit tok_output_finish(Session *s, TokOutput *w)
{
    Sink other;
    Exit status = w->labels_part ? tok_other(s, w, &other) : EXIT_done;
    if (!status && w->labels_part)
        status = finish_sink(s, w, &other);
    for (int i = 0; i < w->sinks && !status; i++)
        status = finish_sink(s, w, &w->sink[i]);
    if (status)
        return status;
    const char *labels = arena_printf(s->arena, "%s.labels", w->out);
    if (w->labels_part && rename(w->labels_part, labels))
        return tok_failed(s, labels, strerror(errno));
    unlink(w->progress_part);
    if (w->sink[0].weights_part)
        printf("%" PRId64 " answers, %" PRId64 " tokens learnt\n", w->done.turns, w->done.learnt);
    if (w->done.cut || w->done.dropped)
        printf("%" PRId64 " documents cut, %" PRId64 " dropped\n", w->done.cut, w->done.dropped);
    return EXIT_done;
}

void tok_output_drop(const TokOutput *w)
{
    for (int i = 0; i < w->sinks; i++) {
        const Sink *k = &w->sink[i];
        unlink(k->bin_part);
        unlink(k->lengths_part);
        if (k->weights_part)
            unlink(k->weights_part);
    }
    if (w->labels_part)
        unlink(w->labels_part);
    unlink(w->progress_part);
}
