/* written.h - attention that a program writes out, recognised. */
#ifndef MGC_PASSES_WRITTEN_H
#define MGC_PASSES_WRITTEN_H

#include "ir/ir.h"

/* A term of the bias: factor * by; or, of a condition, -1e30 where it does not hold (ADDED_shows)
 * or where it holds (ADDED_hides). */
typedef struct Added {
    enum { ADDED_value, ADDED_shows, ADDED_hides } kind;
    Value by;
    double factor;
} Added;

enum { ADDED = 16 };

/* The operands of attention. Keys and values are along `query` or, renamed, along `key`; cross: of
 * another sequence, along `key`. */
typedef struct Written {
    Value q, k, v;
    Value start, sink; /* the first key of each query; one more score of each; 0: there is none */
    DimList head;      /* what the product of queries and keys is summed over */
    Dim query, key;    /* the dims of queries and of keys */
    double scale, cap;
    bool causal, cross;
    int64_t window;
    int biases; /* their sum is the bias; there are none without keys along `key` */
    Added bias[ADDED];
} Written;

/* Is the result of i what attention computes? uses: of each value of the function. */
bool written_attention(const Module *m, const Ins *i, const Uses *uses, Arena *tmp, Written *w);

#endif
