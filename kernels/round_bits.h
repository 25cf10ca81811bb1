/* round_bits.h - what generated kernels round at random by. */
#ifndef MGK_ROUND_BITS_H
#define MGK_ROUND_BITS_H

#include "kernels/isa.h"

enum { MGK_WIDE = 16 }; /* counters encrypted together */

typedef struct mgk_bits {
    uint32_t key[2], row, col;
    uint64_t step;
    int64_t n;
    uint32_t *out;
} mgk_bits;

/* The words by which generated kernels, which call it, round at random: those of columns
 * [col, col + n) of a row of a tensor, as ir_round_bits in ir/interpret.h has them, under the seed
 * of the run, the step and the tensor's key. */
void mg_round_bits(uint32_t *out, int64_t n, int32_t row, int32_t col, int64_t seed, int64_t step,
                   uint64_t key);

#endif
