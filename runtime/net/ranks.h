/* ranks.h - the ranks of a run, each a process; shared by arena.c, launch.c, comm.c and images.c.
 *
 * Rank 0 is the leader: only rank 0 reads data and checkpoints, writes logs, and decides. The other
 * ranks are followers: each waits for orders of the leader (run a program, take bytes, give bytes,
 * end). Orders come over a connection, or over the wire from another machine.
 *
 * On processors the arenas of one machine are in shared memory. All ranks run the same plan, so
 * a tensor has the same offset in each arena. Ranks of one machine therefore read each other's
 * tensors in place, and rank 0 writes into the arenas of its machine directly. In the address
 * space of each process, arenas are at a fixed stride, by rank. In the place of an arena that
 * rank 0 cannot reach (on another machine, or in the memory of a GPU), rank 0 has memory of its
 * own, an image (images.c). */
#ifndef MG_RANKS_H
#define MG_RANKS_H

#include "runtime/run.h"

#define RT_ALL_AXES (~(uint32_t)0)

/* ---- arenas -------------------------------------------------------------------------------- */

/* Bytes from one rank's arena to the next. */
int64_t rt_arena_stride(const mg_program *p);
/* The same address in the arena of another rank of this machine, where arenas are shared. */
void *rt_of_rank(const mg_run *r, const void *at, int rank);
bool rt_is_here(const mg_run *r, int rank); /* on this machine */
/* True if this process may touch the arena of the rank. rt_image: the address in that arena, or
 * in rank 0's image of it. */
bool rt_is_in_reach(const mg_run *r, int rank);
char *rt_image(const mg_run *r, int64_t offset, int rank);
/* The rank that is `by` places (1 or -1) further along the ring of one axis. */
int rt_neighbour(const mg_program *p, int rank, uint32_t axis, int by);
/* True if the rank has the tensor. On a rank without the tensor, its offset holds something
 * else. */
bool rt_has_tensor(const mg_program *p, const mg_tensor *t, int rank);
/* Waits until all ranks of this rank's group along the axes that are on this machine have come
 * (wait.c). A rank waits for data of other machines by receiving them. */
void rt_meet(mg_run *r, uint32_t axes);
/* ns that a rank of this machine has waited for other ranks so far (wait.c). */
int64_t rt_waited(const mg_run *r, int rank);

/* ---- the start and the end ----------------------------------------------------------------- */

/* Under a launcher of several processes: finds the other ranks and maps the arenas. */
void rt_ranks_join(mg_run *r);
/* In a bare start: starts the followers, which never return from it. Call it before any thread
 * starts. */
void rt_ranks_start(mg_run *r);
_Noreturn void rt_ranks_follow(mg_run *r);
void rt_ranks_end(mg_run *r); /* called by the leader: ends all ranks */
/* Keys of a program and of a machine: the same for all processes that run it, or are on it. */
uint64_t rt_program_key(const mg_program *p);
uint64_t rt_host_id(const rt_world *w);
/* The number of ranks on this machine, also before the ranks have met. */
int rt_ranks_here(const mg_run *r);
int rt_ranks_pid(const mg_run *r, int i); /* process id of the i-th rank of this machine */
bool rt_is_first_here(const mg_run *r);
/* More memory that the ranks of this machine share, `each` bytes (whole pages) of each of them, all
 * zeros; all ranks call it, once. The address of rank 0's, from which that of rank k is k * each
 * further; also where rank 0 is elsewhere, and has none here. */
char *rt_ranks_memory(mg_run *r, int64_t each);
/* Threads for each rank: an equal share of the processors that the ranks of this machine may
 * use. */
int rt_ranks_threads(const mg_run *r);

/* ---- the leader's orders; the device carries them out ---------------------------------------- */

/* Shares the leader's decision at a guard with all ranks. */
bool rt_ranks_agree(mg_run *r, bool mine);
/* Writes a rank's place along axes, its own but for --health, at the addresses where its programs
 * read it. */
void rt_places_tell(mg_run *r, int rank);
/* Copies the leader's bytes to all ranks; all ranks call it. */
void rt_ranks_share(mg_run *r, void *what, int64_t bytes);
/* Bytes between the leader and another rank, which calls the other one with rank 0. */
void rt_ranks_tell(mg_run *r, int rank, const void *what, int64_t bytes);
void rt_ranks_hear(mg_run *r, int rank, void *what, int64_t bytes);
/* Bytes of the arena of any rank, in the memory of its device. */
void rt_ranks_put(mg_run *r, int rank, int64_t offset, const void *from, int64_t bytes);
void rt_ranks_get(mg_run *r, int rank, int64_t offset, void *to, int64_t bytes);

/* comm.c: allocates memory for messages on the wire, for the whole run; and its size in bytes. */
void rt_comm_open(mg_run *r);
int64_t rt_comm_bytes(const mg_run *r);

/* ---- images.c ------------------------------------------------------------------------------ */

/* Decides, for each external tensor, which rank's image stands for which ranks. */
void rt_images_settle(mg_run *r);
/* rt_stored_open and rt_stored_close for a run of several ranks. Before a tensor is read, the
 * data of ranks out of reach come into images. After a tensor was written, each image goes to
 * all ranks that it stands for. */
char *rt_images_open(mg_run *r, const rt_external *x, bool read);
void rt_images_close(mg_run *r, const rt_external *x, bool changed);

#endif
