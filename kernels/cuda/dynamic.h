/* dynamic.h - numbers of 8 bits of optimizers' state, and those of 4 bits of frozen matrices, on a
 * GPU, as runtime/dynamic8.h and runtime/nf4.h have them: their tables lie in the device's memory,
 * and in a cache while a kernel runs. */
#ifndef MG_CUDA_DYNAMIC_H
#define MG_CUDA_DYNAMIC_H

#ifdef MG_SHIM
#define MG_DYNAMIC8_TABLE static const
#define MG_DYNAMIC8_CODE  static inline
#define MG_NF4_TABLE      static const
#define MG_NF4_CODE       static inline
#else
#define MG_DYNAMIC8_TABLE __device__ static const
#define MG_DYNAMIC8_CODE  __device__ static inline
#define MG_NF4_TABLE      __device__ static const
#define MG_NF4_CODE       __device__ static inline
#endif
#include "dynamic8.h"
#include "nf4.h"

struct mg_dynamic8_bits {
    uint8_t bits;
};
struct mg_udynamic8_bits {
    uint8_t bits;
};
template <> struct mg_wider<mg_dynamic8_bits> {
    typedef float type;
};
template <> struct mg_wider<mg_udynamic8_bits> {
    typedef float type;
};

__device__ static inline float mg_wide(mg_dynamic8_bits x)
{
    return mg_from_dynamic8(x.bits);
}
__device__ static inline float mg_wide(mg_udynamic8_bits x)
{
    return mg_from_udynamic8(x.bits);
}
template <> __device__ inline mg_dynamic8_bits mg_narrow<mg_dynamic8_bits>(float x)
{
    return mg_dynamic8_bits{mg_to_dynamic8(x)};
}
template <> __device__ inline mg_udynamic8_bits mg_narrow<mg_udynamic8_bits>(float x)
{
    return mg_udynamic8_bits{mg_to_udynamic8(x)};
}

#endif
