/* gather.c - copies rows of a table by index, puts rows into one, and sums rows into one. All move
 * each number once, so memory limits them. */
#include "kernels/isa.h"
#include "runtime/half.h"

#include <string.h>

typedef struct Rows {
    const mg_gather_desc *d;
    const char *from;
    const int32_t *index;
    char *to;
    int64_t each;                  /* indices of a table */
    int64_t strips, width, ranges; /* scatter: see scatter_shape */
} Rows;

static int64_t index_of(const Rows *w, int64_t i)
{
    const mg_gather_desc *d = w->d;
    return w->index[i / d->index_inner * d->index_outer + i % d->index_inner];
}

/* Units for a thread, so that it moves at least 32 KB. */
static int64_t grain(int64_t unit_bytes)
{
    return unit_bytes >= 32768 ? 1 : 32768 / (unit_bytes + 1) + 1;
}

static void gather(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Rows *w = ctx;
    const mg_gather_desc *d = w->d;
    const int64_t bytes = d->inner * mg_dtype_bytes(d->dtype);
    for (int64_t i = begin; i < end; i++)
        for (int64_t o = 0; o < d->outer; o++)
            memcpy(w->to + (i * d->outer + o) * bytes,
                   w->from + ((i / w->each * d->outer + o) * d->n + index_of(w, i)) * bytes,
                   (size_t)bytes);
}

void mg_gather(mg_run *r, int action, const mg_gather_desc *d, const void *table,
               const int32_t *index, void *y)
{
    Rows w = {.d = d, .from = table, .index = index, .to = y, .each = d->indices / d->tables};
    mg_begin(r, action);
    mg_parallel(r, d->indices, grain(d->outer * d->inner * mg_dtype_bytes(d->dtype)), gather, &w);
    mg_end(r, action);
    if (d->dtype <= MG_F16)
        mg_output(r, action, y, d->indices * d->outer * d->inner, d->dtype);
}

static void put(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Rows *w = ctx;
    const mg_gather_desc *d = w->d;
    const int64_t bytes = d->inner * mg_dtype_bytes(d->dtype);
    for (int64_t i = begin; i < end; i++)
        for (int64_t o = 0, n = index_of(w, i); n >= 0 && o < d->outer; o++)
            memcpy(w->to + ((i / w->each * d->outer + o) * d->n + n) * bytes,
                   w->from + (i * d->outer + o) * bytes, (size_t)bytes);
}

void mg_put(mg_run *r, int action, const mg_gather_desc *d, const void *x, const int32_t *index,
            void *table)
{
    Rows w = {.d = d, .from = x, .index = index, .to = table, .each = d->indices / d->tables};
    mg_begin(r, action);
    mg_parallel(r, d->indices, grain(d->outer * d->inner * mg_dtype_bytes(d->dtype)), put, &w);
    mg_end(r, action);
    if (d->dtype <= MG_F16)
        mg_output(r, action, table, d->tables * d->outer * d->n * d->inner, d->dtype);
}

/* Halves are added in float, and rounded. */
static void add(char *to, const char *from, int64_t count, mg_dtype t)
{
    uint16_t *half = (uint16_t *)to;
    const uint16_t *more = (const uint16_t *)from;
    for (int64_t j = 0; t == MG_F64 && j < count; j++)
        ((double *)to)[j] += ((const double *)from)[j];
    for (int64_t j = 0; t == MG_F32 && j < count; j++)
        ((float *)to)[j] += ((const float *)from)[j];
    for (int64_t j = 0; t == MG_BF16 && j < count; j++)
        half[j] = mg_to_bf16(mg_from_bf16(half[j]) + mg_from_bf16(more[j]));
    for (int64_t j = 0; t == MG_F16 && j < count; j++)
        half[j] = mg_to_f16(mg_from_f16(half[j]) + mg_from_f16(more[j]));
}

/* Cuts the columns of the table into strips, so that all threads have equal work however often an
 * index occurs. If a row is too short for that, the rows of the table are also cut into ranges, and
 * a thread skips the indices of other ranges. One thread owns each sum and adds in the order of i,
 * so the bits are the same for any cut. */
static void scatter_shape(Rows *w, int64_t threads)
{
    const int64_t line = 64 / mg_dtype_bytes(w->d->dtype); /* a strip is whole cache lines */
    int64_t lines = (w->d->inner + line - 1) / line, cuts = lines < threads ? lines : threads;
    w->width = (lines + cuts - 1) / cuts * line;
    w->strips = (w->d->inner + w->width - 1) / w->width;
    int64_t units = w->strips * w->d->outer * w->d->tables;
    w->ranges = units < threads ? (threads + units - 1) / units : 1;
}

/* A unit is (table, range, outer, strip). */
static void scatter(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Rows *w = ctx;
    const mg_gather_desc *d = w->d;
    const int64_t bytes = mg_dtype_bytes(d->dtype);
    for (int64_t u = begin; u < end; u++) {
        int64_t j = u % w->strips * w->width, o = u / w->strips % d->outer;
        int64_t range = u / w->strips / d->outer % w->ranges;
        int64_t table = u / w->strips / d->outer / w->ranges, first = table * w->each;
        int64_t low = d->n * range / w->ranges, high = d->n * (range + 1) / w->ranges;
        int64_t count = d->inner - j < w->width ? d->inner - j : w->width;
        for (int64_t i = first; i < first + w->each; i++) {
            int64_t n = index_of(w, i);
            if (n >= low && n < high)
                add(w->to + (((table * d->outer + o) * d->n + n) * d->inner + j) * bytes,
                    w->from + ((i * d->outer + o) * d->inner + j) * bytes, count, d->dtype);
        }
    }
}

static void clear(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Rows *w = ctx;
    const int64_t bytes = w->d->inner * mg_dtype_bytes(w->d->dtype);
    memset(w->to + begin * bytes, 0, (size_t)((end - begin) * bytes));
}

void mg_scatter_add(mg_run *r, int action, const mg_gather_desc *d, const void *dy,
                    const int32_t *index, void *dtable, void *work)
{
    (void)work;
    mgk_float(d->dtype, "mg_scatter_add");
    Rows w = {.d = d, .from = dy, .index = index, .to = dtable, .each = d->indices / d->tables};
    mg_begin(r, action);
    if (!d->accumulate)
        mg_parallel(r, d->tables * d->outer * d->n, grain(d->inner * mg_dtype_bytes(d->dtype)),
                    clear, &w);
    if (d->indices * d->inner * d->outer > 0) {
        scatter_shape(&w, mg_threads(r));
        mg_parallel(r, d->tables * w.ranges * d->outer * w.strips, 1, scatter, &w);
    }
    mg_end(r, action);
    mg_output(r, action, dtable, d->tables * d->outer * d->n * d->inner, d->dtype);
}
