/* flash_sm90.h - the attention of flash.h on the tensor cores of sm_90.
 *
 * A block is two warpgroups, each with 64 rows: queries, or in the last kernel keys. The next tiles
 * are copied while the current ones are used, and the block synchronises once a tile. Within a
 * warpgroup, the product after a softmax runs concurrently with the next scores (Shah et al.,
 * FlashAttention-3, 2024), and the softmax of one warpgroup runs concurrently with the products of
 * the other. Each sum has one order, as in flash.h: the same bits each time.
 *
 * Compiled only for sm_90a; for other targets the kernels trap. Only for scales above 0. */
#ifndef MG_CUDA_FLASH_SM90_H
#define MG_CUDA_FLASH_SM90_H

#if defined MG_SHIM || defined __CUDA_ARCH_FEAT_SM90_ALL

enum { FLASH90_ROWS = MG_FLASH90_ROWS, FLASH90_THREADS = 2 * FLASH90_ROWS };

/* The number of keys that the first query of this thread's warpgroup sees: no other query sees
 * fewer. A tile that ends there needs no mask. */
template <class S>
__device__ static inline int flash90_least(const mg_attention_desc &d, const S &sees, int from)
{
    return sees.query(d, from + (int)threadIdx.x / 128 * 64).keys(d);
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Masks the scores that this lane's row does not see; it sees `seen` of the tile's columns. */
template <int N> __device__ static inline void flash90_mask(float (*s)[4], int half, int seen)
{
    const int t = (int)threadIdx.x % 4;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++)
            if (8 * j + 2 * t + i >= seen)
                s[j][2 * half + i] = -INFINITY;
    }
}

/* Turns the scores of one row into exp2(scale * score - top), and updates its sum and maximum. */
template <int N>
__device__ static inline float flash90_softmax(float (*s)[4], int half, float scale, float &top,
                                               float &sum)
{
    float above = -INFINITY;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++)
        above = fmaxf(above, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
    above = fmaxf(flash_row(above, mg_greater<float>()) * scale, top);
    const float keep = mg_exp2(top - above);
    float part = 0;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++) {
            float &x = s[j][2 * half + i];
            x = mg_exp2(fmaf(x, scale, -above)); /* a NaN stays a NaN */
            part += x;
        }
    }
    sum = sum * keep + part; /* of this lane's columns; lanes are combined at the end */
    top = above;
    return keep;
}

template <class T, int D, class S>
__device__ static inline void flash90_forward(const mg_attention_desc &d, S sees, const T *q,
                                              const T *k, const T *v, T *o, float *lse)
{
    enum { M = FLASH90_ROWS, N = MG_FLASH90_KEYS(D), TILE = N * D / 8 };
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *ks = qs + M * D / 8, *vs = ks + 2 * TILE; /* two tiles of each */
    const flash_head p = flash_head_of(d.kv, d.group);
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    /* The longest first: with a mask the last queries see the most keys. */
    const int from = (int)(gridDim.x - 1 - blockIdx.x) * M, row = from + 16 * warp + g;
    const int queries = (int)d.queries, keys = sees.query(d, from + M - 1).keys(d);
    const typename S::query_type mine0 = sees.query(d, row), mine1 = sees.query(d, row + 8);
    const int least = flash90_least(d, sees, from);
    const float scale = (float)d.scale * FLASH_LOG2E;
    const T *k0 = k + flash_key_at(d.k, p, 0), *v0 = v + flash_key_at(d.v, p, 0);

    mg_panel_load<D, M, FLASH90_THREADS>(qs, q + flash_at(d.q, p, from), d.q[1], queries - from);
    mg_panel_load<D, N, FLASH90_THREADS>(ks, k0, d.k[1], keys);
    mg_copy_commit();
    mg_copy_arrived<0>();
    __syncthreads();
    uint32_t a[D / 16][4], weights[N / 16][4];
    MG_UNROLL
    for (int i = 0; i < D / 16; i++)
        mg_panel_a<M>(a[i], qs, 16 * warp, 16 * i);

    float acc[D / 8][4] = {{0}}, s[N / 8][4];
    /* A query that sees no key gets a finite maximum, so that exp2(-INFINITY - top) is 0. */
    float top0 = mine0.none() ? 0 : -INFINITY, top1 = mine1.none() ? 0 : -INFINITY;
    float sum0 = 0, sum1 = 0;
    int stage = 0;
    for (int at = 0;; at += N, stage ^= 1) {
        /* Here the keys at `at` have arrived, and the values before them. */
        if (at + N < keys)
            mg_panel_load<D, N, FLASH90_THREADS>(ks + (stage ^ 1) * TILE, k0 + (at + N) * d.k[1],
                                                 d.k[1], keys - at - N);
        mg_panel_load<D, N, FLASH90_THREADS>(vs + stage * TILE, v0 + at * d.v[1], d.v[1],
                                             keys - at);
        mg_copy_commit();
        mg_group_begin();
        mg_group_transposed<T, D, N, N>(s, a, ks + stage * TILE);
        mg_group_commit();
        if (at > 0) {
            mg_group_begin();
            mg_group_add<T, N, D, N>(acc, weights, vs + (stage ^ 1) * TILE);
            mg_group_commit();
            mg_group_wait<1>();
        } else
            mg_group_wait<0>();
        mg_settle(s);
        if (at + N > least) {
            flash90_mask<N>(s, 0, mine0.keys(d) - at);
            flash90_mask<N>(s, 1, mine1.keys(d) - at);
        }
        const float keep0 = flash90_softmax<N>(s, 0, scale, top0, sum0);
        const float keep1 = flash90_softmax<N>(s, 1, scale, top1, sum1);
        mg_group_wait<0>();
        mg_settle(acc);
        MG_UNROLL
        for (int j = 0; j < D / 8; j++) {
            acc[j][0] *= keep0, acc[j][1] *= keep0;
            acc[j][2] *= keep1, acc[j][3] *= keep1;
        }
        mg_pack_columns<T, N>(weights, s);
        mg_copy_arrived<0>();
        __syncthreads(); /* the copies have arrived, the used tiles are free */
        if (at + N >= keys)
            break;
    }
    mg_group_begin();
    mg_group_add<T, N, D, N>(acc, weights, vs + stage * TILE);
    mg_group_commit();
    mg_group_wait<0>();
    mg_settle(acc);
    flash_finish<T, D>(d, p, from + 16 * warp, acc, mine0, top0, sum0, mine1, top1, sum1, o, lse);
}

/* ---- backward ----------------------------------------------------------------------------- */

template <class T, int D, class S>
__device__ static inline void flash90_dq(const mg_attention_desc &d, S sees, const T *q, const T *k,
                                         const T *v, const float *lse, const T *dout,
                                         const float *delta, T *dq)
{
    enum { M = FLASH90_ROWS, N = MG_FLASH90_DQ_KEYS(D), TILE = N * D / 8 };
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *gs = qs + M * D / 8;
    mg_chunk *ks = gs + M * D / 8, *vs = ks + 3 * TILE; /* three tiles of keys, two of values */
    const flash_head p = flash_head_of(d.kv, d.group);
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int from = (int)(gridDim.x - 1 - blockIdx.x) * M, row = from + 16 * warp + g;
    const int queries = (int)d.queries, keys = sees.query(d, from + M - 1).keys(d);
    const typename S::query_type mine0 = sees.query(d, row), mine1 = sees.query(d, row + 8);
    const int least = flash90_least(d, sees, from), group = warp / 4 * 64;
    const float scale = (float)d.scale * FLASH_LOG2E;
    const T *k0 = k + flash_key_at(d.k, p, 0), *v0 = v + flash_key_at(d.v, p, 0);

    mg_panel_load<D, M, FLASH90_THREADS>(qs, q + flash_at(d.q, p, from), d.q[1], queries - from);
    mg_panel_load<D, M, FLASH90_THREADS>(gs, dout + flash_at(d.o, p, from), d.o[1], queries - from);
    mg_panel_load<D, N, FLASH90_THREADS>(ks, k0, d.k[1], keys);
    mg_panel_load<D, N, FLASH90_THREADS>(vs, v0, d.v[1], keys);
    mg_copy_commit();
    float l[2] = {0, 0}, D0[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        if (row + 8 * i < queries) {
            l[i] = lse[flash_at(d.lse, p, row + 8 * i)] * FLASH_LOG2E;
            D0[i] = delta[flash_delta_at(d, p) + row + 8 * i];
        }

    float acc[D / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    uint32_t ds[N / 16][4];
    int here = 0, last = 0; /* which of three tiles: the current keys, the previous keys */
    for (int at = 0, stage = 0; at < keys; at += N, stage ^= 1) {
        const int next = here == 2 ? 0 : here + 1;
        mg_copy_arrived<0>();
        __syncthreads(); /* the copies have arrived, the used tiles are free */
        if (at + N < keys) {
            mg_panel_load<D, N, FLASH90_THREADS>(ks + next * TILE, k0 + (at + N) * d.k[1], d.k[1],
                                                 keys - at - N);
            mg_panel_load<D, N, FLASH90_THREADS>(vs + (stage ^ 1) * TILE, v0 + (at + N) * d.v[1],
                                                 d.v[1], keys - at - N);
        }
        mg_copy_commit();
        mg_group_begin();
        mg_group_tiles_transposed<T, D, N, M, N>(s, qs, group, ks + here * TILE);
        mg_group_tiles_transposed<T, D, N, M, N>(dp, gs, group, vs + stage * TILE);
        mg_group_commit();
        if (at > 0) {
            mg_group_begin();
            mg_group_add<T, N, D, N>(acc, ds, ks + last * TILE);
            mg_group_commit();
            mg_group_wait<1>();
        } else
            mg_group_wait<0>();
        mg_settle(s);
        mg_settle(dp);
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++)
                s[j][i] = mg_exp2(fmaf(s[j][i], scale, -l[i / 2]));
        }
        if (at + N > least) {
            MG_UNROLL
            for (int j = 0; j < N / 8; j++) {
                MG_UNROLL
                for (int i = 0; i < 4; i++)
                    if (8 * j + 2 * t + i % 2 >= (i < 2 ? mine0 : mine1).keys(d) - at)
                        s[j][i] = 0;
            }
        }
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++)
                s[j][i] *= dp[j][i] - D0[i / 2];
        }
        mg_group_wait<0>();
        mg_settle(acc);
        mg_pack_columns<T, N>(ds, s);
        last = here, here = next;
    }
    if (keys > 0) {
        mg_group_begin();
        mg_group_add<T, N, D, N>(acc, ds, ks + last * TILE);
        mg_group_commit();
        mg_group_wait<0>();
        mg_settle(acc);
    }
    mg_store_rows<T, D>(dq + flash_at(d.dq, p, from + 16 * warp), d.dq[1],
                        queries - from - 16 * warp, acc, (float)d.scale, (float)d.scale);
}

template <class T, int D, class S>
__device__ static inline void flash90_dkv(const mg_attention_desc &d, S sees, const T *q,
                                          const T *k, const T *v, const float *lse, const T *dout,
                                          const float *delta, T *dk, T *dv)
{
    enum { M = FLASH90_ROWS, N = MG_FLASH90_QUERIES, TILE = N * D / 8 };
    MG_SHARED_ALL(area);
    mg_chunk *ks = area, *vs = ks + M * D / 8;
    mg_chunk *qs = vs + M * D / 8, *gs = qs + 2 * TILE; /* two tiles of each */
    float *ls = (float *)(gs + 2 * TILE); /* twice: lse, then delta, of a tile's queries */
    const flash_head p = flash_head_of(d.kv, 1);
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int from = (int)blockIdx.x * M, key = from + 16 * warp + g, group = warp / 4 * 64;
    const int queries = (int)d.queries, keys = (int)d.keys, me = (int)threadIdx.x;
    const float scale = (float)d.scale * FLASH_LOG2E;
    const typename S::key_type key0 = sees.key(d, key), key1 = sees.key(d, key + 8);
    const int first = sees.first(d, from) / N * N;
    const int all = first < queries ? (int)d.group * ((queries - first + N - 1) / N) : 0;

    mg_panel_load<D, M, FLASH90_THREADS>(ks, k + flash_key_at(d.k, p, from), d.k[1], keys - from);
    mg_panel_load<D, M, FLASH90_THREADS>(vs, v + flash_key_at(d.v, p, from), d.v[1], keys - from);
    /* Pointers to the current head of queries; after its last tile, the group's next head. */
    const T *q0 = q + flash_at(d.q, p, 0), *g0 = dout + flash_at(d.o, p, 0);
    const float *l0 = lse + flash_at(d.lse, p, 0), *delta0 = delta + flash_delta_at(d, p);
    /* Copies the tiles at `at`. Rows past the end are zeros, and add nothing. */
    const auto ask = [&](int at, int stage) {
        mg_panel_load<D, N, FLASH90_THREADS>(qs + stage * TILE, q0 + at * d.q[1], d.q[1],
                                             queries - at);
        mg_panel_load<D, N, FLASH90_THREADS>(gs + stage * TILE, g0 + at * d.o[1], d.o[1],
                                             queries - at);
        const int mine = at + me % N;
        const bool there = mine < queries;
        if (me < 2 * N)
            mg_copy_word(&ls[stage * 2 * N + me],
                         me < N ? l0 + (there ? mine : 0) * d.lse[1] : delta0 + (there ? mine : 0),
                         there);
        mg_copy_commit();
    };
    float ak[D / 8][4] = {{0}}, av[D / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    uint32_t a[N / 16][4], b[N / 16][4];
    if (all > 0)
        ask(first, 0);
    for (int n = 0, stage = 0, at = first; n < all; n++, stage ^= 1) {
        const float *now = ls + stage * 2 * N;
        const int seen = sees.query(d, at).keys(d), here = at;
        mg_copy_arrived<0>();
        __syncthreads(); /* the copies have arrived, the used tiles are free */
        at += N;
        if (at >= queries) {
            at = first;
            q0 += d.q[3], g0 += d.o[3], l0 += d.lse[3], delta0 += queries;
        }
        if (n + 1 < all)
            ask(at, stage ^ 1);
        mg_group_begin();
        mg_group_tiles_transposed<T, D, N, M, N>(s, ks, group, qs + stage * TILE);
        mg_group_commit();
        mg_group_tiles_transposed<T, D, N, M, N>(dp, vs, group, gs + stage * TILE);
        mg_group_commit();
        mg_group_wait<1>();
        mg_settle(s);
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int c = 0; c < 2; c++) {
                const float l = now[8 * j + 2 * t + c] * FLASH_LOG2E;
                s[j][c] = mg_exp2(fmaf(s[j][c], scale, -l));
                s[j][c + 2] = mg_exp2(fmaf(s[j][c + 2], scale, -l));
            }
        }
        if (seen < from + group + 64) /* the tile's first query sees the fewest keys */
            MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++)
                if (!(i < 2 ? key0 : key1).seen_by(d, here + 8 * j + 2 * t + i % 2))
                    s[j][i] = 0;
        }
        mg_pack_columns<T, N>(a, s);
        mg_group_begin();
        mg_group_add<T, N, D, N>(av, a, gs + stage * TILE);
        mg_group_commit();
        mg_group_wait<1>();
        mg_settle(dp);
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int c = 0; c < 2; c++) {
                const float less = now[N + 8 * j + 2 * t + c];
                s[j][c] *= dp[j][c] - less;
                s[j][c + 2] *= dp[j][c + 2] - less;
            }
        }
        mg_pack_columns<T, N>(b, s);
        mg_group_begin();
        mg_group_add<T, N, D, N>(ak, b, qs + stage * TILE);
        mg_group_commit();
        mg_group_wait<0>();
        mg_settle(av);
        mg_settle(ak);
    }
    const int to = from + 16 * warp;
    mg_store_rows<T, D>(dk + flash_key_at(d.dk, p, to), d.dk[1], keys - to, ak, (float)d.scale,
                        (float)d.scale);
    mg_store_rows<T, D>(dv + flash_key_at(d.dv, p, to), d.dv[1], keys - to, av, 1, 1);
}

#define FLASH90_DO(...) __VA_ARGS__
#else
#define FLASH90_DO(...) __trap();
#endif

#define FLASH90_KERNEL(least)                                                                      \
    extern "C" __global__ void __launch_bounds__(2 * MG_FLASH90_ROWS, least)
#define MG_FLASH90_OF(name, T, D, S)                                                               \
    FLASH90_KERNEL(D == 64 ? 2 : 1)                                                                \
    mg_flash90_##name##_##D(mg_attention_desc d, const T *q, const T *k, const T *v, T *o,         \
                            float *lse, const int32_t *seen)                                       \
    {                                                                                              \
        FLASH90_DO((flash90_forward<T, D>(d, S{seen}, q, k, v, o, lse));)                          \
    }                                                                                              \
    MG_EXPORT(mg_flash90_##name##_##D)                                                             \
    FLASH90_KERNEL(1)                                                                              \
    mg_flash90_dq_##name##_##D(mg_attention_desc d, const T *q, const T *k, const T *v,            \
                               const float *lse, const T *dout, const float *delta, T *dq,         \
                               const int32_t *seen)                                                \
    {                                                                                              \
        FLASH90_DO((flash90_dq<T, D>(d, S{seen}, q, k, v, lse, dout, delta, dq));)                 \
    }                                                                                              \
    MG_EXPORT(mg_flash90_dq_##name##_##D)                                                          \
    FLASH90_KERNEL(1)                                                                              \
    mg_flash90_dkv_##name##_##D(mg_attention_desc d, const T *q, const T *k, const T *v,           \
                                const float *lse, const T *dout, const float *delta, T *dk, T *dv, \
                                const int32_t *seen)                                               \
    {                                                                                              \
        FLASH90_DO((flash90_dkv<T, D>(d, S{seen}, q, k, v, lse, dout, delta, dk, dv));)            \
    }                                                                                              \
    MG_EXPORT(mg_flash90_dkv_##name##_##D)
#define MG_FLASH90(name, T, D)                                                                     \
    MG_FLASH90_OF(name, T, D, mg_all_keys)                                                         \
    MG_IF_PARTS(MG_FLASH90_OF(part_##name, T, D, mg_some_keys))
MG_IF_BF16(MG_FLASH90(bf16, mg_bf16, 64))
MG_IF_BF16(MG_FLASH90(bf16, mg_bf16, 128))
MG_IF_F16(MG_FLASH90(f16, mg_f16, 64))
MG_IF_F16(MG_FLASH90(f16, mg_f16, 128))

#endif
