/* mma.h - the tensor cores of sm_80 and later: asynchronous 16-byte copies to shared memory, loads
 * of matrices from there into the registers of a warp, and their product.
 *
 * A tile is ROWS rows of D halves in shared memory, in chunks of 16 bytes. Chunk c of row r is at
 * chunk c ^ (r % 8), so that the eight rows of a matrix are in different banks.
 *
 * Fragments (PTX ISA, mma.m16n8k16), with g = lane / 4 and t = lane % 4:
 *   a[0..3]   rows g and g + 8 of columns 2t, 2t + 1; the same of columns 2t + 8, 2t + 9
 *   b[0..1]   column g of rows 2t, 2t + 1; of rows 2t + 8, 2t + 9
 *   c[0..3]   row g, columns 2t, 2t + 1; row g + 8 */
#ifndef MG_CUDA_MMA_H
#define MG_CUDA_MMA_H

struct alignas(16) mg_chunk {
    uint32_t x[4];
};

#ifdef MG_SHIM
/* The shim copies at the wait; until then the target is NaN. */
__device__ static inline void mg_copy_async(mg_chunk *to, const void *from, bool there)
{
    shim_copy_later(to, there ? from : NULL, sizeof *to);
}
__device__ static inline void mg_copy_word(float *to, const float *from, bool there)
{
    shim_copy_later(to, there ? from : NULL, sizeof *to);
}
__device__ static inline void mg_copy_commit()
{
    shim_copy_commit();
}
template <int N> __device__ static inline void mg_copy_wait()
{
    shim_copy_wait(N);
}

__device__ static inline void mg_load_matrices(uint32_t r[4], const mg_chunk *row)
{
    uint64_t all[32];
    shim_everyone((uint64_t)row, all, __LINE__);
    for (unsigned i = 0; i < 4; i++)
        r[i] = ((const mg_chunk *)all[8 * i + shim_lane / 4])->x[shim_lane % 4];
}
__device__ static inline void mg_load_matrices_turned(uint32_t r[4], const mg_chunk *row)
{
    uint64_t all[32];
    shim_everyone((uint64_t)row, all, __LINE__);
    for (unsigned i = 0; i < 4; i++) {
        r[i] = 0;
        for (unsigned k = 0; k < 2; k++) {
            const mg_chunk *from = (const mg_chunk *)all[8 * i + 2 * (shim_lane % 4) + k];
            r[i] |= (uint32_t)((const uint16_t *)from)[shim_lane / 4] << 16 * k;
        }
    }
}

template <class T> static inline float shim_half(uint64_t pair, unsigned k)
{
    T x;
    x.bits = (uint16_t)(pair >> 16 * k);
    return mg_wide(x);
}

template <class T>
__device__ static inline void mg_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    uint64_t low[32], high[32], of_b[32];
    shim_everyone((uint64_t)a[0] << 32 | a[1], low, __LINE__);
    shim_everyone((uint64_t)a[2] << 32 | a[3], high, __LINE__);
    shim_everyone((uint64_t)b1 << 32 | b0, of_b, __LINE__);
    const unsigned g = shim_lane / 4, t = shim_lane % 4;
    for (unsigned i = 0; i < 4; i++) {
        double sum = c[i];
        const unsigned row = i / 2, column = 2 * t + i % 2; /* row: 0 for g, 1 for g + 8 */
        for (unsigned k = 0; k < 16; k++) {
            const unsigned lane = k % 8 / 2, half = k % 2;
            const uint64_t pair = (k < 8 ? low : high)[4 * g + lane];
            sum += (double)shim_half<T>(pair >> (row ? 0 : 32), half) *
                   (double)shim_half<T>(of_b[4 * column + lane] >> (k < 8 ? 0 : 32), half);
        }
        c[i] = (float)sum;
    }
}
#else
__device__ static inline unsigned mg_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}
/* Copies sixteen bytes, or zeros if there is nothing to copy. */
__device__ static inline void mg_copy_async(mg_chunk *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(mg_shared_address(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
__device__ static inline void mg_copy_word(float *to, const float *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(mg_shared_address(to)),
                 "l"(from), "r"(there ? 4 : 0)
                 : "memory");
}
__device__ static inline void mg_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until all groups but the last N have arrived, for this thread. */
template <int N> __device__ static inline void mg_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Loads four matrices of 8 x 8; lane l points to row l % 8 of matrix l / 8. */
__device__ static inline void mg_load_matrices(uint32_t r[4], const mg_chunk *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(mg_shared_address(row))
                 : "memory");
}
__device__ static inline void mg_load_matrices_turned(uint32_t r[4], const mg_chunk *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(mg_shared_address(row))
                 : "memory");
}

/* c += a b. */
template <class T>
__device__ static inline void mg_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
#define MG_MMA(T, name)                                                                            \
    template <>                                                                                    \
    __device__ inline void mg_mma<T>(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)    \
    {                                                                                              \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "                \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));              \
    }
MG_MMA(mg_bf16, "bf16")
MG_MMA(mg_f16, "f16")
#endif

/* ---- tiles -------------------------------------------------------------------------------- */

template <int D> __device__ static inline int mg_tile_at(int row, int chunk)
{
    return row * (D / 8) + (chunk ^ (row & 7));
}

/* Copies the first `valid` rows from global memory, at a stride of `stride` elements, and zeros
 * behind them. All THREADS of the block call it; the rows are there after each thread has waited
 * and the block has synchronised. */
template <int D, int ROWS, int THREADS, class T>
__device__ static inline void mg_tile_load(mg_chunk *tile, const T *from, int64_t stride, int valid)
{
    MG_NO_UNROLL
    for (int i = (int)threadIdx.x; i < ROWS * (D / 8); i += THREADS) {
        const int row = i / (D / 8), chunk = i % (D / 8);
        const bool there = row < valid;
        mg_copy_async(&tile[mg_tile_at<D>(row, chunk)],
                      from + (there ? row : 0) * stride + chunk * 8, there);
    }
}

/* Loads rows [row, row + 16), columns [column, column + 16) as the first operand. */
template <int D>
__device__ static inline void mg_tile_a(uint32_t a[4], const mg_chunk *tile, int row, int column)
{
    const int lane = (int)threadIdx.x % 32;
    mg_load_matrices(a, &tile[mg_tile_at<D>(row + lane % 16, column / 8 + lane / 16)]);
}

/* Loads the second operand, whose transpose is the tile: rows of the tile are columns n .. n + 15
 * of the product. b[0], b[1] are of n .. n + 7, the others of n + 8 .. n + 15. */
template <int D>
__device__ static inline void mg_tile_bt(uint32_t b[4], const mg_chunk *tile, int n, int k)
{
    const int lane = (int)threadIdx.x % 32;
    mg_load_matrices(b, &tile[mg_tile_at<D>(n + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2)]);
}

/* Loads the second operand without transposition: rows k .. k + 15, columns n .. n + 15. */
template <int D>
__device__ static inline void mg_tile_b(uint32_t b[4], const mg_chunk *tile, int k, int n)
{
    const int lane = (int)threadIdx.x % 32;
    mg_load_matrices_turned(b, &tile[mg_tile_at<D>(k + lane % 16, n / 8 + lane / 16)]);
}

/* Products of a warp's 16 rows: c[j] is columns 8j .. 8j + 7. */

/* c = a times the transpose of the tile, whose ROWS rows become columns. a: D / 16 fragments. */
template <class T, int D, int ROWS>
__device__ static inline void mg_times_transposed(float (*c)[4], const uint32_t (*a)[4],
                                                  const mg_chunk *tile)
{
    MG_UNROLL
    for (int j = 0; j < ROWS / 8; j++)
        c[j][0] = c[j][1] = c[j][2] = c[j][3] = 0;
    MG_UNROLL
    for (int k = 0; k < D / 16; k++)
        MG_UNROLL
    for (int n = 0; n < ROWS / 16; n++) {
        uint32_t b[4];
        mg_tile_bt<D>(b, tile, 16 * n, 16 * k);
        mg_mma<T>(c[2 * n], a[k], b[0], b[1]);
        mg_mma<T>(c[2 * n + 1], a[k], b[2], b[3]);
    }
}

/* The same with the first operand in a tile, from `row` on. */
template <class T, int D, int ROWS>
__device__ static inline void mg_tile_times_transposed(float (*c)[4], const mg_chunk *first,
                                                       int row, const mg_chunk *tile)
{
    MG_UNROLL
    for (int j = 0; j < ROWS / 8; j++)
        c[j][0] = c[j][1] = c[j][2] = c[j][3] = 0;
    MG_UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4];
        mg_tile_a<D>(a, first, row, 16 * k);
        MG_UNROLL
        for (int n = 0; n < ROWS / 16; n++) {
            uint32_t b[4];
            mg_tile_bt<D>(b, tile, 16 * n, 16 * k);
            mg_mma<T>(c[2 * n], a, b[0], b[1]);
            mg_mma<T>(c[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/* 16 columns of a product, rounded to T, as a first operand. */
template <class T> __device__ static inline void mg_pack_product(uint32_t a[4], const float (*x)[4])
{
    a[0] = mg_pack<T>(x[0][0], x[0][1]);
    a[1] = mg_pack<T>(x[0][2], x[0][3]);
    a[2] = mg_pack<T>(x[1][0], x[1][1]);
    a[3] = mg_pack<T>(x[1][2], x[1][3]);
}

/* sum += x times the tile; x is a product of 16 x ROWS, rounded to T. */
template <class T, int D, int ROWS>
__device__ static inline void mg_add_times(float (*sum)[4], const float (*x)[4],
                                           const mg_chunk *tile)
{
    MG_UNROLL
    for (int k = 0; k < ROWS / 16; k++) {
        uint32_t a[4];
        mg_pack_product<T>(a, x + 2 * k);
        MG_UNROLL
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4];
            mg_tile_b<D>(b, tile, 16 * k, 16 * n);
            mg_mma<T>(sum[2 * n], a, b[0], b[1]);
            mg_mma<T>(sum[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/* Writes a warp's 16 x D product, times `by0` and `by1` for a lane's two rows, to the first `valid`
 * rows from `to` on, at a stride of `stride` elements. */
template <class T, int D>
__device__ static inline void mg_store_rows(T *to, int64_t stride, int valid, const float (*c)[4],
                                            float by0, float by1)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    MG_UNROLL
    for (int j = 0; j < D / 8; j++) {
        if (g < valid)
            *(uint32_t *)&to[g * stride + 8 * j + 2 * t] = mg_pack<T>(c[j][0] * by0, c[j][1] * by0);
        if (g + 8 < valid)
            *(uint32_t *)&to[(g + 8) * stride + 8 * j + 2 * t] =
                mg_pack<T>(c[j][2] * by1, c[j][3] * by1);
    }
}

#endif
