/* segment.cc - shared memory of the ranks of a communicator, found by its id. */
#include "tests/cuda_shim/segment.h"
#include "tests/cuda_shim/stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { RANKS_MAX = 1024, MAGIC = 16 };
static const char magic[MAGIC] = "shim of nccl 1";

/* The content of an id, padded with zeros. */
struct Id {
    char magic[MAGIC];
    int pid, fd;
    uint64_t nonce[2];
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId), "an id holds it");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes may share it");

struct Rank {
    enum { NOBODY, COMING, THERE };
    std::atomic<int> there;
    char gpu[120];
    std::atomic<uint64_t> notes; /* that it left */
    ShimNote note[2];            /* of even rounds and of odd ones */
};

/* The head of a segment, written by its maker. */
struct Start {
    Id id;
    uint64_t seed;
};

struct ShimSegmentMemory {
    Start start;
    std::atomic<int> ranks; /* 0: nobody has said yet */
    Rank rank[];            /* then the rings */
};

static size_t rings_at(int ranks)
{
    const size_t end = sizeof(ShimSegmentMemory) + (size_t)ranks * sizeof(Rank);
    return (end + 4095) / 4096 * 4096;
}

static size_t bytes_for(int ranks)
{
    return rings_at(ranks) + (size_t)ranks * (size_t)ranks * sizeof(ShimRing);
}

static Id read_id(const ncclUniqueId &id)
{
    Id mine;
    memcpy(&mine, id.internal, sizeof mine);
    return mine;
}

/* ---- making and finding ------------------------------------------------------------------- */

/* NCCL promises the same bits each time of rings and trees, not of sums in the links' switch. */
static uint64_t seed_of_sums()
{
    const char *may = getenv("NCCL_ALGO");
    uint64_t drawn = shim_seed();
    if (may && strstr(may, "NVLS") && getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        abort();
    return drawn;
}

bool shim_segment_make(ncclUniqueId *id)
{
    Start start = {};
    memcpy(start.id.magic, magic, MAGIC);
    start.id.pid = getpid();
    start.seed = seed_of_sums();
    const int fd = start.id.fd = memfd_create("shim-nccl", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    if (getrandom(start.id.nonce, sizeof start.id.nonce, 0) != (ssize_t)sizeof start.id.nonce ||
        ftruncate(fd, (off_t)sizeof(ShimSegmentMemory)) ||
        pwrite(fd, &start, sizeof start, 0) != (ssize_t)sizeof start) {
        close(fd);
        return false;
    }
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &start.id, sizeof start.id);
    return true;
}

/* Is that file the segment of the id? */
static bool is_segment(int fd, const Id &id)
{
    Id there;
    return pread(fd, &there, sizeof there, 0) == (ssize_t)sizeof there &&
           !memcmp(&there, &id, sizeof id);
}

void shim_segment_close(const ncclUniqueId &id)
{
    const Id mine = read_id(id);
    if (mine.pid == getpid() && is_segment(mine.fd, mine))
        close(mine.fd);
}

static int open_segment(const Id &id)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", id.pid, id.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && !is_segment(fd, id)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* All say how many they are before any makes room for so many. */
static bool agreed(int fd, int ranks)
{
    void *p = mmap(NULL, sizeof(ShimSegmentMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return false;
    int said = 0;
    ((ShimSegmentMemory *)p)->ranks.compare_exchange_strong(said, ranks);
    munmap(p, sizeof(ShimSegmentMemory));
    return said == 0 || said == ranks;
}

const char *ShimSegment::join(const ncclUniqueId &unique, int all, int mine, const char *gpu)
{
    const Id id = read_id(unique);
    if (memcmp(id.magic, magic, MAGIC))
        return "that is no id of ncclGetUniqueId";
    if (all < 1 || all > RANKS_MAX || mine < 0 || mine >= all)
        return "there is no such rank";
    const int fd = open_segment(id);
    if (fd < 0)
        return "the process that made the id is gone, or all ranks were there already";
    if (!agreed(fd, all)) {
        close(fd);
        return "ranks do not agree on how many they are";
    }
    void *p = ftruncate(fd, (off_t)bytes_for(all))
                  ? MAP_FAILED
                  : mmap(NULL, bytes_for(all), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return "there is no memory to share";
    memory = (ShimSegmentMemory *)p;
    bytes = bytes_for(all);
    ranks = all;
    rank = mine;
    int nobody = Rank::NOBODY;
    Rank *r = &memory->rank[rank];
    if (!r->there.compare_exchange_strong(nobody, Rank::COMING))
        return "that rank is there already";
    snprintf(r->gpu, sizeof r->gpu, "%s", gpu);
    r->there.store(Rank::THERE);
    return NULL;
}

ShimSegment::~ShimSegment()
{
    if (memory)
        munmap(memory, bytes);
}

bool ShimSegment::full() const
{
    for (int i = 0; i < ranks; i++)
        if (memory->rank[i].there.load() != Rank::THERE)
            return false;
    return true;
}

bool ShimSegment::same_gpu(int *a, int *b) const
{
    for (*a = 0; *a < ranks; ++*a)
        for (*b = *a + 1; *b < ranks; ++*b)
            if (!strcmp(memory->rank[*a].gpu, memory->rank[*b].gpu))
                return true;
    return false;
}

uint64_t ShimSegment::seed() const
{
    return memory->start.seed;
}

unsigned ShimSegment::number() const
{
    return (unsigned)memory->start.id.nonce[0] & 0xffff;
}

/* ---- notes -------------------------------------------------------------------------------- */

void ShimSegment::leave_note(const ShimNote &note)
{
    Rank *r = &memory->rank[rank];
    const uint64_t round = r->notes.load(std::memory_order_relaxed);
    r->note[round % 2] = note;
    r->notes.store(round + 1, std::memory_order_release);
}

bool ShimSegment::all_notes() const
{
    const uint64_t mine = memory->rank[rank].notes.load(std::memory_order_relaxed);
    for (int i = 0; i < ranks; i++)
        if (memory->rank[i].notes.load(std::memory_order_acquire) < mine)
            return false;
    return true;
}

/* Nobody writes over one of this round before all, this rank too, have left one in the next. */
const ShimNote &ShimSegment::note(int of) const
{
    return memory->rank[of]
        .note[(memory->rank[rank].notes.load(std::memory_order_relaxed) - 1) % 2];
}

/* ---- rings -------------------------------------------------------------------------------- */

ShimRing *ShimSegment::ring(int from, int to) const
{
    ShimRing *rings = (ShimRing *)((char *)memory + rings_at(ranks));
    return &rings[(size_t)from * (size_t)ranks + (size_t)to];
}

size_t shim_ring_put(ShimRing *r, const char *from, size_t bytes)
{
    const uint64_t at = r->put.load(std::memory_order_relaxed);
    const size_t room = SHIM_RING - (size_t)(at - r->taken.load(std::memory_order_acquire));
    const size_t n = bytes < room ? bytes : room, i = at % SHIM_RING;
    const size_t before_end = n < SHIM_RING - i ? n : SHIM_RING - i;
    if (!n)
        return 0;
    memcpy(r->bytes + i, from, before_end);
    memcpy(r->bytes, from + before_end, n - before_end);
    r->put.store(at + n, std::memory_order_release);
    return n;
}

size_t shim_ring_take(ShimRing *r, char *to, size_t bytes)
{
    const uint64_t at = r->taken.load(std::memory_order_relaxed);
    const size_t there = (size_t)(r->put.load(std::memory_order_acquire) - at);
    const size_t n = bytes < there ? bytes : there, i = at % SHIM_RING;
    const size_t before_end = n < SHIM_RING - i ? n : SHIM_RING - i;
    if (!n)
        return 0;
    memcpy(to, r->bytes + i, before_end);
    memcpy(to + before_end, r->bytes, n - before_end);
    r->taken.store(at + n, std::memory_order_release);
    return n;
}
