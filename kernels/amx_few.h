/* amx_few.h - a few rows of bf16 times a matrix on tiles of AMX (amx.h): memory is the bound, so
 * the matrix is read where it is. Where its terms are contiguous, 16 columns are loaded as a tile
 * that is the first operand, and the result is turned; where its columns are, pairs of rows are
 * joined on their way. What a row's sums are does not depend on the other rows. */
#ifndef MGK_AMX_FEW_H
#define MGK_AMX_FEW_H

#include "runtime/abi.h"

/* m: rows, at most 16. k: terms. turned: the terms of B are contiguous. a: rows packed as tiles, of
 * B if turned, of A otherwise. b: with a stride of ldb elements. sums: of rows, lds apart, n of
 * each and room for whole panels of 32; what is in them is replaced. */
typedef struct mgk_amx_few {
    int64_t m, n, k;
    bool turned;
    const char *a;
    const uint16_t *b;
    int64_t ldb;
    float *sums;
    int64_t lds;
} mgk_amx_few;
void mgk_amx_few_rows(const mgk_amx_few *w);

#endif
