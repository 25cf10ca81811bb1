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

/* One round of Philox4x32 (Salmon, Moraes, Dror and Shaw, SC 2011). */
static inline void mg_philox_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    const uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p0;
}

/* Rounds up or down at random, with the mean x: adds 16 random bits below those that are kept.
 * They are the low (at 0) or high half of word col % 4 of the block of Philox4x32-10 of counter
 * {col / 4, row, low, high half of step} under seed ^ key. The rounds are written out, so that
 * calls for one element share them. */
static inline uint16_t mg_stochastic_bf16(float x, int32_t row, int32_t col, int64_t seed,
                                          int64_t step, uint64_t key, int at)
{
    const uint64_t k = (uint64_t)seed ^ key;
    const uint32_t k0 = (uint32_t)k, k1 = (uint32_t)(k >> 32), d0 = 0x9e3779b9u, d1 = 0xbb67ae85u;
    uint32_t c[4] = {(uint32_t)col / 4, (uint32_t)row, (uint32_t)step,
                     (uint32_t)((uint64_t)step >> 32)};
    uint32_t bits;
    mg_philox_round(c, k0, k1);
    mg_philox_round(c, k0 + d0, k1 + d1);
    mg_philox_round(c, k0 + 2 * d0, k1 + 2 * d1);
    mg_philox_round(c, k0 + 3 * d0, k1 + 3 * d1);
    mg_philox_round(c, k0 + 4 * d0, k1 + 4 * d1);
    mg_philox_round(c, k0 + 5 * d0, k1 + 5 * d1);
    mg_philox_round(c, k0 + 6 * d0, k1 + 6 * d1);
    mg_philox_round(c, k0 + 7 * d0, k1 + 7 * d1);
    mg_philox_round(c, k0 + 8 * d0, k1 + 8 * d1);
    mg_philox_round(c, k0 + 9 * d0, k1 + 9 * d1);
    const uint32_t word = col & 2 ? (col & 1 ? c[3] : c[2]) : (col & 1 ? c[1] : c[0]);
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(x != x ? bits >> 16 | 0x40 : (bits + (word >> 16 * at & 0xffff)) >> 16);
}

#endif
