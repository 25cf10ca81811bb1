/* llvm_random.c - rounds at random: the generator of all noise (kernels/philox.c), as instructions of
 * the loop, so that no random number is in memory. The ten rounds are written out: roundings of one
 * element that differ in their bits alone share them, and the vectoriser takes them as they are. */
#include "codegen/llvm/llvm_gen.h"

#include "ir/interpret.h"

static LLVMValueRef bits32(const LlvmModule *l, uint32_t x)
{
    return LLVMConstInt(l->i32, x, 0);
}

/* The low and the high half of x. */
static void halves(LlvmModule *l, LLVMValueRef x, LLVMValueRef *low, LLVMValueRef *high)
{
    LLVMBuilderRef b = l->b;
    *low = LLVMBuildTrunc(b, x, l->i32, "");
    *high = LLVMBuildTrunc(b, LLVMBuildLShr(b, x, LLVMConstInt(l->i64, 32, 0), ""), l->i32, "");
}

static void multiplied(LlvmModule *l, LLVMValueRef x, uint32_t by, LLVMValueRef *low,
                       LLVMValueRef *high)
{
    LLVMValueRef wide = LLVMBuildZExt(l->b, x, l->i64, "");
    halves(l, LLVMBuildMul(l->b, wide, LLVMConstInt(l->i64, by, 0), ""), low, high);
}

/* One round of Philox4x32 on the counter c. */
static void one_round(LlvmModule *l, LLVMValueRef *c, LLVMValueRef k0, LLVMValueRef k1)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef low0, high0, low1, high1;
    multiplied(l, c[0], 0xd2511f53u, &low0, &high0);
    multiplied(l, c[2], 0xcd9e8d57u, &low1, &high1);
    c[0] = LLVMBuildXor(b, LLVMBuildXor(b, high1, c[1], ""), k0, "");
    c[1] = low1;
    c[2] = LLVMBuildXor(b, LLVMBuildXor(b, high0, c[3], ""), k1, "");
    c[3] = low0;
}

/* Word number `word` of the block of counter {col, row, step} under seed ^ key. */
static LLVMValueRef word_of(LlvmModule *l, const LLVMValueRef *x, uint64_t key, int64_t word)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef c[4] = {x[2], x[1]}, k0, k1;
    halves(l, x[4], &c[2], &c[3]);
    halves(l, LLVMBuildXor(b, x[3], LLVMConstInt(l->i64, key, 0), ""), &k0, &k1);
    for (int round = 0; round < 10; round++) {
        one_round(l, c, k0, k1);
        k0 = LLVMBuildAdd(b, k0, bits32(l, 0x9e3779b9u), "");
        k1 = LLVMBuildAdd(b, k1, bits32(l, 0xbb67ae85u), "");
    }
    return c[word];
}

LLVMValueRef llvm_stochastic_round(LlvmModule *l, const Ins *i, LLVMValueRef *x)
{
    LLVMBuilderRef b = l->b;
    const int64_t at = i->attrs.at;
    const uint64_t key = ir_key(name_str(l->m->names, i->attrs.key));
    LLVMValueRef word = word_of(l, x, key, at / 2);
    LLVMValueRef add = at % 2 ? LLVMBuildLShr(b, word, bits32(l, 16), "")
                              : LLVMBuildAnd(b, word, bits32(l, 0xffff), "");
    LLVMValueRef bits = LLVMBuildBitCast(b, x[0], l->i32, "");
    LLVMValueRef quiet = LLVMBuildOr(b, bits, bits32(l, 0x400000), "");
    LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, x[0], x[0], "");
    LLVMValueRef y = LLVMBuildSelect(b, nan, quiet, LLVMBuildAdd(b, bits, add, ""), "");
    y = LLVMBuildAnd(b, y, bits32(l, 0xffff0000), "");
    return LLVMBuildBitCast(b, y, l->f32, "");
}
