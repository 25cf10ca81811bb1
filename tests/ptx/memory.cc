/* memory.cc - checks of every access. */
#include "tests/ptx/machine.h"

#include <stdio.h>
#include <string.h>

namespace ptx
{

std::string hex(uint64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)x);
    return text;
}

/* ---- global ------------------------------------------------------------------------------- */

Ranges &global_ranges()
{
    static Ranges &ranges = *new Ranges; /* memory is freed after main() too */
    return ranges;
}

void Ranges::add(const void *p, uint64_t bytes)
{
    ends[(uint64_t)p] = (uint64_t)p + bytes;
    version++;
}

void Ranges::remove(const void *p)
{
    ends.erase((uint64_t)p);
    version++;
}

bool Ranges::has(uint64_t at, uint64_t bytes, Cache &c) const
{
    if (at >= c.from && at + bytes <= c.to && at + bytes > at)
        return true;
    auto after = ends.upper_bound(at);
    if (after == ends.begin())
        return false;
    --after;
    c.from = after->first;
    c.to = after->second;
    return at + bytes <= c.to && at + bytes > at;
}

std::string Ranges::near(uint64_t at) const
{
    auto after = ends.upper_bound(at);
    std::string s = "in no allocation";
    if (after != ends.begin()) {
        auto before = after;
        --before;
        s += ", " + std::to_string(at - before->second) + " bytes behind the end of " +
             std::to_string(before->second - before->first) + " bytes";
    }
    if (after != ends.end())
        s += ", " + std::to_string(after->first - at) + " bytes before " +
             std::to_string(after->second - after->first) + " bytes";
    return s;
}

/* ---- shared ------------------------------------------------------------------------------- */

void Shared::clear(uint32_t end, bool async, unsigned threads)
{
    bytes.assign(end, (char)0xff);
    flags.assign(end, 0);
    asynchronous = async;
    if (async) {
        writer.assign(end, 0);
        readers.assign(end, 0);
        unfenced.assign(threads, std::vector<uint32_t>());
    }
}

void Shared::note_write(uint32_t at, unsigned n, unsigned thread)
{
    if (!asynchronous)
        return;
    for (uint32_t i = at; i < at + n; i++)
        writer[i] = (uint16_t)(thread + 1);
    unfenced[thread].push_back(at);
    if (at / 16 != (at + n - 1) / 16)
        unfenced[thread].push_back(at + n - 1);
}

void Shared::fence(unsigned thread)
{
    if (!asynchronous)
        return;
    for (uint32_t at : unfenced[thread])
        for (uint32_t i = at & ~15u; i < (at & ~15u) + 16 && i < writer.size(); i++)
            if (writer[i] == thread + 1)
                writer[i] = 0;
    unfenced[thread].clear();
}

static void shared_wrong(const Shared &s, uint32_t at, unsigned n, Use use, int lane)
{
    for (uint64_t i = at; i < (uint64_t)at + n; i++) {
        if (i >= s.flags.size() || !(s.flags[i] & Shared::THERE))
            throw Fault("shared memory at " + hex(at) + ", " + std::to_string(n) +
                            " bytes, is beside what the kernel has",
                        lane);
        if (s.flags[i] & Shared::COPIED)
            throw Fault(std::string("shared memory at ") + hex(at) +
                            (use == READ ? " is read" : " is written") +
                            " while a copy to it is under way: nobody waited for it",
                        lane);
        if (use == WRITE && s.asynchronous && s.readers[i])
            throw Fault("shared memory at " + hex(at) +
                            " is written while a product of a warpgroup reads it",
                        lane);
    }
}

char *Shared::use(uint32_t at, unsigned n, Use use, unsigned thread, int lane)
{
    bool fine = (uint64_t)at + n <= flags.size();
    for (unsigned i = 0; fine && i < n; i++)
        fine = flags[at + i] == THERE && !(asynchronous && use == WRITE && readers[at + i]);
    if (!fine)
        shared_wrong(*this, at, n, use, lane);
    if (use == WRITE)
        note_write(at, n, thread);
    return &bytes[at];
}

/* ---- all ---------------------------------------------------------------------------------- */

static char *local_at(Warp &w, int lane, uint64_t address, unsigned bytes)
{
    Block &b = *w.block;
    if (address + bytes > b.kernel->local_bytes || address + bytes < bytes)
        throw Fault("local memory at " + hex(address) + ", " + std::to_string(bytes) +
                        " bytes, of " + std::to_string(b.kernel->local_bytes),
                    lane);
    return &b.local[(size_t)w.thread(lane) * b.kernel->local_bytes + address];
}

char *memory_at(Warp &w, int lane, Space space, uint64_t address, unsigned bytes, Use use)
{
    Block &b = *w.block;
    if (address % bytes)
        throw Fault("an access of " + std::to_string(bytes) + " bytes at " + hex(address) +
                        ", which is no multiple of them",
                    lane);
    if (space == GENERIC && address >= SHARED_WINDOW) {
        space = address >= LOCAL_WINDOW ? LOCAL : SHARED;
        address -= space == LOCAL ? LOCAL_WINDOW : SHARED_WINDOW;
    }
    if (space == SHARED) {
        if (address > UINT32_MAX)
            throw Fault(hex(address) + " is no address of shared memory", lane);
        return b.shared.use((uint32_t)address, bytes, use, w.thread(lane), lane);
    }
    if (space == LOCAL)
        return local_at(w, lane, address, bytes);
    if (!global_ranges().has(address, bytes, b.near))
        throw Fault(std::string(use == READ ? "a read" : "a write") + " of " +
                        std::to_string(bytes) + " bytes at " + hex(address) + ", " +
                        global_ranges().near(address),
                    lane);
    return (char *)address;
}

} // namespace ptx
