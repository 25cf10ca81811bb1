/* operation.h - calls of a group on one communicator as one piece of work of a stream: messages
 * that are put into rings and taken from them as far as they go, and a sum at the end. */
#ifndef SHIM_OPERATION_H
#define SHIM_OPERATION_H

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_shim/segment.h"
#include "tests/cuda_shim/stream.h"

/* A process's side of a communicator, shared by its handle and its operations. */
struct ShimComm {
    ShimSegment shared;
    int rank = 0, ranks = 0;
    std::string name;                  /* for messages */
    ShimTurns turns = {0, 0};          /* of its operations in this process */
    uint64_t collectives = 0;          /* that began */
    std::vector<uint64_t> sent, taken; /* messages that are no part of one, by peer */
    std::atomic<bool> aborted{false};  /* also by another thread; its work is done as it is then */
    /* Another owner, a graph, can launch more operations. */
    std::shared_ptr<char> launch = std::make_shared<char>();
};

enum ShimCallKind {
    SHIM_ALL_REDUCE,
    SHIM_REDUCE_SCATTER,
    SHIM_ALL_GATHER,
    SHIM_BROADCAST,
    SHIM_SEND,
    SHIM_RECV
};

struct ShimCall {
    ShimCallKind kind;
    const char *in;
    char *out;
    size_t count; /* as the call has it */
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer; /* broadcast: the root */
};

size_t shim_type_bytes(ncclDataType_t t); /* 0: no such type */
bool shim_can_reduce(ncclDataType_t t, ncclRedOp_t op);

/* Ends the program where two calls of a group would race for the same bytes. */
void shim_check_buffers(const ShimComm &c, const std::vector<ShimCall> &calls);
/* The calls as work of the stream; collectives come before what goes between two. */
void shim_launch_calls(std::shared_ptr<ShimComm> c, std::vector<ShimCall> calls, cudaStream_t s);
/* Ends the program if something was sent to this rank, which takes nothing any more. */
void shim_check_nothing_left(const ShimComm &c);

/* to[i] = the sum, or whatever op says, of part[0][i], part[1][i], ...: of all parts in an order
 * that `key` decides for each range of elements, the first of which is number `first`. `to` may be
 * one of the parts. */
void shim_reduce(char *to, const std::vector<const char *> &part, size_t first, size_t count,
                 ncclDataType_t t, ncclRedOp_t op, uint64_t key);

#endif
