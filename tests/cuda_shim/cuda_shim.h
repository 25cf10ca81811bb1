/* cuda_shim.h - enough of CUDA's C++ to compile kernels for the processor and run them there.
 *
 * The threads of a block are fibers; blocks run one after another, in an order that a seed decides,
 * and so do the warps of a block between two barriers: a kernel that forgets a barrier computes
 * something else under some seed. Lanes of a warp meet at every shuffle. Shared memory (MG_SHARED)
 * is allocated to the byte for each block and filled with 0xff: the address sanitizer sees what is
 * beside it, and no block sees what another left.
 *
 * C++, for kernels; shim.h is the C interface that launches them. */
#ifndef CUDA_SHIM_H
#define CUDA_SHIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__    __restrict
#define __launch_bounds__(...)
#define MG_UNROLL
#define MG_UNROLL_BY(n)
#define MG_NO_UNROLL
#define MG_SHARED(type, name, n)                                                                   \
    static char shim_key_##name;                                                                   \
    type *name = (type *)shim_shared(&shim_key_##name, sizeof(type) * (n))

struct shim_uint3 {
    unsigned x, y, z;
};

/* Of the thread that runs. */
struct shim_thread {
    shim_uint3 thread, block, block_dim, grid_dim;
};
extern "C" shim_thread *shim_self;
#define threadIdx (shim_self->thread)
#define blockIdx  (shim_self->block)
#define blockDim  (shim_self->block_dim)
#define gridDim   (shim_self->grid_dim)

extern "C" void *shim_shared(const void *key, size_t bytes);
extern "C" void shim_sync_block(int line);
/* All lanes of `mask` come here with eight bytes each; gets those of lane `from`. */
extern "C" uint64_t shim_exchange(unsigned mask, uint64_t mine, unsigned from, int line);

/* All lanes of a warp come here; all[0..32) are what they came with. */
extern "C" void shim_everyone(uint64_t mine, uint64_t all[32], int line);
/* A copy to shared memory that is done when its group is waited for; from == NULL: zeros. Until
 * then its place holds NaN. */
extern "C" void shim_copy_later(void *to, const void *from, size_t bytes);
extern "C" void shim_copy_commit();
extern "C" void shim_copy_wait(int groups);

/* The shared memory that a launch asked for, from a multiple of 1 KiB on; the address that a thread
 * has of a byte of it, below 2^18, and the byte at one. */
extern "C" void *shim_shared_all();
extern "C" unsigned shim_shared_address(const void *p);
extern "C" const void *shim_shared_at(unsigned address);

/* A product of a warpgroup, what of it this thread has: f(sums, what, thread) is called at some
 * time until its group is waited for, after those that were issued before. `what` is copied; until
 * then the n sums are NaN. Groups begin with shim_group_begin; who looks at sums says so. */
extern "C" void shim_group_begin();
extern "C" void shim_group_issue(float *sums, int n, void (*f)(float *, const void *, unsigned),
                                 const void *what, size_t bytes);
extern "C" void shim_group_commit();
extern "C" void shim_group_wait(int groups);
extern "C" void shim_group_settled(const float *sums);

#define __syncthreads()        shim_sync_block(__LINE__)
#define __threadfence_system() ((void)0) /* one thread runs them all */
#define __syncwarp(...)        ((void)shim_exchange(0xffffffffu, 0, 0, __LINE__))

template <class T> static inline T shim_shuffle(unsigned mask, T x, unsigned from, int line)
{
    static_assert(sizeof(T) <= 8, "lanes exchange numbers");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &x, sizeof x);
    bits = shim_exchange(mask, bits, from, line);
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
#define shim_lane                   (threadIdx.x % 32)
#define __shfl_xor_sync(mask, x, d) shim_shuffle(mask, x, shim_lane ^ (unsigned)(d), __LINE__)
#define __shfl_down_sync(mask, x, d)                                                               \
    shim_shuffle(mask, x, shim_lane + (d) < 32 ? shim_lane + (d) : shim_lane, __LINE__)
#define __shfl_sync(mask, x, lane) shim_shuffle(mask, x, (unsigned)(lane) % 32, __LINE__)

static inline unsigned shim_ballot(unsigned mask, bool mine, int line)
{
    unsigned all = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        all |= (unsigned)shim_shuffle(mask, (int)mine, lane, line) << lane;
    return all;
}
#define __ballot_sync(mask, mine) shim_ballot(mask, mine, __LINE__)
#define __popc(x)                 __builtin_popcount(x)

/* ---- numbers ------------------------------------------------------------------------------ */

static inline float __uint_as_float(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t shim_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof x);
    return bits;
}
#define __float_as_uint(x) shim_bits(x)
/* To nearest, ties to even; a NaN stays one. */
static inline uint16_t shim_to_bf16(float x)
{
    uint32_t u = shim_bits(x);
    return (uint16_t)(x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline uint16_t shim_to_f16(float x)
{
    uint32_t u = shim_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a >= 0x47800000) /* 65536, infinities, NaN */
        return (uint16_t)(sign | (a > 0x7f800000 ? 0x7fff : 0x7c00));
    if (a < 0x38800000) { /* below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to */
        float y = __uint_as_float(a) + 0.5f;
        return (uint16_t)(sign | (shim_bits(y) - 0x3f000000));
    }
    return (uint16_t)(sign | ((a + 0xfff + (a >> 13 & 1)) - 0x38000000) >> 13);
}
/* To a number of 8 bits, `bits` of mantissa, of at most `top`, which are the bits of a float. */
static inline uint8_t shim_to_fp8(float x, int bits, int bias, uint32_t top)
{
    const uint32_t u = shim_bits(x), sign = u >> 24 & 0x80,
                   one = (uint32_t)(151 - bias - bits) << 23;
    const int shift = 23 - bits;
    uint32_t a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    a = a < top ? a : top;
    if (a >> 23 < (uint32_t)(128 - bias)) /* a multiple of the least number, as for halves */
        return (uint8_t)(sign | (shim_bits(__uint_as_float(a) + __uint_as_float(one)) - one));
    a += (1u << (shift - 1)) - 1 + (a >> shift & 1);
    return (uint8_t)(sign | (a - ((uint32_t)(127 - bias) << 23)) >> shift);
}
static inline float shim_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = h & 0x7fff;
    float y = a >= 0x7c00  ? __uint_as_float(0x7f800000 | (a & 0x3ff) << 13)
              : a >= 0x400 ? __uint_as_float((a << 13) + 0x38000000)
                           : (float)a * 0x1p-24f;
    return __uint_as_float(shim_bits(y) | sign);
}

/* ---- launching ---------------------------------------------------------------------------- */

/* sizes: of the arguments, as many as n. */
extern "C" void shim_export(const char *name, void (*call)(void **args), int n,
                            const size_t *sizes);

template <size_t... I> struct shim_indices {
};
template <size_t N, size_t... I> struct shim_upto : shim_upto<N - 1, N - 1, I...> {
};
template <size_t... I> struct shim_upto<0, I...> {
    typedef shim_indices<I...> type;
};
template <class... A, size_t... I>
static inline void shim_call(void (*f)(A...), void **args, shim_indices<I...>)
{
    f(*(A *)args[I]...);
}
template <class... A> static inline void shim_apply(void (*f)(A...), void **args)
{
    shim_call(f, args, typename shim_upto<sizeof...(A)>::type());
}
template <class... A>
static inline void shim_export_as(const char *name, void (*call)(void **), void (*)(A...))
{
    static const size_t sizes[] = {sizeof(A)...};
    shim_export(name, call, (int)sizeof...(A), sizes);
}
#define MG_EXPORT(kernel)                                                                          \
    static struct shim_exporter_##kernel {                                                         \
        static void call(void **args)                                                              \
        {                                                                                          \
            shim_apply(kernel, args);                                                              \
        }                                                                                          \
        shim_exporter_##kernel()                                                                   \
        {                                                                                          \
            shim_export_as(#kernel, call, kernel);                                                 \
        }                                                                                          \
    } shim_exporter_of_##kernel;

#endif
