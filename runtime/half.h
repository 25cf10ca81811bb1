/* half.h - converts f16 (IEEE 754 binary16) and bf16 with integer arithmetic, for processors
 * without an instruction for it. */
#ifndef MG_HALF_H
#define MG_HALF_H

#include <stdint.h>
#include <string.h>

static inline float mg_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    uint32_t bits;
    float x;
    if (rest >= 0x7c00) { /* infinity, or NaN (made quiet) */
        bits = 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0);
    } else if (rest >= 0x400) {
        bits = (rest << 13) + ((127 - 15) << 23);
    } else { /* zero, or a multiple of 2^-24 */
        x = (float)rest * 0x1p-24f;
        memcpy(&bits, &x, sizeof bits);
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds to nearest, ties to even; values of 65520 and more become infinity. */
static inline uint16_t mg_to_f16(float x)
{
    uint32_t bits, h;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) {
        h = 0x7e00 | (size >> 13 & 0x1ff);
    } else if (size >= 0x47800000) { /* 2^16 */
        h = 0x7c00;
    } else if (size >= 0x38800000) { /* 2^-14: rounding may carry into the exponent */
        h = (size + 0xfff + (size >> 13 & 1) - ((127 - 15) << 23)) >> 13;
    } else { /* adding 2^-1 leaves the multiple of 2^-24 in the low bits, rounded */
        float magnitude;
        memcpy(&magnitude, &size, sizeof magnitude);
        magnitude += 0.5f;
        memcpy(&h, &magnitude, sizeof h);
        h -= 0x3f000000;
    }
    return (uint16_t)(sign | h);
}

static inline float mg_from_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds to nearest, ties to even; a NaN becomes a quiet one. */
static inline uint16_t mg_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
