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
#include "kernels/joined.h"
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

/* The first n columns of pair p, whose terms are rows of B: joined within 16 bytes, so that columns
 * are in another order. */
MGK_INLINE void few_join(const mgk_few *f, const char *b, int64_t p, __mmask32 n, V *b0, V *b1)
{
    const __mmask32 second = 2 * p + 1 < f->elements ? n : 0;
    const __m512i x = _mm512_maskz_loadu_epi16(n, b),
                  y = _mm512_maskz_loadu_epi16(second, b + f->ld / 2);
    *b0 = (V)_mm512_unpacklo_epi16(x, y);
    *b1 = (V)_mm512_unpackhi_epi16(x, y);
}

#define few_load   NAME(few_load)
#define few_load_n NAME(few_load_n)
#define few_line   NAME(few_line)
#define few_line_n NAME(few_line_n)
MGK_INLINE void few_load(const mgk_few *f, const char *b, int64_t p, V *b0, V *b1)
{
    few_join(f, b, p, 0xffffffff, b0, b1);
}

MGK_INLINE void few_load_n(const mgk_few *f, const char *b, int64_t p, int64_t n, V *b0, V *b1)
{
    few_join(f, b, p, (1u << n) - 1, b0, b1);
}

MGK_INLINE V few_line(const char *b)
{
    return (V)_mm512_loadu_si512(b);
}

MGK_INLINE V few_line_n(const char *b, int64_t n)
{
    return (V)_mm512_maskz_loadu_epi16(n < 32 ? (1u << n) - 1 : 0xffffffff, b);
}

#define FEW_ELEMENTS 2
#include "kernels/few_tiles.h"
#include "kernels/few_turned.h"

void mgk_pairs_tiles(mgk_panel *w)
{
    tiles(w);
}

void mgk_pairs_few(const mgk_few *f)
{
    few_panels(f);
}

void mgk_pairs_turned(const mgk_few *f)
{
    few_turned(f);
}

void mgk_pairs_order(const mgk_few *f)
{
    order_joined(f->sums, f->m, f->n, f->lds);
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

void mgk_pairs_turned(const mgk_few *f)
{
    mgk_pairs_few(f);
}

void mgk_pairs_order(const mgk_few *f)
{
    mgk_pairs_few(f);
}

#endif
