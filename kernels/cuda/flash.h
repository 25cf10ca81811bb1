/* flash.h - attention of halves on the tensor cores, for heads of 64 and 128.
 *
 * As in FlashAttention-2 (Dao, 2023), a block takes 64 queries and loops over the keys in tiles;
 * the softmax is renormalised as it goes, in powers of two, so that no score reaches memory. The
 * gradients are two kernels, which both recompute the scores: one computes dq, in a loop over keys;
 * the other dk and dv, in a loop over the queries of all groups. Each element therefore has one
 * owner and each sum one order: the same bits each time, with seven products, where a sum of dq in
 * memory would need five.
 *
 * A warp owns 16 rows: queries, or in the last kernel keys. Operands of products are rounded to T;
 * all sums and the softmax are float. */
#ifndef MG_CUDA_FLASH_H
#define MG_CUDA_FLASH_H

enum { FLASH_THREADS = 32 * MG_FLASH_WARPS, FLASH_ROWS = 16 * MG_FLASH_WARPS };

#define FLASH_LOG2E 1.4426950408889634f
#define FLASH_LN2   0.6931471805599453f

/* The place of a block in [batch, kv, group]: y of the grid. */
struct flash_head {
    int64_t b, h, g;
};
__device__ static inline flash_head flash_head_of(int64_t kv, int64_t group)
{
    const int64_t y = blockIdx.y;
    return flash_head{y / group / kv, y / group % kv, y % group};
}
__device__ static inline int64_t flash_at(const int64_t s[4], const flash_head &p, int64_t row)
{
    return p.b * s[0] + row * s[1] + p.h * s[2] + p.g * s[3];
}
__device__ static inline int64_t flash_key_at(const int64_t s[3], const flash_head &p, int64_t row)
{
    return p.b * s[0] + row * s[1] + p.h * s[2];
}

/* Reduces over the four lanes that share a row. */
template <class F> __device__ static inline float flash_row(float x, F f)
{
    x = f(x, __shfl_xor_sync(MG_ALL, x, 1));
    return f(x, __shfl_xor_sync(MG_ALL, x, 2));
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Turns the scores of one row into exp2(score - top), and updates its sum and maximum. */
template <int N>
__device__ static inline float flash_softmax(float (*s)[4], int half, float scale, int seen,
                                             float &top, float &sum)
{
    const int t = (int)threadIdx.x % 4;
    float above = -INFINITY;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++) {
            float &x = s[j][2 * half + i];
            x = 8 * j + 2 * t + i < seen ? x * scale : -INFINITY;
            above = x > above ? x : above;
        }
    }
    above = flash_row(above, mg_greater<float>());
    above = top > above ? top : above;
    const float keep = mg_exp2(top - above);
    float part = 0;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++) {
            float &x = s[j][2 * half + i];
            x = mg_exp2(x - above);
            part += x;
        }
    }
    sum = sum * keep + part; /* of this lane's columns; lanes are combined at the end */
    top = above;
    return keep;
}

/* The normaliser of a row in *lse; returns the factor of its sums. A query that sees no key has an
 * output of 0. */
template <class Q>
__device__ static inline float flash_norm(const Q &mine, float top, float sum, float *lse)
{
    *lse = mine.none() ? (float)MG_NO_LSE : (top + log2f(sum)) * FLASH_LN2;
    return mine.none() ? 0 : 1 / sum;
}

/* Writes a warp's 16 rows from `from` on. A lane has two of them, 8 apart: for each the largest
 * score, and the sum over its columns. */
template <class T, int D, class Q>
__device__ static inline void flash_finish(const mg_attention_desc &d, const flash_head &p,
                                           int from, const float (*acc)[4], const Q &mine0,
                                           float top0, float sum0, const Q &mine1, float top1,
                                           float sum1, T *o, float *lse)
{
    const int row = from + (int)threadIdx.x % 32 / 4, queries = (int)d.queries;
    float l[2];
    const float by0 = flash_norm(mine0, top0, flash_row(sum0, mg_plus<float>()), &l[0]);
    const float by1 = flash_norm(mine1, top1, flash_row(sum1, mg_plus<float>()), &l[1]);
    mg_store_rows<T, D>(o + flash_at(d.o, p, from), d.o[1], queries - from, acc, by0, by1);
    for (int i = 0; i < 2; i++)
        if (threadIdx.x % 4 == 0 && row + 8 * i < queries)
            lse[flash_at(d.lse, p, row + 8 * i)] = l[i];
}

template <class T, int D, class S>
__device__ static inline void flash_forward(const mg_attention_desc &d, S sees, const T *q,
                                            const T *k, const T *v, T *o, float *lse)
{
    enum { N = 64 };
    MG_SHARED(mg_chunk, ks, N * D / 8);
    MG_SHARED(mg_chunk, vs, N * D / 8);
    const flash_head p = flash_head_of(d.kv, d.group);
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    /* The longest first: with a mask the last queries see the most keys. */
    const int from = (int)(gridDim.x - 1 - blockIdx.x) * FLASH_ROWS, row = from + 16 * warp + g;
    const int queries = (int)d.queries, keys = sees.query(d, from + FLASH_ROWS - 1).keys(d);
    const typename S::query_type mine0 = sees.query(d, row), mine1 = sees.query(d, row + 8);
    const float scale = (float)d.scale * FLASH_LOG2E;
    const T *k0 = k + flash_key_at(d.k, p, 0), *v0 = v + flash_key_at(d.v, p, 0);

    uint32_t a[D / 16][4];
    mg_tile_load<D, FLASH_ROWS, FLASH_THREADS>(ks, q + flash_at(d.q, p, from), d.q[1],
                                               queries - from);
    mg_copy_commit();
    mg_copy_wait<0>();
    __syncthreads();
    MG_UNROLL
    for (int i = 0; i < D / 16; i++)
        mg_tile_a<D>(a[i], ks, 16 * warp, 16 * i);
    __syncthreads(); /* before keys overwrite the queries */

    float acc[D / 8][4] = {{0}}, s[N / 8][4];
    /* A query that sees no key gets a finite maximum, so that exp2(-INFINITY - top) is 0. */
    float top0 = mine0.none() ? 0 : -INFINITY, top1 = mine1.none() ? 0 : -INFINITY;
    float sum0 = 0, sum1 = 0;
    mg_tile_load<D, N, FLASH_THREADS>(ks, k0, d.k[1], keys);
    mg_copy_commit();
    for (int at = 0; at < keys; at += N) {
        mg_copy_wait<0>();
        __syncthreads(); /* these keys have arrived, the values before are used */
        mg_tile_load<D, N, FLASH_THREADS>(vs, v0 + at * d.v[1], d.v[1], keys - at);
        mg_copy_commit();
        mg_times_transposed<T, D, N>(s, a, ks);
        __syncthreads(); /* the keys are used */
        if (at + N < keys)
            mg_tile_load<D, N, FLASH_THREADS>(ks, k0 + (at + N) * d.k[1], d.k[1], keys - at - N);
        mg_copy_commit(); /* perhaps empty: the wait below counts groups */
        const float keep0 = flash_softmax<N>(s, 0, scale, mine0.keys(d) - at, top0, sum0);
        const float keep1 = flash_softmax<N>(s, 1, scale, mine1.keys(d) - at, top1, sum1);
        MG_UNROLL
        for (int j = 0; j < D / 8; j++) {
            acc[j][0] *= keep0, acc[j][1] *= keep0;
            acc[j][2] *= keep1, acc[j][3] *= keep1;
        }
        mg_copy_wait<1>();
        __syncthreads(); /* the values have arrived */
        mg_add_times<T, D, N>(acc, s, vs);
    }
    flash_finish<T, D>(d, p, from + 16 * warp, acc, mine0, top0, sum0, mine1, top1, sum1, o, lse);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* Index of query 0 of a head in delta (delta.h). */
__device__ static inline int64_t flash_delta_at(const mg_attention_desc &d, const flash_head &p)
{
    return ((p.b * d.kv + p.h) * d.group + p.g) * d.queries;
}

template <class T, int D, class S>
__device__ static inline void flash_dq(const mg_attention_desc &d, S sees, const T *q, const T *k,
                                       const T *v, const float *lse, const T *dout,
                                       const float *delta, T *dq)
{
    enum {
        N = 4096 / D
    }; /* keys at a time: fewer for a large head, because a thread has registers for both */
    MG_SHARED(mg_chunk, area, 2 * N * D / 8);
    mg_chunk *ks = area, *vs = area + N * D / 8;
    const flash_head p = flash_head_of(d.kv, d.group);
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int from = (int)(gridDim.x - 1 - blockIdx.x) * FLASH_ROWS, row = from + 16 * warp + g;
    const int queries = (int)d.queries, keys = sees.query(d, from + FLASH_ROWS - 1).keys(d);
    const typename S::query_type mine0 = sees.query(d, row), mine1 = sees.query(d, row + 8);
    const float scale = (float)d.scale * FLASH_LOG2E;
    float l[2] = {0, 0}, D0[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        if (row + 8 * i < queries) {
            l[i] = lse[flash_at(d.lse, p, row + 8 * i)] * FLASH_LOG2E;
            D0[i] = delta[flash_delta_at(d, p) + row + 8 * i];
        }

    uint32_t a[D / 16][4], ga[D / 16][4];
    mg_tile_load<D, FLASH_ROWS, FLASH_THREADS>(area, q + flash_at(d.q, p, from), d.q[1],
                                               queries - from);
    mg_copy_commit();
    mg_copy_wait<0>();
    __syncthreads();
    MG_UNROLL
    for (int i = 0; i < D / 16; i++)
        mg_tile_a<D>(a[i], area, 16 * warp, 16 * i);
    __syncthreads();
    mg_tile_load<D, FLASH_ROWS, FLASH_THREADS>(area, dout + flash_at(d.o, p, from), d.o[1],
                                               queries - from);
    mg_copy_commit();
    mg_copy_wait<0>();
    __syncthreads();
    MG_UNROLL
    for (int i = 0; i < D / 16; i++)
        mg_tile_a<D>(ga[i], area, 16 * warp, 16 * i);

    float acc[D / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    for (int at = 0; at < keys; at += N) {
        __syncthreads(); /* the tiles in shared memory are used */
        mg_tile_load<D, N, FLASH_THREADS>(ks, k + flash_key_at(d.k, p, at), d.k[1], keys - at);
        mg_tile_load<D, N, FLASH_THREADS>(vs, v + flash_key_at(d.v, p, at), d.v[1], keys - at);
        mg_copy_commit();
        mg_copy_wait<0>();
        __syncthreads();
        mg_times_transposed<T, D, N>(s, a, ks);
        mg_times_transposed<T, D, N>(dp, ga, vs);
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++) {
                const bool seen = 8 * j + 2 * t + i % 2 < (i < 2 ? mine0 : mine1).keys(d) - at;
                const float e = seen ? mg_exp2(s[j][i] * scale - l[i / 2]) : 0;
                s[j][i] = e * (dp[j][i] - D0[i / 2]);
            }
        }
        mg_add_times<T, D, N>(acc, s, ks);
    }
    mg_store_rows<T, D>(dq + flash_at(d.dq, p, from + 16 * warp), d.dq[1],
                        queries - from - 16 * warp, acc, (float)d.scale, (float)d.scale);
}

template <class T, int D, class S>
__device__ static inline void flash_dkv(const mg_attention_desc &d, S sees, const T *q, const T *k,
                                        const T *v, const float *lse, const T *dout,
                                        const float *delta, T *dk, T *dv)
{
    enum { N = 4096 / D }; /* queries at a time */
    MG_SHARED(mg_chunk, ks, FLASH_ROWS * D / 8);
    MG_SHARED(mg_chunk, vs, FLASH_ROWS * D / 8);
    MG_SHARED(mg_chunk, qs, N * D / 8);
    MG_SHARED(mg_chunk, gs, N * D / 8);
    flash_head p = flash_head_of(d.kv, 1);
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int from = (int)blockIdx.x * FLASH_ROWS, key = from + 16 * warp + g;
    const int queries = (int)d.queries, keys = (int)d.keys;
    const float scale = (float)d.scale * FLASH_LOG2E;
    mg_tile_load<D, FLASH_ROWS, FLASH_THREADS>(ks, k + flash_key_at(d.k, p, from), d.k[1],
                                               keys - from);
    mg_tile_load<D, FLASH_ROWS, FLASH_THREADS>(vs, v + flash_key_at(d.v, p, from), d.v[1],
                                               keys - from);
    mg_copy_commit();
    const typename S::key_type key0 = sees.key(d, key), key1 = sees.key(d, key + 8);
    const int first = sees.first(d, from) / N * N;

    float ak[D / 8][4] = {{0}}, av[D / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    for (p.g = 0; p.g < d.group; p.g++)
        for (int at = first; at < queries; at += N) {
            __syncthreads(); /* the tiles in shared memory are used */
            mg_tile_load<D, N, FLASH_THREADS>(qs, q + flash_at(d.q, p, at), d.q[1], queries - at);
            mg_tile_load<D, N, FLASH_THREADS>(gs, dout + flash_at(d.o, p, at), d.o[1],
                                              queries - at);
            mg_copy_commit();
            mg_copy_wait<0>();
            __syncthreads();
            mg_tile_times_transposed<T, D, N>(s, ks, 16 * warp, qs);
            mg_tile_times_transposed<T, D, N>(dp, vs, 16 * warp, gs);
            const float *l0 = lse + flash_at(d.lse, p, 0), *delta0 = delta + flash_delta_at(d, p);
            MG_UNROLL
            for (int j = 0; j < N / 8; j++) {
                MG_UNROLL
                for (int c = 0; c < 2; c++) {
                    const int query = at + 8 * j + 2 * t + c;
                    const bool there = query < queries;
                    const float l = there ? l0[query * d.lse[1]] * FLASH_LOG2E : 0;
                    const float of = there ? delta0[query] : 0;
                    MG_UNROLL
                    for (int i = c; i < 4; i += 2) {
                        const bool seen = there && (i < 2 ? key0 : key1).seen_by(d, query);
                        const float e = seen ? mg_exp2(s[j][i] * scale - l) : 0;
                        s[j][i] = e;
                        dp[j][i] = e * (dp[j][i] - of);
                    }
                }
            }
            mg_add_times<T, D, N>(av, s, gs);
            mg_add_times<T, D, N>(ak, dp, qs);
        }
    const int to = from + 16 * warp;
    mg_store_rows<T, D>(dk + flash_key_at(d.dk, p, to), d.dk[1], keys - to, ak, (float)d.scale,
                        (float)d.scale);
    mg_store_rows<T, D>(dv + flash_key_at(d.dv, p, to), d.dv[1], keys - to, av, 1, 1);
}

#define FLASH_KERNEL extern "C" __global__ void __launch_bounds__(FLASH_THREADS, 1)
#define MG_FLASH_OF(name, T, D, S)                                                                 \
    FLASH_KERNEL mg_flash_##name##_##D(mg_attention_desc d, const T *q, const T *k, const T *v,    \
                                       T *o, float *lse, const int32_t *seen)                      \
    {                                                                                              \
        flash_forward<T, D>(d, S{seen}, q, k, v, o, lse);                                          \
    }                                                                                              \
    MG_EXPORT(mg_flash_##name##_##D)                                                               \
    FLASH_KERNEL mg_flash_dq_##name##_##D(mg_attention_desc d, const T *q, const T *k, const T *v, \
                                          const float *lse, const T *dout, const float *delta,     \
                                          T *dq, const int32_t *seen)                              \
    {                                                                                              \
        flash_dq<T, D>(d, S{seen}, q, k, v, lse, dout, delta, dq);                                 \
    }                                                                                              \
    MG_EXPORT(mg_flash_dq_##name##_##D)                                                            \
    FLASH_KERNEL mg_flash_dkv_##name##_##D(mg_attention_desc d, const T *q, const T *k,            \
                                           const T *v, const float *lse, const T *dout,            \
                                           const float *delta, T *dk, T *dv, const int32_t *seen)  \
    {                                                                                              \
        flash_dkv<T, D>(d, S{seen}, q, k, v, lse, dout, delta, dk, dv);                            \
    }                                                                                              \
    MG_EXPORT(mg_flash_dkv_##name##_##D)
#define MG_FLASH(name, T, D)                                                                       \
    MG_FLASH_OF(name, T, D, mg_all_keys)                                                           \
    MG_IF_PARTS(MG_FLASH_OF(part_##name, T, D, mg_some_keys))
MG_IF_BF16(MG_FLASH(bf16, mg_bf16, 64))
MG_IF_BF16(MG_FLASH(bf16, mg_bf16, 128))
MG_IF_F16(MG_FLASH(f16, mg_f16, 64))
MG_IF_F16(MG_FLASH(f16, mg_f16, 128))

#endif
