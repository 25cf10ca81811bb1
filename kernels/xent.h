/* xent.h - cross-entropy of rows as a part of other kernels. */
#ifndef MGK_XENT_H
#define MGK_XENT_H

#include "runtime/abi.h"

/* One call: rows [0, rows) of z, whose targets and dloss are those of rows row0 + [0, rows). An
 * output that is NULL is not written; for gradients lse is read. */
typedef struct mgk_xent {
    const mg_xent_desc *d;
    const void *z;
    const int32_t *target;
    int64_t row0;
    const void *dloss;
    void *loss, *lse, *dz;
} mgk_xent;

/* Loss and lse of rows; gradients of rows, given lse; both at once in one pass (dz may be z). */
typedef enum mgk_xent_pass { MGK_XENT_LOSS, MGK_XENT_GRAD, MGK_XENT_BOTH } mgk_xent_pass;
void mgk_xent_rows(mg_run *r, const mgk_xent *x, mgk_xent_pass pass, int64_t rows);

#endif
