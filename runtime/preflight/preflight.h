/* preflight.h - --preflight: what a run stands on is checked and measured before it.
 *
 * All ranks meet as for training, and then go through the same parts in the same order:
 *
 *   facts     each rank tells rank 0 of its host: versions, memory, limits (facts.c, check.c)
 *   clocks    rank 0 asks each host for its time (clocks.c)
 *   links     messages between each two hosts, over the wire that the run will use (links.c)
 *   pairs     bytes between each two ranks, by the device's own way (pairs.c)
 *   groups    the collectives of a step, each group at its planned size (groups.c)
 *   files     the run's folder, its data and its checkpoint, on rank 0's host (info.c)
 *
 * A part that cannot be had (a host has another program, or too little memory) is left out, and a
 * line says so. Rank 0 compares, prints and decides. Here a rank that has another program is met,
 * too, so that it can be named. */
#ifndef MG_PREFLIGHT_H
#define MG_PREFLIGHT_H

#include "runtime/run.h"

/* Seconds to wait for other ranks, where --hang-after does not say. */
#define RT_PREFLIGHT_LIMIT 60
/* The key that ranks of a preflight know each other by, in place of the program's. */
uint64_t rt_preflight_key(void);
/* All ranks call it, when they have met; in a bare start rank 0 alone, and the others in
 * rt_ranks_follow. Of rank 0 the exit code: RT_DONE if nothing is wrong. */
rt_exit rt_preflight(mg_run *r);

/* ---- of the device: launch.c and arena.c, or the folder cuda ------------------------------- */

char *rt_device_versions(const mg_run *r); /* of the libraries of GPUs' collectives; or NULL */
/* Seconds until `bytes` of another rank's arena have come, and those of this one's have gone there,
 * by the device's own way; 0: they have none. Both ranks call it. */
double rt_device_exchange(mg_run *r, int rank, int64_t bytes);

#endif
