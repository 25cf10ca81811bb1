/* isa.h - which vector units there are, and the table of one function built for each of them. */
#ifndef MGK_ISA_H
#define MGK_ISA_H

#include "runtime/abi.h"

/* Levels of the x86-64 psABI: 16-, 32- and 64-byte vectors; the last with products of bf16 by pairs
 * (pairs.h); and with the tiles of AMX (amx.h), on which products of floats are made. Elsewhere
 * there is only the base. */
typedef enum mgk_level { MGK_BASE, MGK_V3, MGK_V4, MGK_PAIRS, MGK_AMX } mgk_level;

/* The best level this processor and its system can run, and the one in use: the same, but weak, so
 * that a test can name another. */
mgk_level mgk_isa_best(void);
mgk_level mgk_isa(void);

/* Which of the bodies is for numbers of a type: their order in MGK_TABLE. A kernel asked for any
 * other type ends the program by name; mgk_real also for halves. */
enum { MGK_FLOATS = 4 };
int mgk_float(mg_dtype t, const char *kernel);
int mgk_real(mg_dtype t, const char *kernel);

/* What numbers of a type are computed in. */
static inline mg_dtype mgk_wide(mg_dtype t)
{
    return t == MG_F64 ? MG_F64 : MG_F32;
}

/* Of MGK_HALF: 0, or which of the two a body is for. */
#define MGK_BF16 1
#define MGK_F16  2

_Noreturn void mgk_fatal(const char *kernel, const char *why);

/* fn of each body that each_isa.h built, as an initialiser of [level][mgk_float()]. */
#define MGK_ROW(fn, level) {fn##_f32_##level, fn##_f64_##level, fn##_bf16_##level, fn##_f16_##level}
#if defined(__x86_64__)
#define MGK_TABLE(fn)                                                                              \
    {MGK_ROW(fn, base), MGK_ROW(fn, v3), MGK_ROW(fn, v4), MGK_ROW(fn, v4), MGK_ROW(fn, v4)}
#else
#define MGK_TABLE(fn) {MGK_ROW(fn, base)}
#endif

#define MGK_INLINE static inline __attribute__((always_inline))

#endif
