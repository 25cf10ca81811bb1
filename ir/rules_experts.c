/* rules_experts.c - the rules of ops that send positions to experts and fetch them back; see
 * ops.def and rules.h. */
#include "ir/rules.h"

static bool is_index(const Type *t)
{
    return t->dtype == DT_i32;
}

const char *type_top(Rule *r)
{
    const Type *x = r->in[0];
    Dim d = r->attrs->dim, to = r->attrs->to;
    const char *wrong = rule_has_dim(r, x, d, "the operand");
    if (wrong)
        return wrong;
    if (x->dtype != DT_f32 && x->dtype != DT_f64)
        WRONG(r, "the operand is %s where f32 is wanted", dtype_name(x->dtype));
    if (to.size < 1 || to.size > d.size)
        WRONG(r, "the largest %lld of %lld", (long long)to.size, (long long)d.size);
    if (type_find(x, to.name) >= 0)
        WRONG(r, "there is a dim '%s' already", rule_dim(r, to.name));
    r->out[0] = (Type){.dtype = DT_i32, .indexes = d.name};
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i].name != d.name)
            r->out[0].dims[r->out[0].rank++] = x->dims[i];
    r->out[0].dims[r->out[0].rank++] = to; /* it has the place of d */
    return NULL;
}

/* The dims of choices: those of the positions, `along`, and what is chosen for each, `over`. */
static const char *chosen(Rule *r, const Type *t)
{
    const Attrs *a = r->attrs;
    const char *wrong = rule_has_dim(r, t, a->along, "the choice");
    if (!is_index(t))
        WRONG(r, "the choice is %s where i32 is wanted", dtype_name(t->dtype));
    if (!wrong && (a->over.n > 1 || (a->over.n && a->over.dim[0].name == a->along.name)))
        WRONG(r, "the choices of a position are one dim of their own");
    if (!wrong && a->over.n)
        wrong = rule_has_dim(r, t, a->over.dim[0], "the choice");
    if (!wrong && (type_find(t, a->dim.name) >= 0 || type_find(t, a->to.name) >= 0))
        WRONG(r, "the choice has the dim '%s' of experts, or '%s' of slots",
              rule_dim(r, a->dim.name), rule_dim(r, a->to.name));
    if (!wrong && (a->dim.size < 1 || a->to.size < 1))
        WRONG(r, "%lld experts of %lld slots", (long long)a->dim.size, (long long)a->to.size);
    const int64_t each = a->over.n ? a->over.dim[0].size : 1;
    if (!wrong && a->sorted && a->each)
        WRONG(r, "rows that are sorted, and sent to homes");
    if (!wrong && a->sorted && a->to.size != a->along.size * each)
        WRONG(r, "%lld rows of %lld choices", (long long)a->to.size,
              (long long)(a->along.size * each));
    return wrong;
}

const char *type_slots(Rule *r)
{
    const char *wrong = chosen(r, r->in[0]);
    r->out[0] = *r->in[0];
    r->out[0].indexes = r->attrs->to.name;
    return wrong;
}

/* Rows of a group are numbered through all experts: the last end is the number of its choices. */
const char *type_ends(Rule *r)
{
    const Type *choice = r->in[0];
    Attrs a = *r->attrs;
    a.sorted = !a.keys.name;
    Rule of = *r;
    of.attrs = &a;
    const char *wrong = chosen(&of, choice);
    if (!wrong && a.keys.name && type_find(choice, a.keys.name) >= 0)
        WRONG(r, "the choice has the dim '%s' of homes", rule_dim(r, a.keys.name));
    if (wrong)
        return wrong;
    r->out[0] = (Type){.dtype = DT_i32};
    if (a.keys.name)
        r->out[0].dims[r->out[0].rank++] = a.keys;
    for (int i = 0; i < choice->rank; i++)
        if (choice->dims[i].name != a.along.name && !dims_have(&a.over, choice->dims[i].name))
            r->out[0].dims[r->out[0].rank++] = choice->dims[i];
    r->out[0].dims[r->out[0].rank++] = a.dim;
    return NULL;
}

static bool of_group(const Rule *r, const Type *choice, Name d)
{
    return d != r->attrs->along.name && !dims_have(&r->attrs->over, d) && type_find(choice, d) >= 0;
}

/* The choice, the slots and, if it is given, the weight have the same dims. */
static const char *choices_fit(Rule *r, int choice, DType rows)
{
    const char *wrong = chosen(r, r->in[choice]);
    if (wrong)
        return wrong;
    if (!is_index(r->in[choice + 1]) || !type_same_dims(r->in[choice], r->in[choice + 1]))
        WRONG(r, "choices and slots differ in their dims");
    if (r->nin > choice + 2 && (r->in[choice + 2]->dtype != dtype_wide(rows) ||
                                !type_same_dims(r->in[choice], r->in[choice + 2])))
        WRONG(r, "the weight has not the dims of the choices, or is not %s",
              dtype_name(dtype_wide(rows)));
    return NULL;
}

/* t, of positions or of slots, has the dims of the group, and none of those that the op adds. */
static const char *in_groups(Rule *r, const Type *t, const Type *choice, Name none, Name nor)
{
    for (int i = 0; i < choice->rank; i++)
        if (of_group(r, choice, choice->dims[i].name) && type_find(t, choice->dims[i].name) < 0)
            WRONG(r, "the operand has no dim '%s' of the choices",
                  rule_dim(r, choice->dims[i].name));
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].name == none || t->dims[i].name == nor ||
            dims_have(&r->attrs->over, t->dims[i].name))
            WRONG(r, "the operand has the dim '%s' already", rule_dim(r, t->dims[i].name));
    if (!dtype_is_float(t->dtype))
        WRONG(r, "the operand is %s where a float is wanted", dtype_name(t->dtype));
    return NULL;
}

static const char *add(Rule *r, Type *t, Dim d)
{
    if (t->rank == MAX_RANK)
        WRONG(r, "the result would have more than %d dims", MAX_RANK);
    t->dims[t->rank++] = d;
    return NULL;
}

static const char *add_group(Rule *r, Type *t, const Type *choice)
{
    const char *wrong = NULL;
    for (int i = 0; i < choice->rank && !wrong; i++)
        if (of_group(r, choice, choice->dims[i].name))
            wrong = add(r, t, choice->dims[i]);
    return wrong;
}

/* The dims of t that belong neither to the group nor to experts, slots or positions. */
static const char *add_rest(Rule *r, Type *t, const Type *from, const Type *choice)
{
    const Attrs *a = r->attrs;
    const char *wrong = NULL;
    for (int i = 0; i < from->rank && !wrong; i++) {
        Name d = from->dims[i].name;
        if (d != a->along.name && d != a->dim.name && d != a->to.name && !of_group(r, choice, d))
            wrong = add(r, t, from->dims[i]);
    }
    return wrong;
}

const char *type_dispatch(Rule *r)
{
    const Type *x = r->in[0], *choice = r->in[1];
    const Attrs *a = r->attrs;
    const char *wrong = choices_fit(r, 1, x->dtype);
    if (!wrong)
        wrong = rule_has_dim(r, x, a->along, "the operand");
    if (!wrong)
        wrong = in_groups(r, x, choice, a->dim.name, a->to.name);
    if (wrong)
        return wrong;
    Type *t = &r->out[0];
    *t = (Type){.dtype = x->dtype};
    if (!a->sorted)
        t->dims[t->rank++] = a->dim;
    wrong = add_group(r, t, choice);
    if (!wrong)
        wrong = add(r, t, a->to);
    return wrong ? wrong : add_rest(r, t, x, choice);
}

/* Checks a tensor of slots: it has the dims of experts, unless these are sorted, and of slots, and
 * the groups of the choices. */
static const char *slots_hold(Rule *r, const Type *z, const Type *choice)
{
    const Attrs *a = r->attrs;
    const char *wrong = a->sorted ? NULL : rule_has_dim(r, z, a->dim, "the operand");
    if (a->sorted && type_find(z, a->dim.name) >= 0)
        WRONG(r, "the operand has the dim '%s' of experts, whose rows are sorted",
              rule_dim(r, a->dim.name));
    if (!wrong)
        wrong = rule_has_dim(r, z, a->to, "the operand");
    return wrong ? wrong : in_groups(r, z, choice, a->along.name, 0);
}

static const char *fetched(Rule *r, const Type *z, const Type *choice, Type *t)
{
    *t = (Type){.dtype = z->dtype};
    const char *wrong = add_group(r, t, choice);
    if (!wrong)
        wrong = add(r, t, r->attrs->along);
    return wrong ? wrong : add_rest(r, t, z, choice);
}

const char *type_combine(Rule *r)
{
    const char *wrong = choices_fit(r, 1, r->in[0]->dtype);
    if (!wrong)
        wrong = slots_hold(r, r->in[0], r->in[1]);
    return wrong ? wrong : fetched(r, r->in[0], r->in[1], &r->out[0]);
}

const char *type_combine_weight(Rule *r)
{
    const Type *z = r->in[0], *y = r->in[1], *choice = r->in[2];
    Type want;
    const char *wrong = choices_fit(r, 2, z->dtype);
    if (!wrong)
        wrong = slots_hold(r, z, choice);
    if (!wrong)
        wrong = fetched(r, z, choice, &want);
    if (wrong)
        return wrong;
    if (y->dtype != z->dtype || !type_same_dims(y, &want))
        WRONG(r, "the second operand has not the type of what is fetched from the first");
    r->out[0] = *choice;
    r->out[0].indexes = 0;
    r->out[0].dtype = dtype_wide(z->dtype);
    return NULL;
}

/* ---- grouped products ------------------------------------------------------------------------ */

/* t has rows of the groups that `ends` tells apart; its other dims, of what a row is, are appended
 * to `own`. */
static const char *sorted_rows(Rule *r, const Type *t, const Type *ends, const char *side,
                               DimList *own)
{
    const Attrs *a = r->attrs;
    const char *wrong = rule_has_dim(r, t, a->along, side);
    if (!wrong && t->dtype != r->in[0]->dtype)
        WRONG(r, "%s is %s and the first operand %s", side, dtype_name(t->dtype),
              dtype_name(r->in[0]->dtype));
    if (!wrong)
        wrong = rule_is_float(r, t, side);
    for (int i = 0; i < ends->rank && !wrong; i++)
        if (ends->dims[i].name != a->to.name)
            wrong = rule_has_dim(r, t, ends->dims[i], side);
    for (int i = 0; i < t->rank && !wrong; i++) {
        const Name d = t->dims[i].name;
        if (d == a->along.name || type_find(ends, d) >= 0) {
            if (d == a->to.name)
                WRONG(r, "%s has the dim '%s' of experts", side, rule_dim(r, d));
            continue;
        }
        if (d == a->dim.name)
            WRONG(r, "%s has the dim '%s' of experts", side, rule_dim(r, d));
        own->dim[own->n++] = t->dims[i];
    }
    return wrong;
}

/* Of each group, where the rows of each expert end. */
static const char *are_ends(Rule *r, const Type *ends)
{
    const Attrs *a = r->attrs;
    const char *wrong = rule_has_dim(r, ends, a->to, "the operand of ends");
    if (!wrong && !is_index(ends))
        WRONG(r, "ends are %s where i32 is wanted", dtype_name(ends->dtype));
    if (!wrong && a->keys.name)
        wrong = rule_has_dim(r, ends, a->keys, "the operand of ends");
    const int64_t homes = a->keys.name ? a->keys.size : 1;
    if (!wrong && a->to.size * homes != a->dim.size)
        WRONG(r, "ends of %lld experts, and matrices of %lld", (long long)(a->to.size * homes),
              (long long)a->dim.size);
    if (!wrong && (type_find(ends, a->along.name) >= 0 ||
                   (a->dim.name != a->to.name && type_find(ends, a->dim.name) >= 0)))
        WRONG(r, "ends have the dim '%s' of rows, or '%s' of matrices", rule_dim(r, a->along.name),
              rule_dim(r, a->dim.name));
    return wrong;
}

const char *type_grouped(Rule *r)
{
    const Type *z = r->in[0], *w = r->in[1], *ends = r->in[2];
    const Attrs *a = r->attrs;
    DimList own = {0};
    Type *t = &r->out[0];
    int left = 0;
    const char *wrong = are_ends(r, ends);
    if (!wrong)
        wrong = sorted_rows(r, z, ends, "the left side", &own);
    if (!wrong)
        wrong = rule_has_dim(r, w, a->dim, "the right side");
    if (!wrong)
        wrong = rule_all_have(r, w, &a->over, "the right side");
    if (!wrong)
        wrong = rule_all_have(r, z, &a->over, "the left side");
    if (wrong)
        return wrong;
    if (w->dtype != z->dtype)
        WRONG(r, "the left side is %s and the right side %s", dtype_name(z->dtype),
              dtype_name(w->dtype));
    for (int i = 0; i < own.n; i++)
        if (!dims_have(&a->over, own.dim[i].name))
            WRONG(r, "a row has the dim '%s', which is not summed", rule_dim(r, own.dim[i].name));
    if (!a->over.n || own.n != a->over.n)
        WRONG(r, "what is summed is no dim of a row");
    *t = (Type){.dtype = z->dtype};
    for (int i = 0; i < ends->rank; i++)
        if (ends->dims[i].name != a->to.name)
            t->dims[t->rank++] = ends->dims[i];
    t->dims[t->rank++] = a->along;
    for (int i = 0; i < w->rank; i++) {
        const Dim d = w->dims[i];
        if (d.name == a->dim.name || dims_have(&a->over, d.name))
            continue;
        if (type_find(t, d.name) >= 0)
            WRONG(r, "both sides have the dim '%s', which is not summed", rule_dim(r, d.name));
        wrong = add(r, t, d);
        if (wrong)
            return wrong;
        left++;
    }
    if (!left)
        WRONG(r, "the matrices have no dim of their own");
    return NULL;
}

const char *type_grouped_weight(Rule *r)
{
    const Type *z = r->in[0], *y = r->in[1], *ends = r->in[2];
    DimList own[2] = {{0}, {0}};
    Type *t = &r->out[0];
    const char *wrong = are_ends(r, ends);
    if (!wrong)
        wrong = sorted_rows(r, z, ends, "the first operand", &own[0]);
    if (!wrong)
        wrong = sorted_rows(r, y, ends, "the second operand", &own[1]);
    if (wrong)
        return wrong;
    if (!own[0].n || !own[1].n)
        WRONG(r, "an operand has no dim but those of rows and groups");
    *t = (Type){.dtype = z->dtype, .rank = 1, .dims = {r->attrs->dim}};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < own[k].n; i++) {
            if (type_find(t, own[k].dim[i].name) >= 0)
                WRONG(r, "both operands have the dim '%s', which is none of rows or groups",
                      rule_dim(r, own[k].dim[i].name));
            wrong = add(r, t, own[k].dim[i]);
            if (wrong)
                return wrong;
        }
    return rule_added(r, 3);
}
