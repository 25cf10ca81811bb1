/* all_indices.c - one instruction of a scan's body, for all indices; see all_indices.h. */
#include "passes/all_indices.h"

#include "passes/walk.h"

bool goes_by_names(const Module *m, const Ins *i)
{
    static const Op by_names[] = {OP_const,  OP_iota,  OP_cast,  OP_rename, OP_pick,
                                  OP_window, OP_split, OP_merge, OP_rotate, OP_reindex,
                                  OP_sum,    OP_rmax,  OP_dot,   OP_gather, OP_scatter_add};
    const bool known =
        op_is(i->op, POINTWISE) || op_among(i->op, by_names, sizeof by_names / sizeof *by_names);
    if (!known || i->nout != 1 || type_of(m, i->out[0])->rank >= MAX_RANK)
        return false;
    for (uint32_t k = 0; k < i->nin; k++)
        if (type_of(m, i->in[k])->rank >= MAX_RANK)
            return false;
    return !OP_AMONG(i->op, OP_dot, OP_scatter_add) || i->nin == 2;
}

static Value emit(Builder *at, const Ins *i, const Value *in, Type t)
{
    Builder b = builder_at(at->m, at->region, i);
    Ins *made = build_typed(&b, i->op, &i->attrs, (int)i->nin, in, 1, &t, NULL);
    made->exact = i->exact;
    at->m->values.data[made->out[0]].name = at->m->values.data[i->out[0]].name;
    return made->out[0];
}

Value build_at_all(Builder *b, const Ins *i, const Value *in, Dim along)
{
    Module *m = b->m;
    Type t = *type_of(m, i->out[0]), given;
    bool varies = false;
    for (uint32_t k = 0; k < i->nin; k++)
        varies |= type_find(type_of(m, in[k]), along.name) >= 0;
    if (varies)
        t = type_stacked(&t, along);
    if (varies && OP_AMONG(i->op, OP_split, OP_merge) && /* whose order of dims is the rule's */
        !type_check(m, i->op, &i->attrs, (int)i->nin, in, 1, &given))
        t = given;
    if (varies &&
        i->op == OP_gather && /* the indices' dims come first, the stacked one among others */
        !type_check(m, i->op, &i->attrs, (int)i->nin, in, 1, &given))
        return build_as(b, emit(b, i, in, given), t);
    return emit(b, i, in, t);
}
