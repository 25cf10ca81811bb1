/* sum.h - the sum of what the members of a group have; private to comm.c. */
#ifndef MG_SUM_H
#define MG_SUM_H

#include "runtime/abi.h"

/* Writes to `to` the sum (d->max: the maximum) of d->n arrays of `elements` elements of
 * d->dtype. The order is the order of members, or with d->tree a tree over them: the bits do not
 * depend on where the arrays are cut. Halves are summed in f32 and rounded once. `to` may be one
 * of the arrays; otherwise it overlaps none of them. */
void rt_sum(const mg_comm_desc *d, const char *const *from, char *to, int64_t elements);

#endif
