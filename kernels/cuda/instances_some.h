/* instances_some.h - the kernels of attention that tests and benchmarks compile: X(numbers, sight,
 * columns of keys, of values). The tests draw from these. */
#ifndef MG_CUDA_INSTANCES_SOME_H
#define MG_CUDA_INSTANCES_SOME_H

#define MG_SOME_FLASH(X)                                                                           \
    X(bf16, all, 32, 32)                                                                           \
    X(bf16, all, 64, 64)                                                                           \
    X(bf16, some, 64, 64)                                                                          \
    X(bf16, cap, 64, 64)                                                                           \
    X(bf16, all, 64, 128)                                                                          \
    X(bf16, some, 80, 80)                                                                          \
    X(bf16, all, 96, 96)                                                                           \
    X(bf16, all, 128, 64)                                                                          \
    X(bf16, all, 128, 128)                                                                         \
    X(bf16, some, 128, 128)                                                                        \
    X(bf16, cap, 128, 128)                                                                         \
    X(bf16, all, 192, 128)                                                                         \
    X(bf16, some, 192, 128)                                                                        \
    X(bf16, some, 192, 192)                                                                        \
    X(bf16, all, 256, 256)                                                                         \
    X(bf16, cap, 256, 256)                                                                         \
    X(f16, all, 64, 64)                                                                            \
    X(f16, some, 64, 64)                                                                           \
    X(f16, all, 128, 128)                                                                          \
    X(f16, cap, 128, 128)                                                                          \
    X(f32, all, 32, 32)                                                                            \
    X(f32, some, 64, 64)                                                                           \
    X(f32, all, 80, 80)                                                                            \
    X(f32, all, 128, 128)                                                                          \
    X(f32, cap, 128, 128)                                                                          \
    X(f32, some, 192, 128)                                                                         \
    X(f32, all, 256, 256)                                                                          \
    X(tf32, all, 64, 64)                                                                           \
    X(tf32, some, 80, 80)                                                                          \
    X(tf32, all, 128, 128)                                                                         \
    X(tf32, cap, 128, 128)                                                                         \
    X(tf32, all, 192, 128)                                                                         \
    X(tf32, some, 256, 256)
#define MG_SOME_FLASH90(X)                                                                         \
    X(bf16, all, 64, 64)                                                                           \
    X(bf16, some, 64, 64)                                                                          \
    X(bf16, cap, 64, 64)                                                                           \
    X(bf16, all, 64, 128)                                                                          \
    X(bf16, all, 128, 64)                                                                          \
    X(bf16, all, 128, 128)                                                                         \
    X(bf16, some, 128, 128)                                                                        \
    X(bf16, cap, 128, 128)                                                                         \
    X(f16, all, 64, 64)                                                                            \
    X(f16, some, 64, 64)                                                                           \
    X(f16, all, 128, 128)                                                                          \
    X(f16, cap, 128, 128)

#endif
