/* cuda.h - fused kernels as CUDA C: their text, and the launch of each.
 *
 * A kernel is an extern "C" function. It has one pointer for each operand that has memory of its
 * own, in the order of the operands. It computes the same as the function of
 * codegen/llvm/llvm_kernel.c. */
#ifndef MGC_CODEGEN_CUDA_H
#define MGC_CODEGEN_CUDA_H

#include "plan/plan.h"

/* Blocks in x and y, threads of a block in x. Nothing here depends on the device. */
typedef struct CudaLaunch {
    int64_t grid_x, grid_y;
    int block;
} CudaLaunch;

CudaLaunch cuda_launch(const Plan *p, const Kernel *k); /* k: one of the plan's */
/* The number of its pointers; operand[i]: the operand whose place is the i-th pointer. */
int cuda_pointers(const Kernel *k, int operand[MAX_OPERANDS]);
/* All kernels of a plan, as one file that includes `header`: "device.h" alone, or "library.h" with
 * the kernels that a program needs besides. */
void codegen_cuda_kernels(const Plan *p, const char *header, FILE *out);
/* Of the library, those kernels of attention and of convolutions that the programs of a plan call.
 */
void cuda_instances(const Plan *p, FILE *out);

/* False after telling, at its line, of a size that a kernel of kernels/cuda does not count to. */
bool codegen_cuda_fits(const Plan *p);

#endif
