/* routines.c - functions of libm on vectors of 16 bytes; see routines.h. Exponential, logarithm and
 * hyperbolic tangent, which models compute for each element, are vector code. The others call libm
 * for each lane. */
#include "kernels/routines.h"
#include "kernels/isa.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VBYTES   16
#define MGK_HALF 0

#define NAME(f) f##_floats
#define MGK_F64 0
#include "kernels/simd.h"
#include "kernels/routines_body.h"
#undef NAME
#undef MGK_F64

#define NAME(f) f##_doubles
#define MGK_F64 1
#include "kernels/simd.h"
#include "kernels/routines_body.h"

#define VECTOR(name)                                                                               \
    mgk_floats mg_v4_##name##f(mgk_floats x)                                                       \
    {                                                                                              \
        return routine_##name##_floats(x);                                                         \
    }                                                                                              \
    mgk_doubles mg_v2_##name(mgk_doubles x)                                                        \
    {                                                                                              \
        return routine_##name##_doubles(x);                                                        \
    }
VECTOR(exp)
VECTOR(log)
VECTOR(tanh)

#define LANES(name, Vector, form, params, call)                                                    \
    Vector mg_##form params                                                                        \
    {                                                                                              \
        Vector y;                                                                                  \
        for (int i = 0; i < (int)(sizeof y / sizeof y[0]); i++)                                    \
            y[i] = name call;                                                                      \
        return y;                                                                                  \
    }
#define EACH_1(name)                                                                               \
    LANES(name##f, mgk_floats, v4_##name##f, (mgk_floats a), (a[i]))                               \
    LANES(name, mgk_doubles, v2_##name, (mgk_doubles a), (a[i]))
#define EACH_2(name)                                                                               \
    LANES(name##f, mgk_floats, v4_##name##f, (mgk_floats a, mgk_floats b), (a[i], b[i]))           \
    LANES(name, mgk_doubles, v2_##name, (mgk_doubles a, mgk_doubles b), (a[i], b[i]))
EACH_1(erf)
EACH_1(sin)
EACH_1(cos)
EACH_2(pow)
