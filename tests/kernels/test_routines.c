/* The functions of libm on vectors: within 4 units in the last place of libm in a wider type, on
 * numbers of every size and at the ends of the range; each lane by itself. */
#include "kernels/routines.h"
#include "tests/kernels/cm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, CASES = 20000 };

/* The distance of y from the exact value, in units in the last place of a type with so many bits.
 */
static double off(long double y, long double exact, int mantissa, int least)
{
    int e;
    if (isnan(exact))
        return isnan(y) ? 0 : INFINITY;
    frexpl(exact, &e);
    const long double unit = ldexpl(1, e - mantissa < least ? least : e - mantissa);
    const long double limit = ldexpl(1, mantissa == 24 ? 128 : 1024);
    if (fabsl(exact) >= limit - unit / 2) /* it rounds to an infinity */
        return isinf(y) && signbit(y) == signbit(exact) ? 0 : INFINITY;
    if (exact == 0)
        return y == 0 && signbit(y) == signbit(exact) ? 0 : INFINITY;
    return (double)(fabsl(y - exact) / unit);
}

static uint64_t draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    uint64_t x = (*s ^ *s >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static const double ends[] = {0.0,      -0.0,     INFINITY,  -INFINITY, NAN,    1,    -1,
                              0x1p-149, 0x1p-126, 0x1p-1074, 0x1p-1022, 88.73,  88.8, -87.4,
                              -103.9,   -104.1,   709.79,    -708.5,    -745.2, 710};
enum { ENDS = sizeof ends / sizeof *ends };

/* Bits of any kind, then numbers of usual size, then the ends. */
static double number(int i, uint64_t *s)
{
    const uint64_t bits = draw(s);
    double x;
    if (i < ENDS)
        return ends[i];
    if (i % 2)
        return ((double)(bits >> 11) * 0x1p-53 - 0.5) * (i % 4 == 1 ? 4 : 220);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float number_f(int i, uint64_t *s)
{
    const uint32_t bits = (uint32_t)draw(s);
    float x;
    if (i % 2 || i < ENDS)
        return (float)number(i, s);
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define IN_1(a, b) a
#define IN_2(a, b) a, b
#define ROUTINE(name, operands)                                                                    \
    static void name##_is_exact(void **state)                                                      \
    {                                                                                              \
        uint64_t s = 7;                                                                            \
        double worst_f = 0, worst = 0;                                                             \
        (void)state;                                                                               \
        for (int i = 0; i < CASES; i++) {                                                          \
            mgk_floats a, b;                                                                       \
            for (int k = 0; k < 4; k++)                                                            \
                a[k] = number_f(i + k, &s), b[k] = number_f(ENDS + 1 + 2 * k, &s);                 \
            (void)b;                                                                               \
            const mgk_floats y = mg_v4_##name##f(IN_##operands(a, b));                             \
            for (int k = 0; k < 4; k++) {                                                          \
                const long double exact = name(IN_##operands((double)a[k], (double)b[k]));         \
                const double d = off(y[k], exact, 24, -149);                                       \
                worst_f = d > worst_f ? d : worst_f;                                               \
                if (!(d <= MOST))                                                                  \
                    fail_msg(#name "f(%a): %a is %g units off", (double)a[k], (double)y[k], d);    \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < CASES; i++) {                                                          \
            mgk_doubles a, b;                                                                      \
            for (int k = 0; k < 2; k++)                                                            \
                a[k] = number(i + k, &s), b[k] = number(ENDS + 1 + 2 * k, &s);                     \
            (void)b;                                                                               \
            const mgk_doubles y = mg_v2_##name(IN_##operands(a, b));                               \
            for (int k = 0; k < 2; k++) {                                                          \
                const long double exact =                                                          \
                    name##l(IN_##operands((long double)a[k], (long double)b[k]));                  \
                const double d = off(y[k], exact, 53, -1074);                                      \
                worst = d > worst ? d : worst;                                                     \
                if (!(d <= MOST))                                                                  \
                    fail_msg(#name "(%a): %a is %g units off", a[k], y[k], d);                     \
            }                                                                                      \
        }                                                                                          \
        print_message("%s: within %.2f units in f32, %.2f in f64\n", #name, worst_f, worst);       \
    }
#include "kernels/routines.def"
#undef ROUTINE

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROUTINE(name, operands) cmocka_unit_test(name##_is_exact),
#include "kernels/routines.def"
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
