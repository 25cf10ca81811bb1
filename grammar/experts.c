/* experts.c - choosing among experts, sending positions to them and fetching them back.
 *
 *   chosen = top(score, choice -> best)
 *   z      = dispatch(x, chosen, seq -> (experts, slot))
 *   y      = combine(f(z), chosen, weight, (experts, slot) -> seq)
 * or, with the rows of all experts along one dim,
 *   z      = dispatch(x, chosen, seq -> rows)
 *   y      = grouped(f(z), w, chosen, experts -> rows, over hidden)
 *   x      = combine(y, chosen, weight, rows -> seq)
 *
 * The group is the dims of `chosen` that are left: an expert has its slots in each. */
#include "grammar/builtin.h"

static const Val poison = {.kind = VAL_POISON};

static bool has_dim(Elab *e, Value x, const Node *arg, Name d)
{
    if (type_find(type_of(e->module, x), d) >= 0)
        return true;
    fail(e, arg->span, 215, "this has no dim '%s'", text(e, d));
    help(e, "its dims are %s", type_text(e, x));
    return false;
}

static bool lacks_dim(Elab *e, Value x, const Node *arg, Name d)
{
    if (type_find(type_of(e->module, x), d) < 0)
        return true;
    fail(e, arg->span, 217, "there is a dim '%s' already: the dims are %s", text(e, d),
         type_text(e, x));
    return false;
}

static bool is_float(Elab *e, const Node *arg, Value x)
{
    if (dtype_is_float(type_of(e->module, x)->dtype))
        return true;
    fail(e, arg->span, 211, "numbers are wanted here");
    return false;
}

Val builtin_top(Elab *e, const Call *c)
{
    Value x;
    Dim d = c->from.dim[0], to = c->to.dim[0];
    Attrs attrs = {.dim = d, .to = to};
    if (!tensor_arg(e, c->arg[0], c, &x) || !is_float(e, c->arg[0], x) ||
        !has_dim(e, x, c->arg[0], d.name) || !lacks_dim(e, x, c->arg[0], to.name) ||
        !check_padding(e, c->node->at, &c->from) || !check_padding(e, c->node->at, &c->to))
        return poison;
    if (to.size > d.size)
        return fail(e, c->arrow->at, 216, "'%s' is %lld, and '%s' has only %lld", text(e, to.name),
                    (long long)to.size, text(e, d.name), (long long)d.size);
    x = build_cast(&e->b, x, e->compute);
    return make(e, c->node->at, OP_top, &attrs, 1, &x);
}

/* ---- choices -------------------------------------------------------------------------------- */

/* The dim that indices number. */
static Dim index_dim(Elab *e, Value v)
{
    const Name d = type_of(e->module, v)->indexes;
    return (Dim){.name = d, .size = dim_info(e, d)->size};
}

/* Indices, of as many as there are experts. */
static bool chooses(Elab *e, const Node *arg, Val v, Dim experts)
{
    const Type *t = v.kind == VAL_TENSOR ? type_of(e->module, v.value) : NULL;
    if (!t || t->dtype != DT_i32 || !t->indexes) {
        fail(e, arg->span, 218, "these are no choices, as top(score, choice -> best) gives");
        return false;
    }
    int64_t among = dim_info(e, t->indexes)->size;
    if (among == experts.size)
        return true;
    fail(e, arg->span, 216, "these choose among the %lld of '%s', and '%s' are %lld",
         (long long)among, text(e, t->indexes), text(e, experts.name), (long long)experts.size);
    return false;
}

/* The dims of choices that `rows` lack are what is chosen for each position. */
static bool find_choices(Elab *e, const Node *arg, Value choice, Value rows, Attrs *a)
{
    const Type *t = type_of(e->module, choice), *x = type_of(e->module, rows);
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i].name == a->along.name || type_find(x, t->dims[i].name) >= 0)
            continue;
        if (a->over.n) {
            fail(e, arg->span, 213, "'%s' and '%s' are dims of the choices, and not of the rows",
                 text(e, a->over.dim[0].name), text(e, t->dims[i].name));
            help(e, "the choices have %s, the rows %s", type_text(e, choice), type_text(e, rows));
            return false;
        }
        a->over.dim[a->over.n++] = t->dims[i];
    }
    return true;
}

/* There is a row for each choice: as many as a group has. */
static bool rows_fit(Elab *e, const Call *c, Dim rows, int64_t choices)
{
    if (rows.size == choices)
        return true;
    fail(e, c->arrow->at, 216, "'%s' is %lld, and a group makes %lld choices", text(e, rows.name),
         (long long)rows.size, (long long)choices);
    help(e, "each choice has a row: dim %s = %lld", text(e, rows.name), (long long)choices);
    return false;
}

/* The choices and the slots that they are given. Sorted rows have no dim of experts: theirs is what
 * choices are indices of. */
static bool routed(Elab *e, const Call *c, Value rows, Attrs *a, Value out[2])
{
    const Node *arg = c->arg[1];
    Val chosen = expr(e, arg);
    if (chosen.kind == VAL_POISON)
        return false;
    if (a->sorted && chosen.kind == VAL_TENSOR && type_of(e->module, chosen.value)->indexes)
        a->dim = index_dim(e, chosen.value);
    if (!chooses(e, arg, chosen, a->dim))
        return false;
    DimList dims = {3, {a->dim, a->to, a->along}};
    out[0] = chosen.value;
    if (!has_dim(e, out[0], arg, a->along.name) || !lacks_dim(e, out[0], arg, a->dim.name) ||
        !lacks_dim(e, out[0], arg, a->to.name) || !find_choices(e, arg, out[0], rows, a) ||
        !check_padding(e, c->node->at, &dims) || !check_padding(e, c->node->at, &a->over) ||
        (a->sorted &&
         !rows_fit(e, c, a->to, a->along.size * (a->over.n ? a->over.dim[0].size : 1))))
        return false;
    Val slots = make(e, c->node->at, OP_slots, a, 1, out);
    out[1] = slots.value;
    return slots.kind == VAL_TENSOR;
}

Val builtin_dispatch(Elab *e, const Call *c)
{
    const bool sorted = c->to.n == 1;
    Attrs attrs = {.along = c->from.dim[0], .to = c->to.dim[!sorted], .sorted = sorted};
    Value in[3];
    if (!sorted)
        attrs.dim = c->to.dim[0];
    if (!tensor_arg(e, c->arg[0], c, &in[0]) || !is_float(e, c->arg[0], in[0]) ||
        !has_dim(e, in[0], c->arg[0], attrs.along.name) ||
        (!sorted && !lacks_dim(e, in[0], c->arg[0], attrs.dim.name)) ||
        !lacks_dim(e, in[0], c->arg[0], attrs.to.name) || !routed(e, c, in[0], &attrs, in + 1) ||
        !lacks_dim(e, in[0], c->arg[0], attrs.dim.name))
        return poison;
    return make(e, c->node->at, OP_dispatch, &attrs, 3, in);
}

Val builtin_combine(Elab *e, const Call *c)
{
    const bool sorted = c->from.n == 1;
    Attrs attrs = {.along = c->to.dim[0], .to = c->from.dim[!sorted], .sorted = sorted};
    Value in[4];
    bool weighed = c->nargs == 3;
    if (!sorted)
        attrs.dim = c->from.dim[0];
    if (!tensor_arg(e, c->arg[0], c, &in[0]) || !is_float(e, c->arg[0], in[0]) ||
        (!sorted && !has_dim(e, in[0], c->arg[0], attrs.dim.name)) ||
        !has_dim(e, in[0], c->arg[0], attrs.to.name) ||
        !lacks_dim(e, in[0], c->arg[0], attrs.along.name) || !routed(e, c, in[0], &attrs, in + 1) ||
        (sorted && !lacks_dim(e, in[0], c->arg[0], attrs.dim.name)))
        return poison;
    if (weighed && (!tensor_arg(e, c->arg[2], c, &in[3]) || !is_float(e, c->arg[2], in[3])))
        return poison;
    if (weighed && !type_same_dims(type_of(e->module, in[3]), type_of(e->module, in[1]))) {
        fail(e, c->arg[2]->span, 215, "there is a weight for each choice: choices have %s",
             type_text(e, in[1]));
        help(e, "the weight has %s", type_text(e, in[3]));
        return poison;
    }
    return make(e, c->node->at, OP_combine, &attrs, 3 + weighed, in);
}

/* ---- grouped products ----------------------------------------------------------------------- */

/* The dims of the choices that z lacks are those of positions and of what each chooses: they have
 * as many choices as there are rows. */
static bool counted(Elab *e, const Call *c, Value choice, Value z, Dim rows, Attrs *a)
{
    const Type *t = type_of(e->module, choice), *has = type_of(e->module, z);
    DimList other = {0};
    int64_t choices = 1;
    for (int i = 0; i < t->rank; i++)
        if (type_find(has, t->dims[i].name) < 0) {
            other.dim[other.n++] = t->dims[i];
            choices *= t->dims[i].size;
        }
    if (!other.n || other.n > 2) {
        fail(e, c->arg[2]->span, 213, "%d dims of the choices are none of the rows", other.n);
        help(e, "the choices have %s, the rows %s: positions, and what each chooses, are rows",
             type_text(e, choice), type_text(e, z));
        return false;
    }
    a->along = other.dim[0];
    if (other.n == 2)
        a->over = (DimList){1, {other.dim[1]}};
    return check_padding(e, c->node->at, &other) && rows_fit(e, c, rows, choices);
}

/* Each dim that is summed is one of both sides; a row has no other, and the matrices have one. */
static bool multiplies(Elab *e, const Call *c, const Value in[2], const Attrs *a, Value choice)
{
    const Type *z = type_of(e->module, in[0]), *w = type_of(e->module, in[1]);
    const Type *groups = type_of(e->module, choice);
    int columns = 0;
    for (int k = 0; k < c->over.n; k++)
        for (int side = 0; side < 2; side++)
            if (!has_dim(e, in[side], c->arg[side], c->over.dim[k].name))
                return false;
    for (int i = 0; i < z->rank; i++) {
        const Name d = z->dims[i].name;
        if (d != a->along.name && !dims_have(&c->over, d) && type_find(groups, d) < 0) {
            fail(e, c->arg[0]->span, 213, "a row has the dim '%s', which is not summed",
                 text(e, d));
            help(e, "the left side has %s; all dims of a row are summed", type_text(e, in[0]));
            return false;
        }
    }
    for (int i = 0; i < w->rank; i++) {
        const Name d = w->dims[i].name;
        if (d == a->dim.name || dims_have(&c->over, d))
            continue;
        if (type_find(z, d) >= 0 || type_find(groups, d) >= 0) {
            fail(e, c->arg[1]->span, 217, "both sides have the dim '%s', which is not summed",
                 text(e, d));
            return false;
        }
        columns++;
    }
    if (columns)
        return true;
    fail(e, c->arg[1]->span, 215, "the matrices have no dim but those that are summed: %s",
         type_text(e, in[1]));
    return false;
}

Val builtin_grouped(Elab *e, const Call *c)
{
    const Dim experts = c->from.dim[0], rows = c->to.dim[0];
    Value in[3];
    if (!tensor_arg(e, c->arg[0], c, &in[0]) || !is_float(e, c->arg[0], in[0]) ||
        !has_dim(e, in[0], c->arg[0], rows.name) || !lacks_dim(e, in[0], c->arg[0], experts.name) ||
        !tensor_arg(e, c->arg[1], c, &in[1]) || !is_float(e, c->arg[1], in[1]) ||
        !has_dim(e, in[1], c->arg[1], experts.name) || !lacks_dim(e, in[1], c->arg[1], rows.name))
        return poison;
    const Val chosen = expr(e, c->arg[2]);
    if (chosen.kind == VAL_POISON || !chooses(e, c->arg[2], chosen, experts) ||
        !lacks_dim(e, chosen.value, c->arg[2], rows.name))
        return poison;
    const DimList dims = {2, {experts, rows}};
    const Dim choice = index_dim(e, chosen.value);
    Attrs of_ends = {.dim = choice, .to = rows};
    Attrs attrs = {.over = c->over, .along = rows, .dim = experts, .to = choice};
    if (!lacks_dim(e, chosen.value, c->arg[2], choice.name) ||
        !lacks_dim(e, in[0], c->arg[0], choice.name) || !check_padding(e, c->node->at, &dims) ||
        !counted(e, c, chosen.value, in[0], rows, &of_ends) ||
        !multiplies(e, c, in, &attrs, chosen.value) ||
        !unify(e, c->node->at, 2,
               (Val[]){{.kind = VAL_TENSOR, .value = in[0]}, {.kind = VAL_TENSOR, .value = in[1]}},
               in))
        return poison;
    const Val ends = make(e, c->node->at, OP_ends, &of_ends, 1, &chosen.value);
    in[2] = ends.value;
    return ends.kind == VAL_TENSOR ? make(e, c->node->at, OP_grouped, &attrs, 3, in) : poison;
}
