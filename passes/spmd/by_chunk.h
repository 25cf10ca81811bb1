/* by_chunk.h - what a pipeline's step gathers and reduces once, cut by chunk: by_chunk.c. */
#ifndef MGC_PASSES_BY_CHUNK_H
#define MGC_PASSES_BY_CHUNK_H

#include "ir/ir.h"

/* The loop over the microbatches of a pipeline. */
bool is_rounds(const Ins *i);

/* All layers of a tensor, gathered at the builder's end as `last`, the last gather of a row of
 * them, does it with a slice. 0: it is not so. */
Value gather_by_chunk(Module *m, Builder *b, Value tensor, const Ins *last, Arena *tmp);

/* Sums of gradients over ranks, of at least so many bytes of a chunk; 0: none. */
void reduce_by_chunk(Module *m, int64_t least, Arena *tmp);

#endif
