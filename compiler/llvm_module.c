/* llvm_module.c - the table of lib/mgc/libmgc_llvm.so; see llvm_module.h. */
#include "compiler/llvm_module.h"

#include <llvm/Config/llvm-config.h>

extern const LlvmModuleTable mgc_llvm_module;
__attribute__((visibility("default"))) const LlvmModuleTable mgc_llvm_module = {
    MGC_VERSION, LLVM_VERSION_STRING, codegen_kernels, codegen_features};
