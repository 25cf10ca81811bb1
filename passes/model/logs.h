/* logs.h - the logarithm of a factor that is positive whatever the data are. */
#ifndef MGC_PASSES_LOGS_H
#define MGC_PASSES_LOGS_H

#include "ir/ir.h"

/* Is each element of v known to be positive? Known from how it is computed: a slice of a loop is
 * followed to what it is a slice of. */
bool has_log(const Module *m, Value v);

/* log(v) at the builder's end, of v's dims, v having a log: without the exponential where v is
 * one, so that nothing is lost where it is near 0. */
Value build_log(Builder *b, Value v);

#endif
