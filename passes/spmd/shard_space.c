/* shard_space.c - the dims that an instruction runs over, and on which axes each is split; see
 * shard.h. */
#include "passes/spmd/shard.h"
#include "ir/mesh.h"
#include "passes/walk.h"

static int space_find(const Space *p, Name d)
{
    for (int i = 0; i < p->n; i++)
        if (p->dim[i].name == d)
            return i;
    return -1;
}

static void space_add(Space *p, const Type *t)
{
    for (int i = 0; i < t->rank; i++)
        if (space_find(p, t->dims[i].name) < 0 && p->n < 4 * MAX_RANK)
            p->dim[p->n++] = t->dims[i];
}

static void space_fix(Space *p, Name d)
{
    int at = space_find(p, d);
    if (at >= 0)
        p->fixed[at] = true;
}

static void fix_dims_of(Space *p, const DimList *l)
{
    for (int k = 0; k < l->n; k++)
        space_fix(p, l->dim[k].name);
}

/* Is d the dim of rows, outermost, of which each rank has neighbours? */
static bool draws_rows(const Shard *s, const Type *t, Name d)
{
    bool split = d == s->m->batch.name && t->rank && t->dims[0].name == d;
    for (size_t k = 0; split && k < s->m->layout.rules.n; k++)
        split = s->m->layout.rules.data[k].dim != d ||
                (!s->m->layout.rules.data[k].zigzag && !s->m->layout.rules.data[k].blocks);
    return split;
}

/* Is i no split and no merge, or do the rules say the same of the dim that is split in two, or made
 * of two, as of the outer one of these? Then it lies alike on both sides. */
static bool splits_alike(const Module *m, const Ins *i)
{
    if (!OP_AMONG(i->op, OP_split, OP_merge))
        return true;
    const bool merges = i->op == OP_merge;
    const Type *one = type_of(m, merges ? i->out[0] : i->in[0]),
               *two = type_of(m, merges ? i->in[0] : i->out[0]);
    const int at = type_find(one, i->attrs.dim.name), outer = type_find(two, i->attrs.to.name);
    const int inner = type_find(two, i->attrs.dim.name);
    bool fixed[MAX_RANK] = {false};
    Axes of_one[MAX_RANK], of_two[MAX_RANK];
    mesh_walk(m, one->dims, one->rank, fixed, of_one);
    fixed[inner] = true;
    mesh_walk(m, two->dims, two->rank, fixed, of_two);
    const Dim a = mesh_ruled(m, i->attrs.dim.name, of_one[at]);
    const Dim b = mesh_ruled(m, i->attrs.to.name, of_two[outer]);
    return a.axes && dim_lies_as(a, b) && two->dims[outer].size % mesh_unit(m, b) == 0;
}

/* Dims that the op looks at as a whole. */
static void fix_dims(const Shard *s, const Ins *i, Space *p)
{
    const Attrs *a = &i->attrs;
    /* A group is routed as a whole: what experts have is sent to them afterwards. */
    /* Of a dim that is split in two, or made of two, ranks have parts of the outer one. */
    if (OP_AMONG(i->op, OP_split, OP_merge))
        space_fix(p, a->dim.name);
    const bool routes =
        OP_AMONG(i->op, OP_slots, OP_ends, OP_dispatch, OP_combine, OP_combine_weight);
    const bool grouped = OP_AMONG(i->op, OP_grouped, OP_grouped_weight);
    if (routes || grouped || OP_AMONG(i->op, OP_rename, OP_pick, OP_join, OP_rotate, OP_top) ||
        !splits_alike(s->m, i)) {
        space_fix(p, a->dim.name);
        space_fix(p, a->to.name);
        if (routes)
            space_fix(p, a->keys.name);
    }
    if (i->op == OP_reindex) {
        space_fix(p, a->dim.name);
        fix_dims_of(p, &a->over);
    }
    if (routes || grouped || i->op == OP_window)
        space_fix(p, a->along.name);
    /* The dim that attention runs along may be split: keys go round. */
    if (routes || (i->op == OP_sum && a->whole) ||
        OP_AMONG(i->op, OP_attention, OP_attention_grad, OP_attention_bias_grad, OP_cross_entropy,
                 OP_cross_entropy_grad))
        fix_dims_of(p, &a->over);
    if (OP_AMONG(i->op, OP_attention, OP_attention_grad, OP_attention_bias_grad)) {
        const DimList head =
            attention_value_head(a, type_of(s->m, i->in[1]), type_of(s->m, i->in[2]));
        fix_dims_of(p, &head);
        if (a->keys.name)
            space_fix(p, a->keys.name);
    }
    /* An index along the dim that is looked up is another dim of that name. */
    if (OP_AMONG(i->op, OP_gather, OP_scatter_add) &&
        type_find(type_of(s->m, i->in[1]), a->dim.name) >= 0)
        space_fix(p, a->dim.name);
    for (int k = 0; i->op == OP_put && k < p->n; k++) /* each row of a table is some rank's */
        p->fixed[k] |= p->dim[k].name == a->dim.name ||
                       type_find(type_of(s->m, i->in[0]), p->dim[k].name) < 0 ||
                       type_find(type_of(s->m, i->in[2]), p->dim[k].name) < 0;
    /* Numbers are drawn by their place in the whole: some rows, one after the other, may be drawn.
     */
    for (int k = 0; i->op == OP_random && k < p->n; k++)
        p->fixed[k] = !draws_rows(s, type_of(s->m, i->out[0]), p->dim[k].name);
}

/* On which axes the rules may split each dim. Of what is fixed none; but experts are on those on
 * which a position's row comes to all of a rank's peers: it makes the slots of its own experts. */
static void walk(const Shard *s, const Ins *i, Space *p)
{
    const bool sends = OP_AMONG(i->op, OP_dispatch, OP_combine, OP_combine_weight) &&
                       !i->attrs.sorted && !i->attrs.each;
    Axes may[4 * MAX_RANK];
    for (int k = 0; k < p->n; k++) {
        const bool own = sends && p->dim[k].name == i->attrs.dim.name;
        may[k] = !p->fixed[k] ? ~(Axes)0 : own ? mesh_once(s->m, i->attrs.dim.name) : 0;
    }
    mesh_walk_within(s->m, p->dim, p->n, may, p->axes);
}

/* The axes that a dim is split on. */
static Dim split_in(const Shard *s, const Space *p, Dim d, int at)
{
    const Exchange *x = &p->exchange;
    Dim now = mesh_split(s->m, d, p->axes[at] & ~(p->dim[at].name == x->along ? x->axis : 0));
    return x->heads && p->dim[at].name == x->heads ? mesh_split_within(s->m, now, x->axis) : now;
}

Axes space_axes(const Space *p)
{
    Axes all = 0;
    for (int i = 0; i < p->n; i++)
        all |= p->axes[i];
    return all;
}

/* An axis that no rule uses here splits what it splits of the operands. */
static void adopt(const Shard *s, const Ins *i, Space *p)
{
    int added = ins_added(i); /* what is added to follows, or is added to afterwards */
    for (uint32_t k = 0; k < i->nin; k++) {
        if ((int)k == added)
            continue;
        Type t = *type_of(s->m, s->now[i->in[k]]);
        if (s->updating &&
            s->param[i->in[k]]) { /* of which a rank needs what it has the state of */
            Split state = class_split_of(s->m, &t, s->param[i->in[k]] - 1, CLASS_state);
            for (int d = 0; d < t.rank; d++)
                t.dims[d].axes |= state.axes[d];
        }
        for (int d = 0; d < t.rank; d++) {
            int at = space_find(p, t.dims[d].name);
            Axes more = t.dims[d].axes & ~space_axes(p);
            if (at >= 0 && !p->fixed[at] && more > p->axes[at])
                p->axes[at] |= more;
        }
    }
}

/* Axes over which what an op is linear in is partial: it may run on that, and split on others. */
static Axes partial_operands(const Shard *s, const Ins *i)
{
    Axes all = ~(Axes)0, any = 0;
    if (OP_AMONG(i->op, OP_neg, OP_cast, OP_copy, OP_sum, OP_window, OP_reindex, OP_dispatch,
                 OP_combine, OP_stochastic_round))
        return type_of(s->m, s->now[i->in[0]])->partial;
    if (i->op == OP_combine_weight)
        return type_of(s->m, s->now[i->in[0]])->partial & ~type_of(s->m, s->now[i->in[1]])->partial;
    if (i->op == OP_mul) {
        for (int k = 0; k < 2; k++)
            if (!type_of(s->m, i->in[1 - k])->rank)
                any |= type_of(s->m, s->now[i->in[k]])->partial &
                       ~type_of(s->m, s->now[i->in[1 - k]])->partial;
        return any;
    }
    if (!op_is(i->op, ADDITIVE))
        return 0;
    for (uint32_t k = 0; k < i->nin; k++)
        if (!shard_is_zero(s, i->in[k])) {
            any |= type_of(s->m, s->now[i->in[k]])->partial;
            all &= type_of(s->m, s->now[i->in[k]])->partial;
        }
    return all & any;
}

bool shard_is_zero(const Shard *s, Value old)
{
    double x;
    return value_is_const(s->m, old, &x) && x == 0;
}

/* A dim of which a rank would have a part of a tile is whole. */
static void keep_tiles_whole(const Shard *s, const Ins *i, Space *p)
{
    Type t = space_type(s, p, *type_of(s->m, i->in[0]));
    for (int cut; (cut = ir_cut_tiles(s->m, &i->attrs, &t)) >= 0;) {
        p->axes[space_find(p, i->attrs.over.dim[cut].name)] = 0;
        t = space_type(s, p, *type_of(s->m, i->in[0]));
    }
}

/* Keys do not go round by blocks: attention along a dim has these together. */
static void keep_blocks_together(const Shard *s, Name along, Space *p)
{
    const int at = space_find(p, along);
    for (Axes a = 1; at >= 0 && a <= p->axes[at]; a <<= 1)
        if ((p->axes[at] & a) && mesh_ruled(s->m, along, a).blocks)
            p->axes[at] &= ~a;
}

Space space_of(const Shard *s, const Ins *i)
{
    Space p = {0};
    if (OP_AMONG(i->op, OP_split, OP_merge)) {
        p.outer = i->attrs.to.name;
        p.inner = i->attrs.dim;
    }
    for (uint32_t k = 0; k < i->nin; k++)
        space_add(&p, type_of(s->m, i->in[k]));
    for (uint32_t k = 0; k < i->nout; k++)
        space_add(&p, type_of(s->m, i->out[k]));
    fix_dims(s, i, &p);
    walk(s, i, &p);
    adopt(s, i, &p);
    p.partial = partial_operands(s, i);
    for (int d = 0; d < p.n; d++) {
        p.axes[d] &= ~p.partial;
        /* The axes of a dim that had to stay whole went to this one; it keeps those that divide it.
         */
        for (Axes last = 1u << (MAX_AXES - 1); last; last >>= 1)
            if (!(p.axes[d] & s->m->layout.pipeline.axis) &&
                p.dim[d].size % mesh_unit(s->m, mesh_ruled(s->m, p.dim[d].name, p.axes[d])))
                p.axes[d] &= ~last;
    }
    if (OP_AMONG(i->op, OP_grouped, OP_grouped_weight) && i->attrs.keys.name) /* at their homes */
        p.axes[space_find(&p, i->attrs.dim.name)] = p.axes[space_find(&p, i->attrs.keys.name)];
    if (i->op == OP_tile_scale)
        keep_tiles_whole(s, i, &p);
    if (OP_AMONG(i->op, OP_attention, OP_attention_grad, OP_attention_bias_grad))
        keep_blocks_together(s, i->attrs.along.name, &p);
    p.exchange = exchange_of(s->m, i, p.dim, p.axes, p.n, mesh_heads(s->m, i->attrs.along.name));
    return p;
}

Dim space_dim(const Shard *s, const Space *p, Dim d)
{
    const bool merged = p->outer && d.name == p->inner.name && d.size != p->inner.size;
    int at = space_find(p, merged ? p->outer : d.name);
    const Pipeline *pipe = &s->m->layout.pipeline;
    if (pipe->axis && d.name == pipe->dim) /* whole, there is the same room for each stage */
        d.size = mesh_stages(s->m) * pipe->max_layers;
    return at >= 0 && !d.axes ? split_in(s, p, d, at) : d;
}

Type space_type(const Shard *s, const Space *p, Type t)
{
    for (int i = 0; i < t.rank; i++)
        t.dims[i] = space_dim(s, p, t.dims[i]);
    return t;
}

Attrs space_attrs(const Shard *s, const Space *p, Attrs a)
{
    a.dim = space_dim(s, p, a.dim);
    a.to = space_dim(s, p, a.to);
    a.along = space_dim(s, p, a.along);
    a.keys = space_dim(s, p, a.keys);
    for (int i = 0; i < a.over.n; i++)
        a.over.dim[i] = space_dim(s, p, a.over.dim[i]);
    return a;
}
