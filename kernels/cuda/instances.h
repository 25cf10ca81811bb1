/* instances.h - the kernels of attention that are compiled. A program lists, after library.h, those
 * that it calls (runtime/attend.h chooses): the pass, the kind of numbers, which keys a query sees
 * (sight.h), and the columns of the tiles of keys and of values. Tests and benchmarks get some of
 * each. */
#ifndef MG_CUDA_INSTANCES_H
#define MG_CUDA_INSTANCES_H

#define MG_TYPE_bf16 mg_bf16
#define MG_TYPE_f16  mg_f16
#define MG_TYPE_f32  float
#define MG_TYPE_tf32 float
#define MG_TYPE_f64  double

#define MG_NUMBERS_bf16 mg_halves<mg_bf16>
#define MG_NUMBERS_f16  mg_halves<mg_f16>
#define MG_NUMBERS_f32  mg_floats
#define MG_NUMBERS_tf32 mg_tf32s

#define MG_SIGHT_all     mg_all_keys
#define MG_SIGHT_some    mg_some_keys
#define MG_SIGHT_cap     mg_capped_keys
#define MG_SIGHT_bias    mg_biased_keys
#define MG_SIGHT_capbias mg_capped_biased_keys

/* The parameters of a kernel: of T numbers, of queries that see S. Those of flash.h also ask
 * whether all rows are whole chunks. */
#define MG_FORWARD_PARAMETERS(T, S)                                                                \
    mg_attention_desc d, S sees, const T *q, const T *k, const T *v, T *o, float *lse
#define MG_DQ_PARAMETERS(T, S)                                                                     \
    mg_attention_desc d, S sees, const T *q, const T *k, const T *v, const float *lse,             \
        const T *dout, const float *delta, T *dq
#define MG_DKV_PARAMETERS(T, S)                                                                    \
    mg_attention_desc d, S sees, const T *q, const T *k, const T *v, const float *lse,             \
        const T *dout, const float *delta, T *dk, T *dv
#define MG_DBIAS_PARAMETERS(T, S)                                                                  \
    mg_attention_desc d, S sees, const T *q, const T *k, const T *v, const float *lse,             \
        const T *dout, const float *delta, float *dbias

#define MG_FLASH_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define MG_GRAD_THREADS(n, D, V) (2 * MG_FLASH_GRAD_ROWS(D, V, sizeof(MG_TYPE_##n)))
#define MG_FLASH_forward(n, s, D, V)                                                               \
    MG_FLASH_KERNEL(2 * MG_FLASH_ROWS)                                                             \
    mg_flash_forward_##n##_##s##_##D##_##V(MG_FORWARD_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s),       \
                                           int whole)                                              \
    {                                                                                              \
        flash_forward<MG_NUMBERS_##n, D, V>(d, sees, q, k, v, o, lse, whole);                      \
    }                                                                                              \
    MG_EXPORT(mg_flash_forward_##n##_##s##_##D##_##V)
#define MG_FLASH_dq(n, s, D, V)                                                                    \
    MG_FLASH_KERNEL(MG_GRAD_THREADS(n, D, V))                                                      \
    mg_flash_dq_##n##_##s##_##D##_##V(MG_DQ_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s), int whole)      \
    {                                                                                              \
        flash_dq<MG_NUMBERS_##n, D, V>(d, sees, q, k, v, lse, dout, delta, dq, whole);             \
    }                                                                                              \
    MG_EXPORT(mg_flash_dq_##n##_##s##_##D##_##V)
#define MG_FLASH_dkv(n, s, D, V)                                                                   \
    MG_FLASH_KERNEL(MG_GRAD_THREADS(n, D, V))                                                      \
    mg_flash_dkv_##n##_##s##_##D##_##V(MG_DKV_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s), int whole)    \
    {                                                                                              \
        flash_dkv<MG_NUMBERS_##n, D, V>(d, sees, q, k, v, lse, dout, delta, dk, dv, whole);        \
    }                                                                                              \
    MG_EXPORT(mg_flash_dkv_##n##_##s##_##D##_##V)

#define MG_FLASH_dbias(n, s, D, V)                                                                 \
    MG_FLASH_KERNEL(MG_GRAD_THREADS(n, D, V))                                                      \
    mg_flash_dbias_##n##_##s##_##D##_##V(MG_DBIAS_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s),           \
                                         int whole)                                                \
    {                                                                                              \
        flash_dbias<MG_NUMBERS_##n, D, V>(d, sees, q, k, v, lse, dout, delta, dbias, whole);       \
    }                                                                                              \
    MG_EXPORT(mg_flash_dbias_##n##_##s##_##D##_##V)

/* Two blocks of short heads are on a multiprocessor; a cap in a gradient takes too many registers
 * for that. */
#define MG_FLASH90_KERNEL(D, V, more)                                                              \
    extern "C" __global__ void __launch_bounds__(2 * MG_FLASH90_ROWS,                              \
                                                 D == 64 && V == 64 && !(more) ? 2 : 1)
#define MG_FLASH90_forward(n, s, D, V)                                                             \
    MG_FLASH90_KERNEL(D, V, false)                                                                 \
    mg_flash90_forward_##n##_##s##_##D##_##V(MG_FORWARD_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s))     \
    {                                                                                              \
        FLASH90_DO((flash90_forward<MG_TYPE_##n, D, V>(d, sees, q, k, v, o, lse));)                \
    }                                                                                              \
    MG_EXPORT(mg_flash90_forward_##n##_##s##_##D##_##V)
#define MG_FLASH90_dq(n, s, D, V)                                                                  \
    MG_FLASH90_KERNEL(D, V, MG_SIGHT_##s::CAP)                                                     \
    mg_flash90_dq_##n##_##s##_##D##_##V(MG_DQ_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s))               \
    {                                                                                              \
        FLASH90_DO((flash90_dq<MG_TYPE_##n, D, V>(d, sees, q, k, v, lse, dout, delta, dq));)       \
    }                                                                                              \
    MG_EXPORT(mg_flash90_dq_##n##_##s##_##D##_##V)
#define MG_FLASH90_DKV(kernel, N, alone, n, s, D, V)                                               \
    MG_FLASH90_KERNEL(D, V, alone)                                                                 \
    kernel(MG_DKV_PARAMETERS(MG_TYPE_##n, MG_SIGHT_##s))                                           \
    {                                                                                              \
        FLASH90_DO(                                                                                \
            (flash90_dkv_of<N, MG_TYPE_##n, D, V>(d, sees, q, k, v, lse, dout, delta, dk, dv));)   \
    }                                                                                              \
    MG_EXPORT(kernel)
#define MG_FLASH90_dkv(n, s, D, V)                                                                 \
    MG_FLASH90_DKV(mg_flash90_dkv_##n##_##s##_##D##_##V, MG_FLASH90_GRAD_TILE(D, V),               \
                   MG_SIGHT_##s::CAP, n, s, D, V)
#define MG_FLASH90_dkv_few(n, s, D, V)                                                             \
    MG_FLASH90_DKV(mg_flash90_dkv_few_##n##_##s##_##D##_##V, 64, true, n, s, D, V)

#define MG_FLASH_DELTA(n)                                                                          \
    MG_FLASH_KERNEL(MG_DELTA_BLOCK)                                                                \
    mg_flash_delta_##n(mg_attention_desc d, int log, int chunks, const MG_TYPE_##n *o,             \
                       const MG_TYPE_##n *dout, float *delta)                                      \
    {                                                                                              \
        flash_delta(d, log, chunks, o, dout, delta);                                               \
    }                                                                                              \
    MG_EXPORT(mg_flash_delta_##n)
MG_IF_F32(MG_FLASH_DELTA(f32))
MG_IF_BF16(MG_FLASH_DELTA(bf16))
MG_IF_F16(MG_FLASH_DELTA(f16))

#ifdef MG_WITH_INSTANCES
#include "instances_some.h"

#define MG_FLASH_passes(n, s, D, V)                                                                \
    MG_FLASH_forward(n, s, D, V) MG_FLASH_dq(n, s, D, V) MG_FLASH_dkv(n, s, D, V)
#define MG_FLASH_all(n, D, V)                                                                      \
    MG_FLASH_passes(n, all, D, V) MG_FLASH_passes(n, some, D, V) MG_FLASH_passes(n, cap, D, V)
#define MG_FLASH_biased(n, D, V)                                                                   \
    MG_FLASH_passes(n, bias, D, V) MG_FLASH_dbias(n, bias, D, V) MG_FLASH_passes(n, capbias, D, V) \
        MG_FLASH_dbias(n, capbias, D, V)
#define MG_FLASH90_passes(n, s, D, V)                                                              \
    MG_FLASH90_forward(n, s, D, V) MG_FLASH90_dq(n, s, D, V) MG_FLASH90_dkv(n, s, D, V)
#define MG_FLASH90_all(n, D, V)                                                                    \
    MG_FLASH90_passes(n, all, D, V) MG_FLASH90_passes(n, some, D, V) MG_FLASH90_passes(n, cap, D, V)
MG_SOME_FLASH(MG_FLASH_all)
MG_SOME_BIASED(MG_FLASH_biased)
MG_SOME_FLASH90(MG_FLASH90_all)
#define MG_FLASH90_few(n, D, V)                                                                    \
    MG_FLASH90_dkv_few(n, all, D, V) MG_FLASH90_dkv_few(n, some, D, V)                             \
        MG_FLASH90_dkv_few(n, cap, D, V)
MG_SOME_FEW(MG_FLASH90_few)
#define MG_ATTENTION_all(n)                                                                        \
    MG_ATTENTION_forward(n) MG_ATTENTION_dq(n) MG_ATTENTION_dkv(n) MG_ATTENTION_dbias(n)
MG_ATTENTION_all(f64) MG_ATTENTION_all(bf16) MG_ATTENTION_all(f16)
#endif

#endif
