/* delta.h - the products of the rows of attention's result and of its cotangent, which the
 * gradients of flash.h and flash_sm90.h subtract from those of the probabilities. */
#ifndef MG_CUDA_DELTA_H
#define MG_CUDA_DELTA_H

/* delta = do . o of each query, [batch, kv, group, queries]. Lanes 2^log of a warp have a query, or
 * MG_DELTA_ROWS queries one after another, and read 16 bytes at a time of each; blockIdx.y is a
 * head. Rows begin at multiples of 16 bytes; where a row is not whole words of that, the last
 * elements are read apart. */
template <class T>
__device__ static inline void flash_delta(const mg_attention_desc &d, int log, const T *o,
                                          const T *dout, float *delta)
{
    enum { W = mg_wide_vector<T>::n, ROWS = MG_DELTA_ROWS };
    const uint32_t y = blockIdx.y, group = (uint32_t)d.group, kv = (uint32_t)d.kv;
    const uint32_t of = y / group, b = of / kv; /* 32 bits: up to 65535 heads */
    const flash_head p = {b, of - b * kv, y - of * group};
    const int lanes = 1 << log, lane = (int)threadIdx.x & (lanes - 1);
    const int vhead = (int)d.vhead, whole = vhead & -W, queries = (int)d.queries;
    const int first = (int)(((blockIdx.x * FLASH_THREADS + threadIdx.x) >> log) * ROWS);
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
            delta[y * d.queries + first + k] = sum[k];
}

#define MG_FLASH_DELTA(name, T)                                                                    \
    FLASH_KERNEL mg_flash_delta_##name(mg_attention_desc d, int log, const T *o, const T *dout,    \
                                       float *delta)                                               \
    {                                                                                              \
        flash_delta(d, log, o, dout, delta);                                                       \
    }                                                                                              \
    MG_EXPORT(mg_flash_delta_##name)
MG_IF_BF16(MG_FLASH_DELTA(bf16, mg_bf16))
MG_IF_F16(MG_FLASH_DELTA(f16, mg_f16))

#endif
