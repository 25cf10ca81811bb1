/* llvm_value.c - values, addresses and loops of a kernel's body.
 *
 * A value is computed where it is needed, by recursion from the results. An environment has the
 * index of each dim, and a memo has the values that were already computed at these indices. */
#include "codegen/llvm/llvm_body.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

LLVMValueRef gen_int(const Gen *g, int64_t x)
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

LLVMValueRef gen_index(const Env *e, Name d)
{
    const int at = env_find(e, d);
    return at < 0 ? NULL : e->index[at];
}

static void env_enter(Env *e, Name d, LLVMValueRef index, Known known)
{
    e->dim[e->n] = d;
    e->index[e->n] = index;
    e->known[e->n++] = known;
}

LLVMValueRef gen_address(Gen *g, LLVMValueRef base, DType t, LLVMValueRef offset)
{
    return LLVMBuildInBoundsGEP2(g->l->b, llvm_memory_type(g->l, t), base, &offset, 1, "");
}

/* base[sum over dims of index * stride], added dim by dim. LLVM turns a sum whose terms share no
 * bits into a bitwise or, and its vectoriser then no longer recognises neighbours. */
LLVMValueRef gen_element(Gen *g, LLVMValueRef base, const Operand *o, const Env *e)
{
    for (int i = 0; i < o->type.rank; i++) {
        int d = env_find(e, o->type.dims[i].name);
        if (d < 0 || !e->index[d] || o->stride[i] == 0)
            continue;
        LLVMValueRef part = LLVMBuildNSWMul(g->l->b, e->index[d], gen_int(g, o->stride[i]), "");
        base = gen_address(g, base, o->type.dtype, part);
    }
    return base;
}

LLVMValueRef gen_operand(Gen *g, int k, const Env *e)
{
    return g->turned[k] ? gen_turned(g, k) : gen_element(g, g->pointer[k], &g->k->operand[k], e);
}

LLVMValueRef gen_load(Gen *g, DType t, LLVMValueRef from)
{
    LLVMValueRef x = LLVMBuildLoad2(g->l->b, llvm_memory_type(g->l, t), from, "");
    LLVMSetAlignment(x, (unsigned)dtype_bytes(t));
    if (dtype_is_narrow(t))
        return llvm_widen(g->l, t, x);
    return t == DT_bool ? LLVMBuildICmp(g->l->b, LLVMIntNE, x, LLVMConstInt(g->l->i8, 0, 0), "")
                        : x;
}

void gen_store(Gen *g, DType t, LLVMValueRef x, LLVMValueRef to)
{
    if (t == DT_bool)
        x = LLVMBuildZExt(g->l->b, x, g->l->i8, "");
    else if (dtype_is_narrow(t))
        x = llvm_narrow(g->l, t, x);
    LLVMSetAlignment(LLVMBuildStore(g->l->b, x, to), (unsigned)dtype_bytes(t));
}

/* ---- loops ----------------------------------------------------------------------------------- */

LLVMBasicBlockRef gen_new_block(Gen *g, const char *name)
{
    return LLVMAppendBasicBlockInContext(g->l->c, g->fn, name);
}

LoopCode gen_loop_begin(Gen *g, LLVMValueRef from, LLVMValueRef to)
{
    LLVMBuilderRef b = g->l->b;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), body = gen_new_block(g, "body");
    LoopCode c = {.head = gen_new_block(g, "loop"), .exit = gen_new_block(g, "done")};
    LLVMBuildBr(b, c.head);
    LLVMPositionBuilderAtEnd(b, c.head);
    c.index = LLVMBuildPhi(b, g->l->i64, "i");
    LLVMAddIncoming(c.index, &from, &before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, c.index, to, ""), body, c.exit);
    LLVMPositionBuilderAtEnd(b, body);
    return c;
}

LLVMValueRef gen_loop_end(Gen *g, LoopCode *c)
{
    LLVMBuilderRef b = g->l->b;
    LLVMValueRef next = LLVMBuildNSWAdd(b, c->index, gen_int(g, 1), "");
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMAddIncoming(c->index, &next, &here, 1);
    LLVMValueRef back = LLVMBuildBr(b, c->head);
    LLVMPositionBuilderAtEnd(b, c->exit);
    return back;
}

static LLVMMetadataRef hint(LLVMContextRef c, const char *name, int n)
{
    LLVMMetadataRef pair[2] = {
        LLVMMDStringInContext2(c, name, strlen(name)),
        LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(c), (unsigned)n, 0))};
    return LLVMMDNodeInContext2(c, pair, 2);
}

static void set_hints(Gen *g, LLVMValueRef back, LLVMMetadataRef *all, int n)
{
    LLVMContextRef c = g->l->c;
    LLVMMetadataRef self = all[0] = LLVMTemporaryMDNode(c, NULL, 0);
    LLVMMetadataRef node = LLVMMDNodeInContext2(c, all, (size_t)n);
    LLVMMetadataReplaceAllUsesWith(self, node); /* a loop's node begins with itself */
    LLVMSetMetadata(back, LLVMGetMDKindIDInContext(c, "llvm.loop", 9),
                    LLVMMetadataAsValue(c, node));
}

static int widest(const Gen *g)
{
    return (g->l->vector_bits ? g->l->vector_bits : 128) / 32;
}

/* The loop is widened to MG_TILE elements at a time. A multiple of MG_TILE leaves no remainder. */
static void widen_to_tiles(Gen *g, LLVMValueRef back)
{
    LLVMContextRef c = g->l->c;
    LLVMMetadataRef all[3] = {NULL, hint(c, "llvm.loop.vectorize.width", widest(g)),
                              hint(c, "llvm.loop.interleave.count", MG_TILE / widest(g))};
    set_hints(g, back, all, 3);
}

/* The number of parts of a sum over n elements. It does not depend on the rest of the loop. Element
 * i is added to part i mod parts, in the order of i. Elements beyond the last multiple are added to
 * the sum of the parts. */
enum { SUM_VECTORS = 4 };
static int sum_parts(const Gen *g, int64_t n)
{
    int parts = 1;
    while (2 * parts <= n && 2 * parts <= SUM_VECTORS * widest(g))
        parts *= 2;
    return parts;
}

static void widen_sum(Gen *g, LLVMValueRef back, int64_t n)
{
    LLVMContextRef c = g->l->c;
    const int parts = sum_parts(g, n), lanes = parts < widest(g) ? parts : widest(g);
    LLVMMetadataRef all[5] = {NULL, hint(c, "llvm.loop.vectorize.width", lanes),
                              hint(c, "llvm.loop.interleave.count", parts / lanes)};
    LLVMMetadataRef on[2] = {LLVMMDStringInContext2(c, "llvm.loop.vectorize.enable", 26),
                             LLVMValueAsMetadata(LLVMConstInt(g->l->i1, 1, 0))};
    LLVMMetadataRef off = LLVMMDStringInContext2(c, "llvm.loop.unroll.disable", 24);
    all[3] = LLVMMDNodeInContext2(c, on, 2);
    all[4] = LLVMMDNodeInContext2(c, &off, 1);
    set_hints(g, back, all, 5);
}

void gen_forget(Gen *g)
{
    memset(g->memo, 0, g->l->m->values.n * sizeof *g->memo);
}

static LLVMValueRef index_of(const Gen *g, int dim, LLVMValueRef index)
{
    const int64_t below = g->nest.below[dim];
    if (!below)
        return index;
    index = LLVMBuildSDiv(g->l->b, index, gen_int(g, below), "");
    return LLVMBuildSRem(g->l->b, index, gen_int(g, g->nest.dim[dim].size), "");
}

static void enter_loop(const Gen *g, Env *e, int loop, LLVMValueRef index, const Known *piece)
{
    for (int i = 0; i < g->nest.ndims; i++) {
        const int64_t size = g->nest.dim[i].size;
        const bool whole = size == nest_loop(&g->nest, loop)->dim.size;
        if (g->nest.loop[i] == loop)
            env_enter(e, g->nest.dim[i].name, index_of(g, i, index),
                      whole ? *piece : (Known){0, size});
        else if (g->nest.loop[i] < 0 && env_find(e, g->nest.dim[i].name) < 0)
            env_enter(e, g->nest.dim[i].name, NULL, (Known){0, size});
    }
}

void gen_env_loop(const Gen *g, Env *e, int loop, LLVMValueRef index)
{
    enter_loop(g, e, loop, index, &(Known){0, nest_loop(&g->nest, loop)->dim.size});
}

/* The part [from, to) of a loop of which a unit runs the part b. */
static Bounds within(Gen *g, const Bounds *b, int64_t from, int64_t to)
{
    LLVMBuilderRef at = g->l->b;
    LLVMValueRef lo = gen_int(g, from), hi = gen_int(g, to);
    LLVMValueRef later = LLVMBuildICmp(at, LLVMIntSGT, b->from, lo, "");
    LLVMValueRef sooner = LLVMBuildICmp(at, LLVMIntSLT, b->to, hi, "");
    return (Bounds){LLVMBuildSelect(at, later, b->from, lo, ""),
                    LLVMBuildSelect(at, sooner, b->to, hi, "")};
}

/* A loop over the stretches of [b->from, b->to), each with its words: *b becomes one of them. */
static LoopCode begin_stretches(Gen *g, int loop, const Env *e, const Known *piece, Bounds *b)
{
    LLVMBuilderRef at = g->l->b;
    LLVMValueRef length = gen_int(g, DRAW_STRETCH), more = gen_int(g, DRAW_STRETCH - 1);
    LLVMValueRef all = LLVMBuildNSWSub(at, b->to, b->from, "");
    LLVMValueRef n = LLVMBuildSDiv(at, LLVMBuildNSWAdd(at, all, more, ""), length, "");
    LoopCode c = gen_loop_begin(g, gen_int(g, 0), n);
    LLVMValueRef from = LLVMBuildNSWAdd(at, b->from, LLVMBuildNSWMul(at, c.index, length, ""), "");
    LLVMValueRef to = LLVMBuildNSWAdd(at, from, length, "");
    to = LLVMBuildSelect(at, LLVMBuildICmp(at, LLVMIntSLT, to, b->to, ""), to, b->to, "");
    Env first = *e;
    enter_loop(g, &first, loop, from, piece);
    gen_forget(g);
    gen_draw(g, loop, &first, from, LLVMBuildNSWSub(at, to, from, ""));
    *b = (Bounds){from, to};
    return c;
}

/* The inner loops [at, end) that satisfy `which` (-1: all, 0: kept, 1: reduced), then the leaf. A
 * loop runs in pieces. last: bounds of the last loop. */
void gen_nest_loops(Gen *g, int at, int end, int which, const Env *e, const Bounds *last,
                    Leaf *leaf, void *ctx)
{
    while (at < end && which >= 0 && g->nest.inner[at].reduced != (which == 1))
        at++;
    if (at == end) {
        gen_forget(g);
        leaf(g, e, ctx);
        return;
    }
    const bool innermost = at == end - 1, shared = last && innermost;
    /* The order of a sum in parts, and the tiles of a product's columns, are of the whole loop. */
    const bool places = innermost && !g->sum_length && !g->k->columns;
    int64_t cut[NEST_PIECES + 2];
    const int pieces = nest_pieces(&g->nest, g->body, g->nest.nouter + at, places, cut);
    for (int p = 0; p < pieces; p++) {
        const int64_t lo = cut[p], hi = cut[p + 1];
        const Known piece = {lo, hi};
        Bounds of = {gen_int(g, lo), gen_int(g, hi)};
        if (shared)
            of = pieces > 1 ? within(g, last, lo, hi) : *last;
        const int loop = g->nest.nouter + at;
        const bool draws = places && gen_may_draw(g, loop);
        LoopCode stretches = {0};
        if (draws)
            stretches = begin_stretches(g, loop, e, &piece, &of);
        LoopCode c = gen_loop_begin(g, of.from, of.to);
        Env inner = *e;
        g->inner_index[at] = c.index;
        enter_loop(g, &inner, loop, c.index, &piece);
        g->draws.index = c.index;
        gen_nest_loops(g, at + 1, end, which, &inner, last, leaf, ctx);
        LLVMValueRef back = gen_loop_end(g, &c);
        g->draws.n = 0;
        if (draws)
            gen_loop_end(g, &stretches);
        if (g->sum_length && at == end - 1)
            widen_sum(g, back, shared ? g->sum_length : hi - lo);
        else if (g->k->columns)
            widen_to_tiles(g, back);
    }
}

/* The piece of the last inner loop that is the block of a unit; NULL if the loop is not cut. */
Bounds *gen_block_bounds(Gen *g, LLVMValueRef block, Bounds *b)
{
    if (!block)
        return NULL;
    LLVMBuilderRef at = g->l->b;
    LLVMValueRef size = gen_int(g, g->nest.inner[g->nest.ninner - 1].dim.size);
    b->from = LLVMBuildNSWMul(at, block, gen_int(g, g->nest.block), "");
    b->to = LLVMBuildNSWAdd(at, b->from, gen_int(g, g->nest.block), "");
    b->to = LLVMBuildSelect(at, LLVMBuildICmp(at, LLVMIntSLT, b->to, size, ""), b->to, size, "");
    return b;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Evaluates an operand at other indices than those of the memo. */
static LLVMValueRef eval_elsewhere(Gen *g, Value v, const Env *e)
{
    LLVMValueRef *memo = g->memo;
    g->memo = NEW_ARRAY(g->l->arena, LLVMValueRef, g->l->m->values.n);
    g->elsewhere++;
    LLVMValueRef x = gen_eval(g, v, e);
    g->elsewhere--;
    g->memo = memo;
    return x;
}

/* x[i + n/2] negated in the first half, x[i - n/2] in the second. Loops over a rotated dim are cut
 * in its middle; an index that was counted may lie on either side. */
static LLVMValueRef eval_rotate(Gen *g, const Ins *i, const Env *e)
{
    LLVMBuilderRef b = g->l->b;
    int d = env_find(e, i->attrs.dim.name);
    const Type *t = type_of(g->l->m, i->in[0]);
    const int64_t half = t->dims[type_find(t, i->attrs.dim.name)].size / 2;
    const Known at = e->known[d];
    const bool low = at.to <= half, known = low || at.from >= half;
    LLVMValueRef first = NULL, by = gen_int(g, low ? half : -half);
    if (!known) {
        first = LLVMBuildICmp(b, LLVMIntSLT, e->index[d], gen_int(g, half), "");
        by = LLVMBuildSelect(b, first, gen_int(g, half), by, "");
    }
    Env other = *e;
    other.index[d] = LLVMBuildNSWAdd(b, e->index[d], by, "");
    other.known[d] = !known ? (Known){0, 2 * half}
                     : low  ? (Known){at.from + half, at.to + half}
                            : (Known){at.from - half, at.to - half};
    LLVMValueRef x = eval_elsewhere(g, i->in[0], &other);
    if (known)
        return low ? LLVMBuildFNeg(b, x, "") : x;
    return LLVMBuildSelect(b, first, LLVMBuildFNeg(b, x, ""), x, "");
}

/* Ops that only change indices. */
static LLVMValueRef eval_moved(Gen *g, const Ins *i, const Env *e)
{
    Env other = *e;
    if (i->op == OP_rename) {
        int d = env_find(e, i->attrs.to.name);
        env_enter(&other, i->attrs.dim.name, e->index[d], e->known[d]);
    } else if (i->op == OP_pick) {
        env_enter(&other, i->attrs.dim.name, gen_int(g, i->attrs.at),
                  (Known){i->attrs.at, i->attrs.at + 1});
    } else {
        const int64_t by = i->attrs.at;
        int d = env_find(e, i->attrs.along.name);
        env_enter(&other, i->attrs.along.name,
                  LLVMBuildNSWAdd(g->l->b, e->index[d], gen_int(g, by), ""),
                  (Known){e->known[d].from + by, e->known[d].to + by});
    }
    return eval_elsewhere(g, i->in[0], &other);
}

/* The places that are counted, [from, to), before they are divided. */
static Known counted(const Attrs *a, const Env *e)
{
    Known places = {a->at, a->at + 1};
    for (int k = 0; k < a->over.n; k++) {
        const int64_t by = a->factors.by[k];
        const Known *index = &e->known[env_find(e, a->over.dim[k].name)];
        places.from += by * (by < 0 ? index->to - 1 : index->from);
        places.to += by * (by < 0 ? index->from : index->to - 1);
    }
    return places;
}

/* The element that is counted by the indices of the loops, or 0. What lies outside is read at 0,
 * and not taken; nothing is asked where all lies on one side. */
static LLVMValueRef eval_reindex(Gen *g, const Ins *i, const Env *e)
{
    LLVMBuilderRef b = g->l->b;
    const Attrs *a = &i->attrs;
    const Known places = counted(a, e);
    if (places.to <= 0 || places.from >= a->dim.size * a->every)
        return LLVMConstNull(llvm_register_type(g->l, type_of(g->l->m, i->out[0])->dtype));
    LLVMValueRef at = gen_int(g, a->at), every = gen_int(g, a->every), zero = gen_int(g, 0);
    for (int k = 0; k < a->over.n; k++) {
        LLVMValueRef by = gen_int(g, a->factors.by[k]);
        LLVMValueRef index = e->index[env_find(e, a->over.dim[k].name)];
        at = LLVMBuildNSWAdd(b, at, LLVMBuildNSWMul(b, index, by, ""), "");
    }
    Env other = *e;
    if (a->every == 1 && places.from >= 0 && places.to <= a->dim.size) {
        env_enter(&other, a->dim.name, at, places);
        return eval_elsewhere(g, i->in[0], &other);
    }
    LLVMValueRef there = LLVMBuildICmp(b, LLVMIntSGE, at, zero, "");
    if (a->every > 1) {
        LLVMValueRef left = LLVMBuildSRem(b, at, every, "");
        there = LLVMBuildAnd(b, there, LLVMBuildICmp(b, LLVMIntEQ, left, zero, ""), "");
        at = LLVMBuildSDiv(b, at, every, "");
    }
    LLVMValueRef below = LLVMBuildICmp(b, LLVMIntSLT, at, gen_int(g, a->dim.size), "");
    there = LLVMBuildAnd(b, there, below, "");
    env_enter(&other, a->dim.name, LLVMBuildSelect(b, there, at, zero, ""),
              (Known){0, a->dim.size});
    LLVMValueRef x = eval_elsewhere(g, i->in[0], &other);
    return LLVMBuildSelect(b, there, x, LLVMConstNull(LLVMTypeOf(x)), "");
}

static LLVMValueRef eval_leaf(Gen *g, const Ins *i, DType t, const Env *e)
{
    LLVMTypeRef type = llvm_register_type(g->l, t);
    if (i->op == OP_const)
        return dtype_is_narrow(t)
                   ? llvm_cast(g->l, LLVMConstReal(g->l->f32, i->attrs.value), DT_f32, t)
               : dtype_is_float(t) ? LLVMConstReal(type, i->attrs.value)
                                   : LLVMConstInt(type, (uint64_t)(int64_t)i->attrs.value, 1);
    LLVMValueRef at = e->index[env_find(e, i->attrs.dim.name)];
    return dtype_is_float(t) ? LLVMBuildSIToFP(g->l->b, at, type, "")
                             : LLVMBuildIntCast2(g->l->b, at, type, 1, "");
}

static LLVMValueRef eval_ins(Gen *g, const Ins *i, const Env *e)
{
    const Module *m = g->l->m;
    DType t = type_of(m, i->out[0])->dtype;
    if (i->op == OP_const || i->op == OP_iota)
        return eval_leaf(g, i, t, e);
    if (i->op == OP_rotate)
        return eval_rotate(g, i, e);
    if (i->op == OP_reindex)
        return eval_reindex(g, i, e);
    if (i->op == OP_rename || i->op == OP_pick || i->op == OP_window)
        return eval_moved(g, i, e);
    if (i->op == OP_stochastic_round)
        return gen_stochastic_round(g, i, e);
    if (i->op == OP_cast)
        return llvm_cast(g->l, gen_eval(g, i->in[0], e), type_of(m, i->in[0])->dtype, t);
    LLVMValueRef x[3] = {0};
    for (uint32_t k = 0; k < i->nin; k++)
        x[k] = gen_eval(g, i->in[k], e);
    return llvm_pointwise(g->l, i->op, type_of(m, i->in[i->nin - 1])->dtype, x);
}

LLVMValueRef gen_eval(Gen *g, Value v, const Env *e)
{
    if (g->reduced[v])
        return g->reduced[v];
    if (g->memo[v])
        return g->memo[v];
    const Ins *def = g->l->m->values.data[v].def;
    LLVMValueRef x = gen_kept(g, v);
    if (x) {
        return g->memo[v] = x;
    } else if (def && def->op != OP_fused && def->home == g->body) {
        x = eval_ins(g, def, e);
        gen_keep(g, v, x);
    } else {
        for (size_t k = 0; k < g->body->args.n; k++)
            if (g->body->args.data[k] == v)
                x = gen_load(g, g->k->operand[k].type.dtype, gen_operand(g, (int)k, e));
    }
    return g->memo[v] = x;
}

void gen_store_result(Gen *g, size_t k, const Env *e)
{
    int o = g->k->nin + (int)k;
    const Operand *to = &g->k->operand[o];
    LLVMValueRef x = gen_eval(g, g->body->results.data[k], e);
    gen_store(g, to->type.dtype, x, gen_operand(g, o, e));
}
