/* subscript.c - x[...]: other names for dims, dims split and merged, rows that an index looks up.
 *
 *   x[a -> b]         the dim a is called b
 *   x[a -> (b, c)]    a becomes two, c the inner one
 *   x[(b, c) -> a]    the way back
 *   table[index]      the rows that `index` says
 * and the parts of parts.c: x[a = 0 .. b], x[a - b], x[a = 2 * b + c]. */
#include "grammar/elab.h"
#include "ir/propose.h"

#include <string.h>

static const Val poison = {.kind = VAL_POISON};

/* A dim of the size of d; that of the batch is the layout's. */
static void same_size(Elab *e, const Node *n, Dim d)
{
    const Module *m = e->module;
    Span first = {n->b->at.file, 0, 0};
    if (d.name == m->batch.name) {
        if (!e->quiet)
            propose_microbatch(e->diag, &m->layout, m->batch.size / mesh_batch_ranks(m));
        return;
    }
    const char *dim = arena_printf(e->arena, "dim t = %s\n", text(e, d.name));
    remedies(e, &(Remedy){2, {{first, dim}, {n->b->at, "t"}}},
             "`dim t = %s` makes a dim of that size", text(e, d.name));
}

static Val rename_one(Elab *e, const Node *n, Val x, Dim from, Dim to)
{
    const Attrs attrs = {.dim = from, .to = to};
    const Type *t = type_of(e->module, x.value);
    if (type_find(t, attrs.dim.name) < 0) {
        fail(e, n->a->at, 215, "there is no dim '%s' to rename", text(e, attrs.dim.name));
        help(e, "the dims are %s", type_text(e, x.value));
        help_scan(e, attrs.dim.name);
        return poison;
    }
    if (attrs.dim.size != attrs.to.size) {
        fail(e, n->at, 216, "'%s', which is %lld, cannot become '%s', which is %lld",
             text(e, attrs.dim.name), (long long)attrs.dim.size, text(e, attrs.to.name),
             (long long)attrs.to.size);
        note(e, dim_info(e, attrs.to.name)->span, "'%s' is declared here", text(e, attrs.to.name));
        same_size(e, n, attrs.dim);
        return poison;
    }
    if (type_find(t, attrs.to.name) >= 0)
        return fail(e, n->b->at, 217, "there is a dim '%s' already: the dims are %s",
                    text(e, attrs.to.name), type_text(e, x.value));
    return make(e, n->at, OP_rename, &attrs, 1, &x.value);
}

/* Each of several dims that a and b stand for. */
static Val rename_dims(Elab *e, const Node *n, Val x)
{
    DimList from, to;
    if (!resolve_dims(e, &(NodeList){.data = (Node **)&n->a, .n = 1}, &from) ||
        !resolve_dims(e, &(NodeList){.data = (Node **)&n->b, .n = 1}, &to))
        return poison;
    if (from.n != to.n)
        return fail(e, n->b->at, 207, "'%s' stands for %d dims (%s), and '%s' for %d (%s)",
                    text(e, n->a->name), from.n, dims_text(e, &from), text(e, n->b->name), to.n,
                    dims_text(e, &to));
    for (int i = 0; i < from.n && x.kind == VAL_TENSOR; i++)
        x = rename_one(e, n, x, from.dim[i], to.dim[i]);
    return x;
}

/* Dims that the table and the index both have are matched. */
static Val gather(Elab *e, const Node *n, const Node *sub, Val x, Val index)
{
    const Type *table = type_of(e->module, x.value);
    const Type *ti = index.kind == VAL_TENSOR ? type_of(e->module, index.value) : NULL;
    if (!ti || ti->dtype != DT_i32 || !ti->indexes) {
        fail(e, sub->span, 218, "an index must be of a dim, as `tokens : token(vocab)` is");
        if (!ti)
            help(e, "`x[d = %s]` takes one element along a dim",
                 number_text(e->arena, index.number));
        return poison;
    }
    int at = type_find(table, ti->indexes);
    if (at < 0) {
        fail(e, sub->span, 218, "this indexes '%s', which the table %s does not have",
             text(e, ti->indexes), type_text(e, x.value));
        return poison;
    }
    Type t = *ti, rest = *table;
    memmove(&rest.dims[at], &rest.dims[at + 1], (size_t)(rest.rank - at - 1) * sizeof(Dim));
    rest.rank--;
    if (!join_dims(e, n->at, &t, &rest))
        return poison;
    Attrs attrs = {.dim = table->dims[at]};
    const Val y = make(e, n->at, OP_gather, &attrs, 2, (Value[]){x.value, index.value});
    return adapted_table(e, n->at, x.value, index.value, &attrs, y);
}

/* ---- splits and merges -------------------------------------------------------------------- */

bool arrow_side(Elab *e, const Node *n, DimList *l)
{
    NodeList names = {0};
    n = node_bare(n);
    for (size_t i = 0; i < (n->kind == N_TUPLE ? n->list.n : 1); i++)
        vec_push(e->arena, &names, (Node *)node_bare(n->kind == N_TUPLE ? n->list.data[i] : n));
    for (size_t i = 0; i < names.n; i++)
        if (names.data[i]->kind != N_NAME) {
            fail(e, names.data[i]->span, 204, "`->` takes dims");
            return false;
        }
    return resolve_dims(e, &names, l);
}

/* Do the dims of `parts` make up `whole`? */
static bool makes_up(Elab *e, const Node *n, Dim whole, const DimList *parts)
{
    int64_t size = 1;
    for (int i = 0; i < parts->n; i++)
        if (!size_multiply(size, parts->dim[i].size, &size))
            size = INT64_MAX;
    if (size == whole.size)
        return true;
    fail(e, n->at, 216, "'%s' is %lld, and (%s) are %lld", text(e, whole.name),
         (long long)whole.size, dims_text(e, parts), (long long)size);
    return false;
}

static Val renamed(Elab *e, const Node *n, Val x, Dim from, Name to)
{
    const Attrs attrs = {.dim = from, .to = {.name = to, .size = from.size}};
    return from.name == to ? x : make(e, n->at, OP_rename, &attrs, 1, &x.value);
}

static Val split_dim(Elab *e, const Node *n, Val x, Dim whole, const DimList *parts)
{
    int64_t left = whole.size;
    for (int i = 0; i + 1 < parts->n && x.kind == VAL_TENSOR; i++) {
        left /= parts->dim[i].size;
        const Attrs attrs = {.dim = {.name = whole.name, .size = left}, .to = parts->dim[i]};
        x = make(e, n->at, OP_split, &attrs, 1, &x.value);
    }
    const Dim last = {.name = whole.name, .size = left};
    return x.kind == VAL_TENSOR ? renamed(e, n, x, last, parts->dim[parts->n - 1].name) : x;
}

/* With the dims next to each other, in their order, where the first of them is. */
static Value gathered_dims(Elab *e, Value x, const DimList *parts)
{
    const Type *t = type_of(e->module, x);
    Type r = *t;
    r.rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].name == parts->dim[0].name)
            for (int k = 0; k < parts->n; k++)
                r.dims[r.rank++] = parts->dim[k];
        else if (!dims_have(parts, t->dims[i].name))
            r.dims[r.rank++] = t->dims[i];
    return build_as(&e->b, x, r);
}

static Val merge_dims(Elab *e, const Node *n, Val x, const DimList *parts, Dim whole)
{
    x.value = gathered_dims(e, x.value, parts);
    Dim inner = parts->dim[parts->n - 1];
    for (int i = parts->n - 2; i >= 0 && x.kind == VAL_TENSOR; i--) {
        const Attrs attrs = {.dim = inner, .to = parts->dim[i]};
        x = make(e, n->at, OP_merge, &attrs, 1, &x.value);
        inner.size *= parts->dim[i].size;
    }
    return x.kind == VAL_TENSOR ? renamed(e, n, x, inner, whole.name) : x;
}

/* x[a -> (b, c)] or x[(b, c) -> a] */
static Val other_dims(Elab *e, const Node *n, Val x)
{
    DimList from, to;
    if (!arrow_side(e, n->a, &from) || !arrow_side(e, n->b, &to))
        return poison;
    const Type *t = type_of(e->module, x.value);
    if (from.n > 1 && to.n > 1)
        return fail(e, n->at, 207, "`->` splits one dim or makes one of several; here %d become %d",
                    from.n, to.n);
    for (int i = 0; i < from.n; i++)
        if (type_find(t, from.dim[i].name) < 0)
            return fail(e, n->a->span, 215, "there is no dim '%s': the dims are %s",
                        text(e, from.dim[i].name), type_text(e, x.value));
    for (int i = 0; i < to.n; i++)
        if (type_find(t, to.dim[i].name) >= 0)
            return fail(e, n->b->span, 217, "there is a dim '%s' already: the dims are %s",
                        text(e, to.dim[i].name), type_text(e, x.value));
    if (!check_parts(e, n->at, &from) || !check_parts(e, n->at, &to))
        return poison;
    if (to.n > 1)
        return makes_up(e, n, from.dim[0], &to) ? split_dim(e, n, x, from.dim[0], &to) : poison;
    return makes_up(e, n, to.dim[0], &from) ? merge_dims(e, n, x, &from, to.dim[0]) : poison;
}

/* ---- all ---------------------------------------------------------------------------------- */

static Val arrow(Elab *e, const Node *n, Val x)
{
    if (n->a->kind == N_TUPLE || n->b->kind == N_TUPLE)
        return other_dims(e, n, x);
    const Node *wrong = n->a->kind != N_NAME ? n->a : n->b->kind != N_NAME ? n->b : NULL;
    if (wrong)
        return fail(e, wrong->span, 204, "`->` takes dims");
    return rename_dims(e, n, x);
}

Val subscript(Elab *e, const Node *n)
{
    Val x = expr(e, n->a);
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *sub = n->list.data[i];
        const bool looks_up = sub->kind != N_RENAME && sub->kind != N_PART && !counts_dims(e, sub);
        Val index = looks_up ? expr(e, sub) : (Val){.kind = VAL_NUMBER};
        if (x.kind == VAL_POISON || index.kind == VAL_POISON)
            return poison;
        if (x.kind == VAL_NUMBER)
            return fail(e, n->a->span, 214, "'[' on a number, which has no dims");
        x = sub->kind == N_RENAME ? arrow(e, sub, x)
            : looks_up            ? gather(e, n, sub, x, index)
                                  : part(e, sub, x);
    }
    return x;
}
