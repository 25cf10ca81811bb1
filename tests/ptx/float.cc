/* float.cc - arithmetic of float and double, with the roundings that PTX has, and its approximate
 * functions, which are computed to rounding here. */
#include "tests/ptx/lanes.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

namespace ptx
{
namespace
{

enum How : uint8_t { FLUSH = 1, SATURATE = 2, DOWN = 4, UP = 8, ZERO = 16 };

template <class T> static T flush(T x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysign((T)0, x) : x;
}
template <class T> static T saturate(T x)
{
    return x > 0 ? (x < 1 ? x : (T)1) : (T)0; /* a NaN gives 0 */
}

/* Of an instruction that rounds otherwise than to nearest, flushes or saturates. */
struct Rounding {
    explicit Rounding(uint8_t how)
    {
        if (how & (DOWN | UP | ZERO))
            fesetround(how & DOWN ? FE_DOWNWARD : how & UP ? FE_UPWARD : FE_TOWARDZERO);
    }
    ~Rounding()
    {
        fesetround(FE_TONEAREST);
    }
};

template <class T, class F> void slow_1(Warp &w, const Op &o)
{
    const Rounding r(o.how);
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a);
    const bool f = o.how & FLUSH;
    each_lane(w.active, [&](int i) {
        T x = F::of(f ? flush(a[i]) : a[i]);
        x = f ? flush(x) : x;
        d[i] = o.how & SATURATE ? saturate(x) : x;
    });
}
template <class T, class F> void slow_2(Warp &w, const Op &o)
{
    const Rounding r(o.how);
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a), *b = w.at<T>(o.b);
    const bool f = o.how & FLUSH;
    each_lane(w.active, [&](int i) {
        T x = F::of(f ? flush(a[i]) : a[i], f ? flush(b[i]) : b[i]);
        x = f ? flush(x) : x;
        d[i] = o.how & SATURATE ? saturate(x) : x;
    });
}
template <class T, class F> void slow_3(Warp &w, const Op &o)
{
    const Rounding r(o.how);
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a), *b = w.at<T>(o.b), *c = w.at<T>(o.c);
    const bool f = o.how & FLUSH;
    each_lane(w.active, [&](int i) {
        T x = F::of(f ? flush(a[i]) : a[i], f ? flush(b[i]) : b[i], f ? flush(c[i]) : c[i]);
        x = f ? flush(x) : x;
        d[i] = o.how & SATURATE ? saturate(x) : x;
    });
}

/* ---- functions ---------------------------------------------------------------------------- */

struct Add {
    template <class T> static T of(T a, T b)
    {
        return a + b;
    }
};
struct Subtract {
    template <class T> static T of(T a, T b)
    {
        return a - b;
    }
};
struct Multiply {
    template <class T> static T of(T a, T b)
    {
        return a * b;
    }
};
struct Divide {
    template <class T> static T of(T a, T b)
    {
        return a / b;
    }
};
struct Fused {
    static float of(float a, float b, float c)
    {
        return fmaf(a, b, c);
    }
    static double of(double a, double b, double c)
    {
        return fma(a, b, c);
    }
};
/* The number, where one is a NaN; -0 is less than 0. */
struct Least {
    template <class T> static T of(T a, T b)
    {
        return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b;
    }
};
struct Greatest {
    template <class T> static T of(T a, T b)
    {
        return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b;
    }
};
/* The NaN, where one is one. */
struct LeastNan {
    template <class T> static T of(T a, T b)
    {
        return a != a ? a : b != b ? b : Least::of(a, b);
    }
};
struct GreatestNan {
    template <class T> static T of(T a, T b)
    {
        return a != a ? a : b != b ? b : Greatest::of(a, b);
    }
};
/* The sign of a on b. */
struct CopySign {
    template <class T> static T of(T a, T b)
    {
        return copysign(b, a);
    }
};
struct Negate {
    template <class T> static T of(T a)
    {
        return -a;
    }
};
struct Absolute {
    template <class T> static T of(T a)
    {
        return fabs(a);
    }
};
struct Reciprocal {
    template <class T> static T of(T a)
    {
        return 1 / a;
    }
};
struct Root {
    template <class T> static T of(T a)
    {
        return sqrt(a);
    }
};
struct ReciprocalRoot {
    template <class T> static T of(T a)
    {
        return (T)(1 / sqrt((double)a));
    }
};
struct Power2 {
    static float of(float a)
    {
        return (float)exp2((double)a);
    }
};
struct Log2 {
    static float of(float a)
    {
        return (float)log2((double)a);
    }
};
struct Sine {
    static float of(float a)
    {
        return (float)sin((double)a);
    }
};
struct Cosine {
    static float of(float a)
    {
        return (float)cos((double)a);
    }
};
struct Tanh {
    static float of(float a)
    {
        return (float)tanh((double)a);
    }
};
/* rcp.approx.ftz.f64 gives the upper half of the number alone, from the upper half of a. */
struct ReciprocalHigh {
    static double of(double a)
    {
        uint64_t bits;
        memcpy(&bits, &a, 8);
        bits &= ~(uint64_t)0xffffffff;
        memcpy(&a, &bits, 8);
        a = 1 / a;
        memcpy(&bits, &a, 8);
        bits &= ~(uint64_t)0xffffffff;
        memcpy(&a, &bits, 8);
        return a;
    }
};

/* ---- decoding ----------------------------------------------------------------------------- */

/* Words between the opcode and the type; false: one is not known. */
static bool modifiers(const Statement &s, uint8_t *how, std::string *kind)
{
    for (size_t i = 1; i + 1 < s.words.size(); i++) {
        const std::string &w = s.words[i];
        if (w == "ftz")
            *how |= FLUSH;
        else if (w == "sat")
            *how |= SATURATE;
        else if (w == "rm")
            *how |= DOWN;
        else if (w == "rp")
            *how |= UP;
        else if (w == "rz")
            *how |= ZERO;
        else if ((w == "approx" || w == "full" || w == "NaN") && kind->empty())
            *kind = w;
        else if (w != "rn")
            return false;
    }
    return true;
}

template <class F> static Run one(bool is_double, uint8_t how)
{
    if (how)
        return is_double ? slow_1<double, F> : slow_1<float, F>;
    return is_double ? run_1<double, double, F> : run_1<float, float, F>;
}
template <class F> static Run two(bool is_double, uint8_t how)
{
    if (how)
        return is_double ? slow_2<double, F> : slow_2<float, F>;
    return is_double ? run_2<double, double, F> : run_2<float, float, F>;
}
template <class F> static Run three(bool is_double, uint8_t how)
{
    if (how)
        return is_double ? slow_3<double, F> : slow_3<float, F>;
    return is_double ? run_3<double, double, F> : run_3<float, float, F>;
}
template <class F> static Run of_float(bool is_double, uint8_t how)
{
    return is_double ? nullptr : how ? slow_1<float, F> : run_1<float, float, F>;
}

static Run of_one(const std::string &name, const std::string &kind, bool dbl, uint8_t how)
{
    if (name == "neg")
        return one<Negate>(dbl, how);
    if (name == "abs")
        return one<Absolute>(dbl, how);
    if (name == "rcp")
        return dbl && !kind.empty() ? slow_1<double, ReciprocalHigh> : one<Reciprocal>(dbl, how);
    if (name == "sqrt")
        return one<Root>(dbl, how);
    if (name == "rsqrt")
        return one<ReciprocalRoot>(dbl, how);
    return name == "ex2"    ? of_float<Power2>(dbl, how)
           : name == "lg2"  ? of_float<Log2>(dbl, how)
           : name == "sin"  ? of_float<Sine>(dbl, how)
           : name == "cos"  ? of_float<Cosine>(dbl, how)
           : name == "tanh" ? of_float<Tanh>(dbl, how)
                            : nullptr;
}

static Run of_two(const std::string &name, const std::string &kind, bool dbl, uint8_t how)
{
    const bool nan = kind == "NaN";
    return name == "add"        ? two<Add>(dbl, how)
           : name == "sub"      ? two<Subtract>(dbl, how)
           : name == "mul"      ? two<Multiply>(dbl, how)
           : name == "div"      ? two<Divide>(dbl, how)
           : name == "min"      ? nan ? two<LeastNan>(dbl, how) : two<Least>(dbl, how)
                : name == "max" ? nan ? two<GreatestNan>(dbl, how) : two<Greatest>(dbl, how)
                : name == "copysign" ? two<CopySign>(dbl, how)
                                : nullptr;
}

} // namespace

bool float_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0], &t = d.now->words.back();
    std::string kind;
    if (t != "f32" && t != "f64")
        return false;
    const bool dbl = t == "f64";
    const unsigned bytes = dbl ? 8 : 4;
    const bool known = modifiers(*d.now, &o.how, &kind);
    unsigned n = 1;
    if ((o.run = of_one(name, kind, dbl, o.how)))
        n = 1;
    else if ((o.run = of_two(name, kind, dbl, o.how)))
        n = 2;
    else if ((name == "fma" || name == "mad") && (o.run = three<Fused>(dbl, o.how)))
        n = 3;
    else
        return false;
    d.expect(known && d.now->operands.size() == n + 1);
    o.d = d.write(d.operand(0), bytes);
    o.a = d.read(d.operand(1), bytes);
    if (n > 1)
        o.b = d.read(d.operand(2), bytes);
    if (n > 2)
        o.c = d.read(d.operand(3), bytes);
    return true;
}

} // namespace ptx
