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

/* Forgets all kernels: their library is about to be closed, or others take their place. */
void shim_forget(void);

/* Runs all blocks of a grid, each with so many bytes of shared memory beside its own; returns NULL,
 * or what was wrong: a barrier that not all threads of a block reach, lanes of a warp that wait for
 * each other in different places, a product of a warpgroup that is read before it is there. */
const char *shim_launch(const ShimKernel *k, ShimDim grid, ShimDim block, size_t shared,
                        void **args, uint64_t seed);

/* A kernel that something else runs than the text of this program: `run` returns what shim_launch
 * does. The name and the n sizes of arguments are kept by the caller. */
typedef const char *ShimRun(const void *what, ShimDim grid, ShimDim block, size_t shared,
                            void **args, uint64_t seed);
void shim_export_other(const char *name, int n, const size_t *sizes, ShimRun *run,
                       const void *what);

/* The kernels of the PTX that the file $SHIM_PTX has, in place of all others: tests/ptx runs them.
 * Returns NULL, also without the variable, or what was wrong. */
const char *shim_ptx_load(void);
/* Instructions of threads that they have run until now. */
uint64_t shim_ptx_instructions(void);
/* Memory of the device that they may use, and that is freed. */
void shim_ptx_allocated(const void *p, size_t bytes);
void shim_ptx_freed(const void *p);

#endif
