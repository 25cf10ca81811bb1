/* rows.h - epilogues of products for which the library has no algorithm: a bias in all rows of the
 * result, to which the product is added; the sums of a matrix's columns; gelu_tanh, and the product
 * with its slope.
 *
 * Columns are summed in two stages: first the rows are cut into parts, as many as keep a GPU busy
 * (mg_sum_each, from the sizes alone, so that the bits are the same on any GPU), then the sums of
 * the parts are added up, both in a fixed order. Between the stages they are in the work space of
 * products. */
#ifndef MG_CUDA_ROWS_H
#define MG_CUDA_ROWS_H

/* Words of W elements that a thread has, of a matrix whose rows have `words` of them: one, then the
 * one gridDim.x blockDim.x further on, and so on. There is one division, before the first. */
struct mg_row_words {
    int64_t row, rows;
    int column, words, down, right; /* a step: so many rows and words */
    __device__ mg_row_words(int64_t rows_, int64_t words_)
    {
        const uint32_t step = gridDim.x * blockDim.x, all = (uint32_t)words_;
        const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
        rows = rows_;
        words = (int)words_;
        row = at / words_;
        column = (int)(at - row * words_);
        down = (int)(step / all);
        right = (int)(step - (uint32_t)down * all);
    }
    __device__ bool any() const
    {
        return row < rows;
    }
    __device__ void next()
    {
        row += down;
        column += right;
        const bool past = column >= words;
        column -= past ? words : 0;
        row += past;
    }
};

/* c[i * ld + j] = bias[j]. */
template <int W, class T>
__device__ static inline void mg_fill_rows(const mg_gemm_desc &d, const T *bias, T *c)
{
    typedef mg_vec<T, W> some;
    for (mg_row_words at(d.m, d.n / W); at.any(); at.next())
        *(some *)&c[at.row * d.ldc + at.column * W] = *(const some *)&bias[at.column * W];
}

/* aux = c, unless aux is NULL; c = gelu_tanh(c). */
template <int W, class T>
__device__ static inline void mg_gelu_rows(const mg_gemm_desc &d, T *c, T *aux)
{
    float x[W];
    for (mg_row_words at(d.m, d.n / W); at.any(); at.next()) {
        T *here = &c[at.row * d.ldc + at.column * W];
        mg_read<W>(here, x);
        if (aux)
            mg_write<W>(&aux[at.row * d.ldx + at.column * W], x);
        MG_UNROLL
        for (int i = 0; i < W; i++)
            x[i] = mg_gelu_tanh(x[i]);
        mg_write<W>(here, x);
    }
}

/* c = c times the slope of gelu_tanh at aux. */
template <int W, class T>
__device__ static inline void mg_gelu_grad_rows(const mg_gemm_desc &d, T *c, const T *aux)
{
    float x[W], y[W];
    for (mg_row_words at(d.m, d.n / W); at.any(); at.next()) {
        T *here = &c[at.row * d.ldc + at.column * W];
        mg_read<W>(here, x);
        mg_read<W>(&aux[at.row * d.ldx + at.column * W], y);
        MG_UNROLL
        for (int i = 0; i < W; i++)
            x[i] *= mg_gelu_tanh_slope(y[i]);
        mg_write<W>(here, x);
    }
}

/* part[blockIdx.y, j] = the sum over rows [blockIdx.y each, ...) of b[k, n]. A lane has W columns
 * and each eighth row, four of them in flight; then the warps' sums are added in their order. */
template <int W, class T>
__device__ static inline void mg_sum_columns(const mg_gemm_desc &d, int each, const T *b,
                                             float *part)
{
    enum { WARPS = MG_SUM_BLOCK / 32, FLIGHT = 4, N = 32 * W };
    enum { APART = 36, EACH = W * APART }; /* so that neither side meets a bank twice */
    MG_SHARED(float, sums, WARPS *EACH);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t j = (int64_t)blockIdx.x * N + lane * W, first = (int64_t)blockIdx.y * each;
    const int rows = (int)(d.k - first < each ? d.k - first : each);
    const T *at = b + first * d.ldb + j;
    float sum[W] = {0}, x[FLIGHT][W];
    int k = j < d.n ? warp : rows;
    for (; k < rows - (FLIGHT - 1) * WARPS; k += FLIGHT * WARPS) {
        MG_UNROLL
        for (int f = 0; f < FLIGHT; f++)
            mg_read<W>(at + (k + f * WARPS) * d.ldb, x[f]);
        MG_UNROLL
        for (int f = 0; f < FLIGHT; f++) {
            MG_UNROLL
            for (int i = 0; i < W; i++)
                sum[i] += x[f][i];
        }
    }
    for (; k < rows; k += WARPS) {
        mg_read<W>(at + k * d.ldb, x[0]);
        MG_UNROLL
        for (int i = 0; i < W; i++)
            sum[i] += x[0][i];
    }
    MG_UNROLL
    for (int i = 0; i < W; i++)
        sums[warp * EACH + i * APART + lane] = sum[i];
    __syncthreads();
    const float *mine = sums + (int)threadIdx.x % W * APART + (int)threadIdx.x / W;
    const int64_t column = (int64_t)blockIdx.x * N + threadIdx.x;
    if ((int)threadIdx.x < N && column < d.n) {
        float all = 0;
        for (int w = 0; w < WARPS; w++)
            all += mine[w * EACH];
        part[blockIdx.y * d.n + column] = all;
    }
}

/* The same of b[n, k]: part[blockIdx.y, j] of one column, which lies in one piece. */
template <int W, class T>
__device__ static inline void mg_sum_row(const mg_gemm_desc &d, int each, const T *b, float *part)
{
    enum { B = MG_SUM_BLOCK };
    const int64_t j = blockIdx.x, first = (int64_t)blockIdx.y * each;
    const int rows = (int)(d.k - first < each ? d.k - first : each);
    const T *at = b + j * d.ldb + first;
    float sum = 0, x[W];
    for (int k = (int)threadIdx.x * W; k < rows; k += B * W) {
        mg_read<W>(at + k, x);
        MG_UNROLL
        for (int i = 0; i < W; i++)
            sum += x[i];
    }
    sum = mg_block_sum<B>(sum);
    if (threadIdx.x == 0)
        part[blockIdx.y * d.n + j] = sum;
}

/* sum[j] of the parts, [parts, n]: a block has 32 columns with eight threads each. */
extern "C" __global__ void __launch_bounds__(MG_SUM_BLOCK, 1)
    mg_sum_parts(int64_t n, int parts, const float *part, float *sum)
{
    enum { B = MG_SUM_BLOCK, SLICES = B / 32, FLIGHT = 4 };
    const int64_t j = (int64_t)blockIdx.x * 32 + threadIdx.x % 32;
    float mine = 0, x[FLIGHT];
    for (int p = (int)threadIdx.x / 32; j < n && p < parts; p += FLIGHT * SLICES) {
        MG_UNROLL
        for (int f = 0; f < FLIGHT; f++)
            x[f] = p + f * SLICES < parts ? part[(p + f * SLICES) * n + j] : 0;
        MG_UNROLL
        for (int f = 0; f < FLIGHT; f++)
            mine += x[f];
    }
    mine = mg_column_sum<B>(mine);
    if (threadIdx.x < 32 && j < n)
        sum[j] = mine;
}
MG_EXPORT(mg_sum_parts)

/* `wide`: rows are whole words of 16 bytes, at multiples of that. */
#define MG_BY_WORD(f, ...)                                                                         \
    do {                                                                                           \
        if (wide)                                                                                  \
            f<8>(__VA_ARGS__);                                                                     \
        else                                                                                       \
            f<1>(__VA_ARGS__);                                                                     \
    } while (0)

#define MG_ROWS(name, T)                                                                           \
    extern "C" __global__ void __launch_bounds__(MG_ROWS_BLOCK, 1)                                 \
        mg_fill_rows_##name(mg_gemm_desc d, int wide, const T *bias, T *c)                         \
    {                                                                                              \
        MG_BY_WORD(mg_fill_rows, d, bias, c);                                                      \
    }                                                                                              \
    MG_EXPORT(mg_fill_rows_##name)                                                                 \
    extern "C" __global__ void __launch_bounds__(MG_SUM_BLOCK, 1)                                  \
        mg_sum_rows_##name(mg_gemm_desc d, int wide, int each, const T *b, float *part)            \
    {                                                                                              \
        if (d.tb)                                                                                  \
            MG_BY_WORD(mg_sum_row, d, each, b, part);                                              \
        else                                                                                       \
            MG_BY_WORD(mg_sum_columns, d, each, b, part);                                          \
    }                                                                                              \
    MG_EXPORT(mg_sum_rows_##name)                                                                  \
    extern "C" __global__ void __launch_bounds__(MG_ROWS_BLOCK, 1)                                 \
        mg_gelu_##name(mg_gemm_desc d, int wide, T *c, T *aux)                                     \
    {                                                                                              \
        MG_BY_WORD(mg_gelu_rows, d, c, aux);                                                       \
    }                                                                                              \
    MG_EXPORT(mg_gelu_##name)                                                                      \
    extern "C" __global__ void __launch_bounds__(MG_ROWS_BLOCK, 1)                                 \
        mg_gelu_grad_##name(mg_gemm_desc d, int wide, T *c, const T *aux)                          \
    {                                                                                              \
        MG_BY_WORD(mg_gelu_grad_rows, d, c, aux);                                                  \
    }                                                                                              \
    MG_EXPORT(mg_gelu_grad_##name)
MG_IF_BF16(MG_ROWS(bf16, mg_bf16))
MG_IF_F16(MG_ROWS(f16, mg_f16))

#endif
