/* merge.c - mgc merge ADAPTER[=WEIGHT]... --base DIR -o OUT: adapters into the weights of their
 * base, without a program of the model.
 *
 * Files are those of the base, with the same tensors in the same order; OUT is there as a whole or
 * not at all. */
#include "compiler/merge/merge.h"

#include "base/open.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADAPTERS_MAX = 16, COPY_MAX = 64 << 20 };

typedef struct Merging {
    Session *s;
    Store base;
    MergedAdapter adapter[ADAPTERS_MAX];
    size_t n;
    const char *to; /* the folder that is written */
    Element type;   /* ELEMENT_other: each tensor's own */
    size_t merged;
} Merging;

static Element element_of(const Merging *m, const Stored *w)
{
    return m->type == ELEMENT_other || w->element == ELEMENT_other ? w->element : m->type;
}

static uint64_t bytes_of(const Merging *m, const Stored *w)
{
    return w->element == ELEMENT_other ? w->end - w->begin
                                       : (uint64_t)w->n * (uint64_t)element_bytes(element_of(m, w));
}

/* ---- files of tensors
 * ---------------------------------------------------------------------------- */

static bool write_header(const Merging *m, const StoredFile *f, FILE *out)
{
    json_t *header = json_object(), *format = json_object();
    json_object_set_new(format, "format", json_string("pt"));
    json_object_set_new(header, "__metadata__", format);
    uint64_t at = 0;
    for (size_t i = 0; i < f->tensors.n; i++) {
        const Stored *w = f->tensors.data[i];
        json_t *t = json_object(), *shape = json_array(), *offsets = json_array();
        const char *type = w->element == ELEMENT_other ? w->dtype : element_name(element_of(m, w));
        for (int k = 0; k < w->rank; k++)
            json_array_append_new(shape, json_integer(w->shape[k]));
        json_array_append_new(offsets, json_integer((json_int_t)at));
        at += bytes_of(m, w);
        json_array_append_new(offsets, json_integer((json_int_t)at));
        json_object_set_new(t, "dtype", json_string(type));
        json_object_set_new(t, "shape", shape);
        json_object_set_new(t, "data_offsets", offsets);
        json_object_set_new(header, w->name, t);
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text)
        return false;
    const size_t n = strlen(text), padded = (n + 7) / 8 * 8;
    unsigned char first[8];
    for (int i = 0; i < 8; i++)
        first[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    bool good = fwrite(first, 1, 8, out) == 8 && fwrite(text, 1, n, out) == n;
    for (size_t i = n; good && i < padded; i++)
        good = fputc(' ', out) != EOF;
    free(text);
    return good;
}

static bool write_tensor(Merging *m, const Stored *w, FILE *out)
{
    Addend add[ADAPTERS_MAX];
    size_t n = 0;
    bool good = true;
    for (size_t i = 0; good && i < m->n; i++) {
        const int is = merge_addend(m->s, &m->adapter[i], w, &add[n]);
        good = is >= 0;
        if (is)
            n++;
    }
    if (good && n && w->element == ELEMENT_other) {
        diag_error(m->s->diag, (Span){0}, 620,
                   "'%s' has the type %s: F64, F32, BF16 and F16 are read", w->name, w->dtype);
        good = false;
    }
    for (size_t i = 0; good && n > 1 && i < n; i++)
        if (add[i].magnitude || add[i].whole) {
            diag_error(m->s->diag, (Span){0}, 621,
                       "'%s' is in %zu adapters, one of which has it whole or as DoRA: merge one "
                       "after the other",
                       w->name, n);
            good = false;
        }
    good = good && merge_tensor(m->s, w, add, n, element_of(m, w), out);
    m->merged += good && n;
    for (size_t i = 0; i < n; i++)
        merge_addend_free(&add[i]);
    return good;
}

static FILE *make(Merging *m, const char *name)
{
    const char *path = arena_printf(m->s->arena, "%s/%s", m->to, name);
    FILE *out = fopen(path, "wxe");
    if (!out)
        diag_error(m->s->diag, (Span){0}, 543, "cannot write '%s': %s", path, strerror(errno));
    return out;
}

static bool close_file(Merging *m, FILE *out, bool good)
{
    if (good && (fflush(out) || fsync(fileno(out)) || ferror(out))) {
        diag_error(m->s->diag, (Span){0}, 543, "cannot write into '%s': %s", m->to,
                   strerror(errno));
        good = false;
    }
    fclose(out);
    return good;
}

static bool write_file(Merging *m, const StoredFile *f)
{
    FILE *out = make(m, f->name);
    if (!out)
        return false;
    bool good = write_header(m, f, out);
    if (!good)
        diag_error(m->s->diag, (Span){0}, 543, "cannot write into '%s': %s", m->to,
                   strerror(errno));
    for (size_t i = 0; good && i < f->tensors.n; i++)
        good = write_tensor(m, f->tensors.data[i], out);
    return close_file(m, out, good);
}

static bool write_index(Merging *m)
{
    json_t *index = json_object(), *about = json_object(), *map = json_object();
    uint64_t all = 0;
    for (size_t i = 0; i < m->base.all.n; i++) {
        const Stored *w = m->base.all.data[i];
        all += bytes_of(m, w);
        json_object_set_new(map, w->name, json_string(w->file->name));
    }
    json_object_set_new(about, "total_size", json_integer((json_int_t)all));
    json_object_set_new(index, "metadata", about);
    json_object_set_new(index, "weight_map", map);
    FILE *out = make(m, "model.safetensors.index.json");
    bool good = out && json_dumpf(index, out, JSON_INDENT(2)) == 0;
    good = out && close_file(m, out, good) && good;
    json_decref(index);
    return good;
}

/* ---- what lies beside
 * ---------------------------------------------------------------------------- */

static bool wanted(const char *name)
{
    static const char *const ends[] = {".json", ".jinja", ".model", ".txt", ".tiktoken"};
    const size_t n = strlen(name), k = strlen(".index.json");
    if (*name == '.' || (n > k && !strcmp(name + n - k, ".index.json")))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

static bool copy_file(Merging *m, const char *name)
{
    char raw[1 << 14];
    FILE *in = open_file(arena_printf(m->s->arena, "%s/%s", m->base.dir, name)), *out = NULL;
    bool good = !in || (out = make(m, name));
    size_t all = 0;
    for (size_t k; in && out && all <= COPY_MAX && (k = fread(raw, 1, sizeof raw, in)) > 0;
         all += k)
        good = fwrite(raw, 1, k, out) == k && good;
    if (in)
        fclose(in);
    return out ? close_file(m, out, good) : good;
}

/* config.json says the type of the weights. */
static bool copy_config(Merging *m)
{
    static const char *const names[] = {[ELEMENT_f64] = "float64",
                                        [ELEMENT_f32] = "float32",
                                        [ELEMENT_bf16] = "bfloat16",
                                        [ELEMENT_f16] = "float16"};
    if (m->type == ELEMENT_other)
        return copy_file(m, "config.json");
    json_t *config =
        json_load_file(arena_printf(m->s->arena, "%s/config.json", m->base.dir), 0, NULL);
    if (!json_is_object(config)) {
        json_decref(config);
        return true;
    }
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    json_object_set_new(config, key, json_string(names[m->type]));
    FILE *out = make(m, "config.json");
    bool good = out && json_dumpf(config, out, JSON_INDENT(2)) == 0;
    good = out && close_file(m, out, good) && good;
    json_decref(config);
    return good;
}

static bool copy_beside(Merging *m)
{
    DIR *d = opendir(m->base.dir);
    bool good = d && copy_config(m);
    for (const struct dirent *e; good && (e = readdir(d));)
        if (wanted(e->d_name) && strcmp(e->d_name, "config.json") != 0)
            good = copy_file(m, e->d_name);
    if (d)
        closedir(d);
    return good;
}

/* ---- all of it
 * ----------------------------------------------------------------------------------- */

static bool all_used(Merging *m)
{
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < m->adapter[i].store.all.n; k++)
            if (!m->adapter[i].store.all.data[k]->used) {
                diag_error(m->s->diag, (Span){0}, 621, "%s: '%s' belongs to no tensor of '%s'",
                           m->adapter[i].dir, m->adapter[i].store.all.data[k]->name, m->base.dir);
                diag_help(m->s->diag, "a tied head is not in the base's files, and experts in one "
                                      "tensor get no adapter; the program exports a new head: "
                                      "./train --resume --export DIR");
                return false;
            }
    return true;
}

static bool write_all(Merging *m)
{
    for (size_t i = 0; i < m->base.files.n; i++)
        if (!write_file(m, m->base.files.data[i]))
            return false;
    return all_used(m) && (!m->base.indexed || write_index(m)) && copy_beside(m);
}

static void remove_all(const Merging *m)
{
    DIR *d = opendir(m->to);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(m->to);
}

static Exit merge(Merging *m, const char *out)
{
    Session *s = m->s;
    Exit status = output_fresh(s, out);
    if (status)
        return status;
    m->to = arena_printf(s->arena, "%s.%ld.tmp", out, (long)getpid());
    if (mkdir(m->to, 0777)) {
        diag_error(s->diag, (Span){0}, 543, "cannot make '%s': %s", m->to, strerror(errno));
        return EXIT_tool;
    }
    const bool whole = write_all(m);
    if (whole && rename(m->to, out) == 0) {
        diag_notice(s->diag, "%s: %zu tensors of %zu are merged", out, m->merged, m->base.all.n);
        return EXIT_done;
    }
    if (whole)
        diag_error(s->diag, (Span){0}, 543, "cannot make '%s': %s", out, strerror(errno));
    remove_all(m);
    return whole ? EXIT_tool : EXIT_source;
}

Exit command_merge(Session *s)
{
    const Options *o = s->o;
    Merging *m = NEW(s->arena, Merging);
    *m = (Merging){.s = s, .type = ELEMENT_other};
    if (o->type)
        m->type = !strcmp(o->type, "bf16")  ? ELEMENT_bf16
                  : !strcmp(o->type, "f16") ? ELEMENT_f16
                                            : ELEMENT_f32;
    if (o->type && !strcmp(o->type, "q8_0")) {
        diag_error(s->diag, (Span){0}, 0, "--type q8_0: mgc merge writes f32, f16 or bf16");
        diag_help(s->diag, "mgc gguf writes files with q8_0, of a directory that mgc merge made");
        return EXIT_usage;
    }
    if (o->words.n > ADAPTERS_MAX) {
        diag_error(s->diag, (Span){0}, 0, "at most %d adapters at once", ADAPTERS_MAX);
        return EXIT_usage;
    }
    bool good = store_open(s, &m->base, o->base, NULL);
    for (size_t i = 0; good && i < o->words.n; i++)
        good = merge_adapter_open(s, &m->adapter[m->n++], o->words.data[i]);
    const Exit status = good ? merge(m, o->out) : EXIT_source;
    for (size_t i = 0; i < m->n; i++)
        merge_adapter_close(&m->adapter[i]);
    store_close(&m->base);
    return status;
}
