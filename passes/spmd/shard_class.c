/* shard_class.c - how tensors and their gradients lie; see shard.h. */
#include "passes/spmd/shard.h"
#include "passes/step/tree.h"

enum { LEAST = 256 }; /* elements of a part: a tensor of fewer stays whole */

/* Dims of the repeats around a tensor are never split, but for that of a pipeline; and none in
 * blocks, which files do not have. */
static Split by_dims(const Module *m, const Type *t, int stacked)
{
    Split s = {{0}};
    bool fixed[MAX_RANK] = {false};
    for (int i = 0; i < stacked; i++)
        fixed[i] = t->dims[i].name != m->layout.pipeline.dim;
    mesh_walk(m, t->dims, t->rank, fixed, s.axes);
    for (int i = 0; i < t->rank; i++)
        for (Axes a = 1; a <= s.axes[i]; a <<= 1)
            if (mesh_ruled(m, t->dims[i].name, a).blocks)
                s.axes[i] &= ~a;
    return s;
}

Type split_type(const Module *m, Type t, const Split *s)
{
    for (int i = 0; i < t.rank; i++)
        t.dims[i] = mesh_split(m, t.dims[i], s->axes[i]);
    return t;
}

/* Splits what is not split on an axis along the first dim that has room; where sums have an order,
 * along the dim that this allows, of which a rank then has two elements or more: `only`, or -1. */
static void split_along(const Module *m, const Type *t, int stacked, int axis, int only, Split *s)
{
    Axes bit = (Axes)1 << axis, used = 0;
    bool tree = (mesh_tree_axes(m) & bit) != 0;
    int64_t ranks = mesh_size(m, bit), part = 1;
    for (int i = 0; i < t->rank; i++) {
        used |= s->axes[i];
        part *= i < stacked ? 1 : t->dims[i].size / mesh_size(m, s->axes[i]);
    }
    for (int i = stacked; i < t->rank && !(used & bit) && part / ranks >= LEAST; i++)
        if (!s->axes[i] && t->dims[i].size % ranks == 0 &&
            !(mesh_zigzag(m, t->dims[i].name) & bit) &&
            (!tree || (i == only && t->dims[i].size > ranks))) {
            s->axes[i] = bit;
            return;
        }
}

Split class_split(const Module *m, uint32_t tensor, TensorClass of)
{
    const Tensor *x = &m->tensors.data[m->tensors.data[tensor].parameter];
    Split s = by_dims(m, &x->type, x->stacked - x->numbered);
    int only = m->train.tree ? tree_dim(m, tensor) : -1;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; k < rule->n && rule->of == of; k++)
            split_along(m, &x->type, x->stacked, rule->axis[k], only, &s);
    }
    return s;
}

Split class_split_of(const Module *m, const Type *t, uint32_t parameter, TensorClass of)
{
    const Type *p = &m->tensors.data[parameter].type;
    Split whole = class_split(m, parameter, of), s = {{0}};
    for (int i = 0; i < t->rank; i++) {
        int at = type_find(p, t->dims[i].name);
        if (at >= 0 && p->dims[at].size == t->dims[i].size)
            s.axes[i] = whole.axes[at];
    }
    return s;
}
