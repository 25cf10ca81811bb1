/* rules_mesh.c - how results lie over the mesh; see rules.h and Type.
 *
 * What communicates says it by its axes. Of all other ops, operands lie alike along each dim they
 * share, and then each rank computes its part alone. A sum over a dim that is split gives each rank
 * a part of the sum: the result is partial. Partial numbers pass through what is linear in them,
 * and through nothing else; so a reduction that is missing, or made twice, is no program. */
#include "ir/rules.h"

static const char *axes_text(const Rule *r, Axes axes)
{
    return mesh_axes_text(r->m, axes);
}

/* ---- communication -------------------------------------------------------------------------- */

/* The last axes of a dim, those that its neighbouring elements are apart on. */
static bool innermost(Axes axes, Axes of)
{
    Axes rest = of & ~axes;
    return (axes & of) == axes && (!rest || (axes & -axes) > rest);
}

static const char *has_axes(Rule *r)
{
    Axes axes = r->attrs->axes;
    if (!axes || axes >> r->m->layout.mesh.n)
        WRONG(r, "no axis of the mesh is named");
    if (r->attrs->zigzag && (axes & (axes - 1)))
        WRONG(r, "zigzag order on %s, which is not one axis", axes_text(r, axes));
    return NULL;
}

/* Dim at of r->out[0] is split on the attribute's axes as well. */
static const char *split_on(Rule *r, Name name)
{
    Type *t = &r->out[0];
    Axes axes = r->attrs->axes;
    int at = type_find(t, name);
    if (at < 0)
        WRONG(r, "there is no dim '%s' to split", rule_dim(r, name));
    if (axes & (type_axes(t) | t->partial | t->max))
        WRONG(r, "axis %s is in use", axes_text(r, axes & (type_axes(t) | t->partial | t->max)));
    if (!innermost(axes, axes | t->dims[at].axes))
        WRONG(r, "dim '%s' is split on %s, which does not come before %s in the mesh",
              rule_dim(r, name), axes_text(r, t->dims[at].axes), axes_text(r, axes));
    int64_t n = mesh_size(r->m, axes), unit = n * (r->attrs->zigzag ? 2 : 1);
    if (t->dims[at].size % unit)
        WRONG(r, "dim '%s' of %lld is not split evenly on %s, of %lld ranks", rule_dim(r, name),
              (long long)t->dims[at].size, axes_text(r, axes), (long long)n);
    t->dims[at].size /= n;
    if (!r->m->local) {
        t->dims[at].axes |= axes;
        t->dims[at].zigzag |= r->attrs->zigzag ? axes : 0;
    }
    return NULL;
}

static const char *whole_on(Rule *r, Name name)
{
    Type *t = &r->out[0];
    Axes axes = r->attrs->axes;
    int at = type_find(t, name);
    if (at < 0)
        WRONG(r, "there is no dim '%s' to gather", rule_dim(r, name));
    if (!r->m->local && !innermost(axes, t->dims[at].axes))
        WRONG(r, "dim '%s' is split on '%s', of which '%s' are not the last", rule_dim(r, name),
              axes_text(r, t->dims[at].axes), axes_text(r, axes));
    if (!r->m->local && (t->dims[at].zigzag & axes) != (r->attrs->zigzag ? axes : 0))
        WRONG(r, "dim '%s' is %sin zigzag order on %s", rule_dim(r, name),
              r->attrs->zigzag ? "not " : "", axes_text(r, axes));
    t->dims[at].size *= mesh_size(r->m, axes);
    t->dims[at].axes &= ~axes;
    t->dims[at].zigzag &= ~axes;
    return NULL;
}

static const char *added_up(Rule *r)
{
    Axes axes = r->attrs->axes;
    if (r->m->local)
        return NULL;
    Axes tree = axes & mesh_tree_of(r->m, r->in[0]);
    if (tree ? !r->attrs->tree || axes != tree : r->attrs->tree)
        WRONG(r,
              tree ? "a sum over %s that is not in the order of the tree"
                   : "a tree over %s, which has none",
              axes_text(r, tree ? tree : axes));
    if ((r->in[0]->partial & axes) != axes)
        WRONG(r, "the operand is not partial over %s", axes_text(r, axes & ~r->in[0]->partial));
    r->out[0].partial &= ~axes;
    return NULL;
}

const char *type_all_reduce(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (wrong || r->m->local || !(r->in[0]->max & r->attrs->axes))
        return wrong ? wrong : added_up(r);
    if ((r->in[0]->max & r->attrs->axes) != r->attrs->axes)
        WRONG(r, "the operand is not of the largest over %s alone", axes_text(r, r->attrs->axes));
    r->out[0].max &= ~r->attrs->axes;
    return NULL;
}

const char *type_reduce_scatter(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (!wrong)
        wrong = added_up(r);
    return wrong ? wrong : split_on(r, r->attrs->dim.name);
}

const char *type_all_gather(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    return wrong ? wrong : whole_on(r, r->attrs->dim.name);
}

const char *type_all_to_all(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (!wrong)
        wrong = whole_on(r, r->attrs->dim.name);
    return wrong ? wrong : split_on(r, r->attrs->to.name);
}

const char *type_shard(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    return wrong ? wrong : split_on(r, r->attrs->dim.name);
}

const char *type_ring_shift(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (!wrong && !r->m->local)
        WRONG(r, "what a rank has of a value is another part of it than its type says");
    return wrong;
}

const char *type_broadcast(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    Axes in_use = (type_axes(r->in[0]) | r->in[0]->partial | r->in[0]->max) & r->attrs->axes;
    if (!wrong && (r->attrs->at < 0 || r->attrs->at >= mesh_size(r->m, r->attrs->axes)))
        WRONG(r, "no rank along %s is at place %lld", axes_text(r, r->attrs->axes),
              (long long)r->attrs->at);
    if (!wrong && in_use)
        WRONG(r, "ranks of %s have parts of the operand", axes_text(r, in_use));
    return wrong;
}

/* ---- everything else ------------------------------------------------------------------------ */

static Axes axes_of(const Type *t, const DimList *dims)
{
    Axes all = 0;
    for (int i = 0; i < dims->n; i++) {
        int at = type_find(t, dims->dim[i].name);
        all |= at < 0 ? 0 : t->dims[at].axes;
    }
    return all;
}

/* The axes over which a result is partial, for an op that is linear in each of its first two
 * operands; `summed` is split. */
static const char *product_of(Rule *r, Axes summed, Axes *partial)
{
    Axes a = r->in[0]->partial, b = r->in[1]->partial;
    if (a & b)
        WRONG(r, "both sides are partial over %s", axes_text(r, a & b));
    *partial = a | b | summed;
    return NULL;
}

static const char *alike(Rule *r, int from, Axes *partial)
{
    *partial = r->in[from]->partial;
    for (int i = from + 1; i < r->nin; i++)
        if (r->in[i]->partial != *partial)
            WRONG(r, "operand %d is partial over '%s' and operand %d over '%s'", from + 1,
                  axes_text(r, *partial), i + 1, axes_text(r, r->in[i]->partial));
    return NULL;
}

static const char *whole(Rule *r, int i)
{
    Axes axes = r->in[i]->partial | r->in[i]->max;
    if (axes)
        WRONG(r, "operand %d is partial over %s where its sum is wanted", i + 1,
              axes_text(r, axes));
    return NULL;
}

static const char *all_whole(Rule *r)
{
    const char *wrong = NULL;
    for (int i = 0; i < r->nin && !wrong; i++)
        wrong = whole(r, i);
    return wrong;
}

/* The operand that is added to is partial over the same axes as the other. */
static const char *adds_to(Rule *r, int nth, Axes partial)
{
    if (r->nin > nth && r->in[nth]->partial != partial)
        WRONG(r, "what is added is partial over '%s', and what it is added to over '%s'",
              axes_text(r, partial), axes_text(r, r->in[nth]->partial));
    return NULL;
}

static const char *scatter(Rule *r, Axes *partial)
{
    Axes rows = type_axes(r->in[1]);
    const char *wrong = whole(r, 1);
    *partial = r->in[0]->partial | rows;
    return wrong ? wrong : adds_to(r, 2, *partial);
}

/* Linear in what is sent; a weight's gradient in what it is a product of. */
static const char *experts(Rule *r, Op op, Axes *partial)
{
    const bool product = op == OP_combine_weight;
    const char *wrong = NULL;
    for (int i = product ? 2 : 1; i < r->nin && !wrong; i++)
        wrong = whole(r, i);
    if (!wrong && product)
        return product_of(r, type_axes(r->in[1]) & ~type_axes(&r->out[0]), partial);
    *partial = r->in[0]->partial;
    return wrong;
}

/* The axes that the results are partial over. */
static const char *partial_of(Rule *r, Op op, Axes *partial)
{
    const char *wrong = NULL;
    *partial = 0;
    for (int i = 0; i < r->nin; i++)
        if (r->in[i]->max)
            WRONG(r, "operand %d is the largest of a rank where that of all is wanted", i + 1);
    if (op == OP_sum)
        *partial = axes_of(r->in[0], &r->attrs->over);
    if (op_is(op, LINEAR) || op == OP_cast) {
        *partial |= r->in[0]->partial;
        return NULL;
    }
    if (op_is(op, ADDITIVE))
        return alike(r, 0, partial);
    if (op == OP_mul)
        return product_of(r, 0, partial);
    if (op == OP_dot) {
        wrong = product_of(r, axes_of(r->in[0], &r->attrs->over), partial);
        return wrong ? wrong : adds_to(r, 2, *partial);
    }
    if (op == OP_scatter_add)
        return scatter(r, partial);
    if (op == OP_div || op == OP_gather) {
        *partial = r->in[0]->partial | (op == OP_gather ? r->attrs->dim.axes : 0);
        return whole(r, 1);
    }
    if (op == OP_select) {
        wrong = whole(r, 0);
        return wrong ? wrong : alike(r, 1, partial);
    }
    return OP_AMONG(op, OP_dispatch, OP_combine, OP_combine_weight) ? experts(r, op, partial)
                                                                    : all_whole(r);
}

/* Dims that an op looks at as a whole. */
static const char *unsplit(Rule *r, Op op)
{
    const Attrs *a = r->attrs;
    Axes axes = 0;
    if (OP_AMONG(op, OP_pick, OP_split, OP_merge, OP_join, OP_rotate))
        axes = a->dim.axes | a->to.axes;
    else if (op == OP_window)
        axes = a->along.axes;
    else if (OP_AMONG(op, OP_top, OP_slots, OP_dispatch, OP_combine, OP_combine_weight))
        axes = a->dim.axes | a->to.axes | a->along.axes | (a->over.n ? a->over.dim[0].axes : 0);
    else if (op == OP_sum)
        axes = a->whole ? axes_of(r->in[0], &a->over) : 0;
    else if (OP_AMONG(op, OP_attention, OP_attention_grad)) /* along may be: a ring */
        axes = axes_of(r->in[0], &a->over);
    else if (OP_AMONG(op, OP_cross_entropy, OP_cross_entropy_grad, OP_head, OP_head_loss))
        axes = axes_of(r->in[0], &a->over) | a->dim.axes;
    if (axes)
        WRONG(r, "a dim that is looked at as a whole is split on %s", axes_text(r, axes));
    return NULL;
}

static Axes operand_axes(const Rule *r)
{
    Axes all = 0;
    for (int i = 0; i < r->nin; i++)
        all |= type_axes(r->in[i]);
    return all;
}

/* The axes over which one result is partial and others may not be: gradients of keys and values
 * come from all query groups that share them. */
static Axes partial_alone(const Rule *r, Op op, int result)
{
    return op == OP_attention_grad && result ? type_axes(r->in[0]) & ~type_axes(&r->out[result])
                                             : 0;
}

const char *rule_over_mesh(Rule *r, Op op)
{
    Axes partial = 0;
    if (!r->m->layout.mesh.n || r->m->local || op_is(op, COMM))
        return NULL;
    const char *wrong = unsplit(r, op);
    if (!wrong)
        wrong = partial_of(r, op, &partial);
    for (int i = 0; i < op_info[op].results && !wrong; i++) {
        Type *t = &r->out[i];
        t->partial = partial | partial_alone(r, op, i);
        t->max = op == OP_rmax ? axes_of(r->in[0], &r->attrs->over) : 0;
        Axes seen = t->partial | t->max;
        for (int k = 0; k < t->rank; k++) {
            if (t->dims[k].axes & seen)
                WRONG(r, "axis %s would be used twice by the result",
                      axes_text(r, t->dims[k].axes & seen));
            seen |= t->dims[k].axes;
        }
        if (operand_axes(r) & ~seen)
            WRONG(r, "result %d lacks what is split on %s, and is not partial there", i + 1,
                  axes_text(r, operand_axes(r) & ~seen));
    }
    return wrong;
}
