/* conv.c - a convolution: one or several products whose first operand is read through its indices.
 *
 * The rows of the product are positions, its terms taps and colours (for dw: the other way round).
 * Packing brings a few tiles' lines of x together at a time (taps.h), so what the taps see is never
 * stored as a whole. The rest is a product as any other (gemm.c).
 * One with a stride is cut into several, in which no zeros are multiplied (runtime/conv.h). */
#include "runtime/conv.h"

#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/output.h"

/* ---- operands -------------------------------------------------------------------------------- */

static mgk_dims dims_of(const mg_conv_desc *d, int first, int count, const int64_t *stride,
                        int axes)
{
    mgk_dims g = {.n = count};
    for (int i = 0; i < count; i++) {
        g.size[i] = d->size[first + i];
        g.stride[i] = stride[first + i];
        for (int x = 0; x < axes; x++)
            g.by[i][x] = d->axis[x].by[first + i];
    }
    return g;
}

/* The elements of an operand that are contiguous along the innermost of some dims. */
static int64_t run_of(const mgk_dims *g, int axes)
{
    bool even = g->n && g->stride[g->n - 1] == 1;
    for (int x = 0; x < axes && even; x++)
        even = g->by[g->n - 1][x] == 0;
    return even ? g->size[g->n - 1] : 1;
}

/* The stride of dims that are one index; false: they are none. */
static bool merged(const mgk_dims *g, int64_t *stride)
{
    *stride = 1;
    for (int i = g->n - 1, inner = -1; i >= 0; i--) {
        if (g->size[i] == 1)
            continue;
        if (inner >= 0 && g->stride[i] != g->stride[inner] * g->size[inner])
            return false;
        if (inner < 0)
            *stride = g->stride[i];
        inner = i;
    }
    return true;
}

static mgk_taps taps_of(const mg_conv_desc *d, mgk_dims lines, mgk_dims terms, int axes)
{
    mgk_taps t = {.lines = lines, .terms = terms, .axes = axes};
    t.along = run_of(&terms, axes) >= run_of(&lines, axes);
    t.bytes = mg_dtype_bytes(d->dtype);
    for (int x = 0; x < axes; x++) {
        t.axis[x].size = d->axis[x].size;
        t.axis[x].stride = d->axis[x].stride;
        t.axis[x].at = d->axis[x].at;
        t.axis[x].every = d->axis[x].every;
    }
    return t;
}

/* w as a matrix, if it is one. */
static bool is_matrix(const mgk_dims *terms, const mgk_dims *columns, mg_gemm_desc *g)
{
    int64_t term, column;
    if (!merged(terms, &term) || !merged(columns, &column))
        return false;
    g->tb = column != 1 && g->n != 1;
    g->ldb = g->tb ? column : term;
    return g->tb ? (term == 1 || g->k == 1) && column >= g->k : term >= g->n || g->k == 1;
}

/* ---- one product ----------------------------------------------------------------------------- */

static void product(mg_run *r, const mg_conv_part *c, int64_t staged, const char *x, const char *w,
                    char *y)
{
    const mg_conv_desc *d = &c->d;
    const int64_t in = mg_dtype_bytes(d->dtype), out = mg_dtype_bytes(d->out);
    const int m = mg_conv_first_row(d), n = mg_conv_first_column(d), k = mg_conv_first_term(d);
    mg_gemm_desc g = {.dtype = d->dtype,
                      .out = d->out,
                      .m = mg_conv_size(d, m, d->rows),
                      .n = mg_conv_size(d, n, d->columns),
                      .k = mg_conv_size(d, k, d->terms),
                      .alpha = 1,
                      .beta = d->accumulate ? 1 : 0,
                      .batch = 1};
    const mgk_dims terms = dims_of(d, k, d->terms, d->w, 0);
    const mgk_dims columns = dims_of(d, n, d->columns, d->w, 0);
    const mgk_dims rows = dims_of(d, m, d->rows, d->y, 0);
    const mgk_taps of_a = taps_of(d, dims_of(d, m, d->rows, d->x, d->axes),
                                  dims_of(d, k, d->terms, d->x, d->axes), d->axes);
    mgk_taps of_b;
    const bool plain_b = is_matrix(&terms, &columns, &g),
               plain_c = merged(&rows, &g.ldc) && (g.ldc >= g.n || g.m == 1);
    g.ta = !of_a.along;
    if (!plain_b) {
        of_b = taps_of(d, columns, terms, 0);
        g.tb = of_b.along;
    }
    if (g.beta != 0 && g.k == 0)
        return;
    mgk_gemm_taps(r, &g, &of_a, plain_b ? NULL : &of_b, plain_c ? NULL : &rows, staged,
                  x + c->x * in, w + c->w * in, y + c->y * out);
}

/* ---- the call -------------------------------------------------------------------------------- */

static void report(mg_run *r, int action, const mg_conv_desc *d, const void *y)
{
    int64_t size[MG_CONV_DIMS], stride[MG_CONV_DIMS];
    int n = 0;
    for (int i = 0; i < mg_conv_first_term(d); i++) {
        size[n] = d->size[i];
        stride[n++] = d->y[i];
    }
    mgk_output(r, action, y, d->out, n, size, stride);
}

void mg_conv(mg_run *r, int action, const mg_conv_desc *d, const void *x, const void *w, void *y,
             void *work)
{
    (void)work; /* a GPU's */
    const int64_t staged = mg_conv_product_scratch(d);
    const int64_t batch = mg_conv_size(d, 0, d->batch);
    if (mg_conv_dims(d) > MG_CONV_DIMS || d->axes > MG_CONV_AXES || d->terms < 1)
        mgk_fatal("mg_conv", "a convolution has dims that are summed, and at most 12 dims, 3 axes");
    mg_begin(r, action);
    for (int64_t b = 0; b < batch; b++) {
        const mgk_dims in_x = dims_of(d, 0, d->batch, d->x, 0),
                       in_w = dims_of(d, 0, d->batch, d->w, 0),
                       in_y = dims_of(d, 0, d->batch, d->y, 0);
        mg_conv_parts parts =
            mg_conv_cut(d, mgk_dims_at(&in_x, b), mgk_dims_at(&in_w, b), mgk_dims_at(&in_y, b));
        mg_conv_part part;
        while (mg_conv_next(&parts, &part))
            product(r, &part, staged, x, w, y);
    }
    mg_end(r, action);
    report(r, action, d, y);
}
