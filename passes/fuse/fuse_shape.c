/* fuse_shape.c - what kind of kernel a set of instructions can be: the legality model.
 *
 *   map  no reduction; every result has all dims that are iterated
 *   row  all reductions run over one set of dims R, innermost in memory; what they give has exactly
 *        the other dims P; results have dims P, or P and R. The kernel walks a row as often as
 *        reductions depend on each other, and once more for what comes after
 *   col  all results are sums over one set of dims Q with one set of kept dims, of pointwise
 * values; Q is not innermost, or nothing is kept
 *
 * In all of them a value that lacks dims of the iteration is computed again along these, so it has
 * to be next to free, unless (row) it is one number a row. */
#include "passes/fuse/fuse.h"
#include "passes/view.h"

#include <string.h>

/* ---- dims ----------------------------------------------------------------------------------- */

/* With its size: a window is a dim of the same name and another size. */
static bool has(const DimList *l, Dim d)
{
    for (int i = 0; i < l->n; i++)
        if (l->dim[i].name == d.name && l->dim[i].size == d.size)
            return true;
    return false;
}

bool dims_equal(const DimList *a, const DimList *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!has(b, a->dim[i]))
            return false;
    return true;
}

double dims_elements(const DimList *l)
{
    double n = 1;
    for (int i = 0; i < l->n; i++)
        n *= (double)l->dim[i].size;
    return n;
}

static DimList dims_of(const Type *t)
{
    DimList l = {.n = t->rank};
    memcpy(l.dim, t->dims, sizeof l.dim);
    return l;
}

/* Adds a type's dims but one. False if there is no room, or a dim would have two sizes. */
static bool dims_join(DimList *l, const Type *t, Name but)
{
    for (int i = 0; i < t->rank; i++) {
        if ((but && t->dims[i].name == but) || has(l, t->dims[i]))
            continue;
        if (l->n == MAX_RANK || dims_have(l, t->dims[i].name))
            return false;
        l->dim[l->n++] = t->dims[i];
    }
    return true;
}

/* Has a type the dims of a list, and no others? */
static bool has_dims(const Type *t, const DimList *l)
{
    if (t->rank != l->n)
        return false;
    for (int i = 0; i < l->n; i++)
        if (!has(l, t->dims[i]))
            return false;
    return true;
}

static DimList dims_less(const DimList *a, const DimList *b)
{
    DimList l = {0};
    for (int i = 0; i < a->n; i++)
        if (!dims_have(b, a->dim[i].name))
            l.dim[l.n++] = a->dim[i];
    return l;
}

static bool dims_within(const DimList *a, const DimList *b)
{
    DimList rest = dims_less(a, b);
    return rest.n == 0;
}

double value_elements(const Fuse *f, Value v)
{
    return (double)elements_per_iteration(type_of(f->m, v), &f->depth);
}

/* Is a reduction over these dims too long for one thread? */
static bool long_row(const Fuse *f, const DimList *reduced)
{
    DimList per_iteration = dims_less(reduced, &f->depth);
    return dims_elements(&per_iteration) > FUSE_ROW_ALONE;
}

/* ---- collecting ----------------------------------------------------------------------------- */

/* A cluster under examination. */
typedef struct Look {
    const Fuse *f;
    const Cluster *c;
    Shape *s;
    bool sums_only; /* all reductions are sums and nothing in the cluster reads them */
    bool reduces, rotates;
} Look;

/* Is what stands at a position in the cluster? */
static bool is_member(const Look *l, int at)
{
    return l->f->look[at] == l->f->look[l->f->n];
}

static bool reduction(const Ins *i)
{
    return i->op == OP_sum || i->op == OP_rmax;
}

static bool add_input(Look *l, Value v)
{
    const Ins *def = l->f->m->values.data[v].def;
    int at = l->f->at[v];
    if ((def && fuse_leaf(def)) || (at >= 0 && is_member(l, at)))
        return true;
    for (int i = 0; i < l->s->nin; i++)
        if (l->s->in[i] == v)
            return true;
    if (l->s->nin + l->s->nout == FUSE_OPERANDS)
        return false;
    l->s->in[l->s->nin++] = v;
    l->s->bytes += (double)type_bytes(type_of(l->f->m, v));
    return true;
}

/* Is i a reindex that only reindexes of the cluster read? Its indices are theirs, of no loop. */
static bool is_read_through(const Look *l, const Ins *i)
{
    if (i->op != OP_reindex)
        return false;
    const Users *u = &l->f->users[l->f->at[i->out[0]]];
    if (u->n == 0)
        return false;
    for (int k = 0; k < u->n; k++)
        if (u->at[k] == l->f->n || !is_member(l, u->at[k]) ||
            l->f->r->ins.data[u->at[k]]->op != OP_reindex)
            return false;
    return true;
}

static const char *collect_ins(Look *l, const Ins *i)
{
    const Module *m = l->f->m;
    if (is_read_through(l, i))
        return add_input(l, i->in[0]) ? NULL : "it would take too many operands";
    for (uint32_t k = 0; k < i->nin; k++) {
        const Name counted = i->op == OP_reindex ? i->attrs.dim.name : 0; /* not iterated */
        if (!dims_join(&l->s->space, type_of(m, i->in[k]), counted))
            return "it would iterate more dims than a tensor can have, or one dim in two sizes";
        if (!add_input(l, i->in[k]))
            return "it would take too many operands";
        const Ins *def = m->values.data[i->in[k]].def;
        int at = l->f->at[i->in[k]];
        if (def && reduction(def) && at >= 0 && is_member(l, at))
            l->sums_only = false;
    }
    if (!dims_join(&l->s->space, type_of(m, i->out[0]), 0))
        return "it would iterate more dims than a tensor can have, or one dim in two sizes";
    l->rotates |= i->op == OP_rotate;
    if (!reduction(i))
        return NULL;
    if (l->reduces && !dims_equal(&l->s->reduced, &i->attrs.over))
        return "its reductions run over different dims";
    l->s->reduced = i->attrs.over;
    l->sums_only &= i->op == OP_sum;
    l->reduces = true;
    return NULL;
}

static const char *collect(Look *l, const Cluster *a, const Cluster *b)
{
    l->sums_only = true;
    for (int k = 0; k < l->c->n; k++) {
        int at = l->c->member[k];
        const Ins *i = l->f->r->ins.data[at];
        const char *why = collect_ins(l, i);
        if (why)
            return why;
        if (l->c->extra[k] || !cluster_gives(l->f, l->c, a, b, at))
            continue;
        if (l->s->nin + l->s->nout == FUSE_OPERANDS)
            return "it would take too many operands";
        l->s->out[l->s->nout++] = i->out[0];
        l->s->bytes += (double)type_bytes(type_of(l->f->m, i->out[0]));
        l->sums_only &= reduction(i);
    }
    return NULL;
}

/* ---- rules ---------------------------------------------------------------------------------- */

Name fuse_innermost(const Fuse *f, Value v)
{
    View w = view_of(f->m, v);
    const Type *t = type_of(f->m, v);
    Name best = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].size > 1 && w.stride[i] < least) {
            least = w.stride[i];
            best = t->dims[i].name;
        }
    return best;
}

/* Does every large tensor of the cluster that has all of R have one of them innermost? */
static bool rows_are_innermost(const Look *l)
{
    for (int k = 0; k < l->s->nin + l->s->nout; k++) {
        Value v = k < l->s->nin ? l->s->in[k] : l->s->out[k - l->s->nin];
        DimList d = dims_of(type_of(l->f->m, v));
        Name last = fuse_innermost(l->f, v);
        if (value_elements(l->f, v) > FUSE_ROW_ALONE && dims_within(&l->s->reduced, &d) && last &&
            !dims_have(&l->s->reduced, last))
            return false;
    }
    return true;
}

/* Does a large input with all of Q have one of them innermost? */
static bool columns_are_innermost(const Look *l)
{
    double max = -1;
    bool inner = false;
    for (int k = 0; k < l->s->nin; k++) {
        DimList d = dims_of(type_of(l->f->m, l->s->in[k]));
        double n = value_elements(l->f, l->s->in[k]);
        Name last = fuse_innermost(l->f, l->s->in[k]);
        if (dims_within(&l->s->reduced, &d) && n > max) {
            max = n;
            inner = last && dims_have(&l->s->reduced, last);
        }
    }
    return inner;
}

/* Flops of the instructions that v is computed from here, reductions not counted further. */
static double flops_behind(const Look *l, Value v, int depth)
{
    int at = l->f->at[v];
    if (at < 0 || !is_member(l, at) || depth == 0)
        return depth == 0 ? 1e9 : 0;
    const Ins *i = l->f->r->ins.data[at];
    if (reduction(i))
        return 0;
    double sum = op_info[i->op].flops;
    for (uint32_t k = 0; k < i->nin; k++)
        sum += flops_behind(l, i->in[k], depth - 1);
    return sum;
}

/* Is v computed here from the number of a row? */
static bool is_of_row(const Look *l, Value v, int depth)
{
    const int at = l->f->at[v];
    if (at < 0 || !is_member(l, at))
        return false;
    const Ins *i = l->f->r->ins.data[at];
    bool any = reduction(i) || depth == 0;
    for (uint32_t k = 0; k < i->nin && !any; k++)
        any = is_of_row(l, i->in[k], depth - 1);
    return any;
}

/* Does a reindex read a dim at other indices of the same dim? */
static bool is_shift(const Ins *i)
{
    return i->attrs.over.n == 1 && i->attrs.over.dim[0].name == i->attrs.dim.name &&
           i->attrs.over.dim[0].size == i->attrs.dim.size;
}

/* Values with fewer dims than the iteration. rows: the dims of which one number is computed once */
static const char *check_values(const Look *l, const DimList *rows)
{
    const double all = dims_elements(&l->s->space);
    for (int k = 0; k < l->c->n; k++) {
        const Ins *i = l->f->r->ins.data[l->c->member[k]];
        const Type *t = type_of(l->f->m, i->out[0]);
        const bool again = (double)type_elements(t) < all && !(rows && has_dims(t, rows)) &&
                           !is_read_through(l, i);
        if (again && !reduction(i) && op_info[i->op].flops > FUSE_BROADCAST)
            return "a value that costs something would be computed again along a dim it has not";
        const int read = i->op == OP_reindex ? l->f->at[i->in[0]] : -1;
        if (read >= 0 && is_member(l, read) && !is_read_through(l, l->f->r->ins.data[read]) &&
            !(is_shift(i) && flops_behind(l, i->in[0], 16) <= FUSE_BROADCAST))
            return "what is read at other indices would be computed again at each";
        if (rows && i->op == OP_reindex && !dims_have(&l->s->reduced, i->attrs.dim.name) &&
            is_of_row(l, i->in[0], 16))
            return "what is read at other indices would need another row's numbers";
        if (i->op != OP_rotate)
            continue;
        if (rows && !dims_have(&l->s->reduced, i->attrs.dim.name))
            return "a rotation would need another row's numbers";
        if (flops_behind(l, i->in[0], 16) > FUSE_ROTATED)
            return "what is rotated would be computed twice, and costs too much";
    }
    return NULL;
}

static const char *check_map(Look *l)
{
    for (int k = 0; k < l->s->nout; k++) {
        if (!has_dims(type_of(l->f->m, l->s->out[k]), &l->s->space))
            return "a result has not all dims that are iterated";
    }
    return check_values(l, NULL);
}

static const char *check_row(Look *l)
{
    DimList rows = dims_less(&l->s->space, &l->s->reduced);
    if (rows.n == 0 && long_row(l->f, &l->s->reduced))
        return "a row that is all there is would be walked by one thread";
    for (int k = 0; k < l->c->n; k++) {
        const Ins *i = l->f->r->ins.data[l->c->member[k]];
        if (reduction(i) && !has_dims(type_of(l->f->m, i->out[0]), &rows))
            return "a reduction gives not one number a row";
    }
    for (int k = 0; k < l->s->nout; k++) {
        const Type *t = type_of(l->f->m, l->s->out[k]);
        if (!has_dims(t, &rows) && !has_dims(t, &l->s->space))
            return "a result has neither the dims of rows nor those of their elements";
    }
    if (!rows_are_innermost(l))
        return "the reduced dims are not innermost in memory";
    return check_values(l, &rows);
}

static const char *check_col(Look *l)
{
    DimList kept = dims_less(&l->s->space, &l->s->reduced);
    for (int k = 0; k < l->c->n; k++) {
        const Ins *i = l->f->r->ins.data[l->c->member[k]];
        if (reduction(i) && !has_dims(type_of(l->f->m, i->out[0]), &kept))
            return "its sums keep different dims";
    }
    if (l->rotates)
        return "a sum over rows does not rotate";
    return check_values(l, NULL);
}

/* Sums that nothing follows are a col kernel if what they keep is innermost in memory, or if they
 * keep nothing and are long. */
static bool wants_col(const Look *l)
{
    DimList kept = dims_less(&l->s->space, &l->s->reduced);
    if (!l->sums_only || l->s->nout == 0)
        return false;
    return kept.n == 0 ? long_row(l->f, &l->s->reduced) : !columns_are_innermost(l);
}

void shape_of(const Fuse *f, Cluster *c, const Cluster *a, const Cluster *b)
{
    c->shape = (Shape){0};
    Look l = {.f = f, .c = c, .s = &c->shape};
    f->look[f->n]++;
    for (int k = 0; k < c->n; k++)
        f->look[c->member[k]] = f->look[f->n];
    const char *why = collect(&l, a, b);
    Kind kind = !l.reduces ? KIND_map : wants_col(&l) ? KIND_col : KIND_row;
    if (!why && f->guard >= 0 && c->member[0] < f->guard && c->member[c->n - 1] > f->guard)
        for (int k = 0, before = 0; k < c->n && !why; k++) {
            before |= !c->extra[k] && c->member[k] < f->guard;
            if (before && !c->extra[k] && c->member[k] > f->guard)
                why = "the guard stands between";
        }
    if (!why)
        why = kind == KIND_map ? check_map(&l) : kind == KIND_row ? check_row(&l) : check_col(&l);
    c->shape.why = why;
    c->shape.kind = why ? KIND_none : kind;
}
