/* llvm_gen.h - the state of generating one kernel; private to the files of codegen/llvm. */
#ifndef MGC_LLVM_GEN_H
#define MGC_LLVM_GEN_H

#include "plan/nest.h"

#include <llvm-c/Core.h>

typedef struct LlvmModule {
    const Module *m;
    LLVMContextRef c;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
    int vector_bits;      /* of the processor's widest float vectors */
    const char *routines; /* Processor's: who has the vector routines */
    /* Vector variants of libm functions, kept alive for the vectoriser. */
    VEC(LLVMValueRef) variants;
    Arena *arena;
} LlvmModule;

LLVMTypeRef llvm_memory_type(const LlvmModule *l, DType t); /* as stored: bool is a byte */
/* Converts a half, or a number of fp8, between memory and a register, where it is a float. narrow:
 * the number is already a value of the type. A dynamic number is in a register what it is in
 * memory. */
LLVMValueRef llvm_widen(LlvmModule *l, DType t, LLVMValueRef x);
LLVMValueRef llvm_narrow(LlvmModule *l, DType t, LLVMValueRef x);
/* codegen/llvm/llvm_dynamic.c: numbers of dynamic8 and udynamic8, whose bits are in a register, as
 * floats; and the bits of the nearest number. */
LLVMValueRef llvm_dynamic_number(LlvmModule *l, DType t, LLVMValueRef bits);
LLVMValueRef llvm_dynamic_bits(LlvmModule *l, DType t, LLVMValueRef x);
/* ... and NF4: the number of one half of a byte, which is given as a float of type t. */
LLVMValueRef llvm_nf4(LlvmModule *l, DType t, LLVMValueRef pair, LLVMValueRef low);
/* codegen/llvm/llvm_fp8.c: the same of fp8; and a float rounded to it and back. */
LLVMValueRef llvm_fp8_widen(LlvmModule *l, DType t, LLVMValueRef x);
LLVMValueRef llvm_fp8_narrow(LlvmModule *l, DType t, LLVMValueRef x);
LLVMValueRef llvm_fp8_rounded(LlvmModule *l, DType t, LLVMValueRef x);
LLVMTypeRef llvm_register_type(const LlvmModule *l, DType t); /* as computed: bool is a bit */

/* codegen/llvm/llvm_pointwise.c: a pointwise op on registers x of dtype t (the condition of a
 * choice is a bit), and a constant. */
LLVMValueRef llvm_pointwise(LlvmModule *l, Op op, DType t, LLVMValueRef *x);
LLVMValueRef llvm_number(const LlvmModule *l, DType t, double x);

/* codegen/llvm/llvm_exp.c: exp of an f32, as instructions. */
LLVMValueRef llvm_exp(LlvmModule *l, LLVMValueRef x);

/* codegen/llvm/llvm_ops.c: a function of libm (exp) or LLVM (llvm.fabs); a cast. */
LLVMValueRef llvm_routine(LlvmModule *l, const char *base, DType t, int nargs, LLVMValueRef *args);
LLVMValueRef llvm_intrinsic(LlvmModule *l, const char *name, LLVMTypeRef t, int n,
                            LLVMValueRef *args);
LLVMValueRef llvm_cast(LlvmModule *l, LLVMValueRef x, DType from, DType to);
/* A term of a sum whose order the vectoriser may choose. */
LLVMValueRef llvm_add_reassociable(LlvmModule *l, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef llvm_maximum(LlvmModule *l, DType t, LLVMValueRef a, LLVMValueRef b);
/* After all kernels: says that the variants are used. */
void llvm_keep_variants(LlvmModule *l);

/* codegen/llvm/llvm_kernel.c: adds the function of one kernel to the module; and the attributes of
 * every function. */
void llvm_function_marks(LlvmModule *l, LLVMValueRef f);
void llvm_kernel(LlvmModule *l, const Kernel *k);

#endif
