/* routines_body.h - exp, log and tanh on vectors of one type, over all numbers; a part of
 * routines.c, on the types of simd.h, so no include guard. */

#define routine_exp  NAME(routine_exp)
#define routine_log  NAME(routine_log)
#define routine_tanh NAME(routine_tanh)
#define reduced      NAME(reduced)
#define power_of_two NAME(power_of_two)

#define MANTISSA (MGK_F64 ? 52 : 23)
#define BIAS     (MGK_F64 ? 1023 : 127)

/* 2^n for whole n in the range of normal numbers. */
MGK_INLINE V power_of_two(V n)
{
    const T shifter = MGK_F64 ? 0x1.8p52 : 0x1.8p23;
    return (V)(((VU)(n + shifter) + BIAS) << MANTISSA);
}

/* x = (n + f) ln 2 with a whole n and |f| <= 1/2, by a split ln 2 (Cody and Waite): n is exact
 * times its upper part. */
MGK_INLINE V reduced(V x, V *n)
{
    const T log2e = (T)0x1.71547652b82fep+0;
    const T ln2_high = MGK_F64 ? (T)0x1.62e42fee00000p-1 : (T)0x1.62e400p-1;
    const T ln2_low = MGK_F64 ? (T)0x1.a39ef35793c76p-33 : (T)0x1.7f7d1cp-20;
    *n = vround(x * log2e);
    return ((x - *n * ln2_high) - *n * ln2_low) * log2e;
}

/* e^x. Beyond the bounds the result is 0 or infinite, like at the bound. The power of two is
 * applied in two halves, so that a subnormal result is rounded once. */
MGK_INLINE V routine_exp(V x)
{
    const T least = MGK_F64 ? -746 : -105, most = MGK_F64 ? 711 : 90;
    V n;
    x = vwhere(x < least, vall(least), x); /* a NaN stays */
    x = vwhere(x > most, vall(most), x);
    const V p = vpoly(reduced(x, &n));
    const V half = vround(n * (T)0.5);
    return p * power_of_two(half) * power_of_two(n - half);
}

/* The logarithm of x = 2^e m, with m in [sqrt(1/2), sqrt(2)): e ln 2 + 2 atanh(s), s = (m - 1) / (m
 * + 1), atanh by its series, of which |s| < 0.172 needs few terms. */
MGK_INLINE V routine_log(V x)
{
    const T tiny = MGK_F64 ? (T)0x1p-1022 : (T)0x1p-126, scale = MGK_F64 ? (T)0x1p54 : (T)0x1p25;
    const T ln2_high = MGK_F64 ? (T)0x1.62e42fee00000p-1 : (T)0x1.62e400p-1;
    const T ln2_low = MGK_F64 ? (T)0x1.a39ef35793c76p-33 : (T)0x1.7f7d1cp-20;
    const VI subnormal = x < tiny;
    const VI bits = (VI)vwhere(subnormal, x * scale, x);
    const VI root = (VI)vall((T)0x1.6a09e667f3bcdp-1);
    /* Unsigned, since it wraps for a negative x, whose result is dropped. m is the number whose
     * bits are these less e's. */
    const VI e = (VI)((VU)bits - (VU)root) >> MANTISSA;
    const V m = (V)((VU)bits - ((VU)e << MANTISSA));
    const V exponent =
        __builtin_convertvector(e, V) - vwhere(subnormal, vall(MGK_F64 ? 54 : 25), vall(0));
    const V s = (m - 1) / (m + 1), z = s * s;
    V sum = vall(0);
#pragma GCC unroll 16
    for (int k = MGK_F64 ? 10 : 5; k > 0; k--)
        sum = (sum + (T)1 / (2 * k + 1)) * z;
    const V twice = s + s;
    const V log = exponent * ln2_high + (twice + (twice * sum + exponent * ln2_low));
    const V inf = vall((T)INFINITY);
    const V bad = vwhere(x == 0, -inf, vall((T)NAN));
    return vwhere(x > 0, vwhere(x == inf, x, log), bad);
}

/* t / (t + 2) for t = e^2|x| - 1 = 2^n (2^f - 1) + (2^n - 1), with the sign of x. For small x, n is
 * 0 and nothing cancels. From the bound on, the result rounds to 1. */
MGK_INLINE V routine_tanh(V x)
{
    const T most = MGK_F64 ? 20 : 10;
    const VI sign = (VI)x & (VI)vall((T)-0.0);
    V n, y = (V)((VI)x ^ sign);
    y = vwhere(y > most, vall(most), y);
    const V f = reduced(y + y, &n), power = power_of_two(n);
    const V t = power * (vslope(f) * f) + (power - 1);
    return (V)((VI)(t / (t + 2)) | sign);
}
