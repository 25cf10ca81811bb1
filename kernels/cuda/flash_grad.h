/* flash_grad.h - the gradients of attention in tiles; see flash.h. */
#ifndef MG_CUDA_FLASH_GRAD_H
#define MG_CUDA_FLASH_GRAD_H

/* lse in powers of two, and delta, of the two rows of a lane; 0 past the end. */
struct flash_rows_of {
    float lse[2], delta[2];
    __device__ flash_rows_of(const mg_attention_desc &d, const flash_head &p, int row,
                             const float *l, const float *of)
    {
        for (int i = 0; i < 2; i++) {
            const bool there = row + 8 * i < (int)d.queries;
            lse[i] = there ? l[flash_at(d.lse, p, row + 8 * i)] * FLASH_LOG2E : 0;
            delta[i] = there ? of[flash_delta_at(d, p) + row + 8 * i] : 0;
        }
    }
};

template <class E, int D, int V, class S>
__device__ static inline void
flash_dq(const mg_attention_desc &d, S sees, const typename E::type *q, const typename E::type *k,
         const typename E::type *v, const float *lse, const typename E::type *dout,
         const float *delta, typename E::type *dq, bool whole)
{
    typedef typename E::type T;
    enum { W = sizeof(T), M = MG_FLASH_GRAD_ROWS(D, V, W), THREADS = 2 * M };
    enum { N = MG_FLASH_GRAD_TILE(D, V, W) }; /* keys at a time */
    constexpr bool KEEPS = MG_FLASH_GRAD_KEEPS(D, V, W);
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *gs = KEEPS ? area : qs + M * MG_ROW_BYTES(D, W) / 16;
    mg_chunk *ks = KEEPS ? area : gs + M * MG_ROW_BYTES(V, W) / 16;
    mg_chunk *vs = ks + N * MG_ROW_BYTES(D, W) / 16;
    const flash_place place =
        flash_place_of(d.kv, d.group, d.queries, M, (int)blockIdx.x,
                       flash_section<T, FLASH_SECTION>(d.keys, d.head + d.vhead) * (int)d.group);
    const flash_head p = place.head;
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    const int from = (place.all - 1 - place.at) * M, row = from + 16 * warp + g;
    const int queries = (int)d.queries, head = (int)d.head, vhead = (int)d.vhead;
    const mg_range keys = flash_keys_of(d, sees, p.b, from, M);
    const flash_sight sight = flash_sight_of(d, sees, p.b, from + 16 * warp, 16, row);
    const mg_scores<S::CAP, E::EXACT> score(d);
    const typename flash_bias_of<S::BIAS>::type bias(d, sees, p);
    const flash_rows_of mine(d, p, row, lse, delta);

    uint32_t a[KEEPS ? D / 16 : 1][4], ga[KEEPS ? V / 16 : 1][4];
    E::template load<D, M, THREADS>(qs, q + flash_at(d.q, p, from), d.q[1], queries - from, head,
                                    whole);
    if constexpr (KEEPS) {
        mg_copy_commit();
        mg_copy_wait<0>();
        __syncthreads();
        flash_rows<D>(a, qs, 16 * warp);
        __syncthreads();
    }
    E::template load<V, M, THREADS>(gs, dout + flash_at(d.o, p, from), d.o[1], queries - from,
                                    vhead, whole);
    mg_copy_commit();
    if constexpr (KEEPS) {
        mg_copy_wait<0>();
        __syncthreads();
        flash_rows<V>(ga, gs, 16 * warp);
    }
    float acc[D / 8][4] = {{0}}, s[N / 8][4], dp[N / 8][4];
    for (int at = keys.from; at < keys.to; at += N) {
        __syncthreads(); /* the tiles in shared memory are used */
        E::template load<D, N, THREADS>(ks, k + flash_key_at(d.k, p, at), d.k[1], keys.to - at,
                                        head, whole);
        E::template load<V, N, THREADS>(vs, v + flash_key_at(d.v, p, at), d.v[1], keys.to - at,
                                        vhead, whole);
        mg_copy_commit();
        mg_copy_wait<0>();
        __syncthreads();
        if constexpr (KEEPS) {
            mg_times_transposed<T, D, N>(s, a, ks);
            mg_times_transposed<T, V, N>(dp, ga, vs);
        } else {
            E::template tile_times_transposed<D, N>(s, qs, 16 * warp, ks);
            E::template tile_times_transposed<V, N>(dp, gs, 16 * warp, vs);
        }
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++) {
                const float x = score.bent(s[j][i]);
                const float more =
                    bias.at(row + 8 * (i / 2), at + 8 * j + 2 * ((int)threadIdx.x % 4) + i % 2);
                s[j][i] = mg_exp2(flash_less<S>(x, score.outer, more, mine.lse[i / 2])) *
                          (dp[j][i] - mine.delta[i / 2]) * score.slope(x);
            }
        }
        if (!sight.whole(at, N))
            flash_mask<N>(s, sight, at, 0);
        E::template add_times<D, N>(acc, s, ks);
    }
    E::template store<D>(dq + flash_at(d.dq, p, from + 16 * warp), d.dq[1],
                         queries - from - 16 * warp, acc, (float)d.scale, (float)d.scale, head);
}

/* Masks what a warp's or warpgroup's lane does not see: its keys are `key` and key + 8, and columns
 * are the N queries from `at` on. */
template <int N, class S>
__device__ static inline void flash_mask_queries(float (*s)[4], const mg_attention_desc &d,
                                                 const S &sees, int64_t b, int key, int at)
{
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int c = 0; c < 2; c++) {
            const mg_range keys = sees.keys(d, b, at + 8 * j + 2 * ((int)threadIdx.x % 4) + c);
            s[j][c] = keys.has(key) ? s[j][c] : 0;
            s[j][c + 2] = keys.has(key + 8) ? s[j][c + 2] : 0;
        }
    }
}

/* Do all of the N queries from `at` on see all of the keys [from, from + rows)? */
template <class S>
__device__ static inline bool flash_all_see(const mg_attention_desc &d, const S &sees, int64_t b,
                                            int at, int n, int from, int rows)
{
    const int to = mg_smaller(from + rows, (int)d.keys);
    return sees.keys(d, b, at).to >= to && sees.keys(d, b, at + n - 1).from <= from;
}

/* dk if DK, dv if DV, of the block's keys, whose tiles of keys and values are in ks and vs. */
template <class E, int D, int V, class S, bool DK, bool DV>
__device__ static inline void
flash_dkv_pass(const mg_attention_desc &d, const S &sees, flash_head p, int from,
               const mg_range &range, const mg_chunk *ks, const mg_chunk *vs, mg_chunk *qs,
               const typename E::type *q, const float *lse, const typename E::type *dout,
               const float *delta, typename E::type *dk, typename E::type *dv, bool whole)
{
    typedef typename E::type T;
    enum { W = sizeof(T), THREADS = 2 * MG_FLASH_GRAD_ROWS(D, V, W) };
    enum { MOST = MG_FLASH_GRAD_TILE(D, V, W) };
    /* Queries at a time; with a bias the registers do not suffice for as many. */
    enum { N = S::BIAS && MOST > 16 ? MOST / 2 : MOST };
    mg_chunk *gs = qs + N * MG_ROW_BYTES(D, W) / 16;
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const int to = from + 16 * warp, head = (int)d.head, vhead = (int)d.vhead;
    const int queries = (int)d.queries, keys = (int)d.keys;
    const mg_scores<S::CAP, E::EXACT> score(d);
    float ak[DK ? D / 8 : 1][4] = {{0}}, av[DV ? V / 8 : 1][4] = {{0}};
    float s[N / 8][4], dp[N / 8][4];
    for (p.g = 0; p.g < d.group; p.g++) {
        const typename flash_bias_of<S::BIAS>::type bias(d, sees, p);
        for (int at = range.from; at < range.to; at += N) {
            __syncthreads(); /* the tiles in shared memory are used */
            /* Rows past the end are zeros, and add nothing. */
            E::template load<D, N, THREADS>(qs, q + flash_at(d.q, p, at), d.q[1], queries - at,
                                            head, whole);
            E::template load<V, N, THREADS>(gs, dout + flash_at(d.o, p, at), d.o[1], queries - at,
                                            vhead, whole);
            mg_copy_commit();
            mg_copy_wait<0>();
            __syncthreads();
            E::template tile_times_transposed<D, N>(s, ks, 16 * warp, qs);
            if constexpr (DK)
                E::template tile_times_transposed<V, N>(dp, vs, 16 * warp, gs);
            const float *l0 = lse + flash_at(d.lse, p, 0), *delta0 = delta + flash_delta_at(d, p);
            MG_UNROLL
            for (int j = 0; j < N / 8; j++) {
                MG_UNROLL
                for (int c = 0; c < 2; c++) {
                    const int query = at + 8 * j + 2 * t + c;
                    const bool there = query < queries;
                    const float l = there ? l0[query * d.lse[1]] * FLASH_LOG2E : 0;
                    const float of = there && DK ? delta0[query] : 0;
                    MG_UNROLL
                    for (int i = c; i < 4; i += 2) {
                        const float x = score.bent(s[j][i]);
                        const float more = bias.at(query, to + g + 8 * (i / 2));
                        s[j][i] = mg_exp2(flash_less<S>(x, score.outer, more, l));
                        if (DK)
                            dp[j][i] = s[j][i] * (dp[j][i] - of) * score.slope(x);
                    }
                }
            }
            if (!flash_all_see(d, sees, p.b, at, N, to, 16)) {
                if constexpr (DV)
                    flash_mask_queries<N>(s, d, sees, p.b, to + g, at);
                if constexpr (DK)
                    flash_mask_queries<N>(dp, d, sees, p.b, to + g, at);
            }
            if constexpr (DV)
                E::template add_times<V, N>(av, s, gs);
            if constexpr (DK)
                E::template add_times<D, N>(ak, dp, qs);
        }
    }
    if constexpr (DK)
        E::template store<D>(dk + flash_key_at(d.dk, p, to), d.dk[1], keys - to, ak, (float)d.scale,
                             (float)d.scale, head);
    if constexpr (DV)
        E::template store<V>(dv + flash_key_at(d.dv, p, to), d.dv[1], keys - to, av, 1, 1, vhead);
}

template <class E, int D, int V, class S>
__device__ static inline void
flash_dkv(const mg_attention_desc &d, S sees, const typename E::type *q, const typename E::type *k,
          const typename E::type *v, const float *lse, const typename E::type *dout,
          const float *delta, typename E::type *dk, typename E::type *dv, bool whole)
{
    enum { W = sizeof(typename E::type), M = MG_FLASH_GRAD_ROWS(D, V, W), THREADS = 2 * M };
    MG_SHARED_ALL(area);
    mg_chunk *ks = area, *vs = ks + M * MG_ROW_BYTES(D, W) / 16;
    mg_chunk *qs = vs + M * MG_ROW_BYTES(V, W) / 16;
    const flash_place place = flash_place_of(
        d.kv, 1, d.keys, M, (int)blockIdx.x,
        flash_section<typename E::type, FLASH_SECTION>(d.queries * d.group, d.head + d.vhead));
    const flash_head p = place.head;
    const int from = place.at * M, keys = (int)d.keys;
    E::template load<D, M, THREADS>(ks, k + flash_key_at(d.k, p, from), d.k[1], keys - from,
                                    (int)d.head, whole);
    E::template load<V, M, THREADS>(vs, v + flash_key_at(d.v, p, from), d.v[1], keys - from,
                                    (int)d.vhead, whole);
    mg_copy_commit();
    const mg_range range = sees.queries(d, p.b, from, mg_smaller(from + M, keys));
    if constexpr (MG_FLASH_APART(D, V)) {
        flash_dkv_pass<E, D, V, S, false, true>(d, sees, p, from, range, ks, vs, qs, q, lse, dout,
                                                delta, dk, dv, whole);
        flash_dkv_pass<E, D, V, S, true, false>(d, sees, p, from, range, ks, vs, qs, q, lse, dout,
                                                delta, dk, dv, whole);
    } else
        flash_dkv_pass<E, D, V, S, true, true>(d, sees, p, from, range, ks, vs, qs, q, lse, dout,
                                               delta, dk, dv, whole);
}

#endif
