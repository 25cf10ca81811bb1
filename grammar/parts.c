/* parts.c - the parts of a tensor that x[...] says by its dims.
 *
 *   x[a = lo .. hi -> b]   the elements lo to hi - 1 along a, as the dim b; b may be left out where
 * lo is 0 and hi is a dim x[a = k]               one element x[a = 2 * b + c]       for each index
 * of b and c the element of that index along a, and 0 where a has none: dims stand for their
 * indices, with whole factors x[a - b]               the same, of the only one of these dims that x
 * has
 *
 *   join(x, y, (a, b) -> d)   the parts behind each other, as one dim
 *
 * A range is a view. What dims count is the op reindex, whose derivative is the same op. */
#include "grammar/builtin.h"

#include <stdlib.h>

static const Val poison = {.kind = VAL_POISON};

/* A sum of dims, each times a whole number. */
typedef struct Affine {
    DimList over;
    int64_t by[MAX_RANK], at;
} Affine;

bool check_parts(Elab *e, Span at, const DimList *dims)
{
    for (int i = 0; i < dims->n; i++)
        if (dims->dim[i].name == e->batch) {
            fail(e, at, 227,
                 "the rows of a batch have no neighbours: '%s' is not cut, shifted, split "
                 "or merged",
                 text(e, e->batch));
            return false;
        }
    return check_padding(e, at, dims);
}

/* ---- sums of dims ------------------------------------------------------------------------- */

static bool is_sum(const Node *n)
{
    return n->kind == N_BINARY && (n->op == B_ADD || n->op == B_SUB || n->op == B_MUL);
}

static bool has_dim_in(Elab *e, const Node *n)
{
    if (n->kind == N_PAREN || n->kind == N_NEG)
        return has_dim_in(e, n->a);
    if (is_sum(n))
        return has_dim_in(e, n->a) || has_dim_in(e, n->b);
    Sym *s = n->kind == N_NAME ? lookup(e, n->name) : NULL;
    return s && s->kind == SYM_DIM;
}

bool counts_dims(Elab *e, const Node *n)
{
    const Node *bare = node_bare(n);
    return (bare->kind == N_NEG || is_sum(bare)) && has_dim_in(e, bare);
}

static bool too_far(Elab *e, const Node *n)
{
    fail(e, n->span, 225, "the index is beyond 2^31");
    return false;
}

static bool add_term(Elab *e, const Node *n, Dim d, int64_t times, Affine *a)
{
    for (int i = 0; i < a->over.n; i++)
        if (a->over.dim[i].name == d.name)
            return !__builtin_add_overflow(a->by[i], times, &a->by[i]) || too_far(e, n);
    if (a->over.n == MAX_RANK) {
        fail(e, n->span, 206, "more than %d dims", MAX_RANK);
        return false;
    }
    a->by[a->over.n] = times;
    a->over.dim[a->over.n++] = d;
    return true;
}

/* Adds `times` the sum that n is. */
static bool add_sum(Elab *e, const Node *n, int64_t times, Affine *a)
{
    Dim d;
    int64_t k;
    if (n->kind == N_PAREN)
        return add_sum(e, n->a, times, a);
    if (n->kind == N_NEG)
        return add_sum(e, n->a, -times, a);
    if (n->kind == N_BINARY && (n->op == B_ADD || n->op == B_SUB))
        return add_sum(e, n->a, times, a) && add_sum(e, n->b, n->op == B_SUB ? -times : times, a);
    if (n->kind == N_NAME && has_dim_in(e, n))
        return resolve_dim(e, n, &d) && add_term(e, n, d, times, a);
    if (is_sum(n) && has_dim_in(e, n)) {
        const bool left = has_dim_in(e, n->a);
        if (left && has_dim_in(e, n->b)) {
            fail(e, n->at, 225, "an index is a sum of dims, each times a whole number");
            return false;
        }
        if (!integer_of(e, left ? n->b : n->a, &k))
            return false;
        if (__builtin_mul_overflow(times, k, &times) || llabs(times) > INT32_MAX)
            return too_far(e, n);
        return add_sum(e, left ? n->a : n->b, times, a);
    }
    if (!integer_of(e, n, &k))
        return false;
    if (__builtin_mul_overflow(times, k, &k) || __builtin_add_overflow(a->at, k, &a->at) ||
        llabs(a->at) > INT32_MAX)
        return too_far(e, n);
    return true;
}

/* The only dim of the sum that x has. */
static bool target_of(Elab *e, const Node *n, Value x, const Affine *a, Dim *d)
{
    int found = 0;
    for (int i = 0; i < a->over.n; i++)
        if (type_find(type_of(e->module, x), a->over.dim[i].name) >= 0) {
            *d = a->over.dim[i];
            found++;
        }
    if (found == 1)
        return true;
    fail(e, n->span, 225,
         found ? "the value has %d of these dims: which is cut must be said"
               : "the value has none of these dims",
         found);
    help(e, "`x[d = ...]` takes parts along d; the dims are %s", type_text(e, x));
    for (int i = 0; i < a->over.n && !found; i++)
        help_scan(e, a->over.dim[i].name);
    return false;
}

/* ---- the parts ---------------------------------------------------------------------------- */

static Val one_element(Elab *e, const Node *n, Val x, Dim d, int64_t at)
{
    const int64_t size = dim_info(e, d.name)->valid;
    if (at < 0 || at >= size)
        return fail(e, n->span, 251, "index %lld of dim '%s', which has %lld", (long long)at,
                    text(e, d.name), (long long)size);
    const Attrs attrs = {.dim = d, .at = at};
    return make(e, n->span, OP_pick, &attrs, 1, &x.value);
}

static Val counted(Elab *e, const Node *n, Val x, Dim d, const Affine *a)
{
    Attrs attrs = {.dim = d, .at = a->at, .every = 1};
    DimList all = {.n = 1, .dim = {d}};
    for (int i = 0; i < a->over.n; i++) {
        if (!a->by[i])
            continue;
        if (llabs(a->by[i]) > INT32_MAX) {
            too_far(e, n);
            return poison;
        }
        attrs.factors.by[attrs.factors.n++] = (int32_t)a->by[i];
        attrs.over.dim[attrs.over.n++] = a->over.dim[i];
        if (!dims_have(&all, a->over.dim[i].name) && all.n < MAX_RANK)
            all.dim[all.n++] = a->over.dim[i];
    }
    if (!attrs.over.n)
        return one_element(e, n, x, d, a->at);
    return check_parts(e, n->at, &all) ? make(e, n->at, OP_reindex, &attrs, 1, &x.value) : poison;
}

/* The dim of a range: as said, or the dim that ends it. */
static bool range_dim(Elab *e, const Node *n, int64_t from, Dim *to)
{
    if (n->list.n)
        return resolve_dim(e, n->list.data[0], to);
    const Node *end = node_bare(n->b);
    if (from == 0 && end->kind == N_NAME && has_dim_in(e, end))
        return resolve_dim(e, end, to);
    fail(e, n->at, 226, "the dim of this part has no name");
    help(e, "`dim part = ...` and `x[%s = ... -> part]` give it one", text(e, n->name));
    return false;
}

static Val range(Elab *e, const Node *n, Val x, Dim d)
{
    int64_t from, end;
    Dim to;
    const DimList cut = {.n = 1, .dim = {d}};
    if (!integer_of(e, n->a, &from) || !integer_of(e, n->b, &end) || !check_parts(e, n->at, &cut))
        return poison;
    if (end <= from)
        return fail(e, n->at, 251, "the part %lld .. %lld of dim '%s' is empty", (long long)from,
                    (long long)end, text(e, d.name));
    if (from < 0 || end > d.size)
        return fail(e, n->at, 251, "elements %lld to %lld of dim '%s', which has %lld",
                    (long long)from, (long long)end - 1, text(e, d.name), (long long)d.size);
    if (!range_dim(e, n, from, &to) || !check_parts(e, n->at, &(DimList){.n = 1, .dim = {to}}))
        return poison;
    if (to.size != end - from)
        return fail(e, n->at, 216, "elements %lld to %lld are %lld, and '%s' is %lld",
                    (long long)from, (long long)end - 1, (long long)(end - from), text(e, to.name),
                    (long long)to.size);
    if (to.name == d.name)
        return x;
    if (type_find(type_of(e->module, x.value), to.name) >= 0)
        return fail(e, n->at, 217, "there is a dim '%s' already: the dims are %s", text(e, to.name),
                    type_text(e, x.value));
    const Dim window = {.name = d.name, .size = to.size};
    x = make(e, n->at, OP_window, &(Attrs){.along = window, .at = from}, 1, &x.value);
    return x.kind == VAL_TENSOR
               ? make(e, n->at, OP_rename, &(Attrs){.dim = window, .to = to}, 1, &x.value)
               : x;
}

Val part(Elab *e, const Node *n, Val x)
{
    Affine a = {0};
    Dim d;
    if (n->kind != N_PART)
        return add_sum(e, n, 1, &a) && target_of(e, n, x.value, &a, &d) ? counted(e, n, x, d, &a)
                                                                        : poison;
    const Node name = {.kind = N_NAME, .name = n->name, .at = n->at, .span = n->at};
    if (!resolve_dim(e, &name, &d))
        return poison;
    if (type_find(type_of(e->module, x.value), d.name) < 0) {
        fail(e, n->at, 215, "there is no dim '%s' to take parts along", text(e, d.name));
        help(e, "the dims are %s", type_text(e, x.value));
        help_scan(e, d.name);
        return poison;
    }
    if (n->b)
        return range(e, n, x, d);
    return add_sum(e, n->a, 1, &a) ? counted(e, n, x, d, &a) : poison;
}

/* ---- joins -------------------------------------------------------------------------------- */

static bool read_parts(Elab *e, const Call *c, Value *x)
{
    const Dim whole = c->to.dim[0];
    int64_t size = 0;
    for (int i = 0; i < c->nargs; i++) {
        const Dim d = c->from.dim[i];
        if (!tensor_arg(e, c->arg[i], c, &x[i]))
            return false;
        const Type *t = type_of(e->module, x[i]);
        const bool has = type_find(t, d.name) >= 0;
        if (!dtype_is_float(t->dtype)) {
            fail(e, c->arg[i]->span, 211, "'join' of %s",
                 t->dtype == DT_bool ? "conditions" : "indices");
            return false;
        }
        if (!has || type_find(t, whole.name) >= 0) {
            fail(e, c->arg[i]->span, has ? 217 : 215,
                 has ? "this has a dim '%s' already" : "this has no dim '%s'",
                 text(e, has ? whole.name : d.name));
            help(e, "its dims are %s", type_text(e, x[i]));
            return false;
        }
        size += d.size;
    }
    if (size == whole.size)
        return check_parts(e, c->node->at, &c->from) && check_parts(e, c->node->at, &c->to);
    fail(e, c->arrow->at, 216, "the parts (%s) are %lld, and '%s' is %lld", dims_text(e, &c->from),
         (long long)size, text(e, whole.name), (long long)whole.size);
    return false;
}

/* Each part at its place along the whole, chosen by the index. */
Val builtin_join(Elab *e, const Call *c)
{
    Value x[MAX_RANK] = {0};
    const Dim whole = c->to.dim[0];
    if (!read_parts(e, c, x))
        return poison;
    bool wide = false;
    for (int i = 0; i < c->nargs; i++)
        wide |= type_of(e->module, x[i])->dtype == DT_f64;
    int64_t at = whole.size;
    Val all = {0};
    for (int i = c->nargs - 1; i >= 0; i--) {
        at -= c->from.dim[i].size;
        const Attrs place = {.dim = c->from.dim[i],
                             .at = -at,
                             .every = 1,
                             .over = {.n = 1, .dim = {whole}},
                             .factors = {.n = 1, .by = {1}}};
        x[i] = build_cast(&e->b, x[i], wide ? DT_f64 : e->compute);
        const Val part = make(e, c->node->at, OP_reindex, &place, 1, &x[i]);
        if (part.kind != VAL_TENSOR)
            return poison;
        if (i == c->nargs - 1) {
            all = part;
            continue;
        }
        const bool behind = !has_batch(e, part.value) && has_batch(e, all.value);
        Type t = *type_of(e->module, behind ? all.value : part.value);
        if (!join_dims(e, c->node->at, &t, type_of(e->module, behind ? part.value : all.value)))
            return poison;
        Value end = build_const(&e->b, DT_i32, (double)(at + c->from.dim[i].size));
        Value here = build2(&e->b, OP_lt, build_iota(&e->b, DT_i32, whole), end);
        Value in[] = {here, part.value, all.value};
        all = tensor_val(build_typed(&e->b, OP_select, NULL, 3, in, 1, &t, NULL)->out[0]);
    }
    return all;
}
