/* output.h - reports a kernel's floating-point output, with any strides, to the runtime. */
#ifndef MGK_OUTPUT_H
#define MGK_OUTPUT_H

#include "runtime/abi.h"

/* Reports p[size[0]]..[size[rank - 1]], strides in elements, rank <= MG_RANK_MAX. Dims that are
 * contiguous in memory are merged, so a dense tensor in any order is one call of mg_output. */
void mgk_output(mg_run *r, int action, const void *p, mg_dtype t, int rank, const int64_t size[],
                const int64_t stride[]);

#endif
