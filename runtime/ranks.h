/* ranks.h - several ranks on one machine, each a process; shared by arena.c, launch.c and comm.c.
 *
 * The first process is rank 0, the leader: it alone reads the command line, data and checkpoints,
 * writes logs, and decides. The others follow: they run the programs they are told to, and wait.
 * All arenas lie in one piece of shared memory, each at the same offsets, since all ranks run the
 * same plan: so ranks read each other's numbers where they are, and the leader fills all arenas. */
#ifndef MG_RANKS_H
#define MG_RANKS_H

#include "runtime/run.h"

/* From one rank's arena to the next, bytes. */
int64_t rt_arena_stride(const mg_program *p);
/* The same address in the arena of another rank. */
void *rt_of_rank(const mg_run *r, const void *at, int rank);

/* Waits until all ranks of this one's group along the axes are here. */
void rt_meet(mg_run *r, uint32_t axes);
#define RT_ALL_AXES (~(uint32_t)0)

/* Starts the followers, which never return from it. Before any thread is started. */
void rt_ranks_start(mg_run *r);
/* Tells the followers to run a program, or to end; and waits for them. */
void rt_ranks_run(mg_run *r, rt_program which);
void rt_ranks_end(mg_run *r);
/* What the leader decided at a guard; the others hear it. */
bool rt_ranks_agree(mg_run *r, bool mine);

#endif
