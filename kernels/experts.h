/* experts.h - the operands of one call on experts; private to experts*. */
#ifndef MGK_EXPERTS_H
#define MGK_EXPERTS_H

#include "runtime/abi.h"

typedef struct mgk_experts {
    const mg_experts_desc *d;
    void *rows, *z, *weight; /* weight: NULL, or of the compute type of rows */
    const int32_t *choice, *slot;
} mgk_experts;

/* The row of z of choice c (counted over all groups); -1: none. */
static inline int64_t mgk_row_of(const mgk_experts *x, int64_t c)
{
    const mg_experts_desc *d = x->d;
    const int64_t group = c / (d->positions * d->choices), e = x->choice[c], s = x->slot[c];
    return e >= 0 && e < d->experts && s >= 0 && s < d->slots
               ? (e / (d->experts / d->homes) * d->groups + group) * d->slots + s
               : -1;
}

#endif
