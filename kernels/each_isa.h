/* each_isa.h - includes the file MGK_BODY once for each type and vector unit; no include guard.
 *
 * A body uses the types and functions of simd.h:
 *   T        float or double: the compute type
 *   E        an element in memory: T, or 16 bits of a bf16 or f16, which become a float when read
 *   VBYTES   bytes of a vector: 64, 32 or 16
 *   VREGS    vector registers: 32 or 16
 *   NAME(f)  f with the type and the level appended, so that all copies are in one object file
 * Pragmas select the instruction set of each copy, so no file needs a compiler flag. The object
 * runs on any processor, because only MGK_TABLE()[mgk_isa()] is called. */
#include "runtime/half.h"
#include "kernels/isa.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define NAME_JOINED(f, type, level)   f##_##type##_##level
#define NAME_EXPANDED(f, type, level) NAME_JOINED(f, type, level)
#define NAME(f)                       NAME_EXPANDED(f, MGK_TYPE, MGK_LEVEL)

/* On aarch64 the base level is NEON: every processor has 32 registers, multiply-adds and
 * conversions of f16. */
#define MGK_LEVEL base
#define VBYTES    16
#if defined(__aarch64__)
#define VREGS 32
#else
#define VREGS 16
#endif
#include "kernels/each_type.h"
#undef MGK_LEVEL
#undef VBYTES
#undef VREGS

#if defined(__x86_64__)

#define MGK_LEVEL v3
#define VBYTES    32
#define VREGS     16
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif
#include "kernels/each_type.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef MGK_LEVEL
#undef VBYTES
#undef VREGS

#define MGK_LEVEL v4
#define VBYTES    64
#define VREGS     32
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#endif
#include "kernels/each_type.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef MGK_LEVEL
#undef VBYTES
#undef VREGS

#endif
