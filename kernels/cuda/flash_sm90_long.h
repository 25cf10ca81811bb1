/* flash_sm90_long.h - the gradients of keys and values of heads of more than 128 columns, on the
 * tensor cores of sm_90.
 *
 * The sums of both for 64 keys are more than the registers of a warpgroup. So a block has 64 keys,
 * one warpgroup adds up the gradient of values, the other that of keys, and each computes one of
 * the two products before: the first the scores, of keys that it has in registers, the second the
 * gradients of the weights, of values that it has there. The first gives the second the weights
 * through shared memory, a tile later: so the block still synchronises once a tile, and what one
 * warpgroup computes runs concurrently with the products of the other. Four products in all, as in
 * flash90_dkv. */
#ifndef MG_CUDA_FLASH_SM90_LONG_H
#define MG_CUDA_FLASH_SM90_LONG_H

#if defined MG_SHIM || defined __CUDA_ARCH_FEAT_SM90_ALL

/* The barrier of the block, to which its warpgroups come from different places: the hardware counts
 * the warps that are at a barrier of this number, and each warp comes as a whole. */
__device__ static inline void flash90_meet()
{
    __syncthreads();
}

typedef mg_vec<float, 4> flash90_four;

/* The tiles of a block and its way through the queries, which both warpgroups go. */
template <class T, int D, int V> struct flash90_way {
    enum { M = MG_FLASH90_LONG_ROWS, N = MG_FLASH90_LONG_TILE, QS = N * D / 8, GS = N * V / 8 };
    enum { STAGES = 3 }; /* the tiles that come, those of the weights, those a tile later */
    const mg_attention_desc &d;
    mg_chunk *qs, *gs, *weights; /* weights: of two tiles */
    float *ls;                   /* lse, then delta, of a tile's queries */
    const T *q, *g;              /* of the head of queries that comes */
    const float *l, *delta;
    mg_range range;
    int all, at; /* tiles in all; the queries that come */

    /* Begins to copy the tiles that come. Rows past the end are zeros, and add nothing. */
    __device__ void ask(int stage)
    {
        const int queries = (int)d.queries, me = (int)threadIdx.x, mine = at + me % N;
        const bool there = mine < queries;
        mg_panel_load<D, N, FLASH90_THREADS>(qs + stage * QS, q + at * d.q[1], d.q[1], queries - at,
                                             (int)d.head);
        mg_panel_load<V, N, FLASH90_THREADS>(gs + stage * GS, g + at * d.o[1], d.o[1], queries - at,
                                             (int)d.vhead);
        if (me < 2 * N)
            mg_copy_word(&ls[stage * 2 * N + me],
                         me < N ? l + (there ? mine : 0) * d.lse[1] : delta + (there ? mine : 0),
                         there);
        mg_copy_commit();
    }
    /* After the last tile of a head comes the group's next head. */
    __device__ void go_on()
    {
        at += N;
        if (at >= range.to) {
            at = range.from;
            q += d.q[3], g += d.o[3], l += d.lse[3], delta += d.queries;
        }
    }
    /* The words of a lane, side by side in each 16 bytes. */
    __device__ flash90_four *passed(int n) const
    {
        return (flash90_four *)weights + n % 2 * (M * N / 4) + (int)threadIdx.x % 128;
    }
};

/* The warpgroup of values: `own` are the keys. */
template <class T, int D, int V, class S>
__device__ static inline void
flash90_long_dv(float (&av)[V / 8][4], const uint32_t (&own)[D / 16][4], flash90_way<T, D, V> &way,
                const S &sees, int64_t b, int from, int key)
{
    typedef flash90_way<T, D, V> Way;
    enum { N = Way::N };
    const mg_attention_desc &d = way.d;
    const mg_scores<S::CAP, false> score(d);
    float s[N / 8][4];
    uint32_t a[N / 16][4];
    for (int n = 0, stage = 0; n < way.all; n++) {
        const int here = way.at, now = stage;
        const bool whole = flash_all_see(d, sees, b, here, N, from, Way::M);
        stage = stage == Way::STAGES - 1 ? 0 : stage + 1;
        mg_copy_arrived<0>();
        flash90_meet(); /* the copies have arrived, the used tiles are free */
        way.go_on();
        mg_group_begin();
        mg_group_transposed<T, D, N, N>(s, own, way.qs + now * Way::QS);
        mg_group_commit();
        if (n + 1 < way.all)
            way.ask(stage);
        mg_group_wait<0>();
        mg_settle(s);
        mg_settle(av);
        flash90_weights<T, N>(s, a, score, way.ls + now * 2 * N, whole, d, sees, b, key, here);
        flash90_four *to = way.passed(n);
        MG_UNROLL
        for (int j = 0; j < N / 8; j++)
            to[128 * j] = flash90_four{{s[j][0], s[j][1], s[j][2], s[j][3]}};
        mg_group_begin();
        mg_group_add<T, N, V, N>(av, a, way.gs + now * Way::GS);
        mg_group_commit(); /* goes on while the next scores are computed */
    }
    flash90_meet(); /* the last weights are there */
    mg_group_wait<0>();
    mg_settle(av);
}

/* The gradients of the scores of a tile, as an operand: what the other warpgroup has passed, by the
 * gradients of the weights. */
template <class T, int N>
__device__ static inline void flash90_long_scores(uint32_t (&b)[N / 16][4], float (&dp)[N / 8][4],
                                                  const flash90_four *passed, const float *delta)
{
    const int t = (int)threadIdx.x % 4;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        const flash90_four e = passed[128 * j];
        const float less0 = delta[8 * j + 2 * t], less1 = delta[8 * j + 2 * t + 1];
        dp[j][0] = e.x[0] * (dp[j][0] - less0);
        dp[j][1] = e.x[1] * (dp[j][1] - less1);
        dp[j][2] = e.x[2] * (dp[j][2] - less0);
        dp[j][3] = e.x[3] * (dp[j][3] - less1);
    }
    mg_pack_columns<T, N>(b, dp);
}

/* The warpgroup of keys: `own` are the values. */
template <class T, int D, int V>
__device__ static inline void
flash90_long_dk(float (&ak)[D / 8][4], const uint32_t (&own)[V / 16][4], flash90_way<T, D, V> &way)
{
    typedef flash90_way<T, D, V> Way;
    enum { N = Way::N };
    float dp[N / 8][4];
    uint32_t b[N / 16][4];
    mg_copy_arrived<0>();
    flash90_meet();
    way.go_on();
    mg_group_begin();
    mg_group_transposed<T, V, N, N>(dp, own, way.gs);
    mg_group_commit();
    if (way.all > 1)
        way.ask(1);
    mg_group_wait<0>();
    mg_settle(dp);
    int last = 0, now = 1;
    for (int n = 1; n < way.all; n++) {
        const int next = now == Way::STAGES - 1 ? 0 : now + 1;
        mg_copy_arrived<0>();
        flash90_meet(); /* the copies and the weights before have arrived, used tiles are free */
        way.go_on();
        flash90_long_scores<T, N>(b, dp, way.passed(n - 1), way.ls + last * 2 * N + N);
        mg_group_begin();
        mg_group_add<T, N, D, N>(ak, b, way.qs + last * Way::QS);
        mg_group_transposed<T, V, N, N>(dp, own, way.gs + now * Way::GS);
        mg_group_commit();
        if (n + 1 < way.all)
            way.ask(next);
        mg_group_wait<0>();
        mg_settle(dp);
        mg_settle(ak);
        last = now, now = next;
    }
    flash90_meet(); /* the last weights are there */
    flash90_long_scores<T, N>(b, dp, way.passed(way.all - 1), way.ls + last * 2 * N + N);
    mg_group_begin();
    mg_group_add<T, N, D, N>(ak, b, way.qs + last * Way::QS);
    mg_group_commit();
    mg_group_wait<0>();
    mg_settle(ak);
}

template <class T, int D, int V, class S>
__device__ static inline void flash90_long_dkv(const mg_attention_desc &d, S sees, const T *q,
                                               const T *k, const T *v, const float *lse,
                                               const T *dout, const float *delta, T *dk, T *dv)
{
    typedef flash90_way<T, D, V> Way;
    enum { M = Way::M };
    static_assert(2 * M * Way::N * 4 <= M * (D + V) * 2, "weights lie where keys and values did");
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *gs = qs + Way::STAGES * Way::QS, *ks = gs + Way::STAGES * Way::GS;
    mg_chunk *vs = ks + M * D / 8;
    const auto place_of = [&](int block) {
        return flash_place_of(
            d.kv, 1, d.keys, M, block,
            flash_section<T, FLASH90_SECTION>(d.queries * d.group, d.head + d.vhead));
    };
    const flash_place place = place_of((int)blockIdx.x);
    const flash_head p = place.head;
    const int row = (int)threadIdx.x % 128 / 32 * 16, keys = (int)d.keys, from = place.at * M;
    /* All lanes of a warp say the same, which the compiler does not see. */
    const bool values = __shfl_sync(MG_ALL, (int)threadIdx.x / 128, 0) == 0;
    const mg_range range = sees.queries(d, p.b, from, mg_smaller(from + M, keys));
    const int all =
        range.none() ? 0 : (int)d.group * ((range.to - range.from + Way::N - 1) / Way::N);
    Way way = {d,
               qs,
               gs,
               ks,
               (float *)(vs + M * V / 8),
               q + flash_at(d.q, p, 0),
               dout + flash_at(d.o, p, 0),
               lse + flash_at(d.lse, p, 0),
               delta + flash_delta_at(d, p),
               range,
               all,
               range.from};

    mg_panel_load<D, M, FLASH90_THREADS>(ks, k + flash_key_at(d.k, p, from), d.k[1], keys - from,
                                         (int)d.head);
    mg_panel_load<V, M, FLASH90_THREADS>(vs, v + flash_key_at(d.v, p, from), d.v[1], keys - from,
                                         (int)d.vhead);
    mg_copy_commit();
    if (all > 0)
        way.ask(0);
    mg_copy_arrived<0>();
    flash90_meet();
    if (values) {
        float av[V / 8][4] = {{0}};
        uint32_t own[D / 16][4];
        MG_UNROLL
        for (int i = 0; i < D / 16; i++)
            mg_panel_a<M>(own[i], ks, row, 16 * i);
        if (all > 0)
            flash90_long_dv<T, D, V>(av, own, way, sees, p.b, from,
                                     from + row + (int)threadIdx.x % 32 / 4);
        /* The place is computed again, so that no register has it in the loop. */
        const flash_place end = place_of(mg_block_again());
        const int to = end.at * M + row;
        mg_store_rows<T, V>(dv + flash_key_at(d.dv, end.head, to), d.dv[1], keys - to, av, 1, 1,
                            (int)d.vhead);
    } else {
        float ak[D / 8][4] = {{0}};
        uint32_t own[V / 16][4];
        MG_UNROLL
        for (int i = 0; i < V / 16; i++)
            mg_panel_a<M>(own[i], vs, row, 16 * i);
        if (all > 0)
            flash90_long_dk<T, D, V>(ak, own, way);
        const flash_place end = place_of(mg_block_again());
        const int to = end.at * M + row;
        mg_store_rows<T, D>(dk + flash_key_at(d.dk, end.head, to), d.dk[1], keys - to, ak,
                            (float)d.scale, (float)d.scale, (int)d.head);
    }
}

/* The kernel for these heads. */
template <int N, class T, int D, int V, class S>
__device__ static inline void flash90_dkv_of(const mg_attention_desc &d, S sees, const T *q,
                                             const T *k, const T *v, const float *lse,
                                             const T *dout, const float *delta, T *dk, T *dv)
{
    if constexpr (MG_FLASH90_LONG(D, V))
        flash90_long_dkv<T, D, V>(d, sees, q, k, v, lse, dout, delta, dk, dv);
    else
        flash90_dkv<N, T, D, V>(d, sees, q, k, v, lse, dout, delta, dk, dv);
}

#endif

#endif
