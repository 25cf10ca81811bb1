/* largest.c - pass largest: the largest number of ranks of several axes is found along one group of
 * axes after the other.
 *
 *   before:  a = all_reduce m {axes=dp.ep.tp, max}
 *   after:   t = all_reduce m {axes=tp, max};  e = all_reduce t {axes=ep, max}
 *            a = all_reduce e {axes=dp, max}
 *
 * A ring of all ranks has as many steps as they are, those of the axes as many as these are long
 * together. Which number is the largest depends on no order: every bit is as before. A group begins
 * at each axis that is `apart` of those inside of it (decide/apart.c), and the innermost is first.
 *
 * why here: behind send_narrow, which looks for one collective of all ranks. */
#include "passes/passes.h"
#include "passes/walk.h"

/* The innermost group of these. */
static Axes innermost(const Module *m, Axes axes)
{
    Axes group = 0;
    for (size_t k = m->layout.mesh.n; k-- > 0;) {
        const Axes axis = (Axes)1 << k;
        if (group && m->layout.mesh.data[k].apart)
            break;
        group |= axis & axes;
    }
    return group;
}

static void region(Module *m, Region *r)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        if (i->body)
            region(m, i->body);
        Builder b = builder_at(m, r, i);
        while (i->op == OP_all_reduce && i->attrs.max) {
            Attrs a = i->attrs;
            a.axes = innermost(m, i->attrs.axes);
            if (a.axes == i->attrs.axes)
                break;
            const Type t = *type_of(m, i->in[0]);
            const Value first = build_typed(&b, i->op, &a, 1, i->in, 1, &t, NULL)->out[0];
            m->values.data[first].name = m->values.data[i->out[0]].name;
            i->in[0] = first;
            i->attrs.axes &= ~a.axes;
        }
        vec_push(m->arena, &r->ins, i);
    }
}

PassStatus pass_largest(Job *j)
{
    for (size_t k = 0; k < j->m->fns.n && j->m->layout.mesh.n; k++)
        region(j->m, j->m->fns.data[k]->body);
    return PASS_ok;
}
