/* amx_pack.h - numbers of one type become tiles of AMX (amx.h); a body's helper, included on
 * simd.h's types where vectors of 64 bytes are built, so no include guard. */

/* mg_amx_parts() of what lies in memory. */
#define AMX_PARTS (MGK_HALF == MGK_BF16 ? 1 : MGK_HALF == MGK_F16 ? 2 : 3)

#define amx_put  NAME(amx_put)
#define amx_half NAME(amx_half)
#define amx_line NAME(amx_line)
#define amx_wide NAME(amx_wide)
#define amx_tile NAME(amx_tile)
#define amx_pack NAME(amx_pack)

/* A row of a tile, each of its parts: pairs of x and y. To the nearest, halves away from zero,
 * which is an addition; the last part is what is left: a bf16 as it is; or cut to one, if the parts
 * are fewer than the number has; or subnormal, which is zero to a tile, but its lower half must not
 * reach x. An infinite number leaves one that is none. */
MGK_INLINE void amx_put(V x, V y, int parts, char *to)
{
#pragma GCC unroll 3
    for (int part = 0; part < parts; part++) {
        VU a = (VU)x, b = (VU)y;
        if (part + 1 < parts) {
            a += 0x8000;
            b += 0x8000;
            x -= (V)(a & 0xffff0000);
            y -= (V)(b & 0xffff0000);
        }
        *(VU *)(to + part * MGK_AMX_BYTES) = a >> 16 | (b & 0xffff0000);
    }
}

#if MGK_HALF == MGK_BF16

/* `count` of 32 numbers, zeros behind them. */
MGK_INLINE VU amx_line(const E *from, int64_t count)
{
    const __mmask32 live = count < MGK_AMX_TERMS ? (__mmask32)((1u << count) - 1) : 0xffffffff;
    return (VU)_mm512_maskz_loadu_epi16(live, from);
}

/* `count` of 16 numbers, each in 32 bits. */
MGK_INLINE VU amx_wide(const E *from, int64_t count)
{
    const __mmask16 live = count < VL ? (__mmask16)((1u << count) - 1) : 0xffff;
    return (VU)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(live, from));
}

/* A tile. `along`: its terms lie side by side, else its lines do. */
MGK_INLINE void amx_tile(const E *from, int64_t ld, bool along, bool flip, int64_t lines,
                         int64_t terms, char *to)
{
    V a[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        const E *x = from + (along ? i : 2 * i) * ld;
        VU pairs = {0};
        if (along && i < lines)
            pairs = amx_line(x, terms);
        if (!along && 2 * i < terms)
            pairs = amx_wide(x, lines);
        if (!along && 2 * i + 1 < terms)
            pairs |= amx_wide(x + ld, lines) << 16;
        a[i] = (V)pairs;
    }
    if (flip)
        vflip(a);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        *(V *)(to + i * VBYTES) = a[i];
}

#else

/* a[i][j] = from[i * ld + j], zero past rows and cols; turned if `flip`. */
MGK_INLINE void amx_half(const E *from, int64_t ld, int64_t rows, int64_t cols, bool flip, V a[VL])
{
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        a[i] = i >= rows || cols <= 0 ? vall(0)
               : cols < VL            ? eload_n(from + i * ld, cols, 0)
                                      : eload(from + i * ld);
    if (flip)
        vflip(a);
}

/* A tile. `along`: its terms lie side by side, else its lines do. */
MGK_INLINE void amx_tile(const E *from, int64_t ld, bool along, bool flip, int64_t lines,
                         int64_t terms, char *to)
{
    V a[VL], b[VL];
    amx_half(from, ld, along ? lines : terms, along ? terms : lines, flip, a);
    amx_half(from + VL * (along ? 1 : ld), ld, along ? lines : terms - VL,
             along ? terms - VL : lines, flip, b);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        amx_put(a[i], b[i], AMX_PARTS, to + i * VBYTES);
}

#endif

/* `lines` lines of A or of B, `terms` terms, in the order of memory. */
static void amx_pack(const E *from, int64_t ld, bool along, bool of_b, int64_t lines, int64_t terms,
                     char *to)
{
    enum { LINES = MGK_AMX_LINES, TERMS = MGK_AMX_TERMS };
    const int64_t tiles = (lines + LINES - 1) / LINES, chunks = (terms + TERMS - 1) / TERMS;
    for (int64_t u = 0; u < tiles * chunks; u++) {
        const int64_t t = along ? u / chunks : u % tiles, q = along ? u % chunks : u / tiles;
        const int64_t m = lines - t * LINES, k = terms - q * TERMS;
        const E *at = from + (along ? t * LINES * ld + q * TERMS : q * TERMS * ld + t * LINES);
        char *tile = to + (t * chunks + q) * AMX_PARTS * MGK_AMX_BYTES;
        if (m < LINES || k < TERMS)
            amx_tile(at, ld, along, along == of_b, m, k, tile);
        else if (along && of_b)
            amx_tile(at, ld, true, true, LINES, TERMS, tile);
        else if (along)
            amx_tile(at, ld, true, false, LINES, TERMS, tile);
        else if (of_b)
            amx_tile(at, ld, false, false, LINES, TERMS, tile);
        else
            amx_tile(at, ld, false, true, LINES, TERMS, tile);
    }
}
