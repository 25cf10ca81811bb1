/* random.h - draws random tensors with Philox4x32-10: the same numbers as kernels/random.c, which
 * has the definition. */
#ifndef MG_CUDA_RANDOM_H
#define MG_CUDA_RANDOM_H

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
