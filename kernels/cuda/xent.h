/* xent.h - cross-entropy over rows of logits: a block computes a row. */
#ifndef MG_CUDA_XENT_H
#define MG_CUDA_XENT_H

__device__ static inline float mg_exp(float x)
{
    return expf(x);
}
__device__ static inline double mg_exp(double x)
{
    return exp(x);
}
__device__ static inline float mg_log(float x)
{
    return logf(x);
}
__device__ static inline double mg_log(double x)
{
    return log(x);
}

__device__ static inline int mg_target(const mg_xent_desc &d, const int32_t *target, int64_t row)
{
    return target[row / d.target_inner * d.target_outer + row % d.target_inner];
}

/* Loads W classes from c on in their compute type; invalid classes become -infinity. */
template <int W, class T, class A>
__device__ static inline void mg_classes(const T *z, int64_t c, int64_t valid, A *x)
{
    const mg_vec<T, W> some = *(const mg_vec<T, W> *)&z[c];
    for (int i = 0; i < W; i++)
        x[i] = c + i < valid ? mg_wide(some.x[i]) : -(A)INFINITY;
}

/* log sum exp of the valid classes of a row, for every thread. The row is read once: each thread's
 * sum is relative to the largest logit that the thread has seen. */
template <int W, class T, class A = typename mg_wider<T>::type>
__device__ static inline A mg_row_lse_by(const mg_xent_desc &d, const T *z)
{
    enum { B = MG_XENT_BLOCK };
    A top = -(A)INFINITY, sum = 0, x[W];
    for (int64_t c = threadIdx.x * W; c < d.valid; c += B * W) {
        mg_classes<W>(z, c, d.valid, x);
        A above = top;
        for (int i = 0; i < W; i++)
            above = mg_greater<A>()(above, x[i]);
        if (above != top)
            sum *= mg_exp(top - above);
        top = above;
        for (int i = 0; i < W; i++)
            sum += x[i] == -(A)INFINITY ? (A)0 : mg_exp(x[i] - top); /* top may be -infinity too */
    }
    const A all = mg_block_max<B>(top);
    if (top != all)
        sum *= mg_exp(top - all);
    return mg_log(mg_block_sum<B>(sum)) + all;
}

/* True if rows begin at multiples of 16 bytes, and can be read so. */
template <class T> __device__ static inline bool mg_in_chunks(const mg_xent_desc &d, const T *z)
{
    return d.vocab * sizeof(T) % 16 == 0 && (uintptr_t)z % 16 == 0;
}

template <class T>
__device__ static inline typename mg_wider<T>::type mg_row_lse(const mg_xent_desc &d, const T *z)
{
    return mg_in_chunks(d, z) ? mg_row_lse_by<16 / sizeof(T)>(d, z) : mg_row_lse_by<1>(d, z);
}

template <class T, class A>
__device__ static inline void mg_xent_forward(const mg_xent_desc &d, const T *z,
                                              const int32_t *target, A *loss, A *lse)
{
    const int64_t row = blockIdx.x;
    const T *mine = z + row * d.vocab;
    const A l = mg_row_lse(d, mine);
    if (threadIdx.x == 0) {
        loss[row] = l - mg_wide(mine[mg_target(d, target, row)]);
        if (lse)
            lse[row] = l;
    }
}

template <int W, class T, class A>
__device__ static inline void mg_row_grad_by(const mg_xent_desc &d, const T *z, int target, A lse,
                                             A dloss, T *dz)
{
    for (int64_t c = threadIdx.x * W; c < d.vocab; c += MG_XENT_BLOCK * W) {
        A x[W];
        mg_vec<T, W> to;
        mg_classes<W>(z, c, d.valid, x);
        for (int i = 0; i < W; i++) {
            const A p = c + i < d.valid ? mg_exp(x[i] - lse) - (c + i == target ? 1 : 0) : (A)0;
            to.x[i] = mg_narrow<T>(dloss * p);
        }
        *(mg_vec<T, W> *)&dz[c] = to;
    }
}

/* dz may be z: each thread reads an element before it writes it. */
template <class T, class A>
__device__ static inline void mg_row_grad(const mg_xent_desc &d, const T *z, int target, A lse,
                                          A dloss, T *dz)
{
    if (mg_in_chunks(d, z) && mg_in_chunks(d, dz))
        mg_row_grad_by<16 / sizeof(T)>(d, z, target, lse, dloss, dz);
    else
        mg_row_grad_by<1>(d, z, target, lse, dloss, dz);
}

template <class T, class A>
__device__ static inline void mg_xent_backward(const mg_xent_desc &d, const T *z,
                                               const int32_t *target, const A *lse, const A *dloss,
                                               T *dz)
{
    const int64_t row = blockIdx.x;
    mg_row_grad(d, z + row * d.vocab, mg_target(d, target, row), lse[row],
                dloss[row * d.dloss_stride], dz + row * d.vocab);
}

/* The head's rows [first, first + gridDim.x): computes the loss, and if dloss is not NULL replaces
 * the logits by their gradients. z holds only these rows. */
template <class T, class A>
__device__ static inline void mg_xent_both(const mg_xent_desc &d, int64_t first, T *z,
                                           const int32_t *target, const A *dloss, A *loss)
{
    const int64_t row = first + blockIdx.x;
    T *mine = z + (int64_t)blockIdx.x * d.vocab;
    const int t = mg_target(d, target, row);
    const A l = mg_row_lse(d, mine);
    if (threadIdx.x == 0)
        loss[row] = l - mg_wide(mine[t]);
    __syncthreads(); /* the target's logit is read before it is overwritten */
    if (dloss)
        mg_row_grad(d, mine, t, l, dloss[row * d.dloss_stride], mine);
}

#define MG_XENT(name, T, A)                                                                        \
    extern "C" __global__ void __launch_bounds__(MG_XENT_BLOCK, 1)                                 \
        mg_xent_##name(mg_xent_desc d, const T *z, const int32_t *target, A *loss, A *lse)         \
    {                                                                                              \
        mg_xent_forward(d, z, target, loss, lse);                                                  \
    }                                                                                              \
    MG_EXPORT(mg_xent_##name)                                                                      \
    extern "C" __global__ void __launch_bounds__(MG_XENT_BLOCK, 1) mg_xent_grad_##name(            \
        mg_xent_desc d, const T *z, const int32_t *target, const A *lse, const A *dloss, T *dz)    \
    {                                                                                              \
        mg_xent_backward(d, z, target, lse, dloss, dz);                                            \
    }                                                                                              \
    MG_EXPORT(mg_xent_grad_##name)                                                                 \
    extern "C" __global__ void __launch_bounds__(MG_XENT_BLOCK, 1) mg_head_rows_##name(            \
        mg_xent_desc d, int64_t first, T *z, const int32_t *target, const A *dloss, A *loss)       \
    {                                                                                              \
        mg_xent_both(d, first, z, target, dloss, loss);                                            \
    }                                                                                              \
    MG_EXPORT(mg_head_rows_##name)
MG_IF_F32(MG_XENT(f32, float, float))
MG_IF_F64(MG_XENT(f64, double, double))
MG_IF_BF16(MG_XENT(bf16, mg_bf16, float))
MG_IF_F16(MG_XENT(f16, mg_f16, float))

#endif
