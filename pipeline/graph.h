/* graph.h - who waits for whom in a program: private to pipeline/.
 *
 * Each operation that computes, sends or receives has two nodes: it starts, and it is complete. An
 * edge says that one comes before another. Waits are no nodes but edges. */
#ifndef MGC_PASSES_PIPELINE_GRAPH_H
#define MGC_PASSES_PIPELINE_GRAPH_H

#include "pipeline/cells.h"

typedef uint32_t Node; /* 2 * operation, and 1 more: complete */

typedef struct Place {
    int rank;
    uint32_t op; /* of the rank's program */
} Place;

struct PipeGraph {
    const PipeProgram *program;
    size_t nodes;
    Place *place;    /* of an operation, by node / 2 */
    uint32_t *first; /* of a node: its edges are next[first[n]] .. next[first[n + 1] - 1] */
    Node *next;
    Node *order; /* all nodes, each behind those that come before it */
    size_t sorted;
    uint32_t *first_before; /* likewise the nodes before one: if there is a cycle, else NULL */
    Node *before;
    bool *in_order; /* likewise */
};

/* A send and its receive: the one of the same number between the two ranks. Messages have no other
 * mark. */
typedef struct Match {
    Place send, recv;
} Match;

typedef VEC(Match) Matches;

/* Builds and sorts. If sorted < nodes there is a cycle. */
PipeGraph *graph_new(Arena *a, const PipeProgram *p, const Matches *m, PipeQueues queues);

/* A short cycle of a graph that has one: nodes, each waiting for the next, the last for the first.
 */
typedef VEC(Node) Cycle;
Cycle graph_cycle(Arena *a, const PipeGraph *g);

#endif
