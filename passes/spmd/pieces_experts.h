/* pieces_experts.h - what ranks send each other's experts, in pieces; private to passes/. */
#ifndef MGC_PASSES_PIECES_EXPERTS_H
#define MGC_PASSES_PIECES_EXPERTS_H

#include "ir/ir.h"

/* A value that is made of part k of experts' rows, or for it; of part 0 there are none. */
typedef struct ExpertPiece {
    Value of;
    int k;
} ExpertPiece;

typedef struct ExpertPieces {
    int64_t n;               /* how many parts */
    VEC(Name) slots;         /* the slots of each group of experts, cut or not */
    VEC(ExpertPiece) behind; /* of those that were cut by sequences; the caller sorts regions */
    bool sequences;          /* there are such */
} ExpertPieces;

/* The rows of experts that are sent by an all-to-all are computed in Layout.pieces parts: of
 * sequences where pieces take turns and sequences can be told apart, else of slots. Nothing is
 * changed of experts with another number of slots than that divides, or whose slots something reads
 * that has no pieces. What is told lies in tmp. */
ExpertPieces pieces_of_experts(Module *m, Fn *fn, Arena *tmp);

#endif
