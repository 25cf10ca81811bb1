/* llvm_pointwise.c - pointwise ops as LLVM instructions. Each primitive of ir/ops.def has a line of
 * the table; composed ops use the text in their rows. */
#include "codegen/llvm/llvm_gen.h"

#include "ir/op_text.h"

#include <math.h>

LLVMValueRef llvm_number(const LlvmModule *l, DType t, double x)
{
    return dtype_is_float(t) ? LLVMConstReal(llvm_register_type(l, t), x)
                             : LLVMConstInt(llvm_register_type(l, t), (uint64_t)(int64_t)x, 1);
}

/* ---- primitives --------------------------------------------------------------------------- */

/* How one is computed, on operands x of dtype t. */
typedef struct Primitive Primitive;
typedef LLVMValueRef Build(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x);
struct Primitive {
    Build *build;
    const char *name; /* of a routine or an intrinsic */
    int operands;     /* of the routine */
    int real, whole;  /* LLVM's opcode or predicate for floats and for integers */
};

static LLVMValueRef itself(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    (void)l, (void)p, (void)t;
    return x[0];
}

static LLVMValueRef negated(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    (void)p;
    return dtype_is_float(t) ? LLVMBuildFNeg(l->b, x[0], "") : LLVMBuildNeg(l->b, x[0], "");
}

static LLVMValueRef intrinsic(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    return llvm_intrinsic(l, p->name, llvm_register_type(l, t), 1, x);
}

static LLVMValueRef absolute(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    if (dtype_is_float(t))
        return intrinsic(l, p, t, x);
    LLVMValueRef below = LLVMBuildICmp(l->b, LLVMIntSLT, x[0], llvm_number(l, t, 0), "");
    return LLVMBuildSelect(l->b, below, LLVMBuildNeg(l->b, x[0], ""), x[0], "");
}

static LLVMValueRef routine(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    return llvm_routine(l, p->name, t, p->operands, x);
}

static bool in_line(const LlvmModule *l, DType t)
{
    return t != DT_f64 && l->vector_bits == 512; /* narrow floats are computed in f32 */
}

/* Masked scores have exponentials that are denormal or 0. glibc's vector routine computes these one
 * lane at a time, a hundred times slower. There exp(a) is therefore computed as exp(a + up)
 * exp(-up), and values below `least` are replaced by it: the product is denormal or 0 by itself. */
static LLVMValueRef exponential(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    const bool wide = t == DT_f64;
    if (in_line(l, t))
        return llvm_exp(l, x[0]);
    LLVMValueRef a = x[0], edge = llvm_number(l, t, wide ? -707 : -87);
    LLVMValueRef low = LLVMBuildFCmp(l->b, LLVMRealOLT, a, edge, "");
    LLVMValueRef least = llvm_number(l, t, wide ? -1300 : -150);
    LLVMValueRef up = llvm_number(l, t, wide ? 600 : 64);
    LLVMValueRef beyond = LLVMBuildFCmp(l->b, LLVMRealOLT, a, least, "");
    LLVMValueRef moved = LLVMBuildFAdd(l->b, LLVMBuildSelect(l->b, beyond, least, a, ""), up, "");
    LLVMValueRef y = LLVMBuildSelect(l->b, low, moved, a, "");
    y = routine(l, p, t, &y);
    LLVMValueRef scale = llvm_number(l, t, exp(wide ? -600 : -64));
    return LLVMBuildSelect(l->b, low, LLVMBuildFMul(l->b, y, scale, ""), y, "");
}

/* 1 / (1 + exp(-a)): if that exp is denormal or 0, it has no effect in the sum. */
static LLVMValueRef sigmoid(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    LLVMValueRef minus = LLVMBuildFNeg(l->b, x[0], ""), one = llvm_number(l, t, 1);
    LLVMValueRef e = in_line(l, t) ? llvm_exp(l, minus) : routine(l, p, t, &minus);
    return LLVMBuildFDiv(l->b, one, LLVMBuildFAdd(l->b, one, e, ""), "");
}

static LLVMValueRef arithmetic(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    LLVMOpcode code = (LLVMOpcode)(dtype_is_float(t) ? p->real : p->whole);
    return LLVMBuildBinOp(l->b, code, x[0], x[1], "");
}

static LLVMValueRef compared(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    return dtype_is_float(t) ? LLVMBuildFCmp(l->b, (LLVMRealPredicate)p->real, x[0], x[1], "")
                             : LLVMBuildICmp(l->b, (LLVMIntPredicate)p->whole, x[0], x[1], "");
}

static LLVMValueRef chosen(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    (void)p, (void)t;
    return LLVMBuildSelect(l->b, x[0], x[1], x[2], "");
}

static LLVMValueRef looked_up(LlvmModule *l, const Primitive *p, DType t, LLVMValueRef *x)
{
    (void)p;
    return llvm_nf4(l, t, x[0], x[1]);
}

/* The line of each primitive: one that lacks it does not compile. */
#define CODE_copy    {.build = itself}
#define CODE_neg     {.build = negated}
#define CODE_abs     {.build = absolute, .name = "llvm.fabs"}
#define CODE_sqrt    {.build = intrinsic, .name = "llvm.sqrt"}
#define CODE_exp     {.build = exponential, .name = "exp", .operands = 1}
#define CODE_sigmoid {.build = sigmoid, .name = "exp", .operands = 1}
#define CODE_log     {.build = routine, .name = "log", .operands = 1}
#define CODE_tanh    {.build = routine, .name = "tanh", .operands = 1}
#define CODE_erf     {.build = routine, .name = "erf", .operands = 1}
#define CODE_sin     {.build = routine, .name = "sin", .operands = 1}
#define CODE_cos     {.build = routine, .name = "cos", .operands = 1}
#define CODE_pow     {.build = routine, .name = "pow", .operands = 2}
#define CODE_add     {.build = arithmetic, .real = LLVMFAdd, .whole = LLVMAdd}
#define CODE_sub     {.build = arithmetic, .real = LLVMFSub, .whole = LLVMSub}
#define CODE_mul     {.build = arithmetic, .real = LLVMFMul, .whole = LLVMMul}
#define CODE_div     {.build = arithmetic, .real = LLVMFDiv, .whole = LLVMSDiv}
#define CODE_lt      {.build = compared, .real = LLVMRealOLT, .whole = LLVMIntSLT}
#define CODE_le      {.build = compared, .real = LLVMRealOLE, .whole = LLVMIntSLE}
#define CODE_gt      {.build = compared, .real = LLVMRealOGT, .whole = LLVMIntSGT}
#define CODE_ge      {.build = compared, .real = LLVMRealOGE, .whole = LLVMIntSGE}
#define CODE_eq      {.build = compared, .real = LLVMRealOEQ, .whole = LLVMIntEQ}
#define CODE_ne      {.build = compared, .real = LLVMRealUNE, .whole = LLVMIntNE}
#define CODE_select  {.build = chosen}
#define CODE_nf4     {.build = looked_up}

static const Primitive primitives[OP_count] = {
#define PRIMITIVE(name, ...) [OP_##name] = CODE_##name,
#include "ir/ops.def"
};

/* ---- composed ops ------------------------------------------------------------------------- */

/* Line by line, as the interpreter goes through the text. */
static LLVMValueRef composed(LlvmModule *l, Op op, DType t, LLVMValueRef *operand)
{
    const OpText *text = op_value(op);
    LLVMValueRef done[OP_LINES];
    for (int n = 0; n < text->lines; n++) {
        LLVMValueRef x[3] = {0};
        for (int k = 0; k < text->line[n].nin; k++) {
            const OpTerm *in = &text->line[n].in[k];
            x[k] = in->kind == TERM_operand ? operand[in->index]
                   : in->kind == TERM_line  ? done[in->index]
                                            : llvm_number(l, t, in->number);
        }
        done[n] = llvm_pointwise(l, text->line[n].op, t, x);
    }
    return done[text->lines - 1];
}

LLVMValueRef llvm_pointwise(LlvmModule *l, Op op, DType t, LLVMValueRef *x)
{
    const Primitive *p = &primitives[op];
    return op_info[op].value ? composed(l, op, t, x) : p->build(l, p, t, x);
}
