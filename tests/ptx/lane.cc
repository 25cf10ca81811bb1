/* lane.cc - what lanes of a warp tell each other: shfl, vote, match, redux, activemask, elect. */
#include "tests/ptx/functions.h"
#include "tests/ptx/lanes.h"

namespace ptx
{
namespace
{

/* ---- shfl --------------------------------------------------------------------------------- */

enum Mode : uint8_t { UP, DOWN, BUTTERFLY, INDEX };

/* The lane that a lane reads, and whether it is one of its segment; PTX ISA, "shfl.sync". */
static int source(uint8_t mode, int lane, unsigned b, unsigned c, bool *within)
{
    const int value = (int)(b & 31), clamp = (int)(c & 31), segment = (int)(c >> 8 & 31);
    const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int from = lane;
    switch ((Mode)mode) {
    case UP:
        from = lane - value;
        *within = from >= most;
        break;
    case DOWN:
        from = lane + value;
        *within = from <= most;
        break;
    case BUTTERFLY:
        from = lane ^ value;
        *within = from <= most;
        break;
    case INDEX:
        from = least | (value & ~segment);
        *within = from <= most;
        break;
    }
    return *within ? from : lane;
}

/* Of a lane that does not take part it gets something that is no number. */
static void run_shuffle(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d), all[LANES];
    const uint32_t *a = w.at<uint32_t>(o.a), *b = w.at<uint32_t>(o.b), *c = w.at<uint32_t>(o.c);
    unsigned p = 0;
    each_lane(w.active, [&](int lane) {
        bool within = false;
        const int from = source(o.how, lane, b[lane], c[lane], &within);
        all[lane] = w.active >> from & 1 ? a[from] : 0xffffffff;
        p |= (unsigned)within << lane;
    });
    each_lane(w.active, [&](int lane) { d[lane] = all[lane]; });
    if (o.e != NO_SLOT) {
        unsigned &to = *w.at<unsigned>(o.e);
        to = (to & ~w.active) | p;
    }
}

static bool shuffle(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    d.expect(words.size() == 4 && words[1] == "sync" && words[3] == "b32" &&
             d.now->operands.size() == 5);
    o.kind = Op::MEET;
    o.run = run_shuffle;
    d.expect(words[2] == "up" || words[2] == "down" || words[2] == "bfly" || words[2] == "idx");
    o.how = words[2] == "up"     ? UP
            : words[2] == "down" ? DOWN
            : words[2] == "bfly" ? BUTTERFLY
                                 : INDEX;
    const Operand &to = d.operand(0);
    o.d = d.write(to.kind == Operand::PAIR ? to.parts[0] : to, 4);
    if (to.kind == Operand::PAIR)
        o.e = d.write(to.parts[1], 1);
    o.a = d.read(d.operand(1), 4);
    o.b = d.read(d.operand(2), 4);
    o.c = d.read(d.operand(3), 4);
    o.mask = d.read(d.operand(4), 4);
    return true;
}

/* ---- vote --------------------------------------------------------------------------------- */

static void put(Warp &w, Slot s, bool x)
{
    unsigned &d = *w.at<unsigned>(s);
    d = x ? d | w.active : d & ~w.active;
}

/* how: 0: ballot, 1: all, 2: any, 3: all the same. */
static void run_vote(Warp &w, const Op &o)
{
    const unsigned a = *w.at<unsigned>(o.a), p = (o.space ? ~a : a) & w.active;
    if (o.how == 0)
        each_lane(w.active, [&](int lane) { w.at<unsigned>(o.d)[lane] = p; });
    else
        put(w, o.d, o.how == 1 ? p == w.active : o.how == 2 ? p != 0 : p == 0 || p == w.active);
}

static bool vote(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    d.expect(words.size() == 4 && words[1] == "sync" && d.now->operands.size() == 3);
    const std::string &what = words[2];
    d.expect(what == "ballot" || what == "all" || what == "any" || what == "uni");
    o.how = what == "ballot" ? 0 : what == "all" ? 1 : what == "any" ? 2 : 3;
    o.kind = Op::MEET;
    o.run = run_vote;
    Operand p = d.operand(1);
    o.space = p.negated;
    p.negated = false;
    o.d = d.write(d.operand(0), o.how ? 1 : 4);
    o.a = d.predicate(p);
    o.mask = d.read(d.operand(2), 4);
    return true;
}

/* ---- match -------------------------------------------------------------------------------- */

template <class T> void run_match_any(Warp &w, const Op &o)
{
    const T *a = w.at<T>(o.a);
    uint32_t all[LANES];
    each_lane(w.active, [&](int lane) {
        all[lane] = 0;
        each_lane(w.active, [&](int k) { all[lane] |= (unsigned)(a[k] == a[lane]) << k; });
    });
    each_lane(w.active, [&](int lane) { w.at<uint32_t>(o.d)[lane] = all[lane]; });
}
template <class T> void run_match_all(Warp &w, const Op &o)
{
    const T *a = w.at<T>(o.a), first = a[__builtin_ctz(w.active)];
    bool same = true;
    each_lane(w.active, [&](int lane) { same &= a[lane] == first; });
    each_lane(w.active, [&](int lane) { w.at<uint32_t>(o.d)[lane] = same ? w.active : 0; });
    if (o.e != NO_SLOT)
        put(w, o.e, same);
}

static bool match(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    d.expect(words.size() == 4 && words[2] == "sync" && (words[1] == "any" || words[1] == "all"));
    const bool any = words[1] == "any", is_long = words[3] == "b64";
    d.expect(is_long || words[3] == "b32");
    o.kind = Op::MEET;
    o.run = any ? (is_long ? run_match_any<uint64_t> : run_match_any<uint32_t>)
                : (is_long ? run_match_all<uint64_t> : run_match_all<uint32_t>);
    const Operand &to = d.operand(0);
    o.d = d.write(to.kind == Operand::PAIR ? to.parts[0] : to, 4);
    if (to.kind == Operand::PAIR)
        o.e = d.write(to.parts[1], 1);
    o.a = d.read(d.operand(1), is_long ? 8 : 4);
    o.mask = d.read(d.operand(2), 4);
    return true;
}

/* ---- redux -------------------------------------------------------------------------------- */

template <class T, class F> void run_reduce(Warp &w, const Op &o)
{
    const int first = __builtin_ctz(w.active);
    T x = w.at<T>(o.a)[first];
    each_lane(w.active & (w.active - 1), [&](int lane) { x = F::of(x, w.at<T>(o.a)[lane]); });
    each_lane(w.active, [&](int lane) { w.at<T>(o.d)[lane] = x; });
}

static bool redux(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    d.expect(words.size() == 4 && words[1] == "sync");
    const std::string &f = words[2], &t = words[3];
    const bool is_signed = t == "s32";
    d.expect(t == "u32" || t == "s32" || t == "b32");
    o.kind = Op::MEET;
    o.run = f == "add"   ? run_reduce<uint32_t, Add>
            : f == "and" ? run_reduce<uint32_t, And>
            : f == "or"  ? run_reduce<uint32_t, Or>
            : f == "xor" ? run_reduce<uint32_t, Xor>
            : f == "min" ? (is_signed ? run_reduce<int32_t, Least> : run_reduce<uint32_t, Least>)
            : f == "max"
                ? (is_signed ? run_reduce<int32_t, Greatest> : run_reduce<uint32_t, Greatest>)
                : nullptr;
    d.expect(o.run != nullptr);
    o.d = d.write(d.operand(0), 4);
    o.a = d.read(d.operand(1), 4);
    o.mask = d.read(d.operand(2), 4);
    return true;
}

/* ---- others ------------------------------------------------------------------------------- */

static void run_active(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) { w.at<uint32_t>(o.d)[lane] = w.active; });
}
static void run_elect(Warp &w, const Op &o)
{
    const int leader = __builtin_ctz(w.active);
    unsigned &p = *w.at<unsigned>(o.e);
    p = (p & ~w.active) | 1u << leader;
    each_lane(w.active, [&](int lane) { w.at<uint32_t>(o.d)[lane] = (uint32_t)leader; });
}

} // namespace

bool lane_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    if (name == "shfl")
        return shuffle(d, o);
    if (name == "vote")
        return vote(d, o);
    if (name == "match")
        return match(d, o);
    if (name == "redux")
        return redux(d, o);
    if (name == "activemask") {
        o.run = run_active;
        o.d = d.write(d.operand(0), 4);
        return true;
    }
    if (name == "elect") {
        d.expect(d.operand(0).kind == Operand::PAIR);
        o.kind = Op::MEET;
        o.run = run_elect;
        o.d = d.write(d.operand(0).parts[0], 4);
        o.e = d.write(d.operand(0).parts[1], 1);
        o.mask = d.read(d.operand(1), 4);
        return true;
    }
    return false;
}

} // namespace ptx
