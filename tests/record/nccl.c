/* nccl.c - the calls of NCCL, written down. The rank is alone: nobody else is waited for. */
#include "tests/record/record.h"

#include <inttypes.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *ncclGetErrorString(ncclResult_t result)
{
    return "error";
}
const char *ncclGetLastError(ncclComm_t comm)
{
    return "";
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 1, sizeof *id);
    return ncclSuccess;
}

/* comm NUMBER RANKS RANK CHANNELS; split NUMBER OF COLOR KEY: of how many ranks it is only the
 * others together know. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    *comm = (ncclComm_t)record_number();
    record_line("comm", "%" PRIuPTR " %d %d %d", (uintptr_t)*comm, nranks, rank, config->maxCTAs);
    return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
    *newcomm = (ncclComm_t)record_number();
    record_line("split", "%" PRIuPTR " %" PRIuPTR " %d %d", (uintptr_t)*newcomm, (uintptr_t)comm,
                color, key);
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    record_line("commend", "%" PRIuPTR, (uintptr_t)comm);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    record_line("group", "+");
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void)
{
    record_line("groupend", "+");
    return ncclSuccess;
}

/* nccl STREAM COMM WHAT FROM TO COUNT BYTES PEER: BYTES of an element; PEER, or the root; 0 where
 * there is none of FROM, TO and PEER. */
static ncclResult_t call(const char *what, const void *from, const void *to, size_t count,
                         ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s)
{
    const int bytes = type == ncclUint8                             ? 1
                      : type == ncclFloat16 || type == ncclBfloat16 ? 2
                      : type == ncclFloat32 || type == ncclInt32    ? 4
                                                                    : 8;
    record_line("nccl", "%" PRIuPTR " %" PRIuPTR " %s %" PRIuPTR " %" PRIuPTR " %zu %d %d",
                (uintptr_t)s, (uintptr_t)comm, what, (uintptr_t)from, (uintptr_t)to, count, bytes,
                peer);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    return call("allreduce", from, to, count, type, 0, comm, s);
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t recvcount, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    return call("reducescatter", from, to, recvcount, type, 0, comm, s);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t sendcount, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t s)
{
    return call("allgather", from, to, sendcount, type, 0, comm, s);
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t s)
{
    return call("broadcast", from, to, count, type, root, comm, s);
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t s)
{
    return call("send", from, NULL, count, type, peer, comm, s);
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t s)
{
    return call("recv", NULL, to, count, type, peer, comm, s);
}
