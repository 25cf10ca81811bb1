/* random.h - the operands of a draw, shared by random.c and its body. */
#ifndef MGK_RANDOM_H
#define MGK_RANDOM_H

#include "kernels/round_bits.h"

typedef struct mgk_draw {
    uint32_t key[2];
    uint64_t step;
    uint64_t first; /* global index of out[0] */
    int64_t elements;
    void *out;
} mgk_draw;

#endif
