/* fuse_merge.c - which clusters become one: the profit model.
 *
 * Sums over columns first take in what they sum, computing it again where others need it too. Then
 * producers join their consumers, in program order: a value that stays in registers is neither
 * written nor read. Last, kernels over the same dims that read the same tensors are put side by
 * side. */
#include "ir/cost.h"
#include "passes/fuse/fuse.h"

/* ---- paths ---------------------------------------------------------------------------------- */

typedef struct Walker {
    Fuse *f;
    const Cluster *from, *to;
    bool direct; /* standing on `from`: steps to `to` do not count */
} Walker;

static bool walk_position(Walker *w, int at);

static bool walk_to(Walker *w, int producer, int user)
{
    Fuse *f = w->f;
    if (user == f->n)
        return false;
    if (!f->owner[user]) {
        if (f->mark[user] == f->walk)
            return false;
        f->mark[user] = f->walk;
        bool direct = w->direct;
        w->direct = false;
        bool found = walk_position(w, user);
        w->direct = direct;
        return found;
    }
    for (size_t h = 0; h < f->holders[user].n; h++) {
        Cluster *c = f->holders[user].data[h];
        if (c->gone || c == w->from || (c == w->to ? w->direct : c->mark == f->walk) ||
            cluster_has(c, producer))
            continue;
        if (c == w->to)
            return true;
        c->mark = f->walk;
        bool direct = w->direct;
        w->direct = false;
        for (int k = 0; k < c->n; k++)
            if (!c->extra[k] && walk_position(w, c->member[k]))
                return true;
        w->direct = direct;
    }
    return false;
}

/* Follows the users of what is computed at a position. */
static bool walk_position(Walker *w, int at)
{
    for (int k = 0; k < w->f->users[at].n; k++)
        if (walk_to(w, at, w->f->users[at].at[k]))
            return true;
    return false;
}

static bool path(Fuse *f, const Cluster *a, const Cluster *b)
{
    Walker w = {.f = f, .from = a, .to = b, .direct = true};
    f->walk++;
    for (int k = 0; k < a->n; k++)
        if (!a->extra[k] && walk_position(&w, a->member[k]))
            return true;
    return false;
}

bool fuse_path_between(Fuse *f, const Cluster *a, const Cluster *b)
{
    return path(f, a, b) || path(f, b, a);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static const char *reduced_name(const Shape *s)
{
    return s->kind == KIND_row ? "row" : s->kind == KIND_col ? "col" : "map";
}

/* How many reductions of a cluster come before each of its members, itself included. */
static int *stages_in(const Fuse *f, const Cluster *c)
{
    int *stage = NEW_ARRAY(f->tmp, int, c->n);
    for (int k = 0; k < c->n; k++) {
        const Ins *i = f->r->ins.data[c->member[k]];
        for (int before = 0; before < k; before++)
            for (uint32_t n = 0; n < i->nin; n++)
                if (f->at[i->in[n]] == c->member[before] && stage[before] > stage[k])
                    stage[k] = stage[before];
        stage[k] += i->op == OP_sum || i->op == OP_rmax;
    }
    return stage;
}

static bool is_long_row(const Cluster *c)
{
    return c->shape.kind == KIND_row && dims_elements(&c->shape.reduced) > KEPT_ROW;
}

static bool is_along(const Type *t, const DimList *row)
{
    bool any = false;
    for (int d = 0; d < row->n; d++)
        any |= type_find(t, row->dim[d].name) >= 0;
    return any;
}

/* Is one walk over a row enough for a kernel (nest_one_walk)? It gives largest numbers, and nothing
 * of the length of a row that needs them. */
static bool walks_once(const Fuse *f, const Cluster *c)
{
    const int *stage = stages_in(f, c);
    bool once = true;
    for (int k = 0; k < c->n; k++) {
        const Ins *i = f->r->ins.data[c->member[k]];
        once &= i->op != OP_sum && (i->op != OP_rmax || stage[k] == 1);
        for (int n = 0; n < c->shape.nout; n++)
            once &= c->shape.out[n] != i->out[0] || !stage[k] ||
                    !is_along(type_of(f->m, i->out[0]), &c->shape.reduced);
    }
    return once;
}

static bool costs_much(const Fuse *f, const Cluster *c)
{
    for (int k = 0; k < c->n; k++)
        if (op_info[f->r->ins.data[c->member[k]]->op].flops > FUSE_AGAIN)
            return true;
    return false;
}

/* A row is walked several times: what costs much is better computed once, before, unless the row is
 * short enough for a kernel to keep it, or walked once. c: a and b as one; a comes before b, or
 * neither does. */
static bool costs_per_walk(const Fuse *f, const Cluster *c, const Cluster *a, const Cluster *b)
{
    if (!is_long_row(c) || walks_once(f, c))
        return false;
    return (a->shape.kind == KIND_map && b->shape.kind == KIND_row && costs_much(f, a)) ||
           (is_long_row(a) && walks_once(f, a) && costs_much(f, a)) ||
           (is_long_row(b) && walks_once(f, b) && costs_much(f, b));
}

/* The ranks that need what a cluster gives, along the axis of stages. */
static StageSet stages_of(const Fuse *f, const Cluster *c)
{
    StageSet all = 0;
    for (int k = 0; k < c->n; k++)
        all |= c->extra[k] ? 0 : f->stages[f->r->ins.data[c->member[k]]->out[0]];
    return all;
}

/* Replaces a and b by their union if one kernel can be that. */
static Cluster *try_merge(Fuse *f, Cluster *a, Cluster *b)
{
    Cluster *c = cluster_union(f, a, b);
    shape_of(f, c, a, b);
    const char *why = c->shape.why;
    if (stages_of(f, a) != stages_of(f, b))
        why = "other ranks need it";
    if (!why && fuse_path_between(f, a, b))
        why = "something outside stands between them";
    if (!why && fuse_delays(f, a, b))
        why = "what is sent would be made too late";
    if (!why && costs_per_walk(f, c, a, b))
        why = "it would be computed at every walk over the row";
    fuse_tell(f, a, b, why ? "apart" : reduced_name(&c->shape), why);
    if (why)
        return NULL;
    cluster_replace(f, c, a, b);
    return c;
}

/* ---- columns -------------------------------------------------------------------------------- */

static bool has_input(const Shape *s, Value v)
{
    for (int i = 0; i < s->nin; i++)
        if (s->in[i] == v)
            return true;
    return false;
}

/* Large tensors that `more` reads and `than` does not, v excepted. */
static int new_inputs(const Fuse *f, const Shape *more, const Shape *than, Value v)
{
    int n = 0;
    for (int i = 0; i < more->nin; i++)
        n += more->in[i] != v && !has_input(than, more->in[i]) &&
             value_elements(f, more->in[i]) * FUSE_SMALL > value_elements(f, v);
    return n;
}

static bool only_user(const Fuse *f, const Cluster *c, int at)
{
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        if (u == f->n || f->owner[u] != c)
            return false;
    }
    return true;
}

/* Is v wanted in memory whatever this kernel does? */
static bool stored_anyway(const Fuse *f, int at)
{
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        if (u == f->n || !f->owner[u])
            return true;
    }
    return false;
}

/* A column sum takes in the instruction that computes its input v. */
static Cluster *absorb(Fuse *f, Cluster *c, Value v)
{
    int at = f->at[v];
    const Ins *i = at < 0 ? NULL : f->r->ins.data[at];
    if (!i || !f->owner[at] || !op_is(i->op, POINTWISE | CHEAP) || i->op == OP_rotate)
        return NULL;
    bool own = only_user(f, c, at);
    if (!own && op_info[i->op].flops > FUSE_AGAIN)
        return NULL;
    Cluster *more = cluster_with(f, c, at, !own);
    shape_of(f, more, c, own ? f->owner[at] : NULL);
    int added = more->shape.why ? 2 : new_inputs(f, &more->shape, &c->shape, v);
    const char *why = more->shape.why ? more->shape.why
                      : !own && added > (stored_anyway(f, at) ? 0 : 1)
                          ? "computing it again would read more than it saves"
                          : NULL;
    fuse_tell(f, f->owner[at], c, why ? "apart" : own ? "col" : "computed again in col", why);
    if (why)
        return NULL;
    cluster_replace(f, more, c, own ? f->owner[at] : NULL);
    return more;
}

void fuse_columns(Fuse *f)
{
    for (size_t i = 0; i < f->clusters.n; i++) {
        Cluster *c = f->clusters.data[i];
        if (c->gone || c->shape.kind != KIND_col)
            continue;
        for (int k = 0; k < c->shape.nin; k++) {
            Cluster *more = absorb(f, c, c->shape.in[k]);
            if (more) {
                c = more;
                k = -1;
            }
        }
    }
    fuse_prune(f);
}

/* ---- chains --------------------------------------------------------------------------------- */

/* Merges the cluster that computes at a position with one of those that use it. */
static bool merge_one(Fuse *f, int at)
{
    Cluster *a = f->owner[at];
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        Cluster *b = u == f->n ? NULL : f->owner[u];
        if (!b || b == a || b->gone || cluster_has(b, at))
            continue;
        if (a->shape.kind == KIND_col || b->shape.kind == KIND_col)
            continue; /* sums have taken in what they should */
        if (try_merge(f, a, b))
            return true;
    }
    return false;
}

void fuse_chains(Fuse *f)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int at = 0; at < f->n; at++)
            while (f->owner[at] && !f->owner[at]->gone && merge_one(f, at))
                changed = true;
    }
    fuse_prune(f);
}

/* ---- siblings ------------------------------------------------------------------------------- */

/* Bytes that both read. */
static double shared_bytes(const Fuse *f, const Cluster *a, const Cluster *b)
{
    double bytes = 0;
    for (int i = 0; i < a->shape.nin; i++)
        if (has_input(&b->shape, a->shape.in[i]))
            bytes += (double)type_bytes(type_of(f->m, a->shape.in[i]));
    return bytes;
}

static bool akin(const Fuse *f, const Cluster *a, const Cluster *b)
{
    if (a->gone || b->gone || a->shape.kind != b->shape.kind || a->shape.kind == KIND_none ||
        !dims_equal(&a->shape.space, &b->shape.space) ||
        !dims_equal(&a->shape.reduced, &b->shape.reduced))
        return false;
    double least = a->shape.bytes < b->shape.bytes ? a->shape.bytes : b->shape.bytes;
    return 4 * shared_bytes(f, a, b) >= least;
}

void fuse_siblings(Fuse *f)
{
    for (size_t i = 0; i < f->clusters.n; i++)
        for (size_t k = 0; k < i && !f->clusters.data[i]->gone; k++) {
            Cluster *a = f->clusters.data[k], *b = f->clusters.data[i];
            if (akin(f, a, b) && try_merge(f, a, b))
                break; /* their union is at the end of the list */
        }
    fuse_prune(f);
}
