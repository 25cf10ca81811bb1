/* random.h - draws random tensors with Philox4x32-10: the same numbers as kernels/random.c, which
 * has the definition. */
#ifndef MG_CUDA_RANDOM_H
#define MG_CUDA_RANDOM_H

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

/* A thread computes the four words of a block of Philox, of which the first and the last block of
 * a tensor have perhaps not all. */
template <class T>
__device__ static inline void mg_draw(const mg_random_desc &d, const int64_t *seed,
                                      const int64_t *step, const int32_t *slot, T *out)
{
    const uint64_t key = d.key ^ (uint64_t)*seed, at = (uint64_t)*step;
    const uint64_t first = (uint64_t)*slot * (uint64_t)d.elements;
    const int before = (int)(first % 4); /* words of block 0 that are not of this tensor */
    const int64_t blocks = (d.elements + before + 3) / 4;
    const bool whole = (uintptr_t)(out - before) % sizeof(mg_vec<T, 4>) == 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < blocks;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t w[4];
        mg_vec<T, 4> x;
        mg_philox_words(first / 4 + (uint64_t)i, at, key, w);
        MG_UNROLL
        for (int k = 0; k < 4; k++)
            x.x[k] = (T)(w[k] >> 8) * (T)(1.0 / 16777216);
        const int64_t e = 4 * i - before;
        if (whole && e >= 0 && e + 4 <= d.elements) {
            *(mg_vec<T, 4> *)&out[e] = x;
            continue;
        }
        MG_UNROLL
        for (int k = 0; k < 4; k++)
            if (e + k >= 0 && e + k < d.elements)
                out[e + k] = x.x[k];
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
