/* llvm_kernel.c - one fused instruction as one LLVM function.
 *
 *   void NAME(ptr p, i64 begin, i64 end)          unpacks the pointers and calls
 *   void NAME.body(ptr noalias ..., i64, i64)     for u in [begin, end): one unit of work
 *
 * The code written here is scalar loops; LLVM's vectoriser widens them. A value of the body is
 * evaluated where it is needed, by recursion from the results: an environment says which index each
 * dim has, a memo keeps what was already computed at these indices. Reductions are evaluated in
 * loops of their own, stage by stage, and stay in registers. */
#include "codegen/llvm_gen.h"

#include <math.h>
#include <string.h>

enum { ENV_EXTRA = 8 };

/* The index of every dim, as LLVM values. Dims that only exist inside the body (the operand of a
 * rename, pick or window) are entered on the way. */
typedef struct Env {
    int n;
    Name dim[NEST_DIMS + ENV_EXTRA];
    LLVMValueRef index[NEST_DIMS + ENV_EXTRA]; /* NULL: walked by a merged neighbour */
    int8_t half[NEST_DIMS + ENV_EXTRA];        /* of a rotated dim: 0 or 1; else -1 */
} Env;

typedef struct Gen {
    LlvmModule *l;
    const Kernel *k;
    const Region *body;
    Nest nest;
    LLVMValueRef fn;
    LLVMValueRef pointer[MAX_OPERANDS];
    LLVMValueRef *memo;    /* per value, at the current indices */
    LLVMValueRef *reduced; /* per value: a reduction's result, once its loop is done */
    int *stage;            /* per value: loops over the row that come before it is known */
} Gen;

static LLVMValueRef int64(const Gen *g, int64_t x)
{
    return LLVMConstInt(g->l->i64, (uint64_t)x, 1);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int env_find(const Env *e, Name d)
{
    for (int i = e->n - 1; i >= 0; i--)
        if (e->dim[i] == d)
            return i;
    return -1;
}

static void env_enter(Env *e, Name d, LLVMValueRef index, int8_t half)
{
    e->dim[e->n] = d;
    e->index[e->n] = index;
    e->half[e->n++] = half;
}

static LLVMValueRef address(Gen *g, LLVMValueRef base, DType t, LLVMValueRef offset)
{
    return LLVMBuildInBoundsGEP2(g->l->b, llvm_memory_type(g->l, t), base, &offset, 1, "");
}

/* base[sum over dims of index * stride] */
static LLVMValueRef element(Gen *g, LLVMValueRef base, const Operand *o, const Env *e)
{
    LLVMValueRef at = int64(g, 0);
    for (int i = 0; i < o->type.rank; i++) {
        int d = env_find(e, o->type.dims[i].name);
        if (d < 0 || !e->index[d] || o->stride[i] == 0)
            continue;
        LLVMValueRef part = LLVMBuildNSWMul(g->l->b, e->index[d], int64(g, o->stride[i]), "");
        at = LLVMBuildNSWAdd(g->l->b, at, part, "");
    }
    return address(g, base, o->type.dtype, at);
}

static LLVMValueRef load(Gen *g, DType t, LLVMValueRef from)
{
    LLVMValueRef x = LLVMBuildLoad2(g->l->b, llvm_memory_type(g->l, t), from, "");
    LLVMSetAlignment(x, (unsigned)dtype_bytes(t));
    return t == DT_bool ? LLVMBuildICmp(g->l->b, LLVMIntNE, x, LLVMConstInt(g->l->i8, 0, 0), "")
                        : x;
}

static void store(Gen *g, DType t, LLVMValueRef x, LLVMValueRef to)
{
    if (t == DT_bool)
        x = LLVMBuildZExt(g->l->b, x, g->l->i8, "");
    LLVMSetAlignment(LLVMBuildStore(g->l->b, x, to), (unsigned)dtype_bytes(t));
}

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct LoopCode {
    LLVMBasicBlockRef head, exit;
    LLVMValueRef index;
} LoopCode;

static LLVMBasicBlockRef new_block(Gen *g, const char *name)
{
    return LLVMAppendBasicBlockInContext(g->l->c, g->fn, name);
}

static LoopCode loop_begin(Gen *g, LLVMValueRef from, LLVMValueRef to)
{
    LLVMBuilderRef b = g->l->b;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), body = new_block(g, "body");
    LoopCode c = {.head = new_block(g, "loop"), .exit = new_block(g, "done")};
    LLVMBuildBr(b, c.head);
    LLVMPositionBuilderAtEnd(b, c.head);
    c.index = LLVMBuildPhi(b, g->l->i64, "i");
    LLVMAddIncoming(c.index, &from, &before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, c.index, to, ""), body, c.exit);
    LLVMPositionBuilderAtEnd(b, body);
    return c;
}

static void loop_end(Gen *g, LoopCode *c)
{
    LLVMBuilderRef b = g->l->b;
    LLVMValueRef next = LLVMBuildNSWAdd(b, c->index, int64(g, 1), "");
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMAddIncoming(c->index, &next, &here, 1);
    LLVMBuildBr(b, c->head);
    LLVMPositionBuilderAtEnd(b, c->exit);
}

static void forget(Gen *g)
{
    memset(g->memo, 0, g->l->m->values.n * sizeof *g->memo);
}

/* Enters the index of a loop under every dim it stands for. */
static void env_loop(const Gen *g, Env *e, int loop, LLVMValueRef index, int8_t half)
{
    for (int i = 0; i < g->nest.ndims; i++)
        if (g->nest.loop[i] == loop)
            env_enter(e, g->nest.dim[i].name, index, half);
        else if (g->nest.loop[i] < 0 && env_find(e, g->nest.dim[i].name) < 0)
            env_enter(e, g->nest.dim[i].name, NULL, -1);
}

typedef void Leaf(Gen *g, const Env *e, void *ctx);

/* Bounds of a loop that is shared out; NULL: all of it. */
typedef struct Bounds {
    LLVMValueRef from, to;
} Bounds;

/* The inner loops [at, end) that satisfy `which` (-1: all, 0: kept, 1: reduced), then the leaf. A
 * rotated loop runs as two halves. last: bounds of the last loop. */
static void nest_loops(Gen *g, int at, int end, int which, const Env *e, const Bounds *last,
                       Leaf *leaf, void *ctx)
{
    while (at < end && which >= 0 && g->nest.inner[at].reduced != (which == 1))
        at++;
    if (at == end) {
        forget(g);
        leaf(g, e, ctx);
        return;
    }
    const NestLoop *l = &g->nest.inner[at];
    bool shared = last && at == end - 1;
    for (int half = 0; half <= (l->rotated ? 1 : 0); half++) {
        int64_t n = l->dim.size, lo = l->rotated ? half * (n / 2) : 0;
        int64_t hi = l->rotated ? lo + n / 2 : n;
        LoopCode c =
            loop_begin(g, shared ? last->from : int64(g, lo), shared ? last->to : int64(g, hi));
        Env inner = *e;
        env_loop(g, &inner, g->nest.nouter + at, c.index, l->rotated ? (int8_t)half : -1);
        nest_loops(g, at + 1, end, which, &inner, last, leaf, ctx);
        loop_end(g, &c);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static LLVMValueRef eval(Gen *g, Value v, const Env *e);

/* Evaluates an operand at other indices than those of the memo. */
static LLVMValueRef eval_elsewhere(Gen *g, Value v, const Env *e)
{
    LLVMValueRef *memo = g->memo;
    g->memo = NEW_ARRAY(g->l->arena, LLVMValueRef, g->l->m->values.n);
    LLVMValueRef x = eval(g, v, e);
    g->memo = memo;
    return x;
}

static LLVMValueRef eval_rotate(Gen *g, const Ins *i, const Env *e)
{
    int d = env_find(e, i->attrs.dim.name);
    const Type *t = type_of(g->l->m, i->in[0]);
    int64_t half = t->dims[type_find(t, i->attrs.dim.name)].size / 2;
    bool low = e->half[d] == 0;
    Env other = *e;
    other.index[d] = LLVMBuildNSWAdd(g->l->b, e->index[d], int64(g, low ? half : -half), "");
    other.half[d] = low ? 1 : 0;
    LLVMValueRef x = eval_elsewhere(g, i->in[0], &other);
    return low ? LLVMBuildFNeg(g->l->b, x, "") : x;
}

/* Ops that only change indices. */
static LLVMValueRef eval_moved(Gen *g, const Ins *i, const Env *e)
{
    Env other = *e;
    if (i->op == OP_rename) {
        int d = env_find(e, i->attrs.to.name);
        env_enter(&other, i->attrs.dim.name, e->index[d], e->half[d]);
    } else if (i->op == OP_pick) {
        env_enter(&other, i->attrs.dim.name, int64(g, i->attrs.at), -1);
    } else {
        int d = env_find(e, i->attrs.along.name);
        env_enter(&other, i->attrs.along.name,
                  LLVMBuildNSWAdd(g->l->b, e->index[d], int64(g, i->attrs.at), ""), -1);
    }
    return eval_elsewhere(g, i->in[0], &other);
}

static LLVMValueRef eval_leaf(Gen *g, const Ins *i, DType t, const Env *e)
{
    LLVMTypeRef type = llvm_register_type(g->l, t);
    if (i->op == OP_const)
        return dtype_is_float(t) ? LLVMConstReal(type, i->attrs.value)
                                 : LLVMConstInt(type, (uint64_t)(int64_t)i->attrs.value, 1);
    LLVMValueRef at = e->index[env_find(e, i->attrs.dim.name)];
    return dtype_is_float(t) ? LLVMBuildSIToFP(g->l->b, at, type, "")
                             : LLVMBuildIntCast2(g->l->b, at, type, 1, "");
}

static LLVMValueRef eval_ins(Gen *g, const Ins *i, const Env *e)
{
    const Module *m = g->l->m;
    DType t = type_of(m, i->out[0])->dtype;
    switch (i->op) {
    case OP_const:
    case OP_iota:
        return eval_leaf(g, i, t, e);
    case OP_rotate:
        return eval_rotate(g, i, e);
    case OP_rename:
    case OP_pick:
    case OP_window:
        return eval_moved(g, i, e);
    case OP_cast:
        return llvm_cast(g->l, eval(g, i->in[0], e), type_of(m, i->in[0])->dtype, t);
    default: {
        LLVMValueRef x[3] = {0};
        for (uint32_t k = 0; k < i->nin; k++)
            x[k] = eval(g, i->in[k], e);
        return llvm_pointwise(g->l, i->op, type_of(m, i->in[i->nin - 1])->dtype, x[0], x[1], x[2]);
    }
    }
}

static LLVMValueRef eval(Gen *g, Value v, const Env *e)
{
    if (g->reduced[v])
        return g->reduced[v];
    if (g->memo[v])
        return g->memo[v];
    const Ins *def = g->l->m->values.data[v].def;
    LLVMValueRef x = NULL;
    if (def && def->op != OP_fused && def->home == g->body) {
        x = eval_ins(g, def, e);
    } else {
        for (size_t k = 0; k < g->body->args.n; k++)
            if (g->body->args.data[k] == v)
                x = load(g, g->k->operand[k].type.dtype,
                         element(g, g->pointer[k], &g->k->operand[k], e));
    }
    return g->memo[v] = x;
}

static void store_result(Gen *g, size_t k, const Env *e)
{
    int o = g->k->nin + (int)k;
    const Operand *to = &g->k->operand[o];
    LLVMValueRef x = eval(g, g->body->results.data[k], e);
    store(g, to->type.dtype, x, element(g, g->pointer[o], to, e));
}

/* ---- map ------------------------------------------------------------------------------------- */

static void map_leaf(Gen *g, const Env *e, void *ctx)
{
    (void)ctx;
    /* All loads before all stores: a result may take an operand's place. */
    for (size_t k = 0; k < g->body->results.n; k++)
        eval(g, g->body->results.data[k], e);
    for (size_t k = 0; k < g->body->results.n; k++)
        store_result(g, k, e);
}

static void unit_map(Gen *g, const Env *e, LLVMValueRef block)
{
    Bounds b, *last = NULL;
    if (block) {
        int64_t size = g->nest.inner[g->nest.ninner - 1].dim.size;
        b.from = LLVMBuildNSWMul(g->l->b, block, int64(g, g->nest.block), "");
        b.to = LLVMBuildNSWAdd(g->l->b, b.from, int64(g, g->nest.block), "");
        b.to =
            LLVMBuildSelect(g->l->b, LLVMBuildICmp(g->l->b, LLVMIntSLT, b.to, int64(g, size), ""),
                            b.to, int64(g, size), "");
        last = &b;
    }
    nest_loops(g, 0, g->nest.ninner, -1, e, last, map_leaf, NULL);
}

/* ---- row ------------------------------------------------------------------------------------- */

static bool is_reduction(const Ins *i)
{
    return i->op == OP_sum || i->op == OP_rmax;
}

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
    return dtype_is_float(t) ? llvm_add_reassociable(g->l, acc, x)
                             : LLVMBuildAdd(g->l->b, acc, x, "");
}

static int stage_of(Gen *g, Value v)
{
    return g->stage[v];
}

/* stage of a value: how many loops over the row must be done before it can be computed in one. */
static int find_stages(Gen *g)
{
    int most = 0;
    for (size_t i = 0; i < g->body->ins.n; i++) {
        const Ins *ins = g->body->ins.data[i];
        int s = 0;
        for (uint32_t k = 0; k < ins->nin; k++)
            if (stage_of(g, ins->in[k]) > s)
                s = stage_of(g, ins->in[k]);
        s += is_reduction(ins);
        for (uint32_t k = 0; k < ins->nout; k++)
            g->stage[ins->out[k]] = s;
        most = s > most ? s : most;
    }
    return most;
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
} Accumulators;

static void row_leaf(Gen *g, const Env *e, void *ctx)
{
    Accumulators *a = ctx;
    for (int k = 0; k < a->n; k++) {
        DType t = type_of(g->l->m, a->ins[k]->out[0])->dtype;
        LLVMTypeRef type = llvm_register_type(g->l, t);
        LLVMValueRef x = eval(g, a->ins[k]->in[0], e);
        LLVMValueRef sum = LLVMBuildLoad2(g->l->b, type, a->acc[k], "");
        LLVMBuildStore(g->l->b, reduction_step(g, a->ins[k], t, sum, x), a->acc[k]);
    }
}

static bool row_wide(const Gen *g, Value v)
{
    const Type *t = type_of(g->l->m, v);
    for (int i = 0; i < g->nest.ndims; i++) {
        int loop = g->nest.loop[i];
        for (int k = i; loop < 0 && k < g->nest.ndims; k++)
            loop = g->nest.loop[k];
        if (loop >= g->nest.nouter && type_find(t, g->nest.dim[i].name) >= 0)
            return true;
    }
    return false;
}

static void row_store(Gen *g, const Env *e, void *ctx)
{
    (void)ctx;
    for (size_t k = 0; k < g->body->results.n; k++)
        if (row_wide(g, g->body->results.data[k]))
            eval(g, g->body->results.data[k], e);
    for (size_t k = 0; k < g->body->results.n; k++)
        if (row_wide(g, g->body->results.data[k]))
            store_result(g, k, e);
}

static void unit_row(Gen *g, const Env *e)
{
    memset(g->reduced, 0, g->l->m->values.n * sizeof *g->reduced);
    int stages = find_stages(g);
    for (int s = 1; s <= stages; s++) {
        Accumulators a = {.stage = s};
        for (size_t i = 0; i < g->body->ins.n; i++) {
            const Ins *ins = g->body->ins.data[i];
            if (!is_reduction(ins) || g->stage[ins->out[0]] != s || a.n == MAX_OPERANDS)
                continue;
            DType t = type_of(g->l->m, ins->out[0])->dtype;
            a.ins[a.n] = ins;
            a.acc[a.n] = accumulator(g, t);
            LLVMBuildStore(g->l->b, reduction_start(g, ins, t), a.acc[a.n++]);
        }
        nest_loops(g, 0, g->nest.ninner, -1, e, NULL, row_leaf, &a);
        for (int k = 0; k < a.n; k++) {
            Value v = a.ins[k]->out[0];
            g->reduced[v] = LLVMBuildLoad2(
                g->l->b, llvm_register_type(g->l, type_of(g->l->m, v)->dtype), a.acc[k], "");
        }
    }
    /* One number a row is computed before the last loop and stored after it: it may take the place
     * of an operand that the loop reads. */
    LLVMValueRef narrow[MAX_OPERANDS] = {0};
    bool wide = false;
    forget(g);
    for (size_t k = 0; k < g->body->results.n; k++) {
        if (row_wide(g, g->body->results.data[k]))
            wide = true;
        else
            narrow[k] = eval(g, g->body->results.data[k], e);
    }
    if (wide)
        nest_loops(g, 0, g->nest.ninner, -1, e, NULL, row_store, NULL);
    for (size_t k = 0; k < g->body->results.n; k++) {
        int o = g->k->nin + (int)k;
        const Operand *to = &g->k->operand[o];
        if (narrow[k])
            store(g, to->type.dtype, narrow[k], element(g, g->pointer[o], to, e));
    }
}

/* ---- col ------------------------------------------------------------------------------------- */

/* Where the sums of this unit are accumulated: the results, or this chunk's row of the workspaces.
 */
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
        store(g, t, zero, element(g, c->base[k], &c->to[k], e));
    }
}

static void col_add_memory(Gen *g, const Env *e, void *ctx)
{
    Columns *c = ctx;
    LLVMValueRef x[MAX_OPERANDS];
    for (size_t k = 0; k < g->body->results.n; k++)
        x[k] = eval(g, c->sum[k]->in[0], e);
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef at = element(g, c->base[k], &c->to[k], e);
        store(g, t, reduction_step(g, c->sum[k], t, load(g, t, at), x[k]), at);
    }
}

static void col_add_register(Gen *g, const Env *e, void *ctx)
{
    Columns *c = ctx;
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef x = eval(g, c->sum[k]->in[0], e);
        LLVMValueRef sum = LLVMBuildLoad2(g->l->b, llvm_register_type(g->l, t), c->acc[k], "");
        LLVMBuildStore(g->l->b, reduction_step(g, c->sum[k], t, sum, x), c->acc[k]);
    }
}

/* The innermost, reduced, loop in registers, then into memory. */
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
    nest_loops(g, g->nest.ninner - 1, g->nest.ninner, -1, e, in->bounds, col_add_register, c);
    forget(g);
    for (size_t k = 0; k < g->body->results.n; k++) {
        DType t = c->to[k].type.dtype;
        LLVMValueRef at = element(g, c->base[k], &c->to[k], e);
        LLVMValueRef sum = LLVMBuildLoad2(g->l->b, llvm_register_type(g->l, t), c->acc[k], "");
        store(g, t, reduction_step(g, c->sum[k], t, load(g, t, at), sum), at);
    }
}

static void col_loops(Gen *g, int from, const Env *e, Columns *c, const Bounds *last)
{
    if (c->in_register) {
        Innermost in = {c, last};
        nest_loops(g, from, g->nest.ninner - 1, -1, e, NULL, col_innermost, &in);
    } else {
        nest_loops(g, from, g->nest.ninner, -1, e, NULL, col_add_memory, c);
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
            c->base[k] = address(g, g->pointer[o], c->to[k].type.dtype,
                                 LLVMBuildNSWMul(g->l->b, chunk, int64(g, stride), ""));
        }
        if (c->in_register)
            c->acc[k] = accumulator(g, c->to[k].type.dtype);
    }
}

/* Unit u of n sums [u * total / n, (u + 1) * total / n) of the leading, flattened, reduced loops.
 */
static void unit_partial(Gen *g, const Env *e, LLVMValueRef u)
{
    LLVMBuilderRef b = g->l->b;
    const Nest *n = &g->nest;
    Columns c = {.in_register = n->ninner && n->inner[n->ninner - 1].reduced};
    columns_start(g, &c, u);
    nest_loops(g, 0, n->ninner, 0, e, NULL, col_zero, &c);
    int64_t total = 1;
    for (int i = 0; i < n->nlead; i++)
        total *= n->inner[i].dim.size;
    LLVMValueRef chunks = int64(g, g->k->chunks);
    LLVMValueRef from = LLVMBuildSDiv(b, LLVMBuildNSWMul(b, u, int64(g, total), ""), chunks, "");
    LLVMValueRef next = LLVMBuildNSWAdd(b, u, int64(g, 1), "");
    LLVMValueRef to = LLVMBuildSDiv(b, LLVMBuildNSWMul(b, next, int64(g, total), ""), chunks, "");
    if (n->nlead == n->ninner) { /* one loop in all */
        Bounds share = {from, to};
        col_loops(g, 0, e, &c, &share);
        return;
    }
    LoopCode lead = loop_begin(g, from, to);
    Env inner = *e;
    LLVMValueRef rest = lead.index;
    for (int i = n->nlead - 1; i >= 0; i--) {
        LLVMValueRef size = int64(g, n->inner[i].dim.size);
        env_loop(g, &inner, n->nouter + i, i ? LLVMBuildSRem(b, rest, size, "") : rest, -1);
        rest = i ? LLVMBuildSDiv(b, rest, size, "") : rest;
    }
    col_loops(g, n->nlead, &inner, &c, NULL);
    loop_end(g, &lead);
}

static void unit_col(Gen *g, const Env *e)
{
    Columns c = {.in_register = g->nest.ninner && g->nest.inner[g->nest.ninner - 1].reduced};
    columns_start(g, &c, NULL);
    nest_loops(g, 0, g->nest.ninner, 0, e, NULL, col_zero, &c);
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
        LLVMValueRef at = element(g, g->pointer[nout + k], to, e);
        LLVMValueRef x;
        if (!chunk) {
            x = reduction_start(g, sum, t);
        } else {
            LLVMValueRef row =
                address(g, g->pointer[k], t, LLVMBuildNSWMul(g->l->b, chunk, int64(g, stride), ""));
            x = reduction_step(g, sum, t, load(g, t, at), load(g, t, element(g, row, &dense, e)));
        }
        store(g, t, x, at);
    }
}

static void unit_combine(Gen *g, const Env *e, LLVMValueRef block)
{
    Bounds b, *last = NULL;
    if (block) {
        int64_t size = g->nest.inner[g->nest.ninner - 1].dim.size;
        b.from = LLVMBuildNSWMul(g->l->b, block, int64(g, g->nest.block), "");
        b.to = LLVMBuildNSWAdd(g->l->b, b.from, int64(g, g->nest.block), "");
        b.to =
            LLVMBuildSelect(g->l->b, LLVMBuildICmp(g->l->b, LLVMIntSLT, b.to, int64(g, size), ""),
                            b.to, int64(g, size), "");
        last = &b;
    }
    LLVMValueRef none = NULL;
    nest_loops(g, 0, g->nest.ninner, -1, e, last, combine_leaf, &none);
    LoopCode c = loop_begin(g, int64(g, 0), int64(g, g->k->chunks));
    nest_loops(g, 0, g->nest.ninner, -1, e, last, combine_leaf, &c.index);
    loop_end(g, &c);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void units(Gen *g, LLVMValueRef begin, LLVMValueRef end)
{
    LLVMBuilderRef b = g->l->b;
    LoopCode loop = loop_begin(g, begin, end);
    LLVMValueRef rest = loop.index, block = NULL;
    Env e = {0};
    if (g->nest.block) {
        block = LLVMBuildSRem(b, rest, int64(g, g->nest.blocks), "");
        rest = LLVMBuildSDiv(b, rest, int64(g, g->nest.blocks), "");
    }
    for (int i = g->nest.nouter - 1; i >= 0; i--) {
        LLVMValueRef size = int64(g, g->nest.outer[i].dim.size);
        env_loop(g, &e, i, i ? LLVMBuildSRem(b, rest, size, "") : rest, -1);
        rest = i ? LLVMBuildSDiv(b, rest, size, "") : rest;
    }
    if (g->k->phase == PHASE_partial)
        unit_partial(g, &e, loop.index);
    else if (g->nest.kind == NEST_combine)
        unit_combine(g, &e, block);
    else if (g->nest.kind == NEST_row)
        unit_row(g, &e);
    else if (g->nest.kind == NEST_col)
        unit_col(g, &e);
    else
        unit_map(g, &e, block);
    loop_end(g, &loop);
}

static void no_alias(LlvmModule *l, LLVMValueRef f, int n)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("noalias", 7);
    for (int i = 0; i < n; i++)
        LLVMAddAttributeAtIndex(f, (unsigned)i + 1, LLVMCreateEnumAttribute(l->c, kind, 0));
}

static void function_marks(LlvmModule *l, LLVMValueRef f)
{
    static const char width[] = "prefer-vector-width";
    const char *bits = arena_printf(l->arena, "%d", l->vector_bits ? l->vector_bits : 128);
    unsigned kind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(l->c, kind, 0));
    LLVMAddAttributeAtIndex(
        f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(l->c, width, sizeof width - 1, bits, (unsigned)strlen(bits)));
}

/* The function that holds the loops: one pointer for each operand that has memory of its own. */
static int body_function(Gen *g, const char *name)
{
    LlvmModule *l = g->l;
    LLVMTypeRef in[MAX_OPERANDS + 2];
    int slot[MAX_OPERANDS], n = 0;
    for (int i = 0; i < g->k->noperands; i++) {
        int alias = i >= g->k->nin ? g->k->alias[i] : -1;
        slot[i] = alias >= 0 ? slot[alias] : n;
        if (alias < 0)
            in[n++] = l->ptr;
    }
    in[n] = in[n + 1] = l->i64;
    g->fn = LLVMAddFunction(l->mod, arena_printf(l->arena, "%s.body", name),
                            LLVMFunctionType(LLVMVoidTypeInContext(l->c), in, (unsigned)n + 2, 0));
    LLVMSetLinkage(g->fn, LLVMInternalLinkage);
    function_marks(l, g->fn);
    no_alias(l, g->fn, n);
    for (int i = 0; i < g->k->noperands; i++)
        g->pointer[i] = LLVMGetParam(g->fn, (unsigned)slot[i]);
    LLVMPositionBuilderAtEnd(l->b, new_block(g, "entry"));
    LLVMBasicBlockRef start = new_block(g, "start");
    LLVMPositionBuilderAtEnd(l->b, start);
    units(g, LLVMGetParam(g->fn, (unsigned)n), LLVMGetParam(g->fn, (unsigned)n + 1));
    LLVMBuildRetVoid(l->b);
    LLVMPositionBuilderAtEnd(l->b, LLVMGetEntryBasicBlock(g->fn));
    LLVMBuildBr(l->b, start);
    return n;
}

void llvm_kernel(LlvmModule *l, const Kernel *k)
{
    const char *name = name_str(l->m->names, k->name);
    size_t n = l->m->values.n;
    Gen g = {.l = l, .k = k, .body = k->ins->body, .nest = nest_of(l->m, k)};
    g.memo = NEW_ARRAY(l->arena, LLVMValueRef, n);
    g.reduced = NEW_ARRAY(l->arena, LLVMValueRef, n);
    g.stage = NEW_ARRAY(l->arena, int, n);
    int pointers = body_function(&g, name);

    LLVMTypeRef in[3] = {l->ptr, l->i64, l->i64};
    LLVMValueRef f =
        LLVMAddFunction(l->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(l->c), in, 3, 0));
    function_marks(l, f);
    LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->c, f, "entry"));
    LLVMValueRef args[MAX_OPERANDS + 2];
    for (int i = 0, at = 0; i < k->noperands; i++) {
        if (i >= k->nin && k->alias[i] >= 0)
            continue;
        LLVMValueRef index = LLVMConstInt(l->i64, (uint64_t)i, 0);
        LLVMValueRef slot = LLVMBuildInBoundsGEP2(l->b, l->ptr, LLVMGetParam(f, 0), &index, 1, "");
        args[at++] = LLVMBuildLoad2(l->b, l->ptr, slot, "");
    }
    args[pointers] = LLVMGetParam(f, 1);
    args[pointers + 1] = LLVMGetParam(f, 2);
    LLVMBuildCall2(l->b, LLVMGlobalGetValueType(g.fn), g.fn, args, (unsigned)pointers + 2, "");
    LLVMBuildRetVoid(l->b);
}
