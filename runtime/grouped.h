/* grouped.h - how grouped products are computed: on a processor a product for each expert of a
 * group, on a GPU the kernels of convolutions in tiles, none of which has rows of two experts. The
 * compiler reserves memory for the largest product, and counts and prices what a GPU launches. */
#ifndef MG_GROUPED_H
#define MG_GROUPED_H

#include "runtime/conv.h"

/* The product of one expert's rows: of grouped y = z w, of grouped_weight w = z^T y. */
static inline mg_gemm_desc mg_grouped_product(const mg_grouped_desc *d, bool weight, int64_t rows)
{
    mg_gemm_desc g = {.dtype = d->dtype, .out = d->out, .n = d->n, .alpha = 1, .batch = 1};
    g.m = weight ? d->k : rows;
    g.k = weight ? rows : d->k;
    g.ta = weight;
    g.tb = !weight && d->turned;
    g.lda = d->k;
    g.ldb = g.tb ? d->k : d->n;
    g.ldc = d->n;
    return g;
}

/* Bytes of scratch of a thread: an expert may have any number of the rows, so that sums of rows are
 * in blocks of any length. */
static inline int64_t mg_grouped_scratch(const mg_grouped_desc *d, bool weight)
{
    const mg_gemm_desc all = mg_grouped_product(d, weight, weight ? MG_AMX_K : d->rows);
    const mg_gemm_desc few = mg_grouped_product(d, weight, MG_FEW_ROWS);
    const bool sums = all.out != MG_F32 && all.out != MG_F64;
    const int64_t a = mg_product_scratch(&all, sums), b = mg_product_scratch(&few, sums);
    return a > b ? a : b;
}

/* All rows of a group as one product without taps: of one expert it has fewer rows, or terms. */
static inline mg_conv_desc mg_grouped_conv(const mg_grouped_desc *d, bool weight)
{
    mg_conv_desc c = {.dtype = d->dtype, .out = d->out, .accumulate = d->accumulate};
    c.rows = c.columns = c.terms = 1;
    c.size[0] = weight ? d->k : d->rows;
    c.size[1] = d->n;
    c.size[2] = weight ? d->rows : d->k;
    c.x[weight ? 2 : 0] = d->k;
    c.x[weight ? 0 : 2] = 1;
    c.w[1] = !weight && d->turned ? d->k : 1;
    c.w[2] = !weight && d->turned ? 1 : d->n;
    c.y[0] = d->n;
    c.y[1] = 1;
    for (; c.axes < MG_CONV_AXES; c.axes++)
        c.axis[c.axes] = (mg_conv_axis){.size = 1, .every = 1};
    return c;
}

/* Its kernel: sums are not cut, because how long they are is known on the GPU alone. Where it is
 * begun says nothing but whether operands are read in chunks. */
static inline mg_conv_way mg_grouped_way(const mg_grouped_desc *d, bool weight, bool x_even,
                                         bool w_even)
{
    mg_conv_desc c = mg_grouped_conv(d, weight);
    mg_conv_way w = mg_conv_way_of(&c, x_even, w_even);
    w.splits = 1;
    return w;
}

/* Tiles that the rows of a group may have: the last of an expert's rows may not be full, and those
 * of no expert are one more. */
static inline int64_t mg_grouped_tiles(const mg_grouped_desc *d)
{
    const int64_t last = d->experts + 1 < d->rows ? d->experts + 1 : d->rows;
    return d->rows / MG_CONV_ROWS + last;
}

/* Blocks of its kernel: one for each tile of columns, and of rows, or of each expert's matrix. */
static inline int64_t mg_grouped_blocks(const mg_grouped_desc *d, bool weight, int64_t columns)
{
    const int64_t across = (d->n + columns - 1) / columns;
    const int64_t down = weight ? d->experts * ((d->k + MG_CONV_ROWS - 1) / MG_CONV_ROWS)
                                : d->groups * mg_grouped_tiles(d);
    return down * across;
}

static inline void mg_grouped_name(const mg_conv_way *w, bool weight, const char *numbers,
                                   char name[MG_CONV_NAME])
{
    snprintf(name, MG_CONV_NAME, "mg_grouped%s_%s_%s_%s_%d", weight ? "_weight" : "", numbers,
             w->turned_x ? "turned" : "plain", w->turned_w ? "turned" : "plain", w->columns);
}
static inline void mg_grouped_instance(const mg_conv_way *w, bool weight, const char *numbers,
                                       char text[MG_CONV_NAME])
{
    snprintf(text, MG_CONV_NAME, "MG_GROUPED%s(%s, %s, %s, %d)", weight ? "_WEIGHT" : "", numbers,
             w->turned_x ? "turned" : "plain", w->turned_w ? "turned" : "plain", w->columns);
}

#endif
