/* ranks.h - several ranks, each a process; shared by arena.c, launch.c, comm.c and images.c.
 *
 * Rank 0 is the leader: it alone reads data and checkpoints, writes logs, and decides. The others
 * follow: they wait for its orders (run a program, take bytes, give bytes, end), which come over a
 * connection, or from another machine over the wire.
 *
 * On processors the arenas of one machine lie in shared memory, each at the same offsets, since all
 * ranks run the same plan: so its ranks read each other's numbers where they are, and rank 0 writes
 * into arenas of its machine itself. In the address space of each, arenas lie at one stride, by
 * rank; in the place of an arena that it cannot reach (on another machine, or any in the memory of
 * a GPU) rank 0 has memory of its own, an image (images.c). */
#ifndef MG_RANKS_H
#define MG_RANKS_H

#include "runtime/run.h"

#define RT_ALL_AXES (~(uint32_t)0)

/* ---- arenas -------------------------------------------------------------------------------- */

/* From one rank's arena to the next, bytes. */
int64_t rt_arena_stride(const mg_program *p);
/* The same address in the arena of another rank of this machine, where arenas are shared. */
void *rt_of_rank(const mg_run *r, const void *at, int rank);
bool rt_is_here(const mg_run *r, int rank); /* on this machine */
/* May this process touch the arena of that rank? And of rank 0: its place there, or in its image.
 */
bool rt_is_in_reach(const mg_run *r, int rank);
char *rt_image(const mg_run *r, int64_t offset, int rank);
/* The rank that is so many places further round the ring along one axis: 1 or -1. */
int rt_neighbour(const mg_program *p, int rank, uint32_t axis, int by);
/* Has a rank the tensor? What lies at its place on the others is something else. */
bool rt_has_tensor(const mg_program *p, const mg_tensor *t, int rank);
/* Waits until all ranks of this one's group along the axes are here, as far as they are on this
 * machine (wait.c). What lies on others is waited for by taking it. */
void rt_meet(mg_run *r, uint32_t axes);

/* ---- the start and the end ----------------------------------------------------------------- */

/* Under a launcher of several processes: finds the others, maps the arenas. */
void rt_ranks_join(mg_run *r);
/* In a bare start: starts the followers, which never return from it. Before any thread is
 * started. */
void rt_ranks_start(mg_run *r);
_Noreturn void rt_ranks_follow(mg_run *r);
void rt_ranks_end(mg_run *r); /* the leader's: of all */
/* How many ranks are on this machine, also before they were met. */
int rt_ranks_here(const mg_run *r);
int rt_ranks_pid(const mg_run *r, int i); /* of the i-th of them */
bool rt_is_first_here(const mg_run *r);
/* Threads for each rank, of the processors that those of this machine may use together. */
int rt_ranks_threads(const mg_run *r);

/* ---- the leader's orders, of which the device knows how they are carried out ------------------
 */

/* What the leader decided at a guard; the others hear it. */
bool rt_ranks_agree(mg_run *r, bool mine);
/* Writes the rank's place along axes where its programs read it. */
void rt_places_tell(mg_run *r);
/* What the leader has, all have: to be called by all. */
void rt_ranks_share(mg_run *r, void *what, int64_t bytes);
/* Bytes of the arena of any rank, as its device has them. */
void rt_ranks_put(mg_run *r, int rank, int64_t offset, const void *from, int64_t bytes);
void rt_ranks_get(mg_run *r, int rank, int64_t offset, void *to, int64_t bytes);

/* comm.c: memory for what goes over the wire, for good; and how much that is. */
void rt_comm_open(mg_run *r);
int64_t rt_comm_bytes(const mg_run *r);

/* ---- images.c ------------------------------------------------------------------------------ */

/* Decides, for each external tensor, whose image stands for which ranks. */
void rt_images_settle(mg_run *r);
/* rt_stored_open and rt_stored_close of one of several ranks. Before a tensor is read, what cannot
 * be reached comes into images; after it was written, images go to all ranks for which they stand.
 */
char *rt_images_open(mg_run *r, const rt_external *x, bool read);
void rt_images_close(mg_run *r, const rt_external *x, bool changed);

#endif
