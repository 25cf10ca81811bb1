/* gguf_source.c - what lies in a directory as Hugging Face's: JSON files, and the tensors of
 * model.safetensors or of the files that its index names. Nothing of it is believed. */
#include "base/open.h"
#include "compiler/gguf/gguf.h"
#include "compiler/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool unfit(Gguf *g, const char *path, const char *why)
{
    return gguf_refuse(g, 611, "%s: %s", path, why);
}

json_t *gguf_json(Gguf *g, const char *name)
{
    size_t size;
    json_error_t e;
    const char *path = arena_printf(g->s->arena, "%s/%s", g->dir, name);
    if (access(path, F_OK))
        return NULL;
    const uint32_t file = read_source(g->s, path);
    if (!file)
        return NULL;
    const char *text = diag_text(g->s->diag, file, &size);
    json_t *v = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
    json_array_append_new(g->owned, v ? v : json_null());
    if (!json_is_object(v)) {
        unfit(g, path, v ? "is no JSON object" : e.text);
        return NULL;
    }
    return v;
}

/* ---- safetensors --------------------------------------------------------------------------- */

static int bytes_of_dtype(const char *dtype)
{
    return !strcmp(dtype, "F64")                             ? 8
           : !strcmp(dtype, "F32")                           ? 4
           : !strcmp(dtype, "F16") || !strcmp(dtype, "BF16") ? 2
                                                             : 0;
}

/* One entry of a header, whose data begin at `data` of a file of `size` bytes. */
static bool read_entry(Gguf *g, const char *path, const char *name, const json_t *v, int64_t data,
                       int64_t size)
{
    GgufSource x = {.name = arena_strdup(g->s->arena, name), .path = path};
    const json_t *shape = json_object_get(v, "shape"), *at = json_object_get(v, "data_offsets");
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    const int64_t begin = json_integer_value(json_array_get(at, 0)),
                  end = json_integer_value(json_array_get(at, 1));
    int64_t n = 1;
    x.dtype = arena_strdup(g->s->arena, dtype ? dtype : "");
    x.rank = (int)json_array_size(shape);
    if (!bytes_of_dtype(x.dtype) || x.rank < 1 || x.rank > GGUF_RANK)
        return unfit(g, path,
                     arena_printf(g->s->arena,
                                  "'%s' is %.20s of %d dims; numbers of 16 to 64 bits "
                                  "in one or two dims are written",
                                  name, x.dtype, x.rank));
    for (int i = 0; i < x.rank; i++) {
        x.shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
        if (x.shape[i] < 1 || n > size / x.shape[i])
            return unfit(g, path, arena_printf(g->s->arena, "the shape of '%s' is none", name));
        n *= x.shape[i];
    }
    x.at = data + begin;
    x.bytes = end - begin;
    if (begin < 0 || end < begin || end > size - data || x.bytes != n * bytes_of_dtype(x.dtype))
        return unfit(g, path, arena_printf(g->s->arena, "'%s' does not fit into it", name));
    if (gguf_source(g, name))
        return unfit(g, path, arena_printf(g->s->arena, "'%s' is there twice", name));
    x.file = (int)g->file.n - 1;
    json_object_set_new(g->place, name, json_integer((json_int_t)g->source.n));
    vec_push(g->s->arena, &g->source, x);
    return true;
}

static bool read_file(Gguf *g, const char *path)
{
    int64_t data, size;
    const char *why, *name;
    FILE *f = open_file(path);
    if (!f)
        return unfit(g, path, open_error());
    json_t *header = safetensors_header(g->s->arena, f, &data, &size, &why), *v;
    const int fd = header ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1;
    fclose(f);
    if (!header)
        return unfit(g, path, why);
    json_array_append_new(g->owned, header);
    if (fd < 0)
        return unfit(g, path, "it cannot be read");
    vec_push(g->s->arena, &g->file, fd);
    json_object_foreach(header, name, v)
        if (!read_entry(g, path, name, v, data, size))
            return false;
    return true;
}

static bool read_index(Gguf *g, const char *path)
{
    size_t size;
    Words files = {0};
    const char *why;
    const uint32_t file = read_source(g->s, path);
    if (!file)
        return false;
    const char *text = diag_text(g->s->diag, file, &size);
    if (!safetensors_indexed(g->s->arena, text, size, &files, &why))
        return unfit(g, path, why);
    for (size_t i = 0; i < files.n; i++)
        if (!read_file(g, arena_printf(g->s->arena, "%s/%s", g->dir, files.data[i])))
            return false;
    return true;
}

bool gguf_sources(Gguf *g)
{
    const char *one = arena_printf(g->s->arena, "%s/model.safetensors", g->dir);
    const char *index = arena_printf(g->s->arena, "%s.index.json", one);
    if (access(one, F_OK) == 0)
        return read_file(g, one);
    if (access(index, F_OK) == 0)
        return read_index(g, index);
    return gguf_refuse(g, 611, "%s holds no model.safetensors, and no index of several files",
                       g->dir);
}

const GgufSource *gguf_source(const Gguf *g, const char *name)
{
    const json_t *place = json_object_get(g->place, name);
    return place ? &g->source.data[json_integer_value(place)] : NULL;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    uint32_t bits = sign | (e == 31 ? 0x7f800000 | m << 13 : (e + 112) << 23 | m << 13);
    float v;
    if (e == 0) {
        v = (float)m * 0x1p-24F;
        return sign ? -v : v;
    }
    memcpy(&v, &bits, 4);
    return v;
}

bool gguf_read(Gguf *g, const GgufSource *x, int64_t first, int64_t n, void *buffer, float *out)
{
    const int size = bytes_of_dtype(x->dtype);
    const size_t want = (size_t)(n * size);
    for (size_t done = 0; done < want;) {
        const ssize_t got = pread(g->file.data[x->file], (char *)buffer + done, want - done,
                                  x->at + first * size + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return unfit(g, x->path, got ? strerror(errno) : "it became shorter");
        done += (size_t)got;
    }
    const uint16_t *half = buffer;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = size == 2 ? (uint32_t)half[i] << 16 : 0;
        if (size == 8)
            out[i] = (float)((const double *)buffer)[i];
        else if (size == 4)
            out[i] = ((const float *)buffer)[i];
        else if (x->dtype[0] == 'F')
            out[i] = from_f16(half[i]);
        else
            memcpy(&out[i], &bits, 4);
    }
    return true;
}
