/* safetensors.c - parses and writes the header of a safetensors file; see safetensors.h. */
#include "runtime/checkpoint/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/json.h"
#include "runtime/run.h"

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

int rt_st_bits(const char *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            return dtypes[i].bits;
    return 0;
}

__attribute__((format(printf, 2, 3))) static bool fail(char error[ST_ERROR], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, ST_ERROR, fmt, ap);
    va_end(ap);
    return false;
}

uint64_t rt_st_header_size(const uint8_t first[8], uint64_t file_size, char error[ST_ERROR])
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    if (n < 2 || n > ST_HEADER_MAX) {
        fail(error, "its header is said to be %" PRIu64 " bytes long (2 to %d)", n, ST_HEADER_MAX);
        return 0;
    }
    if (file_size < 8 || n > file_size - 8) {
        fail(error, "its header is said to be %" PRIu64 " bytes long, but the file has %" PRIu64, n,
             file_size);
        return 0;
    }
    return n;
}

/* Keys of __metadata__, kept until they can be sorted: names must be unique. */
typedef struct names {
    char **item;
    size_t n, cap;
} names;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool parse_metadata(rt_json *j, char error[ST_ERROR])
{
    names keys = {0};
    bool good = rt_json_enter(j, '{');
    while (good && rt_json_key(j)) {
        if (keys.n == keys.cap)
            keys.item = rt_grow(keys.item, keys.cap = keys.cap ? 2 * keys.cap : 16, sizeof(char *));
        keys.item[keys.n++] = rt_printf("%s", j->text);
        good = rt_json_string(j);
    }
    if (keys.n)
        qsort(keys.item, keys.n, sizeof(char *), by_text);
    good = good && !j->error;
    for (size_t i = 1; good && i < keys.n; i++)
        if (strcmp(keys.item[i - 1], keys.item[i]) == 0)
            good = fail(error, "__metadata__ has the key '%.80s' twice", keys.item[i]);
    for (size_t i = 0; i < keys.n; i++)
        free(keys.item[i]);
    free(keys.item);
    return good;
}

static bool parse_shape(rt_json *j, rt_st_tensor *t, char error[ST_ERROR])
{
    if (!rt_json_enter(j, '['))
        return false;
    while (rt_json_item(j)) {
        int64_t size;
        if (!rt_json_int(j, &size))
            return false;
        if (t->rank == ST_RANK_MAX)
            return fail(error, "%.80s has more than %d dims", t->name, ST_RANK_MAX);
        if (size < 0)
            return fail(error, "%.80s has a dim of %" PRId64, t->name, size);
        t->shape[t->rank++] = size;
    }
    return !j->error;
}

static bool parse_offsets(rt_json *j, rt_st_tensor *t, char error[ST_ERROR])
{
    int64_t v[2];
    int n = 0;
    if (!rt_json_enter(j, '['))
        return false;
    while (rt_json_item(j)) {
        if (n == 2)
            return fail(error, "%.80s has more than two data_offsets", t->name);
        if (!rt_json_int(j, &v[n++]))
            return false;
    }
    if (j->error)
        return false;
    if (n != 2 || v[0] < 0 || v[1] < v[0])
        return fail(error, "%.80s has data_offsets that are not [begin, end]", t->name);
    t->begin = (uint64_t)v[0];
    t->end = (uint64_t)v[1];
    return true;
}

/* Checks that dtype, shape and data_offsets agree, without overflow. */
static bool check_size(const rt_st_tensor *t, char error[ST_ERROR])
{
    uint64_t bits = (uint64_t)rt_st_bits(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bits, (uint64_t)t->shape[i], &bits))
            return fail(error, "%.80s has more elements than 64 bits count", t->name);
    if (bits % 8)
        return fail(error, "%.80s does not end at a byte", t->name);
    if (bits / 8 != t->end - t->begin)
        return fail(
            error, "%.80s takes %" PRIu64 " bytes by its shape and %" PRIu64 " by its data_offsets",
            t->name, bits / 8, t->end - t->begin);
    return true;
}

static bool parse_tensor(rt_json *j, rt_st_tensor *t, char error[ST_ERROR])
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    unsigned seen = 0;
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        unsigned key = strcmp(j->text, "dtype") == 0          ? DTYPE
                       : strcmp(j->text, "shape") == 0        ? SHAPE
                       : strcmp(j->text, "data_offsets") == 0 ? OFFSETS
                                                              : 0;
        if (!key || (seen & key))
            return fail(error, "%.80s has the key '%.40s'%s", t->name, j->text,
                        key ? " twice" : ", which is not known");
        seen |= key;
        if (key == DTYPE) {
            if (!rt_json_string(j))
                return false;
            if (!rt_st_bits(j->text))
                return fail(error, "%.80s has the unknown dtype '%.20s'", t->name, j->text);
            memcpy(t->dtype, j->text, j->length + 1);
        } else if (!(key == SHAPE ? parse_shape(j, t, error) : parse_offsets(j, t, error))) {
            return false;
        }
    }
    if (j->error)
        return false;
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return fail(error, "%.80s lacks dtype, shape or data_offsets", t->name);
    return check_size(t, error);
}

static bool parse_entries(rt_json *j, rt_st *st, char error[ST_ERROR])
{
    size_t cap = 0;
    bool metadata = false;
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        if (strcmp(j->text, "__metadata__") == 0) {
            if (metadata)
                return fail(error, "__metadata__ comes twice");
            metadata = true;
            if (!parse_metadata(j, error))
                return false;
            continue;
        }
        if (!j->length || j->length > ST_NAME_MAX)
            return fail(error, "a tensor's name has %zu bytes (1 to %d)", j->length, ST_NAME_MAX);
        if (st->n == ST_TENSORS_MAX)
            return fail(error, "more than %d tensors", ST_TENSORS_MAX);
        if (st->n == cap)
            st->tensor = rt_grow(st->tensor, cap = cap ? 2 * cap : 64, sizeof *st->tensor);
        rt_st_tensor *t = &st->tensor[st->n++];
        *t = (rt_st_tensor){.name = rt_printf("%s", j->text)};
        if (!parse_tensor(j, t, error))
            return false;
    }
    return rt_json_end(j);
}

static int by_offset(const void *a, const void *b)
{
    const rt_st_tensor *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1)
           : x->end != y->end   ? (x->end < y->end ? -1 : 1)
                                : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const rt_st_tensor *)a)->name, ((const rt_st_tensor *)b)->name);
}

/* Checks that the tensors, sorted by offset, tile the data from 0 to the end, and, sorted by name,
 * are unique. */
static bool check_tiling(rt_st *st, uint64_t data_bytes, char error[ST_ERROR])
{
    uint64_t at = 0;
    if (st->n)
        qsort(st->tensor, st->n, sizeof *st->tensor, by_offset);
    for (size_t i = 0; i < st->n; i++) {
        const rt_st_tensor *t = &st->tensor[i];
        if (t->begin != at)
            return fail(error,
                        "%.80s begins at %" PRIu64
                        ", %s the tensor before it, which ends at %" PRIu64,
                        t->name, t->begin, t->begin < at ? "inside" : "with a hole after", at);
        at = t->end;
    }
    if (at != data_bytes)
        return fail(error, "its tensors end at %" PRIu64 " of %" PRIu64 " bytes of data", at,
                    data_bytes);
    if (st->n)
        qsort(st->tensor, st->n, sizeof *st->tensor, by_name);
    for (size_t i = 1; i < st->n; i++)
        if (strcmp(st->tensor[i - 1].name, st->tensor[i].name) == 0)
            return fail(error, "two tensors are called %.80s", st->tensor[i].name);
    return true;
}

bool rt_st_parse(rt_st *st, const void *json, uint64_t n, uint64_t file_size, char error[ST_ERROR])
{
    rt_json j;
    *st = (rt_st){0};
    error[0] = 0;
    if (file_size < 8 || n > file_size - 8 || n > ST_HEADER_MAX)
        return fail(error, "its header is longer than the file or than %d bytes", ST_HEADER_MAX);
    rt_json_begin(&j, json, (size_t)n);
    bool good = n > 0 && *(const char *)json == '{'
                    ? parse_entries(&j, st, error)
                    : fail(error, "its header does not begin with '{'");
    if (!good && !error[0])
        fail(error, "its header is wrong at byte %td: %s", j.at - j.begin, j.error ? j.error : "?");
    st->data = 8 + n;
    good = good && check_tiling(st, file_size - st->data, error);
    rt_json_free(&j);
    if (!good)
        rt_st_free(st);
    return good;
}

void rt_st_free(rt_st *st)
{
    for (size_t i = 0; i < st->n; i++)
        free(st->tensor[i].name);
    free(st->tensor);
    *st = (rt_st){0};
}

const rt_st_tensor *rt_st_find(const rt_st *st, const char *name)
{
    rt_st_tensor key = {.name = (char *)name};
    return st->n ? bsearch(&key, st->tensor, st->n, sizeof *st->tensor, by_name) : NULL;
}

char *rt_st_header(const rt_st_tensor *tensor, size_t n, size_t *size)
{
    char *text = NULL;
    uint64_t at = 0;
    FILE *f = open_memstream(&text, size);
    if (!f)
        rt_die(RT_FAILED, "no memory for the header of a checkpoint");
    fwrite("\0\0\0\0\0\0\0\0", 1, 8, f);
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", f);
    for (size_t i = 0; i < n; i++) {
        const rt_st_tensor *t = &tensor[i];
        char *name = rt_json_escape(t->name);
        uint64_t bytes = (uint64_t)rt_st_bits(t->dtype) / 8;
        fprintf(f, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, t->dtype);
        for (int k = 0; k < t->rank; k++) {
            fprintf(f, "%s%" PRId64, k ? "," : "", t->shape[k]);
            bytes *= (uint64_t)t->shape[k];
        }
        fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
        free(name);
    }
    fputc('}', f);
    while (ftell(f) % 8)
        fputc(' ', f);
    if (fclose(f))
        rt_die(RT_FAILED, "no memory for the header of a checkpoint");
    uint64_t json = *size - 8;
    for (int i = 0; i < 8; i++)
        text[i] = (char)(json >> (8 * i));
    return text;
}

char *rt_st_read(const char *path, int fd, rt_st *st)
{
    struct stat s;
    uint8_t first[8];
    char error[ST_ERROR];
    if (fstat(fd, &s) || s.st_size < 8 || !rt_read_at(fd, first, 8, 0))
        return rt_printf("%s is no safetensors file: it is shorter than 8 bytes", path);
    uint64_t n = rt_st_header_size(first, (uint64_t)s.st_size, error);
    if (!n)
        return rt_printf("%s: %s", path, error);
    char *json = rt_alloc(n, 1), *why = NULL;
    if (!rt_read_at(fd, json, n, 8))
        why = rt_printf("%s cannot be read: %s", path, strerror(errno));
    else if (!rt_st_parse(st, json, n, (uint64_t)s.st_size, error))
        why = rt_printf("%s: %s", path, error);
    free(json);
    return why;
}
