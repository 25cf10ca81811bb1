/* attention.h - what the bodies of attention share: sizes of blocks, and one call. */
#ifndef MGK_ATTENTION_H
#define MGK_ATTENTION_H

#include "runtime/abi.h"

/* Rows are the (query, group) pairs of one (batch, kv head), one a lane. MGK_STRIP_VECS vectors of
 * them make a strip, the width of the products; MGK_STRIPS strips share a copy of
 * MGK_BLOCK_KEYS keys. */
#define MGK_STRIP_VECS 2
#define MGK_STRIPS     4
#define MGK_BLOCK_KEYS 64

/* What a product of panel.h finds in its result. */
typedef enum mgk_start {
    MGK_ZERO,  /* it is not read */
    MGK_ADD,   /* added to */
    MGK_SCALE, /* times a factor of each lane, then added to */
} mgk_start;

/* One call, as its units see it. Gradients: dq, dk, dv are written, o and lse are read. */
typedef struct mgk_attention {
    const mg_attention_desc *d;
    const void *q, *k, *v, *dout;
    const int32_t
        *seen; /* per query: how many keys it sees, never less than the one before; or NULL */
    void *o, *lse, *dq, *dk, *dv;
    int64_t parts; /* backward: into how many units a (batch, kv head) is cut */
} mgk_attention;

/* Rows of (batch b, kv head h) from `row` on. */
typedef struct mgk_place {
    int64_t b, h, row;
} mgk_place;

static inline int64_t mgk_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
