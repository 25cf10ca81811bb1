/* conv.h - a product of what is read through taps as one call of mg_conv. */
#ifndef MGC_PASSES_CONV_H
#define MGC_PASSES_CONV_H

#include "ir/ir.h"
#include "passes/view.h"
#include "runtime/abi.h"

/* The descriptor of conv(x, w) with these attributes into y where they lie, without `accumulate`;
 * false if none says it: the columns of y (dims of w alone) are not contiguous, a dim of the batch
 * is read through taps, or there are too many dims. */
bool conv_match(const Attrs *a, const Strided *x, const Strided *w, const Strided *y,
                mg_conv_desc *d);

/* conv(x, w)'s type: the batch, rows as in `like`, then columns, as in it; of its dtype. */
Type conv_result(const Attrs *a, const Type *x, const Type *w, const Type *like);

#endif
