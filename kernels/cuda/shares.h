/* shares.h - the parts of collectives other than sending: packs a rank's share of a tensor into one
 * piece of memory or unpacks it, sums shares in a fixed order, and tells the host how far the GPU
 * has come. */
#ifndef MG_CUDA_SHARES_H
#define MG_CUDA_SHARES_H

/* Shares first, first + 1, ... first + count - 1 of n: one after another in `pieces`, and at their
 * places in `tensor`. A row of the tensor has the rows of all shares next to each other; with
 * zigzag, the first half of share r is the r-th of 2n parts and its second half the (2n - 1 -
 * r)-th. A block in y takes rows one after another. */
struct mg_laying {
    int64_t first, count, n, rows, row; /* row: in words */
    int zigzag, cut;                    /* cut: pieces = tensor, else tensor = pieces */
};

template <class W> __device__ static inline void mg_lay(const mg_laying &l, W *to, const W *from)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x, half = l.row / 2;
    for (int64_t y = blockIdx.y; y < l.count * l.rows; y += gridDim.y) {
        const int64_t share = l.first + y / l.rows, whole = y % l.rows * l.n * l.row;
        const int64_t low = whole + share * (l.zigzag ? half : l.row);
        const int64_t high = whole + (2 * l.n - 1 - share) * half - half;
        for (int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; x < l.row; x += step) {
            const int64_t in = (l.zigzag && x >= half ? high : low) + x;
            if (l.cut)
                to[y * l.row + x] = from[in];
            else
                to[in] = from[y * l.row + x];
        }
    }
}

/* to[e] = the sum of from[k * apart + e] over k < n: neighbours first, then those pairs, ... */
template <class T>
__device__ static inline void mg_sum_shares(int64_t n, int64_t apart, int64_t elements,
                                            const T *from, T *to)
{
    enum { LEVELS = 10 }; /* enough for MG_RANKS_MAX ranks */
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += step) {
        T waiting[LEVELS] = {from[e] + (T)0};
        int top = 1;
        for (int64_t k = 1; k < n; k++, top++) {
            waiting[top] = from[k * apart + e] + (T)0;
            for (int64_t pairs = k; pairs & 1; pairs >>= 1, top--)
                waiting[top - 1] += waiting[top];
        }
        for (; top > 1; top--)
            waiting[top - 2] += waiting[top - 1];
        to[e] = waiting[0];
    }
}

#define MG_LAY(bytes, W)                                                                           \
    extern "C" __global__ void mg_lay_##bytes(mg_laying l, W *to, const W *from)                   \
    {                                                                                              \
        mg_lay(l, to, from);                                                                       \
    }                                                                                              \
    MG_EXPORT(mg_lay_##bytes)
MG_LAY(1, uint8_t)
MG_LAY(2, uint16_t)
MG_LAY(4, uint32_t)
MG_LAY(8, uint64_t)
MG_LAY(16, mg_word16)

#define MG_SUM_SHARES(name, T)                                                                     \
    extern "C" __global__ void mg_sum_shares_##name(int64_t n, int64_t apart, int64_t elements,    \
                                                    const T *from, T *to)                          \
    {                                                                                              \
        mg_sum_shares(n, apart, elements, from, to);                                               \
    }                                                                                              \
    MG_EXPORT(mg_sum_shares_##name)
MG_SUM_SHARES(f32, float)
MG_SUM_SHARES(f64, double) /* norms and losses of every program */

/* mark[0], in host memory, becomes `value`, and mark[1] counts. */
extern "C" __global__ void mg_mark(volatile uint32_t *mark, uint32_t value)
{
    mark[0] = value;
    mark[1] = mark[1] + 1;
    __threadfence_system();
}
MG_EXPORT(mg_mark)

#endif
