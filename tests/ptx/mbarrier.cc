/* mbarrier.cc - barriers in shared memory. Their words are of the system: what is in them is kept
 * aside. cp.async.bulk, which completes bytes of them, is not known yet. */
#include "tests/ptx/lanes.h"

namespace ptx
{

static uint32_t place(Warp &w, const Op &o, int lane)
{
    uint64_t at = address_of(w, o, o.a, o.count, lane);
    if (o.space == GENERIC && at >= SHARED_WINDOW && at < LOCAL_WINDOW)
        at -= SHARED_WINDOW;
    memory_at(w, lane, SHARED, at, 8, READ);
    return (uint32_t)at;
}

static Mbarrier &barrier_at(Warp &w, const Op &o, int lane)
{
    auto found = w.block->mbarriers.find(place(w, o, lane));
    if (found == w.block->mbarriers.end())
        throw Fault("there is no barrier at this place: nobody initialised it", lane);
    return found->second;
}

static void run_init(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) {
        const uint32_t n = w.at<uint32_t>(o.b)[lane];
        if (n < 1 || n >= 1 << 20)
            throw Fault("a barrier for " + std::to_string(n) + " arrivals", lane);
        Mbarrier m;
        m.count = m.pending = n;
        w.block->mbarriers[place(w, o, lane)] = m;
    });
}
static void run_end(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) {
        barrier_at(w, o, lane);
        w.block->mbarriers.erase(place(w, o, lane));
    });
}

/* b: how many arrivals, or NO_SLOT; d: the state before, or NO_SLOT: its lowest bit is the phase.
 */
static void run_arrive(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) {
        Mbarrier &m = barrier_at(w, o, lane);
        const uint32_t n = o.b == NO_SLOT ? 1 : w.at<uint32_t>(o.b)[lane];
        if (n > m.pending)
            throw Fault("more arrivals at a barrier than it is for", lane);
        if (o.d != NO_SLOT)
            w.at<uint64_t>(o.d)[lane] = m.phase;
        m.pending -= n;
        if (!m.pending) {
            m.pending = m.count;
            m.phase++;
        }
    });
}

/* d: is the phase over? how: 1: b is its parity, else its state; 2: others should run if it is
 * not. */
static void run_test(Warp &w, const Op &o)
{
    unsigned over = 0;
    each_lane(w.active, [&](int lane) {
        const Mbarrier &m = barrier_at(w, o, lane);
        const uint64_t of = o.how & 1 ? w.at<uint32_t>(o.b)[lane] & 1 : w.at<uint64_t>(o.b)[lane];
        over |= (unsigned)(o.how & 1 ? (m.phase & 1) != of : m.phase != of) << lane;
    });
    unsigned &p = *w.at<unsigned>(o.d);
    p = (p & ~w.active) | over;
    w.polls = over != w.active;
}

bool mbarrier_group(Decoder &d, Op &o)
{
    const std::vector<std::string> &w = d.now->words;
    if (w[0] != "mbarrier")
        return false;
    d.expect(w.size() >= 3);
    for (size_t i = 2; i < w.size(); i++)
        d.expect(w[i] == "shared" || w[i] == "shared::cta" || w[i] == "b64" || w[i] == "parity" ||
                 w[i] == "release" || w[i] == "acquire" || w[i] == "cta");
    const size_t n = d.now->operands.size();
    o.space = d.space();
    d.expect(o.space == SHARED || o.space == GENERIC);
    if (w[1] == "init" || w[1] == "inval") {
        d.address(o, d.operand(0));
        if (w[1] == "init")
            o.b = d.read(d.operand(1), 4);
        o.run = w[1] == "init" ? run_init : run_end;
    } else if (w[1] == "arrive") {
        d.address(o, d.operand(1));
        o.d = d.write(d.operand(0), 8);
        if (n > 2)
            o.b = d.read(d.operand(2), 4);
        o.run = run_arrive;
    } else {
        d.expect(w[1] == "test_wait" || w[1] == "try_wait");
        o.how = d.now->has("parity");
        o.d = d.write(d.operand(0), 1);
        d.address(o, d.operand(1));
        o.b = d.read(d.operand(2), o.how ? 4 : 8);
        o.kind = Op::POLL;
        o.run = run_test;
    }
    return true;
}

} // namespace ptx
