/* flash_bias.h - the gradient of a bias of attention in tiles; see flash.h, flash_grad.h.
 *
 * A block owns a tile of the bias: M queries by N keys of a batch, kv head and group, as far as the
 * bias has these. It adds up dS = P (do . v - delta) of all that the tile is added to, one after
 * another: each element has one owner and each sum one order, and the sums stay in registers. */
#ifndef MG_CUDA_FLASH_BIAS_H
#define MG_CUDA_FLASH_BIAS_H

/* Indices [from, to) of a dim: one of them, by the number that a block has left, if the bias has
 * the dim; else all. */
__device__ static inline mg_range flash_part(int64_t stride, int size, int *block)
{
    if (stride == 0)
        return mg_range{0, size};
    const int at = *block % size;
    *block /= size;
    return mg_range{at, at + 1};
}

/* The sums of a warp's columns over all rows of the block, in shared memory by warp. */
template <int N> __device__ static inline void flash_columns(const float (*acc)[4], float *to)
{
    const int lane = (int)threadIdx.x % 32, t = lane % 4;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int c = 0; c < 2; c++) {
            float x = acc[j][c] + acc[j][c + 2];
            for (int far = 4; far < 32; far *= 2)
                x += __shfl_xor_sync(MG_ALL, x, far);
            if (lane < 4)
                to[(int)threadIdx.x / 32 * N + 8 * j + 2 * t + c] = x;
        }
    }
}

/* Writes a tile's sums to the gradient of the bias, whose element 0 of the head is `to`. The tile
 * begins at query `from` and key `at`. */
template <int M, int N>
__device__ static inline void flash_put_bias(const mg_attention_desc &d, float *to, int from,
                                             int at, const float (*acc)[4], float *shared)
{
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    if (d.dbias[1] == 0) {
        __syncthreads(); /* the tiles in shared memory are used */
        flash_columns<N>(acc, shared);
        __syncthreads();
        float all = 0;
        for (int c = (int)threadIdx.x; c < N; c += 2 * M) {
            float x = 0;
            for (int w = 0; w < M / 16; w++)
                x += shared[w * N + c];
            if (d.dbias[4] && at + c < (int)d.keys)
                to[(at + c) * d.dbias[4]] = x;
        }
        if (d.dbias[4] == 0 && threadIdx.x == 0) {
            for (int i = 0; i < M / 16 * N; i++)
                all += shared[i];
            *to = all;
        }
        return;
    }
    MG_UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = from + 16 * warp + g + 8 * i;
        float sum = 0;
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int c = 0; c < 2; c++) {
                const int key = at + 8 * j + 2 * t + c;
                sum += acc[j][2 * i + c];
                if (d.dbias[4] && row < (int)d.queries && key < (int)d.keys)
                    to[row * d.dbias[1] + key * d.dbias[4]] = acc[j][2 * i + c];
            }
        }
        sum = flash_row(sum, mg_plus<float>());
        if (d.dbias[4] == 0 && t == 0 && row < (int)d.queries)
            to[row * d.dbias[1]] = sum;
    }
}

/* Adds dS of a tile, whose queries and cotangents are in qs and gs, to acc. */
template <class E, int D, int V, class S>
__device__ static inline void
flash_add_bias(const mg_attention_desc &d, const S &sees, const flash_head &p, int from, int at,
               const mg_chunk *qs, const mg_chunk *gs, const mg_chunk *ks, const mg_chunk *vs,
               const float *lse, const float *delta, float (*acc)[4])
{
    enum { W = sizeof(typename E::type), N = MG_FLASH_GRAD_TILE(D, V, W) };
    const int warp = (int)threadIdx.x / 32, row = from + 16 * warp + (int)threadIdx.x % 32 / 4;
    const flash_sight sight = flash_sight_of(d, sees, p.b, from + 16 * warp, 16, row);
    const mg_scores<S::CAP, E::EXACT> score(d);
    const typename flash_bias_of<S::BIAS>::type bias(d, sees, p);
    const flash_rows_of mine(d, p, row, lse, delta);
    float s[N / 8][4], dp[N / 8][4];
    E::template tile_times_transposed<D, N>(s, qs, 16 * warp, ks);
    E::template tile_times_transposed<V, N>(dp, gs, 16 * warp, vs);
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 4; i++) {
            const float more =
                bias.at(row + 8 * (i / 2), at + 8 * j + 2 * ((int)threadIdx.x % 4) + i % 2);
            const float less =
                flash_less<S>(score.bent(s[j][i]), score.outer, more, mine.lse[i / 2]);
            s[j][i] = mg_exp2(less) * (dp[j][i] - mine.delta[i / 2]);
        }
    }
    if (!sight.whole(at, N))
        flash_mask<N>(s, sight, at, 0);
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 4; i++)
            acc[j][i] += s[j][i];
    }
}

template <class E, int D, int V, class S>
__device__ static inline void
flash_dbias(const mg_attention_desc &d, S sees, const typename E::type *q,
            const typename E::type *k, const typename E::type *v, const float *lse,
            const typename E::type *dout, const float *delta, float *dbias, bool whole)
{
    enum { W = sizeof(typename E::type), M = MG_FLASH_GRAD_ROWS(D, V, W), THREADS = 2 * M };
    enum { N = MG_FLASH_GRAD_TILE(D, V, W) }; /* keys at a time */
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *gs = qs + M * MG_ROW_BYTES(D, W) / 16;
    mg_chunk *ks = gs + M * MG_ROW_BYTES(V, W) / 16, *vs = ks + N * MG_ROW_BYTES(D, W) / 16;
    const int queries = (int)d.queries, keys = (int)d.keys;
    int left = (int)blockIdx.x;
    const mg_range tiles = flash_part(d.dbias[4], (keys + N - 1) / N, &left);
    const mg_range rows = flash_part(d.dbias[1], (queries + M - 1) / M, &left);
    const mg_range groups = flash_part(d.dbias[3], (int)d.group, &left);
    const mg_range heads = flash_part(d.dbias[2], (int)d.kv, &left);
    const mg_range batches = flash_part(d.dbias[0], (int)d.batch, &left);
    const flash_head first = {batches.from, heads.from, groups.from};
    float acc[N / 8][4] = {{0}};
    flash_head p;
    for (p.b = batches.from; p.b < batches.to; p.b++)
        for (p.h = heads.from; p.h < heads.to; p.h++)
            for (p.g = groups.from; p.g < groups.to; p.g++)
                for (int from = rows.from * M; from < rows.to * M; from += M) {
                    const mg_range seen = flash_keys_of(d, sees, p.b, from, M);
                    __syncthreads(); /* the tiles in shared memory are used */
                    E::template load<D, M, THREADS>(qs, q + flash_at(d.q, p, from), d.q[1],
                                                    queries - from, (int)d.head, whole);
                    E::template load<V, M, THREADS>(gs, dout + flash_at(d.o, p, from), d.o[1],
                                                    queries - from, (int)d.vhead, whole);
                    mg_copy_commit();
                    for (int at = tiles.from * N; at < tiles.to * N; at += N) {
                        if (at >= seen.to || at + N <= seen.from)
                            continue;
                        __syncthreads();
                        E::template load<D, N, THREADS>(ks, k + flash_key_at(d.k, p, at), d.k[1],
                                                        keys - at, (int)d.head, whole);
                        E::template load<V, N, THREADS>(vs, v + flash_key_at(d.v, p, at), d.v[1],
                                                        keys - at, (int)d.vhead, whole);
                        mg_copy_commit();
                        mg_copy_wait<0>();
                        __syncthreads();
                        flash_add_bias<E, D, V>(d, sees, p, from, at, qs, gs, ks, vs, lse, delta,
                                                acc);
                    }
                    mg_copy_wait<0>(); /* of queries that see none of these keys, too */
                }
    flash_put_bias<M, N>(d, dbias + flash_at(d.dbias, first, 0), rows.from * M, tiles.from * N, acc,
                         (float *)area);
}

#endif
