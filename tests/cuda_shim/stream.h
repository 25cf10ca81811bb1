/* stream.h - work that waits in a stream, and what the parts of the shim ask each other; private to
 * the shim. */
#ifndef SHIM_STREAM_H
#define SHIM_STREAM_H

#include <functional>
#include <stdint.h>

#include "tests/cuda_shim/include/cuda_runtime_api.h"

/* cudaSuccess, or why a stream takes no more work: whoever puts work into a stream asks before. */
cudaError_t shim_takes(cudaStream_t s);
/* Of a call that CUDA forbids while its thread captures (cudaStreamCaptureModeThreadLocal): one
 * that allocates, frees or waits. Where anything is captured the capture is invalid, and the call
 * is refused. */
cudaError_t shim_unsafe();

void shim_later(cudaStream_t s, std::function<void()> work);

/* Work that waits for other processes: it is asked again and again until it is done, and its stream
 * stays where it is as long. */
enum ShimState {
    SHIM_DONE,
    SHIM_PEERS, /* waits for another process */
    SHIM_TURN   /* waits for other work of this one */
};
typedef std::function<ShimState()> ShimPoll;
/* `launch` is called when the work is launched: now, or, in a stream that is being captured, at
 * each launch of the graph, in the order of the capture. What it returns is called for the first
 * time when the stream has come to it. */
void shim_operation(cudaStream_t s, std::function<ShimPoll()> launch);

/* Things that are done one after another, in the order in which they were launched. */
struct ShimTurns {
    uint64_t launched, done;
};

/* For a host that waits: the streams go on by one piece of work if one can, as a GPU does
 * meanwhile; else the processor goes to others. */
void shim_go_on();

uint64_t shim_seed(); /* $SHIM_SEED */
/* Ranks of the same seed take different orders. */
void shim_set_rank(int rank);
int shim_device();
/* Their compute capability, 89 for 8.9. */
int shim_capability();
/* Is this memory that cudaMalloc gave? That of the host which was registered as mapped? */
bool shim_on_device(const void *p, size_t bytes);
bool shim_is_mapped(const void *p, size_t bytes);
void shim_graph_takes(int64_t nodes); /* of an executable graph; below 0: it is destroyed */

/* Any number, the same for the same key. */
static inline uint64_t shim_mix(uint64_t key)
{
    key += 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
    key = (key ^ key >> 27) * 0x94d049bb133111ebu;
    return key ^ key >> 31;
}

#endif
