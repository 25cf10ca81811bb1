/* words.cc - streams that wait for words of memory and write them: cuStreamBatchMemOp of the
 * driver, which programs find by cudaGetDriverEntryPointByVersion. The words may be in memory that
 * processes share. A batch is work that waits for other processes; it may be captured, is one node,
 * and then waits in each launch of the graph.
 *
 * $SHIM_NO_WORDS makes a driver without them. For faults that a test plants: $SHIM_SKIP_WAIT and
 * $SHIM_SKIP_WRITE are a value; waits for it do not wait, and writes of it do not write. */
#include "tests/cuda_shim/include/cuda.h"
#include "tests/cuda_shim/stream.h"

#include <atomic>
#include <stdlib.h>
#include <string.h>
#include <vector>

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a word is one");

enum { BATCH_MAX = 255 };

static std::atomic<uint32_t> *word(unsigned long long at)
{
    return (std::atomic<uint32_t> *)(uintptr_t)at;
}

static bool skips(const char *name, uint32_t value)
{
    const char *s = getenv(name);
    return s && (uint32_t)atoi(s) == value;
}

/* A word is in memory that the device has, at a multiple of its size. */
static bool is_good(const CUstreamBatchMemOpParams &o)
{
    const bool waits = o.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    const unsigned long long at = waits ? o.waitValue.address : o.writeValue.address;
    const void *p = (const void *)(uintptr_t)at;
    if (at % sizeof(uint32_t) ||
        (!shim_is_mapped(p, sizeof(uint32_t)) && !shim_on_device(p, sizeof(uint32_t))))
        return false;
    return waits ? o.waitValue.flags <= CU_STREAM_WAIT_VALUE_EQ
                 : o.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
                       o.writeValue.flags == CU_STREAM_WRITE_VALUE_DEFAULT;
}

/* False: it has to wait. */
static bool done(const CUstreamBatchMemOpParams &o)
{
    if (o.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
        if (!skips("SHIM_SKIP_WRITE", o.writeValue.value))
            word(o.writeValue.address)->store(o.writeValue.value);
        return true;
    }
    const uint32_t is = word(o.waitValue.address)->load(), value = o.waitValue.value;
    return skips("SHIM_SKIP_WAIT", value) ||
           (o.waitValue.flags == CU_STREAM_WAIT_VALUE_EQ ? is == value
                                                         : (int32_t)(is - value) >= 0);
}

/* In the order of the array. */
static CUresult batch(CUstream s, unsigned count, CUstreamBatchMemOpParams *all, unsigned flags)
{
    if (!s || !count || count > BATCH_MAX || flags)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < count; i++)
        if (!is_good(all[i]))
            return cudaErrorInvalidValue;
    const cudaError_t e = shim_takes(s);
    if (e != cudaSuccess)
        return e;
    const std::vector<CUstreamBatchMemOpParams> its(all, all + count);
    shim_operation(s, [=]() -> ShimPoll {
        size_t next = 0;
        return [=]() mutable {
            while (next < its.size() && done(its[next]))
                next++;
            return next < its.size() ? SHIM_PEERS : SHIM_DONE;
        };
    });
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    if (flags != cudaEnableDefault)
        return cudaErrorInvalidValue;
    const bool has = !strcmp(name, "cuStreamBatchMemOp") && !getenv("SHIM_NO_WORDS");
    *function = has ? (void *)batch : NULL;
    *found = has ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
