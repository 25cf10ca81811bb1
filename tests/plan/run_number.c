/* run_number.c - numbers of every type in memory, as doubles; see run_plan.h. Apart from what the
 * runtime and the kernels do: bits are taken from the definition of the type. */
#include "tests/plan/run_plan.h"

#include <math.h>
#include <stdlib.h>

#include "ir/interp.h"
#include "runtime/dynamic8.h"

/* A half by its bits: `fraction` bits behind the point. */
static double half_at(uint16_t bits, DType t)
{
    int fraction = t == DT_bf16 ? 7 : 10, bias = t == DT_bf16 ? 127 : 15;
    int exponent = (bits & 0x7fff) >> fraction, top = 2 * bias + 1;
    double f = bits & ((1 << fraction) - 1), one = 1 << fraction, x;
    if (exponent == top)
        x = f != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        x = ldexp(f / one, 1 - bias);
    else
        x = ldexp(1 + f / one, exponent - bias);
    return bits >> 15 ? -x : x;
}

static uint16_t half_bits(double value, DType t)
{
    int fraction = t == DT_bf16 ? 7 : 10, bias = t == DT_bf16 ? 127 : 15, exponent;
    double x = interp_rounded(value, t);
    int bits, top = (2 * bias + 1) << fraction;
    if (!isfinite(x)) {
        bits = isnan(x) ? top + 1 : top;
    } else {
        double f = frexp(fabs(x), &exponent) * 2;
        exponent += bias - 1;
        bits = x == 0          ? 0
               : exponent <= 0 ? (int)ldexp(fabs(x), bias - 1 + fraction)
                               : (exponent << fraction) + (int)ldexp(f - 1, fraction);
    }
    return (uint16_t)(bits | (signbit(x) ? 0x8000 : 0));
}

/* The number of fp8 of these bits. */
static double fp8_at(uint8_t bits, DType t)
{
    const int fraction = t == DT_e4m3 ? 3 : 2, bias = t == DT_e4m3 ? 7 : 15;
    const int size = bits & 0x7f, exponent = size >> fraction, f = size & ((1 << fraction) - 1);
    double x = exponent ? ldexp((1 << fraction) + f, exponent - bias - fraction)
                        : ldexp(f, 1 - bias - fraction);
    if (size >= (t == DT_e4m3 ? 0x7f : 0x7c))
        x = size == 0x7c ? INFINITY : NAN;
    return bits >> 7 ? -x : x;
}

/* The bits of what is rounded already: found among all. */
static uint8_t fp8_bits(double x, DType t)
{
    int bits = 0;
    while (bits < 0x7f && fp8_at((uint8_t)bits, t) != fabs(x))
        bits++;
    return (uint8_t)(bits | (signbit(x) ? 0x80 : 0));
}

double number_at(const void *p, DType t, int64_t i)
{
    switch (t) {
    case DT_f64:
        return ((const double *)p)[i];
    case DT_i32:
        return ((const int32_t *)p)[i];
    case DT_i64:
        return (double)((const int64_t *)p)[i];
    case DT_bool:
    case DT_u8:
        return ((const uint8_t *)p)[i];
    case DT_bf16:
    case DT_f16:
        return half_at(((const uint16_t *)p)[i], t);
    case DT_e4m3:
    case DT_e5m2:
        return fp8_at(((const uint8_t *)p)[i], t);
    case DT_e8m0:
        return ((const uint8_t *)p)[i] == 255 ? NAN : ldexp(1, ((const uint8_t *)p)[i] - 127);
    case DT_dynamic8:
        return (double)mg_from_dynamic8(((const uint8_t *)p)[i]);
    case DT_udynamic8:
        return (double)mg_from_udynamic8(((const uint8_t *)p)[i]);
    case DT_f32:
        return ((const float *)p)[i];
    case DT_none:
    case DT_count:
        break;
    }
    abort();
}

void number_put(void *p, DType t, int64_t i, double x)
{
    switch (t) {
    case DT_f64:
        ((double *)p)[i] = x;
        break;
    case DT_i32:
        ((int32_t *)p)[i] = (int32_t)x;
        break;
    case DT_i64:
        ((int64_t *)p)[i] = (int64_t)x;
        break;
    case DT_bool:
        ((uint8_t *)p)[i] = x != 0;
        break;
    case DT_bf16:
    case DT_f16:
        ((uint16_t *)p)[i] = half_bits(x, t);
        break;
    case DT_u8:
        ((uint8_t *)p)[i] = (uint8_t)x;
        break;
    case DT_dynamic8:
        ((uint8_t *)p)[i] = mg_to_dynamic8((float)x);
        break;
    case DT_udynamic8:
        ((uint8_t *)p)[i] = mg_to_udynamic8((float)x);
        break;
    case DT_e4m3:
    case DT_e5m2:
        ((uint8_t *)p)[i] = fp8_bits(interp_rounded(x, t), t);
        break;
    case DT_e8m0:
        ((uint8_t *)p)[i] = isfinite(x) ? (uint8_t)(ilogb(interp_rounded(x, t)) + 127) : 255;
        break;
    case DT_f32:
        ((float *)p)[i] = (float)x;
        break;
    case DT_none:
    case DT_count:
        abort();
    }
}
