/* even.h - what passes pad_gradients and pad_state share: both make the parameters larger that a
 * class of the layout splits and whose dims do not divide evenly. One of them does it. */
#ifndef MGC_PASSES_EVEN_H
#define MGC_PASSES_EVEN_H

#include "ir/ir.h"

/* Do the layout's rules split gradients, or parameters, by their class? */
bool splits_gradients(const Module *m);
/* Makes the parameters larger, in all functions; gradients that are there are joined with zeros. */
void even_out(Module *m, Arena *tmp);

#endif
