/* llvm_dynamic.c - dynamic8 and udynamic8, as runtime/dynamic8.h has them. A number is looked up by
 * its bits. The bits of the nearest one follow from the number's decade by arithmetic, but for the
 * last step: one comparison with a point between two numbers, which is looked up. All of it is
 * vectorised; processors have an instruction that looks up a vector. */
#include "codegen/llvm/llvm_gen.h"
#include "runtime/dynamic8.h"
#include "runtime/nf4.h"

#include <math.h>
#include <string.h>

enum { DECADES = 7 };

/* first: how many numbers the lowest decade has; each has twice as many as the one below. */
typedef struct Form {
    const char *name, *middles;
    const float *size;
    int first, last;
} Form;

static Form form_of(DType t)
{
    return t == DT_dynamic8 ? (Form){"dynamic8", "dynamic8_middles", mg_dynamic8, 1, 128}
                            : (Form){"udynamic8", "udynamic8_middles", mg_udynamic8, 2, 255};
}

static float middle(Form f, int k)
{
    return (f.size[k] + f.size[k + 1]) * 0.5f;
}

static LLVMValueRef real(const LlvmModule *l, double x)
{
    return LLVMConstReal(l->f32, x);
}

static LLVMValueRef whole(const LlvmModule *l, int64_t x)
{
    return LLVMConstInt(l->i32, (uint64_t)x, 1);
}

/* A table of the module, made where it is first read. */
static LLVMValueRef table(LlvmModule *l, const char *name, LLVMTypeRef t, LLVMValueRef *x, int n)
{
    LLVMValueRef g = LLVMGetNamedGlobal(l->mod, name);
    if (g)
        return g;
    g = LLVMAddGlobal(l->mod, LLVMArrayType2(t, (uint64_t)n), name);
    LLVMSetInitializer(g, LLVMConstArray2(t, x, (uint64_t)n));
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
    return g;
}

static LLVMValueRef looked_up(LlvmModule *l, LLVMValueRef from, LLVMTypeRef t, LLVMValueRef at)
{
    return LLVMBuildLoad2(l->b, t, LLVMBuildInBoundsGEP2(l->b, t, from, &at, 1, ""), "");
}

LLVMValueRef llvm_dynamic_number(LlvmModule *l, DType t, LLVMValueRef bits)
{
    LLVMValueRef x[256];
    for (int c = 0; c < 256; c++)
        x[c] = real(l, t == DT_dynamic8 ? mg_from_dynamic8((uint8_t)c)
                                        : mg_from_udynamic8((uint8_t)c));
    LLVMValueRef at = LLVMBuildZExt(l->b, bits, l->i32, "");
    return looked_up(l, table(l, form_of(t).name, l->f32, x, 256), l->f32, at);
}

LLVMValueRef llvm_nf4(LlvmModule *l, DType t, LLVMValueRef pair, LLVMValueRef low)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef x[16], zero = llvm_number(l, t, 0), most = llvm_number(l, t, 255);
    for (int k = 0; k < 16; k++)
        x[k] = real(l, mg_nf4_number[k]);
    LLVMValueRef least = LLVMBuildFCmp(b, LLVMRealOGT, pair, zero, "");
    LLVMValueRef at = LLVMBuildFCmp(b, LLVMRealOLT, pair, most, "");
    at = LLVMBuildSelect(b, least, LLVMBuildSelect(b, at, pair, most, ""), zero, "");
    at = LLVMBuildFPToSI(b, at, l->i32, "");
    LLVMValueRef low_half = LLVMBuildAnd(b, at, whole(l, 15), "");
    LLVMValueRef high_half = LLVMBuildLShr(b, at, whole(l, 4), "");
    LLVMValueRef is_low = LLVMBuildFCmp(b, LLVMRealUNE, low, zero, "");
    at = LLVMBuildSelect(b, is_low, low_half, high_half, "");
    LLVMValueRef y = looked_up(l, table(l, "nf4", l->f32, x, 16), l->f32, at);
    return LLVMBuildFPCast(b, y, llvm_register_type(l, t), "");
}

/* The bits of the points between numbers, as those of a float. */
static LLVMValueRef middles(LlvmModule *l, Form f)
{
    LLVMValueRef x[256];
    for (int k = 0; k < f.last; k++)
        x[k] = LLVMConstBitCast(real(l, middle(f, k)), l->i32);
    return table(l, f.middles, l->i32, x, f.last);
}

/* The number of the largest one, or of the one above that, which is not above a: a decade has
 * `count` numbers, from that of number count - first on, in equal steps. */
static LLVMValueRef about(LlvmModule *l, Form f, LLVMValueRef a)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef scale = NULL, count = NULL;
    for (int d = 0; d < DECADES; d++) {
        const double n = f.first << d, by = pow(10, DECADES - 1 - d) * n / 0.9;
        if (!d) {
            scale = real(l, by);
            count = real(l, n);
            continue;
        }
        LLVMValueRef from = real(l, middle(f, (f.first << d) - f.first));
        LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGT, a, from, "");
        scale = LLVMBuildSelect(b, above, real(l, by), scale, "");
        count = LLVMBuildSelect(b, above, real(l, n), count, "");
    }
    LLVMValueRef shift = LLVMBuildFMul(b, count, real(l, 8.0 / 9), "");
    LLVMValueRef at = LLVMBuildFAdd(b, LLVMBuildFMul(b, a, scale, ""), shift, "");
    at = LLVMBuildFSub(b, at, real(l, 0.5), "");
    at = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, at, count, ""), count, at, "");
    LLVMValueRef top = LLVMBuildFSub(b, LLVMBuildFAdd(b, count, count, ""), real(l, 1), "");
    at = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGT, at, top, ""), top, at, "");
    return LLVMBuildSub(b, LLVMBuildFPToSI(b, at, l->i32, ""), whole(l, f.first - 1), "");
}

LLVMValueRef llvm_dynamic_bits(LlvmModule *l, DType t, LLVMValueRef x)
{
    const Form f = form_of(t);
    const bool with_sign = t == DT_dynamic8;
    LLVMBuilderRef b = l->b;
    LLVMValueRef sign = whole(l, 0), a = x, negative = NULL;
    if (with_sign) {
        negative = LLVMBuildFCmp(b, LLVMRealOLT, x, real(l, 0), "");
        sign = LLVMBuildZExt(b, negative, l->i32, "");
        a = llvm_intrinsic(l, "llvm.fabs", l->f32, 1, &x);
    }
    a = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLE, a, real(l, 1), ""), a, real(l, 1), "");
    a = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGT, a, real(l, 0), ""), a, real(l, 0), "");
    LLVMValueRef size = LLVMBuildBitCast(b, a, l->i32, "");
    LLVMValueRef k = about(l, f, a), point = looked_up(l, middles(l, f), l->i32, k);
    /* A number on a point becomes the lower neighbour: of a negative one the larger size. */
    LLVMValueRef above = LLVMBuildICmp(b, LLVMIntSGT, size, LLVMBuildSub(b, point, sign, ""), "");
    k = LLVMBuildAdd(b, k, LLVMBuildZExt(b, above, l->i32, ""), "");
    LLVMValueRef least = LLVMBuildSub(b, LLVMConstBitCast(real(l, middle(f, 0)), l->i32), sign, "");
    LLVMValueRef any = LLVMBuildICmp(b, LLVMIntSGT, size, least, "");
    k = LLVMBuildSelect(b, any, k, whole(l, 0), "");
    if (with_sign) {
        LLVMValueRef most = LLVMBuildSub(b, whole(l, 128), sign, "");
        k = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, k, most, ""), most, k, "");
        k = LLVMBuildSelect(b, negative, LLVMBuildNeg(b, k, ""), k, "");
    }
    return LLVMBuildTrunc(b, k, l->i8, "");
}
