/* draw.c - draws a block of numbers, by loops over its elements that compilers turn into vectors.
 * The widest vectors that the processor has are chosen when the program starts; all give the same
 * bits (normal.h). */
#include "runtime/draw.h"
#include "runtime/normal.h"

#ifdef __x86_64__
#define BY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BY_PROCESSOR
#endif

/* Philox4x32-10, as runtime/half.h has it, of counters {low(e), high(e), 0, 0}: its first two
 * words. */
BY_PROCESSOR static void words(const uint64_t *e, uint32_t k0, uint32_t k1, uint64_t *restrict a,
                               uint64_t *restrict b)
{
    uint64_t c[RT_DRAWS] = {0}, d[RT_DRAWS] = {0};
    for (int i = 0; i < RT_DRAWS; i++) {
        a[i] = (uint32_t)e[i];
        b[i] = e[i] >> 32;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < RT_DRAWS; i++) {
            const uint64_t p = (uint64_t)(uint32_t)a[i] * 0xd2511f53u,
                           q = (uint64_t)(uint32_t)c[i] * 0xcd9e8d57u;
            a[i] = (q >> 32) ^ b[i] ^ k0;
            c[i] = (p >> 32) ^ d[i] ^ k1;
            b[i] = q & 0xffffffffu;
            d[i] = p & 0xffffffffu;
        }
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

BY_PROCESSOR static void normals(const uint64_t *w0, const uint64_t *w1, double *restrict out)
{
    for (int i = 0; i < RT_DRAWS; i++)
        out[i] = mg_normal_of(w0[i], w1[i]);
}

void rt_draw(const uint64_t e[RT_DRAWS], const uint32_t key[2], bool normal, double out[RT_DRAWS])
{
    uint64_t w0[RT_DRAWS], w1[RT_DRAWS];
    words(e, key[0], key[1], w0, w1);
    if (normal)
        normals(w0, w1, out);
    for (int i = 0; i < RT_DRAWS && !normal; i++)
        out[i] = (double)w0[i] * 0x1p-32;
}
