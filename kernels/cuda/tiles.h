/* tiles.h - rounds a matrix to fp8 with a scale for each tile, and gives it with its rows along
 * what a product sums, however it lay. A block has a patch of 128 columns: of one tile of as many
 * rows, or of 32 rows that are a tile each, or four with scales that are powers of two. It reads
 * the patch along the dim in which it lies densely, into shared memory, and writes words of four
 * numbers. */
#ifndef MG_CUDA_TILES_H
#define MG_CUDA_TILES_H

#if defined MG_WITH_TILES && !defined MG_SHIM &&                                                   \
    100 * __CUDACC_VER_MAJOR__ + __CUDACC_VER_MINOR__ < 1209
#error "products of fp8 with scales of tiles need a CUDA Toolkit of version 12.9 or later"
#endif

/* The scale of a tile whose largest number has these bits, without the sign. */
__device__ static inline float mg_tile_scale_of(double largest, uint32_t bits)
{
    const double top = (double)__uint_as_float(bits << 16);
    if (bits >= 0x7f80)
        return __uint_as_float(0x7fc00000u);
    return (float)(largest / (top > 1e-12 ? top : 1e-12));
}

/* Of a tile with these bits: what its numbers are multiplied by to be those of the matrix. */
__device__ static inline mg_e8m0 mg_tile_power(double largest, uint32_t bits)
{
    const float unit = __uint_as_float(bits << 16) * (float)(1 / largest);
    return bits >= 0x7f80 ? mg_e8m0{255} : mg_narrow<mg_e8m0>(unit);
}

/* The scales of a patch, as the product reads them: tile number `tile` of `wide` across, from `row`
 * on. */
template <int HIGH, int SIDE, int EACH>
__device__ static inline void mg_write_scales(const mg_round_tiles_desc &d, const uint32_t *part,
                                              float *f, int64_t row, int rows, int64_t tile,
                                              int64_t wide)
{
    const int t = (int)threadIdx.x;
    const int64_t all = (wide + 3) / 4 * 4; /* as mg_round_tiles_row has it for squares */
    if (HIGH == 1 && t < rows)
        f[tile * d.rows + row + t] = 1 / mg_tile_scale_of(d.largest, part[t * EACH]);
    if (HIGH > 1 && t == 0)
        f[row / HIGH * all + tile] = 1 / mg_tile_scale_of(d.largest, part[0]);
    for (int64_t i = tile + 1; HIGH > 1 && t == 0 && tile == wide - 1 && i < all; i++)
        f[row / HIGH * all + i] = 0;
}

/* Those of mx, in the block of 128 rows and 4 tiles that they are of (mg_block_place of the ABI);
 * the last patch fills its block up. */
template <int HIGH, int SIDE, int EACH>
__device__ static inline void mg_write_scales(const mg_round_tiles_desc &d, const uint32_t *part,
                                              mg_e8m0 *f, int64_t row, int rows, int64_t tile,
                                              int64_t wide)
{
    const int left = d.columns - tile * SIDE * 32 < SIDE * 32
                         ? ((int)(d.columns - tile * SIDE * 32) + 31) / 32
                         : SIDE; /* tiles of a row that are there */
    const int first = (int)(row % 128);
    const int last = row + MG_TILES_ROWS_HIGH < d.rows ? first + MG_TILES_ROWS_HIGH : 128;
    mg_e8m0 *to = &f[(row / 128 * wide + tile) * 512];
    for (int i = (int)threadIdx.x; i < (last - first) * SIDE; i += MG_TILES_BLOCK) {
        const int r = first + i / SIDE, c = i % SIDE;
        const bool there = i / SIDE < rows && c < left;
        to[r % 32 * 16 + r / 32 * 4 + c] =
            there ? mg_tile_power(d.largest, part[i * EACH]) : mg_e8m0{0};
    }
}

/* Tiles of HIGH rows and ACROSS columns, in a patch of P rows. F: of scales. */
template <int HIGH, int ACROSS, int P, class T, class F>
__device__ static inline void mg_round_patch(const mg_round_tiles_desc &d, const mg_bf16 *x, T *q,
                                             F *f)
{
    enum {
        B = MG_TILES_BLOCK,
        WIDE = 128,
        APART = WIDE + 2,
        SIDE = WIDE / ACROSS, /* tiles of a row of the patch */
        EACH = B / (P / HIGH * SIDE)
    };
    MG_SHARED(uint16_t, patch, P *APART);
    MG_SHARED(uint32_t, part, B);
    const int t = (int)threadIdx.x;
    const int64_t wide = (d.columns + WIDE - 1) / WIDE, tile = blockIdx.x % wide;
    const int64_t row = blockIdx.x / wide * P, column = tile * WIDE;
    const int rows = (int)(d.rows - row < P ? d.rows - row : (int64_t)P);
    const int columns = (int)(d.columns - column < WIDE ? d.columns - column : (int64_t)WIDE);
    const bool across = d.row_stride == 1;
    for (int i = t; i < P * WIDE; i += B) {
        const int r = across ? i % P : i / WIDE, c = across ? i / P : i % WIDE;
        const bool there = r < rows && c < columns;
        patch[r * APART + c] =
            there ? x[(row + r) * d.row_stride + (column + c) * d.column_stride].bits : 0;
    }
    __syncthreads();
    uint32_t top = 0; /* EACH threads look through a tile */
    const int down = t / EACH / SIDE * HIGH, aside = t / EACH % SIDE * ACROSS;
    for (int i = t % EACH; i < HIGH * ACROSS; i += EACH) {
        const uint32_t bits = patch[(down + i / ACROSS) * APART + aside + i % ACROSS] & 0x7fffu;
        top = bits > top ? bits : top;
    }
    part[t] = top;
    __syncthreads();
    for (int s = EACH / 2; s > 0; s /= 2) {
        if (t % EACH < s && part[t + s] > part[t])
            part[t] = part[t + s];
        __syncthreads();
    }
    for (int i = t; i < P * WIDE / 4; i += B) {
        const int r = i / (WIDE / 4), c = i % (WIDE / 4) * 4;
        const uint32_t bits = part[(r / HIGH * SIDE + c / ACROSS) * EACH];
        const float s = SIDE > 1 ? 1 / mg_wide(mg_tile_power(d.largest, bits))
                                 : mg_tile_scale_of(d.largest, bits);
        T *to = &q[(row + r) * d.columns + column + c];
        mg_vec<T, 4> word;
        MG_UNROLL
        for (int k = 0; k < 4; k++)
            word.x[k] = mg_narrow<T>(__uint_as_float((uint32_t)patch[r * APART + c + k] << 16) * s);
        if (r < rows && d.columns % 4 == 0 && c < columns)
            *(mg_vec<T, 4> *)to = word;
        for (int k = 0; k < 4 && d.columns % 4 && r < rows && c + k < columns; k++)
            to[k] = word.x[k];
    }
    mg_write_scales<HIGH, SIDE, EACH>(d, part, f, row, rows, tile, wide);
}

#define MG_ROUND_TILES(name, T)                                                                    \
    extern "C" __global__ void __launch_bounds__(MG_TILES_BLOCK, 1)                                \
        mg_round_rows_##name(mg_round_tiles_desc d, const mg_bf16 *x, T *q, float *f)              \
    {                                                                                              \
        mg_round_patch<1, 128, MG_TILES_ROWS_HIGH>(d, x, q, f);                                    \
    }                                                                                              \
    MG_EXPORT(mg_round_rows_##name)                                                                \
    extern "C" __global__ void __launch_bounds__(MG_TILES_BLOCK, 1)                                \
        mg_round_squares_##name(mg_round_tiles_desc d, const mg_bf16 *x, T *q, float *f)           \
    {                                                                                              \
        mg_round_patch<128, 128, 128>(d, x, q, f);                                                 \
    }                                                                                              \
    MG_EXPORT(mg_round_squares_##name)                                                             \
    extern "C" __global__ void __launch_bounds__(MG_TILES_BLOCK, 1)                                \
        mg_round_mx_##name(mg_round_tiles_desc d, const mg_bf16 *x, T *q, mg_e8m0 *f)              \
    {                                                                                              \
        mg_round_patch<1, 32, MG_TILES_ROWS_HIGH>(d, x, q, f);                                     \
    }                                                                                              \
    MG_EXPORT(mg_round_mx_##name)
MG_ROUND_TILES(e4m3, mg_e4m3)
MG_ROUND_TILES(e5m2, mg_e5m2)

#endif
