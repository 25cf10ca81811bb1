/* device.h - types and reductions that all CUDA kernels share, generated ones and those of this
 * folder.
 *
 * Reductions run in a fixed order: the same numbers give the same bits. A block has `B` threads, a
 * multiple of 32, and all of them take part. nvcc compiles this file; with MG_SHIM a C++ compiler
 * compiles it for the processor, after tests/cuda_shim/cuda_shim.h. */
#ifndef MG_CUDA_DEVICE_H
#define MG_CUDA_DEVICE_H

/* A program is linked with the toolkit that compiles its kernels. */
#if defined(__CUDACC_VER_MAJOR__) && 100 * __CUDACC_VER_MAJOR__ + __CUDACC_VER_MINOR__ < 1208
#error "programs of mgc need a CUDA Toolkit of version 12.8 or later"
#endif

#ifndef MG_SHIM              /* the shim is included before all else */
#pragma nv_diag_suppress 177 /* indices that no operand uses */
#define MG_EXPORT(kernel)
#define MG_SHARED(type, name, n) __shared__ type name[n]
#define MG_UNROLL                _Pragma("unroll") /* so that arrays become registers */
#define MG_PRAGMA(...)           _Pragma(#__VA_ARGS__)
#define MG_UNROLL_BY(n)          MG_PRAGMA(unroll(n))
#define MG_NO_UNROLL             _Pragma("unroll 1") /* to need fewer registers */
#endif

#include <math.h>
#include <stdint.h>

#define MG_ALL 0xffffffffu

/* ---- halves: stored as bits, computed as float -------------------------------------------- */

struct mg_bf16 {
    uint16_t bits;
};
struct mg_f16 {
    uint16_t bits;
};
struct mg_e4m3 {
    uint8_t bits;
};
struct mg_e5m2 {
    uint8_t bits;
};
struct mg_e8m0 {
    uint8_t bits;
};

/* The compute type of numbers of a type: mg_wider<mg_bf16>::type is float. */
template <class T> struct mg_wider {
    typedef T type;
};
template <> struct mg_wider<mg_bf16> {
    typedef float type;
};
template <> struct mg_wider<mg_f16> {
    typedef float type;
};
template <> struct mg_wider<mg_e4m3> {
    typedef float type;
};
template <> struct mg_wider<mg_e5m2> {
    typedef float type;
};
template <> struct mg_wider<mg_e8m0> {
    typedef float type;
};

__device__ static inline float mg_wide(float x)
{
    return x;
}
__device__ static inline double mg_wide(double x)
{
    return x;
}
__device__ static inline float mg_wide(mg_bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}
__device__ static inline float mg_wide(mg_f16 x)
{
#ifdef MG_SHIM
    return shim_from_f16(x.bits);
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#endif
}

/* Of fp8, as runtime/fp8.h has it: BITS of mantissa, a BIAS of the exponent, NaN from the code NANS
 * on. */
template <int BITS, int BIAS, int NANS> __device__ static inline float mg_wide_fp8(uint32_t code)
{
    const uint32_t sign = (code & 0x80) << 24, rest = code & 0x7f;
    const uint32_t normal = (rest << (23 - BITS)) + ((127 - BIAS) << 23);
    const float small = (float)rest * __uint_as_float((128 - BIAS - BITS) << 23);
    const uint32_t all = rest >> BITS ? normal : __float_as_uint(small);
    return __uint_as_float((rest >= NANS ? 0x7fc00000u : all) | sign);
}
__device__ static inline float mg_wide(mg_e4m3 x)
{
    return mg_wide_fp8<3, 7, 0x7f>(x.bits);
}
__device__ static inline float mg_wide(mg_e5m2 x)
{
    return (x.bits & 0x7f) == 0x7c ? __uint_as_float((x.bits & 0x80) << 24 | 0x7f800000u)
                                   : mg_wide_fp8<2, 15, 0x7d>(x.bits);
}

__device__ static inline float mg_wide(mg_e8m0 x)
{
    return __uint_as_float(x.bits == 255 ? 0x7fc00000u
                           : x.bits      ? (uint32_t)x.bits << 23
                                         : 0x00400000u);
}

/* For the ends of products; as the rows of ir/ops.def say, in their order. */
__device__ static inline float mg_gelu_tanh(float x)
{
    return 0.5f * x * (1 + tanhf(0.797884583f * (x + 0.0447149985f * x * x * x)));
}
__device__ static inline double mg_gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
__device__ static inline float mg_gelu_tanh_slope(float x)
{
    const float kx = 0.0447149985f * x, t = tanhf(0.797884583f * (x + kx * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * (0.797884583f * (1 + 3 * (kx * x)));
}
__device__ static inline double mg_gelu_tanh_slope(double x)
{
    const double kx = 0.044715 * x, t = tanh(0.7978845608028654 * (x + kx * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (0.7978845608028654 * (1 + 3 * (kx * x)));
}

/* Rounds to nearest, ties to even. */
template <class T> __device__ inline T mg_narrow(typename mg_wider<T>::type x)
{
    return x;
}
template <> __device__ inline mg_bf16 mg_narrow<mg_bf16>(float x)
{
    mg_bf16 y;
#ifdef MG_SHIM
    y.bits = shim_to_bf16(x);
#else
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#endif
    return y;
}
template <> __device__ inline mg_f16 mg_narrow<mg_f16>(float x)
{
    mg_f16 y;
#ifdef MG_SHIM
    y.bits = shim_to_f16(x);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#endif
    return y;
}

/* The largest number stands for all beyond it. The instruction rounds two numbers; a NaN has its
 * sign of the float. */
#ifdef MG_SHIM
#define MG_NARROW_FP8(name, bits_, bias, top) y.bits = shim_to_fp8(x, bits_, bias, top);
#else
#define MG_NARROW_FP8(name, bits_, bias, top)                                                      \
    uint16_t two;                                                                                  \
    asm("cvt.rn.satfinite." name "x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));            \
    y.bits = (uint8_t)(two | (__float_as_uint(x) >> 24 & 0x80));
#endif
template <> __device__ inline mg_e4m3 mg_narrow<mg_e4m3>(float x)
{
    mg_e4m3 y;
    MG_NARROW_FP8("e4m3", 3, 7, 0x43e00000u)
    return y;
}
template <> __device__ inline mg_e5m2 mg_narrow<mg_e5m2>(float x)
{
    mg_e5m2 y;
    MG_NARROW_FP8("e5m2", 2, 15, 0x47600000u)
    return y;
}
template <> __device__ inline mg_e8m0 mg_narrow<mg_e8m0>(float x)
{
    const uint32_t all = __float_as_uint(x) & 0x7fffffffu;
    const uint32_t code = (all >> 23) + ((all & 0x7fffffu) != 0);
    return mg_e8m0{(uint8_t)(all >= 0x7f800000u  ? 255
                             : all < 0x00800000u ? all > 0x00400000u
                             : code < 254        ? code
                                                 : 254)};
}

/* ---- random bits --------------------------------------------------------------------------- */

/* Philox4x32-10, as kernels/random.c has it. */
__device__ static inline void mg_philox_words(uint64_t block, uint64_t step, uint64_t key,
                                              uint32_t w[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)step,
             c3 = (uint32_t)(step >> 32), k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    MG_UNROLL
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    w[0] = c0, w[1] = c1, w[2] = c2, w[3] = c3;
}

/* A float rounded up or down at random, as mg_stochastic_bf16 in runtime/half.h says. */
__device__ static inline mg_bf16 mg_stochastic_bf16(float x, int32_t row, int32_t col, int64_t seed,
                                                    int64_t step, uint64_t key, int at)
{
    uint32_t w[4];
    mg_bf16 y;
    mg_philox_words((uint64_t)(uint32_t)row << 32 | (uint32_t)col / 4, (uint64_t)step,
                    (uint64_t)seed ^ key, w);
    const uint32_t word = col & 2 ? (col & 1 ? w[3] : w[2]) : (col & 1 ? w[1] : w[0]);
    const uint32_t bits = __float_as_uint(x), add = word >> 16 * at & 0xffff;
    y.bits = (uint16_t)(x != x ? bits >> 16 | 0x40 : (bits + add) >> 16);
    return y;
}

/* N elements that are read and written at once; their address is a multiple of their size. */
template <class T, int N> struct alignas(sizeof(T) * N) mg_vec {
    T x[N];
};

typedef mg_vec<uint64_t, 2> mg_word16;

template <class T> struct mg_plus {
    __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
/* a * b with a rounding of its own. Of a * b + c * d the compiler fuses either product with the
 * sum, as the text around it happens to be, and the same expression in the kernels of another
 * layout would have other bits. */
#ifdef MG_SHIM
__device__ static inline float mg_product(float a, float b)
{
    return a * b;
}
__device__ static inline double mg_product(double a, double b)
{
    return a * b;
}
#else
__device__ static inline float mg_product(float a, float b)
{
    return __fmul_rn(a, b);
}
__device__ static inline double mg_product(double a, double b)
{
    return __dmul_rn(a, b);
}
#endif

/* A NaN on either side gives a NaN, in any order of the numbers. */
template <class T> struct mg_greater {
    __device__ T operator()(T a, T b) const
    {
        return a != a ? a : b >= a || b != b ? b : a;
    }
};

template <class T, class F> __device__ static inline T mg_warp_reduce(T x, F f)
{
    for (int d = 16; d > 0; d /= 2)
        x = f(x, __shfl_xor_sync(MG_ALL, x, d));
    return x;
}

/* In a block of C columns (a power of two up to 32) and B / C slices, of N numbers each: reduces
 * the slices. Thread t gets number t / C of column t % C, as far as there are so many. */
template <int B, int C, int N, class T, class F>
__device__ static inline T mg_column_reduce(const T *x, F f)
{
    enum { WARPS = B / 32, ALL = C * N };
    MG_SHARED(T, part, WARPS * ALL);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x;
    MG_UNROLL
    for (int i = 0; i < N; i++) {
        T y = x[i];
        for (int d = 16; d >= C; d /= 2)
            y = f(y, __shfl_xor_sync(MG_ALL, y, d));
        if (lane < C)
            part[warp * ALL + i * C + lane] = y;
    }
    __syncthreads();
    T all = part[mine % ALL];
    for (int i = 1; i < WARPS; i++)
        all = f(all, part[i * ALL + mine % ALL]);
    __syncthreads(); /* before the next call uses `part` */
    return all;
}

template <int B, int C, int N, class T> __device__ static inline T mg_column_sum(const T *x)
{
    return mg_column_reduce<B, C, N>(x, mg_plus<T>());
}

template <int B, int C, int N, class T> __device__ static inline T mg_column_max(const T *x)
{
    return mg_column_reduce<B, C, N>(x, mg_greater<T>());
}

/* Reduces over the block; every thread gets the result. */
template <int B, class T, class F> __device__ static inline T mg_block_reduce(T x, F f)
{
    MG_SHARED(T, part, B / 32);
    x = mg_warp_reduce(x, f);
    if (B == 32)
        return x;
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    T all = part[0];
    for (int i = 1; i < B / 32; i++)
        all = f(all, part[i]);
    __syncthreads(); /* before the next call uses `part` */
    return all;
}

template <int B, class T> __device__ static inline T mg_block_sum(T x)
{
    return mg_block_reduce<B>(x, mg_plus<T>());
}

template <int B, class T> __device__ static inline T mg_block_max(T x)
{
    return mg_block_reduce<B>(x, mg_greater<T>());
}

#endif
