/* product_body.h - one thread's product on one type and vector unit (each_isa.h).
 *
 * C is cut into tiles that stay in registers while k is summed: rows of A are broadcast, columns of
 * B are vectors. As in Goto and van de Geijn (2008), a block of A is packed, so that it stays in
 * the second-level cache, and B is packed a panel at a time, which stays in the nearest cache while
 * all tiles of the block use it. A can be broadcast from rows or columns, so it is packed in its
 * memory order; B is transposed if necessary. Packing converts halves to floats, or to bf16 pairs
 * (pairs.h).
 *
 * k is summed in blocks that depend only on k, one block in registers, the blocks in C (or in
 * scratch, if C is of halves): an element has the same bits for any cut of C. */

/* Number of tiles of A that are packed together. */
#define SIDE 4

#define pack_copy        NAME(pack_copy)
#define pack_flip        NAME(pack_flip)
#define Lines            NAME(Lines)
#define lines_a          NAME(lines_a)
#define lines_b          NAME(lines_b)
#define put_row          NAME(put_row)
#define get_row          NAME(get_row)
#define in_scratch       NAME(in_scratch)
#define pack_tiles       NAME(pack_tiles)
#define pack_b           NAME(pack_b)
#define panel_at         NAME(panel_at)
#define prefetch_of      NAME(prefetch_of)
#define panel_prefetch   NAME(panel_prefetch)
#define panel_prefetches NAME(panel_prefetches)
#define tiles_prefetch   NAME(tiles_prefetch)
#define first_panel      NAME(first_panel)
#define multiply         NAME(multiply)
#define length_of        NAME(length_of)
#define near_sums        NAME(near_sums)
#define panel_of         NAME(panel_of)
#define put_sums         NAME(put_sums)
#define get_sums         NAME(get_sums)
#define finish           NAME(finish)
#define Strip            NAME(Strip)
#define strip_terms      NAME(strip_terms)
#define strip_of         NAME(strip_of)
#define Space            NAME(Space)
#define space_of         NAME(space_of)
#define sums_of          NAME(sums_of)
#define strip_begin      NAME(strip_begin)

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Halves are floats once they are packed. */
#undef tiles
#undef tile_count
#undef tile_row
#undef tile_rounds
#if MGK_HALF
#define tiles       NAME_EXPANDED(tiles, f32, MGK_LEVEL)
#define tile_count  NAME_EXPANDED(tile_count, f32, MGK_LEVEL)
#define tile_row    NAME_EXPANDED(tile_row, f32, MGK_LEVEL)
#define tile_rounds NAME_EXPANDED(tile_rounds, f32, MGK_LEVEL)
#else
#define tiles NAME(tiles)
#endif
#define tile_all  NAME(tile_all)
#define tile_term NAME(tile_term)

MGK_INLINE V tile_all(const T *a)
{
    return vall(*a);
}

MGK_INLINE V tile_term(V sum, V all, V b)
{
    return sum + all * b;
}

#if !MGK_HALF
#include "kernels/product_tiles.h"
#endif

/* ---- operands -------------------------------------------------------------------------------- */

/* Some lines (rows of A, columns of B) and terms of an operand: the first of both, and the stride
 * of the one that is not contiguous. */
typedef struct Lines {
    const E *at;
    int64_t ld;
} Lines;

/* `count` rows of A from `line` on, `terms` terms from p on; what is read through taps is brought
 * together first. */
MGK_INLINE Lines lines_a(const mgk_product *w, int64_t line, int64_t count, int64_t p,
                         int64_t terms)
{
    const mg_gemm_desc *d = w->d;
    if (!w->of_a)
        return (Lines){(const E *)w->a + (d->ta ? p * d->lda + line : line * d->lda + p), d->lda};
    const int64_t ld = mgk_taps_ld(w->of_a, count, terms);
    mgk_bring(w->of_a, w->a, line, count, p, terms, w->staged, ld);
    return (Lines){w->staged, ld};
}

/* The same of columns of B. */
MGK_INLINE Lines lines_b(const mgk_product *w, int64_t line, int64_t count, int64_t p,
                         int64_t terms)
{
    const mg_gemm_desc *d = w->d;
    if (!w->of_b)
        return (Lines){(const E *)w->b + (d->tb ? line * d->ldb + p : p * d->ldb + line), d->ldb};
    const int64_t ld = mgk_taps_ld(w->of_b, count, terms);
    mgk_bring(w->of_b, w->b, line, count, p, terms, w->staged, ld);
    return (Lines){w->staged, ld};
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The tiles of AMX, if the processor has them. */
#undef TILED
#if VBYTES == 64 && !MGK_F64
#include "kernels/amx_pack.h"
#define TILED(d) mgk_tiled(d)
#else
#define TILED(d) false
#endif

/* Pairs of bf16, if the processor multiplies them: packed operands then consist of pairs, and p and
 * k, an offset and a length of the sum, count pairs. */
#undef PAIRED
#undef pairs_a
#undef pairs_b
#undef pairs_sums
#if VBYTES == 64 && MGK_HALF == MGK_BF16
#include "kernels/pairs_body.h"
#define PAIRED (mgk_isa() == MGK_PAIRS)
#else
#define PAIRED          false
#define pairs_a(...)    ((void)0)
#define pairs_b(...)    ((void)0)
#define pairs_sums(...) ((void)0)
#endif
#define TERMS_EACH (PAIRED ? 2 : 1)

/* to[p][0 .. wide) = from[p * ld .. + cols), zeros past cols. */
MGK_INLINE void pack_copy(const E *from, int64_t ld, int64_t k, int64_t cols, int64_t wide, T *to)
{
    const int64_t whole = cols / VL * VL;
    for (int64_t p = 0; p < k; p++, from += ld, to += wide) {
        int64_t j = 0;
        for (; j < whole; j += VL)
            vstore(to + j, eload(from + j));
        if (j < cols) {
            vstore(to + j, eload_n(from + j, cols - j, 0));
            j += VL;
        }
        for (; j < wide; j += VL)
            vstore(to + j, vall(0));
    }
}

/* to[p][0 .. wide) = from[0 .. cols) [p], rows of `from` at stride ld, zeros past cols. */
MGK_INLINE void pack_flip(const E *from, int64_t ld, int64_t k, int64_t cols, int64_t wide, T *to)
{
    for (int64_t j = 0; j < wide; j += VL) {
        const int64_t n = cols - j < VL ? cols - j : VL;
        for (int64_t p = 0; p < k; p += VL) {
            const int64_t left = k - p < VL ? k - p : VL;
            V a[VL];
            for (int64_t i = 0; i < VL; i++) {
                const E *row = from + (j + i) * ld + p;
                a[i] = i >= n ? vall(0) : left < VL ? eload_n(row, left, 0) : eload(row);
            }
            vflip(a);
            for (int64_t i = 0; i < left; i++)
                vstore(to + (p + i) * wide + j, a[i]);
        }
    }
}

/* Packs tiles [t, end) of rows [i, i + m) of op(A), terms [p, p + k), into the block `to`. If A's
 * rows are contiguous, they are copied row by row. Otherwise a vector of rows is copied for each
 * term, tile after tile, so that a cache line that two tiles share is read once. Elements past a
 * tile's rows are never read. */
static void pack_tiles(const mgk_product *w, int64_t i, int64_t m, int64_t p, int64_t k, int64_t t,
                       int64_t end, T *to)
{
    const mg_gemm_desc *d = w->d;
    const int64_t row = tile_row(m, t), count = tile_row(m, end) - row;
    /* Beside the tiles' rows, vectors of columns of A read others, as far as there are any. */
    const int64_t more = count + TILE_STEP, all = d->m - i - row < more ? d->m - i - row : more;
    if (PAIRED) {
        pairs_a(w, i, m, p, k, t, end, to);
        return;
    }
    if (!d->ta && w->of_a && sizeof(E) == sizeof(T)) { /* packed where it is brought */
        mgk_bring(w->of_a, w->a, i + row, count, p, k, to + row * ROW_STEP, ROW_STEP);
        return;
    }
    const Lines a = lines_a(w, i + row, d->ta ? all : count, p, k);
    if (!d->ta) {
        pack_copy(a.at, a.ld, count, k, ROW_STEP, to + row * ROW_STEP);
        return;
    }
    const E *from = a.at;
    int64_t rows[SIDE];
    for (int64_t x = t; x < end; x++)
        rows[x - t] = tile_row(m, x) - row;
    to += t * TILE_STEP * k;
    for (int64_t q = 0; q < k; q++, from += a.ld, to += TILE_STEP)
        for (int64_t x = 0; x < end - t; x++)
            for (int64_t j = 0; j < TILE_STEP; j += VL) {
                const int64_t at = rows[x] + j, left = all - at;
                if (left >= VL)
                    vstore(to + x * TILE_STEP * k + j, eload(from + at));
                else if (left > 0)
                    vstore(to + x * TILE_STEP * k + j, eload_n(from + at, left, 0));
            }
}

/* The address of columns from j on and terms from p on of op(B), whose first is at b. */
MGK_INLINE const E *panel_at(const mg_gemm_desc *d, const void *b, int64_t p, int64_t j)
{
    return (const E *)b + (d->tb ? j * d->ldb + p * TERMS_EACH : p * TERMS_EACH * d->ldb + j);
}

static void pack_b(const mgk_product *w, int64_t p, int64_t k, int64_t j, int64_t n, T *to)
{
    const mg_gemm_desc *d = w->d;
    if (PAIRED) {
        pairs_b(w, p, k, j, n, to);
        return;
    }
    const Lines b = lines_b(w, j, n, p, k);
    if (d->tb && n == PANEL_N)
        pack_flip(b.at, b.ld, k, PANEL_N, PANEL_N, to);
    else if (d->tb)
        pack_flip(b.at, b.ld, k, n, PANEL_N, to);
    else if (n == PANEL_N)
        pack_copy(b.at, b.ld, k, PANEL_N, PANEL_N, to);
    else
        pack_copy(b.at, b.ld, k, n, PANEL_N, to);
}

/* A prefetch of `runs` runs of `length` numbers, at stride ld, to finish within `rounds` rounds of
 * BESIDE terms (tile_rounds of each tile). */
static mgk_prefetch prefetch_of(const E *from, int64_t ld, int64_t runs, int64_t length,
                                int64_t rounds)
{
    const int64_t into = (int64_t)((uintptr_t)from % 64), stride = ld * (int64_t)sizeof(E);
    /* Runs that begin at other places of their lines may reach into one more. */
    const int64_t lines = (into + length * (int64_t)sizeof(E) + 63) / 64 + (stride % 64 && !into);
    return (mgk_prefetch){(const char *)from - into, stride, runs, lines,
                          runs * lines / rounds + 1};
}

/* A prefetch of a whole panel of the operand at b, columns from j on and terms [p, p + k). */
static mgk_prefetch panel_prefetch(const mgk_product *w, const void *b, int64_t p, int64_t k,
                                   int64_t j, int64_t rounds)
{
    const mg_gemm_desc *d = w->d;
    if (j + PANEL_N > d->n || w->of_b)
        return (mgk_prefetch){0};
    return prefetch_of(panel_at(d, b, p, j), d->ldb, d->tb ? PANEL_N : k * TERMS_EACH,
                       d->tb ? k * TERMS_EACH : PANEL_N, rounds);
}

/* A prefetch of tiles [t, end) of the operand at a, with the rows and terms of pack_tiles. */
static mgk_prefetch tiles_prefetch(const mgk_product *w, const void *a, int64_t i, int64_t m,
                                   int64_t p, int64_t k, int64_t t, int64_t end, int64_t rounds)
{
    const mg_gemm_desc *d = w->d;
    const int64_t row = i + tile_row(m, t), rows = i + tile_row(m, end) - row;
    const int64_t at = p * TERMS_EACH, terms = k * TERMS_EACH;
    if (w->of_a)
        return (mgk_prefetch){0};
    const E *from = (const E *)a + (d->ta ? at * d->lda + row : row * d->lda + at);
    return prefetch_of(from, d->lda, d->ta ? terms : rows, d->ta ? rows : terms, rounds);
}

#include "kernels/product_sums.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Rows [i, i + m) of C, at most a block high, and columns [j, j + n). */
typedef struct Strip {
    int64_t i, m, j, n;
    T *c; /* its first element: in C, or in scratch */
    int64_t ldc;
    T *extra; /* of column j: the bias or the sums */
    T *a, *b; /* scratch, from its start */
} Strip;

/* True if sums are not in C before they are complete. */
MGK_INLINE bool in_scratch(const mgk_product *w)
{
    return mg_gemm_rounds(w->d) || w->of_c;
}

/* The n sums of row i and columns from j on, into C where rows lie anywhere, and out of it. */
static void put_row(const mgk_product *w, const T *from, int64_t i, int64_t j, int64_t n)
{
    const int64_t at = mgk_dims_at(w->of_c, i) + j;
    if (mg_gemm_rounds(w->d))
        round_out(from, 0, 1, n, (E *)w->c + at, 0);
    else
        memcpy((T *)w->c + at, from, (size_t)n * sizeof(T));
}

static void get_row(const mgk_product *w, int64_t i, int64_t j, int64_t n, T *to)
{
    const int64_t at = mgk_dims_at(w->of_c, i) + j;
    if (mg_gemm_rounds(w->d))
        round_in((const E *)w->c + at, 0, 1, n, to, 0);
    else
        memcpy(to, (const T *)w->c + at, (size_t)n * sizeof(T));
}

/* Stores complete sums, at row stride `step`, as rows [i, i + m) and columns [j, j + n) of C. */
static void put_sums(const mgk_product *w, const T *from, int64_t step, int64_t i, int64_t m,
                     int64_t j, int64_t n)
{
    const mg_gemm_desc *d = w->d;
    E *to = (E *)w->c + i * d->ldc + j;
    if (d->epilogue & (MG_GELU | MG_GELU_GRAD))
        gelu_out(d, from, step, m, n, to, d->ldx ? (E *)w->aux + i * d->ldx + j : NULL);
    else if (w->of_c)
        for (int64_t x = 0; x < m; x++)
            put_row(w, from + x * step, i + x, j, n);
    else if (mg_gemm_rounds(d))
        round_out(from, step, m, n, to, d->ldc);
}

/* Reads C of rows [i, i + m) and columns [j, j + n), to which sums in scratch are added. */
static void get_sums(const mgk_product *w, int64_t i, int64_t m, int64_t j, int64_t n, T *to,
                     int64_t step)
{
    if (w->of_c)
        for (int64_t x = 0; x < m; x++)
            get_row(w, i + x, j, n, to + x * step);
    else
        round_in((const E *)w->c + i * w->d->ldc + j, w->d->ldc, m, n, to, step);
}

/* The length of the sums. */
MGK_INLINE int64_t length_of(const mg_gemm_desc *d)
{
    return (d->k + TERMS_EACH - 1) / TERMS_EACH;
}

/* True if sums in scratch are complete after each panel, and need room for only one. */
MGK_INLINE bool near_sums(const mgk_product *w)
{
    const mg_gemm_desc *d = w->d;
    const int64_t block = TILED(d) ? mg_amx_terms(d) : mg_gemm_terms(length_of(d));
    return in_scratch(w) && !w->few && length_of(d) <= block;
}

/* Finishes rows [i, i + m) of a strip, whose sums are complete. */
static void finish(const mgk_product *w, const Strip *s, int64_t i, int64_t m)
{
    if (!near_sums(w))
        put_sums(w, s->c + i * s->ldc, s->ldc, s->i + i, m, s->j, s->n);
    if (w->call)
        mgk_epilogue_rows(w, s->i + i, m, s->j, s->n);
}

/* Multiplies the panel's tiles, of pairs or of numbers. */
static void multiply(mgk_panel *panel)
{
    if (PAIRED)
        mgk_pairs_tiles(panel);
    else
        tiles(panel);
}

/* Multiplies all tiles of a block with the first panel. Each group of tiles is packed just before
 * its use; the next group is prefetched during the multiplication. */
static void first_panel(const mgk_product *w, const Strip *s, int64_t p, mgk_panel *panel)
{
    const int64_t n = panel->end, k = panel->k;
    for (int64_t t = 0, next; t < n; t = next) {
        next = t + SIDE < n ? t + SIDE : n;
        const int64_t then = next + SIDE < n ? next + SIDE : n;
        pack_tiles(w, s->i, s->m, p, k, t, next, s->a);
        panel->a_prefetch =
            tiles_prefetch(w, w->a, s->i, s->m, p, k, next, then, (next - t) * tile_rounds(k));
        panel->begin = t;
        panel->end = next;
        multiply(panel);
    }
}

/* Prefetches of what is packed next: the panel of columns from `then` on; after the last one (0)
 * the next terms, or the next product. */
MGK_INLINE void panel_prefetches(const mgk_product *w, const Strip *s, int64_t p, int64_t then,
                                 mgk_panel *panel)
{
    const int64_t k = panel->k, left = length_of(w->d) - p - k, tiles = panel->end;
    const int64_t rounds = tiles * tile_rounds(k), first = SIDE < tiles ? SIDE : tiles;
    if (then) {
        panel->b_prefetch = panel_prefetch(w, w->b, p, k, then, rounds);
    } else if (left > 0) {
        panel->a_prefetch =
            tiles_prefetch(w, w->a, s->i, s->m, p + k, left < k ? left : k, 0, first, rounds);
    } else if (w->next_a && s->m == w->d->m) {
        const int64_t terms = mg_gemm_terms(length_of(w->d));
        panel->a_prefetch = tiles_prefetch(w, w->next_a, 0, s->m, 0, terms, 0, first, rounds);
        panel->b_prefetch = panel_prefetch(w, w->next_b, 0, terms, 0, rounds);
    }
}

/* Sets up the panel of columns [j, j + n) of the strip. If B's order allows it, the first tile
 * packs the panel while it reads B. */
static mgk_panel panel_of(const mgk_product *w, const Strip *s, int64_t p, int64_t k, int64_t j,
                          int64_t n)
{
    const mg_gemm_desc *d = w->d;
    const bool near = near_sums(w);
    mgk_panel panel = {.m = s->m,
                       .k = k,
                       .n = n,
                       .end = tile_count(s->m),
                       .a = s->a,
                       .b = s->b,
                       .ldb = d->ldb,
                       .c = s->c + (near ? 0 : j),
                       .ldc = near ? PANEL_N : s->ldc,
                       .across = d->ta,
                       .add = p > 0 || d->beta != 0,
                       .alpha = d->alpha};
    panel_prefetches(w, s, p, j + n == s->n ? 0 : s->j + j + n, &panel);
    if (sizeof(E) == sizeof(T) && !d->tb && n == PANEL_N && !w->of_b)
        panel.from = panel_at(d, w->b, p, s->j + j);
    else
        pack_b(w, p, k, s->j + j, n, s->b);
    return panel;
}

/* Computes terms [p, p + k) of a strip. */
static void strip_terms(const mgk_product *w, const Strip *s, int64_t p, int64_t k)
{
    const mg_gemm_desc *d = w->d;
    for (int64_t j = 0; j < s->n; j += PANEL_N) {
        const int64_t n = s->n - j < PANEL_N ? s->n - j : PANEL_N;
        T bias[PANEL_N] = {0};
        mg_look(w->run, s->a);
        mgk_panel panel = panel_of(w, s, p, k, j, n);
        if (d->epilogue & MG_BIAS) {
            memcpy(bias, s->extra + j, (size_t)n * sizeof(T));
            panel.bias = bias;
        }
        if (near_sums(w) && d->beta != 0)
            get_sums(w, s->i, s->m, s->j + j, n, s->c, PANEL_N);
        if (j == 0)
            first_panel(w, s, p, &panel);
        else
            multiply(&panel);
        if (near_sums(w))
            put_sums(w, s->c, PANEL_N, s->i, s->m, s->j + j, n);
        if (d->epilogue == MG_SUM && s->i == 0 && PAIRED)
            pairs_sums(s->b, k, n, p > 0, s->extra + j);
        else if (d->epilogue == MG_SUM && s->i == 0)
            panel_sums(s->b, k, n, p > 0, s->extra + j);
    }
}

static void strip_of(const mgk_product *w, const Strip *s)
{
    const int64_t all = length_of(w->d), terms = mg_gemm_terms(all);
    int64_t p = 0;
    do {
        strip_terms(w, s, p, all - p < terms ? all - p : terms);
        p += terms;
    } while (p < all);
    finish(w, s, 0, s->m);
}

#include "kernels/few_body.h"

#undef amx_strip
#if VBYTES == 64 && !MGK_F64
#include "kernels/amx_body.h"
#else
#define amx_strip(w, s) ((void)0)
#endif

/* The use of a thread's scratch: blocks of A and B (or the sums of few rows), the sums of C, whose
 * `lanes` rows are `wide` apart, and behind them the epilogue's vector. Strips are `high` rows
 * high, and begin at multiples of `step`. */
typedef struct Space {
    int64_t high, step, lanes, wide;
    T *a, *b, *c;
} Space;

static Space space_of(const mgk_product *w, void *scratch)
{
    const mg_gemm_desc *d = w->d;
    Space s = {.high = BLOCK_M, .step = 1, .lanes = mg_gemm_lanes(d->m), .a = scratch};
    s.wide = MG_BLOCK_N;
    if (w->few) {
        s.lanes = w->m;
        s.wide = MG_FEW_LD(w->n);
        s.b = s.a + mg_few_packed(d, w->m);
        s.c = s.b + s.lanes * s.wide;
        return s;
    }
    s.b = s.a + s.lanes * ROW_STEP;
    s.c = s.b + PANEL_N * mg_gemm_terms(d->k);
    if (TILED(d)) {
        s.high = MG_AMX_ROWS;
        s.step = MGK_AMX_PANEL;
        s.lanes = d->m < MG_AMX_ROWS ? d->m : MG_AMX_ROWS;
        s.wide = MG_FEW_LD(MG_BLOCK_N);
        s.b = s.a + mg_amx_block(d, d->m, MG_AMX_HIGH(d));
        s.c = s.b + mg_amx_block(d, d->n, MG_BLOCK_N);
    }
    return s;
}

/* The begin of strip z of m rows. */
MGK_INLINE int64_t strip_begin(const Space *at, int64_t m, int64_t z, int64_t blocks)
{
    const int64_t row = (m * z / blocks + at->step - 1) / at->step * at->step;
    return row < m ? row : m;
}

static void sums_of(const mgk_product *w, const Strip *s)
{
    if (w->few)
        few_strip(w, s);
    else if (TILED(w->d))
        amx_strip(w, s);
    else
        strip_of(w, s);
}

static void NAME(product)(const mgk_product *w, void *scratch)
{
    const mg_gemm_desc *d = w->d;
    const Space at = space_of(w, scratch);
    const int64_t blocks = (w->m + at.high - 1) / at.high;
    for (int64_t z = 0; z < blocks; z++) {
        const int64_t row = strip_begin(&at, w->m, z, blocks);
        Strip s = {.i = w->i + row,
                   .m = strip_begin(&at, w->m, z + 1, blocks) - row,
                   .j = w->j,
                   .n = w->n,
                   .a = at.a,
                   .b = at.b};
        if (!in_scratch(w)) {
            s.c = (T *)w->c + s.i * d->ldc + s.j;
            s.ldc = d->ldc;
            s.extra = (T *)w->extra + (d->epilogue & (MG_BIAS | MG_SUM) ? s.j : 0);
            sums_of(w, &s);
            continue;
        }
        E *extra = (E *)w->extra + s.j;
        s.c = at.c;
        s.ldc = at.wide;
        s.extra = at.c + at.lanes * at.wide;
        if (d->beta != 0 && !near_sums(w))
            get_sums(w, s.i, s.m, s.j, s.n, s.c, s.ldc);
        if (d->epilogue & MG_BIAS)
            round_in(extra, 0, 1, s.n, s.extra, 0);
        sums_of(w, &s);
        if (d->epilogue == MG_SUM && s.i == 0)
            round_out(s.extra, 0, 1, s.n, extra, 0);
    }
}
