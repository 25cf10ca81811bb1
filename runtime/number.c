/* number.c - see number.h. Little-endian, wherever it stands. */
#include "runtime/number.h"

#include <string.h>

static const char *const kinds[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16",
                                    "I8",  "U64", "U32", "U16",  "U8",  "BOOL"};
enum { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, KINDS };

static int kind_of(const char *dtype)
{
    int k = 0;
    while (k < KINDS && strcmp(kinds[k], dtype))
        k++;
    return k;
}

bool rt_number_known(const char *dtype)
{
    return kind_of(dtype) < KINDS;
}

bool rt_number_is_whole(const char *dtype)
{
    return kind_of(dtype) >= I64 && kind_of(dtype) < KINDS;
}

static float from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    uint32_t bits = sign;
    float x;
    if (exponent == 31) {
        bits |= 0x7f800000 | fraction << 13;
    } else if (exponent) {
        bits |= (exponent + 112) << 23 | fraction << 13;
    } else if (fraction) { /* subnormal: a normal float */
        x = (float)fraction * 0x1p-24f;
        return sign ? -x : x;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define AT(type)                                                                                   \
    ({                                                                                             \
        type v_;                                                                                   \
        memcpy(&v_, from + (int64_t)sizeof v_ * i, sizeof v_);                                     \
        v_;                                                                                        \
    })

double rt_number(const char *dtype, const char *from, int64_t i)
{
    uint32_t bits;
    float x;
    switch (kind_of(dtype)) {
    case F64:
        return AT(double);
    case F32:
        return AT(float);
    case F16:
        return from_half(AT(uint16_t));
    case BF16:
        bits = (uint32_t)AT(uint16_t) << 16;
        memcpy(&x, &bits, sizeof x);
        return x;
    case I64:
        return (double)AT(int64_t);
    case I32:
        return AT(int32_t);
    case I16:
        return AT(int16_t);
    case I8:
        return AT(int8_t);
    case U64:
        return (double)AT(uint64_t);
    case U32:
        return AT(uint32_t);
    case U16:
        return AT(uint16_t);
    default: /* U8, BOOL */
        return AT(uint8_t);
    }
}
