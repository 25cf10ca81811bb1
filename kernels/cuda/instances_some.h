/* instances_some.h - the kernels of attention that tests and benchmarks compile, for each kind of
 * mask: X(numbers, columns of keys, of values). The tests draw from these, and where no ptxas has
 * to compile them (through the shim, and as PTX) from more. */
#ifndef MG_CUDA_INSTANCES_SOME_H
#define MG_CUDA_INSTANCES_SOME_H

#if defined MG_SHIM || defined MG_MORE_INSTANCES
#define MG_MORE_FLASH(X)                                                                           \
    X(bf16, 32, 32)                                                                                \
    X(bf16, 64, 128)                                                                               \
    X(bf16, 96, 96)                                                                                \
    X(bf16, 128, 64)                                                                               \
    X(f16, 128, 128)                                                                               \
    X(f16, 192, 128)                                                                               \
    X(f32, 32, 32)                                                                                 \
    X(f32, 80, 80)                                                                                 \
    X(f32, 192, 128)                                                                               \
    X(tf32, 32, 32)                                                                                \
    X(tf32, 80, 80)                                                                                \
    X(tf32, 256, 256)
#define MG_MORE_FLASH90(X)                                                                         \
    X(bf16, 64, 128)                                                                               \
    X(bf16, 128, 64)                                                                               \
    X(f16, 128, 128)                                                                               \
    X(f16, 192, 128)
#else
#define MG_MORE_FLASH(X)
#define MG_MORE_FLASH90(X)
#endif

#define MG_SOME_FLASH(X)                                                                           \
    X(bf16, 64, 64)                                                                                \
    X(bf16, 80, 80)                                                                                \
    X(bf16, 128, 128)                                                                              \
    X(bf16, 192, 128)                                                                              \
    X(bf16, 192, 192)                                                                              \
    X(bf16, 256, 256)                                                                              \
    X(f16, 64, 64)                                                                                 \
    X(f32, 64, 64)                                                                                 \
    X(f32, 128, 128)                                                                               \
    X(f32, 256, 256)                                                                               \
    X(tf32, 64, 64)                                                                                \
    X(tf32, 128, 128)                                                                              \
    MG_MORE_FLASH(X)
/* With a bias. */
#define MG_SOME_BIASED(X)                                                                          \
    X(bf16, 64, 64)                                                                                \
    X(bf16, 192, 128)                                                                              \
    X(f16, 64, 64)                                                                                 \
    X(f32, 64, 64)                                                                                 \
    X(tf32, 64, 64)
#define MG_SOME_FLASH90(X)                                                                         \
    X(bf16, 64, 64)                                                                                \
    X(bf16, 128, 128)                                                                              \
    X(bf16, 192, 128)                                                                              \
    X(bf16, 192, 192)                                                                              \
    X(f16, 64, 64)                                                                                 \
    MG_MORE_FLASH90(X)

/* Those with a kernel for few blocks. */
#define MG_SOME_FEW(X)                                                                             \
    X(bf16, 64, 64)                                                                                \
    X(f16, 64, 64)

#endif
