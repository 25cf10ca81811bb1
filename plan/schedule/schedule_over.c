/* schedule_over.c - which instructions may write their result over what they read; see schedule.h.
 */
#include "plan/schedule/schedule.h"
#include "passes/view.h"

#include <string.h>

/* A kernel may write result j over operand i if it reads each element of it only where it writes
 * the same one: equal types that span all the kernel iterates, and no index is moved. */
static bool kernel_takes_over(const Module *m, const Ins *d, Value v, Value occupant)
{
    const Type *t = type_of(m, v);
    const char *kind = name_str(m->names, d->attrs.kind);
    if (strcmp(kind, "col") == 0 || !type_equal(t, type_of(m, occupant)))
        return false;
    for (uint32_t k = 0; k < d->nout; k++) {
        const Type *o = type_of(m, d->out[k]);
        for (int i = 0; i < o->rank; i++)
            if (type_find(t, o->dims[i].name) < 0)
                return false;
    }
    for (size_t k = 0; k < d->body->ins.n; k++) {
        const Ins *i = d->body->ins.data[k];
        if (OP_AMONG(i->op, OP_rotate, OP_reindex) || op_is(i->op, VIEW))
            return false;
        if (i->op == OP_sum || i->op == OP_rmax)
            for (int n = 0; n < i->attrs.over.n; n++)
                if (type_find(t, i->attrs.over.dim[n].name) < 0)
                    return false;
    }
    return true;
}

/* Is x all of y, perhaps with a dim as two? */
static bool is_all_of(const Module *m, Value x, Value y)
{
    const View seen = view_of(m, x), of = view_of(m, y);
    return x == y || (seen.offset == of.offset &&
                      type_elements(type_of(m, x)) == type_elements(type_of(m, y)) &&
                      strides_are_dense(type_of(m, x), seen.stride) &&
                      strides_are_dense(type_of(m, y), of.stride));
}

bool takes_over(const Module *m, const Ins *d, Value v, Value occupant)
{
    uint32_t at = d->nin;
    Value root = view_of(m, occupant).root;
    for (uint32_t k = 0; k < d->nin; k++)
        if (view_of(m, d->in[k]).root == root) {
            if (at < d->nin)
                return false; /* read twice, perhaps through a view */
            at = k;
        }
    if (at == d->nin || !is_all_of(m, d->in[at], occupant))
        return false;
    if (d->op == OP_fused)
        return kernel_takes_over(m, d, v, d->in[at]);
    bool adds =
        d->in[at] == occupant && ins_added(d) == (int)at && v == d->out[d->op == OP_head ? 2 : 0];
    return adds && type_equal(type_of(m, v), type_of(m, occupant));
}
