/* gather.h - copies rows of a table by index, and puts rows into one. */
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

/* A row of `inner` words W, by lanes 2^log of a warp, of which four words are in flight. Where rows
 * are very long, blockIdx.y is a part of each. */
template <class W>
__device__ static inline void mg_copy_row(const mg_gather_desc &d, int log, const W *from, W *to)
{
    enum { EACH = 4 };
    const int lanes = 1 << log, step = lanes * (int)gridDim.y;
    W some[EACH] = {};
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

/* The row of [indices, outer] that these lanes have, and its place among the tables' rows; a place
 * below 0: there is none. */
struct mg_moved_row {
    int64_t row, place;
};

__device__ static inline mg_moved_row mg_row_moved(const mg_gather_desc &d, int log,
                                                   const int32_t *index)
{
    const int64_t row = ((int64_t)blockIdx.x * MG_GATHER_BLOCK + threadIdx.x) >> log;
    int64_t i = row, o = 0;
    if (d.outer > 1) {
        i = row / d.outer;
        o = row - i * d.outer;
    }
    if (i >= d.indices)
        return mg_moved_row{row, -1};
    const int64_t t = d.tables > 1 ? (uint32_t)i / (uint32_t)(d.indices / d.tables) : 0;
    const int32_t n = (int32_t)mg_index(d, index, (uint32_t)i);
    return mg_moved_row{row, n < 0 ? -1 : (t * d.outer + o) * d.n + n};
}

template <class W>
__device__ static inline void mg_gather_rows(const mg_gather_desc &d, int log, const W *table,
                                             const int32_t *index, W *y)
{
    const mg_moved_row m = mg_row_moved(d, log, index);
    if (m.place >= 0)
        mg_copy_row(d, log, table + m.place * d.inner, y + m.row * d.inner);
}

template <class W>
__device__ static inline void mg_put_rows(const mg_gather_desc &d, int log, const W *x,
                                          const int32_t *index, W *table)
{
    const mg_moved_row m = mg_row_moved(d, log, index);
    if (m.place >= 0)
        mg_copy_row(d, log, x + m.row * d.inner, table + m.place * d.inner);
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

#define MG_PUT(bytes, W)                                                                           \
    extern "C" __global__ void __launch_bounds__(MG_GATHER_BLOCK, 1)                               \
        mg_put_##bytes(mg_gather_desc d, int log, const W *x, const int32_t *index, W *table)      \
    {                                                                                              \
        mg_put_rows(d, log, x, index, table);                                                      \
    }                                                                                              \
    MG_EXPORT(mg_put_##bytes)
MG_PUT(1, uint8_t)
MG_PUT(2, uint16_t)
MG_PUT(4, uint32_t)
MG_PUT(8, uint64_t)
MG_PUT(16, mg_word16)

#endif
