/* sent.c - which rows of experts ranks send each other, before pass shard has them sent. */
#include "passes/spmd/sent.h"

#include "ir/mesh.h"

/* The axes on which the layout's rules split t, and in *of those of its dim d. */
static Axes split_of(const Module *m, const Type *t, Name d, Axes *of)
{
    const bool fixed[MAX_RANK] = {false};
    Axes axes[MAX_RANK], all = 0;
    mesh_walk(m, t->dims, t->rank, fixed, axes);
    for (int k = 0; k < t->rank; k++) {
        all |= axes[k];
        if (t->dims[k].name == d)
            *of = axes[k];
    }
    return all;
}

Axes rows_sent(const Module *m, const Ins *i)
{
    const Type *z = type_of(m, i->op == OP_dispatch ? i->out[0] : i->in[0]);
    const Type *choice = type_of(m, i->in[i->op == OP_combine_weight ? 2 : 1]);
    Axes experts = 0, none = 0;
    if (i->attrs.sorted || z->rank <= choice->rank - i->attrs.over.n + 1)
        return 0;
    split_of(m, z, i->attrs.dim.name, &experts);
    return experts & split_of(m, choice, 0, &none);
}
