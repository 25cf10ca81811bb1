/* gguf.h - mgc gguf: a directory as Hugging Face's to one file as llama.cpp reads it; what its
 * parts share.
 *
 * GGUF, version 3: "GGUF", version, counts; metadata, each a key, a type and a value; of each
 * tensor its name, dims (the innermost first), type and place; then the tensors, each at a multiple
 * of 32 bytes. All little-endian. */
#ifndef MGC_GGUF_H
#define MGC_GGUF_H

#include "compiler/session.h"

#include <jansson.h>

enum { GGUF_ALIGN = 32, GGUF_RANK = 2, GGUF_DIMS = 3 }; /* dims of what is read, and written */

/* Types of tensors, by their numbers in files. */
typedef enum GgufType { GGUF_f32 = 0, GGUF_f16 = 1, GGUF_q8_0 = 8, GGUF_bf16 = 30 } GgufType;

/* A tensor of the directory. */
typedef struct GgufSource {
    const char *name, *path; /* path: of its file */
    const char *dtype;
    int file; /* index of its descriptor */
    int rank;
    int64_t shape[GGUF_RANK];
    int64_t at, bytes; /* in the file */
} GgufSource;

/* A tensor of the file that is written. */
typedef struct GgufTensor {
    const char *name;
    const GgufSource *source; /* NULL: `values` */
    const float *values;
    const GgufSource *const *part; /* NULL, or one behind the other, from `source` on */
    int64_t parts;
    int rank;
    int64_t shape[GGUF_DIMS]; /* the outermost first */
    GgufType type;
    int64_t turned;  /* rows of a head whose halves are interleaved; 0: none are */
    bool from_one;   /* the model adds 1 to it */
    uint64_t offset; /* in the data */
} GgufTensor;

typedef struct Gguf {
    Session *s;
    const char *dir;
    json_t *config, *owned; /* owned: an array of all that was read */
    json_t *place;          /* name of a tensor -> its index */
    VEC(GgufSource) source;
    VEC(int) file;
    FILE *meta; /* what was written of the metadata, */
    char *meta_text;
    size_t meta_size;
    uint64_t keys; /* and how many there are */
    VEC(GgufTensor) tensor;
    GgufType type;
    const char *arch;
} Gguf;

/* Tells what cannot be written; always false. */
bool gguf_refuse(Gguf *g, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- gguf_write.c: metadata. A key that begins with '.' has the architecture before it. */

void gguf_u32(Gguf *g, const char *key, int64_t v);
void gguf_f32(Gguf *g, const char *key, double v);
void gguf_flag(Gguf *g, const char *key, bool v);
void gguf_text(Gguf *g, const char *key, const char *v);
/* The beginning of a list of n values, which follow by gguf_put_*. */
void gguf_list(Gguf *g, const char *key, const char *of, uint64_t n);
void gguf_put_u32(FILE *out, uint32_t v);
void gguf_put_u64(FILE *out, uint64_t v);
void gguf_put_f32(FILE *out, float v);
void gguf_put_text(FILE *out, const char *v, size_t n);

/* All of it; false after telling what is wrong. */
bool gguf_write(Gguf *g, FILE *out);

/* ---- gguf_source.c */

/* A JSON file of the directory; NULL if it is not there, or, with an error, no object. */
json_t *gguf_json(Gguf *g, const char *name);
bool gguf_sources(Gguf *g); /* the tensors that lie there */
const GgufSource *gguf_source(const Gguf *g, const char *name);
/* Elements [first, first + n) of a tensor as floats; `buffer` takes 8 n bytes. */
bool gguf_read(Gguf *g, const GgufSource *x, int64_t first, int64_t n, void *buffer, float *out);

/* ---- gguf_family.c, gguf_experts.c: metadata and tensors of the family that config.json names. */
bool gguf_family(Gguf *g);
/* ---- gguf_tokens.c: metadata of the tokenizer. */
bool gguf_tokens(Gguf *g);

/* ---- gguf.c */
Exit command_gguf(Session *s);

#endif
