/* isa.h - which vector units there are, and the table of one function built for each of them. */
#ifndef MGK_ISA_H
#define MGK_ISA_H

#include "runtime/abi.h"

/* Levels of the x86-64 psABI: 16-, 32- and 64-byte vectors. Elsewhere there is only the base. */
typedef enum mgk_level { MGK_BASE, MGK_V3, MGK_V4 } mgk_level;

/* The best level this processor and its system can run. Weak, so that a test can name another. */
mgk_level mgk_isa(void);

/* 0 for MG_F32, 1 for MG_F64; a kernel asked for any other type ends the program by name. */
int mgk_real(mg_dtype t, const char *kernel);

_Noreturn void mgk_fatal(const char *kernel, const char *why);

/* fn of each body that each_isa.h built, as an initialiser of [level][mgk_real()]. */
#if defined(__x86_64__)
#define MGK_TABLE(fn)                                                                              \
    {                                                                                              \
        {fn##_f32_base, fn##_f64_base},                                                            \
        {fn##_f32_v3, fn##_f64_v3},                                                                \
        {fn##_f32_v4, fn##_f64_v4},                                                                \
    }
#else
#define MGK_TABLE(fn)                                                                              \
    {                                                                                              \
        {                                                                                          \
            fn##_f32_base, fn##_f64_base                                                           \
        }                                                                                          \
    }
#endif

#define MGK_INLINE static inline __attribute__((always_inline))

#endif
