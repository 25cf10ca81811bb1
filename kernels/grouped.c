/* grouped.c - products of rows that are sorted by expert: one for each expert of each group, cut
 * into parts for the threads as gemm.c does it. How many rows an expert has is known only now; what
 * an element is does not depend on how its product is cut, and a sum over rows is in their order.
 */
#include "runtime/grouped.h"

#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/product.h"

enum {
    WIDE = MG_TILE, /* columns of a part are multiples of this, rows of HIGH: as in gemm.c */
    HIGH = 2,
    UNITS = 8,       /* of a thread, so that experts with many rows do not keep one alone busy */
    SMALL = 1 << 20, /* floating-point operations below which a part is not worth a thread */
    FEW_WIDE = 512,  /* columns of a part of an expert that has few rows, most often */
};

typedef struct Grouped {
    mg_run *run;
    const mg_grouped_desc *d;
    const char *z, *other; /* the second operand: matrices, or rows */
    char *to;
    const int32_t *end;
    int64_t height, slices, width, strips; /* rows and columns of a part of a matrix */
} Grouped;

static int64_t bytes(mg_dtype t, int64_t n)
{
    return n * mg_dtype_bytes(t);
}

static int64_t cut(int64_t n, int64_t parts, int64_t multiple)
{
    const int64_t each = (n + parts - 1) / parts;
    return (each + multiple - 1) / multiple * multiple;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The rows of expert e of a group; returns how many. */
static int64_t rows_of(const Grouped *w, int64_t group, int64_t e, int64_t *first)
{
    const int32_t *end = w->end + group * w->d->experts;
    const int64_t from = e ? end[e - 1] : 0;
    if (end[e] < from || end[e] > w->d->rows)
        mgk_fatal("mg_grouped", "the ends of experts' rows decrease, or exceed the rows");
    *first = group * w->d->rows + from;
    return end[e] - from;
}

static void part(const Grouped *w, const mg_gemm_desc *one, const char *a, const char *b, char *c,
                 int64_t slice, int64_t strip, void *scratch)
{
    mgk_product p = {.run = w->run,
                     .d = one,
                     .a = a,
                     .b = b,
                     .c = c,
                     .i = slice * w->height,
                     .j = strip * w->width};
    p.m = smaller(w->height, one->m - p.i);
    p.n = smaller(w->width, one->n - p.j);
    /* Tiles of AMX have other sums: there an element would depend on how many rows its expert has.
     */
    p.few = one->m <= MG_FEW_ROWS && p.n <= MG_FEW_N && mgk_isa() != MGK_AMX;
    if (p.m > 0 && p.n > 0)
        mgk_product_part(&p, scratch);
}

/* A unit is a strip of columns of an expert's rows of a group; behind the last expert's rows there
 * are zeros. */
static void row_parts(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const Grouped *w = ctx;
    const mg_grouped_desc *d = w->d;
    for (int64_t u = begin; u < end; u++) {
        const int64_t strip = u % w->strips, e = u / w->strips % d->experts,
                      g = u / w->strips / d->experts;
        int64_t row;
        const mg_gemm_desc one = mg_grouped_product(d, false, rows_of(w, g, e, &row));
        part(w, &one, w->z + bytes(d->dtype, row * d->k),
             w->other + bytes(d->dtype, e * d->k * d->n), w->to + bytes(d->out, row * d->n), 0,
             strip, scratch);
        const int64_t behind = row + one.m, all = (g + 1) * d->rows;
        if (e == d->experts - 1 && !strip && behind < all)
            memset(w->to + bytes(d->out, behind * d->n), 0,
                   (size_t)bytes(d->out, (all - behind) * d->n));
    }
}

void mg_grouped(mg_run *r, int action, const mg_grouped_desc *d, const void *z, const void *w,
                const int32_t *end, void *y)
{
    const int64_t threads = mg_threads(r), all = d->groups * d->experts;
    const double flops = 2.0 * (double)(d->groups * d->rows) * (double)d->k * (double)d->n;
    Grouped x = {.run = r, .d = d, .z = z, .other = w, .to = y, .end = end, .height = d->rows};
    const int64_t want = threads == 1 || flops < SMALL ? 1 : (UNITS * threads + all - 1) / all;
    const bool few = d->rows <= MG_FEW_ROWS * d->experts; /* rows of an expert, most often */
    x.width = smaller(cut(d->n, want, WIDE), few ? FEW_WIDE : MG_BLOCK_N);
    x.strips = (d->n + x.width - 1) / x.width;
    mg_begin(r, action);
    mg_parallel(r, all * x.strips, flops < SMALL ? all * x.strips : 1, row_parts, &x);
    mg_end(r, action);
    mg_output(r, action, y, d->groups * d->rows * d->n, d->out);
}

/* A unit is a part of an expert's matrix, which sums over the groups; an expert without rows has
 * zeros. */
static void matrix_parts(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const Grouped *w = ctx;
    const mg_grouped_desc *d = w->d;
    for (int64_t u = begin; u < end; u++) {
        const int64_t strip = u % w->strips, slice = u / w->strips % w->slices,
                      e = u / w->strips / w->slices;
        char *to = w->to + bytes(d->out, e * d->k * d->n);
        bool adds = d->accumulate;
        for (int64_t g = 0; g < d->groups; g++) {
            int64_t row;
            mg_gemm_desc one = mg_grouped_product(d, true, rows_of(w, g, e, &row));
            if (!one.k)
                continue;
            one.beta = adds ? 1 : 0;
            part(w, &one, w->z + bytes(d->dtype, row * d->k),
                 w->other + bytes(d->dtype, row * d->n), to, slice, strip, scratch);
            adds = true;
        }
        const int64_t i = slice * w->height, j = strip * w->width;
        for (int64_t k = i; !adds && k < smaller(i + w->height, d->k); k++)
            memset(to + bytes(d->out, k * d->n + j), 0,
                   (size_t)bytes(d->out, smaller(w->width, d->n - j)));
    }
}

void mg_grouped_weight(mg_run *r, int action, const mg_grouped_desc *d, const void *z,
                       const void *y, const int32_t *end, void *w)
{
    const int64_t threads = mg_threads(r);
    const double flops = 2.0 * (double)(d->groups * d->rows) * (double)d->k * (double)d->n;
    Grouped x = {.run = r, .d = d, .z = z, .other = y, .to = w, .end = end};
    const int64_t want = threads == 1 || flops < SMALL ? 1 : UNITS * threads;
    x.width = smaller(cut(d->n, 1, WIDE), MG_BLOCK_N);
    x.strips = (d->n + x.width - 1) / x.width;
    x.height = cut(d->k, (want + d->experts * x.strips - 1) / (d->experts * x.strips), HIGH);
    x.slices = (d->k + x.height - 1) / x.height;
    const int64_t units = d->experts * x.slices * x.strips;
    mg_begin(r, action);
    mg_parallel(r, units, flops < SMALL ? units : 1, matrix_parts, &x);
    mg_end(r, action);
    mg_output(r, action, w, d->experts * d->k * d->n, d->out);
}
