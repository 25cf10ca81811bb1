/* scatter.h - sums rows into the rows of a table that indices name.
 *
 * The positions of the indices are sorted by table and index, and equal ones stay in order: a radix
 * sort of up to MG_SORT_BITS bits a pass. Then each run of equal indices has one owner, which adds
 * the rows of the run to the row of the table, one after another. So the work is linear in the
 * indices, and the bits are the same on any device and those of a loop over the indices.
 *
 * A pass cuts the positions into tiles, a warp each. mg_sort_count counts the digits of each tile,
 * mg_sort_scan adds up the counts of each digit over the tiles, and mg_sort_place puts each
 * position where its digit, its tile and its place in the tile say. The counts are
 * [digits, tiles], then the totals of the digits. */
#ifndef MG_CUDA_SCATTER_H
#define MG_CUDA_SCATTER_H

/* A position and its row, the row in the high half: rows are counted over the tables. */
typedef uint64_t mg_placed;

/* The row that position i adds to. */
__device__ static inline uint32_t mg_row_of(const mg_gather_desc &d, const int32_t *index,
                                            uint32_t i)
{
    const uint32_t n = mg_index(d, index, i);
    return d.tables > 1 ? i / (uint32_t)(d.indices / d.tables) * (uint32_t)d.n + n : n;
}

/* The lanes whose x is that of this lane. */
__device__ static inline unsigned mg_lanes_like(unsigned x)
{
#ifdef MG_SHIM
    uint64_t all[32];
    unsigned like = 0;
    shim_everyone(x, all, __LINE__);
    for (int lane = 0; lane < 32; lane++)
        like |= (unsigned)(all[lane] == x) << lane;
    return like;
#else
    return __match_any_sync(MG_ALL, x);
#endif
}

/* The sum of x of the lanes before this one; *all: of all lanes. */
__device__ static inline uint32_t mg_warp_before(uint32_t x, uint32_t *all)
{
    const int lane = (int)(threadIdx.x % 32);
    uint32_t sum = x;
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t before = __shfl_sync(MG_ALL, sum, lane - d < 0 ? 0 : lane - d);
        sum += lane >= d ? before : 0;
    }
    *all = __shfl_sync(MG_ALL, sum, 31);
    return sum - x;
}

/* Calls visit(position and index, rank) for each position of a tile; the rank of the first with a
 * digit is next[digit], of each other one more. from is NULL in the first pass. */
template <class F>
__device__ static inline void mg_tile_each(const mg_gather_desc &d, int shift, int bits,
                                           int64_t tile, const int32_t *index,
                                           const mg_placed *from, uint32_t *next, F visit)
{
    const unsigned lane = threadIdx.x % 32, none = 1u << bits;
    for (int round = 0; round < MG_SORT_TILE; round += 32) {
        const int64_t at = tile * MG_SORT_TILE + round + lane;
        const bool there = at < d.indices;
        mg_placed x = 0;
        if (there)
            x = from ? from[at] : (mg_placed)mg_row_of(d, index, (uint32_t)at) << 32 | (uint32_t)at;
        const unsigned digit = there ? (unsigned)(x >> 32 >> shift) & (none - 1) : none;
        const unsigned like = mg_lanes_like(digit), before = __popc(like & ((1u << lane) - 1));
        const uint32_t first = next[digit];
        __syncwarp();
        if (before == 0)
            next[digit] = first + __popc(like);
        __syncwarp();
        if (there)
            visit(x, first + before);
    }
}

struct mg_visit_none {
    __device__ void operator()(mg_placed, uint32_t) const
    {
    }
};
struct mg_visit_place {
    mg_placed *to;
    __device__ void operator()(mg_placed x, uint32_t rank) const
    {
        to[rank] = x;
    }
};

/* This warp's counters, one more than there are digits, and its tile. */
#define MG_SORT_COUNTERS(name, tile)                                                               \
    MG_SHARED(uint32_t, name##_of_all, MG_SORT_WARPS * ((1 << MG_SORT_BITS) + 1));                 \
    uint32_t *name = name##_of_all + threadIdx.x / 32 * ((1 << MG_SORT_BITS) + 1);                 \
    const int64_t tile = (int64_t)blockIdx.x * MG_SORT_WARPS + threadIdx.x / 32

extern "C" __global__ void __launch_bounds__(32 * MG_SORT_WARPS, 1)
    mg_sort_count(mg_gather_desc d, int shift, int bits, int64_t tiles, const int32_t *index,
                  const mg_placed *from, uint32_t *counts)
{
    MG_SORT_COUNTERS(next, tile);
    if (tile >= tiles)
        return;
    for (int digit = (int)(threadIdx.x % 32); digit <= 1 << bits; digit += 32)
        next[digit] = 0;
    __syncwarp();
    mg_tile_each(d, shift, bits, tile, index, from, next, mg_visit_none());
    for (int digit = (int)(threadIdx.x % 32); digit < 1 << bits; digit += 32)
        counts[digit * tiles + tile] = next[digit];
}
MG_EXPORT(mg_sort_count)

/* A warp has a digit: its counts become the sums over the tiles before, and its total is stored. */
extern "C" __global__ void __launch_bounds__(32 * MG_SORT_WARPS, 1)
    mg_sort_scan(int bits, int64_t tiles, uint32_t *counts)
{
    const int digit = (int)(blockIdx.x * MG_SORT_WARPS + threadIdx.x / 32);
    uint32_t sum = 0, all, *mine = counts + digit * tiles;
    if (digit >= 1 << bits)
        return;
    for (int64_t t = threadIdx.x % 32; t - threadIdx.x % 32 < tiles; t += 32) {
        const uint32_t before = mg_warp_before(t < tiles ? mine[t] : 0, &all);
        if (t < tiles)
            mine[t] = sum + before;
        sum += all;
    }
    if (threadIdx.x % 32 == 0)
        counts[((int64_t)1 << bits) * tiles + digit] = sum;
}
MG_EXPORT(mg_sort_scan)

extern "C" __global__ void __launch_bounds__(32 * MG_SORT_WARPS, 1)
    mg_sort_place(mg_gather_desc d, int shift, int bits, int64_t tiles, const int32_t *index,
                  const mg_placed *from, const uint32_t *counts, mg_placed *to)
{
    MG_SORT_COUNTERS(next, tile);
    if (tile >= tiles)
        return;
    const uint32_t *total = counts + ((int64_t)1 << bits) * tiles;
    uint32_t sum = 0, all;
    for (int first = 0; first < 1 << bits; first += 32) {
        const int digit = first + (int)(threadIdx.x % 32);
        const bool is = digit < 1 << bits;
        const uint32_t before = mg_warp_before(is ? total[digit] : 0, &all);
        if (is)
            next[digit] = sum + before + counts[digit * tiles + tile];
        sum += all;
    }
    __syncwarp();
    mg_tile_each(d, shift, bits, tile, index, from, next, mg_visit_place{to});
}
MG_EXPORT(mg_sort_place)

/* ---- the sums ------------------------------------------------------------------------------- */

/* The run that begins at sorted[at]: adds its rows of dy to *row, in their order. A lane has N
 * columns, from dy and row on, unless there are no more (`idle`); MG_FLIGHT rows are in flight. */
template <int N, class T>
__device__ static inline void mg_add_run(const mg_placed *sorted, int64_t at, int64_t n,
                                         int64_t pitch, bool idle, const T *dy, T *row)
{
    enum { FLIGHT = 8 };
    typedef mg_vec<T, N> some;
    const uint32_t lane = threadIdx.x % 32, key = (uint32_t)(sorted[at] >> 32);
    some sum = {}, x[FLIGHT] = {};
    if (!idle)
        sum = *(const some *)row;
    for (int many = 32; many == 32; at += 32) {
        const bool there = at + lane < n;
        const mg_placed mine = there ? sorted[at + lane] : 0;
        many = __popc(__ballot_sync(MG_ALL, there && (uint32_t)(mine >> 32) == key));
        for (int t = 0; t < many; t += FLIGHT) {
            MG_UNROLL
            for (int k = 0; k < FLIGHT; k++) {
                const uint32_t i = __shfl_sync(MG_ALL, (uint32_t)mine, (t + k) % 32);
                if (t + k < many && !idle)
                    x[k] = *(const some *)(dy + i * pitch);
            }
            MG_UNROLL
            for (int k = 0; k < FLIGHT; k++)
                if (t + k < many)
                    for (int c = 0; c < N; c++)
                        sum.x[c] += x[k].x[c];
        }
    }
    if (!idle)
        *(some *)row = sum;
}

/* A warp has 32 sorted positions and 32 N columns of an outer index: it owns the runs that begin
 * there. Warps are counted over the positions first. */
template <int N, class T>
__device__ static inline void mg_scatter_by(const mg_gather_desc &d, const mg_placed *sorted,
                                            const T *dy, T *dtable)
{
    const uint32_t lane = threadIdx.x % 32, tiles = (uint32_t)((d.indices + 31) / 32);
    const int64_t unit = (int64_t)blockIdx.x * (MG_SCATTER_BLOCK / 32) + threadIdx.x / 32;
    const uint32_t strips = (uint32_t)((d.inner + 32 * N - 1) / (32 * N));
    const int64_t y = unit / tiles, first = (unit - y * tiles) * 32, o = y / strips;
    if (o >= d.outer)
        return;
    const int64_t j = (y - o * strips) * 32 * N + lane * N, at = first + lane;
    const bool idle = j >= d.inner;
    const uint32_t key = at < d.indices ? (uint32_t)(sorted[at] >> 32) : 0;
    const bool head = at < d.indices && (at == 0 || (uint32_t)(sorted[at - 1] >> 32) != key);
    const T *from = dy + o * d.inner + (idle ? 0 : j);
    for (unsigned heads = __ballot_sync(MG_ALL, head); heads; heads &= heads - 1) {
        const int h = __popc((heads & -heads) - 1); /* the first of them */
        const int64_t n = __shfl_sync(MG_ALL, key, h);
        const int64_t t = d.tables > 1 ? (uint32_t)n / (uint32_t)d.n : 0;
        T *row = dtable + ((t * (d.outer - 1) + o) * d.n + n) * d.inner + (idle ? 0 : j);
        mg_add_run<N>(sorted, first + h, d.indices, d.outer * d.inner, idle, from, row);
    }
}

/* `wide`: the rows of both begin at multiples of 16 bytes. */
#define MG_SCATTER(name, T)                                                                        \
    extern "C" __global__ void __launch_bounds__(MG_SCATTER_BLOCK, 1) mg_scatter_add_##name(       \
        mg_gather_desc d, int wide, const mg_placed *sorted, const T *dy, T *dtable)               \
    {                                                                                              \
        if (wide)                                                                                  \
            mg_scatter_by<16 / sizeof(T)>(d, sorted, dy, dtable);                                  \
        else                                                                                       \
            mg_scatter_by<1>(d, sorted, dy, dtable);                                               \
    }                                                                                              \
    MG_EXPORT(mg_scatter_add_##name)
MG_IF_F32(MG_SCATTER(f32, float))
MG_IF_F64(MG_SCATTER(f64, double))

#endif
