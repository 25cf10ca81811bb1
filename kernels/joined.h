/* joined.h - sums of joined columns: where terms in pairs are made of two rows of B by joining them
 * within 16 bytes, columns of 32 lie in two vectors in another order. Included where AVX-512 is
 * allowed. */
#ifndef MGK_JOINED_H
#define MGK_JOINED_H

#include <immintrin.h>

#include "kernels/isa.h"

/* Puts n columns (whole panels of 32) of m rows, lds floats apart, in the order of B. */
MGK_INLINE void order_joined(float *sums, int64_t m, int64_t n, int64_t lds)
{
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j += 32) {
            float *at = sums + i * lds + j;
            const __m512 a = _mm512_loadu_ps(at), b = _mm512_loadu_ps(at + 16);
            _mm512_storeu_ps(at, _mm512_permutex2var_ps(a, low, b));
            _mm512_storeu_ps(at + 16, _mm512_permutex2var_ps(a, high, b));
        }
}

#endif
