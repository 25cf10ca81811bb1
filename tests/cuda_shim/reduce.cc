/* reduce.cc - sums of what ranks have, in an order that a key decides.
 *
 * NCCL makes the same bits on all ranks, each time for the same call, but promises no order, and
 * takes another one for other elements, sizes and calls. So does this, down to how terms are
 * paired. Halves are summed in float and rounded once. As there, a maximum passes a NaN by. */
#include "tests/cuda_shim/cuda_shim.h"
#include "tests/cuda_shim/operation.h"

#include <string.h>
#include <type_traits>

enum { RANGE_MIN = 16, RANGE_MAX = 200 };

size_t shim_type_bytes(ncclDataType_t t)
{
    static const unsigned char bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (unsigned)t < ncclNumTypes ? bytes[t] : 0;
}

bool shim_can_reduce(ncclDataType_t t, ncclRedOp_t op)
{
    return (unsigned)t <= ncclBfloat16 && (op == ncclSum || op == ncclMax);
}

/* How a type is stored, and what it is summed in. */
template <class T> struct Plain {
    typedef T Stored;
    typedef T Sum;
    static Sum wide(Stored x)
    {
        return x;
    }
    static Stored narrow(Sum x)
    {
        return x;
    }
};
struct F16 {
    typedef uint16_t Stored;
    typedef float Sum;
    static Sum wide(Stored x)
    {
        return shim_from_f16(x);
    }
    static Stored narrow(Sum x)
    {
        return shim_to_f16(x);
    }
};
struct Bf16 {
    typedef uint16_t Stored;
    typedef float Sum;
    static Sum wide(Stored x)
    {
        return __uint_as_float((uint32_t)x << 16);
    }
    static Stored narrow(Sum x)
    {
        return shim_to_bf16(x);
    }
};

template <class T> static T plus(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        typedef std::make_unsigned_t<T> U;
        return (T)(U)((U)a + (U)b); /* wraps */
    } else {
        return a + b;
    }
}

template <class T> static T greatest(T a, T b)
{
    return a != a ? b : b != b ? a : a > b ? a : b;
}

/* From here to the end of its range. */
template <class T>
static void reduce_range(char *to, const std::vector<const char *> &part, size_t from, size_t n,
                         ncclRedOp_t op, uint64_t key)
{
    typedef typename T::Sum Sum;
    typedef typename T::Stored Stored;
    Stored stored[RANGE_MAX];
    std::vector<Sum> wide(part.size() * n);
    std::vector<Sum *> term;
    for (const char *p : part) {
        Sum *x = wide.data() + term.size() * n;
        memcpy(stored, p + from * sizeof(Stored), n * sizeof(Stored));
        for (size_t i = 0; i < n; i++)
            x[i] = T::wide(stored[i]);
        term.push_back(x);
    }
    while (term.size() > 1) {
        key = shim_mix(key);
        std::swap(term[key % term.size()], term.back());
        const Sum *b = term.back();
        term.pop_back();
        Sum *a = term[(key >> 32) % term.size()];
        for (size_t i = 0; i < n; i++)
            a[i] = op == ncclSum ? plus(a[i], b[i]) : greatest(a[i], b[i]);
    }
    for (size_t i = 0; i < n; i++)
        stored[i] = T::narrow(term[0][i]);
    memcpy(to + from * sizeof(Stored), stored, n * sizeof(Stored));
}

template <class T>
static void reduce(char *to, const std::vector<const char *> &part, size_t first, size_t count,
                   ncclRedOp_t op, uint64_t key)
{
    const size_t length = RANGE_MIN + shim_mix(key) % (RANGE_MAX - RANGE_MIN);
    for (size_t at = 0; at < count;) {
        const size_t range = (first + at) / length, end = (range + 1) * length - first;
        const size_t n = (end < count ? end : count) - at;
        reduce_range<T>(to, part, at, n, op, shim_mix(key + range));
        at += n;
    }
}

void shim_reduce(char *to, const std::vector<const char *> &part, size_t first, size_t count,
                 ncclDataType_t t, ncclRedOp_t op, uint64_t key)
{
    switch (t) {
    case ncclInt8:
        return reduce<Plain<int8_t>>(to, part, first, count, op, key);
    case ncclUint8:
        return reduce<Plain<uint8_t>>(to, part, first, count, op, key);
    case ncclInt32:
        return reduce<Plain<int32_t>>(to, part, first, count, op, key);
    case ncclUint32:
        return reduce<Plain<uint32_t>>(to, part, first, count, op, key);
    case ncclInt64:
        return reduce<Plain<int64_t>>(to, part, first, count, op, key);
    case ncclUint64:
        return reduce<Plain<uint64_t>>(to, part, first, count, op, key);
    case ncclFloat16:
        return reduce<F16>(to, part, first, count, op, key);
    case ncclFloat32:
        return reduce<Plain<float>>(to, part, first, count, op, key);
    case ncclFloat64:
        return reduce<Plain<double>>(to, part, first, count, op, key);
    case ncclBfloat16:
        return reduce<Bf16>(to, part, first, count, op, key);
    default:
        abort(); /* refused before */
    }
}
