/* integer.cc - arithmetic of integers, and logic of bits and predicates. */
#include "tests/ptx/functions.h"
#include "tests/ptx/lanes.h"

#include <type_traits>

namespace ptx
{
namespace
{

template <class T> struct wide_of;
template <> struct wide_of<uint16_t> {
    typedef uint32_t type;
};
template <> struct wide_of<int16_t> {
    typedef int32_t type;
};
template <> struct wide_of<uint32_t> {
    typedef uint64_t type;
};
template <> struct wide_of<int32_t> {
    typedef int64_t type;
};
template <> struct wide_of<uint64_t> {
    typedef unsigned __int128 type;
};
template <> struct wide_of<int64_t> {
    typedef __int128 type;
};

/* Sums and products wrap: they are computed without a sign, and wide enough. */
template <class T> T wrap(unsigned __int128 x)
{
    return (T)x;
}
struct Subtract {
    template <class T> static T of(T a, T b)
    {
        typedef typename Unsigned<T>::type U;
        return (T)((U)a - (U)b);
    }
};
struct Low {
    template <class T> static T of(T a, T b)
    {
        typedef typename Unsigned<T>::type U;
        return (T)((U)a * (U)b);
    }
    template <class T> static T of(T a, T b, T c)
    {
        return Add::of(of(a, b), c);
    }
};
struct High {
    template <class T> static T of(T a, T b)
    {
        typedef typename wide_of<T>::type W;
        return (T)((W)a * (W)b >> 8 * sizeof(T));
    }
    template <class T> static T of(T a, T b, T c)
    {
        return Add::of(of(a, b), c);
    }
};
struct Wide {
    template <class T> static typename wide_of<T>::type of(T a, T b)
    {
        typedef typename wide_of<T>::type W;
        return (W)a * (W)b;
    }
    template <class T> static typename wide_of<T>::type of(T a, T b, typename wide_of<T>::type c)
    {
        typedef typename wide_of<T>::type W;
        return Add::of((W)((W)a * (W)b), c);
    }
};
/* By 0 the machine gives any number: this one. */
struct Divide {
    template <class T> static T of(T a, T b)
    {
        if (b == 0)
            return (T)-1;
        return std::is_signed<T>::value && b == (T)-1 ? Subtract::of((T)0, a) : (T)(a / b);
    }
};
struct Remainder {
    template <class T> static T of(T a, T b)
    {
        if (b == 0)
            return a;
        return std::is_signed<T>::value && b == (T)-1 ? (T)0 : (T)(a % b);
    }
};
struct Negate {
    template <class T> static T of(T a)
    {
        return Subtract::of((T)0, a);
    }
};
struct Absolute {
    template <class T> static T of(T a)
    {
        return a < 0 ? Negate::of(a) : a;
    }
};

template <class T> struct R_add {
    static constexpr Run run = run_2<T, T, Add>;
};
template <class T> struct R_subtract {
    static constexpr Run run = run_2<T, T, Subtract>;
};
template <class T> struct R_divide {
    static constexpr Run run = run_2<T, T, Divide>;
};
template <class T> struct R_remainder {
    static constexpr Run run = run_2<T, T, Remainder>;
};
template <class T> struct R_least {
    static constexpr Run run = run_2<T, T, Least>;
};
template <class T> struct R_greatest {
    static constexpr Run run = run_2<T, T, Greatest>;
};
template <class T> struct R_low {
    static constexpr Run run = run_2<T, T, Low>;
};
template <class T> struct R_high {
    static constexpr Run run = run_2<T, T, High>;
};
template <class T> struct R_low_add {
    static constexpr Run run = run_3<T, T, Low>;
};
template <class T> struct R_high_add {
    static constexpr Run run = run_3<T, T, High>;
};
template <class T> struct R_negate {
    static constexpr Run run = run_1<T, T, Negate>;
};
template <class T> struct R_absolute {
    static constexpr Run run = run_1<T, T, Absolute>;
};

static Run wide(const std::string &t, bool add)
{
    if (t == "u16")
        return add ? run_3<uint32_t, uint16_t, Wide> : run_2<uint32_t, uint16_t, Wide>;
    if (t == "s16")
        return add ? run_3<int32_t, int16_t, Wide> : run_2<int32_t, int16_t, Wide>;
    if (t == "u32")
        return add ? run_3<uint64_t, uint32_t, Wide> : run_2<uint64_t, uint32_t, Wide>;
    if (t == "s32")
        return add ? run_3<int64_t, int32_t, Wide> : run_2<int64_t, int32_t, Wide>;
    return nullptr;
}

static bool product(Decoder &d, Op &o)
{
    const std::string &t = d.last_type();
    const unsigned bytes = type_bytes(t);
    const bool add = d.now->words[0] == "mad", is_wide = d.now->has("wide");
    d.expect(d.now->words.size() == 3);
    if (is_wide)
        o.run = wide(t, add);
    else if (d.now->has("lo"))
        o.run = add ? of_integers<R_low_add>(t) : of_integers<R_low>(t);
    else if (d.now->has("hi"))
        o.run = add ? of_integers<R_high_add>(t) : of_integers<R_high>(t);
    d.expect(o.run != nullptr && d.now->operands.size() == (add ? 4 : 3));
    const unsigned result = is_wide ? 2 * bytes : bytes;
    o.d = d.write(d.operand(0), result);
    o.a = d.read(d.operand(1), bytes);
    o.b = d.read(d.operand(2), bytes);
    if (add)
        o.c = d.read(d.operand(3), result);
    return true;
}

/* ---- bits --------------------------------------------------------------------------------- */

struct Not {
    template <class T> static T of(T a)
    {
        return (T)~a;
    }
};

/* Of predicates: all lanes of the mask at once; how: which of a and b are negated. */
template <class F> void run_predicates(Warp &w, const Op &o)
{
    unsigned &d = *w.at<unsigned>(o.d);
    const unsigned a = *w.at<unsigned>(o.a), b = *w.at<unsigned>(o.b);
    const unsigned x = F::of(o.how & 1 ? ~a : a, o.how & 2 ? ~b : b);
    d = (d & ~w.active) | (x & w.active);
}

template <class F> static Run logic_of(unsigned bytes)
{
    return bytes == 2   ? run_2<uint16_t, uint16_t, F>
           : bytes == 4 ? run_2<uint32_t, uint32_t, F>
           : bytes == 8 ? run_2<uint64_t, uint64_t, F>
                        : nullptr;
}

static Slot plain(Decoder &d, Operand o, Op &op, uint8_t bit)
{
    op.how = (uint8_t)(op.how | (o.negated ? bit : 0));
    o.negated = false;
    return d.predicate(o);
}

static bool logic(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    const bool is_not = name == "not";
    d.expect(d.now->words.size() == 2 && d.now->operands.size() == (is_not ? 2 : 3));
    if (d.last_type() == "pred") {
        o.run = name == "and"  ? run_predicates<And>
                : name == "or" ? run_predicates<Or>
                               : run_predicates<Xor>;
        o.d = d.write(d.operand(0), 1);
        o.a = plain(d, d.operand(1), o, 1);
        o.b = is_not ? d.constant(1, 1) : plain(d, d.operand(2), o, 2);
        return true;
    }
    const unsigned bytes = type_bytes(d.last_type());
    d.expect(d.last_type()[0] == 'b');
    o.run = name == "and"  ? logic_of<And>(bytes)
            : name == "or" ? logic_of<Or>(bytes)
                           : logic_of<Xor>(bytes);
    d.expect(o.run != nullptr);
    o.d = d.write(d.operand(0), bytes);
    o.a = d.read(d.operand(1), bytes);
    o.b = is_not ? d.constant(~(uint64_t)0, bytes) : d.read(d.operand(2), bytes);
    return true;
}

/* By as many bits as there are, or more, all go. */
template <class T, bool LEFT> void run_shift(Warp &w, const Op &o)
{
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a);
    const uint32_t *b = w.at<uint32_t>(o.b);
    each_lane(w.active, [=](int i) {
        typedef typename std::make_unsigned<T>::type U;
        const unsigned bits = 8 * sizeof(T), n = b[i];
        if (LEFT)
            d[i] = n >= bits ? (T)0 : (T)((U)a[i] << n);
        else
            d[i] = n >= bits ? (T)(a[i] < 0 ? -1 : 0) : (T)(a[i] >> n);
    });
}
template <class T> struct R_left {
    static constexpr Run run = run_shift<T, true>;
};
template <class T> struct R_right {
    static constexpr Run run = run_shift<T, false>;
};

static bool shift(Decoder &d, Op &o)
{
    std::string t = d.last_type();
    const unsigned bytes = type_bytes(t);
    d.expect(d.now->words.size() == 2 && d.now->operands.size() == 3);
    if (t[0] == 'b')
        t[0] = 'u';
    o.run = d.now->words[0] == "shl" ? of_integers<R_left>(t) : of_integers<R_right>(t);
    d.expect(o.run != nullptr);
    o.d = d.write(d.operand(0), bytes);
    o.a = d.read(d.operand(1), bytes);
    o.b = d.read(d.operand(2), 4);
    return true;
}

/* shf: of the 64 bits b:a, 32 of them. how: 1: left, 2: the shift wraps. */
static void run_funnel(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d);
    const uint32_t *a = w.at<uint32_t>(o.a), *b = w.at<uint32_t>(o.b), *c = w.at<uint32_t>(o.c);
    each_lane(w.active, [&](int i) {
        const unsigned n = o.how & 2 ? c[i] & 31 : c[i] > 32 ? 32 : c[i];
        const uint64_t x = (uint64_t)b[i] << 32 | a[i];
        d[i] = (uint32_t)(o.how & 1 ? x << n >> 32 : x >> n);
    });
}

/* prmt without a mode: each byte of the result is one of the eight of b:a, or its sign. */
static void run_permute(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d);
    const uint32_t *a = w.at<uint32_t>(o.a), *b = w.at<uint32_t>(o.b), *c = w.at<uint32_t>(o.c);
    each_lane(w.active, [=](int i) {
        const uint64_t x = (uint64_t)b[i] << 32 | a[i];
        uint32_t y = 0;
        for (unsigned k = 0; k < 4; k++) {
            const unsigned which = c[i] >> 4 * k & 15;
            unsigned byte = (unsigned)(x >> 8 * (which & 7)) & 255;
            if (which & 8)
                byte = byte & 128 ? 255 : 0;
            y |= (uint32_t)byte << 8 * k;
        }
        d[i] = y;
    });
}

/* lop3: bit i of the result is that of the table (count) at the bits of a, b, c. */
static void run_table(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d);
    const uint32_t *a = w.at<uint32_t>(o.a), *b = w.at<uint32_t>(o.b), *c = w.at<uint32_t>(o.c);
    each_lane(w.active, [&](int i) {
        uint32_t y = 0;
        for (unsigned k = 0; k < 8; k++)
            if (o.how >> k & 1)
                y |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) & (k & 1 ? c[i] : ~c[i]);
        d[i] = y;
    });
}

/* dp2a, dp4a: c and the products of parts of a (halves, bytes) with bytes of b. */
enum { DP_SIGNED_A = 1, DP_SIGNED_B = 2, DP_HALVES = 4, DP_HIGH = 8 };

static int64_t part(uint32_t x, unsigned bits, unsigned k, bool is_signed)
{
    const uint32_t y = x >> bits * k & ((1u << bits) - 1);
    return is_signed && y >> (bits - 1) ? (int64_t)y - ((int64_t)1 << bits) : (int64_t)y;
}

static void run_dot(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d);
    const uint32_t *a = w.at<uint32_t>(o.a), *b = w.at<uint32_t>(o.b), *c = w.at<uint32_t>(o.c);
    const unsigned parts = o.how & DP_HALVES ? 2 : 4, from = o.how & DP_HIGH ? 2 : 0;
    each_lane(w.active, [=](int i) {
        int64_t sum = c[i];
        for (unsigned k = 0; k < parts; k++)
            sum += part(a[i], 32 / parts, k, o.how & DP_SIGNED_A) * part(b[i], 8, from + k, o.how & DP_SIGNED_B);
        d[i] = (uint32_t)sum;
    });
}

static bool dot_of_parts(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    const bool halves = words[0] == "dp2a";
    d.expect(words.size() == (halves ? 4u : 3u) && d.now->operands.size() == 4);
    d.expect(!halves || words[1] == "lo" || words[1] == "hi");
    for (size_t k = words.size() - 2; k < words.size(); k++)
        d.expect(words[k] == "u32" || words[k] == "s32");
    o.how = (uint8_t)((words[words.size() - 2] == "s32" ? DP_SIGNED_A : 0) | (words.back() == "s32" ? DP_SIGNED_B : 0) |
                      (halves ? DP_HALVES : 0) | (halves && words[1] == "hi" ? DP_HIGH : 0));
    o.run = run_dot;
    o.d = d.write(d.operand(0), 4);
    o.a = d.read(d.operand(1), 4);
    o.b = d.read(d.operand(2), 4);
    o.c = d.read(d.operand(3), 4);
    return true;
}

static bool three_words(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    const size_t words = d.now->words.size();
    if (name == "shf") {
        d.expect(words == 4 && d.last_type() == "b32");
        o.how = (uint8_t)((d.now->has("l") ? 1 : 0) | (d.now->has("wrap") ? 2 : 0));
        o.run = run_funnel;
    } else if (name == "prmt") {
        d.expect(words == 2 && d.last_type() == "b32");
        o.run = run_permute;
    } else {
        d.expect(words == 2 && d.last_type() == "b32" && d.operand(4).kind == Operand::INTEGER);
        o.how = (uint8_t)d.operand(4).number;
        o.run = run_table;
    }
    o.d = d.write(d.operand(0), 4);
    o.a = d.read(d.operand(1), 4);
    o.b = d.read(d.operand(2), 4);
    o.c = d.read(d.operand(3), 4);
    return true;
}

/* bfi d, a, b, from, n: n bits of a in b. */
template <class T> void run_insert(Warp &w, const Op &o)
{
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a), *b = w.at<T>(o.b);
    const uint32_t *from = w.at<uint32_t>(o.c), *n = w.at<uint32_t>(o.e);
    each_lane(w.active, [=](int i) {
        const unsigned bits = 8 * sizeof(T), at = from[i] & 255, count = n[i] & 255;
        T mask = count >= bits ? ~(T)0 : ((T)1 << count) - 1;
        mask = at >= bits ? 0 : mask << at;
        d[i] = (b[i] & ~mask) | (at >= bits ? 0 : (a[i] << at & mask));
    });
}

/* bfe d, a, from, n; with a sign its last bit, or the last of a, goes on. */
template <class T> void run_extract(Warp &w, const Op &o)
{
    typedef typename std::make_unsigned<T>::type U;
    U *d = w.at<U>(o.d);
    const U *a = w.at<U>(o.a);
    const uint32_t *from = w.at<uint32_t>(o.b), *n = w.at<uint32_t>(o.c);
    each_lane(w.active, [=](int i) {
        const unsigned bits = 8 * sizeof(T), at = from[i] & 255, count = n[i] & 255;
        const unsigned last = at + count - 1 < bits - 1 ? at + count - 1 : bits - 1;
        const bool sign = std::is_signed<T>::value && count && (a[i] >> last & 1);
        U x = at >= bits ? 0 : a[i] >> at;
        const unsigned valid = at >= bits ? 0 : count < bits - at ? count : bits - at;
        const U mask = valid >= bits ? ~(U)0 : ((U)1 << valid) - 1;
        d[i] = (x & mask) | (sign ? ~mask : 0);
    });
}

static bool field(Decoder &d, Op &o)
{
    const std::string t = d.last_type();
    const unsigned bytes = type_bytes(t);
    const bool insert = d.now->words[0] == "bfi";
    d.expect(d.now->words.size() == 2);
    o.run = insert       ? (t == "b32"   ? run_insert<uint32_t>
                            : t == "b64" ? run_insert<uint64_t>
                                         : nullptr)
            : t == "u32" ? run_extract<uint32_t>
            : t == "s32" ? run_extract<int32_t>
            : t == "u64" ? run_extract<uint64_t>
            : t == "s64" ? run_extract<int64_t>
                         : nullptr;
    d.expect(o.run != nullptr);
    o.d = d.write(d.operand(0), bytes);
    o.a = d.read(d.operand(1), bytes);
    o.b = insert ? d.read(d.operand(2), bytes) : d.read(d.operand(2), 4);
    o.c = d.read(d.operand(3), 4);
    if (insert)
        o.e = d.read(d.operand(4), 4);
    return true;
}

struct Ones {
    template <class T> static uint32_t of(T a)
    {
        return (uint32_t)__builtin_popcountll(a);
    }
};
struct Zeros {
    template <class T> static uint32_t of(T a)
    {
        return a ? (uint32_t)__builtin_clzll(a) - (64 - 8 * (uint32_t)sizeof(T))
                 : 8 * (uint32_t)sizeof(T);
    }
};
struct Reverse {
    template <class T> static T of(T a)
    {
        T x = 0;
        for (unsigned i = 0; i < 8 * sizeof(T); i++)
            x |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
        return x;
    }
};

static bool count(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    const unsigned bytes = type_bytes(d.last_type());
    d.expect(d.now->words.size() == 2 && d.last_type()[0] == 'b' && bytes >= 4);
    const bool is_long = bytes == 8;
    o.run =
        name == "popc"
            ? (is_long ? run_1<uint32_t, uint64_t, Ones> : run_1<uint32_t, uint32_t, Ones>)
        : name == "clz"
            ? (is_long ? run_1<uint32_t, uint64_t, Zeros> : run_1<uint32_t, uint32_t, Zeros>)
            : (is_long ? run_1<uint64_t, uint64_t, Reverse> : run_1<uint32_t, uint32_t, Reverse>);
    o.d = d.write(d.operand(0), name == "brev" ? bytes : 4);
    o.a = d.read(d.operand(1), bytes);
    return true;
}

} // namespace

/* ---- which -------------------------------------------------------------------------------- */

bool integer_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0], &t = d.now->words.back();
    if (name == "and" || name == "or" || name == "xor" || name == "not")
        return logic(d, o);
    if (name == "shl" || name == "shr")
        return shift(d, o);
    if (name == "shf" || name == "prmt" || name == "lop3")
        return three_words(d, o);
    if (name == "dp2a" || name == "dp4a")
        return dot_of_parts(d, o);
    if (name == "bfi" || name == "bfe")
        return field(d, o);
    if (name == "popc" || name == "clz" || name == "brev")
        return count(d, o);
    if (t[0] != 'u' && t[0] != 's')
        return false;
    if (name == "mul" || name == "mad")
        return product(d, o);
    const bool one = name == "neg" || name == "abs";
    o.run = name == "add"   ? of_integers<R_add>(t)
            : name == "sub" ? of_integers<R_subtract>(t)
            : name == "div" ? of_integers<R_divide>(t)
            : name == "rem" ? of_integers<R_remainder>(t)
            : name == "min" ? of_integers<R_least>(t)
            : name == "max" ? of_integers<R_greatest>(t)
            : name == "neg" ? of_integers<R_negate>(t)
            : name == "abs" ? of_integers<R_absolute>(t)
                            : nullptr;
    if (!o.run)
        return false;
    d.expect(d.now->words.size() == 2 && d.now->operands.size() == (one ? 2 : 3));
    o.d = d.write(d.operand(0), type_bytes(t));
    o.a = d.read(d.operand(1), type_bytes(t));
    if (!one)
        o.b = d.read(d.operand(2), type_bytes(t));
    return true;
}

} // namespace ptx
