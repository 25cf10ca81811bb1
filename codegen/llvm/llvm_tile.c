/* llvm_tile.c - one tile of a pointwise kernel (nest_tile.c).
 *
 *   1. copies the operands that are read and lie across the innermost loop into blocks, turned
 *   2. loops over the tile: the body, on blocks and on the other operands
 *   3. copies written blocks out, turned back
 *
 * Tiles next to each other in memory are seldom computed one after the other, and a row of one is
 * too short for a processor to see where the next begins: what the next tile reads and writes is
 * prefetched row by row.
 *
 * Squares are turned in registers (square): a square has the elements of a line, and as many
 * iterations of the innermost loop. At the edges of a tile the remaining elements are copied one by
 * one. A copy changes no bit. */
#include "codegen/llvm/llvm_body.h"

/* A unit at the point before its loops. */
typedef struct Tile {
    LLVMValueRef from[NEST_TILED], count[NEST_TILED];
    Env start; /* every loop, the tiled ones at `from` */
    Env outer; /* the loops that are not tiled */
} Tile;

/* One side of a copy, a block or memory, and the position that the copy has reached. */
typedef struct Side {
    LLVMValueRef at;
    const int64_t *stride;
} Side;

static LLVMTypeRef bits_of(const LlvmModule *l, DType t)
{
    return LLVMIntTypeInContext(l->c, (unsigned)dtype_bytes(t) * 8);
}

/* The number of elements along an edge of a square: that of a vector, 16 at most. */
static int edge_of(const LlvmModule *l, DType t)
{
    int max = (l->vector_bits ? l->vector_bits : 128) / 8 / (int)dtype_bytes(t);
    return max < 16 ? max : 16;
}

/* ---- the next tile -----------------------------------------------------------------------------
 */

enum { CACHE_LINE = 64 };

/* Prefetches the cache line at an address; `write`: which will be written. */
static void prefetch(Gen *g, LLVMValueRef at, bool write)
{
    LlvmModule *l = g->l;
    enum { SECOND_LEVEL = 2, DATA = 1 };
    LLVMValueRef args[4] = {at, LLVMConstInt(l->i32, write, 0),
                            LLVMConstInt(l->i32, SECOND_LEVEL, 0), LLVMConstInt(l->i32, DATA, 0)};
    llvm_intrinsic(l, "llvm.prefetch", l->ptr, 4, args);
}

/* Of the next tile, the lines of a run of n elements that are in the place of those at `at`. Behind
 * the last tile there is none: the address is of nothing, and is not read. */
static void prefetch_run(Gen *g, int o, LLVMValueRef at, int64_t n)
{
    const DType t = g->k->operand[o].type.dtype;
    const int64_t step = CACHE_LINE / dtype_bytes(t);
    for (int64_t i = 0; i < n; i += step) {
        LLVMValueRef there = LLVMBuildAdd(g->l->b, g->ahead[o], gen_int(g, i), "");
        LLVMValueRef line = LLVMBuildGEP2(g->l->b, llvm_memory_type(g->l, t), at, &there, 1, "");
        prefetch(g, line, o >= g->k->nin);
    }
}

/* ---- a square -------------------------------------------------------------------------------- */

/* Takes each pair of rows at `distance` from each other, and exchanges their blocks of `distance`
 * elements off the diagonal. */
static void swap_blocks(LlvmModule *l, LLVMValueRef *a, LLVMValueRef *b, int edge, int distance)
{
    LLVMValueRef first[16], second[16];
    for (int j = 0; j < edge; j++) {
        bool low = !(j & distance);
        first[j] = LLVMConstInt(LLVMInt32TypeInContext(l->c),
                                (unsigned)(low ? j : edge + j - distance), 0);
        second[j] = LLVMConstInt(LLVMInt32TypeInContext(l->c),
                                 (unsigned)(low ? j + distance : edge + j), 0);
    }
    LLVMValueRef x =
        LLVMBuildShuffleVector(l->b, *a, *b, LLVMConstVector(first, (unsigned)edge), "");
    *b = LLVMBuildShuffleVector(l->b, *a, *b, LLVMConstVector(second, (unsigned)edge), "");
    *a = x;
}

static LLVMValueRef row_at(LlvmModule *l, LLVMTypeRef element, LLVMValueRef base,
                           LLVMValueRef stride, int row)
{
    LLVMValueRef n = LLVMConstInt(l->i64, (unsigned)row, 0);
    LLVMValueRef offset = LLVMBuildNSWMul(l->b, stride, n, "");
    return LLVMBuildInBoundsGEP2(l->b, element, base, &offset, 1, "");
}

/* The function (to, stride, from, stride) that turns a square of rows; strides in elements. */
static LLVMValueRef square_function(Gen *g, DType t)
{
    LlvmModule *l = g->l;
    int edge = edge_of(l, t);
    const char *name = arena_printf(l->arena, "square.%d.%d", (int)dtype_bytes(t), edge);
    LLVMValueRef f = LLVMGetNamedFunction(l->mod, name);
    if (f)
        return f;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMMetadataRef place = LLVMGetCurrentDebugLocation2(l->b);
    LLVMSetCurrentDebugLocation2(l->b, NULL);
    LLVMTypeRef in[4] = {l->ptr, l->i64, l->ptr, l->i64}, element = bits_of(l, t);
    LLVMTypeRef vector = LLVMVectorType(element, (unsigned)edge);
    f = LLVMAddFunction(l->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(l->c), in, 4, 0));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    llvm_function_marks(l, f);
    LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->c, f, "entry"));
    LLVMValueRef row[16];
    for (int i = 0; i < edge; i++) {
        row[i] = LLVMBuildLoad2(l->b, vector,
                                row_at(l, element, LLVMGetParam(f, 2), LLVMGetParam(f, 3), i), "");
        LLVMSetAlignment(row[i], (unsigned)dtype_bytes(t));
    }
    for (int distance = 1; distance < edge; distance *= 2)
        for (int i = 0; i < edge; i++)
            if (!(i & distance))
                swap_blocks(l, &row[i], &row[i + distance], edge, distance);
    for (int i = 0; i < edge; i++)
        LLVMSetAlignment(
            LLVMBuildStore(l->b, row[i],
                           row_at(l, element, LLVMGetParam(f, 0), LLVMGetParam(f, 1), i)),
            (unsigned)dtype_bytes(t));
    LLVMBuildRetVoid(l->b);
    LLVMPositionBuilderAtEnd(l->b, here);
    LLVMSetCurrentDebugLocation2(l->b, place);
    return f;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static LLVMValueRef stepped(Gen *g, DType t, LLVMValueRef at, LLVMValueRef index, int64_t stride)
{
    LLVMValueRef offset = LLVMBuildNSWMul(g->l->b, index, gen_int(g, stride), "");
    return LLVMBuildInBoundsGEP2(g->l->b, bits_of(g->l, t), at, &offset, 1, "");
}

/* Copies one by one: the loops of a line from its `k`th on, and the innermost loop from `done`. */
static void copy_elements(Gen *g, const Tile *t, int o, int k, LLVMValueRef done, Side to,
                          Side from)
{
    const NestTurned *u = &g->tile.turned[o];
    DType type = g->k->operand[o].type.dtype;
    bool last = k == u->n;
    int tiled = last ? g->tile.n - 1 : u->tiled[k];
    LoopCode c = gen_loop_begin(g, last ? done : gen_int(g, 0), t->count[tiled]);
    to.at = stepped(g, type, to.at, c.index, to.stride[tiled]);
    from.at = stepped(g, type, from.at, c.index, from.stride[tiled]);
    if (last) {
        LLVMValueRef x = LLVMBuildLoad2(g->l->b, bits_of(g->l, type), from.at, "");
        LLVMSetAlignment(x, (unsigned)dtype_bytes(type));
        LLVMSetAlignment(LLVMBuildStore(g->l->b, x, to.at), (unsigned)dtype_bytes(type));
    } else {
        copy_elements(g, t, o, k + 1, done, to, from);
    }
    gen_loop_end(g, &c);
}

/* Does the tile have whole lines? */
static LLVMValueRef whole_lines(Gen *g, const Tile *t, const NestTurned *u)
{
    LLVMValueRef all = LLVMConstInt(g->l->i1, 1, 0);
    for (int k = u->n - u->run; k < u->n; k++) {
        LLVMValueRef size = gen_int(g, g->tile.size[u->tiled[k]]);
        LLVMValueRef whole = LLVMBuildICmp(g->l->b, LLVMIntEQ, t->count[u->tiled[k]], size, "");
        all = LLVMBuildAnd(g->l->b, all, whole, "");
    }
    return all;
}

/* Copies lines and the innermost loop, square by square, then the remaining elements. in: into the
 * block. */
static void copy_lines(Gen *g, const Tile *t, int o, bool in, Side to, Side from)
{
    LLVMBuilderRef b = g->l->b;
    const NestTurned *u = &g->tile.turned[o];
    DType type = g->k->operand[o].type.dtype;
    int edge = edge_of(g->l, type), last = g->tile.n - 1;
    int64_t block_row = g->tile.size[last], across = u->at[last];
    LLVMValueRef done = gen_int(g, 0);
    if (u->line >= edge && u->line % edge == 0 && g->tile.size[last] >= edge) {
        LLVMValueRef f = square_function(g, type);
        LLVMValueRef rows = LLVMBuildSDiv(b, t->count[last], gen_int(g, edge), "");
        rows = LLVMBuildSelect(b, whole_lines(g, t, u), rows, done, "");
        LoopCode c = gen_loop_begin(g, gen_int(g, 0), rows);
        LLVMValueRef first = LLVMBuildNSWMul(b, c.index, gen_int(g, edge), "");
        for (int64_t line = 0; line < u->line; line += edge) {
            int64_t to_line = in ? line * block_row : line,
                    from_line = in ? line : line * block_row;
            LLVMValueRef x = stepped(g, type, to.at, gen_int(g, to_line), 1);
            LLVMValueRef y = stepped(g, type, from.at, gen_int(g, from_line), 1);
            LLVMValueRef args[4] = {
                stepped(g, type, x, first, to.stride[last]), gen_int(g, in ? block_row : across),
                stepped(g, type, y, first, from.stride[last]), gen_int(g, in ? across : block_row)};
            LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, args, 4, "");
            for (int i = 0; i < edge; i++)
                prefetch_run(g, o, stepped(g, type, args[in ? 2 : 0], gen_int(g, i), across), edge);
        }
        gen_loop_end(g, &c);
        done = LLVMBuildNSWMul(b, rows, gen_int(g, edge), "");
    }
    copy_elements(g, t, o, u->n - u->run, done, to, from);
}

static void copy_block(Gen *g, const Tile *t, int o, int k, bool in, Side to, Side from)
{
    const NestTurned *u = &g->tile.turned[o];
    DType type = g->k->operand[o].type.dtype;
    if (k == u->n - u->run) {
        copy_lines(g, t, o, in, to, from);
        return;
    }
    int tiled = u->tiled[k];
    LoopCode c = gen_loop_begin(g, gen_int(g, 0), t->count[tiled]);
    to.at = stepped(g, type, to.at, c.index, to.stride[tiled]);
    from.at = stepped(g, type, from.at, c.index, from.stride[tiled]);
    copy_block(g, t, o, k + 1, in, to, from);
    gen_loop_end(g, &c);
}

static void copy_turned(Gen *g, const Tile *t, int o, bool in)
{
    const NestTurned *u = &g->tile.turned[o];
    Side block = {g->turned[o], u->in};
    Side memory = {gen_element(g, g->pointer[o], &g->k->operand[o], &t->start), u->at};
    copy_block(g, t, o, 0, in, in ? block : memory, in ? memory : block);
}

/* ---- a unit ---------------------------------------------------------------------------------- */

LLVMValueRef gen_turned(Gen *g, int operand)
{
    const NestTurned *u = &g->tile.turned[operand];
    LLVMValueRef at = g->turned[operand];
    for (int i = 0; i < g->tile.n; i++)
        if (u->in[i])
            at = stepped(g, g->k->operand[operand].type.dtype, at, g->within[i], u->in[i]);
    return at;
}

static LLVMValueRef new_block(Gen *g, int o)
{
    LlvmModule *l = g->l;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMPositionBuilderAtEnd(l->b, LLVMGetEntryBasicBlock(g->fn));
    LLVMTypeRef type =
        LLVMArrayType2(bits_of(l, g->k->operand[o].type.dtype), (uint64_t)g->tile.turned[o].block);
    LLVMValueRef a = LLVMBuildAlloca(l->b, type, "block");
    LLVMSetAlignment(a, 64);
    LLVMPositionBuilderAtEnd(l->b, here);
    return a;
}

/* The tile of unit u. */
static Tile find_tile(Gen *g, LLVMValueRef u)
{
    LLVMBuilderRef b = g->l->b;
    const Nest *n = &g->nest;
    Tile t = {0};
    int tiled = g->tile.n - 1;
    for (int i = n->nouter + n->ninner - 1; i >= 0; i--) {
        int64_t of = nest_loop(n, i)->dim.size;
        bool cut = tiled >= 0 && g->tile.loop[tiled] == i;
        LLVMValueRef pieces = gen_int(g, cut ? g->tile.pieces[tiled] : of);
        LLVMValueRef index = i ? LLVMBuildSRem(b, u, pieces, "") : u;
        u = i ? LLVMBuildSDiv(b, u, pieces, "") : u;
        if (!cut) {
            gen_env_loop(g, &t.outer, i, index);
            gen_env_loop(g, &t.start, i, index);
            continue;
        }
        LLVMValueRef size = gen_int(g, g->tile.size[tiled]);
        t.from[tiled] = LLVMBuildNSWMul(b, index, size, "");
        LLVMValueRef left = LLVMBuildNSWSub(b, gen_int(g, of), t.from[tiled], "");
        LLVMValueRef less = LLVMBuildICmp(b, LLVMIntSLT, left, size, "");
        t.count[tiled] = of % g->tile.size[tiled] ? LLVMBuildSelect(b, less, left, size, "") : size;
        gen_env_loop(g, &t.start, i, t.from[tiled]);
        tiled--;
    }
    return t;
}

/* Is an operand read or written along the innermost loop, a run a row? */
static bool goes_by_rows(const Gen *g, int o)
{
    const Operand *x = &g->k->operand[o];
    const int d = operand_dim(x, nest_loop(&g->nest, g->tile.loop[g->tile.n - 1])->dim.name);
    return !g->turned[o] && d >= 0 && x->stride[d] == 1 && !(o >= g->k->nin && g->k->alias[o] >= 0);
}

static void tile_loops(Gen *g, const Tile *t, int at, const Env *e, Leaf *leaf)
{
    if (at == g->tile.n) {
        gen_forget(g);
        leaf(g, e, NULL);
        return;
    }
    if (at == g->tile.n - 1) {
        Env row = *e;
        gen_env_loop(g, &row, g->tile.loop[at], t->from[at]);
        for (int o = 0; o < g->k->noperands; o++)
            if (goes_by_rows(g, o))
                prefetch_run(g, o, gen_element(g, g->pointer[o], &g->k->operand[o], &row),
                             g->tile.size[at]);
    }
    LoopCode c = gen_loop_begin(g, gen_int(g, 0), t->count[at]);
    Env inner = *e;
    g->within[at] = c.index;
    gen_env_loop(g, &inner, g->tile.loop[at], LLVMBuildNSWAdd(g->l->b, t->from[at], c.index, ""));
    tile_loops(g, t, at + 1, &inner, leaf);
    gen_loop_end(g, &c);
}

/* Elements from where an operand is at the start of a tile to where it is at the next one's. */
static LLVMValueRef tiles_apart(Gen *g, const Operand *o, const Tile *t, const Tile *next)
{
    LLVMValueRef sum = gen_int(g, 0);
    for (int i = 0; i < o->type.rank; i++) {
        LLVMValueRef a = gen_index(&t->start, o->type.dims[i].name);
        LLVMValueRef b = gen_index(&next->start, o->type.dims[i].name);
        if (!a || !b || o->stride[i] == 0)
            continue;
        LLVMValueRef by = LLVMBuildSub(g->l->b, b, a, "");
        by = LLVMBuildMul(g->l->b, by, gen_int(g, o->stride[i]), "");
        sum = LLVMBuildAdd(g->l->b, sum, by, "");
    }
    return sum;
}

void gen_unit_tile(Gen *g, LLVMValueRef u, Leaf *leaf)
{
    const Tile t = find_tile(g, u);
    const Tile next = find_tile(g, LLVMBuildNSWAdd(g->l->b, u, gen_int(g, 1), ""));
    for (int o = 0; o < g->k->noperands; o++) {
        g->ahead[o] = tiles_apart(g, &g->k->operand[o], &t, &next);
        if (g->tile.turned[o].n)
            g->turned[o] = new_block(g, o);
    }
    for (int o = 0; o < g->k->nin; o++)
        if (g->turned[o])
            copy_turned(g, &t, o, true);
    tile_loops(g, &t, 0, &t.outer, leaf);
    for (int o = g->k->nin; o < g->k->noperands; o++)
        if (g->turned[o])
            copy_turned(g, &t, o, false);
}
