/* routines.h - functions of libm on vectors of 16 bytes, which generated kernels call on aarch64.
 *
 * On x86-64 they call glibc's vector routines (libmvec). On aarch64 libmvec exists since glibc 2.38
 * only, and lacks functions until 2.40; a program must link and give the same bits with any glibc.
 * So the runtime has its own: mg_v4_expf for four floats, mg_v2_exp for two doubles. Each is within
 * 4 units in the last place, over all numbers, like libmvec. Lanes do not depend on each other. */
#ifndef MGK_ROUTINES_H
#define MGK_ROUTINES_H

typedef float mgk_floats __attribute__((vector_size(16)));
typedef double mgk_doubles __attribute__((vector_size(16)));

#define MGK_OPERANDS_1(V) V
#define MGK_OPERANDS_2(V) V, V
#define ROUTINE(name, operands)                                                                    \
    mgk_floats mg_v4_##name##f(MGK_OPERANDS_##operands(mgk_floats));                               \
    mgk_doubles mg_v2_##name(MGK_OPERANDS_##operands(mgk_doubles));
#include "kernels/routines.def"
#undef ROUTINE

#endif
