/* check_overlap.c - P2 within one action: what it writes over what else it has. */
#include "plan/check/check_run.h"

#include <stdlib.h>

static int64_t end_of(const Check *c, const Operand *o)
{
    int64_t last = 0;
    for (int i = 0; i < o->type.rank; i++)
        last += (o->type.dims[i].size - 1) * o->stride[i];
    return address_of(c, &o->at) + (last + 1) * dtype_bytes(o->type.dtype);
}

/* The bytes that an operand has of each `period`: how many in a row. 0: a stride inside the period
 * is below zero; one outside of it is a multiple of it. */
static int64_t bytes_of_period(const Operand *o, int64_t period)
{
    const int64_t element = dtype_bytes(o->type.dtype);
    int64_t bytes = element;
    for (int i = 0; i < o->type.rank; i++) {
        const int64_t step = o->stride[i] * element;
        if (o->type.dims[i].size == 1 || step % period == 0)
            continue;
        if (step < 0)
            return 0;
        bytes += (o->type.dims[i].size - 1) * step;
    }
    return bytes;
}

/* Do two operands take turns in the same bytes, each with its own part of a period, as the parts of
 * one tensor do? The period is a stride of a. */
static bool take_turns(const Check *c, const Operand *a, const Operand *b)
{
    for (int i = 0; i < a->type.rank; i++) {
        const int64_t period = a->stride[i] * dtype_bytes(a->type.dtype);
        if (a->type.dims[i].size == 1 || period <= 0)
            continue;
        const bool b_first = address_of(c, &b->at) < address_of(c, &a->at);
        const int64_t first = bytes_of_period(b_first ? b : a, period),
                      second = bytes_of_period(b_first ? a : b, period),
                      from = llabs(address_of(c, &a->at) - address_of(c, &b->at)) % period;
        if (first && second && first <= from && from + second <= period)
            return true;
    }
    return false;
}

bool overlap(const Check *c, const Operand *a, const Operand *b)
{
    return address_of(c, &a->at) < end_of(c, b) && address_of(c, &b->at) < end_of(c, a) &&
           !take_turns(c, a, b);
}

bool lie_alike(const Check *c, const Operand *a, const Operand *b)
{
    if (address_of(c, &a->at) != address_of(c, &b->at) || !type_equal(&a->type, &b->type))
        return false;
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dims[i].size > 1 && a->stride[i] != b->stride[i])
            return false;
    return true;
}

/* May operand w, which is written, take operand r's place? Those are all cases there are. */
static bool may_share(const Check *c, const Action *a, const Ins *i, int w, int r)
{
    const Kernel *k = a->kind == ACT_kernel ? &c->p->kernels.data[a->kernel] : NULL;
    if (!lie_alike(c, &a->operand[w], &a->operand[r]))
        return false;
    if (a->kind == ACT_xent_grad)
        return w == 4 && r == 0;
    return k && i && k->phase == PHASE_whole && r < (int)i->nin && w >= (int)i->nin &&
           kernel_in_place(c->m, i, (uint32_t)w - i->nin, (uint32_t)r) && k->alias[w] == r;
}

void check_overlaps(Check *c, const Action *a, const Ins *i)
{
    for (int w = 0; w < a->noperands; w++)
        for (int r = 0; a->operand[w].write && r < a->noperands; r++)
            if (r != w && !(a->operand[r].write && r > w) &&
                overlap(c, &a->operand[w], &a->operand[r]) && !may_share(c, a, i, w, r)) {
                broken(c, 2, "operand %d is written over operand %d, '%s'", w, r,
                       value_name(c, a->operand[r].value));
                return;
            }
}
