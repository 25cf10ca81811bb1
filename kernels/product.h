/* product.h - one thread's part of a product, and one panel of it, as the bodies pass it on. */
#ifndef MGK_PRODUCT_H
#define MGK_PRODUCT_H

#include "kernels/isa.h"
#include "kernels/spread.h"

/* A kernel that processes rows of C after the product (mg_gemm_epilogue). */
typedef struct mgk_epilogue {
    mg_kernel *kernel;
    void *const *p;
} mgk_epilogue;

/* Rows [i, i + m) and columns [j, j + n) of one product, n at most MG_BLOCK_N, for one thread,
 * whose scratch has mg_gemm_scratch(d) bytes. a, b, c: of this product of the batch. extra, aux:
 * NULL, or the operands or results of the epilogue. call: NULL, or the kernel that processes each
 * piece of C when it is done and still in cache; then j and n are multiples of MG_TILE. of_a, of_b:
 * NULL, or how an operand is read that is no matrix. of_c: NULL, or where the rows of C are; d->ldc
 * is then not used. Either of the three: no epilogue, and `staged` is where 2 MG_STAGED elements
 * are brought together; mg_conv_spread() bytes behind them are packed once for many taps. */
typedef struct mgk_product {
    mg_run *run;
    const mg_gemm_desc *d;
    const void *a, *b;
    void *c, *extra, *aux;
    const mgk_epilogue *call;
    const mgk_taps *of_a, *of_b;
    const mgk_dims *of_c;
    void *staged;
    /* NULL, or the operands of the product of the batch that the thread computes after this one:
     * their beginning is prefetched. */
    const void *next_a, *next_b;
    int64_t i, m, j, n;
    bool few; /* at most MG_FEW_ROWS rows and MG_FEW_N columns, of plain matrices: few_body.h */
} mgk_product;
void mgk_product_part(const mgk_product *w, void *scratch);

/* Whether a product is of AMX tiles. One of floats with a single chunk of terms (an adapter's) is
 * not: six products of parts for so few terms take longer than to read and write C. Nor are small
 * ones of a batch (of chunks) in which nothing is transposed for vectors, but A would be for tiles:
 * there packing is most of their time (64 x 64 x 64: 76 and 108 GF/s of one core). */
static inline bool mgk_tiled(const mg_gemm_desc *d)
{
    enum { SMALL = 64, CHUNK = 32 };
    const bool small = d->batch > 1 && d->m <= SMALL && d->n <= SMALL && d->ta && !d->tb;
    return mgk_isa() == MGK_AMX && d->dtype != MG_F64 &&
           (d->dtype != MG_F32 || (d->k > CHUNK && !small));
}

/* Runs the kernel after rows [i, i + m) and columns [j, j + n). */
static inline void mgk_epilogue_rows(const mgk_product *w, int64_t i, int64_t m, int64_t j,
                                     int64_t n)
{
    const int64_t tiles = w->d->n / MG_TILE;
    for (int64_t row = i; row < i + m; row++)
        w->call->kernel(w->call->p, row * tiles + j / MG_TILE, row * tiles + (j + n) / MG_TILE);
}

/* Cache lines to prefetch: `runs` runs of `lines` 64-byte lines, at a stride of `stride` bytes,
 * `each` lines at a time. */
typedef struct mgk_prefetch {
    const char *at;
    int64_t stride, runs, lines, each;
} mgk_prefetch;

/* Tiles [begin, end) of a packed block of A times a panel of B. Packed elements have the compute
 * type, or are pairs of bf16 (pairs.h); k counts elements. */
typedef struct mgk_panel {
    int64_t m, k, n; /* n: columns of C, at most the panel's */
    int64_t begin, end;
    const void *a;
    void *b;          /* the packed panel */
    const void *from; /* NULL, or B in memory, with row stride ldb: tile 0 packs it */
    int64_t ldb;
    const void *bias; /* NULL, or what the sums are added to, if not to C */
    void *c;
    int64_t ldc;
    bool across; /* how A is packed */
    bool add;    /* to C */
    double alpha;
    mgk_prefetch a_prefetch, b_prefetch; /* in memory: the data that are packed next */
} mgk_panel;

/* Some terms of a few rows of A times columns of B, which is read where it is. Packed rows of A
 * have the compute type, or are pairs of bf16; k counts either, `elements` what is of B: one fewer
 * if the last pair has a single term. Terms are contiguous (few_turned.h; any number of them), or
 * columns are (few_tiles.h; at most MGK_FEW_TERMS). */
#define MGK_FEW_TERMS 16
typedef struct mgk_few {
    int64_t m, n, k, elements;
    const void *a; /* packed, as rows of a block */
    const char *b; /* the first element */
    int64_t ld;    /* bytes from a column to the next, or from a term (or pair) to the next */
    /* Terms are contiguous: where to prefetch from, and how many bytes on with each term, and with
     * each of the columns that are lanes. */
    const char *next;
    int64_t next_term, next_line;
    /* Columns are contiguous: whether there are terms behind these, which are prefetched; bytes to
     * a second line of them, or 0; bytes of a panel. */
    bool ahead;
    int64_t beside, wide;
    void *sums; /* of rows, lds apart */
    int64_t lds;
    bool first; /* columns are contiguous: sums begin at 0 */
} mgk_few;

#endif
