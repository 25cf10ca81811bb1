/* chunk_parts.h - scans in chunks under a layout that splits their dim; private to chunk*.c. */
#ifndef MGC_PASSES_CHUNK_PARTS_H
#define MGC_PASSES_CHUNK_PARTS_H

#include "passes/model/chunk.h"

/* Chunks of a dim are chunks of each of so many pieces of it, neighbours each: no rank has a part of
 * a chunk. 1: the dim is not split, or not evenly, which pass shard reports. */
int64_t scan_unit(const Module *m, Dim d);

/* How many parts chunks are gone through in: scan_unit, where the layout splits what the loop has;
 * 1 where other dims of the state take the axes; 0: a part's matrix would have too many dims. */
int64_t scan_parts(const Linear *x);

/* The rules for d are rules for its chunks n and for parts p of them as well, before those for d:
 * of a tensor that has several of them, the parts are split, else the chunks. */
void scan_rules(Module *m, Dim d, Dim n, Dim p);

#endif
