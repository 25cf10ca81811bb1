/* memory.h - memory as PTX sees it: every access is checked for its bounds and its alignment.
 *
 * Addresses of global memory are those of the host; it has to know the ranges that are allocated.
 * Generic addresses of shared and local memory are in windows that no memory of the host is in. */
#ifndef PTX_MEMORY_H
#define PTX_MEMORY_H

#include <map>
#include <stddef.h>
#include <stdint.h>
#include <string>
#include <vector>

namespace ptx
{

struct Warp;
struct Block;
struct Op;

enum Space : uint8_t { GENERIC, GLOBAL, CONST, SHARED, LOCAL, PARAM };
const uint64_t SHARED_WINDOW = (uint64_t)1 << 60, LOCAL_WINDOW = (uint64_t)2 << 60;
/* As with sm_90: the first KiB of shared memory is the system's. */
enum : uint32_t { SHARED_FIRST = 1024 };

/* Ranges of global memory. */
struct Ranges {
    struct Cache {
        uint64_t from = 1, to = 0;
    };
    void add(const void *p, uint64_t bytes);
    void remove(const void *p);
    /* Are these bytes within one of them? */
    bool has(uint64_t at, uint64_t bytes, Cache &c) const;
    /* "16 bytes behind the end of 4096 bytes" */
    std::string near(uint64_t at) const;

    std::map<uint64_t, uint64_t> ends; /* by first byte */
    uint64_t version = 0;
};
Ranges &global_ranges();

enum Use : uint8_t { READ, WRITE };

/* Shared memory of a block with what is known of each byte. */
struct Shared {
    enum : uint8_t { THERE = 1, COPIED = 2 /* a copy to it is under way */ };
    std::vector<char> bytes;
    std::vector<uint8_t> flags;
    std::vector<uint16_t> writer;  /* thread + 1 that wrote it and has not fenced the async proxy */
    std::vector<uint16_t> readers; /* products under way that read it */
    bool asynchronous = false;     /* the latter two are kept */
    std::vector<std::vector<uint32_t>> unfenced; /* by thread: bytes that it wrote, 16 at a time */

    void clear(uint32_t end, bool async, unsigned threads);
    /* Throws Fault unless these bytes may be used so by this thread. */
    char *use(uint32_t at, unsigned n, Use use, unsigned thread, int lane);
    /* The thread's fence.proxy.async. */
    void fence(unsigned thread);
    void note_write(uint32_t at, unsigned n, unsigned thread);
};

/* The memory of an address, for a lane; throws Fault. */
char *memory_at(Warp &w, int lane, Space space, uint64_t address, unsigned bytes, Use use);

std::string hex(uint64_t x);

} // namespace ptx

#endif
