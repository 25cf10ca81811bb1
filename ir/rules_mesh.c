/* rules_mesh.c - how results lie over the mesh; see rules.h and Type.
 *
 * An op that communicates says so by its axes. Of all other ops, operands lie alike along each dim
 * they share, and then each rank computes its part alone. A sum over a dim that is split gives each
 * rank a part of the sum: the result is partial. Partial numbers pass through what is linear in
 * them, and through nothing else; so a reduction that is missing, or made twice, is no program. */
#include "ir/mesh.h"
#include "ir/rules.h"

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
        WRONG(r, "both sides are partial over %s", rule_axes(r, a & b));
    *partial = a | b | summed;
    return NULL;
}

static const char *alike(Rule *r, int from, Axes *partial)
{
    *partial = r->in[from]->partial;
    for (int i = from + 1; i < r->nin; i++)
        if (r->in[i]->partial != *partial)
            WRONG(r, "operand %d is partial over '%s' and operand %d over '%s'", from + 1,
                  rule_axes(r, *partial), i + 1, rule_axes(r, r->in[i]->partial));
    return NULL;
}

static const char *whole(Rule *r, int i)
{
    Axes axes = r->in[i]->partial | r->in[i]->max;
    if (axes)
        WRONG(r, "operand %d is partial over %s where its sum is wanted", i + 1,
              rule_axes(r, axes));
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
              rule_axes(r, partial), rule_axes(r, r->in[nth]->partial));
    return NULL;
}

static const char *scatter(Rule *r, Axes *partial)
{
    Axes rows = axes_of(r->in[1], &r->attrs->over);
    const char *wrong = whole(r, 1);
    *partial = r->in[0]->partial | rows;
    return wrong ? wrong : adds_to(r, 2, *partial);
}

/* Linear in what is sent; a weight's gradient in what it is a product of. Where experts are split,
 * a rank makes, or adds up, what its own have of the positions that all ranks have. */
static const char *experts(Rule *r, Op op, Axes *partial)
{
    const bool product = op == OP_combine_weight;
    const Axes own = op == OP_dispatch ? 0 : r->attrs->dim.axes;
    const char *wrong = NULL;
    for (int i = product ? 2 : 1; i < r->nin && !wrong; i++)
        wrong = whole(r, i);
    if (!wrong && product)
        return product_of(r, own | (type_axes(r->in[1]) & ~type_axes(&r->out[0])), partial);
    *partial = r->in[0]->partial | own;
    return wrong;
}

/* A product whose last operand says which rows are whose. */
static const char *grouped(Rule *r, Op op, Axes *partial)
{
    Axes summed = op == OP_grouped
                      ? axes_of(r->in[0], &r->attrs->over)
                      : (type_axes(r->in[0]) | type_axes(r->in[1])) & ~type_axes(&r->out[0]);
    const char *wrong = product_of(r, summed, partial);
    if (!wrong)
        wrong = whole(r, 2);
    return wrong ? wrong : adds_to(r, 3, *partial);
}

/* A number that is rounded at random is itself on average, and so is the sum of such parts. */
static const char *rounded(Rule *r, Axes *partial)
{
    const char *wrong = NULL;
    *partial = r->in[0]->partial;
    for (int i = 1; i < r->nin && !wrong; i++)
        wrong = whole(r, i);
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
    if (op == OP_stochastic_round)
        return rounded(r, partial);
    if (op == OP_div || op == OP_gather) {
        *partial = r->in[0]->partial | (op == OP_gather ? r->attrs->dim.axes : 0);
        return whole(r, 1);
    }
    if (op == OP_select) {
        wrong = whole(r, 0);
        return wrong ? wrong : alike(r, 1, partial);
    }
    if (OP_AMONG(op, OP_grouped, OP_grouped_weight))
        return grouped(r, op, partial);
    return OP_AMONG(op, OP_dispatch, OP_combine, OP_combine_weight) ? experts(r, op, partial)
                                                                    : all_whole(r);
}

/* May a rank send to experts of its own alone, or fetch from these? Rows that are sorted are those
 * of all experts. */
static bool sends_to_own(Op op, const Attrs *a)
{
    return OP_AMONG(op, OP_dispatch, OP_combine, OP_combine_weight) && !a->sorted &&
           !a->dim.zigzag && !a->dim.inner && !a->dim.blocks;
}

/* Dims that an op looks at as a whole. */
static const char *unsplit(Rule *r, Op op)
{
    const Attrs *a = r->attrs;
    Axes axes = 0;
    if (OP_AMONG(op, OP_split, OP_merge)) /* ranks have parts of the outer one of two dims */
        axes = a->dim.axes;
    else if (OP_AMONG(op, OP_pick, OP_join, OP_rotate))
        axes = a->dim.axes | a->to.axes;
    else if (op == OP_reindex) {
        axes = a->dim.axes;
        for (int k = 0; k < a->over.n; k++)
            axes |= a->over.dim[k].axes;
    } else if (op == OP_window)
        axes = a->along.axes;
    else if (OP_AMONG(op, OP_grouped, OP_grouped_weight))
        /* Ranks may have the matrices of their homes. */
        axes = (a->keys.name && dim_lies_as(a->dim, a->keys) ? 0 : a->dim.axes | a->keys.axes) |
               a->to.axes | a->along.axes;
    else if (OP_AMONG(op, OP_top, OP_slots, OP_ends, OP_dispatch, OP_combine, OP_combine_weight))
        /* Ranks may have experts of their own, which are neighbours. */
        axes = (sends_to_own(op, a) ? 0 : a->dim.axes) | a->to.axes | a->along.axes | a->keys.axes |
               (a->over.n ? a->over.dim[0].axes : 0);
    else if (op == OP_put) { /* ranks may have parts of what tables are numbered by, and of a row */
        axes = a->dim.axes;
        for (int k = 0; k < r->in[1]->rank; k++)
            axes |= type_find(r->in[2], r->in[1]->dims[k].name) < 0 ? r->in[1]->dims[k].axes : 0;
    } else if (op == OP_tile_scale)
        axes = ir_cut_tiles(r->m, a, r->in[0]) < 0 ? 0 : axes_of(r->in[0], &a->over);
    else if (op == OP_sum)
        axes = a->whole ? axes_of(r->in[0], &a->over) : 0;
    else if (OP_AMONG(op, OP_attention, OP_attention_grad,
                      OP_attention_bias_grad)) { /* along may be: a ring */
        const DimList head = attention_value_head(a, r->in[1], r->in[2]);
        axes = axes_of(r->in[0], &a->over) | axes_of(r->in[2], &head) | a->keys.axes;
    } else if (OP_AMONG(op, OP_cross_entropy, OP_cross_entropy_grad, OP_head, OP_head_frozen,
                        OP_head_loss))
        axes = axes_of(r->in[0], &a->over) | a->dim.axes;
    if (axes)
        WRONG(r, "a dim that is looked at as a whole is split on %s", rule_axes(r, axes));
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
    return op == OP_attention_bias_grad || (op == OP_attention_grad && result)
               ? type_axes(r->in[0]) & ~type_axes(&r->out[result])
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
                      rule_axes(r, t->dims[k].axes & seen));
            seen |= t->dims[k].axes;
        }
        if (operand_axes(r) & ~seen)
            WRONG(r, "result %d lacks what is split on %s, and is not partial there", i + 1,
                  rule_axes(r, operand_axes(r) & ~seen));
    }
    return wrong;
}
