/* llvm_ahead.c - prefetches what the next unit reads.
 *
 * A processor finds out by itself what comes next while memory is read line after line. Rows that
 * lie apart (a part of a join, a tensor of other dims) begin anew in each unit: the first lines of
 * each row are waited for, and what a unit computes does not hide that. So a unit first asks for
 * the rows of the next one. Of kernels that sum along rows, which walk them several times, and of
 * rows of 256 bytes it was no gain (measured). */
#include "codegen/llvm/llvm_body.h"

enum {
    LINE = 64,
    SHORTEST = 16 * LINE, /* rows in bytes: within shorter ones memory does not answer, */
    LONGEST = 128 * LINE, /* in longer ones the begin is no matter */
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

/* Elements from the row of a unit to that of the next one; 0: it follows without a gap, so that the
 * processor reads on by itself, or there is none. */
static int64_t step_of(const Nest *n, const Operand *o, int64_t run)
{
    const int64_t stride = n->nouter ? stride_along(n, o, n->nouter - 1) : 0;
    return stride <= 0 || stride == run ? 0 : stride;
}

void gen_ahead(Gen *g, const Env *e)
{
    LlvmModule *l = g->l;
    LLVMTypeRef types[1] = {l->ptr};
    const unsigned id = LLVMLookupIntrinsicID("llvm.prefetch", 13);
    for (int k = 0; k < g->k->nin; k++) {
        const Operand *o = &g->k->operand[k];
        const int64_t size = (int64_t)dtype_bytes(o->type.dtype);
        const int64_t run = g->apart[k] ? 0 : run_of(&g->nest, o), bytes = run * size;
        if (bytes < SHORTEST || bytes > LONGEST)
            continue;
        const int64_t step = step_of(&g->nest, o, run);
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
