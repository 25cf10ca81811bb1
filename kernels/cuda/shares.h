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
    const int64_t down = gridDim.y / l.rows, right = gridDim.y % l.rows; /* shares and rows */
    int64_t share = blockIdx.y / l.rows, row = blockIdx.y % l.rows;
    while (share < l.count) {
        const int64_t whole = row * l.n * l.row, y = share * l.rows + row, of = l.first + share;
        const int64_t low = whole + of * (l.zigzag ? half : l.row);
        const int64_t high = whole + (2 * l.n - 1 - of) * half - half;
        for (int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; x < l.row; x += step) {
            const int64_t in = (l.zigzag && x >= half ? high : low) + x;
            if (l.cut)
                to[y * l.row + x] = from[in];
            else
                to[in] = from[y * l.row + x];
        }
        share += down;
        row += right;
        if (row >= l.rows) {
            row -= l.rows;
            share++;
        }
    }
}

/* to[e] = the sum of from[k * apart + e] over k < n: neighbours first, then those pairs, ...
 * waiting[i] is the sum of 2^i times four shares that waits for as many more, where bit i of the
 * number of fours is set. Its indices are constants, so that it is in registers. */
template <class T>
__device__ static inline void mg_sum_shares(int64_t n, int64_t apart, int64_t elements,
                                            const T *from, T *to)
{
    enum { LEVELS = 7 }; /* enough for MG_RANKS_MAX ranks */
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int fours = (int)n / 4, rest = (int)n % 4;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += step) {
        T waiting[LEVELS] = {0}, x[4] = {0};
        const T *at = from + e;
        for (int k = 0; k < fours; k++, at += 4 * apart) {
            MG_UNROLL
            for (int i = 0; i < 4; i++)
                x[i] = at[i * apart] + (T)0;
            T sum = (x[0] + x[1]) + (x[2] + x[3]);
            bool goes = true;
            MG_UNROLL
            for (int i = 0; i < LEVELS; i++) {
                if (goes && k >> i & 1)
                    sum = waiting[i] + sum;
                else if (goes) {
                    waiting[i] = sum;
                    goes = false;
                }
            }
        }
        MG_UNROLL
        for (int i = 0; i < 3; i++)
            if (i < rest)
                x[i] = at[i * apart] + (T)0;
        T sum = rest > 2 ? (x[0] + x[1]) + x[2] : rest > 1 ? x[0] + x[1] : x[0];
        bool none = rest == 0;
        MG_UNROLL
        for (int i = 0; i < LEVELS; i++)
            if (fours >> i & 1) {
                sum = none ? waiting[i] : waiting[i] + sum;
                none = false;
            }
        to[e] = sum;
    }
}

/* to[e] = the sum of from[k * apart + e] over k < n, in the order of k. Halves are added in f32 and
 * rounded once. */
template <class T>
__device__ static inline void mg_add_shares(int64_t n, int64_t apart, int64_t elements,
                                            const T *from, T *to)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += step) {
        auto sum = mg_wide(from[e]);
        for (int64_t k = 1; k < n; k++)
            sum = sum + mg_wide(from[k * apart + e]);
        to[e] = mg_narrow<T>(sum);
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

#define MG_ADD_SHARES(name, T)                                                                     \
    extern "C" __global__ void mg_add_shares_##name(int64_t n, int64_t apart, int64_t elements,    \
                                                    const T *from, T *to)                          \
    {                                                                                              \
        mg_add_shares(n, apart, elements, from, to);                                               \
    }                                                                                              \
    MG_EXPORT(mg_add_shares_##name)
MG_ADD_SHARES(f32, float)
MG_ADD_SHARES(f64, double)
MG_IF_BF16(MG_ADD_SHARES(bf16, mg_bf16))
MG_IF_F16(MG_ADD_SHARES(f16, mg_f16))

/* mark[0], in host memory, becomes `value`, and mark[1] counts. */
extern "C" __global__ void mg_mark(volatile uint32_t *mark, uint32_t value)
{
    mark[0] = value;
    mark[1] = mark[1] + 1;
    __threadfence_system();
}
MG_EXPORT(mg_mark)

#endif
