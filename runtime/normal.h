/* normal.h - makes a standard normal number from two words of 32 bits (Box and Muller, 1958), by
 * arithmetic that is the same to the bit on every processor, and that compilers compute of several
 * numbers at once: no call, no branch, and no product that is fused with a sum (-ffp-contract=off).
 *
 *     sqrt(-2 log((w0 + 1) / 2^32)) cos(2 pi w1 / 2^32)
 *
 * log and the two halves of cos are those of fdlibm (Sun, 1993), within a unit of the last place.
 */
#ifndef MG_NORMAL_H
#define MG_NORMAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* log(x / 2^32) of 1 <= x <= 2^32: m 2^k, where m is between the roots of 1/2 and 2. */
static inline double mg_log_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t up = bits + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    /* an exponent in the last bits of 2^52 is a number without a conversion */
    const uint64_t counted = (up >> 52) | 0x4330000000000000u,
                   low = bits - ((up & 0xfff0000000000000u) - 0x3ff0000000000000u);
    double k, m;
    memcpy(&k, &counted, sizeof k);
    memcpy(&m, &low, sizeof m);
    k -= 0x1p52 + 1023 + 32;
    const double f = m - 1, s = f / (2 + f), z = s * s, w = z * z;
    const double odd = w * (3.999999999940941908e-01 +
                            w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double even = z * (6.666666666666735130e-01 +
                             w * (2.857142874366239149e-01 +
                                  w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    const double half = 0.5 * f * f;
    return k * 6.93147180369123816490e-01 -
           ((half - (s * (half + (odd + even)) + k * 1.90821492927058770002e-10)) - f);
}

/* cos(2 pi w / 2^32): of what is left of the nearest eighth, by sine or cosine. */
static inline double mg_cos_of(uint64_t w)
{
    const uint64_t quarter = (w + 0x20000000u) >> 30;
    const uint64_t left = 0x4338000000000000u + w - (quarter << 30);
    double y;
    memcpy(&y, &left, sizeof y);
    y = (y - 0x1.8p52) * (6.28318530717958647693 * 0x1p-32);
    const double z = y * y;
    const double sine =
        y +
        y * z *
            (-1.66666666666666324348e-01 +
             z * (8.33333333332248946124e-03 +
                  z * (-1.98412698298579493134e-04 +
                       z * (2.75573137070700676789e-06 +
                            z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
    const double rest =
        z * (4.16666666666666019037e-02 +
             z * (-1.38888888888741095749e-03 +
                  z * (2.48015872894767294178e-05 +
                       z * (-2.75573143513906633035e-07 +
                            z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    const double hz = 0.5 * z, a = 1 - hz, cosine = a + ((1 - a - hz) + z * rest);
    uint64_t bits, other;
    const uint64_t odd = 0 - (quarter & 1);
    memcpy(&bits, &cosine, sizeof bits);
    memcpy(&other, &sine, sizeof other);
    bits = (bits & ~odd) | (other & odd);
    bits ^= (quarter + 1) << 62 & 0x8000000000000000u;
    double signed_x;
    memcpy(&signed_x, &bits, sizeof signed_x);
    return signed_x;
}

static inline double mg_normal_of(uint64_t w0, uint64_t w1)
{
    const uint64_t bits = 0x4330000000000000u | w0;
    double x;
    memcpy(&x, &bits, sizeof x);
    return sqrt(-2 * mg_log_of(x - (0x1p52 - 1))) * mg_cos_of(w1);
}
#endif
