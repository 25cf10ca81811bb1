/* parquet_parts.h - what the files of the reader of Parquet share: the schema, cursors over
 * columns, and readers of encodings. */
#ifndef MGC_TOK_PARQUET_PARTS_H
#define MGC_TOK_PARQUET_PARTS_H

#include "compiler/tok/parquet.h"

/* Numbers are those of parquet.thrift. */
enum { PQ_BOOLEAN, PQ_INT32, PQ_INT64, PQ_INT96, PQ_FLOAT, PQ_DOUBLE, PQ_BYTES, PQ_FIXED };
enum { PQ_REQUIRED, PQ_OPTIONAL, PQ_REPEATED };
enum { PQ_DEPTH = 32, PQ_NODES = 1 << 14 };

/* Thrift's compact protocol. After an error, `bad`, all that is read is 0. */
typedef struct PqThrift {
    const uint8_t *p, *end;
    bool bad;
} PqThrift;
uint64_t pq_varint(PqThrift *t);
int64_t pq_zigzag(PqThrift *t);
/* The next field of a struct: its type, or 0 at the end. `id` is that of the field before. */
int pq_field(PqThrift *t, int *id);
int64_t pq_number(PqThrift *t, int type); /* of a field; skips what is no number */
size_t pq_list(PqThrift *t, int type, int of);
void pq_skip(PqThrift *t, int type, int depth);
enum { THRIFT_true = 1, THRIFT_false, THRIFT_byte, THRIFT_i32 = 5, THRIFT_i64 };
enum { THRIFT_double = 7, THRIFT_binary, THRIFT_list, THRIFT_set, THRIFT_map, THRIFT_struct };

/* A node of the schema, in preorder. */
typedef struct PqNode {
    const char *name; /* in the footer */
    size_t name_length;
    int type; /* of a leaf, or -1 */
    int repetition, children, converted;
    bool list, map, text, unsign, known;
    int def, rep;  /* the levels at which it is there, and repeats */
    int leaf;      /* the first below it */
    int leaves;    /* below it */
    size_t behind; /* the node after all below it */
} PqNode;

typedef struct PqChunk { /* of a column in a row group */
    int64_t at, size, values;
    int codec;
} PqChunk;

/* Runs of equal and of packed numbers. */
typedef struct PqRuns {
    const uint8_t *p, *end, *packed;
    int width;
    uint64_t left, bit;
    uint32_t value;
} PqRuns;

typedef struct PqDelta {
    PqThrift t;
    const uint8_t *widths, *data;
    uint64_t left, value, least;
    uint32_t each, minis, mini, of_mini, width; /* values in a miniblock; miniblocks in a block */
    bool begun;
} PqDelta;

typedef struct PqValue {
    const uint8_t *p;
    size_t n;
    uint64_t bits; /* of a number */
} PqValue;

typedef struct PqColumn {
    Parquet *of;
    const PqNode *leaf;
    int64_t at, end; /* in the file, of what is not read */
    int64_t left;    /* levels of the chunk behind those of the page */
    int codec, encoding;
    uint8_t *page, *dict;
    size_t dict_size;
    PqValue *entry; /* of the dictionary */
    size_t entries;
    uint32_t of_page; /* levels of the page that are not taken */
    const uint8_t *p, *stop;
    PqRuns reps, defs, index;
    PqDelta lengths, prefixes;
    uint8_t *before; /* the value before, of values that share its beginning */
    size_t before_size, before_cap;
    size_t bit;        /* of booleans, or the number of the next split value */
    bool ready, ended; /* rep and def are those of the next; there is none */
    uint32_t rep, def;
} PqColumn;

struct Parquet {
    int fd;
    int64_t size, data_end;
    uint8_t *footer;
    PqNode *node;
    size_t nodes;
    int leaves;
    PqChunk *chunk; /* [group][leaf] */
    int64_t *rows;  /* of each group */
    size_t groups, group;
    int64_t row; /* of the group, the next one */
    PqColumn *column;
    bool opened; /* the group's columns are at its rows */
    char *text;
    size_t n, cap;
    char why[240];
};

bool pq_fail(Parquet *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool pq_read(Parquet *p, int64_t at, void *to, size_t n);
void *pq_alloc(size_t n);
static inline uint32_t pq_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* parquet.c */
bool pq_utf8(const uint8_t *p, size_t n);
/* parquet_meta.c */
bool pq_footer(Parquet *p);
/* parquet_codec.c: exactly `room` bytes come of it. */
bool pq_unpack(int codec, const uint8_t *from, size_t n, uint8_t *to, size_t room);
/* parquet_page.c */
bool pq_column_fail(PqColumn *c, const char *what);
void pq_column_begin(PqColumn *c, const PqChunk *chunk);
bool pq_peek(PqColumn *c); /* fills rep and def, or ended */
void pq_column_free(PqColumn *c);
/* parquet_values.c */
bool pq_runs(PqRuns *r, uint32_t *value);
int pq_width(uint32_t most);
bool pq_values_begin(PqColumn *c); /* of c->encoding, at c->p */
bool pq_value(PqColumn *c, PqValue *v);
bool pq_plain(PqColumn *c, PqValue *v);

#endif
