/* functions.h - functions of two whole numbers that several instructions compute; sums wrap. */
#ifndef PTX_FUNCTIONS_H
#define PTX_FUNCTIONS_H

#include <stdint.h>
#include <type_traits>

namespace ptx
{

/* In it a number is added to and multiplied without overflow being undefined. */
template <class T> struct Unsigned {
    typedef typename std::conditional<sizeof(T) == 2, uint32_t,
                                      typename std::make_unsigned<T>::type>::type type;
};

struct Add {
    template <class T> static T of(T a, T b)
    {
        typedef typename Unsigned<T>::type U;
        return (T)((U)a + (U)b);
    }
};
struct Least {
    template <class T> static T of(T a, T b)
    {
        return a < b ? a : b;
    }
};
struct Greatest {
    template <class T> static T of(T a, T b)
    {
        return a > b ? a : b;
    }
};
struct And {
    template <class T> static T of(T a, T b)
    {
        return (T)(a & b);
    }
};
struct Or {
    template <class T> static T of(T a, T b)
    {
        return (T)(a | b);
    }
};
struct Xor {
    template <class T> static T of(T a, T b)
    {
        return (T)(a ^ b);
    }
};

} // namespace ptx

#endif
