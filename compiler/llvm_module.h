/* llvm_module.h - what lib/mgc/libmgc_llvm.so offers: one table, found by name. It stands apart
 * because loading LLVM takes longer than everything that mgc does without it. */
#ifndef MGC_LLVM_MODULE_H
#define MGC_LLVM_MODULE_H

#include "codegen/link/link.h"

#define LLVM_MODULE_FILE   "libmgc_llvm.so"
#define LLVM_MODULE_SYMBOL "mgc_llvm_module"

typedef struct LlvmModuleTable {
    const char *build; /* equal to MGC_VERSION, or the two do not belong together */
    const char *llvm;  /* "19.1.7" */
    KernelsFn *kernels;
    const char *(*features)(const Plan *p);
} LlvmModuleTable;

#endif
