/* control.cc - branches, ends, barriers and fences. */
#include "tests/ptx/lanes.h"

namespace ptx
{

static void run_nothing(Warp &, const Op &)
{
}

static bool branch(Decoder &d, Op &o)
{
    if (d.now->words[0] == "bra") {
        d.expect(d.now->operands.size() == 1);
        o.kind = Op::BRANCH;
    } else {
        d.expect(d.now->has("idx") && d.now->operands.size() == 2);
        o.kind = Op::BRANCH_INDEX;
        o.a = d.read(d.operand(0), 4);
    }
    return true;
}

/* bar.red: the predicate of the last operand; see reduce in schedule.cc. */
static void reduction(Decoder &d, Op &o)
{
    const size_t n = d.now->operands.size();
    Operand p = d.operand(n - 1);
    o.how = d.now->has("popc") ? 1 : d.now->has("and") ? 2 : 3;
    d.expect(n >= 3 && (o.how != 3 || d.now->has("or")));
    o.space = p.negated;
    p.negated = false;
    o.d = d.write(d.operand(0), o.how == 1 ? 4 : 1);
    o.c = d.predicate(p);
    o.a = d.read(d.operand(1), 4);
    if (n == 4)
        o.b = d.read(d.operand(2), 4);
}

static bool barrier(Decoder &d, Op &o)
{
    const bool syncs = d.now->has("sync"), arrives = d.now->has("arrive");
    for (size_t i = 1; i < d.now->words.size(); i++) {
        const std::string &w = d.now->words[i];
        d.expect(w == "sync" || w == "arrive" || w == "aligned" || w == "cta" || w == "warp" ||
                 w == "red" || w == "popc" || w == "and" || w == "or" || w == "pred" || w == "u32");
    }
    if (d.now->has("warp")) {
        d.expect(syncs && d.now->operands.size() == 1);
        o.kind = Op::MEET;
        o.anywhere = true;
        o.run = run_nothing;
        o.mask = d.read(d.operand(0), 4);
        return true;
    }
    o.kind = arrives ? Op::ARRIVE : Op::BARRIER;
    if (d.now->has("red")) {
        reduction(d, o);
        return true;
    }
    d.expect(syncs || arrives);
    o.a = d.read(d.operand(0), 4);
    if (d.now->operands.size() > 1)
        o.b = d.read(d.operand(1), 4);
    d.expect(o.b != NO_SLOT || !arrives);
    return true;
}

static void run_proxy_fence(Warp &w, const Op &)
{
    each_lane(w.active, [&](int lane) { w.block->shared.fence(w.thread(lane)); });
}

/* One thread runs at a time, so that there is nothing to order but the proxies. */
static bool fence(Decoder &d, Op &o)
{
    o.run = run_nothing;
    if (d.now->words[0] == "fence" && d.now->has("proxy")) {
        d.expect(d.now->has("async") &&
                 (d.now->words.size() == 3 || d.now->words[3] == "shared::cta" ||
                  d.now->words[3] == "global"));
        if (d.now->words.size() == 3 || d.now->words[3] == "shared::cta")
            o.run = run_proxy_fence;
    }
    return true;
}

static void run_trap(Warp &, const Op &)
{
    throw Fault("the kernel traps");
}

static void run_set_registers(Warp &w, const Op &)
{
    if (w.active != ALL_LANES)
        throw Fault("not all lanes of the warp set how many registers it has");
}

bool control_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    if (name == "bra" || name == "brx")
        return branch(d, o);
    if (name == "ret" || name == "exit") {
        o.kind = Op::EXIT;
        return true;
    }
    if (name == "bar" || name == "barrier")
        return barrier(d, o);
    if (name == "membar" || name == "fence")
        return fence(d, o);
    if (name == "trap") {
        o.run = run_trap;
        return true;
    }
    if (name == "nanosleep") {
        o.kind = Op::POLL;
        o.run = [](Warp &w, const Op &) { w.polls = true; };
        return true;
    }
    if (name == "setmaxnreg") {
        const uint64_t n = d.operand(0).number;
        d.expect(d.operand(0).kind == Operand::INTEGER && n >= 24 && n <= 256 && n % 8 == 0);
        o.run = run_set_registers;
        o.kind = Op::MEET;
        return true;
    }
    return false;
}

} // namespace ptx
