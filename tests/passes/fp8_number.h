/* fp8_number.h - the number of fp8 of these bits, by the definition of the type: apart from what
 * the compiler and the runtime do. */
#ifndef MGC_TESTS_FP8_NUMBER_H
#define MGC_TESTS_FP8_NUMBER_H

#include <math.h>

#include "ir/type.h"

/* A finite one of e4m3 or e5m2. */
static inline double fp8_of(unsigned code, DType t)
{
    const int bits = t == DT_e4m3 ? 3 : 2, bias = t == DT_e4m3 ? 7 : 15;
    const int exponent = (int)(code & 0x7f) >> bits, f = (int)code & ((1 << bits) - 1);
    const double x =
        exponent ? ldexp((1 << bits) + f, exponent - bias - bits) : ldexp(f, 1 - bias - bits);
    return code & 0x80 ? -x : x;
}

#endif
