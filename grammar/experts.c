/* experts.c - choosing among experts, sending positions to them and fetching them back.
 *
 *   chosen = top(score, choice -> best)
 *   z      = dispatch(x, chosen, seq -> (experts, slot))
 *   y      = combine(f(z), chosen, weight, (experts, slot) -> seq)
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

/* The choices and the slots that they are given. */
static bool routed(Elab *e, const Call *c, Value rows, Attrs *a, Value out[2])
{
    const Node *arg = c->arg[1];
    DimList dims = {3, {a->dim, a->to, a->along}};
    Val chosen = expr(e, arg);
    if (chosen.kind == VAL_POISON || !chooses(e, arg, chosen, a->dim))
        return false;
    out[0] = chosen.value;
    if (!has_dim(e, out[0], arg, a->along.name) || !lacks_dim(e, out[0], arg, a->dim.name) ||
        !lacks_dim(e, out[0], arg, a->to.name) || !find_choices(e, arg, out[0], rows, a) ||
        !check_padding(e, c->node->at, &dims) || !check_padding(e, c->node->at, &a->over))
        return false;
    Val slots = make(e, c->node->at, OP_slots, a, 1, out);
    out[1] = slots.value;
    return slots.kind == VAL_TENSOR;
}

Val builtin_dispatch(Elab *e, const Call *c)
{
    Attrs attrs = {.along = c->from.dim[0], .dim = c->to.dim[0], .to = c->to.dim[1]};
    Value in[3];
    if (!tensor_arg(e, c->arg[0], c, &in[0]) || !is_float(e, c->arg[0], in[0]) ||
        !has_dim(e, in[0], c->arg[0], attrs.along.name) ||
        !lacks_dim(e, in[0], c->arg[0], attrs.dim.name) ||
        !lacks_dim(e, in[0], c->arg[0], attrs.to.name) || !routed(e, c, in[0], &attrs, in + 1))
        return poison;
    return make(e, c->node->at, OP_dispatch, &attrs, 3, in);
}

Val builtin_combine(Elab *e, const Call *c)
{
    Attrs attrs = {.along = c->to.dim[0], .dim = c->from.dim[0], .to = c->from.dim[1]};
    Value in[4];
    bool weighed = c->nargs == 3;
    if (!tensor_arg(e, c->arg[0], c, &in[0]) || !is_float(e, c->arg[0], in[0]) ||
        !has_dim(e, in[0], c->arg[0], attrs.dim.name) ||
        !has_dim(e, in[0], c->arg[0], attrs.to.name) ||
        !lacks_dim(e, in[0], c->arg[0], attrs.along.name) || !routed(e, c, in[0], &attrs, in + 1))
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
