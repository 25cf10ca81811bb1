/* xent.h - cross-entropy over rows of logits: a block computes a row.
 *
 * All exponentials are powers of two, with log2 e in the factor of a multiply-add: of logits x with
 * x log2 e = y, log2 sum 2^y is m + log2 sum 2^(y - m), for any m, and a gradient is
 * dloss (2^(y - log2 sum 2^y) - [the target]). A thread renormalises its sum once for each 2 W
 * logits that it reads at once (Milakov and Gimelshein, 2018), to the largest that it has seen. The
 * sums of a block's threads are added in a fixed order.
 *
 * A row is cut into scalars up to the first address that is a multiple of 16 bytes, vectors of 16
 * bytes, and scalars behind them. Classes from `valid` on are not read; their gradients are 0. */
#ifndef MG_CUDA_XENT_H
#define MG_CUDA_XENT_H

#define MG_LOG2E 1.4426950408889634
#define MG_LN2   0.6931471805599453

__device__ static inline int mg_target(const mg_xent_desc &d, const int32_t *target, int64_t row)
{
    if (row >= d.target_inner)
        row = row / d.target_inner * d.target_outer + row % d.target_inner;
    return target[row];
}

/* Elements [0, first) and [end, n) of a row are scalars; those between are whole vectors. */
struct mg_row_parts {
    int first, end, n;
};
template <class T> __device__ static inline mg_row_parts mg_cut_row(const T *z, int64_t n)
{
    enum { W = mg_wide_vector<T>::n };
    const int past = (int)((uintptr_t)z % 16 / sizeof(T)), before = past ? W - past : 0;
    const int all = (int)n, first = before < all ? before : all;
    return mg_row_parts{first, first + (all - first) / W * W, all};
}
/* The scalar that this thread has, or -1: there are fewer than a block has threads. */
__device__ static inline int mg_row_scalar(const mg_row_parts &p)
{
    const int i = (int)threadIdx.x, at = i < p.first ? i : p.end + i - p.first;
    return at < p.n ? at : -1;
}

/* ---- log sum exp -------------------------------------------------------------------------- */

/* sum 2^y = sum 2^m with m = top, or 0 if top is -infinity: then nothing, or only -infinity, was
 * added. */
template <class A> struct mg_powers {
    A top, sum;
};
template <class A> __device__ static inline A mg_finite_top(A top)
{
    return top == -(A)INFINITY ? (A)0 : top;
}

template <int N, class A> __device__ static inline void mg_add_powers(mg_powers<A> &p, const A *x)
{
    A top = x[0], sum = 0;
    MG_UNROLL
    for (int i = 1; i < N; i++)
        top = mg_max_number(top, x[i]);
    top = mg_max_number(p.top, top * (A)MG_LOG2E);
    const A m = mg_finite_top(top);
    MG_UNROLL
    for (int i = 0; i < N; i++)
        sum += mg_exp2(fma(x[i], (A)MG_LOG2E, -m));
    p.sum = p.sum * mg_exp2(p.top - m) + sum;
    p.top = top;
}

/* sum 2^y over the valid classes of a row, the same for every thread. */
template <class T, class A = typename mg_wider<T>::type>
__device__ static inline mg_powers<A> mg_row_powers(const mg_xent_desc &d, const T *z)
{
    enum { W = mg_wide_vector<T>::n, STEP = MG_XENT_BLOCK * W };
    const mg_row_parts cut = mg_cut_row(z, d.valid);
    mg_powers<A> p = {-(A)INFINITY, 0};
    A x[2 * W];
    int c = cut.first + (int)threadIdx.x * W;
    for (; c < cut.end - STEP; c += 2 * STEP) {
        mg_read<W>(z + c, x);
        mg_read<W>(z + c + STEP, x + W);
        mg_add_powers<2 * W>(p, x);
    }
    if (c < cut.end) {
        mg_read<W>(z + c, x);
        mg_add_powers<W>(p, x);
    }
    const int alone = mg_row_scalar(cut);
    if (alone >= 0) {
        x[0] = mg_wide(z[alone]);
        mg_add_powers<1>(p, x);
    }
    const A top = mg_block_max<MG_XENT_BLOCK>(p.top);
    const A sum = p.sum * mg_exp2(p.top - mg_finite_top(top));
    return mg_powers<A>{top, mg_block_sum<MG_XENT_BLOCK>(sum)};
}

/* log2 sum 2^y - y, of the logit x: 0 as y. The difference of large numbers comes first. */
template <class A> __device__ static inline A mg_log_powers(const mg_powers<A> &p, A x)
{
    return mg_log2(p.sum) + (mg_finite_top(p.top) - x * (A)MG_LOG2E);
}

/* ---- gradients ---------------------------------------------------------------------------- */

/* x becomes dloss 2^(y - lse2). */
template <int N, class A> __device__ static inline void mg_to_grad(A *x, A lse2, A dloss)
{
    MG_UNROLL
    for (int i = 0; i < N; i++)
        x[i] = dloss * mg_exp2(fma(x[i], (A)MG_LOG2E, -lse2));
}

/* The gradients of all valid classes as if none was the target. dz may be z. */
template <class T, class A>
__device__ static inline void mg_row_slopes(const T *z, int64_t valid, A lse2, A dloss, T *dz)
{
    enum { W = mg_wide_vector<T>::n, STEP = MG_XENT_BLOCK * W };
    const mg_row_parts cut = mg_cut_row(z, valid);
    A x[2 * W];
    int c = cut.first + (int)threadIdx.x * W;
    for (; c < cut.end - STEP; c += 2 * STEP) {
        mg_read<W>(z + c, x);
        mg_read<W>(z + c + STEP, x + W);
        mg_to_grad<2 * W>(x, lse2, dloss);
        mg_write<W>(dz + c, x);
        mg_write<W>(dz + c + STEP, x + W);
    }
    if (c < cut.end) {
        mg_read<W>(z + c, x);
        mg_to_grad<W>(x, lse2, dloss);
        mg_write<W>(dz + c, x);
    }
    const int alone = mg_row_scalar(cut);
    if (alone >= 0) {
        x[0] = mg_wide(z[alone]);
        mg_to_grad<1>(x, lse2, dloss);
        dz[alone] = mg_narrow<T>(x[0]);
    }
}

/* The same where the rows of z and dz are not at the same place among 16 bytes. */
template <class T, class A>
__device__ static inline void mg_row_slopes_apart(const T *z, int64_t valid, A lse2, A dloss, T *dz)
{
    enum { EACH = 4 };
    const int n = (int)valid;
    A x[EACH];
    for (int c = (int)threadIdx.x; c < n; c += EACH * MG_XENT_BLOCK) {
        MG_UNROLL
        for (int k = 0; k < EACH; k++)
            x[k] = c + k * MG_XENT_BLOCK < n ? mg_wide(z[c + k * MG_XENT_BLOCK]) : (A)0;
        mg_to_grad<EACH>(x, lse2, dloss);
        MG_UNROLL
        for (int k = 0; k < EACH; k++)
            if (c + k * MG_XENT_BLOCK < n)
                dz[c + k * MG_XENT_BLOCK] = mg_narrow<T>(x[k]);
    }
}

/* The gradients of a row. `of`: the logit of the target, which thread 0 has read; the block has met
 * since. dz may be z. */
template <class T, class A>
__device__ static inline void mg_row_grad(const mg_xent_desc &d, const T *z, int target, A of,
                                          A lse2, A dloss, T *dz)
{
    if (((uintptr_t)z ^ (uintptr_t)dz) % 16 == 0)
        mg_row_slopes(z, d.valid, lse2, dloss, dz);
    else
        mg_row_slopes_apart(z, d.valid, lse2, dloss, dz);
    for (int64_t c = d.valid + threadIdx.x; c < d.vocab; c += MG_XENT_BLOCK)
        dz[c] = mg_narrow<T>((A)0);
    __syncthreads(); /* the target's gradient is written twice */
    if (threadIdx.x == 0 && target >= 0 && target < d.valid)
        dz[target] = mg_narrow<T>(dloss * (mg_exp2(fma(of, (A)MG_LOG2E, -lse2)) - 1));
}

/* ---- kernels ------------------------------------------------------------------------------ */

template <class T, class A>
__device__ static inline void mg_xent_forward(const mg_xent_desc &d, const T *z,
                                              const int32_t *target, A *loss, A *lse)
{
    const int64_t row = blockIdx.x;
    const T *mine = z + row * d.vocab;
    const mg_powers<A> p = mg_row_powers(d, mine);
    if (threadIdx.x == 0) {
        loss[row] = (A)MG_LN2 * mg_log_powers(p, mg_wide(mine[mg_target(d, target, row)]));
        if (lse)
            lse[row] = (A)MG_LN2 * mg_log_powers(p, (A)0);
    }
}

template <class T, class A>
__device__ static inline void mg_xent_backward(const mg_xent_desc &d, const T *z,
                                               const int32_t *target, const A *lse, const A *dloss,
                                               T *dz)
{
    const int64_t row = blockIdx.x;
    const T *mine = z + row * d.vocab;
    const int t = threadIdx.x == 0 ? mg_target(d, target, row) : 0;
    const A of = threadIdx.x == 0 ? mg_wide(mine[t]) : (A)0;
    __syncthreads(); /* the target's logit is read before it is overwritten */
    mg_row_grad(d, mine, t, of, lse[row] * (A)MG_LOG2E, dloss[row * d.dloss_stride],
                dz + row * d.vocab);
}

/* The head's rows [first, first + gridDim.x): computes the loss, and if dloss is not NULL replaces
 * the logits by their gradients. z holds only these rows. */
template <class T, class A>
__device__ static inline void mg_xent_both(const mg_xent_desc &d, int64_t first, T *z,
                                           const int32_t *target, const A *dloss, A *loss)
{
    const int64_t row = first + blockIdx.x;
    T *mine = z + (int64_t)blockIdx.x * d.vocab;
    const int t = threadIdx.x == 0 ? mg_target(d, target, row) : 0;
    const A of = threadIdx.x == 0 ? mg_wide(mine[t]) : (A)0;
    const mg_powers<A> p = mg_row_powers(d, mine); /* the block meets */
    if (threadIdx.x == 0)
        loss[row] = (A)MG_LN2 * mg_log_powers(p, of);
    if (dloss)
        mg_row_grad(d, mine, t, of, mg_log_powers(p, (A)0), dloss[row * d.dloss_stride], mine);
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
