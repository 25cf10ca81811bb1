/* delta.h - the products of the rows of attention's result and of its cotangent, which the
 * gradients of flash.h and flash_sm90.h subtract from those of the probabilities. */
#ifndef MG_CUDA_DELTA_H
#define MG_CUDA_DELTA_H

/* Index of query 0 of a head in delta. */
__device__ static inline int64_t flash_delta_at(const mg_attention_desc &d, const flash_head &p)
{
    return ((p.b * d.kv + p.h) * d.group + p.g) * d.queries;
}

/* delta = do . o of each query, [batch, kv, group, queries]. Lanes 2^log of a warp have a query, or
 * MG_DELTA_ROWS queries one after another, and read 16 bytes at a time of each if rows begin at
 * multiples of that (`chunks`); elements behind the last whole chunk are read apart. */
template <class T>
__device__ static inline void flash_delta(const mg_attention_desc &d, int log, bool chunks,
                                          const T *o, const T *dout, float *delta)
{
    enum { W = mg_wide_vector<T>::n, ROWS = MG_DELTA_ROWS };
    const int lanes = 1 << log, lane = (int)threadIdx.x & (lanes - 1), queries = (int)d.queries;
    const flash_place place =
        flash_place_of(d.kv, d.group, queries, MG_DELTA_BLOCK * ROWS >> log, (int)blockIdx.x);
    const flash_head p = place.head;
    const int vhead = (int)d.vhead, whole = chunks ? vhead & -W : 0;
    const int first = ((place.at * MG_DELTA_BLOCK + (int)threadIdx.x) >> log) * ROWS;
    float *const mine = delta + flash_delta_at(d, p);
    const int64_t at = flash_at(d.o, p, 0);
    float sum[ROWS] = {0}, x[ROWS][W], g[ROWS][W];
    for (int i = lane * W; i < whole; i += lanes * W) {
        MG_UNROLL
        for (int k = 0; k < ROWS; k++) { /* behind the last query the last one again */
            const int64_t row = at + i + d.o[1] * (first + k < queries ? first + k : queries - 1);
            mg_read<W>(o + row, x[k]);
            mg_read<W>(dout + row, g[k]);
        }
        MG_UNROLL
        for (int k = 0; k < ROWS; k++) {
            MG_UNROLL
            for (int j = 0; j < W; j++)
                sum[k] += x[k][j] * g[k][j];
        }
    }
    for (int i = whole + lane; i < vhead; i += lanes)
        for (int k = 0; k < ROWS && first + k < queries; k++)
            sum[k] += mg_wide(o[at + d.o[1] * (first + k) + i]) *
                      mg_wide(dout[at + d.o[1] * (first + k) + i]);
    for (int far = lanes / 2; far > 0; far /= 2) {
        MG_UNROLL
        for (int k = 0; k < ROWS; k++)
            sum[k] += __shfl_xor_sync(MG_ALL, sum[k], far);
    }
    MG_UNROLL
    for (int k = 0; k < ROWS; k++)
        if (lane == 0 && first + k < queries)
            mine[first + k] = sum[k];
}

#endif
