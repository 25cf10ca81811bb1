/* words.cc - streams that wait for a word of memory and write one: cuStreamWaitValue32 and
 * cuStreamWriteValue32 of the driver, which programs find by cudaGetDriverEntryPointByVersion. The
 * word may be in memory that processes share. A wait is work that waits for other processes; it may
 * be captured, and then waits in each launch of the graph.
 *
 * $SHIM_NO_WORDS makes a driver without them. For faults that a test plants: $SHIM_SKIP_WAIT and
 * $SHIM_SKIP_WRITE are a value; waits for it do not wait, and writes of it do not write. */
#include "tests/cuda_shim/stream.h"

#include <atomic>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a word is one");

enum { GREATER = 0, EQUAL = 1 };

static std::atomic<uint32_t> *word(unsigned long long at)
{
    return (std::atomic<uint32_t> *)(uintptr_t)at;
}

static bool skips(const char *name, uint32_t value)
{
    const char *s = getenv(name);
    return s && (uint32_t)atoi(s) == value;
}

/* Memory that the device has, at a multiple of the word's size. */
static int refused(cudaStream_t s, unsigned long long at)
{
    const void *p = (const void *)(uintptr_t)at;
    if (!s || at % sizeof(uint32_t) ||
        (!shim_is_mapped(p, sizeof(uint32_t)) && !shim_on_device(p, sizeof(uint32_t))))
        return cudaErrorInvalidValue;
    return shim_takes(s);
}

static int wait_value(cudaStream_t s, unsigned long long at, uint32_t value, unsigned flags)
{
    const int e = refused(s, at);
    if (e || flags > EQUAL)
        return e ? e : cudaErrorInvalidValue;
    if (skips("SHIM_SKIP_WAIT", value)) {
        shim_later(s, [] {});
        return cudaSuccess;
    }
    shim_operation(s, [=]() -> ShimPoll {
        return [=] {
            const uint32_t is = word(at)->load();
            const bool good = flags == EQUAL ? is == value : (int32_t)(is - value) >= 0;
            return good ? SHIM_DONE : SHIM_PEERS;
        };
    });
    return cudaSuccess;
}

static int write_value(cudaStream_t s, unsigned long long at, uint32_t value, unsigned flags)
{
    const int e = refused(s, at);
    if (e || flags)
        return e ? e : cudaErrorInvalidValue;
    const bool skip = skips("SHIM_SKIP_WRITE", value);
    shim_later(s, [=] {
        if (!skip)
            word(at)->store(value);
    });
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    static const struct {
        const char *name;
        int (*function)(cudaStream_t, unsigned long long, uint32_t, unsigned);
    } all[] = {{"cuStreamWaitValue32", wait_value}, {"cuStreamWriteValue32", write_value}};
    if (flags != cudaEnableDefault)
        return cudaErrorInvalidValue;
    *function = NULL;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (const auto &one : all)
        if (!strcmp(one.name, name) && !getenv("SHIM_NO_WORDS")) {
            *function = (void *)one.function;
            *found = cudaDriverEntryPointSuccess;
        }
    return cudaSuccess;
}
