/* stages.h - how many layers each stage of a pipeline has. */
#ifndef MGC_DECIDE_STAGES_H
#define MGC_DECIDE_STAGES_H

#include "decide/settled.h"

/* Sets Pipeline.layers where the layout leaves it open, ranks have several chunks, and a cut that
 * gives chunks more room makes a step faster and fits. The module is as before decision `offload`.
 * Returns what later decisions find with that, in a; NULL: they were not made. */
const Settled *stages_decide(Module *m, const Device *d, Arena *a);

#endif
