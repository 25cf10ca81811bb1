/* import.h - mgc import-hf: what its parts share. */
#ifndef MGC_IMPORT_H
#define MGC_IMPORT_H

#include "compiler/session.h"

#include <jansson.h>

typedef enum Family {
    FAMILY_llama,
    FAMILY_qwen2,
    FAMILY_qwen3,
    FAMILY_mistral,
    FAMILY_mixtral,
    FAMILY_phi3,
    FAMILY_mamba2,
    FAMILY_bamba,
    FAMILY_gpt2
} Family;

/* A model as its config.json describes it. */
typedef struct HfModel {
    Session *s;
    const char *dir, *path;   /* of config.json */
    json_t *config, *tensors; /* tensors: name -> {"shape": [...], ...} of all files; NULL: none */
    json_t *owned;            /* an array of all that was made */
    Family family;
    int64_t hidden, ffn, layers, heads, kv_heads, head, vocab, positions;
    double eps, theta, std;
    bool tied, qkv_bias, qk_norm;
    bool scaled;    /* rotary rates as in Llama 3.1 */
    int64_t turn;   /* of a head, the elements that rotary positions turn */
    int64_t window; /* of attention; 0: none that is shorter than the positions */
    double factor, low, high, original;
    int64_t experts,
        best; /* of a mixture: how many a layer has, and how many a position uses; or 0 */
    int64_t lanes, lane; /* of Mamba 2's mixer: heads and their size; 0: there is none */
    int64_t state, taps;
    json_t *attending; /* the layers with attention, of a model whose others have a mixer */
    double balancing;  /* of its loss: the factor of how unevenly they are used, or 0 */
} HfModel;

/* import_config.c: false after telling all that is wrong or not built. */
bool import_config(HfModel *h);
/* import_write.c: the .mg file, and blocks that several families have. */
void import_write(const HfModel *h, FILE *out);
void import_write_norm(FILE *out);
void import_write_attention(const HfModel *h, FILE *out);
void import_write_mlp(const HfModel *h, FILE *out);
/* import_mamba.c */
void import_mixer_dims(const HfModel *h, FILE *out);
void import_write_mamba2(const HfModel *h, FILE *out);
void import_write_bamba(const HfModel *h, FILE *out);
/* import_tensors.c: the headers of a directory's safetensors files, and their agreement with the
 * parameters of a module. */
bool import_tensors(HfModel *h);
bool import_agree(const HfModel *h, const Module *m);

#endif
