/* sent.h - which rows of experts ranks send each other; private to passes/. */
#ifndef MGC_PASSES_SENT_H
#define MGC_PASSES_SENT_H

#include "ir/ir.h"

/* Of a dispatch, combine or combine_weight: the axes along which ranks have the groups of positions
 * on one side and the experts on the other, by the layout's rules, so that rows are sent; 0: none
 * are, or what is sent is one number of each position. */
Axes rows_sent(const Module *m, const Ins *i);

#endif
