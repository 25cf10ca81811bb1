/* random_graph.h - programs without a plan of their own: any op on anything that fits. */
#ifndef MGC_TESTS_RANDOM_GRAPH_H
#define MGC_TESTS_RANDOM_GRAPH_H

#include "tests/passes/model.h"

enum { GRAPH_DIMS = 5 };
extern const int64_t graph_small[GRAPH_DIMS];
/* One or two dims long enough for vectors with remainders, blocks and chunks, the others short. */
void graph_sizes(uint64_t *rng, int64_t sizes[GRAPH_DIMS]);

/* @train on floats of type f, over dims of the given sizes, with one result, a loss that depends on
 * most of what is computed: pointwise ops, reductions, products, views, transpositions, gathers,
 * loops that carry and stack, in loops. */
void random_graph(Model *t, uint64_t seed, DType f, const int64_t sizes[GRAPH_DIMS]);

#endif
