/* generated.h - programs that generate, against their whole windows: @prefill and @decode, call
 * after call, give the logits of @sample, which computes the whole window for each token. */
#ifndef MGC_TESTS_PASSES_GENERATED_H
#define MGC_TESTS_PASSES_GENERATED_H

#include "tests/passes/model.h"

/* Elaborates a text in f64, with up to 12 definitions that end with NULL, or none (NULL); passes up
 * to the attention's are run, and the test fails if they complain. sequences: texts at once, for a
 * program that generates, which has to go through pass generate; 0: for one that trains. head: the
 * longest head that the device has tiles of attention for; 0: any. False: it was refused. */
bool generated_open(Model *t, const char *path, const char *text, const char *const *define,
                    int64_t sequences, int64_t head);

/* The same of texts that begin with one prompt, which is read once for all of them: pass spread is
 * run, too. */
bool generated_open_shared(Model *t, const char *path, const char *text, const char *const *define,
                           int64_t head);

/* How far calls are from whole windows. */
typedef struct Generated {
    double worst;   /* relative to the larger of 1 and the logit */
    int64_t tokens; /* that were generated, of all texts */
    int cuts;       /* so often one was cut back, and went on otherwise */
    Tensor64 *args; /* of @sample, where it is worst */
} Generated;

/* Three texts take turns, drawn from `seed`: some go on by some tokens, others by none; where
 * caches can be cut back, some are, and go on with other tokens. Results live in the models. */
enum { GENERATED_TEXTS = 3 };
Generated generated_compare(Model *generates, Model *whole, int turns, uint64_t seed);
/* A prompt is read by calls of @prefill; @spread brings it to all texts but one, which begins with
 * other tokens; then all go on by @decode. */
Generated generated_compare_shared(Model *generates, Model *whole, int turns, uint64_t seed);

#endif
