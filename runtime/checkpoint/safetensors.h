/* safetensors.h - the header of a safetensors file: read strictly, written canonically.
 *
 *   u64 little-endian N | N bytes of JSON, beginning with '{' | data, offsets relative to its start
 *
 * Only the reader makes an rt_st. It guarantees names that are unique and not empty, known dtypes,
 * shapes that do not overflow, and offsets that tile the data exactly to the file's end. */
#ifndef MG_SAFETENSORS_H
#define MG_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ST_RANK_MAX = 8,
    ST_NAME_MAX = 1024,
    ST_HEADER_MAX = 100000000, /* bytes; the limit of the reference reader */
    ST_TENSORS_MAX = 1000000,
    ST_ERROR = 256,
};

typedef struct rt_st_tensor {
    char *name;
    char dtype[12]; /* "F32" */
    int rank;
    int64_t shape[ST_RANK_MAX];
    uint64_t begin, end; /* bytes in the data */
} rt_st_tensor;

typedef struct rt_st {
    rt_st_tensor *tensor; /* sorted by name */
    size_t n;
    uint64_t data; /* file offset of the data */
} rt_st;

/* The N of the first eight bytes, checked against the file's size; 0 and `error` if it is bad. */
uint64_t rt_st_header_size(const uint8_t first[8], uint64_t file_size, char error[ST_ERROR]);
/* Parses the N bytes of JSON of a file of `file_size` bytes. False with `error` if anything is
 * wrong; `st` is then empty. */
bool rt_st_parse(rt_st *st, const void *json, uint64_t n, uint64_t file_size, char error[ST_ERROR]);
/* Reads the header of an open file; NULL, or its fault (the caller frees it). */
char *rt_st_read(const char *path, int fd, rt_st *st);
void rt_st_free(rt_st *st);
const rt_st_tensor *rt_st_find(const rt_st *st, const char *name);

/* Makes the eight bytes and the JSON for tensors stored in the given order, padded with spaces to a
 * multiple of eight; sets *size. Offsets follow from shapes. The caller frees it. */
char *rt_st_header(const rt_st_tensor *tensor, size_t n, size_t *size);
int rt_st_bits(const char *dtype); /* bits of an element; 0: not a dtype */

#endif
