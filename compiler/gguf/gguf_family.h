/* gguf_family.h - a family on its way to a file: what its dense and its sparse layers share. */
#ifndef MGC_GGUF_FAMILY_H
#define MGC_GGUF_FAMILY_H

#include "compiler/gguf/gguf.h"

enum {
    LLAMA = 1,
    QWEN2 = 2,
    QWEN3 = 4,
    GEMMA = 8,
    GEMMA2 = 16,
    GEMMA3 = 32,
    MIXTRAL = 64,
    QWEN2_MOE = 128,
    QWEN3_MOE = 256
};
enum { SPARSE = MIXTRAL | QWEN2_MOE | QWEN3_MOE, ALL = 511, DENSE = ALL & ~SPARSE };

typedef struct Family {
    Gguf *g;
    const char *model_type;
    int is;
    int64_t layers, hidden, heads, kv_heads, head, positions, vocab;
    int64_t experts; /* of a sparse layer */
    double theta;
    const json_t *rope; /* rope_parameters, or rope_scaling: of full attention */
} Family;

/* A value of config.json; NULL: it is missing, or null. */
const json_t *gguf_key(const Family *f, const char *name);
/* Tells what is wrong with one; always false. */
bool gguf_bad_key(const Family *f, const char *name, const char *why);
/* A whole number of at least 1; `without` where it is missing, 0: it may not be. */
bool gguf_whole(const Family *f, const char *name, int64_t without, int64_t *out);

/* The type of a matrix whose rows have n numbers: that is asked for, as far as they are whole
 * blocks. */
GgufType gguf_matrix_type(const Gguf *g, int64_t n);

/* ---- gguf_experts.c: metadata of experts, and their tensors of a layer. */
bool gguf_experts_sizes(Family *f);
bool gguf_experts_layer(const Family *f, int64_t layer, int64_t *taken);

#endif
