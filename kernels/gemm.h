/* gemm.h - a product as a part of other kernels. */
#ifndef MGK_GEMM_H
#define MGK_GEMM_H

#include "kernels/product.h"

/* The same as mg_gemm, but does not report to the runtime. */
void mgk_gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c, void *extra,
              void *aux);

/* The same, of one product whose operands are read through taps and whose rows of C lie anywhere
 * (product.h); a thread's scratch has, from byte `staged` on, room for what is brought together. */
void mgk_gemm_taps(mg_run *r, const mg_gemm_desc *d, const mgk_taps *of_a, const mgk_taps *of_b,
                   const mgk_dims *of_c, int64_t staged, const void *a, const void *b, void *c);

#endif
