/* pipe.h - messages between the stages of a pipeline, on processors: the part of pipe.c that
 * ranks.c and wait.c need. The calls of emitted code are in abi.h (mg_pipe_ops, mg_pass). */
#ifndef MG_PIPE_H
#define MG_PIPE_H

#include "runtime/run.h"

/* Bytes of shared memory of a machine, zeroed, for all ranks of the mesh. 0: no stages. */
int64_t rt_pipe_shared_bytes(const mg_program *p);
/* `shared` is that memory; the caller keeps ownership. NULL: the program has no stages. */
struct rt_pipe *rt_pipe_new(const mg_program *p, void *shared);
void rt_pipe_free(struct rt_pipe *p); /* NULL: nothing */

#endif
