/* sight.h - the keys that a query of attention sees, and what becomes of a score.
 *
 * Query s of batch b sees the keys of a range [from, to), and neither end falls from one query to
 * the next. So a block of queries meets the keys from the first query's `from` to the last one's
 * `to`, a key meets a range of queries, and only tiles at the ends of a range need a mask. Kernels
 * are compiled for each of the kinds that a program uses, so that the plain one pays nothing:
 *   mg_all_keys     all keys, or with causal those up to the query itself
 *   mg_some_keys    also a window, first keys (documents), or a part of the keys (a ring)
 *   mg_capped_keys  the same, and scores have a cap
 *   mg_biased_keys  as mg_some_keys, and scores have a bias
 *   mg_capped_biased_keys   the same, and a cap */
#ifndef MG_CUDA_SIGHT_H
#define MG_CUDA_SIGHT_H

#define MG_NO_LSE -1e30 /* lse of a query that sees no key: finite, in place of log 0 */

/* Keys, or queries, from `from` on and before `to`; none if to <= from. */
struct mg_range {
    int from, to;
    __device__ bool has(int i) const
    {
        return i >= from && i < to;
    }
    __device__ bool none() const
    {
        return to <= from;
    }
};

__device__ static inline int mg_smaller(int a, int b)
{
    return a < b ? a : b;
}
__device__ static inline int mg_larger(int a, int b)
{
    return a > b ? a : b;
}

struct mg_all_keys {
    const int32_t *seen, *first;          /* NULL */
    const void *bias;                     /* NULL: all of these are alike for the host */
    enum { SOME = 0, CAP = 0, BIAS = 0 }; /* does a query see no key, or not the first ones? */
    __device__ mg_range keys(const mg_attention_desc &d, int64_t, int s) const
    {
        return mg_range{0, d.causal ? mg_smaller(s + 1, (int)d.keys) : (int)d.keys};
    }
    /* The queries that see some key of [from, to). */
    __device__ mg_range queries(const mg_attention_desc &d, int64_t, int from, int) const
    {
        return mg_range{d.causal ? from : 0, (int)d.queries};
    }
};

/* A query past the end counts as the last. */
struct mg_some_keys {
    const int32_t *seen, *first;
    const void
        *bias; /* of mg_biased_keys; NULL for others, and where kernels for any mask have none */
    enum { SOME = 1, CAP = 0, BIAS = 0 };
    __device__ int begin_of(const mg_attention_desc &d, int64_t b, int s) const
    {
        const int least = d.window > 0 ? mg_larger(s + 1 - (int)d.window, 0) : 0;
        return first ? mg_larger(least, first[b * d.first[0] + s * d.first[1]]) : least;
    }
    __device__ int end_of(const mg_attention_desc &d, int64_t b, int s) const
    {
        return seen       ? seen[b * d.seen[0] + s * d.seen[1]]
               : d.causal ? mg_smaller(s + 1, (int)d.keys)
                          : (int)d.keys;
    }
    __device__ mg_range keys(const mg_attention_desc &d, int64_t b, int s) const
    {
        s = mg_smaller(s, (int)d.queries - 1);
        return mg_range{begin_of(d, b, s), end_of(d, b, s)};
    }
    /* The number of queries, from the first on, that `before` is true of. All lanes of a warp call
     * it: each asks for one query, in as many rounds as 32-fold steps take. */
    template <class F> __device__ static int count(int n, F before)
    {
        int low = 0, high = n, step;
        do {
            step = (high - low + 31) / 32;
            const int at = low + (int)(threadIdx.x % 32) * step;
            const int passed = __popc(__ballot_sync(MG_ALL, at < high && before(at)));
            if (passed == 0)
                return low; /* not even the first */
            high = mg_smaller(high, low + passed * step);
            low += (passed - 1) * step + 1;
        } while (low < high);
        return low;
    }
    __device__ mg_range queries(const mg_attention_desc &d, int64_t b, int from, int to) const
    {
        const int n = (int)d.queries;
        const int unseen = count(n, [&](int s) { return end_of(d, b, s) <= from; });
        return mg_range{unseen, count(n, [&](int s) { return begin_of(d, b, s) < to; })};
    }
};

struct mg_capped_keys : mg_some_keys {
    enum { CAP = 1 };
};

struct mg_biased_keys : mg_some_keys {
    enum { BIAS = 1 };
};

struct mg_capped_biased_keys : mg_biased_keys {
    enum { CAP = 1 };
};

/* ---- scores ------------------------------------------------------------------------------- */

/* 1 / x to 1 ulp. */
#ifdef MG_SHIM
__device__ static inline float mg_inverse(float x)
{
    return 1 / x;
}
#else
__device__ static inline float mg_inverse(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

#define FLASH_LOG2E 1.4426950408889634f
#define FLASH_LN2   0.6931471805599453f

/* A product q . k becomes a score in powers of two, capped before the mask.
 *
 * For halves and tf32 tanh(y) is 1 - 2 / (1 + e^2y), with an absolute error of some 2^-22: that of
 * a score is cap 2^-22, so at a cap of 50 an exponential is off by 1e-5, where the roundings of a
 * score's operands and of the exponential itself are 2^-11 and more. (tanh.approx is off by 2^-11,
 * which at a cap of 50 would be 2% of an exponential.) For f32 it is tanhf, to 2 ulp. */
template <bool CAP, bool EXACT> struct mg_scores {
    float inner, outer; /* a score is outer * tanh(inner * product), or outer * product */
    __device__ mg_scores(const mg_attention_desc &d)
    {
        outer = (float)(CAP ? d.cap : d.scale) * FLASH_LOG2E;
        inner = CAP ? (float)(d.scale / d.cap) * (EXACT ? 1 : 2 * FLASH_LOG2E) : 1;
    }
    /* The hyperbolic tangent; or the product. */
    __device__ float bent(float product) const
    {
        if (!CAP)
            return product;
        if (EXACT)
            return tanhf(product * inner);
        return fmaf(-2, mg_inverse(1 + mg_exp2(product * inner)), 1);
    }
    __device__ float operator()(float product) const
    {
        return bent(product) * outer;
    }
    /* The slope of the cap where the tangent is t. */
    __device__ static float slope(float t)
    {
        return CAP ? fmaf(-t, t, 1) : 1;
    }
};

#endif
