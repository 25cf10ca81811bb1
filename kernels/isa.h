/* isa.h - the levels of vector units, and the table of one function built for each level. */
#ifndef MGK_ISA_H
#define MGK_ISA_H

#include "runtime/abi.h"

/* Levels of the x86-64 psABI with 16-, 32- and 64-byte vectors; then the last with products of bf16
 * pairs (pairs.h); then with AMX tiles (amx.h), which compute products of floats. Other processors
 * have only the base level. */
typedef enum mgk_level { MGK_BASE, MGK_V3, MGK_V4, MGK_PAIRS, MGK_AMX } mgk_level;

/* mgk_isa_best: the best level of this processor and its system. mgk_isa: the level in use, which
 * is the same, but a weak symbol: a test can replace it. */
mgk_level mgk_isa_best(void);
mgk_level mgk_isa(void);

/* The index of a type's body in MGK_TABLE. For a type without a body the program ends with a
 * message that names the kernel; mgk_real accepts only f32 and f64. */
enum { MGK_FLOATS = 4 };
int mgk_float(mg_dtype t, const char *kernel);
int mgk_real(mg_dtype t, const char *kernel);

/* The compute type of numbers of a type. */
static inline mg_dtype mgk_wide(mg_dtype t)
{
    return t == MG_F64 ? MG_F64 : MG_F32;
}

/* Values of MGK_HALF: 0, or the half type of a body. */
#define MGK_BF16 1
#define MGK_F16  2

_Noreturn void mgk_fatal(const char *kernel, const char *why);

/* An initialiser of [level][mgk_float()] with fn of each body that each_isa.h built. */
#define MGK_ROW(fn, level) {fn##_f32_##level, fn##_f64_##level, fn##_bf16_##level, fn##_f16_##level}
#if defined(__x86_64__)
#define MGK_TABLE(fn)                                                                              \
    {MGK_ROW(fn, base), MGK_ROW(fn, v3), MGK_ROW(fn, v4), MGK_ROW(fn, v4), MGK_ROW(fn, v4)}
#else
#define MGK_TABLE(fn) {MGK_ROW(fn, base)}
#endif

#define MGK_INLINE static inline __attribute__((always_inline))

#endif
