/* shim.h - running kernels that were compiled against cuda_shim.h. */
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ShimDim {
    unsigned x, y, z;
} ShimDim;

/* A kernel by the name it was exported under, or NULL. */
typedef struct ShimKernel ShimKernel;
const ShimKernel *shim_find(const char *name);

const char *shim_name(const ShimKernel *k);
int shim_arguments(const ShimKernel *k);
unsigned long shim_argument_bytes(const ShimKernel *k, int i);

/* Forgets all kernels: their library is about to be closed. */
void shim_forget(void);

/* Runs all blocks of a grid, each with so many bytes of shared memory beside its own; returns NULL,
 * or what was wrong: a barrier that not all threads of a block reach, lanes of a warp that wait for
 * each other in different places, a product of a warpgroup that is read before it is there. */
const char *shim_launch(const ShimKernel *k, ShimDim grid, ShimDim block, size_t shared,
                        void **args, uint64_t seed);

#endif
