/* comm.c - what ranks do together: of each collective how its result lies over the mesh, and its
 * meaning in the reference interpreter. There the value as it is on all ranks of a group is put
 * together, and each takes its part. */
#include "ir/interp.h"
#include "ir/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- types ---------------------------------------------------------------------------------- */

/* Are these the innermost axes of a dim, those that its neighbouring elements are apart on? */
static bool innermost(Axes axes, Dim d)
{
    Axes rest = d.axes & ~axes;
    if (d.inner)
        return axes == d.inner;
    return (axes & d.axes) == axes && (!rest || (axes & -axes) > rest);
}

static const char *has_axes(Rule *r)
{
    Axes axes = r->attrs->axes;
    if (!axes || axes >> r->m->layout.mesh.n)
        WRONG(r, "no axis of the mesh is named");
    if (r->attrs->zigzag && (axes & (axes - 1)))
        WRONG(r, "zigzag order on %s, which is not one axis", rule_axes(r, axes));
    if (r->attrs->blocks && (r->attrs->zigzag || (axes & (axes - 1))))
        WRONG(r, "blocks on %s, which is not one axis in its order", rule_axes(r, axes));
    return NULL;
}

/* Dim at of r->out[0] is split on the attribute's axes as well, which are its innermost: the last
 * of the mesh, or one that comes before them (Dim.inner). */
static const char *split_on(Rule *r, Name name)
{
    Type *t = &r->out[0];
    Axes axes = r->attrs->axes;
    int at = type_find(t, name);
    if (at < 0)
        WRONG(r, "there is no dim '%s' to split", rule_dim(r, name));
    if (axes & (type_axes(t) | t->partial | t->max))
        WRONG(r, "axis %s is in use", rule_axes(r, axes & (type_axes(t) | t->partial | t->max)));
    const Dim was = t->dims[at];
    const bool within = axes < was.axes;
    if (was.inner)
        WRONG(r, "dim '%s' is split within %s already", rule_dim(r, name), rule_axes(r, was.inner));
    if (within ? was.zigzag || r->attrs->zigzag || r->attrs->blocks || (axes & (axes - 1))
               : !innermost(axes, (Dim){.axes = axes | was.axes}))
        WRONG(r, "dim '%s' is split on %s, which does not come before %s in the mesh",
              rule_dim(r, name), rule_axes(r, was.axes), rule_axes(r, axes));
    int64_t n = mesh_size(r->m, axes), unit = n * (r->attrs->zigzag ? 2 : 1);
    if (t->dims[at].blocks)
        WRONG(r, "dim '%s' is split in blocks already", rule_dim(r, name));
    if (t->dims[at].size % (r->attrs->blocks ? n * r->attrs->blocks : unit))
        WRONG(r, "dim '%s' of %lld is not split evenly on %s, of %lld ranks", rule_dim(r, name),
              (long long)t->dims[at].size, rule_axes(r, axes), (long long)n);
    t->dims[at].size /= n;
    if (!r->m->local) {
        t->dims[at].axes |= axes;
        t->dims[at].inner = within ? axes : 0;
        t->dims[at].zigzag |= r->attrs->zigzag ? axes : 0;
        t->dims[at].blocks = r->attrs->blocks;
    }
    return NULL;
}

static const char *whole_on(Rule *r, Name name)
{
    Type *t = &r->out[0];
    Axes axes = r->attrs->axes;
    int at = type_find(t, name);
    if (at < 0)
        WRONG(r, "there is no dim '%s' to gather", rule_dim(r, name));
    if (!r->m->local && !innermost(axes, t->dims[at]))
        WRONG(r, "dim '%s' is split on '%s', of which '%s' are not the last", rule_dim(r, name),
              rule_axes(r, t->dims[at].axes), rule_axes(r, axes));
    if (!r->m->local && (t->dims[at].zigzag & axes) != (r->attrs->zigzag ? axes : 0))
        WRONG(r, "dim '%s' is %sin zigzag order on %s", rule_dim(r, name),
              r->attrs->zigzag ? "not " : "", rule_axes(r, axes));
    if (!r->m->local && t->dims[at].blocks != r->attrs->blocks)
        WRONG(r, "dim '%s' is in %lld blocks on %s", rule_dim(r, name),
              (long long)t->dims[at].blocks, rule_axes(r, axes));
    t->dims[at].size *= mesh_size(r->m, axes);
    t->dims[at] = dim_without_axes(t->dims[at], axes);
    return NULL;
}

static const char *added_up(Rule *r)
{
    Axes axes = r->attrs->axes;
    if (r->m->local)
        return NULL;
    Axes tree = axes & mesh_tree_of(r->m, r->in[0]);
    if (tree ? !r->attrs->tree || axes != tree : r->attrs->tree)
        WRONG(r,
              tree ? "a sum over %s that is not in the order of the tree"
                   : "a tree over %s, which has none",
              rule_axes(r, tree ? tree : axes));
    if ((r->in[0]->partial & axes) != axes)
        WRONG(r, "the operand is not partial over %s", rule_axes(r, axes & ~r->in[0]->partial));
    r->out[0].partial &= ~axes;
    return NULL;
}

const char *type_all_reduce(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (wrong || r->m->local || !(r->in[0]->max & r->attrs->axes))
        return wrong ? wrong : added_up(r);
    if ((r->in[0]->max & r->attrs->axes) != r->attrs->axes)
        WRONG(r, "the operand is not of the largest over %s alone", rule_axes(r, r->attrs->axes));
    r->out[0].max &= ~r->attrs->axes;
    return NULL;
}

const char *type_reduce_scatter(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (!wrong)
        wrong = added_up(r);
    return wrong ? wrong : split_on(r, r->attrs->dim.name);
}

const char *type_all_gather(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    return wrong ? wrong : whole_on(r, r->attrs->dim.name);
}

const char *type_all_to_all(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (!wrong)
        wrong = whole_on(r, r->attrs->dim.name);
    return wrong ? wrong : split_on(r, r->attrs->to.name);
}

const char *type_shard(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    return wrong ? wrong : split_on(r, r->attrs->dim.name);
}

const char *type_ring_shift(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    if (!wrong && !r->m->local)
        WRONG(r, "what a rank has of a value is another part of it than its type says");
    return wrong;
}

const char *type_broadcast(Rule *r)
{
    const char *wrong = has_axes(r);
    r->out[0] = *r->in[0];
    Axes in_use = (type_axes(r->in[0]) | r->in[0]->partial | r->in[0]->max) & r->attrs->axes;
    if (!wrong && (r->attrs->at < 0 || r->attrs->at >= mesh_size(r->m, r->attrs->axes)))
        WRONG(r, "no rank along %s is at place %lld", rule_axes(r, r->attrs->axes),
              (long long)r->attrs->at);
    if (!wrong && in_use)
        WRONG(r, "ranks of %s have parts of the operand", rule_axes(r, in_use));
    return wrong;
}

/* ---- meanings -------------------------------------------------------------------------------- */

bool interp_same_group(const Module *m, int64_t a, int64_t b, Axes axes)
{
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (!(axes >> i & 1) && mesh_coordinate(m, a, (int)i) != mesh_coordinate(m, b, (int)i))
            return false;
    return true;
}

/* A tensor as [outer, size, inner] around one of its dims. */
typedef struct Around {
    int64_t outer, size, inner;
} Around;

static Around around(const Type *t, Name dim)
{
    Around a = {1, 1, 1};
    int at = type_find(t, dim);
    for (int i = 0; i < t->rank; i++)
        *(i < at ? &a.outer : i == at ? &a.size : &a.inner) *= t->dims[i].size;
    return a;
}

/* Copies a rank's part of a dim of x, which is split as i says, into or out of a tensor of that
 * part alone. */
static void copy_part(const Interp *in, const Ins *i, double *part, double *x, Around whole,
                      bool out)
{
    Dim d = {.axes = i->attrs.axes,
             .zigzag = i->attrs.zigzag ? i->attrs.axes : 0,
             .blocks = i->attrs.blocks};
    d.size = whole.size / mesh_size(in->m, d.axes);
    /* After pass local the parts of stages follow each other as the ranks do. */
    bool by_rank = in->m->local && d.axes == in->m->layout.pipeline.axis;
    int64_t first = by_rank ? mesh_place(in->m, in->rank, d.axes) * d.size : 0;
    for (int64_t o = 0; o < whole.outer; o++)
        for (int64_t k = 0; k < d.size; k++, part += whole.inner) {
            int64_t index = by_rank ? first + k : mesh_index(in->m, in->rank, d, k);
            double *at = x + (o * whole.size + index) * whole.inner;
            memcpy(out ? part : at, out ? at : part, (size_t)whole.inner * sizeof(double));
        }
}

/* n numbers that lie `stride` apart, pairs of neighbours first: as they are added up in a tree.
 * A sum with 0 is no negative zero, whichever of the ranks and of their iterations the number
 * comes from. */
static double tree_sum(double *x, int64_t n, int64_t stride)
{
    for (int64_t k = 0; k < n; k++)
        x[k * stride] += 0.0;
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t k = 0; k + step < n; k += 2 * step)
            x[k * stride] += x[(k + step) * stride];
    return x[0];
}

static void reduce_tree(const Interp *in, int64_t ranks, int64_t rank, const Ins *i, double *y)
{
    const Module *m = in->m;
    int64_t n = type_elements(type_of(m, i->in[0])), group = mesh_size(m, i->attrs.axes), at = 0;
    double *all = interp_alloc(n * group, sizeof *all);
    for (int64_t r = 0; r < ranks; r++)
        if (interp_same_group(m, in[r].rank, rank, i->attrs.axes))
            memcpy(all + n * at++, interp_in(&in[r], i, 0), (size_t)n * sizeof *all);
    for (int64_t e = 0; e < n; e++)
        y[e] = tree_sum(all + e, group, n);
    free(all);
}

/* The sum, or the largest, over the group of `rank`. */
static void reduce(const Interp *in, int64_t ranks, int64_t rank, const Ins *i, double *y)
{
    const Module *m = in->m;
    const Type *t = type_of(m, i->in[0]);
    bool max = m->local ? i->attrs.max : (t->max & i->attrs.axes) != 0, first = true;
    if (i->attrs.tree) {
        reduce_tree(in, ranks, rank, i, y);
        return;
    }
    for (int64_t r = 0; r < ranks; r++) {
        const double *x = interp_in(&in[r], i, 0);
        if (!interp_same_group(m, in[r].rank, rank, i->attrs.axes))
            continue;
        for (int64_t e = 0; e < type_elements(t); e++)
            y[e] = first ? x[e] : !max ? y[e] + x[e] : x[e] > y[e] ? x[e] : y[e];
        first = false;
    }
}

static void gather(Interp *in, int64_t ranks, int64_t rank, const Ins *i, double *y)
{
    const Module *m = in->m;
    Axes axes = i->attrs.axes;
    Around whole = around(type_of(m, i->in[0]), i->attrs.dim.name);
    whole.size *= mesh_size(m, axes);
    for (int64_t r = 0; r < ranks; r++)
        if (interp_same_group(m, in[r].rank, rank, axes))
            copy_part(&in[r], i, in[r].value[i->in[0]].data, y, whole, false);
}

/* Each rank receives the value of the rank before it; the first receives that of the last. */
static void shift(const Interp *in, int64_t ranks, int64_t rank, const Ins *i, double *y)
{
    const Module *m = in->m;
    Axes axes = i->attrs.axes;
    int64_t n = mesh_size(m, axes), before = (mesh_place(m, rank, axes) + n - 1) % n;
    for (int64_t r = 0; r < ranks; r++)
        if (interp_same_group(m, in[r].rank, rank, axes) &&
            mesh_place(m, in[r].rank, axes) == before)
            memcpy(y, interp_in(&in[r], i, 0),
                   (size_t)type_elements(type_of(m, i->in[0])) * sizeof *y);
}

/* All ranks receive the value of one of them. */
static void broadcast(const Interp *in, int64_t ranks, int64_t rank, const Ins *i, double *y)
{
    const Module *m = in->m;
    Axes axes = i->attrs.axes;
    for (int64_t r = 0; r < ranks; r++)
        if (interp_same_group(m, in[r].rank, rank, axes) &&
            mesh_place(m, in[r].rank, axes) == i->attrs.at)
            memcpy(y, interp_in(&in[r], i, 0),
                   (size_t)type_elements(type_of(m, i->in[0])) * sizeof *y);
}

/* Along `dim` the rank's part of x; all of x is `whole`. */
static void cut(const Interp *in, const Ins *i, Name dim, const Type *whole, double *x, double *y)
{
    copy_part(in, i, y, x, around(whole, dim), true);
}

/* ---- the table: what a rank, one of many, has then --------------------------------------------
 */

typedef struct Ranks {
    Interp *in; /* of all */
    int64_t n;
    Interp *mine;
} Ranks;

static double *new_whole(const Interp *in, const Ins *i)
{
    int64_t n = type_elements(type_of(in->m, i->in[0])) * mesh_size(in->m, i->attrs.axes);
    return interp_alloc(n, sizeof(double));
}

static void comm_all_reduce(const Ranks *r, const Ins *i, double *y)
{
    reduce(r->in, r->n, r->mine->rank, i, y);
}

static void comm_reduce_scatter(const Ranks *r, const Ins *i, double *y)
{
    double *all = new_whole(r->mine, i);
    reduce(r->in, r->n, r->mine->rank, i, all);
    cut(r->mine, i, i->attrs.dim.name, type_of(r->mine->m, i->in[0]), all, y);
    free(all);
}

static void comm_all_gather(const Ranks *r, const Ins *i, double *y)
{
    gather(r->in, r->n, r->mine->rank, i, y);
}

static void comm_all_to_all(const Ranks *r, const Ins *i, double *y)
{
    const Module *m = r->mine->m;
    double *all = new_whole(r->mine, i);
    Type gathered = *type_of(m, i->in[0]);
    gathered.dims[type_find(&gathered, i->attrs.dim.name)].size *= mesh_size(m, i->attrs.axes);
    gather(r->in, r->n, r->mine->rank, i, all);
    cut(r->mine, i, i->attrs.to.name, &gathered, all, y);
    free(all);
}

static void comm_shard(const Ranks *r, const Ins *i, double *y)
{
    cut(r->mine, i, i->attrs.dim.name, type_of(r->mine->m, i->in[0]), r->mine->value[i->in[0]].data,
        y);
}

static void comm_ring_shift(const Ranks *r, const Ins *i, double *y)
{
    shift(r->in, r->n, r->mine->rank, i, y);
}

static void comm_broadcast(const Ranks *r, const Ins *i, double *y)
{
    broadcast(r->in, r->n, r->mine->rank, i, y);
}

typedef void CommFn(const Ranks *r, const Ins *i, double *y);
static CommFn *const table[OP_count] = {
#define COLLECTIVE(name, ...) [OP_##name] = comm_##name,
#include "ir/ops.def"
};

void interp_comm(Interp *in, int64_t ranks, const Ins *i)
{
    for (int64_t r = 0; r < ranks; r++) {
        const Ranks all = {in, ranks, &in[r]};
        table[i->op](&all, i, interp_out(&in[r], i, 0));
    }
}
