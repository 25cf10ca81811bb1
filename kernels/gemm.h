/* gemm.h - products as a part of other kernels. */
#ifndef MGK_GEMM_H
#define MGK_GEMM_H

#include "runtime/sizes.h"

/* mg_gemm without the report to the runtime. */
void mgk_gemm(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c, void *extra,
              void *aux);

#endif
