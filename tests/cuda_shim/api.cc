/* api.cc - the CUDA runtime of the shim but for its streams; see include/cuda_runtime_api.h.
 *
 * $SHIM_SEED decides the order of blocks and warps; $SHIM_GPUS is how many GPUs the machine has
 * (1), $SHIM_NO_GPU makes one without a driver, $SHIM_SM is their compute capability times ten (90),
 * $SHIM_DRIVER the version of CUDA that the driver is for, $SHIM_RUNTIME that of the linked library
 * (13020), $SHIM_WITHOUT what the names of kernels begin with that are not there, $SHIM_PTX a file
 * whose PTX is run in place of the kernels' text. $SHIM_FREE is how many bytes of a GPU are free
 * before this process takes some (64 GiB), $SHIM_NODE_BYTES how many a node of a graph takes (0). */
#include "tests/cuda_shim/stream.h"

#include <map>
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
           : e == cudaErrorInvalidDevice  ? "invalid device ordinal"
           : e == cudaErrorSymbolNotFound ? "named symbol not found"
           : e == cudaErrorInsufficientDriver
               ? "CUDA driver version is insufficient for CUDA runtime version"
           : e == cudaErrorUnsupportedPtxVersion
               ? "the provided PTX was compiled with an unsupported toolchain."
           : e == cudaErrorNotReady       ? "device not ready"
           : e == cudaErrorStreamCaptureUnsupported
               ? "operation not permitted when stream is capturing"
           : e == cudaErrorStreamCaptureInvalidated
               ? "operation failed due to a previous error during capture"
                                          : "an error of the shim";
}

const char *cudaGetErrorName(cudaError_t e)
{
    static char name[32];
    snprintf(name, sizeof name, "cudaError%d", (int)e);
    return name;
}

/* ---- devices ------------------------------------------------------------------------------ */

static int device;

int shim_device()
{
    return device;
}

/* 0 without a driver; it is of the runtime's version unless $SHIM_DRIVER says another. */
static int driver()
{
    const char *s = getenv("SHIM_DRIVER");
    return getenv("SHIM_NO_GPU") ? 0 : s ? atoi(s) : CUDART_VERSION;
}

int shim_capability()
{
    const char *s = getenv("SHIM_SM");
    return s ? atoi(s) : 90;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    const char *s = getenv("SHIM_GPUS");
    *n = s ? atoi(s) : 1;
    return driver() / 1000 < CUDART_VERSION / 1000 ? cudaErrorInsufficientDriver
           : *n < 1                                ? cudaErrorNoDevice
                                                   : cudaSuccess;
}

static bool is_device(int number)
{
    int n;
    return cudaGetDeviceCount(&n) == cudaSuccess && number >= 0 && number < n;
}

cudaError_t cudaSetDevice(int number)
{
    if (!is_device(number))
        return cudaErrorInvalidDevice;
    device = number;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number)
{
    *number = device;
    return cudaSuccess;
}

/* The uuid of a GPU is the same in all processes. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int number)
{
    if (!is_device(number))
        return cudaErrorInvalidDevice;
    *p = cudaDeviceProp();
    snprintf(p->name, sizeof p->name, "shim");
    for (int i = 0; i < 16; i += 8) {
        const uint64_t bits = shim_mix((uint64_t)number * 2 + (uint64_t)i / 8);
        memcpy(p->uuid.bytes + i, &bits, 8);
    }
    p->pciBusID = 16 * (number + 1);
    p->major = shim_capability() / 10;
    p->minor = shim_capability() % 10;
    p->multiProcessorCount = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    const char *s = getenv("SHIM_RUNTIME");
    *version = s ? atoi(s) : CUDART_VERSION;
    return cudaSuccess;
}

static std::map<void *, size_t> allocated;
static int64_t taken; /* bytes that graphs take */

void shim_graph_takes(int64_t nodes)
{
    const char *each = getenv("SHIM_NODE_BYTES");
    taken += nodes * (each ? atoll(each) : 0);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    const char *s = getenv("SHIM_FREE");
    int64_t left = s ? atoll(s) : (int64_t)64 << 30;
    *total = (size_t)left;
    left -= taken;
    for (const auto &a : allocated)
        left -= (int64_t)a.second;
    *available = left > 0 ? (size_t)left : 0;
    return cudaSuccess;
}

static cudaError_t allocate(void **p, size_t bytes)
{
    if (shim_unsafe() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*p)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, bytes);
    shim_ptx_allocated(*p, bytes);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    const cudaError_t e = allocate(p, bytes);
    if (e == cudaSuccess)
        allocated[*p] = bytes;
    return e;
}

bool shim_on_device(const void *p, size_t bytes)
{
    for (const auto &a : allocated)
        if (p >= a.first && (const char *)p + bytes <= (const char *)a.first + a.second)
            return true;
    return false;
}

cudaError_t cudaFree(void *p)
{
    if (shim_unsafe() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    allocated.erase(p);
    shim_ptx_freed(p);
    free(p);
    return cudaSuccess;
}

/* Memory of the host that the device knows, by its first byte. */
struct Pinned {
    size_t bytes;
    bool registered, mapped;
};
static std::map<char *, Pinned> pinned;

/* The pinned block that has a byte of this range, or the end. */
static std::map<char *, Pinned>::iterator pinned_near(char *p, size_t bytes)
{
    auto after = pinned.lower_bound(p + bytes);
    if (after == pinned.begin())
        return pinned.end();
    --after;
    return after->first + after->second.bytes > p ? after : pinned.end();
}

bool shim_is_mapped(const void *p, size_t bytes)
{
    auto at = pinned_near((char *)(uintptr_t)p, bytes);
    return at != pinned.end() && at->second.mapped && at->first <= p &&
           (const char *)p + bytes <= at->first + at->second.bytes;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    cudaError_t e = allocate(p, bytes);
    if (e == cudaSuccess)
        pinned[(char *)*p] = Pinned{bytes, false, true};
    return e;
}

cudaError_t cudaFreeHost(void *p)
{
    auto at = pinned.find((char *)p);
    if (shim_unsafe() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (at == pinned.end() || at->second.registered)
        return p ? cudaErrorInvalidValue : cudaSuccess;
    pinned.erase(at);
    return cudaFree(p);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    if (!p || !bytes || flags & ~(unsigned)(cudaHostRegisterPortable | cudaHostRegisterMapped))
        return cudaErrorInvalidValue;
    if (shim_unsafe() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (pinned_near((char *)p, bytes) != pinned.end())
        return cudaErrorHostMemoryAlreadyRegistered;
    pinned[(char *)p] = Pinned{bytes, true, (flags & cudaHostRegisterMapped) != 0};
    if (flags & cudaHostRegisterMapped)
        shim_ptx_allocated(p, bytes);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    auto at = pinned.find((char *)p);
    if (shim_unsafe() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (at == pinned.end() || !at->second.registered)
        return cudaErrorHostMemoryNotRegistered;
    shim_ptx_freed(p);
    pinned.erase(at);
    return cudaSuccess;
}

/* Of what was registered as mapped; a GPU that shares addresses with the host has it where the host
 * has it. */
cudaError_t cudaHostGetDevicePointer(void **to, void *host, unsigned flags)
{
    auto at = pinned_near((char *)host, 1);
    if (flags || at == pinned.end() || !at->second.mapped)
        return cudaErrorInvalidValue;
    *to = host;
    return cudaSuccess;
}

/* Memory of the host may be used again as soon as the call returns, as CUDA has it for what is not
 * pinned. Pinned memory is read when the stream has come to the copy. What comes back is there when
 * the stream was waited for. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    if (kind == cudaMemcpyHostToDevice && pinned_near((char *)from, bytes) == pinned.end()) {
        std::string copy((const char *)from, bytes);
        shim_later(s, [=] { memcpy(to, copy.data(), bytes); });
    } else {
        shim_later(s, [=] { memmove(to, from, bytes); });
    }
    return cudaSuccess;
}

/* Rows. CUDA refuses rows that are longer than what lies between two of them; the shim also a copy of
 * memory of the host that is not pinned, which nobody here makes. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t s)
{
    const void *host = kind == cudaMemcpyHostToDevice ? from : to;
    const size_t pitch = kind == cudaMemcpyHostToDevice ? from_pitch : to_pitch;
    if (width > to_pitch || width > from_pitch || !height)
        return cudaErrorInvalidValue;
    if (kind != cudaMemcpyDeviceToDevice && !shim_is_mapped(host, pitch * (height - 1) + width))
        return cudaErrorInvalidValue;
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    shim_later(s, [=] {
        for (size_t i = 0; i < height; i++)
            memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    });
    return cudaSuccess;
}

/* When the stream has come to it; it calls nothing of CUDA. */
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t what, void *with)
{
    if (!what)
        return cudaErrorInvalidValue;
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    shim_later(s, [=] { what(with); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    shim_later(s, [=] { memset(p, value, bytes); });
    return cudaSuccess;
}

/* ---- kernels ------------------------------------------------------------------------------ */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *l, const void *, enum cudaJitOption *, void **,
                                unsigned, enum cudaLibraryOption *, void **, unsigned)
{
    if (shim_unsafe() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    /* A program has machine code of sm_80, for all of 8.x, and of sm_90, and PTX of its own version. */
    if (shim_capability() / 10 != 8 && shim_capability() != 90 && driver() < CUDART_VERSION)
        return cudaErrorUnsupportedPtxVersion;
    *l = NULL; /* the kernels are in this program, or where $SHIM_PTX says */
    const char *wrong = shim_ptx_load();
    if (wrong) {
        fprintf(stderr, "shim: %s\n", wrong);
        exit(99);
    }
    return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t)
{
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *k, cudaLibrary_t, const char *name)
{
    const char *without = getenv("SHIM_WITHOUT");
    *k = without && strncmp(name, without, strlen(without)) == 0 ? NULL : shim_find(name);
    return *k ? cudaSuccess : cudaErrorSymbolNotFound;
}

/* The limit of a launch's shared memory: 48 KiB, or as much as was said, up to what sm_90 has. */
static std::map<const ShimKernel *, size_t> shared_most;
enum { SHARED_USUAL = 48 << 10, SHARED_MAX = 227 << 10 };

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > SHARED_MAX)
        return cudaErrorInvalidValue;
    shared_most[(const ShimKernel *)kernel] = (size_t)value;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t s)
{
    const ShimKernel *k = (const ShimKernel *)kernel;
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    if (shared > (shared_most.count(k) ? shared_most[k] : (size_t)SHARED_USUAL))
        return cudaErrorInvalidValue;
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
        const char *wrong =
            shim_launch(k, ShimDim{grid.x, grid.y, grid.z}, ShimDim{block.x, block.y, block.z},
                        shared, at.data(), shim_seed() * 1000003 + number);
        if (wrong) {
            fprintf(stderr, "shim: %s: %s\n", shim_name(k), wrong);
            exit(99);
        }
    });
    return cudaSuccess;
}
