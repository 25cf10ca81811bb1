/* fuse_split.c - brings a region into the form that fusion wants.
 *
 *   sum over (a, c) of x[a, b, c]   ->  sum over a of (sum over c of x)
 *   rmax over a of x[a, b]          ->  rmax over a of copy x[b, a]
 *   rmax over (a, b) of x[a, b]     ->  rmax over a of (rmax over b of x), if x is large
 *   a view that leaves the region, or starts a carried value: a copy, for it has to be dense; among
 * relays it stands behind the view, and not at the end, which may be of another phase
 *   what a loop carries unchanged:  the start value, inside and after it (of a relay each rank has
 * what it was handed)
 *   a half that is widened:         at each use again, so that the half is what is stored
 *   the index of a loop, where its body reads it: a slice of 0, 1, ... in memory, for a kernel
 * reads memory only. Of layers of which a phase runs a part: made before all phases */
#include "passes/fuse/fuse.h"
#include "passes/view.h"

#include <string.h>

typedef struct Split {
    Module *m;
    Region *r;
    Builder b;
    Value *replaced; /* per old value */
    size_t old_values;
} Split;

/* The dims of `over` that are innermost in t. */
static DimList inner_part(const Type *t, const DimList *over)
{
    DimList l = {0};
    for (int i = t->rank - 1; i >= 0 && dims_have(over, t->dims[i].name); i--)
        l.dim[l.n++] = t->dims[i];
    return l;
}

static DimList without(const DimList *a, const DimList *b)
{
    DimList l = {0};
    for (int i = 0; i < a->n; i++)
        if (!dims_have(b, a->dim[i].name))
            l.dim[l.n++] = a->dim[i];
    return l;
}

static void named(Split *s, const Ins *i, Value v)
{
    s->m->values.data[v].name = s->m->values.data[i->out[0]].name;
    s->replaced[i->out[0]] = v;
}

/* A sum that runs over innermost dims and others, and keeps some: two sums. */
static bool split_sum(Split *s, const Ins *i)
{
    if (i->op != OP_sum)
        return false;
    const Type *t = type_of(s->m, i->in[0]);
    DimList inner = inner_part(t, &i->attrs.over), outer = without(&i->attrs.over, &inner);
    if (!inner.n || !outer.n || i->attrs.over.n == t->rank)
        return false;
    Attrs a = {.over = inner}, b = {.over = outer};
    Value v = build(&s->b, OP_sum, &a, 1, &i->in[0]);
    Type want = *type_of(s->m, i->out[0]);
    named(s, i, build_typed(&s->b, OP_sum, &b, 1, &v, 1, &want, NULL)->out[0]);
    return true;
}

/* A maximum over dims that are not innermost: of a transposed copy. */
static bool turn_max(Split *s, const Ins *i)
{
    if (i->op != OP_rmax)
        return false;
    const Type *t = type_of(s->m, i->in[0]);
    DimList inner = inner_part(t, &i->attrs.over);
    if (inner.n == i->attrs.over.n)
        return false;
    Type turned = *t;
    turned.rank = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < t->rank; k++)
            if (dims_have(&i->attrs.over, t->dims[k].name) == (pass == 1))
                turned.dims[turned.rank++] = t->dims[k];
    Value v = build_as(&s->b, i->in[0], turned);
    Type want = *type_of(s->m, i->out[0]);
    named(s, i, build_typed(&s->b, OP_rmax, &i->attrs, 1, &v, 1, &want, NULL)->out[0]);
    return true;
}

/* The largest of many numbers: of each row first, so that many threads look at them, and what makes
 * a row does so, too. */
static bool split_max(Split *s, const Ins *i)
{
    if (i->op != OP_rmax)
        return false;
    const Type *t = type_of(s->m, i->in[0]);
    DimList rows = i->attrs.over, row = {0};
    int64_t all = 1, inner = 1;
    for (int k = 0; k < rows.n; k++)
        all *= t->dims[type_find(t, rows.dim[k].name)].size;
    for (int k = t->rank - 1; k > 0 && inner < FUSE_ROW_LEAST && rows.n > 1; k--) {
        row.dim[row.n++] = t->dims[k];
        inner *= t->dims[k].size;
        rows = without(&i->attrs.over, &row);
    }
    if (all <= FUSE_ROW_ALONE || inner == 1 || inner == all)
        return false;
    const Attrs a = {.over = row}, b = {.over = rows};
    Value v = build(&s->b, OP_rmax, &a, 1, &i->in[0]);
    const Type want = *type_of(s->m, i->out[0]);
    named(s, i, build_typed(&s->b, OP_rmax, &b, 1, &v, 1, &want, NULL)->out[0]);
    return true;
}

/* The value that replaces one of the original region. */
static Value now(const Split *s, Value v)
{
    return v < s->old_values && s->replaced[v] ? s->replaced[v] : v;
}

static Value dense(Split *s, Value v)
{
    v = now(s, v);
    const Ins *def = s->m->values.data[v].def;
    Type t = *type_of(s->m, v);
    View w = view_of(s->m, v); /* a slice of a view lies as that does */
    if (!(def && op_is(def->op, VIEW)) && strides_are_dense(&t, w.stride))
        return v;
    return build_typed(&s->b, OP_copy, NULL, 1, &v, 1, &t, NULL)->out[0];
}

/* Is v a value of a pointwise instruction here that was made with one of its dims as two? As it is
 * dense, it is computed where v is wanted. */
static bool made_in_two(const Split *s, Value v)
{
    const Ins *merge = s->m->values.data[v].def;
    const Ins *def = merge && merge->op == OP_merge ? s->m->values.data[merge->in[0]].def : NULL;
    return def && def->home == s->r && op_is(def->op, POINTWISE | FUSE) && !op_is(def->op, VIEW);
}

static bool has_relay(const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_repeat && r->ins.data[k]->attrs.relay)
            return true;
    return false;
}

/* A view i that leaves the region is copied here: a sum over microbatches is read and written in
 * one phase (schedule_pipe.c). */
static void copy_results(Split *s, const Ins *i)
{
    for (size_t k = 0; k < s->r->results.n && op_is(i->op, VIEW); k++)
        if (s->r->results.data[k] == i->out[0] && !made_in_two(s, i->out[0]))
            s->r->results.data[k] = dense(s, i->out[0]);
}

static bool region_uses(const Region *r, Value v)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        for (uint32_t n = 0; n < i->nin; n++)
            if (i->in[n] == v)
                return true;
        if (i->body && region_uses(i->body, v))
            return true;
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (r->results.data[k] == v)
            return true;
    return false;
}

/* The loop's index becomes one more slice: of `all`. */
static void slice_index(Module *m, Ins *loop, Value all)
{
    Region *body = loop->body;
    Value index = body->args.data[loop->nin];
    Value *in = NEW_ARRAY(m->arena, Value, loop->nin + 1);
    memcpy(in, loop->in, loop->nin * sizeof *in);
    in[loop->nin++] = all;
    loop->in = in;
    /* The argument that was the index is the slice now; nobody reads the new index. */
    region_arg(m, body, (Type){.dtype = DT_i32}, m->values.data[index].name);
}

static bool reads_index(const Ins *loop)
{
    return region_uses(loop->body, loop->body->args.data[loop->nin]);
}

static void index_from_memory(Split *s, Ins *loop)
{
    if (reads_index(loop))
        slice_index(s->m, loop, build_iota(&s->b, DT_i32, loop->attrs.dim));
}

/* Two names for one place would hide from the planner who still needs it. */
static void drop_unchanged(Split *s, Ins *loop)
{
    Region *body = loop->body;
    uint32_t kept = 0, carried = (uint32_t)loop->attrs.carried;
    for (uint32_t k = 0; k < loop->nin || k < loop->nout || k < body->args.n; k++) {
        if (k < carried && !loop->attrs.relay && body->results.data[k] == body->args.data[k]) {
            Value start = dense(s, loop->in[k]); /* as the products made sure of what they read */
            s->replaced[loop->out[k]] = s->replaced[body->args.data[k]] = start;
            loop->attrs.carried--;
            continue;
        }
        if (k < loop->nin)
            loop->in[kept] = loop->in[k];
        if (k < loop->nout) {
            loop->out[kept] = loop->out[k];
            body->results.data[kept] = body->results.data[k];
        }
        if (k < body->args.n)
            body->args.data[kept] = body->args.data[k];
        kept++;
    }
    uint32_t gone = carried - (uint32_t)loop->attrs.carried;
    loop->nin -= gone;
    loop->nout -= gone;
    body->args.n -= gone;
    body->results.n -= gone;
}

static void widen_again(Split *s, Ins *i)
{
    for (uint32_t k = 0; k < i->nin && op_is(i->op, FUSE | POINTWISE); k++) {
        const Ins *def = s->m->values.data[i->in[k]].def;
        if (!def || def->op != OP_cast || !dtype_is_narrow(type_of(s->m, def->in[0])->dtype))
            continue;
        Value was = i->in[k];
        Type t = *type_of(s->m, was);
        Value wide = build_typed(&s->b, OP_cast, NULL, 1, def->in, 1, &t, NULL)->out[0];
        s->m->values.data[wide].name = s->m->values.data[was].name;
        for (uint32_t x = k; x < i->nin; x++)
            if (i->in[x] == was)
                i->in[x] = wide;
    }
}

static void split_ins(Split *s, Ins *i)
{
    s->b = (Builder){s->m, s->r, i->span, i->path, i->block, i->backward, i->again};
    widen_again(s, i);
    if (split_sum(s, i) || turn_max(s, i) || split_max(s, i))
        return;
    if (i->op == OP_repeat) {
        drop_unchanged(s, i);
        for (int64_t k = 0; k < i->attrs.carried; k++)
            i->in[k] = dense(s, i->in[k]);
        index_from_memory(s, i);
    }
    vec_push(s->m->arena, &s->r->ins, i);
}

void fuse_prepare(Module *m, Region *r, Arena *tmp)
{
    Split s = {.m = m, .r = r, .b = {.m = m, .region = r}, .old_values = m->values.n};
    s.replaced = NEW_ARRAY(tmp, Value, m->values.n);
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    const bool phases = has_relay(r);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        split_ins(&s, old[k]);
        if (phases)
            copy_results(&s, old[k]);
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (!made_in_two(&s, r->results.data[k]))
            r->results.data[k] = dense(&s, r->results.data[k]);
    Value *map = NEW_ARRAY(tmp, Value, m->values.n);
    memcpy(map, s.replaced, s.old_values * sizeof *map);
    ir_replace(r, map);
}

/* ---- indices of a rank's layers -------------------------------------------------------------- */

/* Loops over layers in r take their indices from b's region. */
static void indices_before(Builder *b, Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        if (i->op != OP_repeat)
            continue;
        if (i->attrs.dim.name == b->m->layout.pipeline.dim && reads_index(i))
            slice_index(b->m, i, build_iota(b, DT_i32, i->attrs.dim));
        indices_before(b, i->body);
    }
}

void fuse_index_layers(Module *m, Region *r)
{
    if (m->layout.pipeline.chunks < 2)
        return;
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = {m, r, i->span, i->path, i->block, i->backward, i->again};
        if (i->op == OP_repeat)
            indices_before(&b, i->body);
        vec_push(m->arena, &r->ins, i);
    }
}
