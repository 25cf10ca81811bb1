/* safetensors.c - see safetensors.h. */
#include "compiler/safetensors.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_MAX = 100000000 };

/* The size of the header, which stands before it; 0: it does not fit into the file. */
static size_t header_size(FILE *in, int64_t size)
{
    unsigned char first[8];
    uint64_t n = 0;
    if (size < 8 || fread(first, 1, 8, in) != 8)
        return 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    return n < 2 || n > HEADER_MAX || n > (uint64_t)size - 8 ? 0 : (size_t)n;
}

json_t *safetensors_header(Arena *a, FILE *in, int64_t *data, int64_t *size, const char **why)
{
    struct stat st;
    json_error_t e;
    if (fstat(fileno(in), &st))
        return *why = strerror(errno), NULL;
    *size = st.st_size;
    const size_t n = header_size(in, *size);
    if (!n)
        return *why = "no safetensors file: its header does not fit into it", NULL;
    Arena *own = arena_new(); /* a header may be large, and is not needed as text */
    char *text = arena_alloc(own, n);
    const bool whole = fread(text, 1, n, in) == n;
    json_t *header = whole ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &e) : NULL;
    arena_free(own);
    *data = 8 + (int64_t)n;
    *why = !whole ? "it cannot be read" : header ? "its header is no JSON object" : "";
    if (whole && !header)
        *why = arena_strdup(a, e.text);
    if (!json_is_object(header)) {
        json_decref(header);
        return NULL;
    }
    json_object_del(header, "__metadata__");
    return header;
}

bool safetensors_indexed(Arena *a, const char *text, size_t size, Words *files, const char **why)
{
    json_error_t e;
    json_t *index = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e), *seen = json_object(), *v;
    json_t *map = json_object_get(index, "weight_map");
    const char *tensor;
    *why = json_is_object(map) ? NULL
           : index             ? "there is no \"weight_map\""
                               : arena_strdup(a, e.text);
    json_object_foreach(map, tensor, v) {
        const char *file = json_string_value(v);
        if (*why || (file && json_object_get(seen, file)))
            continue;
        if (!file || !*file || *file == '.' || strchr(file, '/'))
            *why = arena_printf(a, "the file of '%.200s' is no name of a file beside it", tensor);
        else if (json_object_set_new(seen, file, json_true()) == 0)
            vec_push(a, files, arena_strdup(a, file));
    }
    json_decref(seen);
    json_decref(index);
    return !*why;
}
