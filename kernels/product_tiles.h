/* product_tiles.h - multiplies a packed block of A by a panel of B, tile by tile, on one type and
 * vector unit; uses the types of simd.h, so no include guard. The including file defines a term:
 *   V tile_all(const T *a)            a number of A in all lanes
 *   V tile_term(V sum, V all, V b)    sum + all * b */

/* The most rows of a tile, and its vectors: as many sums as fit the registers. */
#define TILE_ROWS (VREGS == 32 ? 14 : 6)
#define TILE_VECS 2
#define TILE_STEP ((TILE_ROWS + VL - 1) / VL * VL) /* between columns of packed rows */
#define ROW_STEP  (MG_BLOCK_K + 16)                /* between rows packed in memory order */
#define PANEL_N   (TILE_VECS * VL)
#define BLOCK_M   ((MG_BLOCK_LANES / TILE_STEP - 1) * TILE_ROWS) /* an odd row is one more tile */

/* A tile prefetches a few lines every BESIDE terms. More prefetches at once would wait for each
 * other, and delay the multiplications. */
#define BESIDE 8

#define tile_count   NAME(tile_count)
#define tile_row     NAME(tile_row)
#define tile_rounds  NAME(tile_rounds)
#define tile_sums    NAME(tile_sums)
#define tile_store   NAME(tile_store)
#define tile_rest    NAME(tile_rest)
#define tile_of      NAME(tile_of)
#define tiles_of     NAME(tiles_of)
#define tiles_narrow NAME(tiles_narrow)
#define fetch        NAME(fetch)

/* Tiles share the pairs of m rows as evenly as possible; an odd row is a tile of its own. A tile is
 * therefore 1 row high, or an even number. */
MGK_INLINE int64_t tile_count(int64_t m)
{
    return (m / 2 * 2 + TILE_ROWS - 1) / TILE_ROWS + m % 2;
}

/* The first row of tile number t. */
MGK_INLINE int64_t tile_row(int64_t m, int64_t t)
{
    const int64_t even = (m / 2 * 2 + TILE_ROWS - 1) / TILE_ROWS;
    return t < even ? m / 2 * t / even * 2 : t == even ? m / 2 * 2 : m;
}

/* How often a tile of k terms prefetches; 1 of none. */
MGK_INLINE int64_t tile_rounds(int64_t k)
{
    return k > 0 ? (k + BESIDE - 1) / BESIDE : 1;
}

/* Prefetches the next lines. */
MGK_INLINE void fetch(mgk_prefetch *s)
{
    for (int64_t count = s->each; count > 0 && s->runs > 0; s->runs--, s->at += s->stride)
        for (int64_t l = 0; l < s->lines; l++, count--)
            __builtin_prefetch(s->at + l * 64, 0, 2);
}

/* `packs`: reads B from memory, and also writes it to the panel. vecs: vectors of the panel that
 * are columns of C. */
MGK_INLINE void tile_sums(int rows, int vecs, bool across, bool packs, mgk_panel *w,
                          mgk_prefetch *c_prefetch, const T *a, V acc[TILE_ROWS][TILE_VECS])
{
    const T *b = packs ? w->from : w->b;
    T *to = w->b;
    const int64_t step = packs ? w->ldb : PANEL_N;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++)
            acc[i][j] = vall(0);
    for (int64_t left = w->k; left > 0;) {
        fetch(c_prefetch);
        fetch(&w->b_prefetch);
        fetch(&w->a_prefetch);
        int64_t terms = left < BESIDE ? left : BESIDE;
        left -= terms;
        do {
            const V b0 = vload(b), b1 = vecs > 1 ? vload(b + VL) : b0;
            b += step;
            if (packs) {
                vstore(to, b0);
                vstore(to + VL, b1);
                to += PANEL_N;
            }
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                const V av = tile_all(a + (across ? i : i * ROW_STEP));
                acc[i][0] = tile_term(acc[i][0], av, b0);
                if (vecs > 1)
                    acc[i][1] = tile_term(acc[i][1], av, b1);
            }
            a += across ? TILE_STEP : 1;
        } while (--terms > 0);
    }
}

/* Stores the sums, times alpha, plus C (with `add`) or plus the bias. */
MGK_INLINE void tile_store(int rows, int vecs, const mgk_panel *w, T *c, int64_t ldc,
                           V acc[TILE_ROWS][TILE_VECS])
{
    const T *bias = w->bias;
    if (w->alpha != 1) {
        const V alpha = vall((T)w->alpha);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int j = 0; j < vecs; j++)
                acc[i][j] *= alpha;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vecs; j++) {
            T *at = c + i * ldc + j * VL;
            V sum = acc[i][j];
            if (w->add)
                sum += vload(at);
            else if (bias)
                sum += vload(bias + j * VL);
            vstore(at, sum);
        }
}

/* tile_store for the last columns of a matrix, through a buffer. */
MGK_INLINE void tile_rest(int rows, int vecs, const mgk_panel *w, T *c, int64_t ldc,
                          V acc[TILE_ROWS][TILE_VECS])
{
    T all[TILE_ROWS][PANEL_N];
    for (int i = 0; i < rows && w->add; i++)
        memcpy(all[i], c + i * ldc, (size_t)w->n * sizeof(T));
    tile_store(rows, vecs, w, all[0], PANEL_N, acc);
    for (int i = 0; i < rows; i++)
        memcpy(c + i * ldc, all[i], (size_t)w->n * sizeof(T));
}

/* vecs: 1 for the last columns of a matrix, where they fill no more than one vector. Nobody packs
 * them here. */
MGK_INLINE void tile_of(int rows, int vecs, bool across, bool packs, mgk_panel *w,
                        mgk_prefetch *c_prefetch, const T *a, T *c)
{
    V acc[TILE_ROWS][TILE_VECS];
    if (packs && vecs == TILE_VECS)
        tile_sums(rows, vecs, across, true, w, c_prefetch, a, acc);
    else
        tile_sums(rows, vecs, across, false, w, c_prefetch, a, acc);
    if (w->n == vecs * VL)
        tile_store(rows, vecs, w, c, w->ldc, acc);
    else
        tile_rest(rows, vecs, w, c, w->ldc, acc);
}

MGK_INLINE void tiles_of(bool across, int vecs, mgk_panel *w)
{
    const int64_t n = tile_count(w->m), row_bytes = w->ldc * (int64_t)sizeof(T);
    /* Rows that begin inside of a line end in one more. */
    const bool inside = (row_bytes | (int64_t)(uintptr_t)w->c) % 64 != 0;
    const int64_t lines = (TILE_VECS * VBYTES + 63) / 64 + inside;
    for (int64_t t = w->begin; t < w->end; t++) {
        const int64_t row = tile_row(w->m, t), next = tile_row(w->m, t + 1);
        const bool packs = w->from && t == 0;
        const T *a = (const T *)w->a + (across ? t * TILE_STEP * w->k : row * ROW_STEP);
        T *c = (T *)w->c + row * w->ldc;
        mgk_prefetch c_prefetch = {
            .at = (const char *)((T *)w->c + (t + 1 < n ? next * w->ldc : PANEL_N)),
            .stride = row_bytes,
            .runs = TILE_ROWS,
            .lines = lines,
            .each = TILE_ROWS * lines / tile_rounds(w->k) + 1};
        switch (next - row) {
#define CASE(rows)                                                                                 \
    case rows:                                                                                     \
        tile_of(rows, vecs, across, packs, w, &c_prefetch, a, c);                                  \
        break;
            CASE(1)
            CASE(2)
            CASE(4)
            CASE(6)
#if VREGS == 32
            CASE(8)
            CASE(10)
            CASE(12)
            CASE(14)
#endif
#undef CASE
        }
    }
}

/* The last columns have a function of their own: in one with the others compilers keep the sums of
 * neither in registers. */
static __attribute__((noinline)) void tiles_narrow(mgk_panel *w)
{
    if (w->across)
        tiles_of(true, 1, w);
    else
        tiles_of(false, 1, w);
}

/* Multiplies tiles [begin, end) of a block by one panel. */
static void tiles(mgk_panel *w)
{
    if (w->n <= VL)
        tiles_narrow(w);
    else if (w->across)
        tiles_of(true, TILE_VECS, w);
    else
        tiles_of(false, TILE_VECS, w);
}
