/* pairs.c - products of bf16 pairs, with AVX512-BF16; see pairs.h. */
#include "kernels/pairs.h"
#include "kernels/isa.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

bool mgk_pairs_there(void)
{
    return __builtin_cpu_supports("avx512bf16");
}

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4,avx512bf16"))),                 \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")
#endif

#define NAME(f)  f##_pairs
#define VBYTES   64
#define VREGS    32
#define MGK_F64  0
#define MGK_HALF 0
#include "kernels/simd.h"

/* Copied as bits: a pair may be a float value that arithmetic would change. */
MGK_INLINE V tile_all(const T *a)
{
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return (V)_mm512_set1_epi32(pair);
}

MGK_INLINE V tile_term(V sum, V all, V b)
{
    return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)all, (__m512bh)b);
}

#define tiles NAME(tiles)
#include "kernels/product_tiles.h"

#include "kernels/few_tiles.h"

void mgk_pairs_tiles(mgk_panel *w)
{
    tiles(w);
}

void mgk_pairs_few(const mgk_few *f)
{
    few_panels(f);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

bool mgk_pairs_there(void)
{
    return false;
}

void mgk_pairs_tiles(mgk_panel *w)
{
    (void)w;
    mgk_fatal("mg_gemm", "this processor has no products of pairs");
}

void mgk_pairs_few(const mgk_few *f)
{
    (void)f;
    mgk_fatal("mg_gemm", "this processor has no products of pairs");
}

#endif
