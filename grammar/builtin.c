/* builtin.c - the functions of builtin.def. Each sees its arguments counted and of the right kinds.
 */
#include "grammar/builtin.h"
#include "grammar/tokens.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const Val poison = {.kind = VAL_POISON};

bool tensor_arg(Elab *e, const Node *arg, const Call *c, Value *x)
{
    Val v = expr(e, arg);
    if (v.kind == VAL_NUMBER)
        fail(e, arg->span, 214, "'%s' of a number, which has no dims", text(e, c->node->name));
    *x = v.value;
    return v.kind == VAL_TENSOR;
}

static bool has_all(Elab *e, const Call *c, Value x)
{
    const Type *t = type_of(e->module, x);
    for (int i = 0; i < c->over.n; i++)
        if (type_find(t, c->over.dim[i].name) < 0) {
            fail(e, c->over_node->list.data[0]->at, 215, "'%s': the value has no dim '%s'",
                 text(e, c->node->name), text(e, c->over.dim[i].name));
            note(e, c->arg[0]->span, "its dims are %s", type_text(e, x));
            help_scan(e, c->over.dim[i].name);
            return false;
        }
    return true;
}

/* ---- reductions --------------------------------------------------------------------------- */

static bool reduction(Elab *e, const Call *c, Value *x, Attrs *attrs)
{
    if (!tensor_arg(e, c->arg[0], c, x) || !has_all(e, c, *x))
        return false;
    const Type *t = type_of(e->module, *x);
    if (!dtype_is_float(t->dtype)) {
        fail(e, c->arg[0]->span, 211, "'%s' of %s", text(e, c->node->name),
             t->dtype == DT_bool ? "conditions" : "indices");
        return false;
    }
    attrs->over = c->over;
    if (e->rule && !c->over_given) {
        fail(e, c->node->at, 110, "'%s' of all dims in the rule of an optimizer",
             text(e, c->node->name));
        help(e, "a parameter of a repeat lies beside those of the other layers: write `over all`");
        return false;
    }
    for (int i = 0; !c->over_given && i < t->rank; i++)
        attrs->over.dim[attrs->over.n++] = t->dims[i];
    return true;
}

/* The operand of a sum: in the expression of a metric a double, so that counts come out exact. */
static bool summed(Elab *e, const Call *c, Value *x, Attrs *attrs)
{
    if (!reduction(e, c, x, attrs))
        return false;
    if (e->in_metric && e->frame->block && e->frame->block->kind == N_MODEL)
        *x = build_cast(&e->b, *x, DT_f64);
    if (e->rule)
        *x = padded_with(e, *x, &attrs->over, 0);
    return true;
}

static Val builtin_sum(Elab *e, const Call *c)
{
    Attrs attrs = {0};
    Value x;
    if (!summed(e, c, &x, &attrs))
        return poison;
    return attrs.over.n ? make(e, c->node->at, OP_sum, &attrs, 1, &x) : tensor_val(x);
}

static Val builtin_mean(Elab *e, const Call *c)
{
    Attrs attrs = {0};
    Value x;
    if (!summed(e, c, &x, &attrs))
        return poison;
    if (!attrs.over.n)
        return tensor_val(x);
    Val sum = make(e, c->node->at, OP_sum, &attrs, 1, &x);
    Number share = number_inverse(dims_number(e, &attrs.over));
    return apply2(e, c->node->at, OP_mul, sum, (Val){.kind = VAL_NUMBER, .number = share});
}

static Val elementwise(Elab *e, Op op, const Call *c)
{
    Val x[3];
    for (int i = 0; i < c->nargs; i++)
        x[i] = expr(e, c->arg[i]);
    return apply_op(e, c->node->at, op, c->nargs, x);
}

/* max and min: of two values or numbers each, or of the elements of one along dims. */
static Val extreme(Elab *e, const Call *c, Op op)
{
    if (c->nargs == 2 && !c->over_given)
        return elementwise(e, op, c);
    if (c->nargs == 2 || !c->over_given) {
        fail(e, c->node->at, 241, "%s takes two values, or one and `over`", text(e, c->node->name));
        return poison;
    }
    Attrs attrs = {0};
    Value x;
    if (!reduction(e, c, &x, &attrs))
        return poison;
    Val v = tensor_val(x);
    if (op == OP_min)
        v = apply_op(e, c->node->at, OP_neg, 1, &v);
    if (v.kind == VAL_POISON)
        return poison;
    if (e->rule)
        v.value = padded_with(e, v.value, &attrs.over, -(double)FLT_MAX);
    v = make(e, c->node->at, OP_rmax, &attrs, 1, &v.value);
    return op == OP_min ? apply_op(e, c->node->at, OP_neg, 1, &v) : v;
}

static Val builtin_max(Elab *e, const Call *c)
{
    return extreme(e, c, OP_max);
}

static Val builtin_min(Elab *e, const Call *c)
{
    return extreme(e, c, OP_min);
}

/* For sizes: 5 / 2 experts are no dim, ceil(5 / 2) are. */
static Val builtin_ceil(Elab *e, const Call *c)
{
    Val v = number_expr(e, c->arg[0]);
    int64_t i;
    if (v.kind != VAL_NUMBER)
        return poison;
    v.number = number_integer(v.number, &i) ? v.number : number_real(ceil(v.number.d));
    if (number_integer(v.number, &i))
        v.number = number_int(i);
    return v;
}

/* Rounds a double (a loss, the numbers of a step) to the type of the rest of the program. */
static Val builtin_rounded(Elab *e, const Call *c)
{
    Val v = expr(e, c->arg[0]);
    if (v.kind != VAL_TENSOR)
        return v;
    if (!dtype_is_float(type_of(e->module, v.value)->dtype))
        return fail(e, c->arg[0]->span, 211, "'rounded' of indices or conditions");
    return tensor_val(build_cast(&e->b, v.value, e->compute));
}

/* ---- choices and indices ------------------------------------------------------------------ */

static Name indexed_by(const Elab *e, Val v)
{
    return v.kind == VAL_TENSOR ? type_of(e->module, v.value)->indexes : 0;
}

/* A side of a choice among indices: indices of the dim, or the number of one. */
static bool index_side(Elab *e, const Node *arg, Name of, Val *v)
{
    const int64_t n = dim_info(e, of)->valid;
    int64_t at;
    if (v->kind == VAL_TENSOR) {
        if (indexed_by(e, *v) != of)
            fail(e, arg->span, 246, "select: the other side has indices of '%s'", text(e, of));
        return indexed_by(e, *v) == of;
    }
    if (!number_integer(v->number, &at) || at < 0 || at >= n) {
        fail(e, arg->span, 251, "index %s of dim '%s', which has %lld",
             number_text(e->arena, v->number), text(e, of), (long long)n);
        return false;
    }
    const Type t = {.dtype = DT_i32, .indexes = of};
    const Attrs attrs = {.value = (double)at};
    *v = tensor_val(build_typed(&e->b, OP_const, &attrs, 0, NULL, 1, &t, NULL)->out[0]);
    return true;
}

/* Both sides of one type; false after an error. */
static bool unify_sides(Elab *e, const Call *c, Val *sides[2])
{
    const Name of = indexed_by(e, *sides[0]) ? indexed_by(e, *sides[0]) : indexed_by(e, *sides[1]);
    const DType t = common_type(e, 2, (Val[]){*sides[0], *sides[1]});
    for (int i = 0; i < 2; i++) {
        if (of) {
            if (!index_side(e, c->arg[1 + i], of, sides[i]))
                return false;
            continue;
        }
        Value v = as_tensor(e, *sides[i], t);
        if (!dtype_is_float(type_of(e->module, v)->dtype)) {
            fail(e, c->arg[1 + i]->span, 211, "select of conditions");
            return false;
        }
        *sides[i] = tensor_val(build_cast(&e->b, v, t));
    }
    return true;
}

/* A condition known at compile time chooses there: the other side is not computed. */
static Val builtin_select(Elab *e, const Call *c)
{
    Val cond = expr(e, c->arg[0]);
    if (cond.kind == VAL_NUMBER) {
        note_used(e, c->arg[cond.number.d != 0 ? 2 : 1]);
        return several_expr(e, c->arg[cond.number.d != 0 ? 1 : 2]);
    }
    Val a = expr(e, c->arg[1]), b = expr(e, c->arg[2]);
    if (cond.kind == VAL_POISON || a.kind == VAL_POISON || b.kind == VAL_POISON)
        return poison;
    if (type_of(e->module, cond.value)->dtype != DT_bool) {
        fail(e, c->arg[0]->span, 250, "the condition of select must be a comparison");
        return poison;
    }
    Val *sides[2] = {&a, &b};
    if (!unify_sides(e, c, sides))
        return poison;
    Type all = *type_of(e->module, cond.value);
    for (int i = 0; i < 2; i++) {
        const Type *more = type_of(e->module, sides[i]->value);
        for (int k = 0; k < more->rank; k++)
            if (type_find(&all, more->dims[k].name) < 0 && all.rank < MAX_RANK)
                all.dims[all.rank++] = more->dims[k];
    }
    return fits(e, c->node->at, &all)
               ? make(e, c->node->at, OP_select, NULL, 3, (Value[]){cond.value, a.value, b.value})
               : poison;
}

static bool dim_arg(Elab *e, const Call *c, Dim *d)
{
    const Node *n = node_bare(c->arg[0]);
    if (n->kind != N_NAME) {
        fail(e, n->span, 204, "'%s' takes a dim", text(e, c->node->name));
        return false;
    }
    if (e->constant) {
        fail(e, c->node->at, 223, "'%s' is a tensor; a number is wanted here",
             text(e, c->node->name));
        return false;
    }
    return resolve_dim(e, n, d);
}

static Val builtin_index(Elab *e, const Call *c)
{
    Dim d;
    return dim_arg(e, c, &d) ? tensor_val(index_of(e, d, e->compute)) : poison;
}

/* The condition that an element of a dim is no padding; 1 if the dim has none. */
static Val builtin_valid(Elab *e, const Call *c)
{
    Dim d;
    if (!dim_arg(e, c, &d))
        return poison;
    const DimInfo *info = dim_info(e, d.name);
    if (info->size == info->valid)
        return (Val){.kind = VAL_NUMBER, .number = number_int(1)};
    Value index = build_iota(&e->b, e->compute, d);
    Value end = build_const(&e->b, e->compute, (double)info->valid);
    return make(e, c->node->at, OP_lt, NULL, 2, (Value[]){index, end});
}

static Val pick_at(Elab *e, const Call *c, Value x, int64_t at)
{
    Dim d = c->over.dim[0];
    int64_t n = dim_info(e, d.name)->valid;
    if (at < 0 || at >= n)
        return fail(e, (c->option ? c->option : c->node)->span, 251,
                    "index %lld of dim '%s', which has %lld", (long long)at, text(e, d.name),
                    (long long)n);
    Attrs attrs = {.dim = d, .at = at};
    return make(e, c->node->at, OP_pick, &attrs, 1, &x);
}

static Val builtin_pick(Elab *e, const Call *c)
{
    Value x;
    int64_t at;
    if (!c->option) {
        fail(e, c->node->at, 243, "'pick' needs `at = ...`");
        return poison;
    }
    if (!tensor_arg(e, c->arg[0], c, &x) || !has_all(e, c, x) || !integer_of(e, c->option->a, &at))
        return poison;
    return pick_at(e, c, x, at);
}

static Val builtin_last(Elab *e, const Call *c)
{
    Value x;
    if (!tensor_arg(e, c->arg[0], c, &x) || !has_all(e, c, x))
        return poison;
    return pick_at(e, c, x, dim_info(e, c->over.dim[0].name)->valid - 1);
}

static Val builtin_rotate(Elab *e, const Call *c)
{
    Value x;
    if (!tensor_arg(e, c->arg[0], c, &x) || !has_all(e, c, x))
        return poison;
    Dim d = c->over.dim[0];
    if (!check_padding(e, c->node->at, &c->over))
        return poison;
    if (c->over.n != 1 || d.size % 2) {
        fail(e, c->over_node->list.data[0]->at, 252, "'%s' is %lld, which has no halves",
             text(e, d.name), (long long)d.size);
        return poison;
    }
    Attrs attrs = {.dim = d};
    return make(e, c->node->at, OP_rotate, &attrs, 1, &x);
}

/* The same along more dims. */
static Val builtin_expand(Elab *e, const Call *c)
{
    Val v = expr(e, c->arg[0]);
    if (v.kind == VAL_POISON)
        return poison;
    Value x = as_tensor(e, v, e->compute);
    Type t = *type_of(e->module, x);
    for (int i = 0; i < c->over.n; i++)
        if (type_find(&t, c->over.dim[i].name) >= 0) {
            fail(e, c->over_node->list.data[0]->at, 217, "'expand': the value has the dim '%s'",
                 text(e, c->over.dim[i].name));
            note(e, c->arg[0]->span, "its dims are %s", type_text(e, x));
            return poison;
        }
    Type more = {.rank = c->over.n};
    memcpy(more.dims, c->over.dim, sizeof more.dims);
    if (!join_dims(e, c->node->at, &t, &more))
        return poison;
    return tensor_val(build_as(&e->b, x, t));
}

/* ---- the table ---------------------------------------------------------------------------- */

typedef struct Builtin {
    const char *name;
    Op op; /* of a pointwise one, whose usage is its operands */
    int min, max, along, over, from;
    const char *option, *usage;
    BuiltinFn *fn;
} Builtin;

static const Builtin builtins[] = {
#define BUILTIN(name, min, max, along, over, from, option, usage)                                  \
    {#name, OP_none, min, max, along, over, from, option, usage, builtin_##name},
#include "grammar/builtin.def"
};
enum { NBUILTINS = sizeof builtins / sizeof *builtins };

/* The functions that are pointwise ops, then those of the table. */
const char *builtin_name(size_t n)
{
    for (Op op = OP_none + 1; op < OP_count; op++)
        if (op_is(op, FUNCTION) && n-- == 0)
            return op_info[op].name;
    return n < NBUILTINS ? builtins[n].name : NULL;
}

static bool find(const char *name, Builtin *b)
{
    static const char *const usage[] = {[1] = "x", [2] = "a, b", [3] = "a, b, c"};
    Op op = op_find(name);
    if (op_is(op, FUNCTION)) {
        int n = op_info[op].min;
        *b = (Builtin){.name = name, .op = op, .min = n, .max = n, .usage = usage[n]};
        return true;
    }
    for (int i = 0; i < NBUILTINS; i++)
        if (strcmp(builtins[i].name, name) == 0) {
            *b = builtins[i];
            return true;
        }
    return false;
}

bool is_builtin(const char *name)
{
    Builtin b;
    return find(name, &b);
}

const char *mg_function(size_t n)
{
    return builtin_name(n);
}

const char *mg_function_usage(const char *name, Arena *a)
{
    Builtin b;
    if (!find(name, &b))
        return NULL;
    return b.fn ? b.usage : arena_printf(a, "%s(%s)", name, b.usage);
}

bool maps_numbers(const char *name)
{
    Builtin b;
    return find(name, &b) && (b.op || b.fn == builtin_select || b.fn == builtin_ceil ||
                              b.fn == builtin_max || b.fn == builtin_min);
}

static Val misused(Elab *e, const Builtin *b, Span at, const char *what)
{
    fail(e, at, 241, "'%s' %s", b->name, what);
    if (b->op)
        help(e, "its use is %s(%s)", b->name, b->usage);
    else
        help(e, "its use is %s", b->usage);
    return poison;
}

/* Sorts the arguments into *c; what is wrong with them, or NULL. */
static const char *arrange(Elab *e, const Builtin *b, const Args *a, Call *c, Span *at)
{
    *at = a->call->at;
    c->node = a->call;
    c->nargs = (int)a->positional.n;
    if (a->call->text)
        return "has no parameters that `as` could name";
    if (a->positional.n < (size_t)b->min || a->positional.n > (size_t)b->max)
        return arena_printf(e->arena, "takes %d value%s; %zu are given", b->min,
                            b->min == 1 ? "" : "s", a->positional.n);
    for (size_t i = 0; i < a->positional.n; i++)
        c->arg[i] = a->positional.data[i];
    for (size_t i = 0; i < a->named.n; i++) {
        *at = a->named.data[i]->at;
        if (!b->option || strcmp(b->option, text(e, a->named.data[i]->name)) != 0 || c->option)
            return arena_printf(e->arena, "has no argument '%s'", text(e, a->named.data[i]->name));
        c->option = a->named.data[i];
    }
    *at = a->call->at;
    if (a->along.n > (b->along ? 1 : 0) || a->over.n > (b->over ? 1 : 0))
        return a->along.n > (b->along ? 1 : 0) ? "takes no `along` here" : "takes no `over` here";
    if ((b->along == 2 && !a->along.n) || (b->over == 2 && !a->over.n))
        return b->along == 2 ? "needs `along d`" : "needs `over d`";
    if (a->arrows.n != (b->from ? 1u : 0u))
        return a->arrows.n ? "takes no such `->`" : "needs `->`";
    c->arrow = a->arrows.n ? a->arrows.data[0] : NULL;
    c->over_given = a->along.n || a->over.n;
    c->over_node = a->along.n ? a->along.data[0] : a->over.n ? a->over.data[0] : NULL;
    return NULL;
}

/* from -> to: of one dim and two, one of them on each side; of `top` and `grouped` one on both, and
 * so where rows are sorted. */
static bool arrow(Elab *e, const Builtin *b, Call *c)
{
    if (!arrow_side(e, c->arrow->a, &c->from) || !arrow_side(e, c->arrow->b, &c->to))
        return false;
    int from = b->fn == builtin_join ? c->nargs : b->from;
    int to = b->from == 2 || b->fn == builtin_top || b->fn == builtin_grouped ? 1 : 2;
    if (c->from.n == 1 && c->to.n == 1 && (b->fn == builtin_dispatch || b->fn == builtin_combine))
        return true;
    if (c->from.n == from && c->to.n == to)
        return true;
    misused(e, b, c->arrow->at, "takes other dims than these");
    return false;
}

/* May rules call it? Those that know of positions, tokens, noise or experts are a model's. */
static bool of_rules(const Builtin *b)
{
    static const char *const names[] = {"max", "min", "ceil", "rounded", "sum", "mean", "select"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], b->name))
            return true;
    return !b->fn;
}

Val call_builtin(Elab *e, const Args *a)
{
    Builtin found;
    const Builtin *b = &found;
    Call c = {0};
    Span at;
    find(text(e, a->call->name), &found);
    if (e->rule && !of_rules(b)) {
        fail(e, a->call->at, 110, "'%s' in the rule of an optimizer", b->name);
        help(e, !strcmp(b->name, "step") ? "the number of the step, from 1, is `step`"
                                         : "a rule is arithmetic on elements, sums and means over "
                                           "`rows`, `cols` or `all`, and products");
        return poison;
    }
    const char *wrong = arrange(e, b, a, &c, &at);
    if (wrong)
        return misused(e, b, at, wrong);
    if (c.over_node && !resolve_dims(e, &c.over_node->list, &c.over))
        return poison;
    if (b->along && c.over.n != 1)
        return misused(e, b, c.over_node->at, "takes one dim");
    if (c.arrow && !arrow(e, b, &c))
        return poison;
    return b->fn ? b->fn(e, &c) : elementwise(e, b->op, &c);
}
