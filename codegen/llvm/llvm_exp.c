/* llvm_exp.c - exp in f32 as instructions, for levels with 512-bit vectors.
 *
 * A call of a vector routine has to keep all that a loop holds in registers on the stack. With 32
 * registers of 16 lanes the instructions themselves fit between the loop's own, and take two
 * thirds of the routine's time; in narrower vectors they take as long as it does.
 *
 * exp(x) = 2^n exp(r) with n = round(x / log 2), and so |r| <= log(2) / 2. exp(r) = 1 + r + r^2
 * q(r), where q is of degree 4 and the best there is in relative error (3e-9, found by Lawson's
 * iteration). The power of two is multiplied in two halves, since 2^n of a result that is denormal
 * is none. Of every seventh float the result was at most 1.004 units in the last place off;
 * tests/codegen/test_math.c asks for 4. */
#include "codegen/llvm/llvm_gen.h"

static const double q_of[] = {0x1.6a2352p-10, 0x1.123a6cp-7, 0x1.5558f4p-5, 0x1.55549p-3,
                              0x1.fffffcp-2};

static LLVMValueRef number(LlvmModule *l, double x)
{
    return LLVMConstReal(l->f32, x);
}

static LLVMValueRef fma_of(LlvmModule *l, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    return llvm_intrinsic(l, "llvm.fma", l->f32, 3, (LLVMValueRef[]){x, y, z});
}

/* A NaN compares as false and stays. */
static LLVMValueRef within(LlvmModule *l, LLVMValueRef x, double low, double high)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef below = LLVMBuildFCmp(b, LLVMRealOLT, x, number(l, low), "");
    x = LLVMBuildSelect(b, below, number(l, low), x, "");
    LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGT, x, number(l, high), "");
    return LLVMBuildSelect(b, above, number(l, high), x, "");
}

static LLVMValueRef power_of_two(LlvmModule *l, LLVMValueRef n)
{
    LLVMValueRef biased = LLVMBuildAdd(l->b, n, LLVMConstInt(l->i32, 127, 0), "");
    return LLVMBuildBitCast(l->b, LLVMBuildShl(l->b, biased, LLVMConstInt(l->i32, 23, 0), ""),
                            l->f32, "");
}

LLVMValueRef llvm_exp(LlvmModule *l, LLVMValueRef x)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef round = number(l, 0x1.8p23); /* beside it a float has no bits for fractions */
    /* Beyond these it is 0 and infinite. A product that is next to 0, as below -104, costs a
     * processor a hundred times what one far below it does, and masked scores are full of them. */
    x = within(l, x, -150, 90);
    LLVMValueRef t = fma_of(l, x, number(l, 0x1.715476p+0), round); /* 1 / log 2 */
    LLVMValueRef n = LLVMBuildFSub(b, t, round, "");
    /* log 2 in two parts, of which n times the first is exact. */
    LLVMValueRef r = fma_of(l, n, number(l, -0x1.63p-1), x);
    r = fma_of(l, n, number(l, 0x1.bd0106p-13), r);
    LLVMValueRef q = number(l, q_of[0]);
    for (size_t i = 1; i < sizeof q_of / sizeof *q_of; i++)
        q = fma_of(l, q, r, number(l, q_of[i]));
    q = fma_of(l, LLVMBuildFMul(b, r, r, ""), q, r);
    q = LLVMBuildFAdd(b, q, number(l, 1), "");
    LLVMValueRef bits = LLVMBuildBitCast(b, t, l->i32, "");
    LLVMValueRef whole = LLVMBuildSub(b, bits, LLVMConstInt(l->i32, 0x4b400000, 0), "");
    LLVMValueRef half = LLVMBuildAShr(b, whole, LLVMConstInt(l->i32, 1, 0), "");
    q = LLVMBuildFMul(b, q, power_of_two(l, half), "");
    return LLVMBuildFMul(b, q, power_of_two(l, LLVMBuildSub(b, whole, half, "")), "");
}
