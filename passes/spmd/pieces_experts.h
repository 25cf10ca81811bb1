/* pieces_experts.h - what ranks send each other's experts, in pieces; private to passes/. */
#ifndef MGC_PASSES_PIECES_EXPERTS_H
#define MGC_PASSES_PIECES_EXPERTS_H

#include "ir/ir.h"

/* The slots of experts whose rows are sent by an all-to-all are computed in Layout.pieces parts.
 * Nothing is changed of experts with another number of slots than that divides, or whose slots
 * something reads that has no pieces. */
void pieces_of_experts(Module *m, Fn *fn, Arena *tmp);

#endif
