/* add_up.h - a region's results are added to what they were before; private to passes/. */
#ifndef MGC_PASSES_ADD_UP_H
#define MGC_PASSES_ADD_UP_H

#include "passes/step/rounding.h"

/* Each result of the body becomes the sum so far; acc: what that was, NULL if nothing was. round:
 * of each result, without a tensor where it is not rounded. */
void add_up(Module *m, Region *body, const Value *acc, const Rounding *round, bool backward,
            Arena *tmp);

#endif
