/* attention.h - attention and its gradients where no tile fits (flash.h): f64, and halves of which
 * some row begins at no multiple of 16 bytes. A warp computes a query, or in the gradients of keys
 * and values a key: slow, for any type, head and mask.
 *
 * A warp processes 32 keys (queries) at a time: each lane computes the products of one, then the
 * lanes divide the head for the sums; lane d % 32 has element d of the head. The softmax is
 * renormalised as it goes (Milakov and Gimelshein, 2018), so no score is stored; the gradients
 * recompute it from lse (Dao et al., FlashAttention, 2022). */
#ifndef MG_CUDA_ATTENTION_H
#define MG_CUDA_ATTENTION_H

__device__ static inline float mg_tanh(float x)
{
    return tanhf(x);
}
__device__ static inline double mg_tanh(double x)
{
    return tanh(x);
}

enum { MG_HEAD_EACH = MG_ATTENTION_HEAD / 32 }; /* elements of a head that one lane has */

/* The place of a warp in [batch, kv, group, row], rows innermost; mg_spot_of returns false if the
 * warp has none. */
struct mg_spot {
    int64_t b, h, g, row;
};
__device__ static inline bool mg_spot_of(int64_t batch, int64_t kv, int64_t group, int64_t rows,
                                         mg_spot *p)
{
    int64_t w = (int64_t)blockIdx.x * MG_ATTENTION_WARPS + threadIdx.x / 32;
    p->row = w % rows;
    p->g = w / rows % group;
    p->h = w / rows / group % kv;
    p->b = w / rows / group / kv;
    return p->b < batch;
}

/* A scaled score under the cap, and its slope. */
template <class A> __device__ static inline A mg_cap(const mg_attention_desc &d, A x)
{
    return d.cap > 0 ? (A)d.cap * mg_tanh(x / (A)d.cap) : x;
}
template <class A> __device__ static inline A mg_cap_slope(const mg_attention_desc &d, A capped)
{
    const A t = d.cap > 0 ? capped / (A)d.cap : (A)0;
    return 1 - t * t;
}

template <class T, class A = typename mg_wider<T>::type>
__device__ static inline A mg_dot(const T *a, const T *b, int64_t n)
{
    A sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += mg_wide(a[i]) * mg_wide(b[i]);
    return sum;
}

__device__ static inline int64_t mg_at(const int64_t *stride, const mg_spot &p, int64_t row)
{
    return p.b * stride[0] + row * stride[1] + p.h * stride[2] + p.g * stride[3];
}
__device__ static inline int64_t mg_key_at(const int64_t *stride, const mg_spot &p, int64_t key)
{
    return p.b * stride[0] + key * stride[1] + p.h * stride[2];
}

/* The bias of a score. */
template <class A>
__device__ static inline A mg_bias(const mg_attention_desc &d, const mg_some_keys &sees,
                                   const mg_spot &p, int64_t query, int64_t key)
{
    return sees.bias ? ((const A *)sees.bias)[mg_at(d.bias, p, query) + key * d.bias[4]] : (A)0;
}

/* A probability: with a bias both numbers may be so far below 0 that their difference is rounding.
 */
template <class A> __device__ static inline A mg_share(A score, A lse)
{
    const A less = score - lse;
    return mg_exp(less < 0 ? less : (A)0);
}

/* acc[] of this lane += the sum over lanes of weight * row(lane)[d]. */
template <class T, class A>
__device__ static inline void mg_spread(A *acc, int64_t n, A weight, const T *rows, int64_t stride,
                                        int64_t count)
{
    const int lane = threadIdx.x % 32;
    for (int64_t k = 0; k < count; k++) {
        const A w = __shfl_sync(MG_ALL, weight, (int)k);
        for (int i = 0; i < MG_HEAD_EACH; i++)
            if (lane + 32 * i < n)
                acc[i] += w * mg_wide(rows[k * stride + lane + 32 * i]);
    }
}

template <class T, class A>
__device__ static inline void mg_attend(const mg_attention_desc &d, mg_some_keys sees, const T *q,
                                        const T *k, const T *v, T *o, A *lse)
{
    mg_spot p;
    if (!mg_spot_of(d.batch, d.kv, d.group, d.queries, &p))
        return;
    const int lane = threadIdx.x % 32;
    const T *mine = q + mg_at(d.q, p, p.row);
    const mg_range keys = sees.keys(d, p.b, (int)p.row);
    A top = -(A)INFINITY, sum = 0, acc[MG_HEAD_EACH] = {0};
    for (int64_t from = keys.from; from < keys.to; from += 32) {
        const int64_t count = keys.to - from < 32 ? keys.to - from : 32;
        A s = -(A)INFINITY;
        if (lane < count)
            s = mg_cap(d, (A)d.scale * mg_dot(mine, k + mg_key_at(d.k, p, from + lane), d.head)) +
                mg_bias<A>(d, sees, p, p.row, from + lane);
        const A above = mg_greater<A>()(top, mg_warp_reduce(s, mg_greater<A>()));
        const A keep = mg_exp(top - above), e = lane < count ? mg_exp(s - above) : (A)0;
        sum = sum * keep + mg_warp_reduce(e, mg_plus<A>());
        top = above;
        for (int i = 0; i < MG_HEAD_EACH; i++)
            acc[i] *= keep;
        mg_spread(acc, d.vhead, e, v + mg_key_at(d.v, p, from), d.v[1], count);
    }
    T *to = o + mg_at(d.o, p, p.row);
    const bool none = keys.none();
    for (int i = 0; i < MG_HEAD_EACH; i++)
        if (lane + 32 * i < d.vhead)
            to[lane + 32 * i] = mg_narrow<T>(none ? (A)0 : acc[i] / sum);
    if (lane == 0)
        lse[mg_at(d.lse, p, p.row)] = none ? (A)MG_NO_LSE : mg_log(sum) + top;
}

/* dq = scale sum_t p_t (dp_t - D) k_t, with dp_t = do . v_t and D = do . o. */
template <class T, class A>
__device__ static inline void mg_attend_dq(const mg_attention_desc &d, mg_some_keys sees,
                                           const T *q, const T *k, const T *v, const T *o,
                                           const A *lse, const T *dout, T *dq)
{
    mg_spot p;
    if (!mg_spot_of(d.batch, d.kv, d.group, d.queries, &p))
        return;
    const int lane = threadIdx.x % 32;
    const T *mine = q + mg_at(d.q, p, p.row), *g = dout + mg_at(d.o, p, p.row);
    const A D = mg_dot(g, o + mg_at(d.o, p, p.row), d.vhead), l = lse[mg_at(d.lse, p, p.row)];
    const mg_range keys = sees.keys(d, p.b, (int)p.row);
    A acc[MG_HEAD_EACH] = {0};
    for (int64_t from = keys.from; from < keys.to; from += 32) {
        const int64_t count = keys.to - from < 32 ? keys.to - from : 32;
        A ds = 0;
        if (lane < count) {
            const T *key = k + mg_key_at(d.k, p, from + lane);
            const A x = mg_cap(d, (A)d.scale * mg_dot(mine, key, d.head));
            const A e = mg_share(x + mg_bias<A>(d, sees, p, p.row, from + lane), l);
            ds = e * (mg_dot(g, v + mg_key_at(d.v, p, from + lane), d.vhead) - D) * (A)d.scale *
                 mg_cap_slope(d, x);
        }
        mg_spread(acc, d.head, ds, k + mg_key_at(d.k, p, from), d.k[1], count);
    }
    T *to = dq + mg_at(d.dq, p, p.row);
    for (int i = 0; i < MG_HEAD_EACH; i++)
        if (lane + 32 * i < d.head)
            to[lane + 32 * i] = mg_narrow<T>(acc[i]);
}

/* dk_t = scale sum_s p_st (dp_st - D_s) q_s and dv_t = sum_s p_st do_s, over all groups. */
template <class T, class A>
__device__ static inline void mg_attend_dkv(const mg_attention_desc &d, mg_some_keys sees,
                                            const T *q, const T *k, const T *v, const T *o,
                                            const A *lse, const T *dout, T *dk, T *dv)
{
    mg_spot p;
    if (!mg_spot_of(d.batch, d.kv, 1, d.keys, &p))
        return;
    const int lane = threadIdx.x % 32;
    const T *key = k + mg_key_at(d.k, p, p.row), *value = v + mg_key_at(d.v, p, p.row);
    A ak[MG_HEAD_EACH] = {0}, av[MG_HEAD_EACH] = {0};
    const mg_range queries = sees.queries(d, p.b, (int)p.row, (int)p.row + 1);
    for (p.g = 0; p.g < d.group; p.g++)
        for (int64_t from = queries.from; from < queries.to; from += 32) {
            const int64_t count = queries.to - from < 32 ? queries.to - from : 32;
            A e = 0, ds = 0;
            if (lane < count) {
                const int64_t s = from + lane;
                const T *g = dout + mg_at(d.o, p, s);
                const A x = mg_cap(d, (A)d.scale * mg_dot(q + mg_at(d.q, p, s), key, d.head));
                e = mg_share(x + mg_bias<A>(d, sees, p, s, p.row), lse[mg_at(d.lse, p, s)]);
                ds = e * (A)d.scale * mg_cap_slope(d, x) *
                     (mg_dot(g, value, d.vhead) - mg_dot(g, o + mg_at(d.o, p, s), d.vhead));
            }
            mg_spread(ak, d.head, ds, q + mg_at(d.q, p, from), d.q[1], count);
            mg_spread(av, d.vhead, e, dout + mg_at(d.o, p, from), d.o[1], count);
        }
    for (int i = 0; i < MG_HEAD_EACH; i++) {
        if (lane + 32 * i < d.head)
            dk[mg_key_at(d.dk, p, p.row) + lane + 32 * i] = mg_narrow<T>(ak[i]);
        if (lane + 32 * i < d.vhead)
            dv[mg_key_at(d.dv, p, p.row) + lane + 32 * i] = mg_narrow<T>(av[i]);
    }
}

/* Of the element of the bias that a thread has: the sum over all that it is added to. */
template <class T, class A>
__device__ static inline void mg_attend_dbias(const mg_attention_desc &d, mg_some_keys sees,
                                              const T *q, const T *k, const T *v, const T *o,
                                              const A *lse, const T *dout, A *dbias)
{
    int64_t left = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, begin[5], end[5];
    const int64_t size[5] = {d.batch, d.queries, d.kv, d.group, d.keys};
    for (int i = 4; i >= 0; i--) {
        begin[i] = d.dbias[i] ? left % size[i] : 0;
        end[i] = d.dbias[i] ? begin[i] + 1 : size[i];
        left /= d.dbias[i] ? size[i] : 1;
    }
    if (left > 0)
        return;
    A sum = 0;
    mg_spot p;
    for (p.b = begin[0]; p.b < end[0]; p.b++)
        for (p.h = begin[2]; p.h < end[2]; p.h++)
            for (p.g = begin[3]; p.g < end[3]; p.g++)
                for (int64_t s = begin[1]; s < end[1]; s++) {
                    const mg_range keys = sees.keys(d, p.b, (int)s);
                    const T *g = dout + mg_at(d.o, p, s), *mine = q + mg_at(d.q, p, s);
                    for (int64_t t = begin[4]; t < end[4]; t++) {
                        if (!keys.has((int)t))
                            continue;
                        const A x =
                            mg_cap(d, (A)d.scale * mg_dot(mine, k + mg_key_at(d.k, p, t), d.head));
                        sum += mg_share(x + mg_bias<A>(d, sees, p, s, t), lse[mg_at(d.lse, p, s)]) *
                               (mg_dot(g, v + mg_key_at(d.v, p, t), d.vhead) -
                                mg_dot(g, o + mg_at(d.o, p, s), d.vhead));
                    }
                }
    p = mg_spot{begin[0], begin[2], begin[3], begin[1]};
    dbias[mg_at(d.dbias, p, p.row) + begin[4] * d.dbias[4]] = sum;
}

#define MG_ATTENTION_KERNEL     extern "C" __global__ void __launch_bounds__(32 * MG_ATTENTION_WARPS, 1)
#define MG_ATTENTION_forward(n) MG_ATTEND(n, MG_TYPE_##n, mg_wider<MG_TYPE_##n>::type)
#define MG_ATTENTION_dq(n)      MG_ATTEND_DQ(n, MG_TYPE_##n, mg_wider<MG_TYPE_##n>::type)
#define MG_ATTENTION_dkv(n)     MG_ATTEND_DKV(n, MG_TYPE_##n, mg_wider<MG_TYPE_##n>::type)
#define MG_ATTENTION_dbias(n)   MG_ATTEND_DBIAS(n, MG_TYPE_##n, mg_wider<MG_TYPE_##n>::type)
#define MG_ATTEND(n, T, A)                                                                         \
    MG_ATTENTION_KERNEL mg_attention_forward_##n(mg_attention_desc d, mg_some_keys sees,           \
                                                 const T *q, const T *k, const T *v, T *o, A *lse) \
    {                                                                                              \
        mg_attend(d, sees, q, k, v, o, lse);                                                       \
    }                                                                                              \
    MG_EXPORT(mg_attention_forward_##n)
#define MG_ATTEND_DQ(n, T, A)                                                                      \
    MG_ATTENTION_KERNEL mg_attention_dq_##n(mg_attention_desc d, mg_some_keys sees, const T *q,    \
                                            const T *k, const T *v, const T *o, const A *lse,      \
                                            const T *dout, T *dq)                                  \
    {                                                                                              \
        mg_attend_dq(d, sees, q, k, v, o, lse, dout, dq);                                          \
    }                                                                                              \
    MG_EXPORT(mg_attention_dq_##n)
#define MG_ATTEND_DKV(n, T, A)                                                                     \
    MG_ATTENTION_KERNEL mg_attention_dkv_##n(mg_attention_desc d, mg_some_keys sees, const T *q,   \
                                             const T *k, const T *v, const T *o, const A *lse,     \
                                             const T *dout, T *dk, T *dv)                          \
    {                                                                                              \
        mg_attend_dkv(d, sees, q, k, v, o, lse, dout, dk, dv);                                     \
    }                                                                                              \
    MG_EXPORT(mg_attention_dkv_##n)

#define MG_ATTEND_DBIAS(n, T, A)                                                                   \
    MG_ATTENTION_KERNEL mg_attention_dbias_##n(mg_attention_desc d, mg_some_keys sees, const T *q, \
                                               const T *k, const T *v, const T *o, const A *lse,   \
                                               const T *dout, A *dbias)                            \
    {                                                                                              \
        mg_attend_dbias(d, sees, q, k, v, o, lse, dout, dbias);                                    \
    }                                                                                              \
    MG_EXPORT(mg_attention_dbias_##n)

#endif
