/* floats.h - f32 as numbers of flash.h: products in float32, or on the tensor cores with operands
 * rounded to tf32. Tiles and fragments are those of mma.h; a chunk is four numbers.
 *
 * Fragments (PTX ISA, mma.m16n8k8), with g = lane / 4 and t = lane % 4:
 *   a[0..3]   rows g and g + 8 of column t; the same of column t + 4
 *   b[0..1]   column g of rows t and t + 4
 *   c[0..3]   as of mma.m16n8k16 */
#ifndef MG_CUDA_FLOATS_H
#define MG_CUDA_FLOATS_H

#ifdef MG_SHIM
/* To 10 bits, ties away from zero; an infinity or a NaN stays one. */
__device__ static inline uint32_t mg_tf32(uint32_t x)
{
    return (x & 0x7f800000) == 0x7f800000 ? x : (x + 0x1000) & ~0x1fffu;
}
__device__ static inline void mg_mma_tf32(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    uint64_t first[32], second[32], of_b[32];
    shim_everyone((uint64_t)a[1] << 32 | a[0], first, __LINE__);
    shim_everyone((uint64_t)a[3] << 32 | a[2], second, __LINE__);
    shim_everyone((uint64_t)b1 << 32 | b0, of_b, __LINE__);
    const unsigned g = shim_lane / 4, t = shim_lane % 4;
    for (unsigned i = 0; i < 4; i++) {
        double sum = c[i];
        for (unsigned k = 0; k < 8; k++) {
            /* No `(k < 4 ? first : second)[...]`: gcc 12 with -fsanitize=shift takes another place.
             */
            const unsigned place = 4 * g + k % 4;
            const uint64_t pair = k < 4 ? first[place] : second[place];
            const uint64_t other = of_b[4 * (2 * t + i % 2) + k % 4];
            sum += (double)__uint_as_float((uint32_t)(pair >> (i < 2 ? 0 : 32))) *
                   (double)__uint_as_float((uint32_t)(other >> (k < 4 ? 0 : 32)));
        }
        c[i] = (float)sum;
    }
}
#else
__device__ static inline uint32_t mg_tf32(uint32_t x)
{
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
}
__device__ static inline void mg_mma_tf32(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

/* Rounds four registers. */
__device__ static inline void mg_tf32_all(uint32_t r[4])
{
    MG_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = mg_tf32(r[i]);
}
__device__ static inline uint32_t mg_tf32_of(float x)
{
    return mg_tf32(__float_as_uint(x));
}

/* A number of a tile of D columns. */
template <int D>
__device__ static inline float mg_float_of(const mg_chunk *tile, int row, int column)
{
    return ((const float *)&tile[mg_tile_at<D / 4, 4>(row, column / 4)])[column % 4];
}
typedef mg_vec<float, 4> mg_four;
template <int D>
__device__ static inline mg_four mg_four_of(const mg_chunk *tile, int row, int chunk)
{
    return *(const mg_four *)&tile[mg_tile_at<D / 4, 4>(row, chunk)];
}

/* As mg_tile_load. Unless all rows are `whole`, which is to say that they begin at multiples of 16
 * bytes and have a multiple of four columns, numbers are copied one by one. */
template <int D, int ROWS, int THREADS>
__device__ static inline void mg_float_load(mg_chunk *tile, const float *from, int64_t stride,
                                            int valid, int width, bool whole)
{
    if (whole) {
        mg_tile_load<D, ROWS, THREADS>(tile, from, stride, valid, width);
        return;
    }
    MG_NO_UNROLL
    for (int i = (int)threadIdx.x; i < ROWS * D; i += THREADS) {
        const int row = i / D, column = i % D;
        const bool there = row < valid && column < width;
        mg_copy_word((float *)&tile[mg_tile_at<D / 4, 4>(row, column / 4)] + column % 4,
                     from + (there ? row * stride + column : 0), there);
    }
}

/* Float32. A lane has two rows and the columns of fragments of the scores, and reads four terms of
 * each at a time; of sums it has rows g and g + 8, columns 16j + 4t .. 16j + 4t + 3 (in sum[2j] the
 * first two), because it reads four of those at a time too. */
struct mg_floats {
    typedef float type;
    enum { EXACT = 1 };
    template <int D, int ROWS, int THREADS>
    __device__ static void load(mg_chunk *tile, const float *from, int64_t stride, int valid,
                                int width, bool whole)
    {
        mg_float_load<D, ROWS, THREADS>(tile, from, stride, valid, width, whole);
    }
    template <int D, int ROWS>
    __device__ static void tile_times_transposed(float (*c)[4], const mg_chunk *first, int row,
                                                 const mg_chunk *tile)
    {
        const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
        MG_UNROLL
        for (int j = 0; j < ROWS / 8; j++)
            c[j][0] = c[j][1] = c[j][2] = c[j][3] = 0;
        MG_UNROLL_BY(D > 96 ? 2 : 4) /* to need fewer registers */
        for (int k = 0; k < D / 4; k++) {
            const mg_four a0 = mg_four_of<D>(first, row + g, k);
            const mg_four a1 = mg_four_of<D>(first, row + g + 8, k);
            MG_UNROLL
            for (int j = 0; j < ROWS / 8; j++) {
                MG_UNROLL
                for (int i = 0; i < 2; i++) {
                    const mg_four b = mg_four_of<D>(tile, 8 * j + 2 * t + i, k);
                    MG_UNROLL
                    for (int n = 0; n < 4; n++) {
                        c[j][i] += a0.x[n] * b.x[n];
                        c[j][i + 2] += a1.x[n] * b.x[n];
                    }
                }
            }
        }
    }
    template <int D, int ROWS>
    __device__ static void add_times(float (*sum)[4], const float (*x)[4], const mg_chunk *tile)
    {
        const int lane = (int)threadIdx.x % 32, t = lane % 4;
        MG_UNROLL
        for (int k = 0; k < ROWS; k++) {
            const int from = lane - t + k % 8 / 2; /* who has the column */
            const float a0 = __shfl_sync(MG_ALL, x[k / 8][k % 2], from);
            const float a1 = __shfl_sync(MG_ALL, x[k / 8][k % 2 + 2], from);
            MG_UNROLL
            for (int j = 0; j < D / 16; j++) {
                const mg_four b = mg_four_of<D>(tile, k, 4 * j + t);
                MG_UNROLL
                for (int i = 0; i < 4; i++) {
                    sum[2 * j + i / 2][i % 2] += a0 * b.x[i];
                    sum[2 * j + i / 2][i % 2 + 2] += a1 * b.x[i];
                }
            }
        }
    }
    template <int D>
    __device__ static void store(float *to, int64_t stride, int valid, const float (*c)[4],
                                 float by0, float by1, int width)
    {
        const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
        float *const at0 = to + g * stride + 4 * t, *const at1 = at0 + 8 * stride;
        const int left0 = g < valid ? width - 4 * t : 0, left1 = g + 8 < valid ? width - 4 * t : 0;
        MG_UNROLL
        for (int j = 0; j < D / 16; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++) {
                if (16 * j + i < left0)
                    at0[16 * j + i] = c[2 * j + i / 2][i % 2] * by0;
                if (16 * j + i < left1)
                    at1[16 * j + i] = c[2 * j + i / 2][i % 2 + 2] * by1;
            }
        }
    }
};

/* Tf32. Fragments of the first operand and of transposed tiles come as those of halves do: eight
 * rows of four numbers are eight rows of 16 bytes. A product is the first operand of another as it
 * is, if its column 2t counts as k = t and 2t + 1 as t + 4: the sum over k has no order. */
struct mg_tf32s {
    typedef float type;
    enum { EXACT = 0 };
    template <int D, int ROWS, int THREADS>
    __device__ static void load(mg_chunk *tile, const float *from, int64_t stride, int valid,
                                int width, bool whole)
    {
        mg_float_load<D, ROWS, THREADS>(tile, from, stride, valid, width, whole);
    }
    template <int D, int ROWS>
    __device__ static void tile_times_transposed(float (*c)[4], const mg_chunk *first, int row,
                                                 const mg_chunk *tile)
    {
        const int lane = (int)threadIdx.x % 32;
        MG_UNROLL
        for (int j = 0; j < ROWS / 8; j++)
            c[j][0] = c[j][1] = c[j][2] = c[j][3] = 0;
        MG_UNROLL_BY(4)
        for (int k = 0; k < D / 8; k++) {
            uint32_t a[4], b[4];
            mg_load_matrices(a, &first[mg_tile_at<D / 4, 4>(row + lane % 16, 2 * k + lane / 16)]);
            mg_tf32_all(a);
            MG_UNROLL
            for (int n = 0; n < ROWS / 16; n++) {
                mg_load_matrices(b, &tile[mg_tile_at<D / 4, 4>(16 * n + lane % 8 + lane / 16 * 8,
                                                               2 * k + lane / 8 % 2)]);
                mg_tf32_all(b);
                mg_mma_tf32(c[2 * n], a, b[0], b[1]);
                mg_mma_tf32(c[2 * n + 1], a, b[2], b[3]);
            }
        }
    }
    template <int D, int ROWS>
    __device__ static void add_times(float (*sum)[4], const float (*x)[4], const mg_chunk *tile)
    {
        const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
        MG_UNROLL
        for (int k = 0; k < ROWS / 8; k++) {
            const uint32_t a[] = {mg_tf32_of(x[k][0]), mg_tf32_of(x[k][2]), mg_tf32_of(x[k][1]),
                                  mg_tf32_of(x[k][3])};
            MG_UNROLL
            for (int j = 0; j < D / 8; j++)
                mg_mma_tf32(sum[j], a, mg_tf32_of(mg_float_of<D>(tile, 8 * k + 2 * t, 8 * j + g)),
                            mg_tf32_of(mg_float_of<D>(tile, 8 * k + 2 * t + 1, 8 * j + g)));
        }
    }
    template <int D>
    __device__ static void store(float *to, int64_t stride, int valid, const float (*c)[4],
                                 float by0, float by1, int width)
    {
        const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
        float *const at0 = to + g * stride + 2 * t, *const at1 = at0 + 8 * stride;
        const int left0 = g < valid ? width - 2 * t : 0, left1 = g + 8 < valid ? width - 2 * t : 0;
        MG_UNROLL
        for (int j = 0; j < D / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 2; i++) {
                if (8 * j + i < left0)
                    at0[8 * j + i] = c[j][i] * by0;
                if (8 * j + i < left1)
                    at1[8 * j + i] = c[j][i + 2] * by1;
            }
        }
    }
};

#endif
