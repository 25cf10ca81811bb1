/* copy.cc - cp.async: copies to shared memory that are done when their thread waits for their
 * group. Until then their place holds NaN, and who reads or writes it is found. */
#include "tests/ptx/lanes.h"

#include <string.h>

namespace ptx
{

/* list: the source's slot, the width of its register; bytes: of a copy; b: how many of them are
 * there, or NO_SLOT; c: a predicate that says that none is. */
static void run_copy(Warp &w, const Op &o)
{
    Block &b = *w.block;
    each_lane(w.active, [&](int lane) {
        const uint64_t to = address_of(w, o, o.a, o.count, lane);
        const uint64_t from =
            (o.list[1] == 8 ? w.at<uint64_t>(o.list[0])[lane] : w.at<uint32_t>(o.list[0])[lane]) +
            (uint64_t)(int64_t)o.list[2];
        uint32_t there = o.b == NO_SLOT ? o.bytes : w.at<uint32_t>(o.b)[lane];
        if (o.c != NO_SLOT && *w.at<unsigned>(o.c) >> lane & 1)
            there = 0;
        if (there > o.bytes)
            throw Fault("a copy of " + std::to_string(there) + " of " + std::to_string(o.bytes) +
                            " bytes",
                        lane);
        char *place = memory_at(w, lane, SHARED, to, o.bytes, WRITE);
        if (from % o.bytes)
            throw Fault("a copy of " + std::to_string(o.bytes) + " bytes from " + hex(from) +
                            ", which is no multiple of them",
                        lane);
        if (there)
            memory_at(w, lane, GLOBAL, from, 1, READ);
        if (there > 1)
            memory_at(w, lane, GLOBAL, from + there - 1, 1, READ);
        memset(place, 0xff, o.bytes);
        memset(&b.shared.flags[to], Shared::THERE | Shared::COPIED, o.bytes);
        Copies &mine = b.copies[w.thread(lane)];
        mine.open.push_back(Copy{(uint32_t)to, from, o.bytes, there, mine.group});
    });
}

static void finish(Warp &w, const Copy &c, unsigned thread)
{
    Shared &s = w.block->shared;
    memcpy(&s.bytes[c.to], (const char *)c.from, c.there);
    memset(&s.bytes[c.to] + c.there, 0, c.bytes - c.there);
    memset(&s.flags[c.to], Shared::THERE, c.bytes);
    s.note_write(c.to, c.bytes, thread);
}

/* All groups but the last n. */
static void wait_for(Warp &w, int lane, uint64_t n, bool even_open)
{
    Copies &mine = w.block->copies[w.thread(lane)];
    size_t kept = 0;
    for (const Copy &c : mine.open)
        if (!even_open && c.group + n >= mine.group)
            mine.open[kept++] = c;
        else
            finish(w, c, w.thread(lane));
    mine.open.resize(kept);
}

static void run_commit(Warp &w, const Op &)
{
    each_lane(w.active, [&](int lane) { w.block->copies[w.thread(lane)].group++; });
}
static void run_wait(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) { wait_for(w, lane, (uint64_t)o.offset, false); });
}
static void run_wait_all(Warp &w, const Op &)
{
    each_lane(w.active, [&](int lane) { wait_for(w, lane, 0, true); });
}

static bool copy(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    for (size_t i = 2; i < words.size(); i++)
        d.expect(words[i] == "ca" || words[i] == "cg" || words[i] == "shared" ||
                 words[i] == "shared::cta" || words[i] == "global" ||
                 words[i].compare(0, 4, "L2::") == 0);
    const size_t n = d.now->operands.size();
    d.expect(n >= 3 && n <= 4 && d.operand(2).kind == Operand::INTEGER);
    o.bytes = (uint8_t)d.operand(2).number;
    d.expect(o.bytes == 4 || o.bytes == 8 || o.bytes == 16);
    d.expect(!d.now->has("cg") || o.bytes == 16);
    Op from;
    d.address(from, d.operand(1));
    d.expect(from.offset == (int32_t)from.offset);
    o.list = {from.a, from.count, (Slot)from.offset};
    d.address(o, d.operand(0));
    if (n == 4) {
        const Decoder::Register r = d.any(d.operand(3), 4);
        (r.width == 1 ? o.c : o.b) = r.slot;
    }
    o.run = run_copy;
    return true;
}

bool copy_group(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    if (words[0] != "cp")
        return false;
    d.expect(words.size() >= 3 && words[1] == "async" && words[2] != "bulk");
    if (words[2] == "mbarrier")
        return false;
    if (words[2] == "commit_group") {
        o.run = run_commit;
    } else if (words[2] == "wait_all") {
        o.run = run_wait_all;
    } else if (words[2] == "wait_group") {
        d.expect(d.operand(0).kind == Operand::INTEGER);
        o.offset = (int64_t)d.operand(0).number;
        o.run = run_wait;
    } else {
        return copy(d, o);
    }
    return true;
}

} // namespace ptx
