/* gather.h - copies rows of a table by index. */
#ifndef MG_CUDA_GATHER_H
#define MG_CUDA_GATHER_H

/* Index number i; i and the sizes are below 2^31. Dense indices need no division. */
__device__ static inline uint32_t mg_index(const mg_gather_desc &d, const int32_t *index,
                                           uint32_t i)
{
    if (i < d.index_inner)
        return (uint32_t)index[i];
    const uint32_t inner = (uint32_t)d.index_inner, outer = i / inner;
    return (uint32_t)index[outer * d.index_outer + (i - outer * inner)];
}

/* Lanes 2^log of a warp copy a row of y[indices, outer, inner], of `inner` words W. Where rows are
 * very long, blockIdx.y is a part of each. A lane has four words in flight. */
template <class W>
__device__ static inline void mg_gather_rows(const mg_gather_desc &d, int log, const W *table,
                                             const int32_t *index, W *y)
{
    enum { EACH = 4 };
    const int lanes = 1 << log, step = lanes * (int)gridDim.y;
    const int64_t row = ((int64_t)blockIdx.x * MG_GATHER_BLOCK + threadIdx.x) >> log;
    int64_t i = row, o = 0;
    if (d.outer > 1) {
        i = row / d.outer;
        o = row - i * d.outer;
    }
    if (i >= d.indices)
        return;
    const int64_t t = d.tables > 1 ? (uint32_t)i / (uint32_t)(d.indices / d.tables) : 0;
    const W *from = table + ((t * d.outer + o) * d.n + mg_index(d, index, (uint32_t)i)) * d.inner;
    W *to = y + row * d.inner, some[EACH] = {};
    int64_t j = (int64_t)blockIdx.y * lanes + (threadIdx.x & (lanes - 1));
    for (; j < d.inner; j += EACH * step) {
        MG_UNROLL
        for (int k = 0; k < EACH; k++)
            if (j + k * step < d.inner)
                some[k] = from[j + k * step];
        MG_UNROLL
        for (int k = 0; k < EACH; k++)
            if (j + k * step < d.inner)
                to[j + k * step] = some[k];
    }
}

#define MG_GATHER(bytes, W)                                                                        \
    extern "C" __global__ void __launch_bounds__(MG_GATHER_BLOCK, 1)                               \
        mg_gather_##bytes(mg_gather_desc d, int log, const W *table, const int32_t *index, W *y)   \
    {                                                                                              \
        mg_gather_rows(d, log, table, index, y);                                                   \
    }                                                                                              \
    MG_EXPORT(mg_gather_##bytes)
MG_GATHER(1, uint8_t)
MG_GATHER(2, uint16_t)
MG_GATHER(4, uint32_t)
MG_GATHER(8, uint64_t)
MG_GATHER(16, mg_word16)

#endif
