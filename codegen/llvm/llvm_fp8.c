/* llvm_fp8.c - numbers of 8 bits, e4m3, e5m2 and e8m0, as runtime/fp8.h has them: in a register the
 * float of the same value, in memory 8 bits. Both ways are arithmetic on integers and one addition
 * or multiplication of floats, chosen by a select, so that loops are vectorised. */
#include "codegen/llvm/llvm_gen.h"

/* bits of mantissa; bias of the exponent; the largest number. */
typedef struct Form {
    unsigned bits, bias;
    double top;
} Form;

static Form form_of(DType t)
{
    return t == DT_e4m3 ? (Form){3, 7, dtype_largest(t)} : (Form){2, 15, dtype_largest(t)};
}

static LLVMValueRef bits32(const LlvmModule *l, uint32_t x)
{
    return LLVMConstInt(l->i32, x, 0);
}

static LLVMValueRef as_float(const LlvmModule *l, LLVMValueRef bits)
{
    return LLVMBuildBitCast(l->b, bits, l->f32, "");
}

static LLVMValueRef as_bits(const LlvmModule *l, LLVMValueRef x)
{
    return LLVMBuildBitCast(l->b, x, l->i32, "");
}

static LLVMValueRef choose(const LlvmModule *l, LLVMValueRef is, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(l->b, is, a, b, "");
}

static LLVMValueRef is_below(const LlvmModule *l, LLVMValueRef x, uint32_t bits)
{
    return LLVMBuildICmp(l->b, LLVMIntULT, x, bits32(l, bits), "");
}

/* Codes of e8m0, in 32 bits: exponents of floats, rounded up. */
static LLVMValueRef power_code(const LlvmModule *l, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef size = LLVMBuildAnd(b, as_bits(l, x), bits32(l, 0x7fffffff), "");
    LLVMValueRef up =
        LLVMBuildLShr(b, LLVMBuildAdd(b, size, bits32(l, 0x7fffff), ""), bits32(l, 23), "");
    LLVMValueRef small = choose(l, is_below(l, size, 0x00400001), bits32(l, 0), bits32(l, 1));
    LLVMValueRef code = choose(l, is_below(l, up, 254), up, bits32(l, 254));
    code = choose(l, is_below(l, size, 0x00800000), small, code);
    return choose(l, is_below(l, size, 0x7f800000), code, bits32(l, 255));
}

static LLVMValueRef power_of(const LlvmModule *l, LLVMValueRef code)
{
    LLVMValueRef y = LLVMBuildShl(l->b, code, bits32(l, 23), "");
    y = choose(l, is_below(l, code, 1), bits32(l, 0x00400000), y);
    return as_float(l, choose(l, is_below(l, code, 255), y, bits32(l, 0x7fc00000)));
}

/* The least number with all its bits, as those of a float. */
static uint32_t least_normal(Form f)
{
    return (128 - f.bias) << 23;
}

/* A float to which any number below the least normal is added so that what is lost are the bits
 * below the least number. */
static uint32_t shift_of(Form f)
{
    return (127 + 24 - f.bias - f.bits) << 23;
}

LLVMValueRef llvm_fp8_rounded(LlvmModule *l, DType t, LLVMValueRef x)
{
    const Form f = form_of(t);
    if (t == DT_e8m0)
        return power_of(l, power_code(l, x));
    LLVMBuilderRef b = l->b;
    LLVMValueRef all = as_bits(l, x), sign = LLVMBuildAnd(b, all, bits32(l, 0x80000000u), "");
    LLVMValueRef size = LLVMBuildAnd(b, all, bits32(l, 0x7fffffff), "");
    LLVMValueRef top = as_bits(l, LLVMConstReal(l->f32, f.top));
    LLVMValueRef capped =
        LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, size, top, ""), top, size, "");
    LLVMValueRef odd =
        LLVMBuildAnd(b, LLVMBuildLShr(b, capped, bits32(l, 23 - f.bits), ""), bits32(l, 1), "");
    LLVMValueRef step = LLVMBuildAdd(b, odd, bits32(l, (1u << (22 - f.bits)) - 1), "");
    LLVMValueRef normal = LLVMBuildAnd(b, LLVMBuildAdd(b, capped, step, ""),
                                       bits32(l, ~((1u << (23 - f.bits)) - 1)), "");
    LLVMValueRef shift = as_float(l, bits32(l, shift_of(f)));
    LLVMValueRef moved = LLVMBuildFAdd(b, as_float(l, capped), shift, "");
    LLVMValueRef small = as_bits(l, LLVMBuildFSub(b, moved, shift, ""));
    LLVMValueRef is_small = LLVMBuildICmp(b, LLVMIntULT, capped, bits32(l, least_normal(f)), "");
    LLVMValueRef y = LLVMBuildOr(b, sign, LLVMBuildSelect(b, is_small, small, normal, ""), "");
    LLVMValueRef nan = LLVMBuildICmp(b, LLVMIntUGT, size, bits32(l, 0x7f800000), "");
    return LLVMBuildSelect(b, nan, x, as_float(l, y), "");
}

LLVMValueRef llvm_fp8_narrow(LlvmModule *l, DType t, LLVMValueRef x)
{
    const Form f = form_of(t);
    if (t == DT_e8m0)
        return LLVMBuildTrunc(l->b, power_code(l, x), l->i8, "");
    LLVMBuilderRef b = l->b;
    LLVMValueRef all = as_bits(l, x);
    LLVMValueRef sign =
        LLVMBuildAnd(b, LLVMBuildLShr(b, all, bits32(l, 24), ""), bits32(l, 0x80), "");
    LLVMValueRef size = LLVMBuildAnd(b, all, bits32(l, 0x7fffffff), "");
    LLVMValueRef normal = LLVMBuildLShr(
        b, LLVMBuildSub(b, size, bits32(l, (127 - f.bias) << 23), ""), bits32(l, 23 - f.bits), "");
    LLVMValueRef moved =
        LLVMBuildFAdd(b, as_float(l, size), as_float(l, bits32(l, shift_of(f))), "");
    LLVMValueRef small = LLVMBuildSub(b, as_bits(l, moved), bits32(l, shift_of(f)), "");
    LLVMValueRef is_small = LLVMBuildICmp(b, LLVMIntULT, size, bits32(l, least_normal(f)), "");
    LLVMValueRef nan = LLVMBuildICmp(b, LLVMIntUGT, size, bits32(l, 0x7f800000), "");
    LLVMValueRef code = LLVMBuildSelect(b, is_small, small, normal, "");
    code = LLVMBuildSelect(b, nan, bits32(l, 0x7f), code, "");
    return LLVMBuildTrunc(b, LLVMBuildOr(b, sign, code, ""), l->i8, "");
}

LLVMValueRef llvm_fp8_widen(LlvmModule *l, DType t, LLVMValueRef x)
{
    const Form f = form_of(t);
    if (t == DT_e8m0)
        return power_of(l, LLVMBuildZExt(l->b, x, l->i32, ""));
    LLVMBuilderRef b = l->b;
    LLVMValueRef all = LLVMBuildZExt(b, x, l->i32, "");
    LLVMValueRef sign =
        LLVMBuildShl(b, LLVMBuildAnd(b, all, bits32(l, 0x80), ""), bits32(l, 24), "");
    LLVMValueRef rest = LLVMBuildAnd(b, all, bits32(l, 0x7f), "");
    LLVMValueRef normal = LLVMBuildAdd(b, LLVMBuildShl(b, rest, bits32(l, 23 - f.bits), ""),
                                       bits32(l, (127 - f.bias) << 23), "");
    LLVMValueRef least = as_float(l, bits32(l, (128 - f.bias - f.bits) << 23));
    LLVMValueRef small =
        as_bits(l, LLVMBuildFMul(b, LLVMBuildSIToFP(b, rest, l->f32, ""), least, ""));
    LLVMValueRef is_small = LLVMBuildICmp(b, LLVMIntULT, rest, bits32(l, 1u << f.bits), "");
    LLVMValueRef y = LLVMBuildSelect(b, is_small, small, normal, "");
    if (t == DT_e5m2) { /* whose largest exponent is that of infinity and NaN */
        LLVMValueRef infinite = LLVMBuildICmp(b, LLVMIntEQ, rest, bits32(l, 0x7c), "");
        y = LLVMBuildSelect(b, infinite, bits32(l, 0x7f800000), y, "");
    }
    LLVMValueRef nan =
        LLVMBuildICmp(b, LLVMIntUGT, rest, bits32(l, t == DT_e4m3 ? 0x7e : 0x7c), "");
    y = LLVMBuildSelect(b, nan, bits32(l, 0x7fc00000), y, "");
    return as_float(l, LLVMBuildOr(b, sign, y, ""));
}
