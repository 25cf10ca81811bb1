/* attention.h - block sizes and the operands of one call, shared by the bodies of attention. */
#ifndef MGK_ATTENTION_H
#define MGK_ATTENTION_H

#include "runtime/abi.h"

/* A row is a (query, group) pair of one (batch, kv head), and occupies one lane. A strip is
 * MGK_STRIP_VECS vectors of rows, the width of the products; MGK_STRIPS strips share a copy of
 * MGK_BLOCK_KEYS keys. */
#define MGK_STRIP_VECS 2
#define MGK_STRIPS     4
#define MGK_BLOCK_KEYS 64

/* Rows of a query that is alone: so many are computed without strips. */
#define MGK_FEW 8

/* The use of the old value of C in a product of panel.h. */
typedef enum mgk_start {
    MGK_ZERO,  /* not read */
    MGK_ADD,   /* added to the product */
    MGK_SCALE, /* multiplied by a factor for each lane, then added */
} mgk_start;

/* One call, shared by its units. In the gradient dq, dk, dv are written, o and lse are read. */
typedef struct mgk_attention {
    const mg_attention_desc *d;
    const void *q, *k, *v, *dout;
    const void *bias;     /* added to the scores, by d->bias; or NULL */
    const int32_t *seen;  /* per batch and query, by d->seen: the number of keys it sees, at least
                           * that of the query before; or NULL */
    const int32_t *first; /* per batch and query, by d->first: the first key it may see, at least
                           * that of the query before; or NULL */
    void *o, *lse, *dq, *dk, *dv, *dbias;
    int64_t parts; /* backward: number of units of a (batch, kv head) */
} mgk_attention;

/* Rows of (batch b, kv head h) from `row` on. */
typedef struct mgk_place {
    int64_t b, h, row;
} mgk_place;

/* The first key that a query sees. */
static inline int64_t mgk_first_key(const mgk_attention *x, int64_t b, int64_t query)
{
    const mg_attention_desc *d = x->d;
    const int64_t near = d->window > 0 ? query - d->window + 1 : 0;
    const int64_t own = x->first ? x->first[b * d->first[0] + query * d->first[1]] : 0;
    const int64_t first = near > own ? near : own;
    return first > 0 ? first : 0;
}

/* The last one; below the first, if it sees none. */
static inline int64_t mgk_last_key(const mgk_attention *x, int64_t b, int64_t query)
{
    const mg_attention_desc *d = x->d;
    const int64_t last = x->seen     ? x->seen[b * d->seen[0] + query * d->seen[1]] - 1
                         : d->causal ? query
                                     : d->keys - 1;
    return last < d->keys ? last : d->keys - 1;
}

static inline int64_t mgk_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
