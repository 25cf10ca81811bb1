/* gemm.h - a product as a part of other kernels. */
#ifndef MGK_GEMM_H
#define MGK_GEMM_H

#include "runtime/sizes.h"

/* The same as mg_gemm, but does not report to the runtime. */
void mgk_gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c, void *extra,
              void *aux);

#endif
