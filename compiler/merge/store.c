/* store.c - safetensors files of a directory, read by tensor. */
#include "compiler/merge/merge.h"
#include "compiler/safetensors.h"

#include "base/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int bytes;
} elements[] = {[ELEMENT_f64] = {"F64", 8},
                [ELEMENT_f32] = {"F32", 4},
                [ELEMENT_bf16] = {"BF16", 2},
                [ELEMENT_f16] = {"F16", 2},
                [ELEMENT_other] = {"", 0}};

int element_bytes(Element e)
{
    return elements[e].bytes;
}

const char *element_name(Element e)
{
    return elements[e].name;
}

static bool unfit(Session *s, const char *path, const char *why)
{
    diag_error(s->diag, (Span){0}, 620, "%s: %s", path, why);
    return false;
}

/* ---- headers -----------------------------------------------------------------------------------
 */

static bool read_shape(Stored *t, const json_t *shape)
{
    t->rank = (int)json_array_size(shape);
    t->n = 1;
    if (!json_is_array(shape) || json_array_size(shape) > MERGE_RANK_MAX)
        return false;
    for (int i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        t->shape[i] = json_integer_value(d);
        if (!json_is_integer(d) || t->shape[i] < 0 ||
            __builtin_mul_overflow(t->n, t->shape[i], &t->n))
            return false;
    }
    return true;
}

static bool read_tensor(Stored *t, const json_t *o, uint64_t data, uint64_t size)
{
    const json_t *at = json_object_get(o, "data_offsets"), *a = json_array_get(at, 0),
                 *b = json_array_get(at, 1);
    const json_int_t begin = json_integer_value(a), end = json_integer_value(b);
    t->dtype = json_string_value(json_object_get(o, "dtype"));
    if (!t->dtype || !json_is_integer(a) || !json_is_integer(b) || begin < 0 || end < begin ||
        (uint64_t)end > size - data || !read_shape(t, json_object_get(o, "shape")))
        return false;
    t->begin = data + (uint64_t)begin;
    t->end = data + (uint64_t)end;
    t->element = ELEMENT_other;
    for (int e = 0; e < ELEMENT_other; e++)
        if (!strcmp(t->dtype, elements[e].name))
            t->element = (Element)e;
    return t->element == ELEMENT_other ||
           t->end - t->begin == (uint64_t)t->n * (uint64_t)elements[t->element].bytes;
}

static int by_place(const void *x, const void *y)
{
    const Stored *a = *(Stored *const *)x, *b = *(Stored *const *)y;
    return a->begin < b->begin ? -1 : a->begin > b->begin ? 1 : strcmp(a->name, b->name);
}

static bool add_tensors(Session *s, Store *st, StoredFile *f, const json_t *header, uint64_t data,
                        uint64_t size)
{
    const char *name;
    json_t *o;
    json_object_foreach((json_t *)header, name, o) {
        Stored *t = NEW(s->arena, Stored);
        *t = (Stored){.name = arena_strdup(s->arena, name), .file = f};
        if (!json_is_object(o) || !read_tensor(t, o, data, size))
            return unfit(
                s, f->path,
                arena_printf(s->arena, "the header's entry of '%.200s' is not right", name));
        t->dtype = arena_strdup(s->arena, t->dtype);
        if (json_object_get(st->by_name, name))
            return unfit(s, f->path, arena_printf(s->arena, "'%.200s' is in two files", name));
        json_object_set_new(st->by_name, name, json_integer((json_int_t)st->all.n));
        vec_push(s->arena, &st->all, t);
        vec_push(s->arena, &f->tensors, t);
    }
    if (f->tensors.n)
        qsort(f->tensors.data, f->tensors.n, sizeof *f->tensors.data, by_place);
    return true;
}

static bool read_header(Session *s, Store *st, StoredFile *f)
{
    int64_t data, size;
    const char *why;
    json_t *header = safetensors_header(s->arena, f->in, &data, &size, &why);
    const bool good = header ? add_tensors(s, st, f, header, (uint64_t)data, (uint64_t)size)
                             : unfit(s, f->path, why);
    json_decref(header);
    return good;
}

static bool add_file(Session *s, Store *st, const char *name)
{
    StoredFile *f = NEW(s->arena, StoredFile);
    *f = (StoredFile){.name = name, .path = arena_printf(s->arena, "%s/%s", st->dir, name)};
    f->in = open_file(f->path);
    if (!f->in)
        return unfit(s, f->path, open_error());
    vec_push(s->arena, &st->files, f);
    return read_header(s, st, f);
}

static bool add_index(Session *s, Store *st, const char *path)
{
    size_t size;
    Words files = {0};
    const char *why;
    const uint32_t file = read_source(s, path);
    if (!file)
        return false;
    const char *text = diag_text(s->diag, file, &size);
    if (!safetensors_indexed(s->arena, text, size, &files, &why))
        return unfit(s, path, why);
    st->indexed = true;
    for (size_t i = 0; i < files.n; i++)
        if (!add_file(s, st, files.data[i]))
            return false;
    return true;
}

bool store_open(Session *s, Store *st, const char *dir, const char *file)
{
    *st = (Store){.dir = dir, .by_name = json_object()};
    const char *one = file ? file : "model.safetensors";
    const char *index = arena_printf(s->arena, "%s/model.safetensors.index.json", dir);
    if (file || access(arena_printf(s->arena, "%s/%s", dir, one), F_OK) == 0)
        return add_file(s, st, one);
    if (access(index, F_OK) == 0)
        return add_index(s, st, index);
    return unfit(s, dir, "there is no model.safetensors and no model.safetensors.index.json");
}

void store_close(Store *st)
{
    for (size_t i = 0; i < st->files.n; i++)
        fclose(st->files.data[i]->in);
    json_decref(st->by_name);
    *st = (Store){0};
}

Stored *store_find(const Store *st, const char *name)
{
    const json_t *at = json_object_get(st->by_name, name);
    return at ? st->all.data[json_integer_value(at)] : NULL;
}

/* ---- numbers -----------------------------------------------------------------------------------
 */

static double widened(Element e, const char *at)
{
    float f;
    double d;
    uint16_t h;
    _Float16 half;
    switch (e) {
    case ELEMENT_f64:
        memcpy(&d, at, 8);
        return d;
    case ELEMENT_f32:
        memcpy(&f, at, 4);
        return f;
    case ELEMENT_bf16: {
        memcpy(&h, at, 2);
        const uint32_t bits = (uint32_t)h << 16;
        memcpy(&f, &bits, 4);
        return f;
    }
    case ELEMENT_f16:
        memcpy(&half, at, 2);
        return (double)half;
    case ELEMENT_other:
        break;
    }
    return 0;
}

/* To the nearest bf16, ties to even; what is no number stays none. */
static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (f != f)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void element_put(Element e, const double *from, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++)
        switch (e) {
        case ELEMENT_f64:
            ((double *)out)[i] = from[i];
            break;
        case ELEMENT_f32:
            ((float *)out)[i] = (float)from[i];
            break;
        case ELEMENT_bf16:
            ((uint16_t *)out)[i] = to_bf16((float)from[i]);
            break;
        case ELEMENT_f16:
            ((_Float16 *)out)[i] = (_Float16)from[i];
            break;
        case ELEMENT_other:
            break;
        }
}

bool store_numbers(Session *s, const Stored *t, int64_t at, int64_t n, double *out)
{
    enum { PIECE = 4096 };
    char raw[PIECE * 8];
    const int bytes = elements[t->element].bytes;
    if (fseeko(t->file->in, (off_t)(t->begin + (uint64_t)at * (uint64_t)bytes), SEEK_SET))
        return unfit(s, t->file->path, strerror(errno));
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t k = n - i < PIECE ? n - i : PIECE;
        if (fread(raw, (size_t)bytes, (size_t)k, t->file->in) != (size_t)k)
            return unfit(s, t->file->path, "it became shorter while it was read");
        for (int64_t j = 0; j < k; j++)
            out[i + j] = widened(t->element, raw + j * bytes);
    }
    return true;
}

double *store_all(Session *s, const Stored *t)
{
    double *all = calloc((size_t)t->n + 1, sizeof *all);
    if (!all)
        unfit(s, t->file->path, arena_printf(s->arena, "no memory for '%s'", t->name));
    if (all && store_numbers(s, t, 0, t->n, all))
        return all;
    free(all);
    return NULL;
}
