/* compare.cc - setp and selp. */
#include "tests/ptx/lanes.h"

namespace ptx
{
namespace
{

/* Of numbers that are both none the second kind says false, the third true. */
enum Comparison : uint8_t { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_ };
enum Join : uint8_t { NONE, AND, OR, XOR };

template <class T> static bool compare(uint8_t c, T a, T b)
{
    const bool none = a != a || b != b;
    switch ((Comparison)c) {
    case EQ:
        return a == b;
    case NE:
        return !none && a != b;
    case LT:
        return a < b;
    case LE:
        return a <= b;
    case GT:
        return a > b;
    case GE:
        return a >= b;
    case EQU:
        return none || a == b;
    case NEU:
        return none || a != b;
    case LTU:
        return none || a < b;
    case LEU:
        return none || a <= b;
    case GTU:
        return none || a > b;
    case GEU:
        return none || a >= b;
    case NUM:
        return !none;
    case NAN_:
        return none;
    }
    return false;
}

template <class T, uint8_t C> static unsigned lanes_that(const T *a, const T *b)
{
    unsigned m = 0;
    for (int i = 0; i < LANES; i++)
        m |= (unsigned)compare<T>(C, a[i], b[i]) << i;
    return m;
}

static void put(Warp &w, Slot s, unsigned x)
{
    unsigned &d = *w.at<unsigned>(s);
    d = (d & ~w.active) | (x & w.active);
}

static unsigned join(uint8_t how, unsigned x, unsigned c)
{
    return how == AND ? x & c : how == OR ? x | c : how == XOR ? x ^ c : x;
}

/* d: the comparison, joined with the predicate c; e: its opposite, joined with it, too. */
template <class T, uint8_t C> void run_compare(Warp &w, const Op &o)
{
    const unsigned x = lanes_that<T, C>(w.at<T>(o.a), w.at<T>(o.b));
    unsigned c = o.c == NO_SLOT ? 0 : *w.at<unsigned>(o.c);
    c = o.space ? ~c : c;
    put(w, o.d, join(o.how, x, c));
    if (o.e != NO_SLOT)
        put(w, o.e, join(o.how, ~x, c));
}

template <class T> static Run comparison(uint8_t c)
{
    static const Run all[] = {run_compare<T, EQ>,  run_compare<T, NE>,  run_compare<T, LT>,
                              run_compare<T, LE>,  run_compare<T, GT>,  run_compare<T, GE>,
                              run_compare<T, EQU>, run_compare<T, NEU>, run_compare<T, LTU>,
                              run_compare<T, LEU>, run_compare<T, GTU>, run_compare<T, GEU>,
                              run_compare<T, NUM>, run_compare<T, NAN_>};
    return all[c];
}

static bool comparison_of(const std::string &word, bool floats, uint8_t *c)
{
    static const char *const names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    static const char *const plain[] = {"", "", "lo", "ls", "hi", "hs"}; /* without a sign */
    for (*c = 0; *c < (floats ? 14 : 6); ++*c)
        if (word == names[*c] || (*c < 6 && !floats && word == plain[*c]))
            return true;
    return false;
}

static Run compare_of(const std::string &t, uint8_t c)
{
    return t == "u16" || t == "b16"   ? comparison<uint16_t>(c)
           : t == "s16"               ? comparison<int16_t>(c)
           : t == "u32" || t == "b32" ? comparison<uint32_t>(c)
           : t == "s32"               ? comparison<int32_t>(c)
           : t == "u64" || t == "b64" ? comparison<uint64_t>(c)
           : t == "s64"               ? comparison<int64_t>(c)
           : t == "f32"               ? comparison<float>(c)
           : t == "f64"               ? comparison<double>(c)
                                      : nullptr;
}

static bool setp(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    const std::string &t = words.back();
    uint8_t c;
    d.expect(words.size() >= 3 && comparison_of(words[1], t[0] == 'f', &c));
    size_t i = 2;
    o.how = words[i] == "and" ? AND : words[i] == "or" ? OR : words[i] == "xor" ? XOR : NONE;
    i += o.how != NONE;
    d.expect(i + 1 == words.size() && d.now->operands.size() == (o.how ? 4u : 3u));
    o.run = compare_of(t, c);
    d.expect(o.run != nullptr);
    const Operand &to = d.operand(0);
    o.d = d.write(to.kind == Operand::PAIR ? to.parts[0] : to, 1);
    if (to.kind == Operand::PAIR)
        o.e = d.write(to.parts[1], 1);
    o.a = d.read(d.operand(1), type_bytes(t));
    o.b = d.read(d.operand(2), type_bytes(t));
    if (o.how) {
        Operand with = d.operand(3);
        o.space = with.negated;
        with.negated = false;
        o.c = d.predicate(with);
    }
    return true;
}

template <class T> void run_select(Warp &w, const Op &o)
{
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a), *b = w.at<T>(o.b);
    const unsigned c = *w.at<unsigned>(o.c);
    each_lane(w.active, [=](int i) { d[i] = c >> i & 1 ? a[i] : b[i]; });
}

static bool selp(Decoder &d, Op &o)
{
    const unsigned bytes = type_bytes(d.last_type());
    d.expect(d.now->words.size() == 2 && d.now->operands.size() == 4);
    o.run = bytes == 2   ? run_select<uint16_t>
            : bytes == 4 ? run_select<uint32_t>
            : bytes == 8 ? run_select<uint64_t>
                         : nullptr;
    d.expect(o.run != nullptr);
    o.d = d.write(d.operand(0), bytes);
    o.a = d.read(d.operand(1), bytes);
    o.b = d.read(d.operand(2), bytes);
    o.c = d.predicate(d.operand(3));
    return true;
}

} // namespace

bool compare_group(Decoder &d, Op &o)
{
    return d.now->words[0] == "setp" ? setp(d, o) : d.now->words[0] == "selp" ? selp(d, o) : false;
}

} // namespace ptx
