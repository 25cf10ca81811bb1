/* memory.cc - where calls read and write: within one allocation that lives, at the multiples that
 * their kernels need, and within one buffer of the plan that lives in their action. */
#include "tests/record/check/check.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace check
{

void Memory::allocate(const Line &l, bool pinned)
{
    const uint64_t at = l.u(0), bytes = l.u(1);
    blocks[at] = Block{at, bytes, pinned, true, 0};
    if (pinned)
        return;
    now += bytes;
    most = now > most ? now : most;
    if (bytes == arena_bytes && !arena)
        arena = at;
}

const Memory::Block *Memory::free(const Line &l)
{
    auto b = blocks.find(l.u(0));
    if (!l.u(0))
        return nullptr;
    if (b == blocks.end() || !b->second.live) {
        found("lifetime", l.number, l.action, "%s of memory that is not allocated", l.word.c_str());
        return nullptr;
    }
    if (b->second.pinned != (l.word == "unpin"))
        found("lifetime", l.number, l.action, "%s of memory of the other kind", l.word.c_str());
    b->second.live = false;
    b->second.freed = l.number;
    if (!b->second.pinned)
        now -= b->second.bytes;
    return &b->second;
}

const Memory::Block *Memory::block_of(uint64_t at) const
{
    auto b = blocks.upper_bound(at);
    if (b == blocks.begin())
        return nullptr;
    --b;
    return at < b->second.at + b->second.bytes ? &b->second : nullptr;
}

/* The file of mgc --memory: id,lower,upper,size,offset. */
void Memory::read_buffers(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    if (!f) {
        fprintf(stderr, "record-check: cannot read %s\n", path);
        exit(2);
    }
    while (fgets(line, sizeof line, f)) {
        char *number = line;
        for (int commas = 0; number && commas < 1; commas++)
            number = strchr(number, ',');
        Buffer b;
        uint64_t bytes;
        if (!number || sscanf(number, ",%d,%d,%" SCNu64 ",%" SCNu64, &b.lower, &b.upper, &bytes,
                              &b.from) != 4)
            continue; /* the heading */
        b.name = std::string(line, (size_t)(number - line));
        b.to = b.from + bytes;
        buffers.push_back(b);
    }
    fclose(f);
}

static bool within(const Memory::Buffer &b, uint64_t from, uint64_t to)
{
    return from >= b.from && to <= b.to;
}

void Memory::check(const Call &c, bool in_step) const
{
    for (const Piece &p : c.pieces) {
        const Block *b = block_of(p.at);
        const bool whole = p.rows == 1 || p.pitch % p.multiple == 0;
        if (p.at % p.multiple || !whole)
            found("alignment", c.line, c.action,
                  "%s: %s is at %#" PRIx64 ", rows %" PRIu64 " bytes apart, and has to be at "
                  "multiples of %" PRIu64,
                  c.what.c_str(), p.name, p.at, p.rows > 1 ? p.pitch : 0, p.multiple);
        if (c.host && !b)
            continue; /* the host's own memory */
        if (!b || p.end() > b->at + b->bytes || p.end() < p.at) {
            found("bounds", c.line, c.action,
                  "%s: %s, %" PRIu64 " bytes from %#" PRIx64 " on, is not within an allocation",
                  c.what.c_str(), p.name, p.end() - p.at, p.at);
            continue;
        }
        if (!b->live) {
            found("lifetime", c.line, c.action, "%s: %s was freed at line %ld", c.what.c_str(),
                  p.name, b->freed);
            continue;
        }
        if (!in_step || b->at != arena || buffers.empty())
            continue;
        const uint64_t from = p.at - arena, to = p.end() - arena;
        bool good = false;
        for (const Buffer &buffer : buffers)
            good |= within(buffer, from, to) &&
                    (c.action < 0 || (c.action >= buffer.lower && c.action < buffer.upper));
        if (!good)
            found("buffer", c.line, c.action,
                  "%s: %s, bytes %" PRIu64 " to %" PRIu64
                  " of the arena, is in no buffer that lives in this action",
                  c.what.c_str(), p.name, from, to);
    }
}

} // namespace check
