/* tree.h - sums whose order no layout changes (`reduce = tree`); private to passes/.
 *
 * The microbatches of a step are numbered in the order of their sequences. Their gradients, and
 * their losses, are added up in a tree: 0 and 1, 2 and 3, then those pairs, and so on. A rank that
 * has neighbours adds them up by itself; ranks are neighbours in the tree in their order along the
 * axis of the batch. So the ranks of an axis of 2 make the bits that one rank makes, and 8 those
 * bits too.
 *
 * The norm of the gradients is a sum in an order of its own, for which a tensor may be split along
 * one dim that does not depend on how many ranks there are: tree_dim. */
#ifndef MGC_PASSES_TREE_H
#define MGC_PASSES_TREE_H

#include "ir/ir.h"

/* The dim of a parameter along which classes of tensors split it, whatever the number of ranks: of
 * those that no rule splits, the one that can be halved most often, up to 64 ranks; the first of
 * those. -1: it stays whole. */
int tree_dim(const Module *m, uint32_t tensor);

/* The sum of x, which has the dims of a gradient of that parameter: what is inside of its tree_dim,
 * what is outside, and then, in order, the numbers along it, which every rank is given. */
Value tree_sum(Builder *b, Value x, uint32_t tensor);

/* a + b, two parts of the tree. */
Value tree_add(Builder *b, Value x, Value y);

#endif
