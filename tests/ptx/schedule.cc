/* schedule.cc - runs a block: warps in an order that the seed says, each until all its lanes wait
 * or have ended.
 *
 * Of a warp the lanes at the least place run together until they diverge or come to where others
 * are, so lanes that diverged meet again. Now and then only some lanes are let run, as the seed
 * says, and the others follow when those wait: a kernel that takes for granted that its warp runs
 * in step computes something else then. */
#include "tests/ptx/machine.h"

#include <string.h>

namespace ptx
{

enum : uint64_t {
    SLICE = 1 << 20,               /* instructions of a warp until another gets its turn */
    STEPS_MAX = (uint64_t)1 << 32, /* of a block */
    VAIN_MAX = 1000                /* rounds in which all only ask */
};

static uint64_t all_instructions;

uint64_t instructions()
{
    return all_instructions;
}

static unsigned lanes_of(const Warp &w, State s)
{
    unsigned m = 0;
    for (int lane = 0; lane < LANES; lane++)
        m |= (unsigned)(w.state[lane] == s) << lane;
    return m & w.exists;
}

static void set_pc(Warp &w, unsigned lanes, uint32_t pc)
{
    for (unsigned m = lanes; m; m &= m - 1)
        w.pc[__builtin_ctz(m)] = pc;
}

static void set_state(Warp &w, unsigned lanes, State s)
{
    for (unsigned m = lanes; m; m &= m - 1)
        w.state[__builtin_ctz(m)] = s;
}

/* ---- lanes that meet ---------------------------------------------------------------------- */

static unsigned mask_of(Warp &w, const Op &o, int lane)
{
    return (o.mask == NO_SLOT ? ALL_LANES : w.at<unsigned>(o.mask)[lane]) & w.exists;
}

/* Of those that wait where `lane` does, with its mask. */
static unsigned same_meeting(Warp &w, const Op &o, int lane, unsigned mask)
{
    unsigned there = 0;
    for (unsigned m = lanes_of(w, AT_MEETING); m; m &= m - 1) {
        const int k = __builtin_ctz(m);
        const Op &other = w.block->kernel->code[w.pc[k]];
        const bool same = w.pc[k] == w.pc[lane] || (o.anywhere && other.anywhere);
        if (same && mask_of(w, other, k) == mask)
            there |= 1u << k;
    }
    return there;
}

/* The lanes m come to a meeting at pc; if all are there it takes place. */
static void meet(Warp &w, const Op &o, unsigned m, uint32_t pc)
{
    set_pc(w, m, pc);
    set_state(w, m, AT_MEETING);
    for (unsigned left = m; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        if (w.state[lane] != AT_MEETING)
            continue;
        const unsigned mask = mask_of(w, o, lane);
        if (!(mask >> lane & 1))
            throw Fault("a lane is not in the mask that it gives", lane);
        if (same_meeting(w, o, lane, mask) != mask)
            continue;
        w.active = mask;
        if (o.watched)
            note_written(w, o);
        o.run(w, o);
        for (unsigned k = mask; k; k &= k - 1)
            w.pc[__builtin_ctz(k)]++;
        set_state(w, mask, READY);
    }
}

/* ---- barriers of the block ---------------------------------------------------------------- */

static bool waits_at(const Warp &w, int lane, int which)
{
    return w.state[lane] == AT_BARRIER && w.barrier[lane] == which;
}

/* bar.red: over the predicates of all that wait: 1: how many are true, 2: all are, 3: any is. */
static void reduce(Block &b, int which)
{
    unsigned trues = 0, count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (Warp &w : b.warps)
            for (int lane = 0; lane < LANES; lane++) {
                const Op &o = b.kernel->code[w.pc[lane]];
                if (!waits_at(w, lane, which) || !o.how)
                    continue;
                const unsigned bit = 1u << lane;
                if (pass == 0) {
                    trues += ((*w.at<unsigned>(o.c) & bit) != 0) != (o.space != 0);
                    count++;
                } else if (o.how == 1) {
                    w.at<unsigned>(o.d)[lane] = trues;
                } else {
                    const bool is = o.how == 2 ? trues == count : trues > 0;
                    unsigned &d = *w.at<unsigned>(o.d);
                    d = is ? d | bit : d & ~bit;
                }
            }
}

static void release(Block &b, int which)
{
    reduce(b, which);
    for (Warp &w : b.warps) {
        int first = -1;
        for (int lane = 0; lane < LANES; lane++)
            if (waits_at(w, lane, which)) {
                first = first < 0 ? lane : first;
                if (w.pc[lane] != w.pc[first])
                    throw Fault("lanes of a warp are at different barriers", lane);
            }
        for (int lane = 0; lane < LANES; lane++)
            if (waits_at(w, lane, which)) {
                w.state[lane] = READY;
                w.pc[lane]++;
            }
    }
    b.barrier[which] = Barrier();
}

static void arrive(Warp &w, const Op &o, unsigned m, uint32_t pc)
{
    Block &b = *w.block;
    const int lane = __builtin_ctz(m);
    const unsigned which = w.at<unsigned>(o.a)[lane];
    const unsigned wanted = o.b == NO_SLOT ? b.threads : w.at<unsigned>(o.b)[lane];
    if (which >= BARRIERS)
        throw Fault("there is no barrier " + std::to_string(which), lane);
    Barrier &at = b.barrier[which];
    if (at.arrived && at.wanted != wanted)
        throw Fault("barrier " + std::to_string(which) + " is for " + std::to_string(at.wanted) +
                        " threads, and for " + std::to_string(wanted),
                    lane);
    set_pc(w, m, pc);
    if (o.kind == Op::BARRIER) {
        set_state(w, m, AT_BARRIER);
        for (unsigned k = m; k; k &= k - 1)
            w.barrier[__builtin_ctz(k)] = (int)which;
    } else {
        set_pc(w, m, pc + 1);
    }
    at.wanted = wanted;
    at.arrived += (unsigned)__builtin_popcount(m);
    if (at.arrived > wanted)
        throw Fault("more threads come to barrier " + std::to_string(which) + " than " +
                        std::to_string(wanted),
                    lane);
    if (at.arrived == wanted)
        release(b, (int)which);
}

/* ---- warps -------------------------------------------------------------------------------- */

[[noreturn]] static void say_where(const Warp &w, uint32_t pc, const Fault &f)
{
    const Block &b = *w.block;
    const Statement *s = b.kernel->code[pc].text;
    const unsigned lane =
        f.lane >= 0 ? (unsigned)f.lane : (unsigned)__builtin_ctz(w.active | 1u << 31);
    throw Fault("thread " + std::to_string(w.thread((int)lane)) + " of block (" +
                std::to_string(b.at.x) + ", " + std::to_string(b.at.y) + ", " +
                std::to_string(b.at.z) + "), line " + std::to_string(s ? s->line : 0) + ": " +
                (s ? s->text.substr(0, 160) : "the end") + " " + f.what());
}

struct Group {
    unsigned lanes;
    uint32_t pc, others; /* the least place of the others that are ready */
};

static Group pick(const Warp &w, unsigned set)
{
    Group g = {0, UINT32_MAX, UINT32_MAX};
    for (unsigned m = set & lanes_of(w, READY); m; m &= m - 1) {
        const int lane = __builtin_ctz(m);
        const uint32_t pc = w.pc[lane];
        if (pc < g.pc) {
            g.others = g.pc;
            g.pc = pc;
            g.lanes = 0;
        }
        if (pc == g.pc)
            g.lanes |= 1u << lane;
        else if (pc < g.others)
            g.others = pc;
    }
    return g;
}

static void exit_lanes(Warp &w, unsigned m)
{
    if (w.groups.open() && m)
        throw Fault("a thread ends before the products of its warpgroup are there");
    set_state(w, m, DONE);
}

/* An instruction that is no PLAIN one; true: g still runs together, from g.pc on. */
static bool control(Warp &w, const Op &o, Group &g, unsigned m)
{
    const unsigned rest = g.lanes & ~m;
    switch (o.kind) {
    case Op::BRANCH:
        if (!rest || !m) {
            g.pc = m ? o.target : g.pc + 1;
            return true;
        }
        set_pc(w, m, o.target);
        set_pc(w, rest, g.pc + 1);
        return false;
    case Op::BRANCH_INDEX:
        set_pc(w, rest, g.pc + 1);
        for (unsigned k = m; k; k &= k - 1) {
            const int lane = __builtin_ctz(k);
            const unsigned i = w.at<unsigned>(o.a)[lane];
            if (i >= o.list.size())
                throw Fault("a branch by an index beyond its targets", lane);
            w.pc[lane] = (uint32_t)o.list[i];
        }
        return false;
    case Op::EXIT:
        set_pc(w, rest, g.pc + 1);
        exit_lanes(w, m);
        return false;
    case Op::MEET:
        if (!rest && m == mask_of(w, o, __builtin_ctz(m))) {
            w.active = m;
            if (o.watched)
                note_written(w, o);
            o.run(w, o);
            g.pc++;
            return true;
        }
        set_pc(w, rest, g.pc + 1);
        meet(w, o, m, g.pc);
        return false;
    case Op::BARRIER:
    case Op::ARRIVE:
        set_pc(w, rest, g.pc + 1);
        if (m)
            arrive(w, o, m, g.pc);
        return false;
    case Op::POLL:
        w.active = m;
        if (m)
            o.run(w, o);
        set_pc(w, g.lanes, ++g.pc);
        return !w.polls;
    case Op::PLAIN:
        break;
    }
    return false;
}

static inline unsigned guarded(Warp &w, const Op &o, unsigned lanes)
{
    if (o.guard == NO_SLOT)
        return lanes;
    const unsigned p = *w.at<unsigned>(o.guard);
    return lanes & (o.guard_not ? ~p : p);
}

/* Runs the group until it diverges, waits, or comes to where others are. */
static void run_together(Warp &w, Group g, uint64_t &left)
{
    const Op *code = w.block->kernel->code.data();
    try {
        while (g.pc < g.others && left) {
            const Op &o = code[g.pc];
            const unsigned m = guarded(w, o, g.lanes);
            left--;
            all_instructions += (unsigned)__builtin_popcount(m);
            if (o.kind == Op::PLAIN) {
                if (m) {
                    w.active = m;
                    if (o.watched)
                        note_written(w, o);
                    o.run(w, o);
                }
                g.pc++;
            } else if (!control(w, o, g, m)) {
                return;
            }
        }
    } catch (const Fault &f) {
        say_where(w, g.pc, f);
    }
    set_pc(w, g.lanes, g.pc);
}

/* Until nobody is ready, or the others should have a turn. */
static void run_warp(Warp &w)
{
    uint64_t left = SLICE;
    w.polls = false;
    while (unsigned ready = lanes_of(w, READY)) {
        unsigned set = w.block->draw(4) ? ready : ready & (unsigned)w.block->draw(~0u);
        set = set ? set : ready;
        for (;;) {
            const Group g = pick(w, set);
            if (!g.lanes)
                break;
            run_together(w, g, left);
            if (w.polls || !left) {
                w.block->steps += SLICE - left;
                return;
            }
        }
    }
    w.block->steps += SLICE - left;
}

/* ---- blocks ------------------------------------------------------------------------------- */

static void start(Block &b)
{
    const Kernel &k = *b.kernel;
    b.shared.clear(k.dynamic_at + b.launch->shared, k.asynchronous, b.threads);
    for (const Kernel::Place &p : k.shared)
        memset(&b.shared.flags[p.at], Shared::THERE, p.bytes);
    if (b.launch->shared)
        memset(&b.shared.flags[k.dynamic_at], Shared::THERE, b.launch->shared);
    b.local.assign((size_t)b.threads * k.local_bytes, (char)0xff);
    b.copies.assign(b.threads, Copies());
    b.mbarriers.clear();
    b.steps = 0;
    for (Barrier &at : b.barrier)
        at = Barrier();
    for (Warp &w : b.warps) {
        w.groups = Groups();
        set_pc(w, w.exists, 0);
        for (int lane = 0; lane < LANES; lane++)
            w.state[lane] = w.exists >> lane & 1 ? READY : DONE;
        set_specials(w);
    }
}

/* All warps ran as far as they could, and none is ready: done, or nobody can go on. */
static void stuck(const Block &b)
{
    unsigned waits = 0, meets = 0, done = 0;
    const Statement *at = nullptr;
    for (const Warp &w : b.warps)
        for (int lane = 0; lane < LANES; lane++) {
            if (!(w.exists >> lane & 1))
                continue;
            done += w.state[lane] == DONE;
            meets += w.state[lane] == AT_MEETING;
            waits += w.state[lane] == AT_BARRIER;
            if (w.state[lane] != DONE && (w.state[lane] == AT_MEETING || !meets))
                at = b.kernel->code[w.pc[lane]].text;
        }
    if (done == b.threads)
        return;
    const std::string where = "line " + std::to_string(at->line) + ": " + at->text + " ";
    if (meets)
        throw Fault(where + std::to_string(meets) +
                    " lanes wait for others of their warp that are elsewhere");
    throw Fault(where + std::to_string(waits) + " threads are at a barrier, " +
                std::to_string(done) + " have ended");
}

static bool any_ready(const Block &b)
{
    for (const Warp &w : b.warps)
        if (lanes_of(w, READY))
            return true;
    return false;
}

void run_block(Block &b)
{
    std::vector<size_t> order(b.warps.size());
    unsigned vain = 0;
    start(b);
    do {
        bool asked = true;
        for (size_t i = 0; i < order.size(); i++) {
            const size_t k = b.draw((unsigned)i + 1);
            order[i] = order[k];
            order[k] = i;
        }
        for (size_t i : order) {
            Warp &w = b.warps[i];
            if (!lanes_of(w, READY))
                continue;
            run_warp(w);
            asked &= w.polls;
        }
        vain = asked ? vain + 1 : 0;
        if (vain > VAIN_MAX)
            throw Fault("threads wait for a barrier in shared memory that nobody completes");
        if (b.steps > STEPS_MAX)
            throw Fault("the block does not end");
    } while (any_ready(b));
    stuck(b);
}

} // namespace ptx
