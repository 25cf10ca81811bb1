/* llvm_packed.c - small operands whose elements lie apart, packed once for all units of a call.
 *
 * The taps of a convolution of each channel, w[channel, tap], are read one tap at a time: every
 * fourth number. A unit that reads them so gathers; for hundreds of units a copy on the stack pays.
 */
#include "codegen/llvm/llvm_body.h"

enum {
    PACKED_BYTES = 1 << 17, /* of one kernel's operands on the stack of a thread: no more than the
                               second-level cache has */
    UNITS_MIN = 4           /* of a call, for a copy to pay */
};

/* The one dim of an operand with more than one element, in its type; -1: there are several, or
 * none. */
static int only_dim(const Operand *o)
{
    int only = -1;
    for (int i = 0; i < o->type.rank; i++)
        if (o->type.dims[i].size > 1 && o->stride[i] != 0) {
            if (only >= 0)
                return -1;
            only = i;
        }
    return only;
}

static bool is_written(const Kernel *k, int o)
{
    for (int i = k->nin; i < k->noperands; i++)
        if (k->alias[i] == o)
            return true;
    return false;
}

/* Do the units gather operand o along their innermost loop, and nothing else of it? */
static bool gathered(const Gen *g, int o)
{
    const Nest *n = &g->nest;
    const Operand *x = &g->k->operand[o];
    const int at = only_dim(x), d = at < 0 ? -1 : nest_dim(n, x->type.dims[at].name);
    return d >= 0 && n->ninner && n->loop[d] == n->nouter + n->ninner - 1 && x->stride[at] != 1 &&
           !is_written(g->k, o);
}

void gen_choose_packed(Gen *g, Kernel *k)
{
    int64_t bytes = 0;
    if (g->tile.n || k->columns || k->grain < UNITS_MIN || k->phase == PHASE_combine)
        return;
    for (int o = 0; o < k->nin; o++) {
        Operand *x = &k->operand[o];
        const int at = only_dim(x);
        if (!gathered(g, o))
            continue;
        const int64_t more = x->type.dims[at].size * dtype_bytes(x->type.dtype);
        if (bytes + more > PACKED_BYTES)
            continue;
        bytes += more;
        g->apart[o] = x->stride[at];
        x->stride[at] = 1;
    }
}

LLVMValueRef gen_packed(Gen *g, int o, LLVMValueRef from)
{
    LLVMBuilderRef b = g->l->b;
    const Operand *x = &g->k->operand[o];
    const DType t = x->type.dtype;
    const int64_t n = x->type.dims[only_dim(x)].size;
    LLVMTypeRef element = llvm_memory_type(g->l, t);
    LLVMValueRef to = LLVMBuildArrayAlloca(b, element, gen_int(g, n), "packed");
    LLVMSetAlignment(to, 64);
    LoopCode c = gen_loop_begin(g, gen_int(g, 0), gen_int(g, n));
    LLVMValueRef there = LLVMBuildNSWMul(b, c.index, gen_int(g, g->apart[o]), "");
    LLVMValueRef number = LLVMBuildLoad2(b, element, gen_address(g, from, t, there), "");
    LLVMSetAlignment(number, (unsigned)dtype_bytes(t));
    LLVMBuildStore(b, number, gen_address(g, to, t, c.index));
    gen_loop_end(g, &c);
    return to;
}
