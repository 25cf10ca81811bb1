/* product.h - one thread's part of a product; and one panel of it, as the bodies pass it on. */
#ifndef MGK_PRODUCT_H
#define MGK_PRODUCT_H

#include "runtime/sizes.h"

/* Rows [i, i + m) and columns [j, j + n) of one product, n at most MG_BLOCK_N, by one thread, whose
 * scratch has mg_gemm_scratch(d) bytes. a, b, c: of this product of the batch. extra, aux: NULL, or
 * what the epilogue adds or gives. */
typedef struct mgk_product {
    mg_run *run;
    const mg_gemm_desc *d;
    const void *a, *b;
    void *c, *extra, *aux;
    int64_t i, m, j, n;
} mgk_product;
void mgk_product_part(const mgk_product *w, void *scratch);

/* Lines of memory that will be wanted soon: `runs` of `lines` 64-byte lines, `stride` bytes apart,
 * so many of them asked for at a time. */
typedef struct mgk_soon {
    const char *at;
    int64_t stride, runs, lines, each;
} mgk_soon;

/* Tiles [begin, end) of a packed block of A times a panel of B, both of numbers that are computed
 * in. */
typedef struct mgk_panel {
    int64_t m, k, n; /* n: columns of C, at most the panel's */
    int64_t begin, end;
    const void *a;
    void *b;          /* the packed panel */
    const void *from; /* NULL, or where it lies, rows ldb apart: tile 0 packs it */
    int64_t ldb;
    const void *bias; /* NULL, or what the sums go on top of, where they are not added to C */
    void *c;
    int64_t ldc;
    bool across; /* how A is packed */
    bool add;    /* to C */
    double alpha;
    mgk_soon a_soon, b_soon; /* what is packed next, where it lies */
} mgk_panel;

#endif
