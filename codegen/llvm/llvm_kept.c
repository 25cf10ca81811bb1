/* llvm_kept.c - values of a row that cost much, kept on the stack from one walk over the row to the
 * next.
 *
 * A row is walked once for each reduction that depends on another, and once to write. What a walk
 * needs it computes again, which is next to nothing for a product and much for an exponential. So
 * the first walk that needs such a value stores it, and later ones load it: the same bits. */
#include "codegen/llvm/llvm_body.h"
#include "ir/cost.h"

enum { KEPT_FLOPS = 8 }; /* operations that cost no more are done again */

/* Counts the walk for every value that it computes at the indices of the row, from v down. */
static void count(const Gen *g, Value v, int walk, int *last, int *walks)
{
    const Ins *i = g->l->m->values.data[v].def;
    if (!i || i->home != g->body || nest_reduces(i) || last[v] == walk)
        return;
    last[v] = walk;
    walks[v]++;
    if (OP_AMONG(i->op, OP_rotate, OP_rename, OP_pick, OP_window, OP_reindex))
        return; /* what is below is computed at other indices */
    for (uint32_t k = 0; k < i->nin; k++)
        count(g, i->in[k], walk, last, walks);
}

/* Does an instruction cost more than to store what it gives, and to load it? A number that is
 * looked up does. */
static bool costs_much(const Module *m, const Ins *i)
{
    return op_info[i->op].flops > KEPT_FLOPS ||
           (i->op == OP_cast && dtype_is_dynamic(type_of(m, i->in[0])->dtype));
}

static int64_t row_elements(const Nest *n)
{
    int64_t all = 1;
    for (int i = 0; i < n->ninner; i++)
        all *= n->inner[i].dim.size;
    return all;
}

void gen_choose_kept(Gen *g, int stages)
{
    const Module *m = g->l->m;
    const int64_t elements = row_elements(&g->nest);
    int *last = NEW_ARRAY(g->l->arena, int, m->values.n);
    int *walks = NEW_ARRAY(g->l->arena, int, m->values.n);
    for (size_t i = 0; i < g->body->ins.n; i++) {
        const Ins *sum = g->body->ins.data[i];
        if (nest_reduces(sum))
            count(g, sum->in[0], g->stage[sum->out[0]], last, walks);
    }
    for (size_t k = 0; k < g->body->results.n; k++)
        if (nest_wide(&g->nest, type_of(m, g->body->results.data[k])))
            count(g, g->body->results.data[k], stages + 1, last, walks);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->l->b);
    LLVMPositionBuilderAtEnd(g->l->b, LLVMGetEntryBasicBlock(g->fn));
    for (size_t i = 0; i < g->body->ins.n; i++) {
        const Ins *ins = g->body->ins.data[i];
        const Value v = ins->out[0];
        if (walks[v] < 2 || !costs_much(m, ins) || elements > KEPT_ROW ||
            !nest_wide(&g->nest, type_of(m, v)))
            continue;
        LLVMTypeRef row =
            LLVMArrayType2(llvm_register_type(g->l, type_of(m, v)->dtype), (uint64_t)elements);
        g->kept[v].row = LLVMBuildAlloca(g->l->b, row, "kept");
        LLVMSetAlignment(g->kept[v].row, 64);
    }
    LLVMPositionBuilderAtEnd(g->l->b, here);
}

void gen_walked(Gen *g)
{
    for (size_t i = 0; i < g->body->ins.n; i++) {
        Kept *k = &g->kept[g->body->ins.data[i]->out[0]];
        k->there |= k->stored;
    }
}

/* The place of the element at the indices of the loops. */
static LLVMValueRef place(Gen *g, Value v)
{
    const Nest *n = &g->nest;
    LLVMValueRef at = gen_int(g, 0);
    for (int i = 0; i < n->ninner; i++) {
        at = LLVMBuildNSWMul(g->l->b, at, gen_int(g, n->inner[i].dim.size), "");
        at = LLVMBuildNSWAdd(g->l->b, at, g->inner_index[i], "");
    }
    LLVMTypeRef t = llvm_register_type(g->l, type_of(g->l->m, v)->dtype);
    return LLVMBuildInBoundsGEP2(g->l->b, t, g->kept[v].row, &at, 1, "");
}

LLVMValueRef gen_kept(Gen *g, Value v)
{
    if (g->elsewhere || !g->kept[v].there)
        return NULL;
    LLVMTypeRef t = llvm_register_type(g->l, type_of(g->l->m, v)->dtype);
    return LLVMBuildLoad2(g->l->b, t, place(g, v), "");
}

void gen_keep(Gen *g, Value v, LLVMValueRef x)
{
    if (g->elsewhere || !g->kept[v].row || g->kept[v].there)
        return;
    LLVMBuildStore(g->l->b, x, place(g, v));
    g->kept[v].stored = true;
}
