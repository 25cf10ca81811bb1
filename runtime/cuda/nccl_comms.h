/* nccl_comms.h - the communicators of a rank; private to comm.c and pipe.c. A program of one rank
 * is linked without NCCL, and without these files. */
#ifndef MG_RUNTIME_NCCL_COMMS_H
#define MG_RUNTIME_NCCL_COMMS_H

#include <nccl.h>

#include "runtime/cuda/cuda.h"

typedef struct rt_comms {
    ncclComm_t all;
    ncclComm_t of[MG_GROUPS_MAX];    /* by index in mg_program.groups */
    ncclComm_t small[MG_GROUPS_MAX]; /* ... of small collectives; NULL: the group has none */
    struct rt_pipe *pipe;            /* pipe.c; NULL: no stages */
} rt_comms;

/* Ends the program with a message that names `what`, unless e is success or in progress. */
void rt_nccl_must(ncclResult_t e, const char *what);

/* pipe.c: the state of pipelines. All ranks call it, after comms->all is made. NULL: no stages. */
struct rt_pipe *rt_nccl_pipe_open(mg_run *r);
void rt_nccl_pipe_close(struct rt_pipe *p); /* NULL: nothing */

#endif
