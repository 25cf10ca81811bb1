/* llvm_ahead.c - prefetches what later units read.
 *
 * A processor finds out by itself what comes next while memory is read line after line. It does not
 * in two kinds of kernels, whose units so begin with asking for what is read later:
 *
 * one walk      Rows that lie apart (a part of a join, a tensor of other dims) begin anew in each
 *               unit, and what a unit computes does not hide that: the rows of the next unit.
 * several walks A unit that sums along a short row and goes over it again returns to lines that it
 *               has before it reads new ones, and its sums wait for each other: rows some units on.
 *               On a Zen 5 a norm's gradient over rows of 256 bytes takes a fifth of the time that
 *               it takes without, of 1 KiB half, and of 4 KiB as long (measured). */
#include "codegen/llvm/llvm_body.h"

enum {
    LINE = 64,
    SHORTEST = 16 * LINE, /* rows in bytes: within shorter ones memory does not answer, */
    LONGEST = 128 * LINE, /* in longer ones the begin is no matter */
    WALKED = 32 * LINE,   /* the longest row of several walks */
    FAR = 64 * LINE,      /* so many bytes ahead is what these ask for */
};

/* The stride of an operand along a loop; -1: it is not the same everywhere. */
static int64_t stride_along(const Nest *n, const Operand *o, int loop)
{
    int64_t stride = 0;
    for (int i = 0; i < n->ndims; i++) {
        const int at = n->loop[i] == loop ? operand_dim(o, n->dim[i].name) : -1;
        if (at < 0 || o->stride[at] == 0)
            continue;
        if (n->below[i] || stride)
            return -1;
        stride = o->stride[at];
    }
    return stride;
}

/* The elements without gaps that a unit reads of an operand; 0: they lie apart. */
static int64_t run_of(const Nest *n, const Operand *o)
{
    int64_t run = 1;
    for (int i = n->ninner - 1; i >= 0; i--) {
        const int64_t stride = stride_along(n, o, n->nouter + i);
        if (stride && stride != run)
            return 0;
        if (stride)
            run *= n->inner[i].dim.size;
    }
    return run;
}

/* Do so many units in a row, wherever the first is, mostly lie one stride after the other? */
static bool goes_on(const Nest *n, const Operand *o, int64_t stride, int64_t units)
{
    int64_t even = 1;
    for (int i = n->nouter - 1; i >= 0 && even < 2 * units; i--) {
        if (stride_along(n, o, i) != stride * even)
            return false;
        even *= n->outer[i].dim.size;
    }
    return true;
}

/* Elements from the row that a unit reads to the one that it asks for; 0: to none. `run`: elements
 * of the row. */
static int64_t step_of(const Nest *n, const Operand *o, int64_t run, bool walks)
{
    const int64_t stride = n->nouter ? stride_along(n, o, n->nouter - 1) : 0;
    const int64_t bytes = run * (int64_t)dtype_bytes(o->type.dtype);
    if (stride <= 0)
        return 0;
    if (walks) {
        if (bytes < LINE || bytes > WALKED)
            return 0;
        const int64_t units = (FAR + bytes - 1) / bytes;
        return goes_on(n, o, stride, units) ? units * stride : 0;
    }
    return bytes < SHORTEST || bytes > LONGEST || stride == run ? 0 : stride;
}

void gen_ahead(Gen *g, const Env *e, bool walks)
{
    LlvmModule *l = g->l;
    LLVMTypeRef types[1] = {l->ptr};
    const unsigned id = LLVMLookupIntrinsicID("llvm.prefetch", 13);
    for (int k = 0; k < g->k->nin; k++) {
        const Operand *o = &g->k->operand[k];
        const int64_t size = (int64_t)dtype_bytes(o->type.dtype);
        const int64_t run = g->apart[k] ? 0 : run_of(&g->nest, o), bytes = run * size;
        const int64_t step = step_of(&g->nest, o, run, walks);
        if (!step)
            continue;
        LLVMValueRef row = gen_element(g, g->pointer[k], o, e);
        /* Rows that begin inside of a line end in one more. Behind the last row is no operand:
         * these addresses are nowhere, and nothing is read there. */
        const int64_t lines = (bytes + LINE - 1) / LINE + (step * size % LINE ? 1 : 0);
        LoopCode c = gen_loop_begin(g, gen_int(g, 0), gen_int(g, lines));
        LLVMValueRef at = LLVMBuildNSWMul(l->b, c.index, gen_int(g, LINE), "");
        at = LLVMBuildNSWAdd(l->b, at, gen_int(g, step * size), "");
        LLVMValueRef args[4] = {LLVMBuildGEP2(l->b, l->i8, row, &at, 1, ""),
                                LLVMConstInt(l->i32, 0, 0), LLVMConstInt(l->i32, 2, 0),
                                LLVMConstInt(l->i32, 1, 0)};
        LLVMBuildCall2(l->b, LLVMIntrinsicGetType(l->c, id, types, 1),
                       LLVMGetIntrinsicDeclaration(l->mod, id, types, 1), args, 4, "");
        gen_loop_end(g, &c);
    }
}
