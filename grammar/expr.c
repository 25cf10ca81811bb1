/* expr.c - expressions: numbers are folded, tensors become instructions. */
#include "grammar/elab.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Val poison = {.kind = VAL_POISON};

Val tensor_val(Value v)
{
    return (Val){.kind = VAL_TENSOR, .value = v};
}

static Val number_val(Number n)
{
    return (Val){.kind = VAL_NUMBER, .number = n};
}

/* How many rows are evaluated, as dtype t. */
static Value rows_evaluated(Elab *e, DType t)
{
    Type scalar = {.dtype = DT_i64};
    if (!e->filled)
        e->filled = fn_arg(e, ARG_filled, 0, scalar, "filled");
    return build_cast(&e->b, e->filled, t);
}

Value as_tensor(Elab *e, Val v, DType t)
{
    if (v.kind == VAL_TENSOR)
        return v.value;
    int power = e->mode == MODE_EVAL && dtype_is_float(t) ? v.number.rows : 0;
    double batch = (double)e->module->batch.size, number = v.number.d / pow(batch, power);
    if (t == DT_f32 && fabs(number) > (double)FLT_MAX)
        fail(e, e->at, 212, "%s is infinite in f32, whose largest number is 3.4e38",
             number_text(e->arena, v.number));
    Value x = build_const(&e->b, t, number);
    for (int k = 0; k < abs(power); k++)
        x = build2(&e->b, power > 0 ? OP_mul : OP_div, x, rows_evaluated(e, t));
    return x;
}

bool fits(Elab *e, Span at, const Type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (!size_multiply(n, t->dims[i].size, &n) || n > INT64_C(1) << 59) {
            const char *dims = "";
            for (int k = 0; k < t->rank; k++)
                dims = arena_printf(e->arena, "%s%s%s=%lld", dims, k ? ", " : "",
                                    text(e, t->dims[k].name), (long long)t->dims[k].size);
            fail(e, at, 220, "a tensor of more than 2^59 elements: [%s]", dims);
            return false;
        }
    return true;
}

Val make(Elab *e, Span at, Op op, const Attrs *attrs, int nin, const Value *in)
{
    Attrs none = {0};
    Type out[8];
    const char *wrong = type_check(e->module, op, attrs ? attrs : &none, nin, in, 8, out);
    if (wrong)
        return fail(e, at, 219, "%s: %s", op_info[op].name, wrong);
    Ins *i = build_typed(&e->b, op, attrs, nin, in, op_info[op].results, out, NULL);
    return tensor_val(i->out[0]);
}

/* ---- operands of one type ----------------------------------------------------------------- */

bool join_dims(Elab *e, Span at, Type *t, const Type *more)
{
    for (int i = 0; i < more->rank; i++) {
        if (type_find(t, more->dims[i].name) >= 0)
            continue;
        if (t->rank == MAX_RANK) {
            fail(e, at, 206, "the result would have more than %d dims", MAX_RANK);
            return false;
        }
        t->dims[t->rank++] = more->dims[i];
    }
    return fits(e, at, t);
}

DType common_type(const Elab *e, int n, const Val *x)
{
    bool wide = false, narrow = false;
    for (int i = 0; i < n; i++) {
        DType t = x[i].kind == VAL_TENSOR ? type_of(e->module, x[i].value)->dtype : DT_none;
        wide |= t == DT_f64;
        narrow |= t && t != DT_f64;
    }
    return wide && !(e->rule && narrow) ? DT_f64 : e->compute;
}

bool unify(Elab *e, Span at, int n, const Val *x, Value *out)
{
    const DType wide = common_type(e, n, x);
    const Val *odd = NULL;
    for (int i = 0; i < n; i++) {
        DType t = x[i].kind == VAL_TENSOR ? type_of(e->module, x[i].value)->dtype : DT_none;
        odd = !odd && t && !dtype_is_float(t) ? &x[i] : odd;
    }
    if (odd) {
        const Type *t = type_of(e->module, odd->value);
        if (t->dtype == DT_bool)
            fail(e, at, 211, "arithmetic on the result of a comparison");
        else
            fail(e, at, 211, "arithmetic on indices of '%s'", text(e, t->indexes));
        help(e, t->dtype == DT_bool ? "write `select(condition, 1, 0)`"
                                    : "look them up in a table: `table[indices]`");
        return false;
    }
    for (int i = 0; i < n; i++)
        out[i] = build_cast(&e->b, as_tensor(e, x[i], wide), wide);
    return true;
}

/* For comparisons: indices may be compared with each other or with numbers. */
static bool unify_indices(Elab *e, Val *x, Value *out)
{
    bool index[2];
    for (int i = 0; i < 2; i++)
        index[i] = x[i].kind == VAL_TENSOR && type_of(e->module, x[i].value)->dtype == DT_i32;
    for (int i = 0; i < 2; i++) {
        if (index[i] && !index[!i])
            x[i].value = build_cast(&e->b, x[i].value, e->compute);
        out[i] = x[i].value;
    }
    return index[0] && index[1];
}

static Val pointwise(Elab *e, Span at, Op op, int n, const Val *x)
{
    Val same[3] = {x[0], n > 1 ? x[1] : x[0], n > 2 ? x[2] : x[0]};
    Value in[3];
    if (!(op_is(op, CONDITION) && n == 2 && unify_indices(e, same, in)) &&
        !unify(e, at, n, same, in))
        return poison;
    Type t = *type_of(e->module, in[0]);
    for (int i = 1; i < n; i++)
        if (!join_dims(e, at, &t, type_of(e->module, in[i])))
            return poison;
    return make(e, at, op, NULL, n, in);
}

/* "pow of 2 and 0.5" */
static const char *of_numbers(Elab *e, Op op, int n, const Number *x)
{
    const char *said = arena_printf(e->arena, "%s of", op_info[op].name);
    for (int i = 0; i < n; i++)
        said =
            arena_printf(e->arena, "%s%s %s", said, i ? " and" : "", number_text(e->arena, x[i]));
    return said;
}

Val apply_op(Elab *e, Span at, Op op, int n, const Val *x)
{
    Number in[3] = {0}, r;
    bool tensor = false;
    for (int i = 0; i < n; i++) {
        if (x[i].kind == VAL_POISON)
            return poison;
        tensor |= x[i].kind == VAL_TENSOR;
        in[i] = x[i].number;
    }
    if (tensor)
        return pointwise(e, at, op, n, x);
    const char *wrong = number_op(op, n, in, &r);
    return wrong ? fail(e, at, 212, "%s %s", of_numbers(e, op, n, in), wrong) : number_val(r);
}

Val apply2(Elab *e, Span at, Op op, Val x, Val y)
{
    return apply_op(e, at, op, 2, (Val[]){x, y});
}

/* ---- the kinds of expressions ------------------------------------------------------------- */

static Val binary(Elab *e, const Node *n)
{
    static const Op of[] = {OP_add, OP_sub, OP_mul, OP_div, OP_none, OP_lt,
                            OP_le,  OP_gt,  OP_ge,  OP_eq,  OP_ne};
    Val x = expr(e, n->a), y = expr(e, n->b);
    if (x.kind == VAL_POISON || y.kind == VAL_POISON)
        return poison;
    if (x.kind == VAL_TENSOR && n->op == B_DIV && y.kind == VAL_NUMBER && y.number.d == 0)
        return fail(e, n->at, 212, "%s / %s divides by zero", type_text(e, x.value),
                    number_text(e->arena, y.number));
    bool tensor = x.kind == VAL_TENSOR || y.kind == VAL_TENSOR;
    if (tensor && n->op == B_MOD)
        return fail(e, n->at, 212, "the remainder of a tensor: %% is of numbers");
    if (tensor)
        return pointwise(e, n->at, of[n->op], 2, (Val[]){x, y});
    Number r;
    const char *wrong = number_binary(n->op, x.number, y.number, &r);
    return wrong ? fail(e, n->at, 212, "%s %s %s %s", number_text(e->arena, x.number),
                        binary_text(n->op), number_text(e->arena, y.number), wrong)
                 : number_val(r);
}

static Val negate(Elab *e, const Node *n)
{
    Val x = expr(e, n->a);
    if (x.kind != VAL_NUMBER)
        return apply_op(e, n->at, OP_neg, 1, &x);
    Number r;
    const char *wrong = number_negate(x.number, &r);
    return wrong ? fail(e, n->at, 212, "-(%s) %s", number_text(e->arena, x.number), wrong)
                 : number_val(r);
}

/* Both sides must have what is summed: says which lacks it, and what could be summed. */
static bool check_summed(Elab *e, const Node *n, Value x, Value y, const DimList *over)
{
    const Type *tx = type_of(e->module, x), *ty = type_of(e->module, y);
    for (int i = 0; i < over->n; i++) {
        bool left = type_find(tx, over->dim[i].name) >= 0;
        bool right = type_find(ty, over->dim[i].name) >= 0;
        if (left && right)
            continue;
        const Node *at = n->list.data[(size_t)i < n->list.n ? (size_t)i : n->list.n - 1];
        fail(e, at->at, 213, "'%s' cannot be summed: %s no such dim", text(e, over->dim[i].name),
             left    ? "the right side has"
             : right ? "the left side has"
                     : "neither side has");
        note(e, n->a->span, "left:  %s", type_text(e, x));
        note(e, n->b->span, "right: %s", type_text(e, y));
        help_scan(e, over->dim[i].name);
        DimList shared = {0};
        for (int k = 0; k < tx->rank; k++)
            if (type_find(ty, tx->dims[k].name) >= 0)
                shared.dim[shared.n++] = tx->dims[k];
        const char *dims = dims_text(e, &shared);
        bool several = shared.n > 1, listed = n->list.n > 1;
        Span named = {at->at.file, n->list.data[0]->at.begin, n->list.data[n->list.n - 1]->at.end};
        const char *with = several && !listed ? arena_printf(e->arena, "(%s)", dims) : dims;
        if (shared.n && remedy(e, named, with, "they share %s: `over %s%s%s`", dims,
                               several ? "(" : "", dims, several ? ")" : ""))
            return false;
        if (shared.n)
            help(e, "they share %s", dims);
        else
            help(e, "they share no dim; `k[a -> b]` renames one");
        return false;
    }
    return true;
}

bool check_padding(Elab *e, Span at, const DimList *over)
{
    if (e->rule)
        return true;
    for (int i = 0; i < over->n; i++) {
        const DimInfo *d = dim_info(e, over->dim[i].name);
        if (d->size == d->valid)
            continue;
        fail(e, at, 221, "'%s' is padded from %lld to %lld, and its elements are told apart here",
             text(e, d->name), (long long)d->valid, (long long)d->size);
        help(e,
             "padding is left out of sums, maxima and products: pad no dim that is cut, shifted, "
             "turned or chosen from");
        return false;
    }
    return true;
}

bool has_batch(const Elab *e, Value v)
{
    return type_find(type_of(e->module, v), e->module->batch.name) >= 0;
}

static Val dot(Elab *e, const Node *n)
{
    Val x = expr(e, n->a), y = expr(e, n->b);
    DimList over;
    if (!resolve_dims(e, &n->list, &over) || x.kind == VAL_POISON || y.kind == VAL_POISON)
        return poison;
    if (x.kind == VAL_NUMBER || y.kind == VAL_NUMBER) {
        fail(e, (x.kind == VAL_NUMBER ? n->a : n->b)->span, 214,
             "'@' on a number, which has no dims");
        help(e, "write `*`");
        return poison;
    }
    Value in[2];
    if (!check_summed(e, n, x.value, y.value, &over) || !unify(e, n->at, 2, (Val[]){x, y}, in))
        return poison;
    Type t = {0};
    for (int side = 0; side < 2; side++) {
        Type part = {0};
        const Type *have = type_of(e->module, in[side]);
        for (int i = 0; i < have->rank; i++)
            if (!dims_have(&over, have->dims[i].name))
                part.dims[part.rank++] = have->dims[i];
        if (!join_dims(e, n->at, &t, &part))
            return poison;
    }
    const Value left = in[0];
    /* A side with the batch gives the result its first dims: `w @ x` lies as `x @ w` does. */
    if (!has_batch(e, in[0]) && has_batch(e, in[1])) {
        in[0] = in[1];
        in[1] = left;
    }
    for (int side = 0; e->rule && side < 2; side++)
        in[side] = padded_with(e, in[side], &over, 0);
    Attrs attrs = {.over = over};
    const Val product = make(e, n->at, OP_dot, &attrs, 2, in);
    const bool right = map_find(&e->adapted, y.value); /* the one that may have an adapter */
    const int matrix = right == (in[0] == left) ? 1 : 0;
    return adapted_product(e, n->at, in[!matrix], in[matrix], right ? y.value : x.value, &over,
                           product);
}

static Val name(Elab *e, const Node *n)
{
    Sym *s = lookup_or_fail(e, n);
    if (!s || !force(e, s) || was_refused(e->frame, n->name))
        return poison;
    if (s->kind == SYM_DIM)
        return number_val(dims_number(e, &s->dims));
    if (s->kind == SYM_INSTANCE) {
        fail(e, n->at, 278, "'%s' is an instance of a block, and no value", text(e, n->name));
        note(e, s->span, "declared here");
        help(e, "call it: %s(...)", text(e, n->name));
        return poison;
    }
    return s->val.kind == VAL_TENSOR ? tensor_val(at_index(e, s->val.value)) : s->val;
}

static Val literal(Elab *e, const Node *n)
{
    (void)e;
    return number_val(number_literal(n->text, n->number));
}

static Val paren(Elab *e, const Node *n)
{
    return expr(e, n->a);
}

static Val quantity(Elab *e, const Node *n)
{
    return fail(e, n->span, 222, "a number with a unit has no place here");
}

static Val word(Elab *e, const Node *n)
{
    return fail(e, n->span, 222, "'%s' is neither a number nor a name", n->text);
}

/* The nodes that are expressions; lists of names or values are none. */
static Val (*const kinds[N_count])(Elab *, const Node *) = {
    [N_NUMBER] = literal, [N_NAME] = name,         [N_PAREN] = paren,     [N_NEG] = negate,
    [N_BINARY] = binary,  [N_DOT] = dot,           [N_INDEX] = subscript, [N_CALL] = call,
    [N_WORD] = word,      [N_QUANTITY] = quantity,
};

static Val dispatch(Elab *e, const Node *n)
{
    return kinds[n->kind] ? kinds[n->kind](e, n)
                          : fail(e, n->span, 222, "a list has no place here");
}

/* Tells an editor what an expression of the source is. */
static void tell_seen(Elab *e, const Node *n, Val v)
{
    const ElaborateOptions *o = e->options;
    if (!o->seen || e->mode != MODE_TRAIN || e->rule || n->span.file != e->ast->file)
        return;
    const char *path = e->frame && e->frame->path ? e->frame->path : "";
    const Name block = e->frame && e->frame->block ? e->frame->block->name : 0;
    if (v.kind == VAL_TENSOR)
        o->seen(o->whom, n->at, path, block, type_of(e->module, v.value), NULL);
    else if (v.kind == VAL_NUMBER)
        o->seen(o->whom, n->at, path, block, NULL, number_text(e->arena, v.number));
}

Val several_expr(Elab *e, const Node *n)
{
    if (diag_enough(e->diag))
        return poison;
    if (e->stopped)
        return poison;
    if (++e->work > WORK_MAX || (e->module && e->module->values.n > VALUES_MAX && !e->rule)) {
        e->stopped = true;
        return fail(e, n->at, 230, "the program is too large: more than %d operations",
                    e->work > WORK_MAX ? WORK_MAX : VALUES_MAX);
    }
    if (e->nest >= NEST_MAX)
        return fail(e, n->span, 231, "nested too deeply, through calls; the limit is %d levels",
                    NEST_MAX);
    e->nest++;
    const Span span = e->b.span, at = e->at;
    if (!e->frame || !e->frame->prelude) {
        e->at = n->at;
        e->b.span = e->rule ? span : n->at; /* what updates a parameter is shown at its place */
    }
    Val v = dispatch(e, n);
    tell_seen(e, n, v);
    e->b.span = span;
    e->at = at;
    e->nest--;
    return v;
}

Val expr(Elab *e, const Node *n)
{
    Val v = several_expr(e, n);
    if (v.kind != VAL_SEVERAL)
        return v;
    const Node *call = node_bare(n);
    fail(e, call->at, 258, "'%s' gives %zu values where one is wanted", text(e, call->name),
         v.count);
    help(e, "name them in a statement of their own: `a, b = %s(...)`", text(e, call->name));
    return poison;
}

/* ---- numbers ------------------------------------------------------------------------------ */

Val number_expr(Elab *e, const Node *n)
{
    Val v = expr(e, n);
    if (v.kind != VAL_TENSOR)
        return v;
    fail(e, n->span, 223, "this must be a number known at compile time; it is a tensor %s",
         type_text(e, v.value));
    return poison;
}

bool real_of(Elab *e, const Node *n, double *d)
{
    Val v = number_expr(e, n);
    *d = v.number.d;
    return v.kind == VAL_NUMBER;
}

bool integer_of(Elab *e, const Node *n, int64_t *i)
{
    Val v = number_expr(e, n);
    if (v.kind != VAL_NUMBER)
        return false;
    if (number_integer(v.number, i))
        return true;
    fail(e, n->span, 224, "this must be an integer; it is %s", number_text(e->arena, v.number));
    return false;
}
