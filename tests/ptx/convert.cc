/* convert.cc - cvt: between all numbers, halves too. */
#include "tests/ptx/convert.h"
#include "tests/ptx/lanes.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

namespace ptx
{

/* ---- halves ------------------------------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}
static float float_of(uint32_t b)
{
    float x;
    memcpy(&x, &b, 4);
    return x;
}

uint16_t to_bf16(float x)
{
    const uint32_t b = bits_of(x);
    if (x != x)
        return 0x7fff;
    const uint32_t low = b & 0xffff, up = low > 0x8000 || (low == 0x8000 && (b >> 16 & 1));
    return (uint16_t)((b >> 16) + up);
}

float from_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* As a multiple of the distance of halves near it. */
uint16_t to_f16(float x)
{
    const uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000);
    if (x != x)
        return 0x7fff;
    const float a = fabsf(x);
    if (a >= 65520)
        return sign | 0x7c00;
    if (a == 0)
        return sign;
    int e = ilogbf(a);
    e = e < -14 ? -14 : e;
    const unsigned n = (unsigned)nearbyintf(ldexpf(a, 10 - e)); /* up to 2048: the next exponent */
    return (uint16_t)(sign | (n < 1024 ? n : ((unsigned)(e + 14) << 10) + n));
}

float from_f16(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    const float a = e == 31 ? (m ? NAN : INFINITY)
                    : e     ? ldexpf((float)(1024 + m), e - 25)
                            : ldexpf((float)m, -24);
    return h & 0x8000 ? -a : a;
}

/* ---- integers ----------------------------------------------------------------------------- */

struct Integer {
    unsigned bytes;
    bool is_signed;
};

static bool integer_of(const std::string &t, Integer *i)
{
    i->bytes = type_bytes(t);
    i->is_signed = t[0] == 's';
    return (t[0] == 'u' || t[0] == 's') && i->bytes && i->bytes <= 8;
}

static uint64_t extend(uint64_t x, unsigned bytes, bool is_signed)
{
    const unsigned unused = 64 - 8 * bytes;
    return is_signed ? (uint64_t)((int64_t)(x << unused) >> unused) : x << unused >> unused;
}

static uint64_t load(Warp &w, Slot s, unsigned width, int lane)
{
    uint64_t x = 0;
    memcpy(&x, w.file + s + (unsigned)lane * width, width);
    return x;
}
static void store(Warp &w, Slot s, unsigned width, int lane, uint64_t x)
{
    memcpy(w.file + s + (unsigned)lane * width, &x, width);
}

/* The nearest number that the type has. */
static uint64_t clamp(__int128 x, Integer to)
{
    const unsigned bits = 8 * to.bytes - to.is_signed;
    const __int128 most = ((__int128)1 << bits) - 1, least = to.is_signed ? -most - 1 : 0;
    return (uint64_t)(x < least ? least : x > most ? most : x);
}

/* space, bytes: widths of the registers; how: 1: from one with a sign, 2: to one, 4: saturated;
 * count, target: bytes of the types. */
static void run_integers(Warp &w, const Op &o)
{
    const Integer to = {o.target, (o.how & 2) != 0};
    each_lane(w.active, [&](int lane) {
        uint64_t x = extend(load(w, o.a, o.space, lane), o.count, o.how & 1);
        if (o.how & 4)
            x = clamp(o.how & 1 ? (__int128)(int64_t)x : (__int128)x, to);
        store(w, o.d, o.bytes, lane, extend(x, to.bytes, to.is_signed));
    });
}
template <class D, class A> struct Same {
    static D of(A a)
    {
        return (D)a;
    }
};

static bool integers(Decoder &d, Op &o, Integer to, Integer from)
{
    const Decoder::Register dst = d.any(d.operand(0), to.bytes),
                            src = d.any(d.operand(1), from.bytes);
    d.expect(d.now->words.size() == (d.now->has("sat") ? 4u : 3u));
    d.expect(dst.width >= to.bytes && src.width >= from.bytes && dst.width > 1);
    o.d = d.write(d.operand(0), dst.width);
    o.a = src.slot;
    o.bytes = (uint8_t)dst.width;
    o.space = (uint8_t)src.width;
    o.count = (uint8_t)from.bytes;
    o.target = to.bytes;
    o.how = (uint8_t)(from.is_signed | to.is_signed << 1 | (d.now->has("sat") ? 4 : 0));
    o.run = run_integers;
    if (!(o.how & 4) && dst.width == 8 && to.bytes == 8 && src.width == 4 && from.bytes == 4)
        o.run = from.is_signed ? run_1<int64_t, int32_t, Same<int64_t, int32_t>>
                               : run_1<uint64_t, uint32_t, Same<uint64_t, uint32_t>>;
    if (!(o.how & 4) && dst.width == 4 && to.bytes == 4 && src.width == 8 && from.bytes == 8)
        o.run = run_1<uint32_t, uint64_t, Same<uint32_t, uint64_t>>;
    return true;
}

/* ---- floats ------------------------------------------------------------------------------- */

enum Kind : uint8_t { SINGLE, DOUBLE, F16, BF16, UNSIGNED, SIGNED };
enum How : uint8_t { FLUSH = 1, SATURATE = 2, RELU = 4 };

static bool kind_of(const std::string &t, Kind *k)
{
    *k = t == "f32"    ? SINGLE
         : t == "f64"  ? DOUBLE
         : t == "f16"  ? F16
         : t == "bf16" ? BF16
         : t[0] == 'u' ? UNSIGNED
                       : SIGNED;
    return type_bytes(t) && t.size() <= 4 && (t[0] != 'b' || t == "bf16") && t != "tf32";
}

static float flush(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

/* Numbers go by way of double, which has them all but for long integers: those go to float or
 * double at once. */
static double number_of(Warp &w, const Op &o, int lane)
{
    const uint64_t x = load(w, o.a, o.space, lane);
    double y;
    switch ((Kind)o.list[1]) {
    case SINGLE:
        return o.how & FLUSH ? flush(float_of((uint32_t)x)) : float_of((uint32_t)x);
    case DOUBLE:
        memcpy(&y, &x, 8);
        return y;
    case F16:
        return from_f16((uint16_t)x);
    case BF16:
        return from_bf16((uint16_t)x);
    case UNSIGNED:
        return (double)extend(x, o.count, false);
    case SIGNED:
        return (double)(int64_t)extend(x, o.count, true);
    }
    return 0;
}

static uint64_t rounded_integer(double x, Integer to)
{
    const double y = nearbyint(x), bits = 8 * to.bytes - to.is_signed;
    if (x != x)
        return 0;
    if (y >= ldexp(1, (int)bits))
        return clamp(((__int128)1 << 64), to);
    if (y < (to.is_signed ? -ldexp(1, (int)bits) : 0))
        return clamp(-((__int128)1 << 64), to);
    return to.is_signed ? (uint64_t)(int64_t)y : (uint64_t)y;
}

static uint64_t single_from_long(Warp &w, const Op &o, int lane)
{
    const uint64_t x = extend(load(w, o.a, o.space, lane), o.count, o.list[1] == SIGNED);
    return bits_of(o.list[1] == SIGNED ? (float)(int64_t)x : (float)x);
}

static uint64_t result_of(const Op &o, double x, Integer to)
{
    uint64_t bits = 0;
    float y;
    switch ((Kind)o.list[0]) {
    case SINGLE:
        y = o.list[2] && fabs(x) < INFINITY ? (float)nearbyint(x) : (float)x;
        y = o.how & FLUSH ? flush(y) : y;
        y = o.how & SATURATE ? (y > 0 ? (y < 1 ? y : 1.0f) : 0.0f) : y;
        return bits_of(y);
    case DOUBLE:
        x = o.list[2] ? nearbyint(x) : x;
        memcpy(&bits, &x, 8);
        return bits;
    case F16:
        return to_f16(o.how & RELU && !(x > 0) && x == x ? 0 : (float)x);
    case BF16:
        return to_bf16(o.how & RELU && !(x > 0) && x == x ? 0 : (float)x);
    case UNSIGNED:
    case SIGNED:
        return rounded_integer(x, to);
    }
    return 0;
}

static void run_convert(Warp &w, const Op &o)
{
    const Integer to = {o.target, o.list[0] == SIGNED};
    if (o.list[3] != FE_TONEAREST)
        fesetround(o.list[3]);
    each_lane(w.active, [&](int lane) {
        const bool is_long = o.list[0] == SINGLE && o.list[1] >= UNSIGNED;
        uint64_t x =
            is_long ? single_from_long(w, o, lane) : result_of(o, number_of(w, o, lane), to);
        if (o.list[0] >= UNSIGNED)
            x = extend(x, to.bytes, to.is_signed);
        store(w, o.d, o.bytes, lane, x);
    });
    fesetround(FE_TONEAREST);
}

/* list: kinds of the result and of the operand, whether it is rounded to an integer, how. */
static bool floats(Decoder &d, Op &o, Kind to, Kind from)
{
    const std::vector<std::string> &words = d.now->words;
    int round = FE_TONEAREST;
    bool whole = false;
    for (size_t i = 1; i + 2 < words.size(); i++) {
        const std::string &m = words[i];
        if (m == "ftz")
            o.how |= FLUSH;
        else if (m == "sat")
            o.how |= SATURATE;
        else if (m == "relu")
            o.how |= RELU;
        else if (m[0] == 'r' && m.size() >= 2 && m.size() <= 3 && (m.size() == 2 || m[2] == 'i')) {
            d.expect(strchr("nzmp", m[1]) != nullptr);
            whole |= m.size() == 3;
            round = m[1] == 'z'   ? FE_TOWARDZERO
                    : m[1] == 'm' ? FE_DOWNWARD
                    : m[1] == 'p' ? FE_UPWARD
                                  : FE_TONEAREST;
        } else {
            d.unknown();
        }
    }
    const bool half = to == F16 || to == BF16;
    d.expect(!(half && (from == DOUBLE || from >= UNSIGNED || round != FE_TONEAREST)));
    d.expect(!(o.how & RELU) || half);
    const Decoder::Register dst = d.any(d.operand(0), 4),
                            src = d.any(d.operand(1), type_bytes(words.back()));
    d.expect(dst.width >= type_bytes(words[words.size() - 2]) &&
             src.width >= type_bytes(words.back()));
    o.d = d.write(d.operand(0), dst.width);
    o.a = src.slot;
    o.bytes = (uint8_t)dst.width;
    o.space = (uint8_t)src.width;
    o.count = (uint8_t)type_bytes(words.back());
    o.target = type_bytes(words[words.size() - 2]);
    o.list = {to, from, whole, round};
    o.run = run_convert;
    return true;
}

/* Two floats in one register: the first operand is the upper half. */
template <uint16_t F(float)> void run_pack(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d);
    const float *a = w.at<float>(o.a), *b = w.at<float>(o.b);
    each_lane(w.active, [=](int i) { d[i] = (uint32_t)F(a[i]) << 16 | F(b[i]); });
}

static bool pack(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    d.expect(words.size() == 4 && words[1] == "rn" && words[3] == "f32" &&
             d.now->operands.size() == 3);
    o.run = words[2] == "bf16x2" ? run_pack<to_bf16> : run_pack<to_f16>;
    o.d = d.write(d.operand(0), 4);
    o.a = d.read(d.operand(1), 4);
    o.b = d.read(d.operand(2), 4);
    return true;
}

/* As a multiple of the distance of numbers of 8 bits near it; at most the largest of them. */
template <int BITS, int BIAS, int TOP> static uint16_t to_fp8(float x)
{
    const uint16_t sign = (uint16_t)(bits_of(x) >> 24 & 0x80);
    const float a = fabsf(x);
    if (x != x)
        return 0x7f;
    if (a >= TOP)
        return sign | (BITS == 3 ? 0x7e : 0x7b);
    if (a == 0)
        return sign;
    int e = ilogbf(a);
    e = e < 1 - BIAS ? 1 - BIAS : e;
    const unsigned n = (unsigned)nearbyintf(ldexpf(a, BITS - e)), one = 1u << BITS;
    return (uint16_t)(sign | (n < one ? n : ((unsigned)(e + BIAS - 1) << BITS) + n));
}

/* Two floats in 16 bits: the first operand is the upper byte. */
template <uint16_t F(float)> static void run_pack_fp8(Warp &w, const Op &o)
{
    uint16_t *d = w.at<uint16_t>(o.d);
    const float *a = w.at<float>(o.a), *b = w.at<float>(o.b);
    each_lane(w.active, [=](int i) { d[i] = (uint16_t)(F(a[i]) << 8 | F(b[i])); });
}

static bool pack_fp8(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    d.expect(words.size() == 5 && words[1] == "rn" && words[2] == "satfinite" && words[4] == "f32" &&
             d.now->operands.size() == 3);
    o.run = words[3] == "e4m3x2" ? run_pack_fp8<to_fp8<3, 7, 448>> : run_pack_fp8<to_fp8<2, 15, 57344>>;
    o.d = d.write(d.operand(0), 2);
    o.a = d.read(d.operand(1), 4);
    o.b = d.read(d.operand(2), 4);
    return true;
}

/* To the nearest of ten bits, ties away from 0 (rna) or to even (rn). */
static void run_tf32(Warp &w, const Op &o)
{
    uint32_t *d = w.at<uint32_t>(o.d);
    const uint32_t *a = w.at<uint32_t>(o.a);
    each_lane(w.active, [&](int i) {
        const uint32_t x = a[i], tie = o.how ? 0x1000 : 0xfff + (x >> 13 & 1);
        d[i] = (x & 0x7f800000) == 0x7f800000 ? x : (x + tie) & ~(uint32_t)0x1fff;
    });
}

bool convert_group(Decoder &d, Op &o)
{
    const std::vector<std::string> &words = d.now->words;
    Integer ito, ifrom;
    Kind to, from;
    if (words[0] != "cvt")
        return false;
    d.expect(words.size() >= 3 && d.now->operands.size() >= 2);
    const std::string &t = words[words.size() - 2], &a = words.back();
    if (t == "bf16x2" || t == "f16x2")
        return pack(d, o);
    if (t == "e4m3x2" || t == "e5m2x2")
        return pack_fp8(d, o);
    if (t == "tf32" && words.size() == 4 && a == "f32") {
        o.how = words[1] == "rna";
        d.expect(o.how || words[1] == "rn");
        o.run = run_tf32;
        o.d = d.write(d.operand(0), 4);
        o.a = d.read(d.operand(1), 4);
        return true;
    }
    d.expect(d.now->operands.size() == 2);
    if (integer_of(t, &ito) && integer_of(a, &ifrom))
        return integers(d, o, ito, ifrom);
    d.expect(kind_of(t, &to) && kind_of(a, &from));
    return floats(d, o, to, from);
}

} // namespace ptx
