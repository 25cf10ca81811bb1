/* conv.c - a convolution: one or several products whose first operand is read through its indices.
 *
 * The rows of the product are positions, its terms taps and colours (for dw: the other way round).
 * Packing brings a few tiles' lines of x together at a time (taps.h), so what the taps see is never
 * stored as a whole. The rest is a product as any other (gemm.c).
 *
 * An axis may have an element only for every e-th sum of indices (dx of a convolution with a
 * stride): then each residue of the rows' indices meets residues of the terms' indices of its own.
 * So the convolution is cut into one for each residue, in which an axis has an element at each sum:
 * no zeros are multiplied. Only where several residues of terms meet one of rows is it left whole.
 */
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/output.h"

#include <string.h>

/* A convolution with the offsets of its first elements. */
typedef struct Conv {
    mg_conv_desc d;
    int64_t x, w, y; /* elements */
} Conv;

static int first_row(const mg_conv_desc *d)
{
    return d->batch;
}

static int first_column(const mg_conv_desc *d)
{
    return d->batch + d->rows;
}

static int first_term(const mg_conv_desc *d)
{
    return d->batch + d->rows + d->columns;
}

static int all_dims(const mg_conv_desc *d)
{
    return first_term(d) + d->terms;
}

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

static void product(mg_run *r, const Conv *c, int64_t staged, const char *x, const char *w, char *y)
{
    const mg_conv_desc *d = &c->d;
    const int64_t in = mg_dtype_bytes(d->dtype), out = mg_dtype_bytes(d->out);
    const int m = first_row(d), n = first_column(d), k = first_term(d);
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

/* ---- residues -------------------------------------------------------------------------------- */

/* Dims whose indices are taken apart by their remainder. */
typedef struct Residues {
    int rows, n; /* those of rows come first */
    int dim[MG_CONV_DIMS];
    int64_t every[MG_CONV_DIMS], at[MG_CONV_DIMS];
} Residues;

/* False: some dim counts along two such axes. */
static bool find_residues(const mg_conv_desc *d, Residues *s)
{
    *s = (Residues){0};
    for (int i = first_row(d); i < all_dims(d); i++)
        for (int x = 0; x < d->axes; x++) {
            if (d->axis[x].every == 1 || !d->axis[x].by[i])
                continue;
            if (s->n && s->dim[s->n - 1] == i)
                return false;
            s->dim[s->n] = i;
            s->every[s->n++] = d->axis[x].every;
            s->rows += i < first_column(d);
        }
    return true;
}

/* Goes to the next residues of dims [first, end); false: there are no more. */
static bool next_residues(Residues *s, int first, int end)
{
    for (int i = end - 1; i >= first; i--) {
        if (++s->at[i] < s->every[i])
            return true;
        s->at[i] = 0;
    }
    return false;
}

/* The convolution of these residues; false: they have no elements of x. */
static bool part_of(const Conv *c, const Residues *s, Conv *part)
{
    *part = *c;
    mg_conv_desc *d = &part->d;
    bool there = true;
    for (int i = 0; i < s->n; i++) {
        const int k = s->dim[i];
        const int64_t e = s->every[i], at = s->at[i];
        d->size[k] = (d->size[k] - at + e - 1) / e;
        part->x += at * d->x[k];
        part->w += at * d->w[k];
        part->y += at * d->y[k];
        d->x[k] *= e, d->w[k] *= e, d->y[k] *= e;
        for (int x = 0; x < d->axes; x++) {
            d->axis[x].at += at * d->axis[x].by[k];
            if (d->axis[x].every == 1)
                d->axis[x].by[k] *= (int32_t)e;
        }
    }
    for (int x = 0; x < d->axes; x++) {
        there &= d->axis[x].at % d->axis[x].every == 0;
        d->axis[x].at /= d->axis[x].every;
        d->axis[x].every = 1;
    }
    return there;
}

/* The residues of terms that the rows' residues meet: how many of them, and the last. */
static int meetings(const Conv *c, Residues *s, Conv *part)
{
    Conv one;
    int n = 0;
    memset(s->at + s->rows, 0, sizeof s->at - (size_t)s->rows * sizeof *s->at);
    do {
        if (!part_of(c, s, &one))
            continue;
        *part = one;
        n++;
    } while (next_residues(s, s->rows, s->n));
    if (!n) { /* sums of no terms */
        part_of(c, s, part);
        for (int i = s->rows; i < s->n; i++)
            part->d.size[s->dim[i]] = 0;
        if (s->rows == s->n) {
            part->d.size[first_term(&part->d)] = 0;
        }
    }
    return n;
}

/* Is each residue of rows met by one of terms at the most? */
static bool comes_apart(const Conv *c, Residues *s)
{
    Conv part;
    if (!find_residues(&c->d, s) || s->n == 0)
        return false;
    do
        if (meetings(c, s, &part) > 1)
            return false;
    while (next_residues(s, 0, s->rows));
    return true;
}

static void one_of_batch(mg_run *r, const Conv *c, int64_t staged, const char *x, const char *w,
                         char *y)
{
    Residues s;
    if (!comes_apart(c, &s)) {
        product(r, c, staged, x, w, y);
        return;
    }
    do {
        Conv part;
        meetings(c, &s, &part);
        product(r, &part, staged, x, w, y);
    } while (next_residues(&s, 0, s.rows));
}

/* ---- the call -------------------------------------------------------------------------------- */

static void report(mg_run *r, int action, const mg_conv_desc *d, const void *y)
{
    int64_t size[MG_CONV_DIMS], stride[MG_CONV_DIMS];
    int n = 0;
    for (int i = 0; i < first_term(d); i++) {
        size[n] = d->size[i];
        stride[n++] = d->y[i];
    }
    mgk_output(r, action, y, d->out, n, size, stride);
}

void mg_conv(mg_run *r, int action, const mg_conv_desc *d, const void *x, const void *w, void *y)
{
    const int64_t staged = mg_conv_product_scratch(d);
    const int64_t batch = mg_conv_size(d, 0, d->batch);
    if (all_dims(d) > MG_CONV_DIMS || d->axes > MG_CONV_AXES || d->terms < 1)
        mgk_fatal("mg_conv", "a convolution has dims that are summed, and at most 12 dims, 3 axes");
    mg_begin(r, action);
    for (int64_t b = 0; b < batch; b++) {
        const mgk_dims in_x = dims_of(d, 0, d->batch, d->x, 0),
                       in_w = dims_of(d, 0, d->batch, d->w, 0),
                       in_y = dims_of(d, 0, d->batch, d->y, 0);
        const Conv c = {*d, mgk_dims_at(&in_x, b), mgk_dims_at(&in_w, b), mgk_dims_at(&in_y, b)};
        one_of_batch(r, &c, staged, x, w, y);
    }
    mg_end(r, action);
    report(r, action, d, y);
}
