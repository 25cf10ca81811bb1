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
enum { FLASH90_SECTION = 16 << 20 }; /* of a cache of 50 MB */

/* A block that has a multiprocessor to itself begins its products before it asks for the next
 * tiles, and holds its waits back (mg_group_after), so that the tensor cores do not idle. Two
 * blocks fill each other's gaps, and have no registers for that. */
template <int D, int V> __device__ static constexpr bool flash90_alone()
{
    return D + V > 128;
}

/* The keys that a lane sees, in a block of queries from `from` on; tiles that its warpgroup sees
 * need no mask. */
template <class S>
__device__ static inline flash_sight flash90_sight(const mg_attention_desc &d, const S &sees,
                                                   int64_t b, int from)
{
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    return flash_sight_of(d, sees, b, from + warp / 4 * 64, 64, from + 16 * warp + g);
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Turns the scores of one row into exp2(scale * score - top), and updates its sum and maximum.
 * SOME: as in flash_softmax. */
template <int N, bool SOME>
__device__ static inline float flash90_softmax(float (*s)[4], int half, float scale, float &top,
                                               float &sum)
{
    float above = -INFINITY;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++)
        above = fmaxf(above, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
    above = fmaxf(flash_row(above, mg_greater<float>()) * scale, top);
    const float base = SOME && above == -INFINITY ? 0 : above, keep = mg_exp2(top - base);
    float part = 0;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++) {
            float &x = s[j][2 * half + i];
            x = mg_exp2(fmaf(x, scale, -base)); /* a NaN stays a NaN */
            part += x;
        }
    }
    sum = sum * keep + part; /* of this lane's columns; lanes are combined at the end */
    top = above;
    return keep;
}

template <class T, int D, int V, class S>
__device__ static inline void flash90_forward(const mg_attention_desc &d, S sees, const T *q,
                                              const T *k, const T *v, T *o, float *lse)
{
    enum { M = FLASH90_ROWS, N = MG_FLASH90_KEYS(D, V), KS = N * D / 8, VS = N * V / 8 };
    /* The columns of queries that are in registers. */
    enum { HELD = D > 64 || !S::SOME ? D : 0 };
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *ks = qs + M * D / 8, *vs = ks + 2 * KS; /* two tiles of each */
    uint32_t *slot = (uint32_t *)(vs + 2 * VS) + threadIdx.x;
    const flash_place place =
        flash_place_of(d.kv, d.group, d.queries, M, (int)blockIdx.x,
                       flash_section<T, FLASH90_SECTION>(d.keys, d.head + d.vhead) * (int)d.group);
    const flash_head p = place.head;
    const int warp = (int)threadIdx.x / 32;
    /* The longest first: with a mask the last queries see the most keys. */
    const int from = (place.all - 1 - place.at) * M, queries = (int)d.queries;
    const int head = (int)d.head, vhead = (int)d.vhead;
    const mg_range keys = flash_keys_of(d, sees, p.b, from, M);
    const flash_sight sight = flash90_sight(d, sees, p.b, from);
    const mg_scores<S::CAP, false> score(d);
    const float scale = S::CAP ? 1 : score.outer;
    const T *k0 = k + flash_key_at(d.k, p, keys.from), *v0 = v + flash_key_at(d.v, p, keys.from);

    mg_panel_load<D, M, FLASH90_THREADS>(qs, q + flash_at(d.q, p, from), d.q[1], queries - from,
                                         head);
    mg_panel_load<D, N, FLASH90_THREADS>(ks, k0, d.k[1], keys.to - keys.from, head);
    mg_copy_commit();
    mg_copy_arrived<0>();
    __syncthreads();
    uint32_t a[HELD > 0 ? HELD / 16 : 1][4], weights[N / 16][4];
    MG_UNROLL
    for (int i = 0; i < HELD / 16; i++)
        mg_panel_a<M>(a[i], qs, 16 * warp, 16 * i);

    float acc[V / 8][4] = {{0}}, s[N / 8][4];
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    int stage = 0;
    for (int at = keys.from;; at += N, stage ^= 1) {
        /* Here the keys at `at` have arrived, and the values before them. */
        const auto ask = [&] {
            k0 += N * d.k[1];
            if (at + N < keys.to)
                mg_panel_load<D, N, FLASH90_THREADS>(ks + (stage ^ 1) * KS, k0, d.k[1],
                                                     keys.to - at - N, head);
            mg_panel_load<V, N, FLASH90_THREADS>(vs + stage * VS, v0, d.v[1], keys.to - at, vhead);
            v0 += N * d.v[1];
            mg_copy_commit();
        };
        if (!flash90_alone<D, V>())
            ask();
        mg_group_begin();
        mg_group_partly<T, D, HELD, N, M, N>(s, a, qs, warp / 4 * 64, ks + stage * KS);
        mg_group_commit();
        if (at > keys.from) {
            mg_group_begin();
            mg_group_add<T, N, V, N>(acc, weights, vs + (stage ^ 1) * VS);
            mg_group_commit();
            if (flash90_alone<D, V>())
                ask();
            mg_group_wait<1>();
        } else {
            if (flash90_alone<D, V>())
                ask();
            mg_group_wait<0>();
        }
        mg_settle(s);
        if (S::CAP) {
            MG_UNROLL
            for (int j = 0; j < N / 8; j++) {
                MG_UNROLL
                for (int i = 0; i < 4; i++)
                    s[j][i] = score(s[j][i]);
            }
        }
        if (!sight.whole(at, N))
            flash_mask<N>(s, sight, at, -INFINITY);
        const float keep0 = flash90_softmax<N, S::SOME>(s, 0, scale, top[0], sum[0]);
        const float keep1 = flash90_softmax<N, S::SOME>(s, 1, scale, top[1], sum[1]);
        if (flash90_alone<D, V>())
            mg_group_after(slot, __float_as_uint(sum[0] + sum[1]));
        mg_group_wait<0>();
        mg_settle(acc);
        MG_UNROLL
        for (int j = 0; j < V / 8; j++) {
            acc[j][0] *= keep0, acc[j][1] *= keep0;
            acc[j][2] *= keep1, acc[j][3] *= keep1;
        }
        mg_pack_columns<T, N>(weights, s);
        mg_copy_arrived<0>();
        __syncthreads(); /* the copies have arrived, the used tiles are free */
        if (at + N >= keys.to)
            break;
    }
    mg_group_begin();
    mg_group_add<T, N, V, N>(acc, weights, vs + stage * VS);
    mg_group_commit();
    mg_group_wait<0>();
    mg_settle(acc);
    flash_finish<mg_halves<T>, V>(d, p, from + 16 * warp, acc, sight, top, sum, o, lse);
}

/* ---- backward ----------------------------------------------------------------------------- */

template <class T, int D, int V, class S>
__device__ static inline void flash90_dq(const mg_attention_desc &d, S sees, const T *q, const T *k,
                                         const T *v, const float *lse, const T *dout,
                                         const float *delta, T *dq)
{
    enum { M = FLASH90_ROWS, N = MG_FLASH90_GRAD_TILE(D, V), KS = N * D / 8, VS = N * V / 8 };
    /* The columns of queries and of their gradients that are in registers. */
    constexpr bool LONG = MG_FLASH90_LONG(D, V);
    enum { HELD = LONG ? D / 2 : D };
    enum { GRADS = !LONG && D + V > 128 && (D + V < 256 || !S::CAP) ? V : 0 };
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *gs = qs + M * D / 8;
    mg_chunk *ks = gs + M * V / 8, *vs = ks + 3 * KS; /* three tiles of keys, two of values */
    uint32_t *slot = (uint32_t *)(vs + 2 * VS) + threadIdx.x;
    const flash_place place =
        flash_place_of(d.kv, d.group, d.queries, M, (int)blockIdx.x,
                       flash_section<T, FLASH90_SECTION>(d.keys, d.head + d.vhead) * (int)d.group);
    const flash_head p = place.head;
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    const int from = (place.all - 1 - place.at) * M, queries = (int)d.queries;
    const int head = (int)d.head, vhead = (int)d.vhead;
    const mg_range keys = flash_keys_of(d, sees, p.b, from, M);
    const flash_sight sight = flash90_sight(d, sees, p.b, from);
    const mg_scores<S::CAP, false> score(d);
    const T *k0 = k + flash_key_at(d.k, p, 0), *v0 = v + flash_key_at(d.v, p, 0);

    mg_panel_load<D, M, FLASH90_THREADS>(qs, q + flash_at(d.q, p, from), d.q[1], queries - from,
                                         head);
    mg_panel_load<V, M, FLASH90_THREADS>(gs, dout + flash_at(d.o, p, from), d.o[1], queries - from,
                                         vhead);
    mg_panel_load<D, N, FLASH90_THREADS>(ks, k0 + keys.from * d.k[1], d.k[1], keys.to - keys.from,
                                         head);
    mg_panel_load<V, N, FLASH90_THREADS>(vs, v0 + keys.from * d.v[1], d.v[1], keys.to - keys.from,
                                         vhead);
    mg_copy_commit();
    const flash_rows_of mine(d, p, from + 16 * warp + g, lse, delta);
    mg_copy_arrived<0>();
    __syncthreads();
    /* The tensor cores read queries and their gradients from registers, where there are enough:
     * reading both operands from shared memory would take as long as the products. */
    uint32_t a[HELD > 0 ? HELD / 16 : 1][4], ga[GRADS > 0 ? GRADS / 16 : 1][4], ds[N / 16][4];
    MG_UNROLL
    for (int i = 0; i < HELD / 16; i++)
        mg_panel_a<M>(a[i], qs, 16 * warp, 16 * i);
    MG_UNROLL
    for (int i = 0; i < GRADS / 16; i++)
        mg_panel_a<M>(ga[i], gs, 16 * warp, 16 * i);

    float acc[D / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    int here = 0, last = 0; /* which of three tiles: the current keys, the previous keys */
    for (int at = keys.from, stage = 0; at < keys.to; at += N, stage ^= 1) {
        const int next = here == 2 ? 0 : here + 1;
        mg_copy_arrived<0>();
        __syncthreads(); /* the copies have arrived, the used tiles are free */
        const auto ask = [&] {
            if (at + N < keys.to) {
                mg_panel_load<D, N, FLASH90_THREADS>(ks + next * KS, k0 + (at + N) * d.k[1], d.k[1],
                                                     keys.to - at - N, head);
                mg_panel_load<V, N, FLASH90_THREADS>(vs + (stage ^ 1) * VS, v0 + (at + N) * d.v[1],
                                                     d.v[1], keys.to - at - N, vhead);
            }
            mg_copy_commit();
        };
        if (!flash90_alone<D, V>())
            ask();
        mg_group_begin();
        mg_group_partly<T, D, HELD, N, M, N>(s, a, qs, warp / 4 * 64, ks + here * KS);
        mg_group_partly<T, V, GRADS, N, M, N>(dp, ga, gs, warp / 4 * 64, vs + stage * VS);
        mg_group_commit();
        if (at > keys.from) {
            mg_group_begin();
            mg_group_add<T, N, D, N>(acc, ds, ks + last * KS);
            mg_group_commit();
            if (flash90_alone<D, V>())
                ask();
            mg_group_wait<1>();
        } else {
            if (flash90_alone<D, V>())
                ask();
            mg_group_wait<0>();
        }
        mg_settle(s);
        mg_settle(dp);
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++) {
                const float x = score.bent(s[j][i]);
                s[j][i] = mg_exp2(fmaf(x, score.outer, -mine.lse[i / 2])) *
                          (dp[j][i] - mine.delta[i / 2]) * score.slope(x);
            }
        }
        if (!sight.whole(at, N))
            flash_mask<N>(s, sight, at, 0);
        if (flash90_alone<D, V>())
            mg_group_after(slot, s);
        mg_group_wait<0>();
        mg_settle(acc);
        mg_pack_columns<T, N>(ds, s);
        last = here, here = next;
    }
    if (keys.to > keys.from) {
        mg_group_begin();
        mg_group_add<T, N, D, N>(acc, ds, ks + last * KS);
        mg_group_commit();
        mg_group_wait<0>();
        mg_settle(acc);
    }
    mg_store_rows<T, D>(dq + flash_at(d.dq, p, from + 16 * warp), d.dq[1],
                        queries - from - 16 * warp, acc, (float)d.scale, (float)d.scale, head);
}

/* Of the scores of 64 keys and the N queries from `at` on, whose lse are `now`: s becomes the
 * exponentials, times the slope of the cap; a: without it, rounded. */
template <class T, int N, class S, class Score>
__device__ static inline void flash90_weights(float (&s)[N / 8][4], uint32_t (&a)[N / 16][4],
                                              const Score &score, const float *now, bool whole,
                                              const mg_attention_desc &d, const S &sees, int64_t b,
                                              int key, int at)
{
    const int t = (int)threadIdx.x % 4;
    MG_UNROLL
    for (int k = 0; k < N / 16; k++) {
        float e[2][4];
        MG_UNROLL
        for (int j = 0; j < 2; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++) {
                float &x = s[2 * k + j][i];
                x = score.bent(x);
                e[j][i] = mg_exp2(
                    fmaf(x, score.outer, -now[16 * k + 8 * j + 2 * t + i % 2] * FLASH_LOG2E));
            }
        }
        if (!whole)
            flash_mask_queries<16>(e, d, sees, b, key, at + 16 * k);
        mg_pack_product<T>(a[k], e);
        MG_UNROLL
        for (int j = 0; j < 2; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++)
                s[2 * k + j][i] = e[j][i] * score.slope(s[2 * k + j][i]);
        }
    }
}

template <int N, class T, int D, int V, class S>
__device__ static inline void flash90_dkv(const mg_attention_desc &d, S sees, const T *q,
                                          const T *k, const T *v, const float *lse, const T *dout,
                                          const float *delta, T *dk, T *dv)
{
    enum { M = FLASH90_ROWS, QS = N * D / 8, GS = N * V / 8 };
    constexpr bool ALONE = N > 32; /* as flash90_alone */
    /* The product that ends an iteration runs, where there are enough registers, concurrently with
     * the first of the next; otherwise, of short heads, with those of the other block. */
    enum { GOES_ON = ALONE && !S::CAP };
    MG_SHARED_ALL(area);
    mg_chunk *ks = area, *vs = ks + M * D / 8;
    mg_chunk *qs = vs + M * V / 8, *gs = qs + 3 * QS; /* three tiles of queries, two of gradients */
    float *ls = (float *)(gs + 2 * GS); /* twice: lse, then delta, of a tile's queries */
    const auto place_of = [&](int block) {
        return flash_place_of(
            d.kv, 1, d.keys, M, block,
            flash_section<T, FLASH90_SECTION>(d.queries * d.group, d.head + d.vhead));
    };
    const flash_place place = place_of((int)blockIdx.x);
    const flash_head p = place.head;
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int from = place.at * M, key = from + 16 * warp + g, group = warp / 4 * 64;
    const int queries = (int)d.queries, keys = (int)d.keys, me = (int)threadIdx.x;
    const int head = (int)d.head, vhead = (int)d.vhead;
    const mg_scores<S::CAP, false> score(d);
    const mg_range range = sees.queries(d, p.b, from, mg_smaller(from + M, keys));
    const int all = range.none() ? 0 : (int)d.group * ((range.to - range.from + N - 1) / N);

    mg_panel_load<D, M, FLASH90_THREADS>(ks, k + flash_key_at(d.k, p, from), d.k[1], keys - from,
                                         head);
    mg_panel_load<V, M, FLASH90_THREADS>(vs, v + flash_key_at(d.v, p, from), d.v[1], keys - from,
                                         vhead);
    /* Pointers to the current head of queries; after its last tile, the group's next head. */
    const T *q0 = q + flash_at(d.q, p, 0), *g0 = dout + flash_at(d.o, p, 0);
    const float *l0 = lse + flash_at(d.lse, p, 0), *delta0 = delta + flash_delta_at(d, p);
    /* Copies the tiles at `at`. Rows past the end are zeros, and add nothing. */
    const auto ask = [&](int at, int tile, int stage) {
        mg_panel_load<D, N, FLASH90_THREADS>(qs + tile * QS, q0 + at * d.q[1], d.q[1], queries - at,
                                             head);
        mg_panel_load<V, N, FLASH90_THREADS>(gs + stage * GS, g0 + at * d.o[1], d.o[1],
                                             queries - at, vhead);
        const int mine = at + me % N;
        const bool there = mine < queries;
        if (me < 2 * N)
            mg_copy_word(&ls[stage * 2 * N + me],
                         me < N ? l0 + (there ? mine : 0) * d.lse[1] : delta0 + (there ? mine : 0),
                         there);
        mg_copy_commit();
    };
    float ak[D / 8][4] = {{0}}, av[V / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    uint32_t a[N / 16][4], b[N / 16][4];
    if (all > 0)
        ask(range.from, 0, 0);
    for (int n = 0, tile = 0, stage = 0, at = range.from; n < all; n++, stage ^= 1) {
        const float *now = ls + stage * 2 * N;
        const mg_chunk *queries_now = qs + tile * QS;
        const int here = at;
        tile = tile == 2 ? 0 : tile + 1;
        const bool whole = flash_all_see(d, sees, p.b, at, N, from + group, 64);
        mg_copy_arrived<0>();
        __syncthreads(); /* the copies have arrived, the used tiles are free */
        at += N;
        if (at >= range.to) {
            at = range.from;
            q0 += d.q[3], g0 += d.o[3], l0 += d.lse[3], delta0 += queries;
        }
        if (n + 1 < all && !ALONE)
            ask(at, tile, stage ^ 1);
        mg_group_begin();
        mg_group_tiles_transposed<T, D, N, M, N>(s, ks, group, queries_now);
        mg_group_commit();
        mg_group_tiles_transposed<T, V, N, M, N>(dp, vs, group, gs + stage * GS);
        mg_group_commit();
        if (n + 1 < all && ALONE)
            ask(at, tile, stage ^ 1);
        mg_group_wait<1>();
        mg_settle(s);
        flash90_weights<T, N>(s, a, score, now, whole, d, sees, p.b, key, here);
        mg_group_begin();
        mg_group_add<T, N, V, N>(av, a, gs + stage * GS);
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
        mg_group_add<T, N, D, N>(ak, b, queries_now);
        mg_group_commit();
        mg_group_wait<GOES_ON>();
        mg_settle(av);
        if (!GOES_ON)
            mg_settle(ak);
    }
    mg_group_wait<0>();
    mg_settle(ak);
    /* The place is computed again, so that no register has it in the loop. */
    const flash_place end = place_of(mg_block_again());
    const int to = end.at * M + 16 * warp;
    mg_store_rows<T, D>(dk + flash_key_at(d.dk, end.head, to), d.dk[1], keys - to, ak,
                        (float)d.scale, (float)d.scale, head);
    mg_store_rows<T, V>(dv + flash_key_at(d.dv, end.head, to), d.dv[1], keys - to, av, 1, 1, vhead);
}

#define FLASH90_DO(...) __VA_ARGS__
#else
#define FLASH90_DO(...) __trap();
#endif

#endif
