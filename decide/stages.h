/* stages.h - how many layers each stage of a pipeline has. */
#ifndef MGC_DECIDE_STAGES_H
#define MGC_DECIDE_STAGES_H

#include "base/device.h"
#include "ir/ir.h"

/* Sets Pipeline.layers where the layout leaves it open, ranks have several chunks, and a cut that
 * gives chunks more room makes a step faster and fits. The module is as before decision `offload`.
 */
void stages_decide(Module *m, const Device *d);

#endif
