/* llvm_kernel.c - one fused instruction as one LLVM function.
 *
 *   void NAME(ptr p, i64 begin, i64 end)    unpacks the pointers; for u in [begin, end) calls
 *   void NAME.unit(ptr noalias ..., i64 u)  one unit of work
 *
 * The two functions are separate because the bits of a unit must not depend on the other units of
 * its thread. If LLVM vectorised the loop over short units, the bits would depend on them: the
 * remainder of such a loop rounds at other places. The code here makes scalar loops, and LLVM's
 * vectoriser widens them. A value of the body is computed where it is needed, by recursion from the
 * results. An environment has the index of each dim, and a memo has the values that were already
 * computed at these indices. Reductions are computed in loops of their own, stage by stage, and
 * stay in registers. */
#include "codegen/llvm/llvm_body.h"

#include <string.h>

/* ---- map ------------------------------------------------------------------------------------- */

static void map_leaf(Gen *g, const Env *e, void *ctx)
{
    (void)ctx;
    /* All loads before all stores: a result may take an operand's place. */
    for (size_t k = 0; k < g->body->results.n; k++)
        gen_eval(g, g->body->results.data[k], e);
    for (size_t k = 0; k < g->body->results.n; k++)
        gen_store_result(g, k, e);
}

/* columns: NULL, or the wanted columns of the row. */
static void unit_map(Gen *g, const Env *e, LLVMValueRef block, const Bounds *columns)
{
    Bounds b;
    const Bounds *last = columns ? columns : gen_block_bounds(g, block, &b);
    if (!last)
        gen_ahead(g, e, false);
    gen_nest_loops(g, 0, g->nest.ninner, -1, e, last, map_leaf, NULL);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void unit(Gen *g, LLVMValueRef u, const Bounds *columns)
{
    LLVMBuilderRef b = g->l->b;
    LLVMValueRef rest = u, block = NULL;
    Env e = {0};
    if (g->tile.n) {
        gen_unit_tile(g, u, map_leaf);
        return;
    }
    if (g->nest.block) {
        block = LLVMBuildSRem(b, rest, gen_int(g, g->nest.blocks), "");
        rest = LLVMBuildSDiv(b, rest, gen_int(g, g->nest.blocks), "");
    }
    for (int i = g->nest.nouter - 1; i >= 0; i--) {
        LLVMValueRef size = gen_int(g, g->nest.outer[i].dim.size);
        gen_env_loop(g, &e, i, i ? LLVMBuildSRem(b, rest, size, "") : rest);
        rest = i ? LLVMBuildSDiv(b, rest, size, "") : rest;
    }
    if (g->k->phase == PHASE_partial)
        gen_unit_partial(g, &e, u);
    else if (g->nest.kind == NEST_combine)
        gen_unit_combine(g, &e, block);
    else if (g->nest.kind == NEST_row)
        gen_unit_row(g, &e);
    else if (g->nest.kind == NEST_col)
        gen_unit_col(g, &e);
    else
        unit_map(g, &e, block, columns);
}

static void no_alias(LlvmModule *l, LLVMValueRef f, int n)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("noalias", 7);
    for (int i = 0; i < n; i++)
        LLVMAddAttributeAtIndex(f, (unsigned)i + 1, LLVMCreateEnumAttribute(l->c, kind, 0));
}

static void mark(LlvmModule *l, LLVMValueRef f, const char *attribute)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(attribute, strlen(attribute));
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(l->c, kind, 0));
}

void llvm_function_marks(LlvmModule *l, LLVMValueRef f)
{
    static const char width[] = "prefer-vector-width";
    const char *bits = arena_printf(l->arena, "%d", l->vector_bits ? l->vector_bits : 128);
    mark(l, f, "nounwind");
    LLVMAddAttributeAtIndex(
        f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(l->c, width, sizeof width - 1, bits, (unsigned)strlen(bits)));
}

/* The function of one unit. Its arguments are a pointer for each operand that has memory of its
 * own, and the unit, or a row and a range of its columns. */
static int unit_function(Gen *g, const char *name)
{
    LlvmModule *l = g->l;
    LLVMTypeRef in[MAX_OPERANDS + 3];
    int slot[MAX_OPERANDS], n = 0;
    for (int i = 0; i < g->k->noperands; i++) {
        int alias = i >= g->k->nin ? g->k->alias[i] : -1;
        slot[i] = alias >= 0 ? slot[alias] : n;
        if (alias < 0)
            in[n++] = l->ptr;
    }
    const int more = g->k->columns ? 3 : 1;
    for (int i = 0; i < more; i++)
        in[n + i] = l->i64;
    g->fn =
        LLVMAddFunction(l->mod, arena_printf(l->arena, "%s.unit", name),
                        LLVMFunctionType(LLVMVoidTypeInContext(l->c), in, (unsigned)(n + more), 0));
    LLVMSetLinkage(g->fn, LLVMInternalLinkage);
    llvm_function_marks(l, g->fn);
    mark(l, g->fn, "noinline");
    no_alias(l, g->fn, n);
    for (int i = 0; i < g->k->noperands; i++)
        g->pointer[i] = LLVMGetParam(g->fn, (unsigned)slot[i]);
    LLVMPositionBuilderAtEnd(l->b, gen_new_block(g, "entry"));
    LLVMBasicBlockRef start = gen_new_block(g, "start");
    LLVMPositionBuilderAtEnd(l->b, start);
    const Bounds columns = {LLVMGetParam(g->fn, (unsigned)n + more / 2),
                            LLVMGetParam(g->fn, (unsigned)n + more - 1)};
    unit(g, LLVMGetParam(g->fn, (unsigned)n), g->k->columns ? &columns : NULL);
    LLVMBuildRetVoid(l->b);
    LLVMPositionBuilderAtEnd(l->b, LLVMGetEntryBasicBlock(g->fn));
    LLVMBuildBr(l->b, start);
    return n;
}

/* Calls the function of a unit for all of them; `args` begins with n pointers. */
static void all_units(Gen *g, LLVMValueRef one, LLVMValueRef *args, int n)
{
    LlvmModule *l = g->l;
    LoopCode units = gen_loop_begin(g, LLVMGetParam(g->fn, 1), LLVMGetParam(g->fn, 2));
    args[n] = units.index;
    LLVMBuildCall2(l->b, LLVMGlobalGetValueType(one), one, args, (unsigned)n + 1, "");
    gen_loop_end(g, &units);
}

static LLVMValueRef lesser(LlvmModule *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, a, b, ""), a, b, "");
}

/* The same if units are tiles of rows: calls it for each row of the units. */
static void all_rows(Gen *g, LLVMValueRef one, LLVMValueRef *args, int n)
{
    LLVMBuilderRef b = g->l->b;
    LLVMValueRef begin = LLVMGetParam(g->fn, 1), end = LLVMGetParam(g->fn, 2);
    LLVMValueRef tiles = gen_int(g, g->k->columns / MG_TILE), tile = gen_int(g, MG_TILE);
    LLVMValueRef before = LLVMBuildNSWAdd(b, end, gen_int(g, g->k->columns / MG_TILE - 1), "");
    LoopCode rows =
        gen_loop_begin(g, LLVMBuildSDiv(b, begin, tiles, ""), LLVMBuildSDiv(b, before, tiles, ""));
    LLVMValueRef first = LLVMBuildNSWMul(b, rows.index, tiles, "");
    LLVMValueRef from = LLVMBuildNSWSub(b, begin, first, "");
    LLVMValueRef later = LLVMBuildICmp(b, LLVMIntSLT, from, gen_int(g, 0), "");
    from = LLVMBuildSelect(b, later, gen_int(g, 0), from, "");
    args[n] = rows.index;
    args[n + 1] = LLVMBuildNSWMul(b, from, tile, "");
    args[n + 2] =
        LLVMBuildNSWMul(b, lesser(g->l, LLVMBuildNSWSub(b, end, first, ""), tiles), tile, "");
    LLVMBuildCall2(b, LLVMGlobalGetValueType(one), one, args, (unsigned)n + 3, "");
    gen_loop_end(g, &rows);
}

void llvm_kernel(LlvmModule *l, const Kernel *k)
{
    const char *name = name_str(l->m->names, k->name);
    size_t n = l->m->values.n;
    Kernel mine = *k;
    Gen g = {.l = l, .k = &mine, .body = k->ins->body, .nest = nest_on_host(l->m, k)};
    g.tile = nest_tile(l->m, &g.nest, k);
    gen_choose_packed(&g, &mine);
    g.memo = NEW_ARRAY(l->arena, LLVMValueRef, n);
    g.reduced = NEW_ARRAY(l->arena, LLVMValueRef, n);
    g.stage = NEW_ARRAY(l->arena, int, n);
    g.kept = NEW_ARRAY(l->arena, Kept, n);
    int pointers = unit_function(&g, name);

    LLVMTypeRef in[3] = {l->ptr, l->i64, l->i64};
    LLVMValueRef one = g.fn;
    g.fn = LLVMAddFunction(l->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(l->c), in, 3, 0));
    llvm_function_marks(l, g.fn);
    LLVMPositionBuilderAtEnd(l->b, gen_new_block(&g, "entry"));
    LLVMValueRef args[MAX_OPERANDS + 3];
    for (int i = 0, at = 0; i < k->noperands; i++) {
        if (i >= k->nin && k->alias[i] >= 0)
            continue;
        LLVMValueRef index = gen_int(&g, i);
        LLVMValueRef slot =
            LLVMBuildInBoundsGEP2(l->b, l->ptr, LLVMGetParam(g.fn, 0), &index, 1, "");
        args[at] = LLVMBuildLoad2(l->b, l->ptr, slot, "");
        if (g.apart[i])
            args[at] = gen_packed(&g, i, args[at]);
        at++;
    }
    (k->columns ? all_rows : all_units)(&g, one, args, pointers);
    LLVMBuildRetVoid(l->b);
}
