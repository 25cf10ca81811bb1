/* levels.h - see levels.c. */
#ifndef MGC_PLAN_LEVELS_H
#define MGC_PLAN_LEVELS_H

#include "plan/plan.h"

/* Does anything lie on another level than the device's memory? */
bool levels_used(const Module *m);
/* Ranks of the mesh that are on one machine, at most. */
int64_t levels_ranks(const Module *m, const Device *d);
/* A level of memory as each of these ranks has it while all transfers: its share of the machine's
 * bytes, and of a disk's rates. */
DeviceLevel levels_share(const Module *m, const Device *d, Level l);
/* The next level below one that the device has; LEVEL_device: there is none. */
Level levels_below(const Device *d, Level l);
/* Bytes of a level that a rank has beside its arena there: what a GPU's transfers from and to a
 * disk go through. */
int64_t levels_pieces(const Plan *p, Level l);
/* All that a rank has of a level: its arena, and those. */
int64_t levels_bytes(const Plan *p, Level l);
/* Has the device the levels that the layout offloads to? False: not, told (MG0556). */
bool levels_there(const Module *m, const Device *d);
/* Does what the ranks of a machine offload fit there? False: not, told (MG0556). */
bool levels_fit(const Plan *p);
/* Is it as little as the layout asserts? False: not, told (MG0557). */
bool levels_asserted(const Plan *p);

#endif
