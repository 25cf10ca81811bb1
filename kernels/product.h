/* product.h - one thread's part of a product; and one panel of it, as the bodies pass it on. */
#ifndef MGK_PRODUCT_H
#define MGK_PRODUCT_H

#include "runtime/sizes.h"

/* A kernel that goes on with rows of C (mg_gemm_epilogue). */
typedef struct mgk_epilogue {
    mg_kernel *kernel;
    void *const *p;
} mgk_epilogue;

/* Rows [i, i + m) and columns [j, j + n) of one product, n at most MG_BLOCK_N, by one thread, whose
 * scratch has mg_gemm_scratch(d) bytes. a, b, c: of this product of the batch. extra, aux: NULL, or
 * what the epilogue adds or gives. call: NULL, or what each piece of C goes on with when it is
 * done, while it is near; j and n are multiples of MG_TILE then. */
typedef struct mgk_product {
    mg_run *run;
    const mg_gemm_desc *d;
    const void *a, *b;
    void *c, *extra, *aux;
    const mgk_epilogue *call;
    int64_t i, m, j, n;
} mgk_product;
void mgk_product_part(const mgk_product *w, void *scratch);

/* What comes after rows [i, i + m) and columns [j, j + n). */
static inline void mgk_epilogue_rows(const mgk_product *w, int64_t i, int64_t m, int64_t j,
                                     int64_t n)
{
    const int64_t tiles = w->d->n / MG_TILE;
    for (int64_t row = i; row < i + m; row++)
        w->call->kernel(w->call->p, row * tiles + j / MG_TILE, row * tiles + (j + n) / MG_TILE);
}

/* Lines of memory that will be wanted soon: `runs` of `lines` 64-byte lines, `stride` bytes apart,
 * so many of them asked for at a time. */
typedef struct mgk_prefetch {
    const char *at;
    int64_t stride, runs, lines, each;
} mgk_prefetch;

/* Tiles [begin, end) of a packed block of A times a panel of B, both of numbers that are computed
 * in, or of pairs of bf16 (pairs.h): k counts these. */
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
    mgk_prefetch a_prefetch, b_prefetch; /* what is packed next, where it lies */
} mgk_panel;

#endif
