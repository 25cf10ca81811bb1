/* amx_body.h - a strip of a product on AMX for numbers of one type: packing, and the order of
 * blocks. product_body.h includes it for vectors of 64 bytes.
 *
 * A block of B, all columns of the strip, is packed once for all rows. Blocks of A stay in the
 * second-level cache and multiply it one after another, a panel at a time. */

#define amx_sums  NAME(amx_sums)
#define amx_block NAME(amx_block)
#define amx_lines NAME(amx_lines)
#define amx_near  NAME(amx_near)
#define amx_strip NAME(amx_strip)
#define amx_once  NAME(amx_once)

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

/* Packs `count` lines of an operand from `line` on, terms [p, p + k). What is read through taps is
 * brought together a tile's lines at a time. */
static void amx_lines(const mgk_product *w, bool of_b, int64_t line, int64_t count, int64_t p,
                      int64_t k, char *to)
{
    const bool along = of_b ? w->d->tb : !w->d->ta;
    const int64_t chunks = (k + MGK_AMX_TERMS - 1) / MGK_AMX_TERMS;
    const int64_t step = (of_b ? w->of_b : w->of_a) ? MGK_AMX_LINES : count;
    for (int64_t at = 0; at < count; at += step) {
        const int64_t n = count - at < step ? count - at : step;
        const Lines x = of_b ? lines_b(w, line + at, n, p, k) : lines_a(w, line + at, n, p, k);
        amx_pack(x.at, x.ld, along, of_b, n, k, true,
                 to + at / MGK_AMX_LINES * chunks * AMX_PARTS * MGK_AMX_BYTES);
    }
}

/* Packs a block of A as spread.h says, from where x lies. */
static void amx_once(const mgk_product *w, const mgk_spread *s, char *to)
{
    enum { UNIT = 64 };
    const int64_t part = s->places * UNIT, chunk = AMX_PARTS * part;
    for (int64_t r = 0; r < s->rows; r++, to += s->chunks * chunk)
        for (int64_t p = 0; p < s->places; p++) {
            const int64_t place = s->low + p;
            const bool there = s->row[r] != MGK_SPREAD_NONE && place >= 0 && place < s->size;
            const E *x = (const E *)w->a + s->row[r] + place * s->stride + s->first * MGK_AMX_TERMS;
            for (int64_t c = 0; c < s->chunks; c++)
                amx_unit(there ? x + c * MGK_AMX_TERMS : NULL, part, to + c * chunk + p * UNIT);
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

/* Rows [i, i + m) of the strip, terms [p, p + k): a block of A times all panels of B. The first
 * block of these terms packs the panels, a group at a time, to where later blocks find them. If it
 * is the only block, all groups are packed to the same place, which stays in cache. */
static void amx_block(const mgk_product *w, const Strip *s, int64_t i, int64_t m, int64_t p,
                      int64_t k)
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
    mgk_spread spread;
    if (w->of_a && mgk_spread_plan(w->of_a, row, m, p, k, AMX_PARTS,
                                   mg_amx_block(d, d->m, MG_AMX_HIGH(d)) / 16, &spread)) {
        amx_once(w, &spread, a);
        x.at = spread.at;
        x.a_part = spread.places * 64;
        x.a_line = spread.step * 64;
    } else {
        amx_lines(w, false, row, m, p, k, a);
    }
    for (int64_t j = 0; j < s->n; j += MGK_AMX_PANEL) {
        const int64_t left = s->n - j, group = left < GROUP ? left : GROUP;
        char *panel = b + (m < s->m ? j : j % GROUP) / MGK_AMX_PANEL * bytes;
        mg_look(w->run, s->a);
        if (i == 0 && j % GROUP == 0) {
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
}

static void amx_strip(const mgk_product *w, const Strip *s)
{
    const int64_t all = w->d->k, terms = mg_amx_terms(w->d), high = MGK_AMX_PANEL;
    const int64_t most = MG_AMX_HIGH(w->d), blocks = (s->m + most - 1) / most;
    const int64_t rows = ((s->m + blocks - 1) / blocks + high - 1) / high * high;
    int64_t p = 0;
    mgk_amx_begin();
    do {
        const int64_t k = all - p < terms ? all - p : terms;
        for (int64_t i = 0; i < s->m; i += rows) {
            const int64_t m = s->m - i < rows ? s->m - i : rows;
            amx_block(w, s, i, m, p, k);
            if (p + k == all)
                finish(w, s, i, m);
        }
        p += terms;
    } while (p < all);
    mgk_amx_end();
}
