/* api.cc - the CUDA runtime of the shim but for its streams; see include/cuda_runtime_api.h.
 *
 * $SHIM_SEED decides the order of blocks and warps; $SHIM_NO_GPU makes a machine without one. */
#include "tests/cuda_shim/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

extern "C" {
#include "tests/cuda_shim/shim.h"
}

static uint64_t launches;

uint64_t shim_seed()
{
    const char *s = getenv("SHIM_SEED");
    return s ? strtoull(s, NULL, 10) : 1;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess               ? "no error"
           : e == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
           : e == cudaErrorSymbolNotFound ? "named symbol not found"
                                          : "an error of the shim";
}

const char *cudaGetErrorName(cudaError_t e)
{
    static char name[32];
    snprintf(name, sizeof name, "cudaError%d", (int)e);
    return name;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return getenv("SHIM_NO_GPU") ? cudaErrorInsufficientDriver : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    *p = cudaDeviceProp();
    snprintf(p->name, sizeof p->name, "shim");
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = (size_t)4 << 30;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*p)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaMalloc(p, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

/* Memory of the host may be used again as soon as the call returns, as CUDA has it for what is not
 * pinned; what comes back is there when the stream was waited for. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    if (kind == cudaMemcpyHostToDevice) {
        std::string copy((const char *)from, bytes);
        shim_later(s, [=] { memcpy(to, copy.data(), bytes); });
    } else {
        shim_later(s, [=] { memmove(to, from, bytes); });
    }
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    shim_later(s, [=] { memset(p, value, bytes); });
    return cudaSuccess;
}

/* ---- kernels ------------------------------------------------------------------------------ */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *l, const void *, enum cudaJitOption *, void **,
                                unsigned, enum cudaLibraryOption *, void **, unsigned)
{
    *l = NULL; /* the kernels are in this program */
    return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t)
{
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *k, cudaLibrary_t, const char *name)
{
    *k = shim_find(name);
    return *k ? cudaSuccess : cudaErrorSymbolNotFound;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t,
                             cudaStream_t s)
{
    const ShimKernel *k = (const ShimKernel *)kernel;
    /* Arguments are taken over at once, as a driver does. */
    std::vector<std::string> kept;
    for (int i = 0; i < shim_arguments(k); i++)
        kept.push_back(std::string((const char *)args[i], shim_argument_bytes(k, i)));
    uint64_t number = launches++;
    shim_later(s, [=] {
        std::vector<std::string> mine = kept;
        std::vector<void *> at;
        for (std::string &x : mine)
            at.push_back(&x[0]);
        const char *wrong = shim_launch(k, ShimDim{grid.x, grid.y, grid.z},
                                        ShimDim{block.x, block.y, block.z}, at.data(),
                                        shim_seed() * 1000003 + number);
        if (wrong) {
            fprintf(stderr, "shim: %s: %s\n", shim_name(k), wrong);
            exit(99);
        }
    });
    return cudaSuccess;
}
