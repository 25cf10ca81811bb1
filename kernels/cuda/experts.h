/* experts.h - finds the largest of a few scores, and moves rows to experts and back. */
#ifndef MG_CUDA_EXPERTS_H
#define MG_CUDA_EXPERTS_H

/* True if number a at index `at` precedes b at `bt`: larger first, of equal ones the first, NaN
 * last. */
template <class T> __device__ static inline bool mg_before(T a, int64_t at, T b, int64_t bt)
{
    if (a != a || b != b)
        return (a != a) == (b != b) ? at < bt : b != b;
    return a > b || (a == b && at < bt);
}

/* A thread computes a row: each iteration takes the first number after the one taken before. */
template <class T>
__device__ static inline void mg_top_rows(const mg_top_desc &d, const T *x, int32_t *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; r < d.rows; r += step) {
        const T *row = x + r * d.n;
        int64_t last = -1;
        for (int64_t k = 0; k < d.top; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < d.n; i++)
                if (i != last && (last < 0 || mg_before(row[last], last, row[i], i)) &&
                    (best < 0 || mg_before(row[i], i, row[best], best)))
                    best = i;
            y[r * d.top + k] = (int32_t)best;
            last = best;
        }
    }
}

/* A warp counts the choices of a group from `first` on that are below e: FLIGHT of a lane are in
 * flight. */
__device__ static inline int64_t mg_choices_below(const int32_t *choice, int64_t all, int64_t first,
                                                  int64_t e)
{
    enum { FLIGHT = 8 };
    const int64_t lane = threadIdx.x % 32;
    int n = 0;
    for (int64_t from = 0; from < all; from += 32 * FLIGHT) {
        MG_UNROLL
        for (int k = 0; k < FLIGHT; k++)
            if (from + 32 * k + lane < all) {
                const int64_t other = choice[from + 32 * k + lane];
                n += other >= first && other < e;
            }
    }
    MG_UNROLL
    for (int apart = 16; apart; apart /= 2)
        n += __shfl_xor_sync(MG_ALL, n, apart);
    return n;
}

/* A warp counts the choices of one expert of a group: 32 choices at a time, with a ballot; FLIGHT
 * times as many are in flight. Its slots begin behind those of the experts before it in its home.
 */
extern "C" __global__ void __launch_bounds__(MG_SLOTS_BLOCK, 1)
    mg_slots_i32(mg_experts_desc d, const int32_t *choice, int32_t *slot)
{
    enum { FLIGHT = 8 };
    const int64_t all = d.positions * d.choices, lane = threadIdx.x % 32;
    const int64_t unit = (int64_t)blockIdx.x * (MG_SLOTS_BLOCK / 32) + threadIdx.x / 32;
    if (unit >= d.groups * d.experts)
        return;
    const int64_t e = unit % d.experts, first = unit / d.experts * all;
    const int64_t each = d.experts / d.homes, before = e / each * each;
    int64_t next = before < e ? mg_choices_below(choice + first, all, before, e) : 0;
    int32_t some[FLIGHT];
    for (int64_t from = 0; from < all; from += 32 * FLIGHT) {
        MG_UNROLL
        for (int k = 0; k < FLIGHT; k++)
            some[k] = from + 32 * k + lane < all ? choice[first + from + 32 * k + lane] : -1;
        MG_UNROLL
        for (int k = 0; k < FLIGHT; k++) {
            const bool mine = some[k] == e;
            const unsigned those = __ballot_sync(MG_ALL, mine);
            const int64_t at = next + __popc(those & ((1u << lane) - 1));
            if (mine)
                slot[first + from + 32 * k + lane] = at < d.slots ? (int32_t)at : -1;
            next += __popc(those);
        }
    }
}
MG_EXPORT(mg_slots_i32)

/* A warp counts the choices of the experts of a home up to one, of a group. */
extern "C" __global__ void __launch_bounds__(MG_SLOTS_BLOCK, 1)
    mg_ends_i32(mg_experts_desc d, const int32_t *choice, int32_t *end)
{
    const int64_t all = d.positions * d.choices;
    const int64_t unit = (int64_t)blockIdx.x * (MG_SLOTS_BLOCK / 32) + threadIdx.x / 32;
    if (unit >= d.groups * d.experts)
        return;
    const int64_t each = d.experts / d.homes, home = unit / each / d.groups,
                  group = unit / each % d.groups, first = home * each;
    const int64_t n = mg_choices_below(choice + group * all, all, first, first + unit % each + 1);
    if (threadIdx.x % 32 == 0)
        end[unit] = (int32_t)(n < d.slots ? n : d.slots);
}
MG_EXPORT(mg_ends_i32)

/* The group of number i of `each` in a group; blocks are numbered in 32 bits. */
__device__ static inline uint32_t mg_group_of(uint32_t i, int64_t each)
{
    return i < each ? 0 : i / (uint32_t)each;
}

/* The row of z of choice c (counted over all groups), of a group; -1: none. */
__device__ static inline int64_t mg_row_of(const mg_experts_desc &d, const int32_t *choice,
                                           const int32_t *slot, int64_t c, uint32_t group)
{
    const int64_t e = choice[c], s = slot[c];
    if (e < 0 || e >= d.experts || s < 0 || s >= d.slots)
        return -1;
    const uint32_t each = (uint32_t)(d.experts / d.homes);
    return ((int64_t)((uint32_t)e / each) * d.groups + group) * d.slots + s;
}

/* True if rows on both sides begin at multiples of 16 bytes, and can be copied so. */
template <class T>
__device__ static inline bool mg_rows_in_chunks(const mg_experts_desc &d, const T *a, const T *b)
{
    return d.inner * sizeof(T) % 16 == 0 && ((uintptr_t)a | (uintptr_t)b) % 16 == 0;
}

/* The position and the group of choice c. */
struct mg_sender {
    int64_t position;
    uint32_t group;
};
__device__ static inline mg_sender mg_sender_of(const mg_experts_desc &d, uint32_t c)
{
    const uint32_t position = mg_group_of(c, d.choices);
    return mg_sender{position, mg_group_of(position, d.positions)};
}

template <int N, class T, class W>
__device__ static inline void mg_send_by(int64_t n, const T *from, const W *weight, T *to)
{
    const W factor = weight ? *weight : (W)1;
    W x[N];
    for (int64_t j = threadIdx.x * N; j < n; j += MG_EXPERTS_BLOCK * N) {
        mg_read<N>(&from[j], x);
        MG_UNROLL
        for (int i = 0; i < N; i++)
            x[i] *= factor;
        mg_write<N>(&to[j], x);
    }
}

/* Block c copies the row of its position to its slot, times its weight. */
template <class T, class W>
__device__ static inline void mg_send(const mg_experts_desc &d, const T *rows,
                                      const int32_t *choice, const int32_t *slot, const W *weight,
                                      T *z)
{
    const mg_sender s = mg_sender_of(d, blockIdx.x);
    const int64_t row = mg_row_of(d, choice, slot, blockIdx.x, s.group);
    if (row < 0)
        return;
    const T *from = rows + s.position * d.inner;
    const W *mine = weight ? weight + blockIdx.x : weight;
    if (mg_rows_in_chunks(d, rows, z))
        mg_send_by<16 / sizeof(T)>(d.inner, from, mine, z + row * d.inner);
    else
        mg_send_by<1>(d.inner, from, mine, z + row * d.inner);
}

template <int N, class T, class W>
__device__ static inline void mg_fetch_by(const mg_experts_desc &d, const T *z,
                                          const int32_t *choice, const int32_t *slot,
                                          const W *weight, T *rows)
{
    const int64_t p = blockIdx.x;
    const uint32_t group = mg_group_of(blockIdx.x, d.positions);
    for (int64_t j = threadIdx.x * N; j < d.inner; j += MG_EXPERTS_BLOCK * N) {
        W sum[N] = {0}, x[N];
        for (int64_t c = p * d.choices; c < (p + 1) * d.choices; c++) {
            const int64_t row = mg_row_of(d, choice, slot, c, group);
            if (row < 0)
                continue;
            mg_read<N>(&z[row * d.inner + j], x);
            const W factor = weight ? weight[c] : (W)1;
            MG_UNROLL
            for (int i = 0; i < N; i++)
                sum[i] += x[i] * factor;
        }
        mg_write<N>(&rows[p * d.inner + j], sum);
    }
}

/* Block p sums the rows of its choices, in their order. */
template <class T, class W>
__device__ static inline void mg_fetch(const mg_experts_desc &d, const T *z, const int32_t *choice,
                                       const int32_t *slot, const W *weight, T *rows)
{
    if (mg_rows_in_chunks(d, z, rows))
        mg_fetch_by<16 / sizeof(T)>(d, z, choice, slot, weight, rows);
    else
        mg_fetch_by<1>(d, z, choice, slot, weight, rows);
}

template <int N, class W, class T>
__device__ static inline W mg_row_product_by(int64_t n, const T *a, const T *b)
{
    W sum = 0, x[N], y[N];
    for (int64_t j = threadIdx.x * N; j < n; j += MG_EXPERTS_BLOCK * N) {
        mg_read<N>(&a[j], x);
        mg_read<N>(&b[j], y);
        MG_UNROLL
        for (int i = 0; i < N; i++)
            sum += x[i] * y[i];
    }
    return sum;
}

/* Block c computes the product of its row and its slot. */
template <class T, class W>
__device__ static inline void mg_row_product(const mg_experts_desc &d, const T *z, const T *rows,
                                             const int32_t *choice, const int32_t *slot, W *weight)
{
    const mg_sender s = mg_sender_of(d, blockIdx.x);
    const int64_t row = mg_row_of(d, choice, slot, blockIdx.x, s.group);
    const int64_t n = row >= 0 ? d.inner : 0;
    const T *a = z + (row >= 0 ? row : 0) * d.inner, *b = rows + s.position * d.inner;
    W sum = mg_rows_in_chunks(d, z, rows) ? mg_row_product_by<16 / sizeof(T), W>(n, a, b)
                                          : mg_row_product_by<1, W>(n, a, b);
    sum = mg_block_sum<MG_EXPERTS_BLOCK>(sum);
    if (threadIdx.x == 0)
        weight[blockIdx.x] = sum;
}

#define MG_TOP(name, T)                                                                            \
    extern "C" __global__ void mg_top_##name(mg_top_desc d, const T *x, int32_t *y)                \
    {                                                                                              \
        mg_top_rows(d, x, y);                                                                      \
    }                                                                                              \
    MG_EXPORT(mg_top_##name)
#define MG_EXPERTS(name, T, W)                                                                     \
    extern "C" __global__ void __launch_bounds__(MG_EXPERTS_BLOCK, 1)                              \
        mg_dispatch_##name(mg_experts_desc d, const T *rows, const int32_t *choice,                \
                           const int32_t *slot, const W *weight, T *z)                             \
    {                                                                                              \
        mg_send(d, rows, choice, slot, weight, z);                                                 \
    }                                                                                              \
    MG_EXPORT(mg_dispatch_##name)                                                                  \
    extern "C" __global__ void __launch_bounds__(MG_EXPERTS_BLOCK, 1)                              \
        mg_combine_##name(mg_experts_desc d, const T *z, const int32_t *choice,                    \
                          const int32_t *slot, const W *weight, T *rows)                           \
    {                                                                                              \
        mg_fetch(d, z, choice, slot, weight, rows);                                                \
    }                                                                                              \
    MG_EXPORT(mg_combine_##name)                                                                   \
    extern "C" __global__ void __launch_bounds__(MG_EXPERTS_BLOCK, 1)                              \
        mg_combine_weight_##name(mg_experts_desc d, const T *z, const T *rows,                     \
                                 const int32_t *choice, const int32_t *slot, W *weight)            \
    {                                                                                              \
        mg_row_product(d, z, rows, choice, slot, weight);                                          \
    }                                                                                              \
    MG_EXPORT(mg_combine_weight_##name)
MG_IF_F32(MG_TOP(f32, float))
MG_IF_F64(MG_TOP(f64, double))
MG_IF_F32(MG_EXPERTS(f32, float, float))
MG_IF_F64(MG_EXPERTS(f64, double, double))
MG_IF_BF16(MG_EXPERTS(bf16, mg_bf16, float))
MG_IF_F16(MG_EXPERTS(f16, mg_f16, float))

#endif
