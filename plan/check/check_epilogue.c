/* check_epilogue.c - a kernel that goes on with a product: each by itself, and that they do not
 * meet.
 *
 * Pieces of the result are finished in any order, and the kernel goes on with each at once. So what
 * it writes may be nothing that the product still reads or gives, but the piece itself; of the
 * result it may read that piece alone; and of all else that the product gives, nothing. */
#include "plan/check/check_run.h"

/* Index of the kernel's operand that is the product's result; -1: none is, or its strides differ.
 */
static int result_of(Check *c, const Action *product, const Action *kernel, const Ins *i)
{
    for (int n = 0; n < (int)i->nin && n < kernel->noperands; n++)
        if (kernel->operand[n].value == product->operand[2].value)
            return lie_alike(c, &kernel->operand[n], &product->operand[2]) ? n : -1;
    return -1;
}

static bool meet(Check *c, const Action *product, const Action *kernel, int result)
{
    for (int n = 0; n < kernel->noperands; n++)
        for (int r = 0; r < product->noperands; r++) {
            const Operand *x = &kernel->operand[n], *y = &product->operand[r];
            if (n == result || !(x->write || y->write) || !overlap(c, x, y))
                continue;
            if (r == 2 && x->write && lie_alike(c, x, y))
                continue; /* in its place: as of any kernel */
            broken(c, 2, "the kernel's operand %d meets the product's, %d", n, r);
            return true;
        }
    return false;
}

void run_with_kernel(Check *c, const Action *a)
{
    Action product = *a, kernel = *a;
    product.noperands = a->epilogue;
    kernel.noperands -= a->epilogue;
    kernel.operand += a->epilogue;
    kernel.kind = ACT_kernel;
    product.epilogue = kernel.epilogue = 0;
    const Ins *i = instruction_of(c, &kernel);
    const int result = i && i->op == OP_fused ? result_of(c, &product, &kernel, i) : -1;
    if (result < 0 || a->kernel >= c->p->kernels.n ||
        c->p->kernels.data[a->kernel].columns != product.gemm.n || product.gemm.n % MG_TILE ||
        product.gemm.batch != 1 || (product.gemm.m > 1 && product.gemm.ldc != product.gemm.n) ||
        c->p->device->target != TARGET_host || !kernel_by_elements(c->m, i, (uint32_t)result)) {
        broken(c, 3, "the kernel cannot go on with the product's result");
        return;
    }
    if (meet(c, &product, &kernel, result))
        return;
    run_action(c, &product);
    run_action(c, &kernel);
}
