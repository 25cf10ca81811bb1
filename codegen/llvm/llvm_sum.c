/* llvm_sum.c - units of kernels that reduce.
 *
 * row      loops over the row, stage by stage; the sums stay in registers
 * col      an expression summed into its kept dims, at once or a chunk at a time (partial)
 * combine  the chunks of partial sums, added in their order */
#include "codegen/llvm/llvm_body.h"

#include <math.h>
#include <string.h>

/* ---- row ------------------------------------------------------------------------------------- */

static LLVMValueRef reduction_start(const Gen *g, const Ins *i, DType t)
{
    (void)g;
    LLVMTypeRef type = llvm_register_type(g->l, t);
    return i->op == OP_sum ? LLVMConstNull(type) : LLVMConstReal(type, -INFINITY);
}

static LLVMValueRef reduction_step(Gen *g, const Ins *i, DType t, LLVMValueRef acc, LLVMValueRef x)
{
    if (i->op == OP_rmax)
        return llvm_maximum(g->l, t, acc, x);
    if (!dtype_is_float(t))
        return LLVMBuildAdd(g->l->b, acc, x, "");
    return g->sum_length ? llvm_add_reassociable(g->l, acc, x) : LLVMBuildFAdd(g->l->b, acc, x, "");
}

/* The length of a loop whose sums are made in parts, which the vectoriser then adds up side by side
 * (widen_sum). 0: the sums have the order of the loop, because it is short, or because the order of
 * one of them is promised. Short is what does not fill 32 bytes with floats: an exponential of each
 * term of a softmax would be scalar with its sum. */
enum { SHORT_SUM = 8 };
static int64_t length_in_parts(const Gen *g, const Ins *const *sum, int n)
{
    const NestLoop *l = g->nest.ninner ? &g->nest.inner[g->nest.ninner - 1] : NULL;
    const int64_t size = !l ? 0 : l->rotated ? l->dim.size / 2 : l->dim.size;
    for (int k = 0; k < n; k++)
        if (sum[k]->exact)
            return 0;
    return size < SHORT_SUM ? 0 : size;
}

/* An accumulator lives in an alloca in the entry block: LLVM turns it into a register. */
static LLVMValueRef accumulator(Gen *g, DType t)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->l->b), entry = LLVMGetEntryBasicBlock(g->fn);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(g->l->b, first);
    else
        LLVMPositionBuilderAtEnd(g->l->b, entry);
    LLVMValueRef a = LLVMBuildAlloca(g->l->b, llvm_register_type(g->l, t), "acc");
    LLVMPositionBuilderAtEnd(g->l->b, here);
    return a;
}

typedef struct Accumulators {
    int n;
    const Ins *ins[MAX_OPERANDS];
    LLVMValueRef acc[MAX_OPERANDS];
    int stage;
    bool stores; /* the results that differ along the row, too */
} Accumulators;

static void row_store(Gen *g, const Env *e, void *ctx);

static void row_leaf(Gen *g, const Env *e, void *ctx)
{
    Accumulators *a = ctx;
    for (int k = 0; k < a->n; k++) {
        DType t = type_of(g->l->m, a->ins[k]->out[0])->dtype;
        LLVMTypeRef type = llvm_register_type(g->l, t);
        LLVMValueRef x = gen_eval(g, a->ins[k]->in[0], e);
        LLVMValueRef sum = LLVMBuildLoad2(g->l->b, type, a->acc[k], "");
        LLVMBuildStore(g->l->b, reduction_step(g, a->ins[k], t, sum, x), a->acc[k]);
    }
    if (a->stores)
        row_store(g, e, NULL);
}

static void row_store(Gen *g, const Env *e, void *ctx)
{
    (void)ctx;
    for (size_t k = 0; k < g->body->results.n; k++)
        if (nest_wide(&g->nest, type_of(g->l->m, g->body->results.data[k])))
            gen_eval(g, g->body->results.data[k], e);
    for (size_t k = 0; k < g->body->results.n; k++)
        if (nest_wide(&g->nest, type_of(g->l->m, g->body->results.data[k])))
            gen_store_result(g, k, e);
}

/* Does a result differ along the row? */
static bool row_is_written(const Gen *g)
{
    for (size_t k = 0; k < g->body->results.n; k++)
        if (nest_wide(&g->nest, type_of(g->l->m, g->body->results.data[k])))
            return true;
    return false;
}

void gen_unit_row(Gen *g, const Env *e)
{
    memset(g->reduced, 0, g->l->m->values.n * sizeof *g->reduced);
    int stages = nest_stages(g->body, g->stage);
    const bool once = nest_one_walk(g->l->m, &g->nest, g->body, g->stage);
    gen_choose_kept(g, once ? 0 : stages);
    const bool wide = row_is_written(g);
    gen_ahead(g, e, stages > 1 || (wide && !once));
    for (int s = 1; s <= stages; s++) {
        Accumulators a = {.stage = s, .stores = once};
        for (size_t i = 0; i < g->body->ins.n; i++) {
            const Ins *ins = g->body->ins.data[i];
            if (!nest_reduces(ins) || g->stage[ins->out[0]] != s || a.n == MAX_OPERANDS)
                continue;
            DType t = type_of(g->l->m, ins->out[0])->dtype;
            a.ins[a.n] = ins;
            a.acc[a.n] = accumulator(g, t);
            LLVMBuildStore(g->l->b, reduction_start(g, ins, t), a.acc[a.n++]);
        }
        g->sum_length = length_in_parts(g, a.ins, a.n);
        gen_nest_loops(g, 0, g->nest.ninner, -1, e, NULL, row_leaf, &a);
        gen_walked(g);
        g->sum_length = 0;
        for (int k = 0; k < a.n; k++) {
            Value v = a.ins[k]->out[0];
            g->reduced[v] = LLVMBuildLoad2(
                g->l->b, llvm_register_type(g->l, type_of(g->l->m, v)->dtype), a.acc[k], "");
        }
    }
    /* A result with one number for each row is computed before the last loop and stored after it,
     * because it may take the place of an operand that the loop reads. */
    LLVMValueRef narrow[MAX_OPERANDS] = {0};
    gen_forget(g);
    for (size_t k = 0; k < g->body->results.n; k++) {
        if (!nest_wide(&g->nest, type_of(g->l->m, g->body->results.data[k])))
            narrow[k] = gen_eval(g, g->body->results.data[k], e);
    }
    if (wide && !once)
        gen_nest_loops(g, 0, g->nest.ninner, -1, e, NULL, row_store, NULL);
    for (size_t k = 0; k < g->body->results.n; k++) {
        int o = g->k->nin + (int)k;
        const Operand *to = &g->k->operand[o];
        if (narrow[k])
            gen_store(g, to->type.dtype, narrow[k], gen_element(g, g->pointer[o], to, e));
    }
}

/* ---- col ------------------------------------------------------------------------------------- */

/* Accumulators of this unit's sums: the results, or this chunk's row of the workspaces. */
typedef struct Columns {
    LLVMValueRef base[MAX_OPERANDS];
    Operand to[MAX_OPERANDS];
    const Ins *sum[MAX_OPERANDS];
    LLVMValueRef acc[MAX_OPERANDS]; /* registers, if the innermost loop is a reduced one */
    bool in_register;
} Columns;

static void col_zero(Gen *g, const Env *e, void *ctx)
{
    Columns *c = ctx;
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef zero = reduction_start(g, c->sum[k], t);
        gen_store(g, t, zero, gen_element(g, c->base[k], &c->to[k], e));
    }
}

static void col_add_memory(Gen *g, const Env *e, void *ctx)
{
    Columns *c = ctx;
    LLVMValueRef x[MAX_OPERANDS];
    for (size_t k = 0; k < g->body->results.n; k++)
        x[k] = gen_eval(g, c->sum[k]->in[0], e);
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef at = gen_element(g, c->base[k], &c->to[k], e);
        gen_store(g, t, reduction_step(g, c->sum[k], t, gen_load(g, t, at), x[k]), at);
    }
}

static void col_add_register(Gen *g, const Env *e, void *ctx)
{
    Columns *c = ctx;
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef x = gen_eval(g, c->sum[k]->in[0], e);
        LLVMValueRef sum = LLVMBuildLoad2(g->l->b, llvm_register_type(g->l, t), c->acc[k], "");
        LLVMBuildStore(g->l->b, reduction_step(g, c->sum[k], t, sum, x), c->acc[k]);
    }
}

/* The innermost loop is a reduced one: it sums in registers, and the sums are then stored in
 * memory. */
typedef struct Innermost {
    Columns *c;
    const Bounds *bounds;
} Innermost;

static void col_innermost(Gen *g, const Env *e, void *ctx)
{
    Innermost *in = ctx;
    Columns *c = in->c;
    for (size_t k = 0; k < g->body->results.n; k++)
        LLVMBuildStore(g->l->b, reduction_start(g, c->sum[k], c->to[k].type.dtype), c->acc[k]);
    g->sum_length = length_in_parts(g, c->sum, (int)g->body->results.n);
    gen_nest_loops(g, g->nest.ninner - 1, g->nest.ninner, -1, e, in->bounds, col_add_register, c);
    g->sum_length = 0;
    gen_forget(g);
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef at = gen_element(g, c->base[k], &c->to[k], e);
        LLVMValueRef sum = LLVMBuildLoad2(g->l->b, llvm_register_type(g->l, t), c->acc[k], "");
        gen_store(g, t, reduction_step(g, c->sum[k], t, gen_load(g, t, at), sum), at);
    }
}

static void col_loops(Gen *g, int from, const Env *e, Columns *c, const Bounds *last)
{
    if (c->in_register) {
        Innermost in = {c, last};
        gen_nest_loops(g, from, g->nest.ninner - 1, -1, e, NULL, col_innermost, &in);
    } else {
        gen_nest_loops(g, from, g->nest.ninner, -1, e, NULL, col_add_memory, c);
    }
}

static void columns_start(Gen *g, Columns *c, LLVMValueRef chunk)
{
    bool partial = g->k->phase == PHASE_partial;
    for (size_t k = 0; k < g->body->results.n; k++) {
        Value v = g->body->results.data[k];
        int o = g->k->nin + (int)k;
        c->sum[k] = g->l->m->values.data[v].def;
        c->base[k] = g->pointer[o];
        c->to[k] = g->k->operand[o];
        if (partial) { /* partial[chunk, kept]: dense in the order of the result */
            c->to[k].type = *type_of(g->l->m, v);
            int64_t stride = 1;
            for (int i = c->to[k].type.rank - 1; i >= 0; i--) {
                c->to[k].stride[i] = stride;
                stride *= c->to[k].type.dims[i].size;
            }
            c->base[k] = gen_address(g, g->pointer[o], c->to[k].type.dtype,
                                     LLVMBuildNSWMul(g->l->b, chunk, gen_int(g, stride), ""));
        }
        if (c->in_register)
            c->acc[k] = accumulator(g, c->to[k].type.dtype);
    }
}

/* Unit u of n sums [u * total / n, (u + 1) * total / n) of the leading, flattened, reduced loops.
 */
void gen_unit_partial(Gen *g, const Env *e, LLVMValueRef u)
{
    LLVMBuilderRef b = g->l->b;
    const Nest *n = &g->nest;
    Columns c = {.in_register = n->ninner && n->inner[n->ninner - 1].reduced};
    columns_start(g, &c, u);
    gen_nest_loops(g, 0, n->ninner, 0, e, NULL, col_zero, &c);
    int64_t total = 1;
    for (int i = 0; i < n->nlead; i++)
        total *= n->inner[i].dim.size;
    LLVMValueRef chunks = gen_int(g, g->k->chunks);
    LLVMValueRef from = LLVMBuildSDiv(b, LLVMBuildNSWMul(b, u, gen_int(g, total), ""), chunks, "");
    LLVMValueRef next = LLVMBuildNSWAdd(b, u, gen_int(g, 1), "");
    LLVMValueRef to = LLVMBuildSDiv(b, LLVMBuildNSWMul(b, next, gen_int(g, total), ""), chunks, "");
    if (n->nlead == n->ninner) { /* one loop in all */
        Bounds share = {from, to};
        col_loops(g, 0, e, &c, &share);
        return;
    }
    LoopCode lead = gen_loop_begin(g, from, to);
    Env inner = *e;
    LLVMValueRef rest = lead.index;
    for (int i = n->nlead - 1; i >= 0; i--) {
        LLVMValueRef size = gen_int(g, n->inner[i].dim.size);
        gen_env_loop(g, &inner, n->nouter + i, i ? LLVMBuildSRem(b, rest, size, "") : rest);
        rest = i ? LLVMBuildSDiv(b, rest, size, "") : rest;
    }
    col_loops(g, n->nlead, &inner, &c, NULL);
    gen_loop_end(g, &lead);
}

void gen_unit_col(Gen *g, const Env *e)
{
    Columns c = {.in_register = g->nest.ninner && g->nest.inner[g->nest.ninner - 1].reduced};
    columns_start(g, &c, NULL);
    gen_nest_loops(g, 0, g->nest.ninner, 0, e, NULL, col_zero, &c);
    col_loops(g, 0, e, &c, NULL);
}

/* ---- combine --------------------------------------------------------------------------------- */

static void combine_leaf(Gen *g, const Env *e, void *ctx)
{
    LLVMValueRef chunk = *(LLVMValueRef *)ctx;
    int nout = g->k->nout;
    for (int k = 0; k < nout; k++) {
        const Operand *to = &g->k->operand[nout + k];
        const Ins *sum = g->l->m->values.data[g->body->results.data[k]].def;
        DType t = to->type.dtype;
        Operand dense = *to;
        int64_t stride = 1;
        for (int i = to->type.rank - 1; i >= 0; i--) {
            dense.stride[i] = stride;
            stride *= to->type.dims[i].size;
        }
        LLVMValueRef at = gen_element(g, g->pointer[nout + k], to, e);
        LLVMValueRef x;
        if (!chunk) {
            x = reduction_start(g, sum, t);
        } else {
            LLVMValueRef row = gen_address(g, g->pointer[k], t,
                                           LLVMBuildNSWMul(g->l->b, chunk, gen_int(g, stride), ""));
            x = reduction_step(g, sum, t, gen_load(g, t, at),
                               gen_load(g, t, gen_element(g, row, &dense, e)));
        }
        gen_store(g, t, x, at);
    }
}

void gen_unit_combine(Gen *g, const Env *e, LLVMValueRef block)
{
    Bounds b, *last = gen_block_bounds(g, block, &b);
    LLVMValueRef none = NULL;
    gen_nest_loops(g, 0, g->nest.ninner, -1, e, last, combine_leaf, &none);
    LoopCode c = gen_loop_begin(g, gen_int(g, 0), gen_int(g, g->k->chunks));
    gen_nest_loops(g, 0, g->nest.ninner, -1, e, last, combine_leaf, &c.index);
    gen_loop_end(g, &c);
}
