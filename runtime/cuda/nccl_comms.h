/* nccl_comms.h - private to comm.c and pipe.c: the communicators of a rank. Programs of one rank
 * are linked without NCCL, and without these files. */
#ifndef MG_RUNTIME_NCCL_COMMS_H
#define MG_RUNTIME_NCCL_COMMS_H

#include <nccl.h>

#include "runtime/cuda/cuda.h"

typedef struct rt_comms {
    ncclComm_t all;
    ncclComm_t of[MG_GROUPS_MAX]; /* by place in mg_program.groups */
    struct rt_pipe *pipe;         /* pipe.c; NULL: there are no stages */
} rt_comms;

/* Ends the program with what failed unless e is success, or goes on. */
void rt_nccl_must(ncclResult_t e, const char *what);

/* pipe.c: what it needs, made by all ranks alike; comms->all is there. NULL: there are no stages.
 */
struct rt_pipe *rt_nccl_pipe_open(mg_run *r);
void rt_nccl_pipe_close(struct rt_pipe *p); /* NULL: nothing */

#endif
