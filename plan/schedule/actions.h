/* actions.h - from the program of one rank to actions on buffers; see schedule.h. */
#ifndef MGC_PLAN_ACTIONS_H
#define MGC_PLAN_ACTIONS_H

#include "plan/plan.h"

/* The plan of a fused module: actions in the order of its instructions, priced by what they compute
 * and move, and buffers without lifetimes and offsets. NULL: infeasible, told. */
Plan *plan_schedule(Module *m, const Device *device, bool compared, Arena *a);

#endif
