/* attention.h - what the bodies of attention share: sizes of a block and of a thread's scratch. */
#ifndef MGK_ATTENTION_H
#define MGK_ATTENTION_H

#include "runtime/abi.h"

/* Rows of a tile are the (query, group) pairs of one kv head, one a lane: TILE_VECS vectors of them
 * meet BLOCK_KEYS keys at once. */
#define MGK_TILE_VECS  4
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
    void *o, *lse, *dq, *dk, *dv;
} mgk_attention;

static inline int64_t mgk_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
