/* prefetch_gathers.h - the parts of pass prefetch_gathers: what runs beside the rest is put where
 * there is a rest. */
#ifndef MGC_PASSES_PREFETCH_GATHERS_H
#define MGC_PASSES_PREFETCH_GATHERS_H

#include "ir/ir.h"

/* buckets.c: what loops stack to be reduced is reduced in their iterations, as Layout.bucket and
 * .scatter say. */
void reduce_in_iterations(Module *m, Arena *tmp);

#endif
