/* llvm_ops.c - the parts of pointwise ops: registers, halves, and routines of libm.
 *
 * The bits of an element depend only on its operands and its op. They do not depend on the rest of
 * the kernel, or on the place in a loop. So a value that is recomputed for the backward pass has
 * the same bits as before.
 *
 * For this reason no arithmetic is relaxed, and a sum of a product is rounded twice. A fused
 * multiply-add would round once if both ops are in one kernel, and twice if they are not. A
 * function of libm is always one routine: the vector routine (glibc's libmvec, or
 * kernels/routines.h; at most 4 ulp) for the widest vectors of the processor. Loops that the
 * vectoriser widens to another number of lanes, and the remainder of a loop, call it with some
 * lanes unused. Its lanes do not depend on each other.
 */
#include "codegen/llvm/llvm_gen.h"

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
    case DT_dynamic8: /* its bits: to find them takes longer than to look them up */
    case DT_udynamic8:
    case DT_u8:
        return l->i8;
    case DT_f32:
    case DT_bf16:
    case DT_f16:
    case DT_e4m3:
    case DT_e5m2:
    case DT_e8m0:
    case DT_none:
    case DT_count:
        break;
    }
    return l->f32;
}

LLVMTypeRef llvm_memory_type(const LlvmModule *l, DType t)
{
    return t == DT_bool || dtype_is_fp8(t) || t == DT_e8m0 ? l->i8
           : dtype_is_half(t)                              ? l->i16
                                                           : llvm_register_type(l, t);
}

LLVMValueRef llvm_intrinsic(LlvmModule *l, const char *name, LLVMTypeRef t, int n,
                            LLVMValueRef *args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->mod, id, &t, 1);
    return LLVMBuildCall2(l->b, LLVMIntrinsicGetType(l->c, id, &t, 1), f, args, (unsigned)n, "");
}

LLVMValueRef llvm_add_reassociable(LlvmModule *l, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef v = LLVMBuildFAdd(l->b, a, b, "");
    if (LLVMCanValueUseFastMathFlags(v))
        LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc);
    return v;
}

LLVMValueRef llvm_maximum(LlvmModule *l, DType t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef args[2] = {a, b};
    return llvm_intrinsic(l, "llvm.maximum", llvm_register_type(l, t), 2, args);
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

/* A float, rounded to a half, or to fp8, and back. */
static LLVMValueRef rounded(LlvmModule *l, DType half, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    if (dtype_is_fp8(half) || half == DT_e8m0)
        return llvm_fp8_rounded(l, half, x);
    if (half == DT_f16)
        return LLVMBuildFPExt(b, LLVMBuildFPTrunc(b, x, l->f16, ""), l->f32, "");
    LLVMValueRef kept = LLVMBuildAnd(b, bf16_bits(l, x), bits32(l, 0xffff0000), "");
    return LLVMBuildBitCast(b, kept, l->f32, "");
}

LLVMValueRef llvm_widen(LlvmModule *l, DType t, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    if (dtype_is_dynamic(t))
        return x;
    if (dtype_is_fp8(t) || t == DT_e8m0)
        return llvm_fp8_widen(l, t, x);
    if (t == DT_f16)
        return LLVMBuildFPExt(b, LLVMBuildBitCast(b, x, l->f16, ""), l->f32, "");
    x = LLVMBuildShl(b, LLVMBuildZExt(b, x, l->i32, ""), bits32(l, 16), "");
    return LLVMBuildBitCast(b, x, l->f32, "");
}

LLVMValueRef llvm_narrow(LlvmModule *l, DType t, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    if (dtype_is_dynamic(t))
        return x;
    if (dtype_is_fp8(t) || t == DT_e8m0)
        return llvm_fp8_narrow(l, t, x);
    if (t == DT_f16)
        return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, x, l->f16, ""), l->i16, "");
    x = LLVMBuildLShr(b, LLVMBuildBitCast(b, x, l->i32, ""), bits32(l, 16), "");
    return LLVMBuildTrunc(b, x, l->i16, "");
}

/* ---- libm ----------------------------------------------------------------------------------- */

static void mark(LlvmModule *l, LLVMValueRef f, const char *attribute)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(attribute, strlen(attribute));
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(l->c, kind, 0));
}

static void mark_pure(LlvmModule *l, LLVMValueRef f)
{
    mark(l, f, "nounwind");
    mark(l, f, "willreturn");
    mark(l, f, "memory");
}

/* A function of libm on one type. */
typedef struct Routine {
    const char *name; /* glibc's: expf */
    LLVMTypeRef type;
    int nargs, lanes;    /* of its vector routine */
    LLVMValueRef vector; /* that routine */
} Routine;

static LLVMTypeRef routine_type(const Routine *r, int lanes)
{
    LLVMTypeRef t = lanes > 1 ? LLVMVectorType(r->type, (unsigned)lanes) : r->type;
    LLVMTypeRef in[2] = {t, t};
    return LLVMFunctionType(t, in, (unsigned)r->nargs, 0);
}

/* Elements [from, from + n) of x. Beyond its end come its first elements again. */
static LLVMValueRef elements(LlvmModule *l, LLVMValueRef x, int have, int from, int n)
{
    LLVMValueRef mask[64];
    for (int i = 0; i < n; i++)
        mask[i] = LLVMConstInt(l->i32, (unsigned)((from + i) % have), 0);
    return LLVMBuildShuffleVector(l->b, x, LLVMGetPoison(LLVMTypeOf(x)),
                                  LLVMConstVector(mask, (unsigned)n), "");
}

/* The parts into which an operand is cut for the vector routine. */
static LLVMValueRef part_of(LlvmModule *l, const Routine *r, LLVMValueRef x, int lanes, int part)
{
    if (lanes == 1) {
        LLVMTypeRef one = LLVMVectorType(r->type, 1);
        x = LLVMBuildInsertElement(l->b, LLVMGetPoison(one), x, LLVMConstInt(l->i32, 0, 0), "");
    }
    return elements(l, x, lanes, part * r->lanes, r->lanes);
}

/* A function of this module that computes `lanes` elements (1: a scalar) by the vector routine. */
static LLVMValueRef define_lanes(LlvmModule *l, const Routine *r, int lanes, const char *name)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMTypeRef ft = routine_type(r, lanes);
    LLVMValueRef f = LLVMAddFunction(l->mod, name, ft), out = NULL;
    LLVMSetLinkage(f, LLVMInternalLinkage);
    mark_pure(l, f);
    mark(l, f, "noinline"); /* the vectoriser looks for the calls of it */
    LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->c, f, ""));
    for (int part = 0, parts = lanes > r->lanes ? lanes / r->lanes : 1; part < parts; part++) {
        LLVMValueRef in[2];
        for (int k = 0; k < r->nargs; k++)
            in[k] = part_of(l, r, LLVMGetParam(f, (unsigned)k), lanes, part);
        LLVMValueRef y =
            LLVMBuildCall2(l->b, routine_type(r, r->lanes), r->vector, in, (unsigned)r->nargs, "");
        if (parts == 1)
            out = lanes == 1 ? LLVMBuildExtractElement(l->b, y, LLVMConstInt(l->i32, 0, 0), "")
                             : elements(l, y, r->lanes, 0, lanes);
        for (int i = 0; parts > 1 && i < r->lanes; i++) {
            LLVMValueRef at = LLVMConstInt(l->i32, (unsigned)i, 0);
            LLVMValueRef to = LLVMConstInt(l->i32, (unsigned)(part * r->lanes + i), 0);
            out = LLVMBuildInsertElement(l->b, out ? out : LLVMGetPoison(LLVMGetReturnType(ft)),
                                         LLVMBuildExtractElement(l->b, y, at, ""), to, "");
        }
    }
    LLVMBuildRet(l->b, out);
    LLVMPositionBuilderAtEnd(l->b, here);
    return f;
}

/* The forms of a routine for loops of other widths than its own, and their names in the attribute
 * "vector-function-abi-variant" (names: Intel's vector function ABI). */
static const char *variants_of(LlvmModule *l, const Routine *r, const char *scalar)
{
    const char *args = r->nargs == 2 ? "vv" : "v";
    char *list = arena_strdup(l->arena, "");
    for (int lanes = 2; lanes <= 2 * r->lanes; lanes *= 2) {
        const char *name = lanes == r->lanes ? LLVMGetValueName(r->vector)
                                             : arena_printf(l->arena, "%s_%d", scalar, lanes);
        if (!LLVMGetNamedFunction(l->mod, name)) {
            LLVMValueRef f = define_lanes(l, r, lanes, name);
            vec_push(l->arena, &l->variants, f);
        }
        list = arena_printf(l->arena, "%s%s_ZGV_LLVM_N%d%s_%s(%s)", list, *list ? "," : "", lanes,
                            args, scalar, name);
    }
    return list;
}

static LLVMValueRef declared(LlvmModule *l, const char *name, LLVMTypeRef ft)
{
    LLVMValueRef f = LLVMGetNamedFunction(l->mod, name);
    if (f)
        return f;
    f = LLVMAddFunction(l->mod, name, ft);
    mark_pure(l, f);
    return f;
}

/* kernels/routines.h has ours; glibc's names are those of Intel's vector function ABI. */
static const char *vector_name(LlvmModule *l, const Routine *r)
{
    if (l->routines)
        return arena_printf(l->arena, "%sv%d_%s", l->routines, r->lanes, r->name);
    const char isa = l->vector_bits == 512 ? 'e' : l->vector_bits == 256 ? 'd' : 'b';
    return arena_printf(l->arena, "_ZGV%cN%d%s_%s", isa, r->lanes, r->nargs == 2 ? "vv" : "v",
                        r->name);
}

LLVMValueRef llvm_routine(LlvmModule *l, const char *base, DType t, int nargs, LLVMValueRef *args)
{
    const bool wide = t == DT_f64;
    Routine r = {.name = wide ? base : arena_printf(l->arena, "%sf", base),
                 .type = llvm_register_type(l, t),
                 .nargs = nargs,
                 .lanes = l->vector_bits / (wide ? 64 : 32)};
    if (!l->vector_bits)
        return LLVMBuildCall2(l->b, routine_type(&r, 1), declared(l, r.name, routine_type(&r, 1)),
                              args, (unsigned)nargs, "");
    const char *vector = vector_name(l, &r);
    const char *scalar = arena_printf(l->arena, "lane_%s", r.name);
    if (!LLVMGetNamedFunction(l->mod, vector)) {
        r.vector = declared(l, vector, routine_type(&r, r.lanes));
        vec_push(l->arena, &l->variants, r.vector);
    }
    r.vector = LLVMGetNamedFunction(l->mod, vector);
    LLVMValueRef f = LLVMGetNamedFunction(l->mod, scalar);
    if (!f) { /* kept, or an argument that all its calls share would become a part of it */
        f = define_lanes(l, &r, 1, scalar);
        vec_push(l->arena, &l->variants, f);
    }
    LLVMValueRef call = LLVMBuildCall2(l->b, routine_type(&r, 1), f, args, (unsigned)nargs, "");
    static const char key[] = "vector-function-abi-variant";
    const char *list = variants_of(l, &r, scalar);
    LLVMAddCallSiteAttribute(
        call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(l->c, key, sizeof key - 1, list, (unsigned)strlen(list)));
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

/* ---- casts ---------------------------------------------------------------------------------- */

static bool is_unsigned(DType t)
{
    return t == DT_bool || t == DT_u8;
}

LLVMValueRef llvm_cast(LlvmModule *l, LLVMValueRef x, DType from, DType to)
{
    LLVMTypeRef type = llvm_register_type(l, to);
    LLVMBuilderRef b = l->b;
    if (from == to)
        return x;
    if (dtype_is_dynamic(from))
        return llvm_cast(l, llvm_dynamic_number(l, from, x), DT_f32, to);
    if (dtype_is_dynamic(to))
        return llvm_dynamic_bits(l, to, llvm_cast(l, x, from, DT_f32));
    if (to == DT_bool)
        return llvm_pointwise(l, OP_ne, from, (LLVMValueRef[]){x, llvm_number(l, from, 0)});
    if (dtype_is_float(to))
        x = dtype_is_float(from) ? LLVMBuildFPCast(b, x, type, "")
            : is_unsigned(from)  ? LLVMBuildUIToFP(b, x, type, "")
                                 : LLVMBuildSIToFP(b, x, type, "");
    else if (dtype_is_float(from))
        x = LLVMBuildFPToSI(b, x, type, "");
    else
        x = LLVMBuildIntCast2(b, x, type, !is_unsigned(from), "");
    return dtype_is_narrow(to) ? rounded(l, to, x) : x;
}
