/* chunk_parts.h - scans in chunks under a layout that splits their dim; private to chunk*.c. */
#ifndef MGC_PASSES_CHUNK_PARTS_H
#define MGC_PASSES_CHUNK_PARTS_H

#include "passes/model/chunk.h"

/* How many parts chunks are gone through in: rules_unit, where the layout splits what the loop has;
 * 1 where other dims of the state take the axes; 0: a part's matrix would have too many dims. */
int64_t scan_parts(const Linear *x);

#endif
