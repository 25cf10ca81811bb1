/* wgmma.h - the tensor cores of sm_90: asynchronous products of a warpgroup, four consecutive
 * warps.
 *
 * The second operand is in shared memory, the first there too or in registers. A product runs
 * concurrently with the warps until they wait for it. A tile is ROWS rows of D halves in panels of
 * 64 columns: chunk c (16 bytes) of row r of a panel is at chunk c ^ (r % 8) of the row's 128
 * bytes, which the hardware calls its 128-byte swizzle. Panels begin at multiples of 1 KiB.
 *
 * Fragments are those of mma.h; warp w of the group has rows 16w .. 16w + 15 of 64 (PTX ISA,
 * "Asynchronous Warpgroup Level Matrix Instructions", which also defines the descriptors below). */
#ifndef MG_CUDA_WGMMA_H
#define MG_CUDA_WGMMA_H

/* ---- tiles -------------------------------------------------------------------------------- */

template <int ROWS> __device__ static inline int mg_panel_at(int row, int chunk)
{
    return (chunk / 8 * ROWS + row) * 8 + ((chunk ^ row) & 7);
}

/* Copies the first `valid` rows from global memory, at a stride of `stride` elements, and zeros
 * behind them and behind the first `width` columns, a multiple of 8. All THREADS of the block call
 * it; the rows are there after each thread has waited and the block has synchronised. */
template <int D, int ROWS, int THREADS, class T>
__device__ static inline void mg_panel_load(mg_chunk *tile, const T *from, int64_t stride,
                                            int valid, int width = D)
{
    enum { STEP = THREADS / 8 }; /* rows at a time */
    static_assert(D % 64 == 0 && STEP % 8 == 0 && ROWS % STEP == 0, "whole panels and steps");
    const int row = (int)threadIdx.x / 8, chunk = (int)threadIdx.x % 8;
    mg_chunk *to = &tile[mg_panel_at<ROWS>(row, chunk)];
    const T *at = from + row * stride + chunk * 8;
    MG_UNROLL
    for (int i = 0; i < ROWS / STEP; i++) {
        MG_UNROLL
        for (int j = 0; j < D / 64; j++) { /* what is not there is not read */
            const bool there = row + i * STEP < valid && 64 * j + 8 * chunk < width;
            mg_copy_async(&to[(j * ROWS + i * STEP) * 8], at + 64 * j, there);
        }
        at += STEP * stride;
    }
}

/* Loads rows [row, row + 16), columns [column, column + 16) as a warp's part of the first
 * operand. */
template <int ROWS>
__device__ static inline void mg_panel_a(uint32_t a[4], const mg_chunk *tile, int row, int column)
{
    const int lane = (int)threadIdx.x % 32;
    mg_load_matrices(a, &tile[mg_panel_at<ROWS>(row + lane % 16, column / 8 + lane / 16)]);
}

/* The descriptor of an operand for the tensor cores: bits 0-13 the address, 16-29 the stride
 * between panels, 32-45 the stride between groups of eight rows, all divided by 16; 62: the
 * swizzle. */
__device__ static inline uint64_t mg_factor(const mg_chunk *at, int panel_bytes)
{
    return (mg_shared_address(at) & 0x3ffff) >> 4 | (uint64_t)(panel_bytes >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* The descriptor of columns [column, column + 16) of the tile, from row `row` on, a multiple of
 * 8. */
template <int ROWS>
__device__ static inline uint64_t mg_columns(const mg_chunk *tile, int row, int column)
{
    return mg_factor(&tile[(column / 64 * ROWS + row) * 8 + column % 64 / 8], 16);
}

/* The descriptor of rows [row, row + 16) of the tile, all columns: a second operand that is not
 * transposed. */
template <int ROWS> __device__ static inline uint64_t mg_rows(const mg_chunk *tile, int row)
{
    return mg_factor(&tile[row * 8], ROWS * 128);
}

/* ---- products ----------------------------------------------------------------------------- */
#ifdef MG_SHIM
/* The operands of a product for one lane: its two rows of the first operand, or their
 * descriptor. */
struct shim_product {
    uint32_t a[4][4]; /* registers of the four lanes that share rows */
    uint64_t first, second;
    bool in_registers, turned, add;
};

/* Element (row, k) of an operand; k is the index of the sum. */
template <class T>
static inline float shim_element(uint64_t factor, bool turned, unsigned row, unsigned k)
{
    const unsigned panel = (unsigned)(factor >> 16 & 0x3fff) << 4;
    const unsigned eight = (unsigned)(factor >> 32 & 0x3fff) << 4;
    unsigned at = (unsigned)(factor & 0x3fff) << 4;
    at += turned ? row / 64 * panel + k / 8 * eight + k % 8 * 128 + row % 64 * 2
                 : row / 8 * eight + row % 8 * 128 + k * 2;
    T x;
    x.bits = *(const uint16_t *)shim_shared_at(at ^ (at >> 7 & 7) << 4);
    return mg_wide(x);
}

template <class T, int N>
static void shim_group_product(float *c, const void *what, unsigned thread)
{
    const shim_product *p = (const shim_product *)what;
    const unsigned g = thread % 32 / 4, t = thread % 4, base = thread % 128 / 32 * 16;
    float a[2][16];
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < 16; k++)
            a[i][k] = p->in_registers ? shim_half<T>(p->a[k % 8 / 2][i + k / 8 * 2], k % 2)
                                      : shim_element<T>(p->first, false, base + g + 8 * i, k);
    for (unsigned j = 0; j < N / 4; j++) {
        const unsigned column = j / 2 * 8 + 2 * t + j % 2;
        double sum[2] = {0, 0};
        for (unsigned k = 0; k < 16; k++) {
            const float b = shim_element<T>(p->second, p->turned, column, k);
            sum[0] += (double)a[0][k] * b;
            sum[1] += (double)a[1][k] * b;
        }
        for (unsigned i = 0; i < 2; i++) {
            float &to = c[j / 2 * 4 + i * 2 + j % 2];
            to = (float)((p->add ? to : 0.0) + sum[i]);
        }
    }
}

__device__ static inline void mg_group_begin()
{
    shim_group_begin();
}
__device__ static inline void mg_group_commit()
{
    shim_group_commit();
}
template <int N> __device__ static inline void mg_group_wait()
{
    shim_group_wait(N);
}
template <int N> __device__ static inline void mg_settle(float (&c)[N][4])
{
    shim_group_settled(&c[0][0]);
}
__device__ static inline void mg_group_after(uint32_t *slot, uint32_t x)
{
    *slot = x;
}
__device__ static inline void mg_fold(uint32_t &all, const float x[4])
{
    for (int i = 0; i < 4; i++)
        all ^= __float_as_uint(x[i]);
}
template <int N> __device__ static inline void mg_copy_arrived()
{
    shim_copy_wait(N);
}

template <class T, int N, bool TURNED>
__device__ static inline void mg_group_of_registers(float (*c)[4], const uint32_t a[4],
                                                    uint64_t second, bool add)
{
    shim_product p = {{{0}}, 0, second, true, TURNED, add};
    uint64_t low[32], high[32];
    shim_everyone((uint64_t)a[1] << 32 | a[0], low, __LINE__);
    shim_everyone((uint64_t)a[3] << 32 | a[2], high, __LINE__);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 4; k++)
            p.a[i][k] = (uint32_t)((k < 2 ? low : high)[shim_lane / 4 * 4 + i] >> (k % 2 * 32));
    shim_group_issue(&c[0][0], N / 2, shim_group_product<T, N>, &p, sizeof p);
}
template <class T, int N, bool TURNED>
__device__ static inline void mg_group_of_tiles(float (*c)[4], uint64_t first, uint64_t second,
                                                bool add)
{
    shim_product p = {{{0}}, first, second, false, TURNED, add};
    shim_group_issue(&c[0][0], N / 2, shim_group_product<T, N>, &p, sizeof p);
}
#else
/* Call it before products that follow other products, or that read registers just written. */
__device__ static inline void mg_group_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ static inline void mg_group_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until all groups but the last N are done. */
template <int N> __device__ static inline void mg_group_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* A compiler barrier after the wait: no use of the result moves before it. */
template <int N> __device__ static inline void mg_settle(float (&c)[N][4])
{
    MG_UNROLL
    for (int j = 0; j < N; j++)
        asm volatile("" : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])::"memory");
}
/* Keeps a wait that comes after it behind the computation of x: ptxas moves a wait up to where the
 * product was begun, past arithmetic that does not need its result, and then nothing runs
 * concurrently with the product. It moves no wait past a store. `slot` is a word of the thread's
 * own in shared memory, which nobody reads. */
__device__ static inline void mg_group_after(uint32_t *slot, uint32_t x)
{
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(mg_shared_address(slot)), "r"(x)
                 : "memory");
}
/* Folds four numbers into a word. In assembly, because a compiler that sees their bits keeps sums
 * of products as whole numbers, and converts them between a fence and the products. */
__device__ static inline void mg_fold(uint32_t &all, const float x[4])
{
    asm("{.reg .b32 t; mov.b32 t, %1; xor.b32 %0, %0, t; mov.b32 t, %2; xor.b32 %0, %0, t; "
        "mov.b32 t, %3; xor.b32 %0, %0, t; mov.b32 t, %4; xor.b32 %0, %0, t;}"
        : "+r"(all)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
}
/* Waits until this thread's copies, except the last N groups, have arrived, also for the tensor
 * cores. */
template <int N> __device__ static inline void mg_copy_arrived()
{
    mg_copy_wait<N>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define MG_SUMS_32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define MG_SUMS_64                                                                                 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "       \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define MG_SUMS_128                                                                                \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "       \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "        \
    "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "        \
    "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define MG_SUMS_192                                                                                \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "       \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "        \
    "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "        \
    "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "        \
    "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "        \
    "%87, %88, %89, %90, %91, %92, %93, %94, %95}"
#define MG_4(c)       "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])
#define MG_16(c)      MG_4((c)[0]), MG_4((c)[1]), MG_4((c)[2]), MG_4((c)[3])
#define MG_OUT_32(c)  MG_16(c)
#define MG_OUT_64(c)  MG_16(c), MG_16((c) + 4)
#define MG_OUT_128(c) MG_OUT_64(c), MG_OUT_64((c) + 8)
#define MG_OUT_192(c) MG_OUT_128(c), MG_OUT_64((c) + 16)

/* c (+)= a b: 64 x N of 64 x 16 and 16 x N. The second operand is stored transposed, or, if TURNED,
 * not transposed. */
template <class T, int N, bool TURNED>
__device__ static inline void mg_group_of_registers(float (*c)[4], const uint32_t a[4],
                                                    uint64_t second, bool add);
template <class T, int N, bool TURNED>
__device__ static inline void mg_group_of_tiles(float (*c)[4], uint64_t first, uint64_t second,
                                                bool add);
#define MG_WGMMA(T, name, N, TURNED, A0, A1, A2, A3, B, P)                                         \
    template <>                                                                                    \
    __device__ inline void mg_group_of_registers<T, N, TURNED>(float(*c)[4], const uint32_t a[4],  \
                                                               uint64_t second, bool add)          \
    {                                                                                              \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " P ", 0; "                                    \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name               \
                     " " MG_SUMS_##N ", {" A0 ", " A1 ", " A2 ", " A3 "}, " B                      \
                                     ", p, 1, 1, " #TURNED ";}"                                    \
                     : MG_OUT_##N(c)                                                               \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(second), "r"((int)add)      \
                     : "memory");                                                                  \
    }                                                                                              \
    template <>                                                                                    \
    __device__ inline void mg_group_of_tiles<T, N, TURNED>(float(*c)[4], uint64_t first,           \
                                                           uint64_t second, bool add)              \
    {                                                                                              \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " A2 ", 0; "                                   \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name               \
                     " " MG_SUMS_##N ", " A0 ", " A1 ", p, 1, 1, 0, " #TURNED ";}"                 \
                     : MG_OUT_##N(c)                                                               \
                     : "l"(first), "l"(second), "r"((int)add)                                      \
                     : "memory");                                                                  \
    }
#define MG_WGMMA_OF(T, name, TURNED)                                                               \
    MG_WGMMA(T, name, 32, TURNED, "%16", "%17", "%18", "%19", "%20", "%21")                        \
    MG_WGMMA(T, name, 64, TURNED, "%32", "%33", "%34", "%35", "%36", "%37")                        \
    MG_WGMMA(T, name, 128, TURNED, "%64", "%65", "%66", "%67", "%68", "%69")                       \
    MG_WGMMA(T, name, 192, TURNED, "%96", "%97", "%98", "%99", "%100", "%101")
MG_WGMMA_OF(mg_bf16, "bf16", 0)
MG_WGMMA_OF(mg_bf16, "bf16", 1)
MG_WGMMA_OF(mg_f16, "f16", 0)
MG_WGMMA_OF(mg_f16, "f16", 1)
#endif

template <int N>
__device__ static inline void mg_group_after(uint32_t *slot, const float (&x)[N][4])
{
    uint32_t all = 0;
    MG_UNROLL
    for (int j = 0; j < N; j++)
        mg_fold(all, x[j]);
    mg_group_after(slot, all);
}

/* c = a times the transpose of the tile's rows: K columns of both, the tile's first N rows. The
 * first HELD columns of a are in registers, the others in a tile, 64 rows from `row` on. */
template <class T, int K, int HELD, int N, int FIRST_ROWS, int ROWS>
__device__ static inline void mg_group_partly(float (*c)[4], const uint32_t (*a)[4],
                                              const mg_chunk *first, int row, const mg_chunk *tile)
{
    MG_UNROLL
    for (int k = 0; k < HELD / 16; k++)
        mg_group_of_registers<T, N, false>(c, a[k], mg_columns<ROWS>(tile, 0, 16 * k), k > 0);
    MG_UNROLL
    for (int k = HELD / 16; k < K / 16; k++)
        mg_group_of_tiles<T, N, false>(c, mg_columns<FIRST_ROWS>(first, row, 16 * k),
                                       mg_columns<ROWS>(tile, 0, 16 * k), k > 0);
}

/* The same with all of a in registers. */
template <class T, int K, int N, int ROWS>
__device__ static inline void mg_group_transposed(float (*c)[4], const uint32_t (*a)[4],
                                                  const mg_chunk *tile)
{
    mg_group_partly<T, K, K, N, ROWS, ROWS>(c, a, tile, 0, tile);
}

/* The same with all of a in a tile. */
template <class T, int K, int N, int FIRST_ROWS, int ROWS>
__device__ static inline void mg_group_tiles_transposed(float (*c)[4], const mg_chunk *first,
                                                        int row, const mg_chunk *tile)
{
    mg_group_partly<T, K, 0, N, FIRST_ROWS, ROWS>(c, nullptr, first, row, tile);
}

/* sum += a times the tile: K of its rows, N columns. */
template <class T, int K, int N, int ROWS>
__device__ static inline void mg_group_add(float (*sum)[4], const uint32_t (*a)[4],
                                           const mg_chunk *tile)
{
    MG_UNROLL
    for (int k = 0; k < K / 16; k++)
        mg_group_of_registers<T, N, true>(sum, a[k], mg_rows<ROWS>(tile, 16 * k), true);
}

/* A product of N columns, rounded to T, as the first operand of another product. */
template <class T, int N>
__device__ static inline void mg_pack_columns(uint32_t (*a)[4], const float (*x)[4])
{
    MG_UNROLL
    for (int k = 0; k < N / 16; k++)
        mg_pack_product<T>(a[k], x + 2 * k);
}

#endif
