/* fp8.h - converts numbers of 8 bits (OCP's OFP8) with integer arithmetic, for processors without
 * an instruction for it.
 *
 *   e4m3  4 bits of exponent, bias 7, 3 of mantissa: up to 448, multiples of 2^-9 below 2^-6;
 *         no infinity, 0x7f and 0xff are NaN (PyTorch's float8_e4m3fn)
 *   e5m2  5 bits of exponent, bias 15, 2 of mantissa: up to 57344, multiples of 2^-16 below 2^-14
 *
 *   e8m0  a power of two, without a sign
 *
 * A float is rounded to the nearest, ties to even. What is beyond the largest number, an infinity
 * too, becomes that number. A NaN stays one, with its sign. */
#ifndef MG_FP8_H
#define MG_FP8_H

#include <stdint.h>
#include <string.h>

/* `bits` of mantissa; `top`: the largest number, as the bits of a float. */
static inline uint8_t mg_to_fp8(float x, int bits, int bias, uint32_t top)
{
    uint32_t all, code;
    memcpy(&all, &x, sizeof all);
    const uint32_t sign = all >> 24 & 0x80;
    uint32_t size = all & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (size > top)
        size = top;
    if (size >= (uint32_t)(128 - bias) << 23) { /* rounding may carry into the exponent */
        const uint32_t below = (1u << (22 - bits)) - 1, odd = size >> (23 - bits) & 1;
        code = (size + below + odd - ((uint32_t)(127 - bias) << 23)) >> (23 - bits);
    } else { /* what is added leaves the multiple of the least number in the low bits, rounded */
        const uint32_t ones = (uint32_t)(127 + 24 - bias - bits) << 23;
        float magnitude, shift;
        memcpy(&magnitude, &size, sizeof magnitude);
        memcpy(&shift, &ones, sizeof shift);
        magnitude += shift;
        memcpy(&code, &magnitude, sizeof code);
        code -= ones;
    }
    return (uint8_t)(sign | code);
}

/* `nan`: the least code without its sign that is one. */
static inline float mg_from_fp8(uint8_t h, int bits, int bias, uint32_t nan)
{
    const uint32_t sign = (uint32_t)(h & 0x80) << 24, rest = h & 0x7f;
    uint32_t all;
    float x;
    if (rest >= nan) {
        all = 0x7fc00000;
    } else if (rest >> bits) {
        all = (rest << (23 - bits)) + ((uint32_t)(127 - bias) << 23);
    } else {
        const uint32_t least = (uint32_t)(128 - bias - bits) << 23;
        memcpy(&x, &least, sizeof x);
        x *= (float)rest;
        memcpy(&all, &x, sizeof all);
    }
    all |= sign;
    memcpy(&x, &all, sizeof x);
    return x;
}

static inline uint8_t mg_to_e4m3(float x)
{
    return mg_to_fp8(x, 3, 7, 0x43e00000);
}

static inline float mg_from_e4m3(uint8_t h)
{
    return mg_from_fp8(h, 3, 7, 0x7f);
}

static inline uint8_t mg_to_e5m2(float x)
{
    return mg_to_fp8(x, 2, 15, 0x47600000);
}

static inline float mg_from_e5m2(uint8_t h)
{
    return (h & 0x7f) == 0x7c ? (h & 0x80 ? -1 : 1) * __builtin_inff()
                              : mg_from_fp8(h, 2, 15, 0x7d);
}

/* A scale of OCP's microscaling: 2^(code - 127), NaN from 255. The least that is not below |x|. */
static inline uint8_t mg_to_e8m0(float x)
{
    uint32_t all;
    memcpy(&all, &x, sizeof all);
    all &= 0x7fffffff;
    if (all >= 0x7f800000)
        return 255;
    if (all < 0x00800000)
        return all > 0x00400000;
    const uint32_t code = (all >> 23) + ((all & 0x7fffff) != 0);
    return (uint8_t)(code < 254 ? code : 254);
}

static inline float mg_from_e8m0(uint8_t h)
{
    const uint32_t all = h == 255 ? 0x7fc00000 : h ? (uint32_t)h << 23 : 0x00400000;
    float x;
    memcpy(&x, &all, sizeof x);
    return x;
}

#endif
