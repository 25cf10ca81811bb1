/* propose.h - remedies that several parts of the compiler propose: settings of the layout and of
 * the train block, put to another value. Each is tried before it is told (diag_remedy()); true: it
 * was told. */
#ifndef MGC_IR_PROPOSE_H
#define MGC_IR_PROPOSE_H

#include "ir/ir.h"

/* "microbatch 8": in the layout's text, or where that says none, or the command line does, as its
 * option. */
bool propose_microbatch(Diag *d, const Layout *l, int64_t n);
/* "-D batch=8": a dim or an axis of the mesh. */
bool propose_size(Diag *d, const char *name, int64_t size);
/* For a size that axes of the mesh do not divide into parts of a whole multiple of `each`: on one
 * of them fewer ranks, the most there can be, or more, the fewest. */
bool propose_ranks(Diag *d, const Module *m, Axes axes, int64_t size, int64_t each);
/* Without reduce = tree. */
bool propose_no_tree(Diag *d, const Train *t);

/* An entry of a list in a text with the comma beside it; of an only one with its parentheses. */
Span entry_with_comma(const Diag *d, Span entry);

#endif
