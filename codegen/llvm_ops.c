/* llvm_ops.c - pointwise ops as LLVM instructions.
 *
 * A sum of a product made in the same kernel is a fused multiply-add where the processor has one;
 * of two products the first is fused. That is said here and not left to LLVM, which fuses a product
 * that nothing else uses: then the bits of a value would depend on what else a kernel computes.
 * Nothing is relaxed, so that infinities and NaNs stay what they are and can be found. The
 * functions of libm are called by name with glibc's vector variants (libmvec, at most 4 ulp)
 * announced at the call, which the loop vectoriser then widens; what is left of a loop calls the
 * scalar function. */
#include "codegen/llvm_gen.h"

#include <math.h>
#include <string.h>

LLVMTypeRef llvm_register_type(const LlvmModule *l, DType t)
{
    switch (t) {
    case DT_f64:
        return l->f64;
    case DT_i32:
        return l->i32;
    case DT_i64:
        return l->i64;
    case DT_bool:
        return l->i1;
    default:
        return l->f32;
    }
}

LLVMTypeRef llvm_memory_type(const LlvmModule *l, DType t)
{
    return t == DT_bool ? l->i8 : dtype_is_half(t) ? l->i16 : llvm_register_type(l, t);
}

LLVMValueRef llvm_add_apart(LlvmModule *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFAdd(l->b, a, b, "");
}

static LLVMValueRef intrinsic(LlvmModule *l, const char *name, LLVMTypeRef t, int n,
                              LLVMValueRef *args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->mod, id, &t, 1);
    return LLVMBuildCall2(l->b, LLVMIntrinsicGetType(l->c, id, &t, 1), f, args, (unsigned)n, "");
}

static bool is_product(LLVMValueRef v)
{
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMFMul;
}

/* product + c; minus: c - product */
static LLVMValueRef fused(LlvmModule *l, LLVMValueRef product, LLVMValueRef c, bool minus)
{
    LLVMValueRef args[3] = {LLVMGetOperand(product, 0), LLVMGetOperand(product, 1), c};
    if (minus)
        args[0] = LLVMBuildFNeg(l->b, args[0], "");
    return intrinsic(l, "llvm.fmuladd", LLVMTypeOf(c), 3, args);
}

static LLVMValueRef add(LlvmModule *l, LLVMValueRef x, LLVMValueRef y)
{
    return is_product(x)   ? fused(l, x, y, false)
           : is_product(y) ? fused(l, y, x, false)
                           : LLVMBuildFAdd(l->b, x, y, "");
}

static LLVMValueRef subtract(LlvmModule *l, LLVMValueRef x, LLVMValueRef y)
{
    return is_product(x)   ? fused(l, x, LLVMBuildFNeg(l->b, y, ""), false)
           : is_product(y) ? fused(l, y, x, true)
                           : LLVMBuildFSub(l->b, x, y, "");
}

LLVMValueRef llvm_add_reassociable(LlvmModule *l, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef v = add(l, a, b);
    if (LLVMCanValueUseFastMathFlags(v))
        LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc);
    return v;
}

LLVMValueRef llvm_maximum(LlvmModule *l, DType t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef args[2] = {a, b};
    return intrinsic(l, "llvm.maximum", llvm_register_type(l, t), 2, args);
}

/* ---- halves --------------------------------------------------------------------------------- */

/* In a register a half is the float of the same value; in memory it is 16 bits. f16 has
 * instructions from x86-64-v3 on; a bf16 is the upper half of a float, and its arithmetic is done
 * on integers, since LLVM's bfloat is not legal on most processors. */

static LLVMValueRef bits32(const LlvmModule *l, uint32_t x)
{
    return LLVMConstInt(l->i32, x, 0);
}

/* The bits of the bf16 nearest to x, ties to even, in the upper half. */
static LLVMValueRef bf16_bits(LlvmModule *l, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef bits = LLVMBuildBitCast(b, x, l->i32, "");
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, bits32(l, 16), ""), bits32(l, 1), "");
    LLVMValueRef step = LLVMBuildAdd(b, odd, bits32(l, 0x7fff), "");
    LLVMValueRef nearest = LLVMBuildAdd(b, bits, step, "");
    LLVMValueRef quiet = LLVMBuildOr(b, bits, bits32(l, 0x400000), "");
    LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
    return LLVMBuildSelect(b, nan, quiet, nearest, "");
}

/* A float as it is when it has been a half. */
static LLVMValueRef rounded(LlvmModule *l, DType half, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    if (half == DT_f16)
        return LLVMBuildFPExt(b, LLVMBuildFPTrunc(b, x, l->f16, ""), l->f32, "");
    LLVMValueRef kept = LLVMBuildAnd(b, bf16_bits(l, x), bits32(l, 0xffff0000), "");
    return LLVMBuildBitCast(b, kept, l->f32, "");
}

LLVMValueRef llvm_widen(LlvmModule *l, DType half, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    if (half == DT_f16)
        return LLVMBuildFPExt(b, LLVMBuildBitCast(b, x, l->f16, ""), l->f32, "");
    x = LLVMBuildShl(b, LLVMBuildZExt(b, x, l->i32, ""), bits32(l, 16), "");
    return LLVMBuildBitCast(b, x, l->f32, "");
}

LLVMValueRef llvm_narrow(LlvmModule *l, DType half, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    if (half == DT_f16)
        return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, x, l->f16, ""), l->i16, "");
    x = LLVMBuildLShr(b, LLVMBuildBitCast(b, x, l->i32, ""), bits32(l, 16), "");
    return LLVMBuildTrunc(b, x, l->i16, "");
}

/* ---- libm ----------------------------------------------------------------------------------- */

static void mark_pure(LlvmModule *l, LLVMValueRef f)
{
    static const char *const marks[] = {"nounwind", "willreturn", "memory"};
    for (int i = 0; i < 3; i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(marks[i], strlen(marks[i]));
        LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(l->c, kind, 0));
    }
}

/* Declares the variants of a function for each vector width there is, and describes them in the
 * form of the attribute "vector-function-abi-variant" (names: Intel's vector function ABI). */
static const char *declare_variants(LlvmModule *l, const char *name, LLVMTypeRef t, bool wide,
                                    int nargs)
{
    static const struct {
        int bits;
        char isa;
    } widths[] = {{512, 'e'}, {256, 'd'}, {128, 'b'}};
    char *list = arena_strdup(l->arena, "");
    for (int i = 0; i < 3; i++) {
        if (widths[i].bits > l->vector_bits)
            continue;
        int lanes = widths[i].bits / (wide ? 64 : 32);
        const char *args = nargs == 2 ? "vv" : "v";
        char *mangled = arena_printf(l->arena, "_ZGV%cN%d%s_%s", widths[i].isa, lanes, args, name);
        if (!LLVMGetNamedFunction(l->mod, mangled)) {
            LLVMTypeRef v = LLVMVectorType(t, (unsigned)lanes), in[2] = {v, v};
            LLVMValueRef f =
                LLVMAddFunction(l->mod, mangled, LLVMFunctionType(v, in, (unsigned)nargs, 0));
            mark_pure(l, f);
            vec_push(l->arena, &l->variants, f);
        }
        list = arena_printf(l->arena, "%s%s_ZGV_LLVM_N%d%s_%s(%s)", list, *list ? "," : "", lanes,
                            args, name, mangled);
    }
    return list;
}

static LLVMValueRef libm(LlvmModule *l, const char *base, DType t, int nargs, LLVMValueRef a,
                         LLVMValueRef b)
{
    bool wide = t == DT_f64;
    LLVMTypeRef type = llvm_register_type(l, t), in[2] = {type, type};
    const char *name = wide ? base : arena_printf(l->arena, "%sf", base);
    LLVMTypeRef ft = LLVMFunctionType(type, in, (unsigned)nargs, 0);
    LLVMValueRef f = LLVMGetNamedFunction(l->mod, name);
    if (!f) {
        f = LLVMAddFunction(l->mod, name, ft);
        mark_pure(l, f);
    }
    LLVMValueRef args[2] = {a, b};
    LLVMValueRef call = LLVMBuildCall2(l->b, ft, f, args, (unsigned)nargs, "");
    if (l->vector_bits) {
        static const char key[] = "vector-function-abi-variant";
        const char *list = declare_variants(l, name, type, wide, nargs);
        LLVMAddCallSiteAttribute(
            call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
            LLVMCreateStringAttribute(l->c, key, sizeof key - 1, list, (unsigned)strlen(list)));
    }
    return call;
}

void llvm_keep_variants(LlvmModule *l)
{
    if (!l->variants.n)
        return;
    LLVMValueRef list = LLVMConstArray2(l->ptr, l->variants.data, l->variants.n);
    LLVMValueRef used = LLVMAddGlobal(l->mod, LLVMTypeOf(list), "llvm.compiler.used");
    LLVMSetInitializer(used, list);
    LLVMSetLinkage(used, LLVMAppendingLinkage);
    LLVMSetSection(used, "llvm.metadata");
}

/* ---- ops ------------------------------------------------------------------------------------ */

static LLVMValueRef number(const LlvmModule *l, DType t, double x)
{
    return dtype_is_float(t) ? LLVMConstReal(llvm_register_type(l, t), x)
                             : LLVMConstInt(llvm_register_type(l, t), (uint64_t)(int64_t)x, 1);
}

/* gelu_tanh of x, or its slope; in the order of ir/ops.c. */
static LLVMValueRef gelu_tanh(LlvmModule *l, bool slope, DType t, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    const LLVMValueRef c = number(l, t, 0.7978845608028654), k = number(l, t, 0.044715),
                       one = number(l, t, 1), half = number(l, t, 0.5);
    LLVMValueRef kx = LLVMBuildFMul(b, k, x, "");
    LLVMValueRef cube = LLVMBuildFMul(b, LLVMBuildFMul(b, kx, x, ""), x, "");
    LLVMValueRef u = LLVMBuildFMul(b, c, add(l, x, cube), "");
    LLVMValueRef y = libm(l, "tanh", t, 1, u, NULL);
    LLVMValueRef half_x = LLVMBuildFMul(b, half, x, ""), more = LLVMBuildFAdd(b, one, y, "");
    if (!slope)
        return LLVMBuildFMul(b, half_x, more, "");
    LLVMValueRef three = LLVMBuildFMul(b, number(l, t, 3), LLVMBuildFMul(b, kx, x, ""), "");
    LLVMValueRef du = LLVMBuildFMul(b, c, add(l, one, three), "");
    LLVMValueRef less = subtract(l, one, LLVMBuildFMul(b, y, y, ""));
    LLVMValueRef second = LLVMBuildFMul(b, LLVMBuildFMul(b, half_x, less, ""), du, "");
    return add(l, LLVMBuildFMul(b, half, more, ""), second);
}

static LLVMValueRef unary(LlvmModule *l, Op op, DType t, LLVMValueRef a)
{
    LLVMTypeRef type = llvm_register_type(l, t);
    LLVMBuilderRef b = l->b;
    bool real = dtype_is_float(t);
    switch (op) {
    case OP_copy:
        return a;
    case OP_neg:
        return real ? LLVMBuildFNeg(b, a, "") : LLVMBuildNeg(b, a, "");
    case OP_abs:
        if (real)
            return intrinsic(l, "llvm.fabs", type, 1, &a);
        return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, a, number(l, t, 0), ""),
                               LLVMBuildNeg(b, a, ""), a, "");
    case OP_sqrt:
        return intrinsic(l, "llvm.sqrt", type, 1, &a);
    case OP_rsqrt:
        return LLVMBuildFDiv(b, number(l, t, 1), intrinsic(l, "llvm.sqrt", type, 1, &a), "");
    case OP_sigmoid: /* exp(-a) may overflow to infinity: 1 / inf is the right 0 */
        a = libm(l, "exp", t, 1, LLVMBuildFNeg(b, a, ""), NULL);
        return LLVMBuildFDiv(b, number(l, t, 1), LLVMBuildFAdd(b, number(l, t, 1), a, ""), "");
    case OP_gelu_tanh:
    case OP_gelu_tanh_slope:
        return gelu_tanh(l, op == OP_gelu_tanh_slope, t, a);
    default:
        return libm(l, op_info[op].name, t, 1, a, NULL); /* exp log tanh erf sin cos */
    }
}

static LLVMValueRef compare(LlvmModule *l, Op op, DType t, LLVMValueRef a, LLVMValueRef b)
{
    static const LLVMRealPredicate real[] = {LLVMRealOLT, LLVMRealOLE, LLVMRealOGT,
                                             LLVMRealOGE, LLVMRealOEQ, LLVMRealUNE};
    static const LLVMIntPredicate whole[] = {LLVMIntSLT, LLVMIntSLE, LLVMIntSGT,
                                             LLVMIntSGE, LLVMIntEQ,  LLVMIntNE};
    int at = (int)op - OP_lt;
    return dtype_is_float(t) ? LLVMBuildFCmp(l->b, real[at], a, b, "")
                             : LLVMBuildICmp(l->b, whole[at], a, b, "");
}

static LLVMValueRef binary(LlvmModule *l, Op op, DType t, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = l->b;
    bool real = dtype_is_float(t);
    switch (op) {
    case OP_add:
        return real ? add(l, x, y) : LLVMBuildAdd(b, x, y, "");
    case OP_sub:
        return real ? subtract(l, x, y) : LLVMBuildSub(b, x, y, "");
    case OP_mul:
        return real ? LLVMBuildFMul(b, x, y, "") : LLVMBuildMul(b, x, y, "");
    case OP_div:
        return real ? LLVMBuildFDiv(b, x, y, "") : LLVMBuildSDiv(b, x, y, "");
    case OP_max: /* as op_evaluate: a >= b ? a : b, so that a NaN in b shows */
        return LLVMBuildSelect(b, compare(l, OP_ge, t, x, y), x, y, "");
    case OP_min:
        return LLVMBuildSelect(b, compare(l, OP_le, t, x, y), x, y, "");
    default:
        return libm(l, "pow", t, 2, x, y);
    }
}

LLVMValueRef llvm_pointwise(LlvmModule *l, Op op, DType t, LLVMValueRef a, LLVMValueRef b,
                            LLVMValueRef c)
{
    if (op == OP_select)
        return LLVMBuildSelect(l->b, a, b, c, "");
    if (op >= OP_lt && op <= OP_ne)
        return compare(l, op, t, a, b);
    return op_info[op].least == 1 ? unary(l, op, t, a) : binary(l, op, t, a, b);
}

LLVMValueRef llvm_cast(LlvmModule *l, LLVMValueRef x, DType from, DType to)
{
    LLVMTypeRef type = llvm_register_type(l, to);
    LLVMBuilderRef b = l->b;
    if (from == to)
        return x;
    if (to == DT_bool)
        return compare(l, OP_ne, from, x, number(l, from, 0));
    if (dtype_is_float(to))
        x = dtype_is_float(from) ? LLVMBuildFPCast(b, x, type, "")
            : from == DT_bool    ? LLVMBuildUIToFP(b, x, type, "")
                                 : LLVMBuildSIToFP(b, x, type, "");
    else if (dtype_is_float(from))
        x = LLVMBuildFPToSI(b, x, type, "");
    else
        x = from == DT_bool ? LLVMBuildZExt(b, x, type, "") : LLVMBuildIntCast2(b, x, type, 1, "");
    return dtype_is_half(to) ? rounded(l, to, x) : x;
}
