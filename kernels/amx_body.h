/* amx_body.h - a strip of a product on AMX, whose operands are numbers of one type (product_body.h
 * includes it where vectors of 64 bytes are built): packing, and the order of blocks.
 *
 * A block of B, all columns of the strip, is packed once for all rows; blocks of A, which stay in
 * the second-level cache, meet it one after the other, a panel at a time. */

#define AMX_PARTS (MGK_HALF == MGK_BF16 ? 1 : MGK_HALF == MGK_F16 ? 2 : 3) /* mg_amx_parts() */

#define amx_put   NAME(amx_put)
#define amx_half  NAME(amx_half)
#define amx_line  NAME(amx_line)
#define amx_wide  NAME(amx_wide)
#define amx_tile  NAME(amx_tile)
#define amx_pack  NAME(amx_pack)
#define amx_sums  NAME(amx_sums)
#define amx_near  NAME(amx_near)
#define amx_block NAME(amx_block)
#define amx_strip NAME(amx_strip)

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

/* A row of a tile, each of its parts: pairs of x and y. To the nearest, halves away from zero,
 * which is an addition; the last part is what is left, and is a bf16 as it is, or subnormal: that
 * is zero to a tile, but its lower half must not reach x. An infinite number leaves one that is
 * none. */
MGK_INLINE void amx_put(V x, V y, char *to)
{
#pragma GCC unroll 3
    for (int part = 0; part < AMX_PARTS; part++) {
        VU a = (VU)x, b = (VU)y;
        if (part + 1 < AMX_PARTS) {
            a += 0x8000;
            b += 0x8000;
            x -= (V)(a & 0xffff0000);
            y -= (V)(b & 0xffff0000);
        }
        *(VU *)(to + part * MGK_AMX_BYTES) = a >> 16 | (b & 0xffff0000);
    }
}

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
        amx_put(a[i], b[i], to + i * VBYTES);
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

/* sum[j] (+)= the sum of column j of packed B, whose parts are it to the bit. */
static void amx_sums(const char *b, int64_t chunks, int64_t n, bool add, T *sum)
{
    for (int64_t j = 0; j < n; j += MGK_AMX_LINES) {
        V all = vall(0);
        for (int64_t q = 0; q < chunks; q++, b += AMX_PARTS * MGK_AMX_BYTES)
            for (int64_t r = 0; r < MGK_AMX_BYTES; r += VBYTES) {
                V x = vall(0), y = vall(0);
#pragma GCC unroll 3
                for (int part = 0; part < AMX_PARTS; part++) {
                    const VU pair = *(const VU *)(b + part * MGK_AMX_BYTES + r);
                    x += (V)(pair << 16);
                    y += (V)(pair & 0xffff0000);
                }
                all += x + y;
            }
        for (int64_t i = 0; i < VL && j + i < n; i++)
            sum[j + i] = (add ? sum[j + i] : 0) + all[i];
    }
}

/* Whether sums that are rounded are complete panel by panel, and need no more room than one. */
MGK_INLINE bool amx_near(const mg_gemm_desc *d)
{
    return mg_gemm_rounds(d) && d->beta == 0 && d->k <= mg_amx_terms(d);
}

/* Rows [i, i + m) of the strip, terms [p, p + k): a block of A against all panels of B. The first
 * block of some terms packs them, some at a time, to where further blocks find them; if there are
 * none, all to the same place, which stays near. */
static void amx_block(const mgk_product *w, const Strip *s, int64_t i, int64_t m, int64_t p,
                      int64_t k)
{
    enum { GROUP = 4 * MGK_AMX_PANEL };
    const mg_gemm_desc *d = w->d;
    const int64_t chunks = (k + MGK_AMX_TERMS - 1) / MGK_AMX_TERMS, row = s->i + i;
    const int64_t bytes = 2 * chunks * AMX_PARTS * MGK_AMX_BYTES; /* of a panel */
    char *const a = (char *)s->a, *const b = (char *)s->b;
    const bool near = amx_near(d);
    mgk_amx x = {.m = m,
                 .chunks = chunks,
                 .parts = AMX_PARTS,
                 .a = a,
                 .ldc = near ? MGK_AMX_PANEL : s->ldc,
                 .add = p > 0 || d->beta != 0,
                 .alpha = (float)d->alpha};
    amx_pack((const E *)w->a + (d->ta ? p * d->lda + row : row * d->lda + p), d->lda, !d->ta, false,
             m, k, a);
    for (int64_t j = 0; j < s->n; j += MGK_AMX_PANEL) {
        const int64_t left = s->n - j, group = left < GROUP ? left : GROUP;
        char *panel = b + (m < s->m ? j : j % GROUP) / MGK_AMX_PANEL * bytes;
        mg_look(w->run, s->a);
        if (i == 0 && j % GROUP == 0) {
            amx_pack(panel_at(w, p, s->j + j), d->ldb, d->tb, true, group, k, panel);
            if (d->epilogue == MG_SUM && s->i == 0)
                amx_sums(panel, chunks, group, p > 0, s->extra + j);
        }
        x.n = left < MGK_AMX_PANEL ? left : MGK_AMX_PANEL;
        x.b = panel;
        x.c = s->c + (near ? 0 : i * s->ldc + j);
        x.bias = d->epilogue & MG_BIAS ? s->extra + j : NULL;
        mgk_amx_panel(&x);
        if (near)
            put_sums(w, x.c, x.ldc, row, m, s->j + j, x.n);
    }
}

static void amx_strip(const mgk_product *w, const Strip *s)
{
    const int64_t all = w->d->k, terms = mg_amx_terms(w->d), high = MGK_AMX_PANEL;
    const int64_t blocks = (s->m + MG_AMX_M - 1) / MG_AMX_M;
    const int64_t rows = ((s->m + blocks - 1) / blocks + high - 1) / high * high;
    int64_t p = 0;
    mgk_amx_begin();
    do {
        const int64_t k = all - p < terms ? all - p : terms;
        for (int64_t i = 0; i < s->m; i += rows) {
            const int64_t m = s->m - i < rows ? s->m - i : rows;
            amx_block(w, s, i, m, p, k);
            if (p + k == all && !amx_near(w->d))
                finish(w, s, i, m);
            else if (p + k == all && w->then)
                mgk_then_rows(w, s->i + i, m, s->j, s->n);
        }
        p += terms;
    } while (p < all);
    mgk_amx_end();
}
