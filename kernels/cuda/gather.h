/* gather.h - copies rows of a table by index, and sums rows back into it. */
#ifndef MG_CUDA_GATHER_H
#define MG_CUDA_GATHER_H

__device__ static inline int64_t mg_index(const mg_gather_desc &d, const int32_t *index, int64_t i)
{
    return index[i / d.index_inner * d.index_outer + i % d.index_inner];
}

/* A thread copies an element of y[indices, outer, inner]. */
template <class T>
__device__ static inline void mg_gather_rows(const mg_gather_desc &d, const T *table,
                                             const int32_t *index, T *y)
{
    const int64_t all = d.indices * d.outer * d.inner, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step) {
        int64_t j = e % d.inner, o = e / d.inner % d.outer, i = e / d.inner / d.outer;
        y[e] = table[(o * d.n + mg_index(d, index, i)) * d.inner + j];
    }
}

/* Block (i, o): if i is the first with its index, the block adds the rows of all i with that index,
 * in their order, to the row of the table. Each row has one owner, so the bits are the same on any
 * device. */
template <class T>
__device__ static inline void mg_scatter_rows(const mg_gather_desc &d, const T *dy,
                                              const int32_t *index, T *dtable)
{
    enum { B = MG_SCATTER_BLOCK };
    MG_SHARED(uint8_t, same, B);
    const int64_t i = blockIdx.x, o = blockIdx.y, mine = mg_index(d, index, i);
    int earlier = 0;
    for (int64_t k = threadIdx.x; k < i; k += B)
        earlier |= mg_index(d, index, k) == mine;
    if (mg_block_max<B>(earlier))
        return;
    T *row = dtable + (o * d.n + mine) * d.inner;
    for (int64_t at = i; at < d.indices; at += B) {
        const int64_t k = at + threadIdx.x;
        same[threadIdx.x] = k < d.indices && mg_index(d, index, k) == mine;
        __syncthreads();
        for (int t = 0; t < B; t++)
            if (same[t])
                for (int64_t j = threadIdx.x; j < d.inner; j += B)
                    row[j] += dy[((at + t) * d.outer + o) * d.inner + j];
        __syncthreads();
    }
}

#define MG_GATHER(name, T)                                                                         \
    extern "C" __global__ void mg_gather_##name(mg_gather_desc d, const T *table,                  \
                                                const int32_t *index, T *y)                        \
    {                                                                                              \
        mg_gather_rows(d, table, index, y);                                                        \
    }                                                                                              \
    MG_EXPORT(mg_gather_##name)
#define MG_SCATTER(name, T)                                                                        \
    extern "C" __global__ void mg_scatter_add_##name(mg_gather_desc d, const T *dy,                \
                                                     const int32_t *index, T *dtable)              \
    {                                                                                              \
        mg_scatter_rows(d, dy, index, dtable);                                                     \
    }                                                                                              \
    MG_EXPORT(mg_scatter_add_##name)
MG_GATHER(1, uint8_t)
MG_GATHER(2, uint16_t)
MG_GATHER(4, uint32_t)
MG_GATHER(8, uint64_t)
MG_IF_F32(MG_SCATTER(f32, float))
MG_IF_F64(MG_SCATTER(f64, double))

#endif
