/* tree.c - see tree.h. */
#include "passes/step/tree.h"

int tree_dim(const Module *m, uint32_t tensor)
{
    enum { RANKS = 64 };
    const Tensor *p = &m->tensors.data[m->tensors.data[tensor].parameter];
    bool fixed[MAX_RANK] = {false};
    Axes axes[MAX_RANK];
    int best = -1;
    for (int i = 0; i < p->stacked - p->numbered; i++)
        fixed[i] = true;
    mesh_walk(m, p->type.dims, p->type.rank, fixed, axes);
    for (int64_t i = p->stacked, max = 1; i < p->type.rank; i++) {
        int64_t size = p->type.dims[i].size, twos = size & -size;
        twos = twos > RANKS ? RANKS : twos;
        if (axes[i] || twos <= max)
            continue;
        max = twos;
        best = (int)i;
    }
    return best;
}

static Value in_order(Builder *b, Value x, const DimList *over, bool whole)
{
    Attrs a = {.over = *over, .whole = whole};
    if (over->n == 0)
        return x;
    Ins *i = build_ins(b, OP_sum, &a, 1, &x);
    i->exact = true;
    return i->out[0];
}

Value tree_sum(Builder *b, Value x, uint32_t tensor)
{
    const Type t = *type_of(b->m, x);
    const Tensor *p = &b->m->tensors.data[tensor];
    int at = tree_dim(b->m, tensor);
    DimList inside = {0}, outside = {0}, along = {0};
    for (int i = 0; i < t.rank; i++) {
        DimList *l = at < 0 || i > at ? &inside : i == at || i < p->stacked ? &along : &outside;
        l->dim[l->n++] = t.dims[i];
    }
    x = in_order(b, build_sum(b, x, &inside), &outside, false);
    return in_order(b, x, &along, true);
}

Value tree_add(Builder *b, Value x, Value y)
{
    Type t = *type_of(b->m, y);
    Value in[] = {x, y};
    Ins *i = build_typed(b, OP_add, NULL, 2, in, 1, &t, NULL);
    i->exact = true;
    return i->out[0];
}
