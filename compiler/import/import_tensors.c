/* import_tensors.c - names and shapes of a directory's safetensors files, against a module's. */
#include "base/open.h"
#include "compiler/import/import.h"
#include "compiler/safetensors.h"
#include "ir/external.h"

#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

static bool unfit(const Import *h, const char *path, const char *why)
{
    diag_error(h->s->diag, (Span){0}, 571, "%s: %s", path, why);
    return false;
}

/* The header of one file, merged into h->tensors. */
static bool read_file(Import *h, const char *path)
{
    int64_t data, size;
    const char *why, *name;
    FILE *f = open_file(path);
    if (!f)
        return unfit(h, path, open_error());
    json_t *header = safetensors_header(h->s->arena, f, &data, &size, &why), *tensor;
    fclose(f);
    if (!header)
        return unfit(h, path, why);
    json_array_append_new(h->owned, header);
    json_object_foreach(header, name, tensor)
        if (json_object_get(h->tensors, name))
            return unfit(h, path, arena_printf(h->s->arena, "'%s' is in two files", name));
    json_object_update(h->tensors, header);
    return true;
}

static bool read_index(Import *h, const char *path)
{
    size_t size;
    Words files = {0};
    const char *why;
    const uint32_t file = read_source(h->s, path);
    if (!file)
        return false;
    const char *text = diag_text(h->s->diag, file, &size);
    if (!safetensors_indexed(h->s->arena, text, size, &files, &why))
        return unfit(h, path, why);
    for (size_t i = 0; i < files.n; i++)
        if (!read_file(h, arena_printf(h->s->arena, "%s/%s", h->dir, files.data[i])))
            return false;
    return true;
}

bool import_tensors(Import *h)
{
    const char *one = arena_printf(h->s->arena, "%s/model.safetensors", h->dir);
    const char *index = arena_printf(h->s->arena, "%s.index.json", one);
    bool single = access(one, F_OK) == 0;
    if (!single && access(index, F_OK))
        return true; /* a config alone */
    h->tensors = json_object();
    json_array_append_new(h->owned, h->tensors);
    return single ? read_file(h, one) : read_index(h, index);
}

/* ---- agreement ----------------------------------------------------------------------------- */

static const char *shape_text(const Import *h, int rank, const int64_t *shape)
{
    const char *text = "[";
    for (int i = 0; i < rank; i++)
        text = arena_printf(h->s->arena, "%s%s%lld", text, i ? ", " : "", (long long)shape[i]);
    return arena_printf(h->s->arena, "%s]", text);
}

static bool same_shape(const json_t *shape, int rank, const int64_t *want)
{
    bool same = json_is_array(shape) && (int)json_array_size(shape) == rank;
    for (int i = 0; same && i < rank; i++)
        same = json_integer_value(json_array_get(shape, (size_t)i)) == want[i];
    return same;
}

static bool matches(const json_t *patterns, const char *name)
{
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern)
        if (fnmatch(json_string_value(pattern), name, 0) == 0)
            return true;
    return false;
}

/* One external tensor: takes it out of what is left. */
static bool agree_one(const Import *h, json_t *left, const char *name, int rank,
                      const int64_t *want)
{
    json_t *tensor = json_object_get(left, name);
    Arena *a = h->s->arena;
    if (!tensor && matches(h->fresh, name))
        return true;
    if (!tensor)
        return unfit(h, h->dir,
                     arena_printf(a, "%s is missing: %s", name, shape_text(h, rank, want)));
    json_t *shape = json_object_get(tensor, "shape");
    if (!same_shape(shape, rank, want)) {
        char *has = json_dumps(shape ? shape : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);
        unfit(h, h->dir,
              arena_printf(a, "%s is %.200s; config.json makes it %s", name, has,
                           shape_text(h, rank, want)));
        free(has);
        return false;
    }
    json_object_del(left, name);
    return true;
}

static int64_t external_count(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->stacked; i++)
        n *= t->valid[i];
    return n;
}

/* Of the parts of a tensor the first stands for all. */
static bool agree_tensor(const Import *h, json_t *left, const Module *m, const Tensor *t)
{
    int64_t shape[MAX_RANK];
    bool same = true;
    if (t->part_at)
        return true;
    for (int i = 0; i < t->external_rank; i++)
        shape[i] = t->part_of && i == t->part_dim ? t->part_of : external_size(t, i);
    for (int64_t n = 0; n < external_count(t); n++)
        same &= agree_one(h, left,
                          external_name(h->s->arena, name_str(m->names, t->external), t->valid, n),
                          t->external_rank, shape);
    return same;
}

bool import_agree(const Import *h, const Module *m)
{
    json_t *left = json_copy(h->tensors), *tensor;
    const char *name;
    bool same = true;
    for (size_t i = 0; i < m->tensors.n; i++)
        if (!m->tensors.data[i].slot && !m->tensors.data[i].follows)
            same &= agree_tensor(h, left, m, &m->tensors.data[i]);
    /* Files may hold more than parameters: masks and tables that mgc computes, a tied head. */
    json_object_foreach(left, name, tensor)
        if (!matches(h->extra, name) && !json_is_null(tensor))
            same =
                unfit(h, h->dir, arena_printf(h->s->arena, "%.200s is not in such a model", name));
    json_decref(left);
    return same;
}
