/* grouped.h - products of rows that are sorted by expert, in the tiles of conv.h: how many rows an
 * expert has is read on the GPU, so that a graph launches the same blocks in each step.
 *
 * Of grouped products each group has a block for each tile that there may be: a tile has rows of
 * one expert alone, so there are at most as many as fill all rows, and one more for each expert. A
 * block finds its expert by the ends; those that are left over end. Of a weight's gradient each
 * tile of each expert's matrix has a block, which goes through the groups in their order. */
#ifndef MG_CUDA_GROUPED_H
#define MG_CUDA_GROUPED_H

template <class E, bool TX, bool TW, int N>
__device__ static inline void grouped_product(const mg_grouped_desc &g, const mg_conv_desc &d,
                                              mg_conv_how h, const typename E::T *z,
                                              const typename E::T *w, const int32_t *end, void *y)
{
    enum { M = MG_CONV_ROWS };
    const unsigned across = (unsigned)(h.n + N - 1) / N, block = blockIdx.x / across;
    const unsigned each = (unsigned)h.m;
    const int64_t group = block / each;
    int tile = (int)(block % each), from = 0, to = 0;
    int64_t e = 0;
    for (; e <= g.experts; e++) { /* rows behind all experts' are zeros */
        from = to;
        to = e < g.experts ? end[group * g.experts + e] : (int)g.rows;
        const int tiles = (to - from + M - 1) / M;
        if (tile < tiles)
            break;
        tile -= tiles;
    }
    if (e > g.experts)
        return;
    const int64_t row = group * g.rows + from;
    h.m = to - from;
    if (e == g.experts)
        h.k = 0, e = 0;
    y = (char *)y + row * g.n * (h.wide_y ? sizeof(typename E::sum) : sizeof(typename E::T));
    conv_tile<E, TX, TW, N>(d, h, z + row * g.k, w + e * g.k * g.n, y, NULL, 0, tile * M,
                            (int)(blockIdx.x % across) * N, false);
}

template <class E, bool TX, bool TW, int N>
__device__ static inline void grouped_weight(const mg_grouped_desc &g, const mg_conv_desc &d,
                                             mg_conv_how h, const typename E::T *z,
                                             const typename E::T *y, const int32_t *end, void *w)
{
    enum { M = MG_CONV_ROWS, K = MG_CONV_TERM_BYTES / sizeof(typename E::T) };
    const unsigned across = (unsigned)(h.n + N - 1) / N, down = (unsigned)(h.m + M - 1) / M;
    const unsigned tile = blockIdx.x / across;
    const int64_t e = tile / down;
    bool adds = d.accumulate, before = false;
    w = (char *)w + e * g.k * g.n * (h.wide_y ? sizeof(typename E::sum) : sizeof(typename E::T));
    MG_NO_UNROLL
    for (int64_t group = 0; group < g.groups; group++) {
        const int32_t *last = end + group * g.experts + e;
        const int from = e ? last[-1] : 0;
        const int64_t row = group * g.rows + from;
        h.k = *last - from;
        h.steps = (h.k + K - 1) / K;
        if (!h.k && (adds || group + 1 < g.groups)) /* without rows in any group there are zeros */
            continue;
        if (before)
            __syncthreads(); /* the tiles of the group before are used */
        conv_tile<E, TX, TW, N>(d, h, z + row * g.k, y + row * g.n, w, NULL, 0,
                                (int)(tile % down) * M, (int)(blockIdx.x % across) * N, adds);
        adds = before = true;
    }
}

/* Kernels of these numbers: both operands as they lie, or turned, in tiles of N columns. A program
 * lists those that it calls after library.h. */
#define MG_GROUPED_KERNEL(name, of, n, x_, w_, N)                                                  \
    extern "C" __global__ void __launch_bounds__(MG_CONV_BLOCK, MG_CONV_NUMBERS_##n::BLOCKS)       \
        name##_##n##_##x_##_##w_##_##N(                                                            \
            mg_grouped_desc g, mg_conv_desc d, mg_conv_how h, const MG_CONV_NUMBERS_##n::T *x,     \
            const MG_CONV_NUMBERS_##n::T *w, const int32_t *end, void *y)                          \
    {                                                                                              \
        of<MG_CONV_NUMBERS_##n, MG_CONV_##x_, MG_CONV_##w_, N>(g, d, h, x, w, end, y);             \
    }                                                                                              \
    MG_EXPORT(name##_##n##_##x_##_##w_##_##N)
#define MG_GROUPED(n, x_, w_, N) MG_GROUPED_KERNEL(mg_grouped, grouped_product, n, x_, w_, N)
#define MG_GROUPED_WEIGHT(n, x_, w_, N)                                                            \
    MG_GROUPED_KERNEL(mg_grouped_weight, grouped_weight, n, x_, w_, N)

#ifdef MG_WITH_INSTANCES /* tests and benchmarks */
#define MG_GROUPED_columns(n, N)                                                                   \
    MG_GROUPED(n, plain, plain, N)                                                                 \
    MG_GROUPED(n, plain, turned, N)                                                                \
    MG_GROUPED_WEIGHT(n, plain, plain, N)                                                          \
    MG_GROUPED_WEIGHT(n, plain, turned, N)                                                         \
    MG_GROUPED_WEIGHT(n, turned, plain, N) MG_GROUPED_WEIGHT(n, turned, turned, N)
#define MG_GROUPED_floats(n) MG_GROUPED(n, plain, plain, 64) MG_GROUPED_WEIGHT(n, plain, plain, 64)
MG_GROUPED_columns(bf16, 64) MG_GROUPED_columns(bf16, 128) MG_GROUPED_columns(f16, 64)
    MG_GROUPED_columns(f16, 128) MG_GROUPED_floats(tf32) MG_GROUPED_floats(f32)
        MG_GROUPED_floats(f64)
#endif

#endif
