/* llvm_random.c - rounds at random.
 *
 * The words of a stretch of the innermost loop are drawn before it, by a routine of
 * kernels/random.c, into a few lines of the stack: four neighbours share a block of the generator,
 * which a loop over elements would compute for each of them. Where the innermost loop does not go
 * along a row's columns, a rounding computes its own block, written out here. */
#include "codegen/llvm/llvm_body.h"

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

/* The word of the element at row and col under seed ^ key, by itself. */
static LLVMValueRef own_word(LlvmModule *l, const LLVMValueRef *x, uint64_t key)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef c[4] = {LLVMBuildLShr(b, x[2], bits32(l, 2), ""), x[1]}, k0, k1;
    halves(l, x[4], &c[2], &c[3]);
    halves(l, LLVMBuildXor(b, x[3], LLVMConstInt(l->i64, key, 0), ""), &k0, &k1);
    for (int round = 0; round < 10; round++) {
        one_round(l, c, k0, k1);
        k0 = LLVMBuildAdd(b, k0, bits32(l, 0x9e3779b9u), "");
        k1 = LLVMBuildAdd(b, k1, bits32(l, 0xbb67ae85u), "");
    }
    LLVMValueRef odd = LLVMBuildTrunc(b, x[2], l->i1, "");
    LLVMValueRef upper = LLVMBuildTrunc(b, LLVMBuildLShr(b, x[2], bits32(l, 1), ""), l->i1, "");
    return LLVMBuildSelect(b, upper, LLVMBuildSelect(b, odd, c[3], c[2], ""),
                           LLVMBuildSelect(b, odd, c[1], c[0], ""), "");
}

/* ---- words of a stretch --------------------------------------------------------------------- */

static uint64_t key_of(const Gen *g, const Ins *i)
{
    return ir_key(name_str(g->l->m->names, i->attrs.key));
}

/* The dim along which the columns of a rounding are neighbours, its elements in order; 0: none. */
static Name neighbours(const Gen *g, const Ins *i)
{
    const Module *m = g->l->m;
    const Ins *col = m->values.data[i->in[2]].def;
    if (col && col->op == OP_add && !type_of(m, col->in[1])->rank)
        col = m->values.data[col->in[0]].def;
    else if (col && col->op == OP_add && !type_of(m, col->in[0])->rank)
        col = m->values.data[col->in[1]].def;
    return col && col->op == OP_iota && type_find(type_of(m, i->in[1]), col->attrs.dim.name) < 0
               ? col->attrs.dim.name
               : 0;
}

/* A dim is a loop of its own where its index matters. */
static bool along(const Gen *g, const Ins *i, int loop)
{
    const Name d = i->op == OP_stochastic_round ? neighbours(g, i) : 0;
    for (int k = 0; d && k < g->nest.ndims; k++)
        if (g->nest.dim[k].name == d)
            return g->nest.loop[k] == loop && !g->nest.below[k] &&
                   g->nest.dim[k].size == nest_loop(&g->nest, loop)->dim.size;
    return false;
}

static bool same_words(const Ins *a, const Ins *b)
{
    bool same = a->attrs.key == b->attrs.key;
    for (int k = 1; k < 5; k++)
        same &= a->in[k] == b->in[k];
    return same;
}

static const Draw *draw_for(const Gen *g, const Ins *i)
{
    for (int k = 0; k < g->draws.n; k++)
        if (same_words(g->draws.draw[k].like, i))
            return &g->draws.draw[k];
    return NULL;
}

bool gen_may_draw(const Gen *g, int loop)
{
    for (size_t k = 0; k < g->body->ins.n; k++)
        if (along(g, g->body->ins.data[k], loop))
            return true;
    return false;
}

static LLVMValueRef stretch(Gen *g)
{
    LlvmModule *l = g->l;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMPositionBuilderAtEnd(l->b, LLVMGetEntryBasicBlock(g->fn));
    LLVMValueRef a = LLVMBuildAlloca(l->b, LLVMArrayType2(l->i32, DRAW_STRETCH), "words");
    LLVMSetAlignment(a, 64);
    LLVMPositionBuilderAtEnd(l->b, here);
    return a;
}

static LLVMValueRef routine(LlvmModule *l)
{
    static const char name[] = "mg_round_bits";
    LLVMTypeRef in[] = {l->ptr, l->i64, l->i32, l->i32, l->i64, l->i64, l->i64};
    LLVMValueRef f = LLVMGetNamedFunction(l->mod, name);
    return f ? f
             : LLVMAddFunction(l->mod, name,
                               LLVMFunctionType(LLVMVoidTypeInContext(l->c), in, 7, 0));
}

void gen_draw(Gen *g, int loop, const Env *e, LLVMValueRef from, LLVMValueRef n)
{
    LlvmModule *l = g->l;
    g->draws.n = 0;
    g->draws.from = from;
    for (size_t k = 0; k < g->body->ins.n && g->draws.n < DRAWS_MAX; k++) {
        const Ins *i = g->body->ins.data[k];
        if (!along(g, i, loop) || draw_for(g, i))
            continue;
        const Draw d = {i, stretch(g)};
        LLVMValueRef in[] = {d.words,
                             n,
                             gen_eval(g, i->in[1], e),
                             gen_eval(g, i->in[2], e),
                             gen_eval(g, i->in[3], e),
                             gen_eval(g, i->in[4], e),
                             LLVMConstInt(l->i64, key_of(g, i), 0)};
        LLVMValueRef f = routine(l);
        LLVMBuildCall2(l->b, LLVMGlobalGetValueType(f), f, in, 7, "");
        g->draws.draw[g->draws.n++] = d;
    }
}

/* ---- roundings ------------------------------------------------------------------------------- */

static LLVMValueRef word_of(Gen *g, const Ins *i, const Env *e)
{
    LlvmModule *l = g->l;
    const Draw *d = draw_for(g, i);
    if (d && gen_index(e, neighbours(g, i)) == g->draws.index) {
        LLVMValueRef at = LLVMBuildNSWSub(l->b, g->draws.index, g->draws.from, "");
        LLVMValueRef word = LLVMBuildLoad2(l->b, l->i32, gen_address(g, d->words, DT_i32, at), "");
        LLVMSetAlignment(word, 4);
        return word;
    }
    LLVMValueRef x[5] = {NULL};
    for (int k = 1; k < 5; k++)
        x[k] = gen_eval(g, i->in[k], e);
    return own_word(l, x, key_of(g, i));
}

LLVMValueRef gen_stochastic_round(Gen *g, const Ins *i, const Env *e)
{
    LlvmModule *l = g->l;
    LLVMBuilderRef b = l->b;
    LLVMValueRef x = gen_eval(g, i->in[0], e), word = word_of(g, i, e);
    LLVMValueRef add = i->attrs.at ? LLVMBuildLShr(b, word, bits32(l, 16), "")
                                   : LLVMBuildAnd(b, word, bits32(l, 0xffff), "");
    LLVMValueRef bits = LLVMBuildBitCast(b, x, l->i32, "");
    LLVMValueRef quiet = LLVMBuildOr(b, bits, bits32(l, 0x400000), "");
    LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
    LLVMValueRef y = LLVMBuildSelect(b, nan, quiet, LLVMBuildAdd(b, bits, add, ""), "");
    y = LLVMBuildAnd(b, y, bits32(l, 0xffff0000), "");
    return LLVMBuildBitCast(b, y, l->f32, "");
}
