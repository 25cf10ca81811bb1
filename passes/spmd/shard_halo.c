/* shard_halo.c - what is read a few elements away along a split dim, as a causal convolution reads,
 * is read out of a rank's part and a halo: the last elements of the part before, the first ones of
 * the part behind. Part of pass shard, on whole sizes.
 *
 *   before:  %y = reindex %x {over=[seq=64, tap=4], dim=seq=64, at=0, factors=[1, -1]}
 *   after:   seq = parts of 16 elements
 *            %z = split %x                      [seq.part=4, seq.in=16]
 *            %w = window %z {seq.in=3 at 13}    what a part gives the next
 *            %v = reindex %w {seq.part - 1}     of the part before; 0 of the first
 *            %e = join %v, %z                   [seq.part=4, seq.in=19]
 *            %y = merge (reindex %e {seq.in - tap + 3})
 *
 * Parts are split as the dim is, so the rules of pass shard gather the windows alone. All that
 * reads one tensor in a region reads the same halo. A halo is no longer than a part: what is read
 * further away is gathered whole. */
#include "passes/spmd/shard_halo.h"

#include "passes/dim_rules.h"
#include "passes/walk.h"

typedef struct Reach {
    int64_t before, behind; /* elements that are read before the part, and behind it */
    const Region *in;       /* where `joined` is; NULL: nowhere */
    Value joined;
} Reach;

typedef struct Halo {
    Module *m;
    ValueMap map;
    Reach *reach; /* per value that there was */
    size_t values;
} Halo;

/* Does i read x at its own index along the dim, or some elements away? *near: from -before on, up
 * to behind. */
static bool reads_near(const Ins *i, Reach *near)
{
    const Attrs *a = &i->attrs;
    int64_t low = a->at, high = a->at;
    bool own = false;
    if (i->op != OP_reindex || a->every != 1)
        return false;
    for (int k = 0; k < a->over.n; k++) {
        const int64_t most = a->factors.by[k] * (a->over.dim[k].size - 1);
        if (a->over.dim[k].name == a->dim.name) {
            own = a->factors.by[k] == 1 && a->over.dim[k].size == a->dim.size;
            continue;
        }
        low += most < 0 ? most : 0;
        high += most > 0 ? most : 0;
    }
    *near = (Reach){.before = low < 0 ? -low : 0, .behind = high > 0 ? high : 0};
    return own;
}

static bool is_split(const Module *m, Value v, Name d)
{
    const Type *t = type_of(m, v);
    bool fixed[MAX_RANK] = {false};
    Axes axes[MAX_RANK];
    mesh_walk(m, t->dims, t->rank, fixed, axes);
    return axes[type_find(t, d)] != 0;
}

static bool is_taken(const Halo *h, const Ins *i, Reach *near)
{
    const Dim d = i->attrs.dim;
    if (!reads_near(i, near) || !is_split(h->m, i->in[0], d.name) ||
        !is_split(h->m, i->out[0], d.name))
        return false;
    const int64_t parts = rules_unit(h->m, d), part = d.size / parts;
    return parts > 1 && near->before <= part && near->behind <= part &&
           type_of(h->m, i->out[0])->rank < MAX_RANK && type_of(h->m, i->in[0])->rank < MAX_RANK;
}

/* How far each value is read, by all that reads it. */
static void look(Halo *h, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        Reach near, *all;
        if (i->body)
            look(h, i->body);
        if (i->op != OP_reindex || !is_taken(h, i, &near))
            continue;
        all = &h->reach[i->in[0]];
        all->before = near.before > all->before ? near.before : all->before;
        all->behind = near.behind > all->behind ? near.behind : all->behind;
    }
}

typedef struct Cut {
    Dim d, part, in; /* the dim, its parts, and the elements of one */
} Cut;

static Cut cut_of(Halo *h, Dim d)
{
    const int64_t parts = rules_unit(h->m, d);
    return (Cut){d, dim_part(h->m, d, SCAN_PART, parts), dim_part(h->m, d, "in", d.size / parts)};
}

/* `size` elements of each part, from `at` on, as the part `by` parts further has them. */
static Value handed_on(Builder *b, const Cut *c, Value parts, int64_t size, int64_t at, int by)
{
    const Attrs cut = {.along = {.name = c->in.name, .size = size}, .at = at};
    const Value x = build(b, OP_window, &cut, 1, &parts);
    const Attrs from = {.dim = c->part,
                        .at = -by,
                        .every = 1,
                        .over = {.n = 1, .dim = {c->part}},
                        .factors = {.n = 1, .by = {1}}};
    return build(b, OP_reindex, &from, 1, &x);
}

/* x in parts, each between what it reads of its neighbours. */
static Value with_halo(Halo *h, Builder *b, const Cut *c, Value x, Reach *r)
{
    if (r->in == b->region)
        return r->joined;
    const Dim inner = {.name = c->d.name, .size = c->in.size};
    const Attrs split = {.dim = inner, .to = c->part}, rename = {.dim = inner, .to = c->in};
    Value parts = build(b, OP_split, &split, 1, &x), of[3];
    parts = build(b, OP_rename, &rename, 1, &parts);
    int n = 0;
    if (r->before)
        of[n++] = handed_on(b, c, parts, r->before, c->in.size - r->before, 1);
    of[n++] = parts;
    if (r->behind)
        of[n++] = handed_on(b, c, parts, r->behind, 0, -1);
    const Attrs join = {.dim = {.name = c->in.name, .size = r->before + c->in.size + r->behind}};
    r->joined = n > 1 ? build(b, OP_join, &join, n, of) : parts;
    h->m->values.data[r->joined].name = h->m->values.data[x].name;
    r->in = b->region;
    return r->joined;
}

/* v with the parts of a dim as the dim, of type t. */
static Value in_one(Builder *b, const Cut *c, Value v, Type t)
{
    Type two = {.dtype = t.dtype, .indexes = t.indexes};
    for (int k = 0; k < t.rank; k++) {
        if (t.dims[k].name == c->d.name)
            two.dims[two.rank++] = c->part;
        two.dims[two.rank++] = t.dims[k].name == c->d.name ? c->in : t.dims[k];
    }
    const Dim inner = {.name = c->d.name, .size = c->in.size};
    const Attrs rename = {.dim = c->in, .to = inner}, merge = {.dim = inner, .to = c->part};
    Value x = build_as(b, v, two);
    x = build(b, OP_rename, &rename, 1, &x);
    return build(b, OP_merge, &merge, 1, &x);
}

static Value read_near(Halo *h, Builder *b, const Ins *i, Reach *r)
{
    const Cut c = cut_of(h, i->attrs.dim);
    rules_extend(h->m, c.d.name, &c.part.name, 1);
    const Value x = with_halo(h, b, &c, i->in[0], r);
    Attrs a = i->attrs;
    a.dim = (Dim){.name = c.in.name, .size = r->before + c.in.size + r->behind};
    a.at += r->before;
    for (int k = 0; k < a.over.n; k++)
        if (a.over.dim[k].name == c.d.name)
            a.over.dim[k] = c.in;
    return in_one(b, &c, build(b, OP_reindex, &a, 1, &x), *type_of(h->m, i->out[0]));
}

static void region(Halo *h, Region *r)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Reach near;
        const Value read = i->nin ? i->in[0] : 0;
        for (uint32_t x = 0; x < i->nin; x++)
            i->in[x] = map_get(&h->map, i->in[x]);
        if (i->body)
            region(h, i->body);
        if (i->op != OP_reindex || !is_taken(h, i, &near)) {
            vec_push(h->m->arena, &r->ins, i);
            continue;
        }
        Builder b = builder_at(h->m, r, i);
        const Value v = read_near(h, &b, i, &h->reach[read]);
        h->m->values.data[v].name = h->m->values.data[i->out[0]].name;
        map_set(h->m, &h->map, i->out[0], v);
    }
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&h->map, r->results.data[k]);
}

void shard_halo(Module *m, Fn *fn, Arena *tmp)
{
    Halo h = {.m = m, .values = m->values.n, .reach = NEW_ARRAY(tmp, Reach, m->values.n)};
    look(&h, fn->body);
    region(&h, fn->body);
}
