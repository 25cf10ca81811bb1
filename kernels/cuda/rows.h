/* rows.h - epilogues of products for which the library has no algorithm: a bias in all rows of the
 * result, to which the product is added; the sums of a matrix's columns; gelu_tanh, and the product
 * with its slope. */
#ifndef MG_CUDA_ROWS_H
#define MG_CUDA_ROWS_H

/* c[i * ld + j] = bias[j]: a thread writes an element. */
template <class T>
__device__ static inline void mg_fill_rows(const mg_gemm_desc &d, const T *bias, T *c)
{
    const int64_t all = d.m * d.n, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step)
        c[e / d.n * d.ldc + e % d.n] = bias[e % d.n];
}

/* sum[j] of the k rows of op(B): a block has 32 columns with eight threads each; the order is
 * fixed. */
template <class T>
__device__ static inline void mg_sum_rows(const mg_gemm_desc &d, const T *b, float *sum)
{
    enum { B = MG_SUM_BLOCK };
    const int64_t j = (int64_t)blockIdx.x * 32 + threadIdx.x % 32;
    float mine = 0;
    for (int64_t k = threadIdx.x / 32; j < d.n && k < d.k; k += B / 32)
        mine += mg_wide(b[d.tb ? j * d.ldb + k : k * d.ldb + j]);
    mine = mg_column_sum<B>(mine);
    if (threadIdx.x < 32 && j < d.n)
        sum[j] = mine;
}

/* aux = c, unless aux is NULL; c = gelu_tanh(c): a thread computes an element. */
template <class T> __device__ static inline void mg_gelu_rows(const mg_gemm_desc &d, T *c, T *aux)
{
    const int64_t all = d.m * d.n, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step) {
        T &x = c[e / d.n * d.ldc + e % d.n];
        if (aux)
            aux[e / d.n * d.ldx + e % d.n] = x;
        x = mg_narrow<T>(mg_gelu_tanh(mg_wide(x)));
    }
}

/* c = c times the slope of gelu_tanh at aux. */
template <class T>
__device__ static inline void mg_gelu_grad_rows(const mg_gemm_desc &d, T *c, const T *aux)
{
    const int64_t all = d.m * d.n, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step) {
        T &x = c[e / d.n * d.ldc + e % d.n];
        const float slope = mg_gelu_tanh_slope(mg_wide(aux[e / d.n * d.ldx + e % d.n]));
        x = mg_narrow<T>(mg_wide(x) * slope);
    }
}

#define MG_ROWS(name, T)                                                                           \
    extern "C" __global__ void mg_fill_rows_##name(mg_gemm_desc d, const T *bias, T *c)            \
    {                                                                                              \
        mg_fill_rows(d, bias, c);                                                                  \
    }                                                                                              \
    MG_EXPORT(mg_fill_rows_##name)                                                                 \
    extern "C" __global__ void __launch_bounds__(MG_SUM_BLOCK, 1)                                  \
        mg_sum_rows_##name(mg_gemm_desc d, const T *b, float *sum)                                 \
    {                                                                                              \
        mg_sum_rows(d, b, sum);                                                                    \
    }                                                                                              \
    MG_EXPORT(mg_sum_rows_##name)                                                                  \
    extern "C" __global__ void mg_gelu_##name(mg_gemm_desc d, T *c, T *aux)                        \
    {                                                                                              \
        mg_gelu_rows(d, c, aux);                                                                   \
    }                                                                                              \
    MG_EXPORT(mg_gelu_##name)                                                                      \
    extern "C" __global__ void mg_gelu_grad_##name(mg_gemm_desc d, T *c, const T *aux)             \
    {                                                                                              \
        mg_gelu_grad_rows(d, c, aux);                                                              \
    }                                                                                              \
    MG_EXPORT(mg_gelu_grad_##name)
MG_IF_BF16(MG_ROWS(bf16, mg_bf16))
MG_IF_F16(MG_ROWS(f16, mg_f16))

#endif
