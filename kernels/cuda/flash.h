/* flash.h - attention in tiles: halves and tf32 on the tensor cores of sm_80 and later, and f32.
 *
 * As in FlashAttention-2 (Dao, 2023), a block takes some queries and loops over the keys in tiles;
 * the softmax is renormalised as it goes, in powers of two, so that no score reaches memory. The
 * gradients are two kernels, which both recompute the scores: one computes dq, in a loop over keys;
 * the other dk and dv, in a loop over the queries of all groups. Each element therefore has one
 * owner and each sum one order: the same bits each time, with seven products, where a sum of dq in
 * memory would need five.
 *
 * A warp owns 16 rows: queries, or in the last kernel keys. E is the kind of numbers (mma.h,
 * floats.h); D and V are the columns of tiles, at least d.head and d.vhead, with zeros behind
 * those. Operands of products are rounded to T; all sums and the softmax are float. */
#ifndef MG_CUDA_FLASH_H
#define MG_CUDA_FLASH_H

/* The place of a block: in [batch, kv, group], and which of the blocks of rows of that head. */
struct flash_head {
    int64_t b, h, g;
};
struct flash_place {
    flash_head head;
    int at, all;
};
/* `section` heads take turns: the first blocks of rows of all of them, then the second ones. Blocks
 * begin about in the order of their numbers, and masks make the first of a head the longest, so
 * that none of the long ones is left for the end, when most multiprocessors are done. */
__device__ static inline flash_place flash_place_of(int64_t kv, int64_t group, int64_t rows,
                                                    int each, int block, int section = 1)
{
    const int all = (int)((rows + each - 1) / each), heads = (int)gridDim.x / all;
    const int most = section < heads ? section : heads;
    const int first = block / (most * all) * most, left = heads - first;
    const int turns = most < left ? most : left, r = block - first * all;
    const int y = first + r % turns, k = (int)kv, g = (int)group;
    return flash_place{{y / g / k, y / g % k, y % g}, r / turns, all};
}
/* How many heads take turns: as many as read no more than BYTES together, which stay in the L2
 * cache meanwhile, if a head reads `rows` rows of `width` elements of T. */
template <class T, int BYTES>
__device__ static inline int flash_section(int64_t rows, int64_t width)
{
    const int64_t bytes = rows * width * (int64_t)sizeof(T);
    return bytes < BYTES ? (int)(BYTES / bytes) : 1;
}
enum { FLASH_SECTION = 4 << 20 }; /* of caches of 6 MB and more */
/* The number of the block, of which the compiler does not know that it has it already. */
__device__ static inline int mg_block_again()
{
#ifdef MG_SHIM
    return (int)blockIdx.x;
#else
    int x;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
#endif
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

/* The keys that a lane's two rows see. All rows of its warp or warpgroup see all of `all`, so a
 * tile within that needs no mask. */
struct flash_sight {
    mg_range mine[2], all;
    __device__ bool whole(int at, int n) const
    {
        return at >= all.from && at + n <= all.to;
    }
};
/* `rows` rows from `from` on are of the warp or warpgroup; the lane's are `row` and row + 8. */
template <class S>
__device__ static inline flash_sight flash_sight_of(const mg_attention_desc &d, const S &sees,
                                                    int64_t b, int from, int rows, int row)
{
    return flash_sight{{sees.keys(d, b, row), sees.keys(d, b, row + 8)},
                       {sees.keys(d, b, from + rows - 1).from, sees.keys(d, b, from).to}};
}

/* The keys that some of the queries [from, from + rows) see. */
template <class S>
__device__ static inline mg_range flash_keys_of(const mg_attention_desc &d, const S &sees,
                                                int64_t b, int from, int rows)
{
    return mg_range{sees.keys(d, b, from).from, sees.keys(d, b, from + rows - 1).to};
}

/* The bias of a head, in powers of two, by indices of 32 bits, which take half of the registers
 * that pointers do (the host sees to it that they suffice). It has numbers for what is there alone:
 * what is behind the last query or key gets that of the last, and is masked. */
struct flash_bias {
    const float *head;
    int query_step, key_step, queries, keys;
    template <class S>
    __device__ flash_bias(const mg_attention_desc &d, const S &sees, const flash_head &p)
        : head((const float *)sees.bias + flash_at(d.bias, p, 0)), query_step((int)d.bias[1]),
          key_step((int)d.bias[4]), queries((int)d.queries), keys((int)d.keys)
    {
    }
    __device__ float at(int query, int key) const
    {
        return head[mg_smaller(query, queries - 1) * query_step +
                    mg_smaller(key, keys - 1) * key_step] *
               FLASH_LOG2E;
    }
};
struct flash_no_bias {
    template <class S>
    __device__ flash_no_bias(const mg_attention_desc &, const S &, const flash_head &)
    {
    }
    __device__ float at(int, int) const
    {
        return 0;
    }
};
template <int BIAS> struct flash_bias_of {
    typedef flash_no_bias type;
};
template <> struct flash_bias_of<1> {
    typedef flash_bias type;
};

/* A score less its row's lse. With a bias it is not above 0, though both may be so far below 0 that
 * their difference is rounding. */
template <class S>
__device__ static inline float flash_less(float bent, float outer, float bias, float lse)
{
    if (!S::BIAS)
        return fmaf(bent, outer, -lse);
    return fminf(fmaf(bent, outer, bias) - lse, 0.0f);
}

/* Masks what this lane's rows do not see of a tile of N keys from `at` on. */
template <int N>
__device__ static inline void flash_mask(float (*s)[4], const flash_sight &sight, int at,
                                         float with)
{
    const int t = (int)threadIdx.x % 4;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 4; i++)
            if (!sight.mine[i / 2].has(at + 8 * j + 2 * t + i % 2))
                s[j][i] = with;
    }
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Turns the scores of one row into exp2(score - top), and updates its sum and maximum. SOME: the
 * row may have seen nothing yet, and its maximum be -INFINITY. */
template <int N, bool SOME>
__device__ static inline float flash_softmax(float (*s)[4], int half, float &top, float &sum)
{
    float above = -INFINITY;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++) {
            const float x = s[j][2 * half + i];
            above = x > above ? x : above;
        }
    }
    above = flash_row(above, mg_greater<float>());
    above = top > above ? top : above;
    const float base = SOME && above == -INFINITY ? 0 : above, keep = mg_exp2(top - base);
    float part = 0;
    MG_UNROLL
    for (int j = 0; j < N / 8; j++) {
        MG_UNROLL
        for (int i = 0; i < 2; i++) {
            float &x = s[j][2 * half + i];
            x = mg_exp2(x - base);
            part += x;
        }
    }
    sum = sum * keep + part; /* of this lane's columns; lanes are combined at the end */
    top = above;
    return keep;
}

/* The normaliser of a row in *lse; returns the factor of its sums. A query that sees no key has an
 * output of 0. */
__device__ static inline float flash_norm(bool none, float top, float sum, float *lse)
{
    *lse = none ? (float)MG_NO_LSE : (top + log2f(sum)) * FLASH_LN2;
    return none ? 0 : 1 / sum;
}

/* Writes a warp's 16 rows from `from` on. A lane has two of them, 8 apart: for each the largest
 * score, and the sum over its columns. */
template <class E, int V>
__device__ static inline void flash_finish(const mg_attention_desc &d, const flash_head &p,
                                           int from, const float (*acc)[4],
                                           const flash_sight &sight, const float top[2],
                                           const float sum[2], typename E::type *o, float *lse)
{
    const int row = from + (int)threadIdx.x % 32 / 4, queries = (int)d.queries;
    float l[2], by[2];
    MG_UNROLL
    for (int i = 0; i < 2; i++)
        by[i] =
            flash_norm(sight.mine[i].none(), top[i], flash_row(sum[i], mg_plus<float>()), &l[i]);
    E::template store<V>(o + flash_at(d.o, p, from), d.o[1], queries - from, acc, by[0], by[1],
                         (int)d.vhead);
    for (int i = 0; i < 2; i++)
        if (threadIdx.x % 4 == 0 && row + 8 * i < queries)
            lse[flash_at(d.lse, p, row + 8 * i)] = l[i];
}

/* A warp's 16 rows of a tile as fragments. */
template <int D>
__device__ static inline void flash_rows(uint32_t (*a)[4], const mg_chunk *tile, int row)
{
    MG_UNROLL
    for (int i = 0; i < D / 16; i++)
        mg_tile_a<D>(a[i], tile, row, 16 * i);
}

template <class E, int D, int V, class S>
__device__ static inline void flash_forward(const mg_attention_desc &d, S sees,
                                            const typename E::type *q, const typename E::type *k,
                                            const typename E::type *v, typename E::type *o,
                                            float *lse, bool whole)
{
    typedef typename E::type T;
    enum { W = sizeof(T), M = MG_FLASH_ROWS, THREADS = 2 * M, N = MG_FLASH_KEYS(D, V, W) };
    constexpr bool KEEPS = MG_FLASH_KEEPS(D, V, W);
    MG_SHARED_ALL(area);
    mg_chunk *qs = area, *ks = KEEPS ? qs : qs + M * MG_ROW_BYTES(D, W) / 16;
    mg_chunk *vs = ks + N * MG_ROW_BYTES(D, W) / 16;
    static_assert(!KEEPS || (int)N >= (int)M, "queries lie where keys will");
    const flash_place place =
        flash_place_of(d.kv, d.group, d.queries, M, (int)blockIdx.x,
                       flash_section<T, FLASH_SECTION>(d.keys, d.head + d.vhead) * (int)d.group);
    const flash_head p = place.head;
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    /* The longest first: with a mask the last queries see the most keys. */
    const int from = (place.all - 1 - place.at) * M, row = from + 16 * warp + g;
    const int queries = (int)d.queries, head = (int)d.head, vhead = (int)d.vhead;
    const mg_range keys = flash_keys_of(d, sees, p.b, from, M);
    const flash_sight sight = flash_sight_of(d, sees, p.b, from + 16 * warp, 16, row);
    const mg_scores<S::CAP, E::EXACT> score(d);
    const typename flash_bias_of<S::BIAS>::type bias(d, sees, p);
    const T *k0 = k + flash_key_at(d.k, p, 0), *v0 = v + flash_key_at(d.v, p, 0);

    uint32_t a[KEEPS ? D / 16 : 1][4];
    E::template load<D, M, THREADS>(qs, q + flash_at(d.q, p, from), d.q[1], queries - from, head,
                                    whole);
    if constexpr (KEEPS) {
        mg_copy_commit();
        mg_copy_wait<0>();
        __syncthreads();
        flash_rows<D>(a, qs, 16 * warp);
        __syncthreads(); /* before keys overwrite the queries */
    }
    float acc[V / 8][4] = {{0}}, s[N / 8][4];
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    E::template load<D, N, THREADS>(ks, k0 + keys.from * d.k[1], d.k[1], keys.to - keys.from, head,
                                    whole);
    mg_copy_commit();
    for (int at = keys.from; at < keys.to; at += N) {
        mg_copy_wait<0>();
        __syncthreads(); /* these keys have arrived, the values before are used */
        E::template load<V, N, THREADS>(vs, v0 + at * d.v[1], d.v[1], keys.to - at, vhead, whole);
        mg_copy_commit();
        if constexpr (KEEPS)
            mg_times_transposed<T, D, N>(s, a, ks);
        else
            E::template tile_times_transposed<D, N>(s, qs, 16 * warp, ks);
        __syncthreads(); /* the keys are used */
        if (at + N < keys.to)
            E::template load<D, N, THREADS>(ks, k0 + (at + N) * d.k[1], d.k[1], keys.to - at - N,
                                            head, whole);
        mg_copy_commit(); /* perhaps empty: the wait below counts groups */
        MG_UNROLL
        for (int j = 0; j < N / 8; j++) {
            MG_UNROLL
            for (int i = 0; i < 4; i++)
                s[j][i] = score(s[j][i]);
            MG_UNROLL
            for (int i = 0; i < (S::BIAS ? 4 : 0); i++)
                s[j][i] +=
                    bias.at(row + 8 * (i / 2), at + 8 * j + 2 * ((int)threadIdx.x % 4) + i % 2);
        }
        if (!sight.whole(at, N))
            flash_mask<N>(s, sight, at, -INFINITY);
        const float keep0 = flash_softmax<N, S::SOME>(s, 0, top[0], sum[0]);
        const float keep1 = flash_softmax<N, S::SOME>(s, 1, top[1], sum[1]);
        MG_UNROLL
        for (int j = 0; j < V / 8; j++) {
            acc[j][0] *= keep0, acc[j][1] *= keep0;
            acc[j][2] *= keep1, acc[j][3] *= keep1;
        }
        mg_copy_wait<1>();
        __syncthreads(); /* the values have arrived */
        E::template add_times<V, N>(acc, s, vs);
    }
    flash_finish<E, V>(d, p, from + 16 * warp, acc, sight, top, sum, o, lse);
}

#endif
