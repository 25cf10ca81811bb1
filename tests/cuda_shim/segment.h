/* segment.h - memory that the ranks of a communicator share: who is there, a board on which each
 * leaves notes for all, and a ring of bytes for each ordered pair.
 *
 * It is a file without a name that the maker of the id has open; others open it through /proc, as
 * processes of the same user may. So it is gone when they are. */
#ifndef SHIM_SEGMENT_H
#define SHIM_SEGMENT_H

#include <atomic>
#include <stddef.h>
#include <stdint.h>

#include "tests/cuda_shim/include/nccl.h"

enum { SHIM_RING = 64 << 10 };

/* Bytes from one rank to another. */
struct ShimRing {
    alignas(64) std::atomic<uint64_t> put; /* since the beginning */
    alignas(64) std::atomic<uint64_t> taken;
    alignas(64) char bytes[SHIM_RING];
};

/* As many bytes as there is room for, or as there are; none is fine. */
size_t shim_ring_put(ShimRing *r, const char *from, size_t bytes);
size_t shim_ring_take(ShimRing *r, char *to, size_t bytes);

/* A rank's message when a communicator is split. */
struct ShimNote {
    int color, key;
    ncclUniqueId id; /* of a segment that it made for its part */
};

struct ShimSegmentMemory;

struct ShimSegment {
    ~ShimSegment();
    /* A place in the segment of an id; NULL, or why there is none. `gpu`: the machine and device of
     * this rank. Once. */
    const char *join(const ncclUniqueId &id, int ranks, int rank, const char *gpu);
    bool full() const; /* all are there */
    /* Once it is full: two ranks on one GPU? */
    bool same_gpu(int *a, int *b) const;
    uint64_t seed() const;   /* the maker's */
    unsigned number() const; /* some of the id, to tell communicators apart */
    ShimRing *ring(int from, int to) const;

    /* Notes are left in rounds; the next one begins when all have left one in this. */
    void leave_note(const ShimNote &note);
    bool all_notes() const;
    const ShimNote &note(int rank) const;

    ShimSegmentMemory *memory = NULL;
    size_t bytes = 0;
    int ranks = 0, rank = 0;
};

/* A new segment, which this process keeps open until it is closed; false: the system has none. */
bool shim_segment_make(ncclUniqueId *id);
/* Nobody else will join; does nothing for the id of another process. */
void shim_segment_close(const ncclUniqueId &id);

#endif
