/* llvm.h - the kernels of a plan for a processor; see llvm.c. */
#ifndef MGC_LLVM_H
#define MGC_LLVM_H

#include "plan/plan.h"

/* Compiles all kernels of the plan into one object file (or assembly, or IR text), for the host
 * processor or the named one. False on failure, which m->diag reports. features: set to the
 * features that the program needs, in the arena. */
typedef enum KernelOutput { KERNEL_object, KERNEL_assembly, KERNEL_llvm_ir } KernelOutput;
bool codegen_kernels(const Plan *p, KernelOutput form, const char *path, const char **features);
/* The number of loops with sums that the last call did not vectorise, which breaks the order of
 * these sums. For tests: it must be 0. */
extern int codegen_narrow_loops;
/* The features that kernels need on the plan's processor, without making a kernel. */
const char *codegen_features(const Plan *p);

#endif
