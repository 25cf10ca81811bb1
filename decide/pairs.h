/* pairs.h - whether the forward of one microbatch runs beside the backward of another, by plans. */
#ifndef MGC_DECIDE_PAIRS_H
#define MGC_DECIDE_PAIRS_H

#include "decide/settled.h"

/* Sets Pipeline.pairs where the layout does not say, of schedules 1f1b and interleaved. The module
 * is as before pass `shard`. Returns what later decisions find with what was chosen, in a; NULL:
 * they were not made. */
const Settled *pairs_choose(Module *m, const Device *d, Arena *a);

#endif
