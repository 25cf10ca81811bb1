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

/* Elements of a part, were the tensor split on so many ranks more. */
static int64_t part_of(const Module *m, const Type *t, int stacked, const Split *s, int64_t ranks)
{
    int64_t part = 1;
    for (int i = stacked; i < t->rank; i++)
        part *= t->dims[i].size / mesh_size(m, s->axes[i]);
    return part / ranks;
}

/* Do the rules cut a dim into blocks, where it is split? */
static bool is_in_blocks(const Module *m, Name dim)
{
    bool blocks = false;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        blocks |= m->layout.rules.data[r].dim == dim && m->layout.rules.data[r].blocks;
    return blocks;
}

static bool may_split(const Module *m, const Type *t, int i, Axes bit, const Split *s)
{
    return !s->axes[i] && !(mesh_zigzag(m, t->dims[i].name) & bit) &&
           !is_in_blocks(m, t->dims[i].name);
}

/* Splits what is not split on an axis along the first dim that has room; where sums have an order,
 * along the dim that this allows, of which a rank then has two elements or more: `only`, or -1.
 * False: what is large enough stays whole, as no dim divides evenly. */
static bool split_along(const Module *m, const Type *t, int stacked, int axis, int only, Split *s)
{
    Axes bit = (Axes)1 << axis, used = 0;
    bool tree = (mesh_tree_axes(m) & bit) != 0;
    int64_t ranks = mesh_size(m, bit);
    for (int i = 0; i < t->rank; i++)
        used |= s->axes[i];
    if ((used & bit) || part_of(m, t, stacked, s, ranks) < LEAST)
        return true;
    for (int i = stacked; i < t->rank; i++)
        if (may_split(m, t, i, bit, s) && t->dims[i].size % ranks == 0 &&
            (!tree || (i == only && t->dims[i].size > ranks))) {
            s->axes[i] = bit;
            return true;
        }
    return tree;
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

/* The dim that is stored larger for an axis: the first that takes next to nothing, so that what is
 * no padding lies as one piece, or else the one that takes least; -1: none takes little. */
static int dim_to_pad(const Module *m, const Type *t, int stacked, int axis, const Split *s)
{
    const Axes bit = (Axes)1 << axis;
    const int64_t ranks = mesh_size(m, bit);
    const double NOTHING = 1.0 / 64, LITTLE = 1.0 / 16;
    double least = LITTLE;
    int best = -1;
    for (int i = stacked; i < t->rank; i++) {
        const int64_t size = t->dims[i].size;
        const double more = (double)((ranks - size % ranks) % ranks) / (double)size;
        if (!may_split(m, t, i, bit, s) || more > least)
            continue;
        if (more <= NOTHING)
            return i;
        best = i;
        least = more;
    }
    return best;
}

bool class_padding(const Module *m, uint32_t tensor, int *dim, int64_t *size)
{
    const Tensor *x = &m->tensors.data[m->tensors.data[tensor].parameter];
    for (TensorClass of = CLASS_state; of < CLASS_count; of++) {
        Split s = by_dims(m, &x->type, x->stacked - x->numbered);
        for (size_t r = 0; r < m->layout.rules.n; r++) {
            const LayoutRule *rule = &m->layout.rules.data[r];
            for (int k = 0; k < rule->n && rule->of == of; k++) {
                if (split_along(m, &x->type, x->stacked, rule->axis[k], -1, &s))
                    continue;
                *dim = dim_to_pad(m, &x->type, x->stacked, rule->axis[k], &s);
                const int64_t ranks = mesh_size(m, (Axes)1 << rule->axis[k]);
                if (*dim >= 0)
                    *size = (x->type.dims[*dim].size + ranks - 1) / ranks * ranks;
                return *dim >= 0;
            }
        }
    }
    return false;
}

Axes class_axes(const Module *m, uint32_t tensor, TensorClass of, int dim)
{
    const Tensor *x = &m->tensors.data[m->tensors.data[tensor].parameter];
    const Split ruled = by_dims(m, &x->type, x->stacked - x->numbered);
    return class_split(m, tensor, of).axes[dim] & ~ruled.axes[dim];
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
