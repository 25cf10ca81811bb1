/* random_graph.h - programs without a plan of their own: any op on anything that fits. */
#ifndef MGC_TESTS_RANDOM_GRAPH_H
#define MGC_TESTS_RANDOM_GRAPH_H

#include "tests/passes/model.h"

/* @train with one result, a loss that depends on most of what is computed: pointwise ops,
 * reductions, products, views, transpositions, gathers, loops that carry and stack, in loops. */
void random_graph(Model *t, uint64_t seed);

#endif
