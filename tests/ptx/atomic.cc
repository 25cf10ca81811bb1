/* atomic.cc - atom and red, in global and shared memory. */
#include "tests/ptx/lanes.h"

#include <string.h>

namespace ptx
{
namespace
{

enum How : uint8_t { ADD, LEAST, GREATEST, EXCHANGE, SWAP, INCREASE, DECREASE, NUMBERS };
enum { AND = NUMBERS, OR, XOR, NONE };

template <class T> struct Number {
    static T of(uint8_t how, T x, T b, T c)
    {
        switch (how) {
        case ADD:
            return x + b;
        case LEAST:
            return b < x ? b : x;
        case GREATEST:
            return b > x ? b : x;
        case SWAP:
            return x == b ? c : x;
        case INCREASE:
            return x >= b ? 0 : x + 1;
        case DECREASE:
            return x == 0 || x > b ? b : x - 1;
        default:
            return b;
        }
    }
};
template <class T> struct Bits {
    static T of(uint8_t how, T x, T b, T c)
    {
        return how == AND    ? x & b
               : how == OR   ? x | b
               : how == XOR  ? x ^ b
               : how == SWAP ? (x == b ? c : x)
                             : b;
    }
};

/* Lanes come one after another, from one on that is drawn. */
template <class T, class F> void run_atomic(Warp &w, const Op &o)
{
    const unsigned first = w.block->draw(LANES);
    for (unsigned i = 0; i < LANES; i++) {
        const int lane = (int)((i + first) % LANES);
        if (!(w.active >> lane & 1))
            continue;
        const uint64_t at = address_of(w, o, o.a, o.count, lane);
        T x, y;
        memcpy(&x, memory_at(w, lane, (Space)o.space, at, sizeof x, READ), sizeof x);
        y = F::of(o.how, x, w.at<T>(o.b)[lane], o.c == NO_SLOT ? T() : w.at<T>(o.c)[lane]);
        memcpy(memory_at(w, lane, (Space)o.space, at, sizeof y, WRITE), &y, sizeof y);
        if (o.d != NO_SLOT)
            w.at<T>(o.d)[lane] = x;
    }
}

static bool does_not_matter(const std::string &w)
{
    static const char *const all[] = {"relaxed", "acquire", "release",    "acq_rel",
                                      "cta",     "gpu",     "sys",        "cluster",
                                      "global",  "shared",  "shared::cta"};
    for (const char *x : all)
        if (w == x)
            return true;
    return false;
}

static uint8_t how_of(const Decoder &d)
{
    static const struct {
        const char *name;
        uint8_t how;
    } all[] = {{"add", ADD},  {"min", LEAST},    {"max", GREATEST}, {"exch", EXCHANGE},
               {"cas", SWAP}, {"inc", INCREASE}, {"dec", DECREASE}, {"and", AND},
               {"or", OR},    {"xor", XOR}};
    uint8_t how = NONE;
    for (size_t i = 1; i + 1 < d.now->words.size(); i++) {
        bool is = does_not_matter(d.now->words[i]);
        for (const auto &one : all)
            if (d.now->words[i] == one.name && how == NONE) {
                how = one.how;
                is = true;
            }
        d.expect(is);
    }
    d.expect(how != NONE);
    return how;
}

} // namespace

bool atomic_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0], &t = d.now->words.back();
    if (name != "atom" && name != "red")
        return false;
    const size_t first = name == "atom";
    const unsigned bytes = type_bytes(t);
    o.how = how_of(d);
    const bool bits = t[0] == 'b', floats = t[0] == 'f';
    d.expect(bits == (o.how >= NUMBERS || o.how == EXCHANGE || o.how == SWAP));
    d.expect(!floats || o.how == ADD);
    d.expect((o.how != INCREASE && o.how != DECREASE) || t == "u32");
    o.run = t == "u32"   ? run_atomic<uint32_t, Number<uint32_t>>
            : t == "s32" ? (o.how == ADD ? run_atomic<uint32_t, Number<uint32_t>>
                                         : run_atomic<int32_t, Number<int32_t>>)
            : t == "u64" ? run_atomic<uint64_t, Number<uint64_t>>
            : t == "s64" ? (o.how == ADD ? run_atomic<uint64_t, Number<uint64_t>>
                                         : run_atomic<int64_t, Number<int64_t>>)
            : t == "f32" ? run_atomic<float, Number<float>>
            : t == "f64" ? run_atomic<double, Number<double>>
            : t == "b32" ? run_atomic<uint32_t, Bits<uint32_t>>
            : t == "b64" ? run_atomic<uint64_t, Bits<uint64_t>>
                         : nullptr;
    d.expect(o.run != nullptr && d.now->operands.size() == first + 2 + (o.how == SWAP));
    if (first)
        o.d = d.write(d.operand(0), bytes);
    d.address(o, d.operand(first));
    o.space = d.space();
    o.b = d.read(d.operand(first + 1), bytes);
    if (o.how == SWAP)
        o.c = d.read(d.operand(first + 2), bytes);
    return true;
}

} // namespace ptx
