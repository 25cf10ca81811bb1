/* amx_body.h - a strip of a product on AMX for numbers of one type: packing, and the order of
 * blocks. product_body.h includes it for vectors of 64 bytes.
 *
 * A block of B, all columns of the strip, is packed once for all rows. Blocks of A stay in the
 * second-level cache and multiply it one after another, a panel at a time. */

#define amx_sums    NAME(amx_sums)
#define amx_block   NAME(amx_block)
#define amx_lines   NAME(amx_lines)
#define amx_near    NAME(amx_near)
#define amx_strip   NAME(amx_strip)
#define amx_once    NAME(amx_once)
#define amx_place   NAME(amx_place)
#define once_at     NAME(once_at)
#define amx_terms   NAME(amx_terms)
#define amx_even    NAME(amx_even)
#define amx_turned  NAME(amx_turned)
#define amx_columns NAME(amx_columns)
#define amx_pack_as NAME(amx_pack_as)
#define AmxPacked   NAME(AmxPacked)
#define AMX_NONE    NAME(AMX_NONE)
#define AMX_PANELS  NAME(AMX_PANELS)
#define AMX_LINES   NAME(AMX_LINES)
#define amx_plan    NAME(amx_plan)

/* sum[j] (+)= the sum of column j of packed B; the parts of a number sum to it exactly. */
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

/* Packs `count` lines of an operand from `line` on, terms [p, p + k), as tiles of B or of A. What
 * is read through taps is brought together a tile's lines at a time. */
static void amx_pack_as(const mgk_product *w, bool of_b, bool as_b, int64_t line, int64_t count,
                        int64_t p, int64_t k, char *to)
{
    const bool along = of_b ? w->d->tb : !w->d->ta;
    const int64_t chunks = (k + MGK_AMX_TERMS - 1) / MGK_AMX_TERMS;
    const int64_t step = (of_b ? w->of_b : w->of_a) ? MGK_AMX_LINES : count;
    for (int64_t at = 0; at < count; at += step) {
        const int64_t n = count - at < step ? count - at : step;
        const Lines x = of_b ? lines_b(w, line + at, n, p, k) : lines_a(w, line + at, n, p, k);
        amx_pack(x.at, x.ld, along, as_b, n, k, true,
                 to + at / MGK_AMX_LINES * chunks * AMX_PARTS * MGK_AMX_BYTES);
    }
}

static void amx_lines(const mgk_product *w, bool of_b, int64_t line, int64_t count, int64_t p,
                      int64_t k, char *to)
{
    amx_pack_as(w, of_b, of_b, line, count, p, k, to);
}

/* Columns of B as lines of A. */
static void amx_columns(const mgk_product *w, int64_t line, int64_t count, int64_t p, int64_t k,
                        char *to)
{
    amx_pack_as(w, true, false, line, count, p, k, to);
}

/* Plans a block of A that is packed once for many taps; false: it cannot be. Where terms are
 * positions, not of bf16: their pairs are neighbours, which a tap beside them would take apart. */
static bool amx_plan(const mgk_product *w, int64_t line, int64_t lines, int64_t p, int64_t k,
                     mgk_spread *s)
{
    return w->of_a && (w->of_a->along || (AMX_PARTS > 1 && !near_sums(w))) &&
           mgk_spread_plan(w->of_a, line, lines, p, k, AMX_PARTS, s);
}

/* The room for a block that is packed once. */
MGK_INLINE char *once_at(const mgk_product *w)
{
    return (char *)w->staged + 2 * MG_STAGED * (int64_t)sizeof(E);
}

/* A place of a source row, or NULL: it is outside of x. */
MGK_INLINE const E *amx_place(const mgk_product *w, const mgk_spread *s, int64_t row, int64_t place)
{
    const bool there = row != MGK_SPREAD_NONE && place >= 0 && place < s->size;
    return there ? (const E *)w->a + row + place * s->stride : NULL;
}

/* Packs a block as spread.h says, from where x lies. */
static void amx_once(const mgk_product *w, const mgk_spread *s, char *to)
{
    enum { UNIT = 64, AHEAD = 8 }; /* places that are prefetched */
    const int64_t part = s->places * UNIT, chunk = AMX_PARTS * part, runs = s->stride * AHEAD;
    const int64_t colours = s->along ? MGK_AMX_TERMS : MGK_AMX_LINES;
    for (const mgk_spread_row *row = s->row; row < s->row + s->rows; row++, to += s->chunks * chunk)
        for (int64_t p = 0; p < s->places; p++) {
            const E *x = amx_place(w, s, row->at, s->low + p), *y = x ? x + VL : NULL;
            if (!s->along)
                y = amx_place(w, s, row->partner, s->low + p + row->ahead);
            for (int64_t c = 0; c < s->chunks; c++) {
                const int64_t at = (s->first + c) * colours;
                if (x)
                    __builtin_prefetch(x + at + runs, 0, 3);
                if (y)
                    __builtin_prefetch(y + at + runs, 0, 3);
                amx_unit(x ? x + at : NULL, y ? y + at : NULL, part, to + c * chunk + p * UNIT);
            }
        }
}

/* A panel whose sums are complete with it: a few rows at a time, so that sums go from the nearest
 * cache to where they belong. */
static void amx_near(const mgk_product *w, const mgk_amx *panel, int64_t row, int64_t j)
{
    enum { HIGH = MGK_AMX_PANEL };
    const mg_gemm_desc *d = w->d;
    const int64_t bytes = panel->chunks * AMX_PARTS * MGK_AMX_BYTES; /* of a tile's lines */
    mgk_amx x = *panel;
    x.ldc = HIGH;
    x.out_row = d->ldc * (int64_t)sizeof(E);
    for (int64_t i = 0; i < panel->m; i += HIGH) {
        x.m = panel->m - i < HIGH ? panel->m - i : HIGH;
        if (panel->at)
            x.at = panel->at + i / MGK_AMX_LINES * panel->chunks;
        else
            x.a = panel->a + i / MGK_AMX_LINES * bytes;
        x.next = panel->next + i / HIGH * bytes / 4;
        if (!w->of_c)
            x.out = (const char *)((const E *)w->c + (row + i) * d->ldc + j);
        if (d->beta != 0)
            get_sums(w, row + i, x.m, j, x.n, x.c, x.ldc);
        mgk_amx_panel(&x);
        put_sums(w, x.c, x.ldc, row + i, x.m, j, x.n);
    }
}

/* The form of the columns of B that are packed, of the terms at hand. */
typedef enum AmxPacked { AMX_NONE, AMX_PANELS, AMX_LINES } AmxPacked;

/* Rows [i, i + m) of the strip, terms [p, p + k): a block of A times all panels of B. The first
 * block of these terms packs the panels, a group at a time, to where later blocks find them. If it
 * is the only block, all groups are packed to the same place, which stays in cache. */
static void amx_block(const mgk_product *w, const Strip *s, int64_t i, int64_t m, int64_t p,
                      int64_t k, const mgk_spread *spread, AmxPacked *packed)
{
    enum { GROUP = 4 * MGK_AMX_PANEL };
    const mg_gemm_desc *d = w->d;
    const int64_t chunks = (k + MGK_AMX_TERMS - 1) / MGK_AMX_TERMS, row = s->i + i;
    const int64_t bytes = 2 * chunks * AMX_PARTS * MGK_AMX_BYTES; /* of a panel */
    char *const a = (char *)s->a, *const b = (char *)s->b;
    const bool near = near_sums(w);
    mgk_amx x = {.m = m,
                 .chunks = chunks,
                 .parts = AMX_PARTS,
                 .a = a,
                 .ldc = s->ldc,
                 .add = p > 0 || d->beta != 0,
                 .alpha = (float)d->alpha};
    if (spread) {
        amx_once(w, spread, once_at(w));
        x.a = once_at(w);
        x.at = spread->at;
        x.part = spread->places * 64;
        x.line = spread->step * 64;
    } else {
        amx_lines(w, false, row, m, p, k, a);
    }
    for (int64_t j = 0; j < s->n; j += MGK_AMX_PANEL) {
        const int64_t left = s->n - j, group = left < GROUP ? left : GROUP;
        char *panel = b + (m < s->m ? j : j % GROUP) / MGK_AMX_PANEL * bytes;
        mg_look(w->run, s->a);
        if (*packed != AMX_PANELS && j % GROUP == 0) {
            amx_lines(w, true, s->j + j, group, p, k, panel);
            if (d->epilogue == MG_SUM && s->i == 0)
                amx_sums(panel, chunks, group, p > 0, s->extra + j);
        }
        x.n = left < MGK_AMX_PANEL ? left : MGK_AMX_PANEL;
        x.b = panel;
        x.next = panel + bytes;
        x.c = s->c + (near ? 0 : i * s->ldc + j);
        x.bias = d->epilogue & MG_BIAS ? s->extra + j : NULL;
        if (near)
            amx_near(w, &x, row, s->j + j);
        else
            mgk_amx_panel(&x);
    }
    *packed = AMX_PANELS;
}

/* The same turned: columns of B are lines of the tiles, and rows of A, which are spread, columns.
 */
static void amx_turned(const mgk_product *w, const Strip *s, int64_t i, int64_t m, int64_t p,
                       int64_t k, const mgk_spread *spread, AmxPacked *packed)
{
    const int64_t chunks = k / MGK_AMX_TERMS;
    mgk_amx x = {.m = s->n,
                 .chunks = chunks,
                 .parts = AMX_PARTS,
                 .a = (char *)s->b,
                 .b = once_at(w),
                 .next = once_at(w),
                 .part = spread->places * 64,
                 .line = spread->step * 64,
                 .turned = true,
                 .ldc = s->ldc,
                 .add = p > 0 || w->d->beta != 0,
                 .alpha = (float)w->d->alpha};
    amx_once(w, spread, once_at(w));
    if (*packed != AMX_LINES)
        amx_columns(w, s->j, s->n, p, k, (char *)s->b);
    for (int64_t l = 0; l < m; l += MGK_AMX_PANEL) {
        mg_look(w->run, s->a);
        x.n = m - l < MGK_AMX_PANEL ? m - l : MGK_AMX_PANEL;
        x.at = spread->at + l / MGK_AMX_LINES * chunks;
        x.c = s->c + (i + l) * s->ldc;
        mgk_amx_panel(&x);
    }
    *packed = AMX_LINES;
}

/* An even share of m rows, in whole pairs of tiles. */
MGK_INLINE int64_t amx_even(int64_t m, int64_t blocks)
{
    const int64_t high = MGK_AMX_PANEL;
    return ((m + blocks - 1) / blocks + high - 1) / high * high;
}

/* Terms [p, p + k) of a strip, a block of rows at a time: even shares of the strip, that fit into a
 * cache. Where terms are positions, as many rows as are packed once for all of their taps. */
static void amx_terms(const mgk_product *w, const Strip *s, int64_t p, int64_t k)
{
    const int64_t most = MG_AMX_HIGH(w->d), blocks = (s->m + most - 1) / most;
    const int64_t even = amx_even(s->m, blocks);
    AmxPacked packed = AMX_NONE;
    for (int64_t i = 0, m; i < s->m; i += m) {
        const int64_t left = s->m - i;
        mgk_spread spread;
        m = left > even && !(w->of_a && !w->of_a->along) ? even : left;
        bool once = amx_plan(w, s->i + i, m, p, k, &spread);
        while (!once && m > most) {
            m = amx_even(m, 2);
            once = amx_plan(w, s->i + i, m, p, k, &spread);
        }
        if (once && !spread.along)
            amx_turned(w, s, i, m, p, k, &spread, &packed);
        else
            amx_block(w, s, i, m, p, k, once ? &spread : NULL, &packed);
        if (p + k == w->d->k)
            finish(w, s, i, m);
    }
}

static void amx_strip(const mgk_product *w, const Strip *s)
{
    const int64_t all = w->d->k, terms = mg_amx_terms(w->d);
    int64_t p = 0;
    mgk_amx_begin();
    do {
        amx_terms(w, s, p, all - p < terms ? all - p : terms);
        p += terms;
    } while (p < all);
    mgk_amx_end();
}
