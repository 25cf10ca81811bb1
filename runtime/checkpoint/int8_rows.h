/* int8_rows.h - how a row of numbers becomes int8, as bitsandbytes' int8_vectorwise_quant makes it.
 * Functions of numbers alone: the tests call them. */
#ifndef MG_INT8_ROWS_H
#define MG_INT8_ROWS_H

#include <math.h>
#include <stdint.h>

#include "runtime/int8.h"

/* The largest |x| of n; NaN if one is. */
static inline float mg_int8_absmax(const float *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most || isnan(x[i]) ? fabsf(x[i]) : most;
    return most;
}

/* The codes of a row of n, from -127 to 127, halves to the even one; its absmax. What is no number
 * there (a row of zeros, a NaN) is 0, and an absmax without an inverse makes the outermost codes.
 */
static inline float mg_int8_row(const float *x, int64_t n, int8_t *code)
{
    const float absmax = mg_int8_absmax(x, n), by = 1.0f / absmax * 127.0f;
    for (int64_t i = 0; i < n; i++) {
        const float y = rintf(x[i] * by);
        code[i] = (int8_t)(y >= 127 ? 127 : y <= -127 ? -127 : y == y ? y : 0);
    }
    return absmax;
}

/* The number that a code stands for. */
static inline float mg_int8_number(int8_t code, float absmax)
{
    const float product = (float)code * absmax;
    return product * MG_INT8_UNIT;
}

#endif
