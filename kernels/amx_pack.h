/* amx_pack.h - converts numbers of one type to AMX tiles (amx.h); a part of bodies, on the types of
 * simd.h for vectors of 64 bytes, so no include guard. */

/* mg_amx_parts() of the type in memory. */
#define AMX_PARTS (MGK_HALF == MGK_BF16 ? 1 : MGK_HALF == MGK_F16 ? 2 : 3)

#define amx_put   NAME(amx_put)
#define amx_parts NAME(amx_parts)
#define amx_unit  NAME(amx_unit)
#define amx_half  NAME(amx_half)
#define amx_line  NAME(amx_line)
#define amx_wide  NAME(amx_wide)
#define amx_tile  NAME(amx_tile)
#define amx_pack  NAME(amx_pack)
#define amx_ahead NAME(amx_ahead)

/* Stores a row of a tile in all its parts, `step` bytes apart: pairs of x and y. Each part is
 * rounded to nearest, halves away from zero (one addition). The last part is the
 * remainder: it fits a bf16; or it is truncated to one, if the number has more parts; or it is
 * subnormal, which a tile reads as zero, but its lower half must not reach x. Of an infinite number
 * the remainder is a NaN. */
MGK_INLINE void amx_parts(V x, V y, int parts, int64_t step, char *to)
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
        *(VU *)(to + part * step) = a >> 16 | (b & 0xffff0000);
    }
}

MGK_INLINE void amx_put(V x, V y, int parts, char *to)
{
    amx_parts(x, y, parts, MGK_AMX_BYTES, to);
}

#if MGK_HALF == MGK_BF16

/* Loads `count` of 32 numbers, and zeros for the rest. */
MGK_INLINE VU amx_line(const E *from, int64_t count)
{
    const __mmask32 live = count < MGK_AMX_TERMS ? (__mmask32)((1u << count) - 1) : 0xffffffff;
    return (VU)_mm512_maskz_loadu_epi16(live, from);
}

/* Loads `count` of 16 numbers, each into 32 bits. */
MGK_INLINE VU amx_wide(const E *from, int64_t count)
{
    const __mmask16 live = count < VL ? (__mmask16)((1u << count) - 1) : 0xffff;
    return (VU)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(live, from));
}

/* A row of a tile: 32 terms from x on, or (NULL) zeros. */
MGK_INLINE void amx_unit(const E *x, const E *y, int64_t step, char *to)
{
    (void)y, (void)step;
    *(VU *)to = x ? amx_line(x, MGK_AMX_TERMS) : (VU){0};
}

/* Makes a tile. `along`: its terms are contiguous in memory; otherwise its lines are. */
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

/* A row of a tile in all its parts, `step` bytes apart: pairs of 16 numbers from x and from y on,
 * or (NULL) zeros. */
MGK_INLINE void amx_unit(const E *x, const E *y, int64_t step, char *to)
{
    amx_parts(x ? eload(x) : vall(0), y ? eload(y) : vall(0), AMX_PARTS, step, to);
}

/* a[i][j] = from[i * ld + j], zero past rows and cols; transposed if `flip`. */
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

/* Makes a tile. `along`: its terms are contiguous in memory; otherwise its lines are. */
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

/* Prefetches a tile in memory. */
MGK_INLINE void amx_ahead(const E *from, int64_t ld, bool along)
{
    const int64_t rows = along ? MGK_AMX_LINES : MGK_AMX_TERMS;
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; i++) {
        __builtin_prefetch(from + i * ld, 0, 3);
        if (along)
            __builtin_prefetch((const char *)(from + i * ld) + 64, 0, 3);
    }
}

/* Packs `lines` lines of A or B, `terms` terms, in memory order. `ahead`: with each tile the fourth
 * after it is prefetched, since rows at a stride are what no processor's prefetcher predicts. */
static void amx_pack(const E *from, int64_t ld, bool along, bool of_b, int64_t lines, int64_t terms,
                     bool ahead, char *to)
{
    enum { LINES = MGK_AMX_LINES, TERMS = MGK_AMX_TERMS, AHEAD = 4 };
    const int64_t tiles = (lines + LINES - 1) / LINES, chunks = (terms + TERMS - 1) / TERMS;
    const int64_t all = tiles * chunks, down = along ? LINES * ld : LINES;
    const int64_t right = along ? TERMS : TERMS * ld, inner = along ? chunks : tiles;
    for (int64_t u = 0; u < all; u++) {
        const int64_t t = along ? u / inner : u % inner, q = along ? u % inner : u / inner;
        const int64_t m = lines - t * LINES, k = terms - q * TERMS, v = u + AHEAD;
        const int64_t vt = along ? v / inner : v % inner, vq = along ? v % inner : v / inner;
        const E *at = from + t * down + q * right;
        char *tile = to + (t * chunks + q) * AMX_PARTS * MGK_AMX_BYTES;
        if (ahead && v < all)
            amx_ahead(from + vt * down + vq * right, ld, along);
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
