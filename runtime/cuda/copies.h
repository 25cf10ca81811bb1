/* copies.h - collectives by copies through the memory of the host; see copies.c. Private to comm.c
 * and copies.c. */
#ifndef MG_RUNTIME_COPIES_H
#define MG_RUNTIME_COPIES_H

#include "runtime/cuda/cuda.h"

typedef struct rt_copies rt_copies;

/* All ranks call it. NULL: the program has no such collectives. Ends the program if the machine has
 * too little memory, or some of a group's ranks are on another machine. */
rt_copies *rt_copies_open(mg_run *r);
void rt_copies_close(rt_copies *c); /* NULL: nothing */

/* A collective of shares as mg_copies_share has them, after what is on the current stream, which
 * then waits for it. came: work space of mg_piece_most bytes for each rank, where shares are added
 * up. */
void rt_copies_all_gather(mg_run *r, const mg_comm_desc *d, const char *x, char *y);
void rt_copies_reduce_scatter(mg_run *r, const mg_comm_desc *d, const char *x, char *y, char *came);
void rt_copies_all_reduce(mg_run *r, const mg_comm_desc *d, const char *x, char *y, char *came);
void rt_copies_all_to_all(mg_run *r, const mg_comm_desc *d, const char *x, char *y);
void rt_copies_ring_shift(mg_run *r, const mg_comm_desc *d, const char *x, char *y);

#endif
