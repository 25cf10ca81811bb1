/* schedule_epilogue.c - kernels that go on with a product: a bias, an activation.
 *
 * A host's product finishes its result a piece at a time. A kernel that comes right after it and
 * needs of the result at each index what is there, and nothing else, is called by the product on
 * each piece, which is in the cache then (mg_gemm_epilogue). Both are one action, with the operands
 * of the one and of the other: as pieces are done at different times, all of them are alive as long
 * as it runs, and what the kernel writes may not be what the product still reads.
 *
 * Not where the kernel reads another matrix as large, a gate or a residual: that has to come from
 * memory in pieces, and drives out what the product has near; then the kernel is no slower by
 * itself (kernels/README.md has the measurements). */
#include "plan/schedule/schedule.h"
#include "passes/view.h"
#include "plan/nest.h"

#include <string.h>

enum { RESULT = 2 }; /* the operand of a product */

/* Does i read a matrix as large as its operand c, but that? */
static bool reads_another(const Sched *s, const Ins *i, uint32_t c)
{
    const int64_t elements = type_elements(type_of(s->m, i->in[c]));
    for (uint32_t n = 0; n < i->nin; n++)
        if (n != c && type_elements(type_of(s->m, i->in[n])) >= elements)
            return true;
    return false;
}

/* The product that instruction i comes right after and whose result it reads; *c: as which operand.
 */
static Action *product_before(const Sched *s, const Ins *i, uint32_t *c)
{
    Action *a = s->prog->actions.n ? &s->prog->actions.data[s->prog->actions.n - 1] : NULL;
    if (s->p->device->target != TARGET_host || !a || a->kind != ACT_gemm || a->epilogue ||
        a->gemm.batch != 1 || a->gemm.n % MG_TILE || a->again != i->again)
        return NULL;
    for (*c = 0; *c < i->nin; ++*c)
        if (i->in[*c] == a->operand[RESULT].value)
            return reads_another(s, i, *c) ? NULL : a;
    return NULL;
}

/* Is all that there is in a value's buffer this value? */
static bool has_own_buffer(const Sched *s, Value v)
{
    const Loc *l = loc_of(s, v);
    const Buffer *b = &s->p->buffers.data[l->at.buffer];
    return b->value == v && !b->persistent && !l->at.offset && !l->at.nloops;
}

void take_place_of_product(Sched *s, const Ins *i)
{
    uint32_t c;
    if (!product_before(s, i, &c) || !has_own_buffer(s, i->in[c]) || used_after(s, i, i->in[c]))
        return;
    for (uint32_t k = 0; k < i->nout; k++) {
        const Value v = i->out[k];
        if (!loc_of(s, v)->known && !want_of(s, v)->set && takes_over(s->m, i, v, i->in[c])) {
            *loc_of(s, v) = *loc_of(s, i->in[c]);
            return;
        }
    }
}

/* Do kernel and product keep apart, but for the result, which is the kernel's operand c? By
 * buffers, which is more than is needed where slots of one are meant. */
static bool keep_apart(const Action *a, const Kernel *k, int c)
{
    for (int n = 0; n < k->noperands; n++)
        for (int r = 0; r < a->noperands && n != c; r++) {
            const bool same = k->operand[n].at.buffer == a->operand[r].at.buffer;
            if (same && n >= k->nin ? r != RESULT || k->alias[n] != c : same && a->operand[r].write)
                return false;
        }
    return true;
}

static bool lies_as_result(const Action *a, const Kernel *k, int c)
{
    const Operand *x = &a->operand[RESULT], *y = &k->operand[c];
    Loc p = {.known = true, .at = x->at}, q = {.known = true, .at = y->at};
    memcpy(p.stride, x->stride, sizeof p.stride);
    memcpy(q.stride, y->stride, sizeof q.stride);
    return loc_equal(&p, &q, &x->type) && (a->gemm.m == 1 || a->gemm.ldc == a->gemm.n);
}

/* The ranks along the axis of stages that do it. */
static StageSet stage_set_of(const Sched *s, const Ins *i)
{
    StageSet on = 0;
    for (uint32_t k = 0; k < i->nout; k++)
        on |= s->at[i->out[k]];
    return on ? on : AT_ALL;
}

Action *goes_on_with(Sched *s, Kernel *k)
{
    uint32_t c;
    Action *a = product_before(s, k->ins, &c);
    if (!a || a->on != stage_set_of(s, k->ins) || a->noperands + k->noperands > MAX_OPERANDS ||
        !lies_as_result(a, k, (int)c) || !keep_apart(a, k, (int)c))
        return NULL;
    k->columns = a->gemm.n;
    if (kernel_goes_by_rows(s->m, k, (int)c))
        return a;
    k->columns = 0;
    return NULL;
}

/* The result is read where it was just written, and what takes its place is written there once. */
void go_on(Sched *s, Action *a, const Kernel *k, uint32_t number, Cost c)
{
    Operand *all = NEW_ARRAY(s->m->arena, Operand, a->noperands + k->noperands);
    memcpy(all, a->operand, (size_t)a->noperands * sizeof *all);
    memcpy(all + a->noperands, k->operand, (size_t)k->noperands * sizeof *all);
    for (int n = 0; n < k->noperands; n++)
        if (all[a->noperands + n].at.buffer == a->operand[RESULT].at.buffer)
            c.bytes -= (double)type_bytes(&k->operand[n].type);
    a->kernel = number;
    a->epilogue = a->noperands;
    a->operand = all;
    a->noperands += k->noperands;
    price_more(s, a, c);
}
