/* pipe.h - messages between the stages of a pipeline, on processors: what ranks.c and arena.c have
 * to know of pipe.c. The calls themselves are in abi.h (mg_pipe_ops, mg_pass). */
#ifndef MG_PIPE_H
#define MG_PIPE_H

#include "runtime/run.h"

/* Bytes of a machine's shared memory, zeroed: of all ranks of the mesh. 0: no stages. */
int64_t rt_pipe_shared_bytes(const mg_program *p);
/* `shared` is that memory; it stays the caller's. NULL: the program has no stages. */
struct rt_pipe *rt_pipe_new(const mg_program *p, void *shared);
void rt_pipe_free(struct rt_pipe *p); /* NULL: nothing */

#endif
