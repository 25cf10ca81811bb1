/* calls.c - operands of library calls in the order of dims and the density their descriptors can
 * say (runtime/abi.h); what lies otherwise is copied. Part of the pass `products`.
 *
 *   attention            heads innermost, the other dims in groups of one stride each; of its
 *                        gradients o and do are ordered alike, and dense; keys innermost in a bias
 *   cross_entropy, head  rows dense, classes (or hidden) innermost; targets and dloss in the order
 *                        of the rows
 *   top                  the scores innermost
 *   round_tiles          rows of the matrix, and what is in one, at equal distances
 *   tile_scale           the dims of a tile next to each other in their order; of both sides
 * innermost conv                 dims of w alone, or terms, contiguous in w; columns contiguous in
 * y experts              all dense; of choices the group's dims outside, then positions, then
 *                        choices; of rows and slots the same groups, and what is left innermost
 *   grouped              all dense; of ends the group's dims outside; of rows the same groups, the
 * rows, and what a row is, in the order of the matrices; of these experts outside, and what is
 * summed together gather, scatter_add, put  tables dense; what is added is ordered index first,
 * then the table's dims; dims that the table and the index have are outermost in both
 */
#include "passes/library/attention.h"
#include "passes/library/conv.h"
#include "passes/library/product.h"
#include "passes/library/tiles.h"
#include "passes/view.h"

#include <string.h>

static void as(Builder *b, Value *v, const Type *t)
{
    Type want = *t;
    want.dtype = type_of(b->m, *v)->dtype;
    want.indexes = type_of(b->m, *v)->indexes;
    *v = build_as(b, *v, want);
}

/* A view becomes a tensor of its own. */
static void dense(Builder *b, Value *v)
{
    const Ins *def = b->m->values.data[*v].def;
    View w = view_of(b->m, *v);
    Type t = *type_of(b->m, *v);
    if (strides_are_dense(&t, w.stride) && !(def && op_is(def->op, VIEW)))
        return;
    *v = build_typed(b, OP_copy, NULL, 1, v, 1, &t, NULL)->out[0];
}

/* So does one whose elements are apart. */
static void contiguous(Builder *b, Value *v)
{
    if (!strides_are_dense(type_of(b->m, *v), view_of(b->m, *v).stride))
        dense(b, v);
}

/* t with the dims of `last` at the end. */
static Type ending_in(const Type *t, const DimList *last)
{
    Type r = *t;
    r.rank = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->rank; i++)
            if (dims_have(last, t->dims[i].name) == (pass == 1))
                r.dims[r.rank++] = t->dims[i];
    return r;
}

static Type less(const Type *t, const DimList *gone)
{
    Type r = *t;
    r.rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (!dims_have(gone, t->dims[i].name))
            r.dims[r.rank++] = t->dims[i];
    return r;
}

/* The heads have to be contiguous. */
static void heads_last(Builder *b, Value *v, const DimList *over)
{
    Type t = ending_in(type_of(b->m, *v), over);
    View w = view_of(b->m, *v);
    as(b, v, &t);
    if (type_of(b->m, *v)->rank && w.root != *v && w.stride[t.rank - 1] != 1 &&
        t.dims[t.rank - 1].size != 1)
        dense(b, v);
}

static void add_dim(Type *to, const Type *t, Name d)
{
    int at = type_find(t, d);
    if (at >= 0 && type_find(to, d) < 0)
        to->dims[to->rank++] = t->dims[at];
}

/* t with the dims of `first`, as far as it has them, before its others. */
static Type beginning_with(const Type *t, const Type *first)
{
    Type r = *t;
    r.rank = 0;
    for (int i = 0; i < first->rank; i++)
        add_dim(&r, t, first->dims[i].name);
    for (int i = 0; i < t->rank; i++)
        add_dim(&r, t, t->dims[i].name);
    return r;
}

static void order(Builder *b, Value *v, const Type *first)
{
    Type t = beginning_with(type_of(b->m, *v), first);
    as(b, v, &t);
    dense(b, v);
}

/* Can the descriptor say where q, k, v and, as their types then are, the results lie? */
static bool lies_evenly(Builder *b, const Ins *i)
{
    const uint32_t nin = attention_tensors(i);
    Strided op[9], bias = {0}, seen = {0};
    Type rule[3];
    mg_attention_desc d = {0};
    if (type_check(b->m, i->op, &i->attrs, (int)i->nin, i->in, (int)i->nout, rule))
        return true; /* the verifier's */
    for (uint32_t k = 0; k < nin; k++)
        op[k] = strided_of(b->m, i->in[k]);
    for (uint32_t k = 0; k < i->nout; k++) {
        op[nin + k] = (Strided){.type = &rule[k]};
        strides_dense(&rule[k], op[nin + k].stride);
    }
    const Strided first = strided_of(b->m, i->in[i->nin - 1]);
    if (i->attrs.biased)
        bias = strided_of(b->m, i->in[attention_bias(i)]);
    if (attention_seen(i) >= 0)
        seen = strided_of(b->m, i->in[attention_seen(i)]);
    const AttentionMask mask = {.bias = i->attrs.biased ? &bias : NULL,
                                .seen = attention_seen(i) >= 0 ? &seen : NULL,
                                .first = i->attrs.within ? &first : NULL};
    return attention_match(i, op, &mask, &d);
}

/* Dense copies in one order: what queries and keys share, dims of the first keys before others, and
 * of both those of the bias before those that it lacks; the sequence, what queries have alone, the
 * heads' elements. */
static void lay_evenly(Builder *b, Ins *i)
{
    const Type q = *type_of(b->m, i->in[0]), keys = *type_of(b->m, i->in[1]);
    const int seen = attention_seen(i);
    const bool numbered = seen >= 0 && type_of(b->m, i->in[seen])->rank > 1;
    const Type *first = i->attrs.within ? type_of(b->m, i->in[i->nin - 1])
                        : numbered      ? type_of(b->m, i->in[seen])
                                        : NULL;
    const Type *bias = i->attrs.biased ? type_of(b->m, i->in[attention_bias(i)]) : NULL;
    const Name along = i->attrs.along.name;
    const DimList values = attention_value_head(&i->attrs, &keys, type_of(b->m, i->in[2]));
    Type shared = {0}, own = {0};
    for (int part = 0; part < 4; part++)
        for (int x = 0; x < q.rank; x++) {
            const Name d = q.dims[x].name;
            const int lacks =
                2 * (first && type_find(first, d) < 0) + (bias && type_find(bias, d) < 0);
            if (d == along || dims_have(&i->attrs.over, d) || part != lacks)
                continue;
            Type *to = type_find(&keys, d) >= 0 ? &shared : &own;
            to->dims[to->rank++] = q.dims[x];
        }
    for (int k = 0; k < 3; k++) {
        const Type *t = type_of(b->m, i->in[k]);
        Type want = shared;
        want.dims[want.rank++] = t->dims[type_find(t, k ? attention_keys(&i->attrs) : along)];
        for (int x = 0; k == 0 && x < own.rank; x++)
            want.dims[want.rank++] = own.dims[x];
        for (int x = 0; x < t->rank; x++)
            if (dims_have(k == 2 ? &values : &i->attrs.over, t->dims[x].name))
                want.dims[want.rank++] = t->dims[x];
        as(b, &i->in[k], &want);
        dense(b, &i->in[k]);
    }
    if (i->attrs.within)
        order(b, &i->in[i->nin - 1], &shared);
    if (numbered)
        order(b, &i->in[seen], &shared);
    if (i->attrs.biased)
        order(b, &i->in[attention_bias(i)], &shared);
}

/* Keys are innermost in the bias, so that a row of scores has neighbours. */
static void fit_bias(Builder *b, Ins *i)
{
    if (!i->attrs.biased)
        return;
    const DimList keys = {1, {i->attrs.keys}};
    Value *bias = &i->in[attention_bias(i)];
    if (type_find(type_of(b->m, *bias), i->attrs.keys.name) >= 0)
        heads_last(b, bias, &keys);
}

/* o and do lie as the rule says of the operands, lse too. */
static void fit_gradients(Builder *b, Ins *i)
{
    Attrs plain = i->attrs;
    Type rule[2];
    plain.within = plain.biased = plain.causal = false;
    plain.share = 0;
    plain.window = 0;
    if (type_check(b->m, OP_attention, &plain, 3, i->in, 2, rule))
        return; /* the verifier's */
    as(b, &i->in[3], &rule[0]);
    as(b, &i->in[4], &rule[1]);
    as(b, &i->in[5], &rule[0]);
    for (int k = 3; k < 6; k++)
        dense(b, &i->in[k]);
}

static void fit_attention(Builder *b, Ins *i)
{
    const DimList values =
        attention_value_head(&i->attrs, type_of(b->m, i->in[1]), type_of(b->m, i->in[2]));
    for (int k = 0; k < 3; k++)
        heads_last(b, &i->in[k], k == 2 ? &values : &i->attrs.over);
    fit_bias(b, i);
    if (i->op != OP_attention)
        fit_gradients(b, i);
    if (lies_evenly(b, i))
        return;
    lay_evenly(b, i);
    if (i->op != OP_attention)
        fit_gradients(b, i);
}

static void fit_cross_entropy(Builder *b, Ins *i)
{
    Type logits = ending_in(type_of(b->m, i->in[0]), &i->attrs.over);
    Type rows = less(&logits, &i->attrs.over);
    as(b, &i->in[0], &logits);
    dense(b, &i->in[0]);
    as(b, &i->in[1], &rows);
    for (uint32_t k = 2; k < i->nin; k++)
        if (type_of(b->m, i->in[k])->rank)
            as(b, &i->in[k], &rows);
}

static void fit_head(Builder *b, Ins *i)
{
    Type rows = less(type_of(b->m, i->in[0]), &i->attrs.over);
    dense(b, &i->in[0]);
    dense(b, &i->in[1]);
    as(b, &i->in[2], &rows);
    if (i->nin > 3 && type_of(b->m, i->in[3])->rank)
        as(b, &i->in[3], &rows);
}

/* The dims that the index and the table both have, in the index's order. */
static Type matched(const Ins *i, const Type *table, const Type *index)
{
    Type both = {0};
    for (int k = 0; k < index->rank; k++)
        if (index->dims[k].name != i->attrs.dim.name)
            add_dim(&both, table, index->dims[k].name);
    return both;
}

/* Do the dims of `first` come first in t, in their order? */
static bool begins_with(const Type *t, const Type *first)
{
    const Type so = beginning_with(t, first);
    return type_equal(&so, t);
}

/* Matched dims outermost in both. */
static void fit_gather(Builder *b, Ins *i)
{
    const Type first = matched(i, type_of(b->m, i->in[0]), type_of(b->m, i->in[1]));
    if (!begins_with(type_of(b->m, i->in[1]), &first))
        order(b, &i->in[1], &first);
    order(b, &i->in[0], &first);
}

static Type scatter_gives(const Module *m, const Ins *i)
{
    const Type *table = type_of(m, i->out[0]);
    const Type first = matched(i, table, type_of(m, i->in[1]));
    return beginning_with(table, &first);
}

static void fit_scatter(Builder *b, Ins *i)
{
    const Type first = matched(i, type_of(b->m, i->out[0]), type_of(b->m, i->in[1]));
    if (!begins_with(type_of(b->m, i->in[1]), &first))
        order(b, &i->in[1], &first);
    Type table = scatter_gives(b->m, i), want = *type_of(b->m, i->in[1]);
    for (int k = first.rank; k < table.rank; k++)
        if (table.dims[k].name != i->attrs.dim.name)
            want.dims[want.rank++] = table.dims[k];
    want.indexes = 0;
    as(b, &i->in[0], &want);
    dense(b, &i->in[0]);
}

/* The table lies as that of a sum would. */
static void fit_put(Builder *b, Ins *i)
{
    const Type table = scatter_gives(b->m, i);
    fit_scatter(b, i);
    as(b, &i->in[2], &table);
}

static void fit_top(Builder *b, Ins *i)
{
    DimList last = {1, {i->attrs.dim}};
    Type t = ending_in(type_of(b->m, i->in[0]), &last);
    as(b, &i->in[0], &t);
    dense(b, &i->in[0]);
}

/* t with the dims of a tile where the first of them was, in their order. */
static Type with_tiles(const Attrs *a, const Type *t)
{
    const bool plane = a->at < a->over.n;
    Type r = *t;
    r.rank = 0;
    for (int k = 0; k <= t->rank; k++) {
        if (k == t->rank || (!plane && dims_have(&a->over, t->dims[k].name)))
            for (int n = 0; n < a->over.n; n++)
                add_dim(&r, t, a->over.dim[n].name);
        if (k < t->rank && !dims_have(&a->over, t->dims[k].name))
            r.dims[r.rank++] = t->dims[k];
    }
    return r;
}

static void fit_tile_scale(Builder *b, Ins *i)
{
    const Type t = with_tiles(&i->attrs, type_of(b->m, i->in[0]));
    as(b, &i->in[0], &t);
    dense(b, &i->in[0]);
}

/* Rows and what is in one lie at equal distances. */
static void fit_round_tiles(Builder *b, Ins *i)
{
    const Type *q = type_of(b->m, i->out[0]);
    const Strided x = strided_of(b->m, i->in[0]);
    mg_round_tiles_desc d;
    if (round_tiles_match(&i->attrs, &x, q, &d))
        return;
    Type t = *q;
    t.dtype = x.type->dtype;
    i->in[0] = build_typed(b, OP_copy, NULL, 1, i->in, 1, &t, NULL)->out[0];
}

static void fit_experts(Builder *b, Ins *i)
{
    const Attrs *a = &i->attrs;
    uint32_t choice = OP_AMONG(i->op, OP_slots, OP_ends) ? 0 : i->op == OP_combine_weight ? 2 : 1;
    DimList last = a->over;
    last.dim[last.n++] = a->along;
    Type of = *type_of(b->m, i->in[choice]), group = less(&of, &last), positions = group;
    positions.dims[positions.rank++] = a->along;
    for (uint32_t k = choice; k < i->nin; k++)
        order(b, &i->in[k], &positions);
    if (!choice)
        return;
    Type slots = {0};
    if (!a->sorted)
        slots.dims[slots.rank++] = a->dim;
    for (int k = 0; k < group.rank; k++)
        slots.dims[slots.rank++] = group.dims[k];
    slots.dims[slots.rank++] = a->to;
    order(b, &i->in[0], i->op == OP_dispatch ? &positions : &slots);
    if (i->op != OP_combine_weight)
        return;
    Type rest = *type_of(b->m, i->in[0]); /* what is left lies as in the slots */
    for (int k = slots.rank; k < rest.rank; k++)
        positions.dims[positions.rank++] = rest.dims[k];
    order(b, &i->in[1], &positions);
}

/* Ends with the dims of their groups outside; the groups, and in each its rows. */
static Type order_ends(Builder *b, Ins *i)
{
    const DimList to = {1, {i->attrs.to}};
    Type rows = less(type_of(b->m, i->in[2]), &to);
    order(b, &i->in[2], &rows);
    rows.dims[rows.rank++] = i->attrs.along;
    return rows;
}

bool grouped_turned(const Attrs *a, const Type *w)
{
    int last = w->rank - 1;
    if (w->dims[last].name == a->dim.name)
        last--;
    return last >= 0 && dims_have(&a->over, w->dims[last].name);
}

static void fit_grouped(Builder *b, Ins *i)
{
    const Attrs *a = &i->attrs;
    const Type w = *type_of(b->m, i->in[1]);
    Type rows = order_ends(b, i), matrices = {.rank = 1, .dims = {a->dim}};
    const bool turned = grouped_turned(a, &w);
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < w.rank; k++)
            if (w.dims[k].name != a->dim.name &&
                dims_have(&a->over, w.dims[k].name) == (pass == turned))
                matrices.dims[matrices.rank++] = w.dims[k];
    as(b, &i->in[1], &matrices);
    contiguous(b, &i->in[1]);
    for (int k = 0; k < w.rank; k++)
        if (dims_have(&a->over, w.dims[k].name))
            rows.dims[rows.rank++] = w.dims[k];
    order(b, &i->in[0], &rows);
}

static void fit_grouped_weight(Builder *b, Ins *i)
{
    const Type rows = order_ends(b, i);
    order(b, &i->in[0], &rows);
    order(b, &i->in[1], &rows);
}

/* Has w contiguous elements along a dim of more than a few? */
static bool comes_in_runs(const Module *m, Value w, const Attrs *a)
{
    enum { FEW = 8 };
    const Type *t = type_of(m, w);
    const View v = view_of(m, w);
    int64_t other = 1;
    for (int i = 0; i < t->rank; i++) {
        const bool last = !dims_have(&a->over, t->dims[i].name) ||
                          a->over.dim[a->over.n - 1].name == t->dims[i].name;
        if (v.stride[i] == 1 && t->dims[i].size > 1)
            return last && t->dims[i].size >= FEW;
        other *= t->dims[i].size;
    }
    return other == 1;
}

/* w that is read one element at a time is brought in order once: its terms, then its columns. */
static void fit_conv(Builder *b, Ins *i)
{
    const Attrs *a = &i->attrs;
    const Type w = *type_of(b->m, i->in[1]);
    if (comes_in_runs(b->m, i->in[1], a))
        return;
    Type want = less(&w, &a->over);
    int batch = 0;
    for (int k = 0; k < want.rank; k++) /* dims that x has, too, stay outside */
        if (type_find(type_of(b->m, i->in[0]), want.dims[k].name) >= 0) {
            const Dim d = want.dims[k];
            memmove(&want.dims[batch + 1], &want.dims[batch], (size_t)(k - batch) * sizeof d);
            want.dims[batch++] = d;
        }
    memmove(&want.dims[batch + a->over.n], &want.dims[batch],
            (size_t)(want.rank - batch) * sizeof *want.dims);
    memcpy(&want.dims[batch], a->over.dim, (size_t)a->over.n * sizeof *want.dims);
    want.rank = w.rank;
    as(b, &i->in[1], &want);
}

static bool conv_writes(const Module *m, const Ins *i, const Type *y)
{
    const Strided x = strided_of(m, i->in[0]), w = strided_of(m, i->in[1]);
    Strided to = {.type = y};
    mg_conv_desc d;
    strides_dense(y, to.stride);
    return conv_match(&i->attrs, &x, &w, &to, &d);
}

bool conv_lies(const Module *m, const Ins *i)
{
    return conv_writes(m, i, type_of(m, i->out[0]));
}

/* The type in which a conv gives its result: as it is wanted, if that is possible. */
static Type conv_gives(const Module *m, const Ins *i)
{
    const Type *want = type_of(m, i->out[0]);
    return conv_lies(m, i)
               ? *want
               : conv_result(&i->attrs, type_of(m, i->in[0]), type_of(m, i->in[1]), want);
}

Value sum_apart(Builder *b, Value own, Value start, const Type *want)
{
    Type wide = *want;
    wide.dtype = dtype_wide(want->dtype);
    const Value sum[2] = {build_as(b, own, wide), build_cast(b, start, wide.dtype)};
    return build_cast(b, build_typed(b, OP_add, NULL, 2, sum, 1, &wide, NULL)->out[0], want->dtype);
}

/* Results of a call keep the order of dims of its rule, which is that of its operands: where they
 * were reordered a copy brings them back. */
static void restore(Builder *b, Ins *i, ValueMap *map)
{
    Type rule[8];
    if (type_check(b->m, i->op, &i->attrs, (int)i->nin, i->in, 8, rule))
        return;
    for (uint32_t k = 0; k < i->nout; k++) {
        Type was = *type_of(b->m, i->out[k]);
        if (i->op == OP_conv)
            rule[k] = conv_gives(b->m, i);
        if (i->op == OP_scatter_add)
            rule[k] = scatter_gives(b->m, i);
        if (type_equal(&rule[k], &was))
            continue;
        const bool starts = OP_AMONG(i->op, OP_scatter_add, OP_grouped_weight);
        Value start = starts && ins_added(i) >= 0 ? i->in[ins_added(i)] : 0;
        i->nin -= start != 0; /* the sum lies otherwise, so that it is added afterwards */
        rule[k].dtype = start ? dtype_wide(was.dtype) : was.dtype;
        Value v = value_new(b->m, b->region, rule[k], b->m->values.data[i->out[k]].name);
        b->m->values.data[v].def = i;
        Value old = i->out[k];
        i->out[k] = v;
        map_set(b->m, map, old, start ? sum_apart(b, v, start, &was) : build_as(b, v, was));
    }
}

static void fit_collective(Builder *b, Ins *i)
{
    contiguous(b, &i->in[0]);
}

/* Nothing is copied on another level. */
static void fit_transfer(Builder *b, Ins *i)
{
    if (!type_of(b->m, i->in[0])->level)
        contiguous(b, &i->in[0]);
}

static void fit_random(Builder *b, Ins *i)
{
    (void)b, (void)i; /* its operands are numbers */
}

#define fit_scatter_add         fit_scatter
#define fit_attention_grad      fit_attention
#define fit_attention_bias_grad fit_attention
#define fit_cross_entropy_grad  fit_cross_entropy
#define fit_head_frozen         fit_head
#define fit_head_loss           fit_head
#define fit_slots               fit_experts
#define fit_ends                fit_experts
#define fit_dispatch            fit_experts
#define fit_combine             fit_experts
#define fit_combine_weight      fit_experts
typedef void FitFn(Builder *b, Ins *i);
static FitFn *const fit[OP_count] = {
#define LIBRARY(name, ...)    [OP_##name] = fit_##name,
#define COLLECTIVE(name, ...) [OP_##name] = fit_collective,
#include "ir/ops.def"
};

void fit_call(Builder *b, Ins *i, ValueMap *map)
{
    if (fit[i->op])
        fit[i->op](b, i);
    vec_push(b->m->arena, &b->region->ins, i);
    if (op_is(i->op, CALL) && i->op != OP_random && i->op != OP_round_tiles)
        restore(b, i, map);
}
