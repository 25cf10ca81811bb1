/* gemm.h - products as a part of other kernels. */
#ifndef MGK_GEMM_H
#define MGK_GEMM_H

#include "runtime/sizes.h"

/* mg_gemm without the report to the runtime. */
void mgk_gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c, void *extra);

/* Rows [i, i + m) and columns [j, j + n) of a product of halves, by one thread, whose scratch has
 * mg_gemm_scratch(d) bytes. a, b and c are those of the first product of the batch. */
void mgk_gemm_half(const mg_gemm_desc *d, int64_t batch, int64_t i, int64_t m, int64_t j, int64_t n,
                   const char *a, const char *b, char *c, char *extra, void *scratch);

#endif
