/* all_indices.h - what one iteration of a scan computes, computed for all indices of its dim. */
#ifndef MGC_PASSES_ALL_INDICES_H
#define MGC_PASSES_ALL_INDICES_H

#include "ir/ir.h"

/* Does i go by the names of dims, so that the same op on operands with one more dim is all
 * iterations of it? Operands that vary along that dim are told apart by the caller where it
 * matters: a look-up in a table that varies is not. */
bool goes_by_names(const Module *m, const Ins *i);

/* i at the builder's end on operands of which some may have the dim `along` too: the result then
 * has it, outermost if the op's rule does not put it elsewhere. */
Value build_at_all(Builder *b, const Ins *i, const Value *in, Dim along);

#endif
