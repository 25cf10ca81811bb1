/* sum.h - what members of a group have, added up; private to comm.c. */
#ifndef MG_SUM_H
#define MG_SUM_H

#include "runtime/abi.h"

/* To `to` the sum (d->most: the largest) of d->n arrays of so many elements of d->dtype, in the
 * order of members, or with d->tree in their tree: the same bits wherever the arrays are cut.
 * Halves are added up in float32 and rounded once. `to` may be one of the arrays, or be apart from
 * all. */
void rt_sum(const mg_comm_desc *d, const char *const *from, char *to, int64_t elements);

#endif
