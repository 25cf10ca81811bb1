/* amx_few.c - a few rows of bf16 on tiles; see amx_few.h. */
#include "kernels/amx_few.h"
#include "kernels/amx.h"
#include "kernels/isa.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16"))),          \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,amx-tile,amx-bf16")
#endif

enum { LINES = MGK_AMX_LINES, TERMS = MGK_AMX_TERMS, BYTES = MGK_AMX_BYTES, PANEL = 2 * LINES };

#include "kernels/amx_registers.h"
#include "kernels/joined.h"

/* Tile registers 0 and 1 hold C, 4 holds rows of A, 6 and 7 hold columns of B; where A is the first
 * operand, as many rows of C and of A are in use as there are. */

MGK_INLINE __mmask32 first(int64_t n)
{
    return n >= 32 ? 0xffffffff : n > 0 ? (1u << n) - 1 : 0;
}

/* Two tiles of 32 columns, pairs of `terms` rows of B; columns are joined within 16 bytes. */
MGK_INLINE void join(const uint16_t *b, int64_t ld, int64_t terms, int64_t columns, char *to)
{
    const __mmask32 live = first(columns);
#pragma GCC unroll 16
    for (int64_t i = 0; i < LINES; i++, b += 2 * ld) {
        const __m512i x = _mm512_maskz_loadu_epi16(2 * i < terms ? live : 0, b),
                      y = _mm512_maskz_loadu_epi16(2 * i + 1 < terms ? live : 0, b + ld);
        _mm512_store_si512(to + i * 64, _mm512_unpacklo_epi16(x, y));
        _mm512_store_si512(to + BYTES + i * 64, _mm512_unpackhi_epi16(x, y));
    }
}

/* Columns are contiguous: 32 terms of all columns at a time, as they lie in memory. */
static void along(const mgk_amx_few *w)
{
    enum { BUFFERS = 4 }; /* so that a tile is not written while it is being read */
    _Alignas(64) char pairs[BUFFERS][2 * BYTES];
    const int64_t row = w->lds * (int64_t)sizeof(float);
    shape_registers(w->m);
    for (int64_t p = 0; p < w->k; p += TERMS) {
        const uint16_t *b = w->b + p * w->ldb;
        _tile_loadd(4, w->a + p / TERMS * BYTES, 64);
        for (int64_t j = 0; j < w->n; j += PANEL) {
            char *to = pairs[j / PANEL % BUFFERS];
            float *sums = w->sums + j;
            if (w->k - p >= TERMS && w->n - j >= PANEL)
                join(b + j, w->ldb, TERMS, PANEL, to);
            else
                join(b + j, w->ldb, w->k - p, w->n - j, to);
            settle();
            if (p) {
                _tile_loadd(0, sums, row);
                _tile_loadd(1, sums + LINES, row);
            } else {
                _tile_zero(0);
                _tile_zero(1);
            }
            _tile_loadd(6, to, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, to + BYTES, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_stored(0, sums, row);
            _tile_stored(1, sums + LINES, row);
        }
    }
    mgk_amx_end();
    settle();
    order_joined(w->sums, w->m, w->n, w->lds);
}

/* Copies `terms` terms of up to 16 columns, and zeros for the others. */
static void copy(const uint16_t *b, int64_t ld, int64_t columns, int64_t terms, char *to)
{
    for (int64_t i = 0; i < LINES; i++)
        _mm512_store_si512(to + i * 64, _mm512_maskz_loadu_epi16(i < columns ? first(terms) : 0,
                                                                 b + (i < columns ? i * ld : 0)));
}

/* Terms are contiguous: all of 32 columns. */
static void across(const mgk_amx_few *w)
{
    enum { OFTEN = 4 }; /* chunks between stores: see AWAKE of amx.c */
    const int64_t ld = w->ldb * (int64_t)sizeof *w->b;
    const __m512i down =
        _mm512_mullo_epi32(_mm512_set1_epi32(LINES),
                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    _Alignas(64) char part[2][BYTES];
    _Alignas(64) float sums[2][LINES * LINES];
    shape_registers(LINES);
    for (int64_t j = 0; j < w->n; j += PANEL) {
        const uint16_t *b = w->b + j * w->ldb;
        _tile_zero(0);
        _tile_zero(1);
        for (int64_t p = 0; p < w->k; p += TERMS) {
            _tile_loadd(4, w->a + p / TERMS * BYTES, 64);
            if (p / TERMS % OFTEN == OFTEN - 1)
                _tile_stored(4, part[0], 64);
            if (w->k - p >= TERMS && w->n - j >= PANEL) {
                _tile_loadd(6, b + p, ld);
                _tile_dpbf16ps(0, 6, 4);
                _tile_loadd(7, b + LINES * w->ldb + p, ld);
                _tile_dpbf16ps(1, 7, 4);
                continue;
            }
            settle();
            copy(b + p, w->ldb, w->n - j, w->k - p, part[0]);
            if (w->n - j > LINES)
                copy(b + LINES * w->ldb + p, w->ldb, w->n - j - LINES, w->k - p, part[1]);
            settle();
            _tile_loadd(6, part[0], 64);
            _tile_dpbf16ps(0, 6, 4);
            if (w->n - j > LINES) {
                _tile_loadd(7, part[1], 64);
                _tile_dpbf16ps(1, 7, 4);
            }
        }
        _tile_stored(0, sums[0], 64);
        _tile_stored(1, sums[1], 64);
        settle();
        for (int64_t i = 0; i < w->m; i++)
            for (int half = 0; half < 2; half++)
                _mm512_storeu_ps(w->sums + i * w->lds + j + half * LINES,
                                 _mm512_i32gather_ps(down, sums[half] + i, 4));
    }
    mgk_amx_end();
}

void mgk_amx_few_rows(const mgk_amx_few *w)
{
    settle();
    if (w->turned)
        across(w);
    else
        along(w);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

void mgk_amx_few_rows(const mgk_amx_few *w)
{
    (void)w;
    mgk_fatal("mg_gemm", "this processor has no tiles");
}

#endif
