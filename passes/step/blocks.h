/* blocks.h - state that is kept in 8 bits: the blocks of a parameter's elements, each with an
 * absmax; private to passes/. */
#ifndef MGC_PASSES_BLOCKS_H
#define MGC_PASSES_BLOCKS_H

#include "passes/step/update.h"

enum { BLOCK = 256 }; /* elements, about */

/* A block is what has one index of all other dims than `over`: so many of the innermost dims, as
 * stored, as have at most 256 elements together, and of the next one the largest part that divides
 * it; of a dim that has none the whole. So blocks neither depend on the layout nor run from one row
 * into the next. `outer` numbers the parts of the dim that is split; its size is 1 where none is.
 */
typedef struct Blocks {
    Dim outer, inner;
    DimList over;
} Blocks;

/* Is the state of each element of a tensor kept in 8 bits? False: the tensor is too small, as files
 * have it, or the program says nothing of the kind. */
bool blocks_fit(const Goal *g, const Tensor *t);
Blocks blocks_of(Module *m, const Tensor *t);

/* x, which has the dims of the tensor, with the dim that is split as two; and the way back. */
Value blocks_split(Builder *b, const Blocks *l, Value x);
Value blocks_merged(Builder *b, const Blocks *l, Value x);

/* A state of each element: its numbers in units of their block's absmax, which is a state, too. */
typedef struct BlockState {
    uint32_t tensor, absmax;
    Value codes; /* the argument; dynamic8 until it is known that the rule keeps it at 0 or above */
    Value wide;  /* what the rule reads */
} BlockState;
BlockState blocks_state(Update *u, uint32_t of, const StateInfo *s, const Blocks *l);
/* Its new value. */
void blocks_new_value(Update *u, const BlockState *s, const Blocks *l, Value v);

/* Those of the states that begin with 0 and never get below it, as the rule is written: which[i] is
 * set where new[i] is at least 0 if all states that are so are. */
void blocks_signs(const Module *m, const BlockState *states, const Value *new, bool *which, int n);

#endif
