/* philox_blocks.h - blocks of Philox4x32-10 on one vector unit, for bodies of each_isa.h. Vectors
 * have a word of a counter in each 64 bits: a product of two words needs them all, and what is left
 * in the upper half of one is read by nothing. The body undefines `blocks`. */

#define blocks NAME(blocks)
#if VBYTES == 64
#define U             NAME(U)
#define LANES         8
#define KEYS(x)       _mm512_set1_epi64((long long)(x))
#define PRODUCT(a, b) _mm512_mul_epu32(a, b)
#define UPPER(a)      _mm512_srli_epi64(a, 32)
#define XOR3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
typedef __m512i U;
#elif VBYTES == 32
#define U             NAME(U)
#define LANES         4
#define KEYS(x)       _mm256_set1_epi64x((long long)(x))
#define PRODUCT(a, b) _mm256_mul_epu32(a, b)
#define UPPER(a)      _mm256_srli_epi64(a, 32)
#define XOR3(a, b, c) _mm256_xor_si256(_mm256_xor_si256(a, b), c)
typedef __m256i U;
#endif

#ifdef LANES
enum { NAME(TOGETHER) = 2 }; /* vectors, so that their products overlap */

/* Words 0 and 1 of each block, and 2 and 3, become four neighbours. */
MGK_INLINE void NAME(put)(uint32_t *out, const U c[4])
{
#if VBYTES == 64
    const U low = _mm512_set1_epi64(0xffffffff);
    const U a = _mm512_or_si512(_mm512_and_si512(c[0], low), _mm512_slli_epi64(c[1], 32));
    const U b = _mm512_or_si512(_mm512_and_si512(c[2], low), _mm512_slli_epi64(c[3], 32));
    const U first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const U second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(a, first, b));
    _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi64(a, second, b));
#else
    const U a = _mm256_blend_epi32(c[0], _mm256_slli_epi64(c[1], 32), 0xaa);
    const U b = _mm256_blend_epi32(c[2], _mm256_slli_epi64(c[3], 32), 0xaa);
    const U even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    _mm256_storeu_si256((U *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((U *)(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
#endif
}

MGK_INLINE U NAME(count)(uint64_t block)
{
#if VBYTES == 64
    return _mm512_add_epi64(KEYS(block), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
#else
    return _mm256_add_epi64(KEYS(block), _mm256_setr_epi64x(0, 1, 2, 3));
#endif
}

/* The words of MGK_WIDE blocks from `block` on. */
static void blocks(uint32_t *out, uint64_t block, uint64_t step, const uint32_t key[2])
{
    const U m0 = KEYS(0xd2511f53u), m1 = KEYS(0xcd9e8d57u);
    for (int at = 0; at < MGK_WIDE; at += LANES * NAME(TOGETHER)) {
        U c[NAME(TOGETHER)][4];
        uint32_t k0 = key[0], k1 = key[1];
        for (int v = 0; v < NAME(TOGETHER); v++) {
            c[v][0] = NAME(count)(block + (uint64_t)(at + v * LANES));
            c[v][1] = UPPER(c[v][0]);
            c[v][2] = KEYS(step & 0xffffffff);
            c[v][3] = KEYS(step >> 32);
        }
        for (int round = 0; round < 10; round++) {
            const U u0 = KEYS(k0), u1 = KEYS(k1);
            for (int v = 0; v < NAME(TOGETHER); v++) {
                const U p0 = PRODUCT(m0, c[v][0]), p1 = PRODUCT(m1, c[v][2]);
                c[v][0] = XOR3(UPPER(p1), c[v][1], u0);
                c[v][1] = p1;
                c[v][2] = XOR3(UPPER(p0), c[v][3], u1);
                c[v][3] = p0;
            }
            k0 += 0x9e3779b9u;
            k1 += 0xbb67ae85u;
        }
        for (int v = 0; v < NAME(TOGETHER); v++)
            NAME(put)(out + 4 * (at + v * LANES), c[v]);
    }
}
#else
static void blocks(uint32_t *out, uint64_t block, uint64_t step, const uint32_t key[2])
{
    for (int i = 0; i < MGK_WIDE; i++) {
        const uint64_t counter = block + (uint64_t)i;
        uint32_t k0 = key[0], k1 = key[1];
        uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)step,
                         (uint32_t)(step >> 32)};
        for (int round = 0; round < 10; round++) {
            mg_philox_round(c, k0, k1);
            k0 += 0x9e3779b9u;
            k1 += 0xbb67ae85u;
        }
        memcpy(out + 4 * i, c, sizeof c);
    }
}
#endif

#undef U
#undef LANES
#undef KEYS
#undef PRODUCT
#undef UPPER
#undef XOR3
