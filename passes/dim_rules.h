/* dim_rules.h - dims that passes make of a dim that a layout splits, and how they are split. */
#ifndef MGC_PASSES_DIM_RULES_H
#define MGC_PASSES_DIM_RULES_H

#include "ir/ir.h"

/* d is cut into so many pieces of neighbours, whatever axes its rules find free: no rank has a part
 * of a piece, and a rank's pieces are a rank's of a dim that counts them. 1: no rule splits d, or
 * it does not come out even, which pass shard reports. */
int64_t rules_unit(const Module *m, Dim d);

/* The rules for d are rules for `more` as well, before those for d: a tensor that has several of
 * them is split along the first. A second time it does nothing. */
void rules_extend(Module *m, Name d, const Name *more, int n);

/* The dim "d.part" of so many elements. */
Dim dim_part(Module *m, Dim d, const char *part, int64_t size);

#endif
