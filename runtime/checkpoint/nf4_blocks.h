/* nf4_blocks.h - how numbers become NF4, and scales of scales, as bitsandbytes quantises them
 * (quantize_4bit, quantize_blockwise). Functions of numbers alone: the tests call them. */
#ifndef MG_NF4_BLOCKS_H
#define MG_NF4_BLOCKS_H

#include <math.h>
#include <stdint.h>

#include "runtime/dynamic8.h"
#include "runtime/nf4.h"

enum { NF4_BLOCK = 64, NF4_NESTED = 256 };

/* The largest |x| of n; NaN if one is. */
static inline float mg_absmax(const float *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most || isnan(x[i]) ? fabsf(x[i]) : most;
    return most;
}

/* x in units of an absmax. A block that is not full is divided by it, a full one is multiplied by
 * the inverse: so does bitsandbytes. */
static inline float mg_in_units(float x, float absmax, int full)
{
    const float least = absmax < 1e-38f ? 1e-38f : absmax;
    const float unit = full ? x * (1.0f / least) : x / least;
    return unit < -1 ? -1 : unit > 1 ? 1 : unit;
}

/* The number of NF4 nearest to x, of two that are as near the lower; of a NaN the last. */
static inline uint8_t mg_nf4_code(float x)
{
    uint8_t code = 0;
    while (code < 15 && !(x <= (mg_nf4_number[code] + mg_nf4_number[code + 1]) / 2))
        code++;
    return code;
}

/* The codes and the absmax of a block of n numbers. */
static inline float mg_nf4_block(const float *x, int64_t n, uint8_t *code)
{
    const float absmax = mg_absmax(x, n);
    for (int64_t i = 0; i < n; i++)
        code[i] = mg_nf4_code(mg_in_units(x[i], absmax, n == NF4_BLOCK));
    return absmax;
}

/* The mean of n absmax, summed in double, in order, and rounded once. (torch sums floats, in an
 * order that depends on the device.) */
static inline float mg_nf4_offset(const float *absmax, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)absmax[i];
    return (float)(sum / (double)n);
}

/* n absmax of blocks, at most NF4_NESTED: their bits as dynamic8, in units of what is returned. */
static inline float mg_nf4_nested(const float *absmax, int64_t n, float offset, uint8_t *bits)
{
    float x[NF4_NESTED];
    for (int64_t i = 0; i < n; i++)
        x[i] = absmax[i] - offset;
    const float scale = mg_absmax(x, n);
    for (int64_t i = 0; i < n; i++)
        bits[i] = mg_to_dynamic8(mg_in_units(x[i], scale, n == NF4_NESTED));
    return scale;
}

#endif
