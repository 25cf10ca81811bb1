/* nccl.h - the shim's: collectives between processes of one machine, under the names and numbers of
 * NCCL 2.28.
 *
 * A rank is a process. Its collectives are work of its streams: such a stream stands still until
 * the other ranks have come. As with NCCL, operations of one communicator run in the order in which
 * they were launched, in whatever streams; no two ranks of one have the same GPU; all ranks destroy
 * a communicator, after the graphs that use it. Where ranks do not do the same, the one that sees
 * it says so and ends with 99.
 *
 * Only who waits in CUDA or NCCL, or asks cudaStreamQuery, has its streams go on: before a host
 * waits for other ranks by other means, it has to wait for its streams.
 *
 * Not here: communicators made within a group; one communicator in two streams within a group;
 * ncclProd, ncclMin, ncclAvg; sums of floats of eight bits. */
#ifndef SHIM_NCCL_H
#define SHIM_NCCL_H

#include <limits.h>
#include <stddef.h>

#include "cuda_runtime_api.h"

#define NCCL_MAJOR        2
#define NCCL_MINOR        28
#define NCCL_PATCH        9
#define NCCL_SUFFIX       ""
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(X, Y, Z)                                                                      \
    (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
#define NCCL_COMM_NULL       NULL
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR    (-1)

/* Of what may be set `blocking` and `commName` mean something here. */
typedef struct ncclConfig_v22800 {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char *netName;
    int splitShare, trafficClass;
    const char *commName;
    int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        sizeof(ncclConfig_t),                                                                      \
        0xcafebeef,                                                                                \
        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),                                          \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_PTR,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_PTR,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
        NCCL_CONFIG_UNDEF_INT,                                                                     \
    }

ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);

/* ---- communicators ------------------------------------------------------------------------ */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);

/* ---- what goes between ranks -------------------------------------------------------------- */

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t recvcount, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclAllGather(const void *from, void *to, size_t sendcount, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t s);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#ifdef __cplusplus
}
#endif
#endif
