/* band.h - masks: values that depend on the distance of a query and a key alone. */
#ifndef MGC_PASSES_BAND_H
#define MGC_PASSES_BAND_H

#include "ir/ir.h"

/* The index i along `query` and j along `key` have the distance d = i - j. */
typedef struct Band {
    const Module *m;
    Dim query, key;
    Arena *tmp;
} Band;

/* How many distances there are; the number of distance d among them is d + key.size - 1. */
static inline int64_t band_distances(const Band *b)
{
    return b->query.size + b->key.size - 1;
}

/* The value of v at each distance, exactly as the program computes it; NULL if v is not known to
 * depend on the distance alone. */
const double *band_values(const Band *b, Value v);

/* Are the distances at which `on` is set those of a causal mask, with a window? *window: its keys,
 * 0: all before the query. */
bool band_is_causal(const Band *b, const bool *on, int64_t *window);

#endif
