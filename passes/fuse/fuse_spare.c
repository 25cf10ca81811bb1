/* fuse_spare.c - values that their users compute again rather than read.
 *
 * A value that a kernel stores only for other kernels is not worth storing if each of these can
 * compute it from what it reads already, or from one more tensor of the size of the value: then
 * reading costs the same and the writing is saved. */
#include "passes/fuse/fuse.h"

/* The members of `from` that v is computed from, up to its inputs and to values of its own that are
 * much smaller than v; false if it is too much work, or there is a reduction in it. */
typedef struct Slice {
    const Fuse *f;
    const Cluster *from;
    double size, flops;
    int n, at[16];
    int stored; /* inputs of it that `from` would store and does not */
    bool read;  /* an input of it is what `from` stores */
} Slice;

static bool slice_has(const Slice *s, int at)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == at)
            return true;
    return false;
}

static bool is_stored(const Cluster *c, Value v)
{
    for (int i = 0; i < c->shape.nout; i++)
        if (c->shape.out[i] == v)
            return true;
    return false;
}

static bool slice(Slice *s, Value v);

/* The instruction at a position, and what it is computed from. */
static bool take(Slice *s, const Ins *i, int at)
{
    s->flops += op_info[i->op].flops;
    if (!op_is(i->op, POINTWISE | CHEAP) || OP_AMONG(i->op, OP_rotate, OP_reindex) ||
        s->flops > FUSE_AGAIN || s->n == 16)
        return false;
    s->at[s->n++] = at;
    for (uint32_t k = 0; k < i->nin; k++)
        if (!slice(s, i->in[k]))
            return false;
    return true;
}

static bool slice(Slice *s, Value v)
{
    int at = s->f->at[v];
    if (at < 0 || !cluster_has(s->from, at) || slice_has(s, at))
        return true;
    const Ins *i = s->f->r->ins.data[at];
    /* A value that `from` computes again is stored by another kernel, which may be gone, or wait
     * for the user. */
    const bool stores = s->n > 0 && s->f->owner[at] == s->from;
    /* One number a row can be stored instead, and so can a half, in half the bytes. */
    const bool small = value_elements(s->f, v) * FUSE_SMALL <= s->size;
    if (stores && ((small && s->from->shape.kind == KIND_row) ||
                   dtype_is_narrow(type_of(s->f->m, v)->dtype))) {
        s->stored += !is_stored(s->from, v);
        return true;
    }
    const Slice before = *s;
    if (take(s, i, at))
        return true;
    *s = before; /* it is not computed again, but read, where it is stored in any case */
    s->read = true;
    return stores && is_stored(s->from, v);
}

static bool reads(const Shape *s, Value v)
{
    for (int i = 0; i < s->nin; i++)
        if (s->in[i] == v)
            return true;
    return false;
}

/* c with the slice computed again in it; NULL if that does not pay. */
static Cluster *with_slice(const Fuse *f, Cluster *c, const Slice *s, Value v)
{
    Cluster *more = c;
    for (int i = 0; i < s->n; i++)
        if (!cluster_has(more, s->at[i]))
            more = cluster_with(f, more, s->at[i], true);
    shape_of(f, more, c, NULL);
    if (more->shape.why || more->shape.kind != c->shape.kind)
        return NULL;
    int added = 0;
    for (int i = 0; i < more->shape.nin; i++)
        added += !reads(&c->shape, more->shape.in[i]) &&
                 value_elements(f, more->shape.in[i]) * FUSE_SMALL > value_elements(f, v);
    return added <= 1 ? more : NULL;
}

enum { SPARE_USERS = 8 };

/* The clusters that read v; -1 if something else does. */
static int users_of(const Fuse *f, const Cluster *from, int at, Cluster *users[SPARE_USERS])
{
    int n = 0;
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        if (u == f->n || !f->owner[u])
            return -1;
        for (size_t h = 0; h < f->holders[u].n; h++) {
            Cluster *c = f->holders[u].data[h];
            bool seen = c->gone || c == from || cluster_has(c, at);
            for (int i = 0; i < n; i++)
                seen |= users[i] == c;
            if (seen)
                continue;
            if (n == SPARE_USERS)
                return -1;
            users[n++] = c;
        }
    }
    return n;
}

static void spare(Fuse *f, Cluster *from, Value v)
{
    Cluster *users[SPARE_USERS], *with[SPARE_USERS];
    Slice s = {.f = f, .from = from, .size = value_elements(f, v)};
    int n = users_of(f, from, f->at[v], users);
    if (n <= 0 || !slice(&s, v))
        return;
    if (from->shape.nin + from->shape.nout - 1 + s.stored > FUSE_OPERANDS)
        return;
    for (int i = 0; i < n && s.read; i++)
        if (users[i]->shape.kind != KIND_map)
            return; /* the order of a sum is not to depend on what is read */
    for (int i = 0; i < n; i++) {
        with[i] = with_slice(f, users[i], &s, v);
        const char *why = with[i] ? NULL : "computing it again would read more than it saves";
        fuse_tell(f, from, users[i], with[i] ? "computed again" : "stored", why);
        if (!with[i])
            return;
    }
    for (int i = 0; i < n; i++)
        cluster_replace(f, with[i], users[i], NULL);
}

void fuse_spare(Fuse *f)
{
    for (size_t i = 0; i < f->clusters.n; i++) {
        Cluster *c = f->clusters.data[i];
        if (c->gone)
            continue;
        shape_of(f, c, NULL, NULL);
        if (c->shape.kind == KIND_col)
            continue;
        const Shape before = c->shape;
        for (int k = 0; k < before.nout; k++) {
            shape_of(f, c, NULL, NULL); /* it stores less by now, or other values */
            spare(f, c, before.out[k]);
        }
    }
}
