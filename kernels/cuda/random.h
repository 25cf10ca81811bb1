/* random.h - draws random tensors with Philox4x32-10: the same numbers as kernels/random.c, which
 * has the definition. */
#ifndef MG_CUDA_RANDOM_H
#define MG_CUDA_RANDOM_H

__device__ static inline uint32_t mg_philox_word(uint64_t block, uint64_t step, uint64_t key,
                                                 int word)
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)step,
             c3 = (uint32_t)(step >> 32), k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}

template <class T>
__device__ static inline void mg_draw(const mg_random_desc &d, const int64_t *seed,
                                      const int64_t *step, const int32_t *slot, T *out)
{
    const uint64_t key = d.key ^ (uint64_t)*seed;
    const uint64_t first = (uint64_t)*slot * (uint64_t)d.elements;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < d.elements;
         e += (int64_t)gridDim.x * blockDim.x) {
        const uint64_t g = first + (uint64_t)e;
        const uint32_t w = mg_philox_word(g / 4, (uint64_t)*step, key, (int)(g % 4));
        out[e] = (T)(w >> 8) * (T)(1.0 / 16777216);
    }
}

#define MG_RANDOM(name, T)                                                                         \
    extern "C" __global__ void mg_random_##name(mg_random_desc d, const int64_t *seed,             \
                                                const int64_t *step, const int32_t *slot, T *out)  \
    {                                                                                              \
        mg_draw(d, seed, step, slot, out);                                                         \
    }                                                                                              \
    MG_EXPORT(mg_random_##name)
MG_IF_F32(MG_RANDOM(f32, float))
MG_IF_F64(MG_RANDOM(f64, double))

#endif
