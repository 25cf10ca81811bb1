/* shard_heads.h - what decisions ask about an exchange of heads for positions; see shard_heads.c.
 */
#ifndef MGC_PASSES_SHARD_HEADS_H
#define MGC_PASSES_SHARD_HEADS_H

#include "ir/ir.h"

/* On this axis of a rule, if the layout says that heads are exchanged there: does all attention
 * whose positions are split on it exchange them, and is there any? m: before pass shard. */
bool exchange_is_possible(const Module *m, const LayoutRule *rule, Axes axis);

#endif
