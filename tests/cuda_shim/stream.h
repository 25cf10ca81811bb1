/* stream.h - work that waits in a stream; private to the shim. */
#ifndef SHIM_STREAM_H
#define SHIM_STREAM_H

#include <functional>
#include <stdint.h>

#include "tests/cuda_shim/include/cuda_runtime_api.h"

void shim_later(cudaStream_t s, std::function<void()> work);
uint64_t shim_seed(); /* $SHIM_SEED */

#endif
