/* taps.h - the places at which a convolution reads its first operand. */
#ifndef MGC_IR_TAPS_H
#define MGC_IR_TAPS_H

#include "ir/type.h"

/* Reindexes of different dims: of `dim` the element (the sum of `by` times the indices along
 * `over`,
 * + at) / every; 0 where that is none. No dim is one that another counts by. */
enum { MAX_TAPS = 3 };
typedef struct Tap {
    Dim dim;
    int n;
    Dim over[MAX_TAPS];
    int32_t by[MAX_TAPS];
    int64_t at, every;
} Tap;
typedef struct Taps {
    int n;
    Tap tap[MAX_TAPS];
} Taps;

#endif
