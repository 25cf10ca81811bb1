/* random_graph.c - see random_graph.h. Values stay within a few units, so that differences are
 * those of the program and not of cancellation. */
#include "tests/plan/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { POOL = 64, DIMS = GRAPH_DIMS, INSTRUCTIONS = 14, DEPTH = 2, ELEMENTS = 1 << 18 };

typedef struct Graph {
    Model *t;
    Builder *b;
    uint64_t rng;
    int names;
    DType f;
    Dim dim[DIMS];
} Graph;

/* Values in scope at a point of the program. */
typedef struct Pool {
    int n;
    Value v[POOL];
} Pool;

static int any(Graph *g, int n)
{
    return draw_int(&g->rng, n);
}

static void put(Graph *g, Pool *p, Value v)
{
    p->v[p->n < POOL ? p->n++ : any(g, POOL)] = v;
}

static Value get(Graph *g, const Pool *p)
{
    return p->v[any(g, p->n)];
}

static Type random_type(Graph *g, int max)
{
    Type t = {.dtype = g->f};
    int rank = any(g, max + 1), from = any(g, DIMS), step = 1 + any(g, 2) * 2;
    for (int i = 0; i < rank; i++) {
        Dim d = g->dim[(from + i * step) % DIMS];
        if (type_find(&t, d.name) < 0)
            t.dims[t.rank++] = d;
    }
    return t;
}

static Value param(Graph *g, Type t)
{
    char name[16];
    snprintf(name, sizeof name, "p%d", g->names++);
    return add_param(g->t, name, t, 0);
}

/* Dims of one name have one size, but where a window cut them: such values do not meet; nor do
 * those that span too much together. */
static bool meet(const Module *m, Value a, Value b)
{
    const Type *x = type_of(m, a), *y = type_of(m, b);
    int together = x->rank;
    int64_t elements = type_elements(x);
    for (int i = 0; i < y->rank; i++) {
        int k = type_find(x, y->dims[i].name);
        if (k >= 0 && x->dims[k].size != y->dims[i].size)
            return false;
        together += k < 0;
        elements *= k < 0 ? y->dims[i].size : 1;
    }
    return together <= 4 && elements <= ELEMENTS;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static Value unary(Graph *g, Value x)
{
    static const Op ops[] = {OP_neg, OP_abs, OP_tanh, OP_sin, OP_sigmoid, OP_cos};
    return build1(g->b, ops[any(g, 6)], x);
}

static Value binary(Graph *g, Value x, Value y)
{
    static const Op ops[] = {OP_add, OP_sub, OP_mul, OP_max, OP_min};
    if (!meet(g->b->m, x, y))
        return x;
    Value r = build2(g->b, ops[any(g, 5)], x, y);
    return any(g, 2) ? build1(g->b, OP_tanh, r) : r;
}

static Value choose(Graph *g, Value x, Value y)
{
    if (!meet(g->b->m, x, y))
        return x;
    Value in[] = {build2(g->b, OP_lt, x, y), x, y};
    return build(g->b, OP_select, NULL, 3, in);
}

static DimList some_dims(Graph *g, const Type *t)
{
    DimList l = {0};
    for (int i = 0; i < t->rank; i++)
        if (any(g, 2))
            l.dim[l.n++] = t->dims[i];
    return l;
}

static Value reduce(Graph *g, Value x)
{
    Attrs a = {.over = some_dims(g, type_of(g->b->m, x))};
    if (!a.over.n)
        return x;
    Value r = build(g->b, any(g, 3) ? OP_sum : OP_rmax, &a, 1, &x);
    return build1(g->b, OP_tanh, r);
}

/* (x - max) / sum: what softmax and norms are made of. */
static Value normalize(Graph *g, Value x)
{
    Attrs a = {.over = some_dims(g, type_of(g->b->m, x))};
    if (!a.over.n)
        return x;
    Value e = build1(g->b, OP_exp, build2(g->b, OP_sub, x, build(g->b, OP_rmax, &a, 1, &x)));
    return build2(g->b, OP_div, e, build(g->b, OP_sum, &a, 1, &e));
}

static Value product(Graph *g, Value x, Value y)
{
    const Type *t = type_of(g->b->m, x), *u = type_of(g->b->m, y);
    Attrs a = {0};
    int rank = t->rank + u->rank;
    if (!meet(g->b->m, x, y))
        return x;
    for (int i = 0; i < t->rank; i++)
        if (type_find(u, t->dims[i].name) >= 0 && any(g, 3)) {
            a.over.dim[a.over.n++] = t->dims[i];
            rank -= 2;
        }
    if (rank > 6)
        return x;
    return build1(g->b, OP_tanh, build(g->b, OP_dot, &a, 2, (Value[]){x, y}));
}

static Value turn(Graph *g, Value x)
{
    Type t = *type_of(g->b->m, x);
    if (t.rank < 2)
        return x;
    int i = any(g, t.rank), k = any(g, t.rank);
    Dim d = t.dims[i];
    t.dims[i] = t.dims[k];
    t.dims[k] = d;
    return build_as(g->b, x, t);
}

/* Places along a dim, some of them outside: shifts, strides, backwards, every other one, taps. */
static Value places(Graph *g, Value x, Dim d)
{
    static const int factors[] = {1, 1, 1, 2, -1};
    const Type *t = type_of(g->b->m, x);
    Attrs a = {.dim = d, .every = 1 + (any(g, 4) == 0)};
    int64_t by = factors[any(g, 5)];
    const int size = 1 + any(g, 9); /* a name has one size */
    Dim to = dim_of(g->t, arena_printf(g->t->a, "of%d", size), size);
    a.over.dim[a.over.n++] = any(g, 2) || type_find(t, to.name) >= 0 ? d : to;
    a.factors.by[a.factors.n++] = by;
    a.at = any(g, 7) - 3 + (by < 0 ? d.size - 1 : 0);
    Dim tap = dim_of(g->t, "tap", 3);
    if (!any(g, 3) && t->rank < 3 && type_find(t, tap.name) < 0) {
        a.over.dim[a.over.n++] = tap;
        a.factors.by[a.factors.n++] = 1 + any(g, 2);
    }
    return build(g->b, OP_reindex, &a, 1, &x);
}

static Value view(Graph *g, Value x)
{
    const Type *t = type_of(g->b->m, x);
    if (!t->rank)
        return x;
    Dim d = t->dims[any(g, t->rank)];
    Attrs a = {0};
    switch (any(g, 6)) {
    case 4:
    case 5:
        return places(g, x, d);
    case 0:
        a.dim = d;
        a.at = any(g, (int)d.size);
        return build(g->b, OP_pick, &a, 1, &x);
    case 1:
        a.along = (Dim){.name = d.name, .size = 1 + any(g, (int)d.size)};
        a.at = any(g, (int)(d.size - a.along.size) + 1);
        return build(g->b, OP_window, &a, 1, &x);
    case 2:
        a.dim = d;
        a.to = (Dim){.name = dim_of(g->t, any(g, 2) ? "other" : "another", 0).name, .size = d.size};
        return type_find(t, a.to.name) >= 0 ? x : build(g->b, OP_rename, &a, 1, &x);
    default:
        a.dim = d;
        return d.size % 2 ? x : build(g->b, OP_rotate, &a, 1, &x);
    }
}

static Value look_up(Graph *g, Value table)
{
    const Type *t = type_of(g->b->m, table);
    if (!t->rank || t->rank > 3)
        return table;
    Dim d = t->dims[any(g, t->rank)], by = dim_of(g->t, "by", 4);
    if (type_find(t, by.name) >= 0)
        return table;
    /* Indices 0, 1, ... up to the last, which then stays. */
    Value last = build_const(g->b, DT_i32, (double)d.size - 1);
    Attrs a = {.dim = d};
    Value in[] = {table, build2(g->b, OP_min, build_iota(g->b, DT_i32, by), last)};
    return build(g->b, OP_gather, &a, 2, in);
}

/* 0, 1, ... along a dim; over a long one as parts of it. */
static Value small_iota(Graph *g)
{
    Dim d = g->dim[any(g, DIMS)];
    Value x = build_iota(g->b, g->f, d);
    return d.size <= 6 ? x : build2(g->b, OP_mul, x, build_const(g->b, g->f, 4 / (double)d.size));
}

static Value constant(Graph *g, Value x)
{
    Type t = *type_of(g->b->m, x);
    return any(g, 2) ? build_as(g->b, build_const(g->b, g->f, 0.25 * any(g, 3)), t) : small_iota(g);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static void instructions(Graph *g, Pool *p, int depth);

static Type without_first(const Type *t)
{
    Type u = {.dtype = t->dtype, .rank = t->rank - 1};
    memcpy(u.dims, t->dims + 1, sizeof *u.dims * (size_t)u.rank);
    return u;
}

/* A value of the pool that has the type, or one made of it. */
static Value of_type(Graph *g, const Pool *p, Type t)
{
    for (int i = p->n - 1; i >= 0; i--)
        if (type_equal(type_of(g->b->m, p->v[i]), &t) && any(g, 3))
            return p->v[i];
    for (int i = p->n - 1; i >= 0; i--) {
        const Type *u = type_of(g->b->m, p->v[i]);
        bool within = u->dtype == t.dtype;
        for (int k = 0; k < u->rank; k++) {
            int at = type_find(&t, u->dims[k].name);
            within &= at >= 0 && t.dims[at].size == u->dims[k].size;
        }
        if (within)
            return build_as(g->b, p->v[i], t);
    }
    return build_as(g->b, build_const(g->b, g->f, 0.5), t);
}

/* Carries one or two values, takes a slice, stacks up to three. */
static void loop(Graph *g, Pool *p, int depth)
{
    Module *m = g->b->m;
    Builder *outer = g->b, inner = *outer;
    Dim d = dim_of(g->t, depth ? "inner" : "iteration", 2 + any(g, 3));
    Value in[4], arg[4], give[6];
    Type types[6];
    int carried = 1 + any(g, 2), nin = carried, nout = carried;
    for (int k = 0; k < carried; k++)
        in[k] = get(g, p);
    Type t = random_type(g, 2);
    memmove(t.dims + 1, t.dims, sizeof *t.dims * (size_t)t.rank++);
    t.dims[0] = d;
    in[nin++] = any(g, 2) || depth ? of_type(g, p, t) : param(g, t);
    inner.region = region_new(m, outer->region);
    Pool body = *p;
    for (int k = 0; k < nin; k++) {
        Type a = *type_of(m, in[k]);
        arg[k] = region_arg(m, inner.region, k < carried ? a : without_first(&a), 0);
        put(g, &body, arg[k]);
    }
    Value index = region_arg(m, inner.region, (Type){.dtype = DT_i32}, 0);
    g->b = &inner;
    if (any(g, 2))
        put(g, &body, build_cast(&inner, index, g->f));
    instructions(g, &body, depth + 1);
    for (int k = 0; k < carried; k++)
        give[k] = of_type(g, &body, *type_of(m, in[k]));
    for (int n = any(g, 4); n > 0; n--) {
        Value v = any(g, 3) ? get(g, &body) : arg[any(g, nin)];
        if (type_of(m, v)->rank <= 3 && type_find(type_of(m, v), d.name) < 0)
            give[nout++] = v;
    }
    for (int k = 0; k < nout; k++) {
        vec_push(m->arena, &inner.region->results, give[k]);
        types[k] = *type_of(m, give[k]);
        if (k < carried)
            continue;
        memmove(types[k].dims + 1, types[k].dims, sizeof *types[k].dims * (size_t)types[k].rank++);
        types[k].dims[0] = d;
        types[k].indexes = 0;
    }
    g->b = outer;
    Attrs a = {.dim = d, .carried = carried, .reverse = any(g, 2)};
    Ins *i = build_typed(outer, OP_repeat, &a, nin, in, nout, types, inner.region);
    for (int k = 0; k < nout; k++)
        put(g, p, i->out[k]);
}

static void instructions(Graph *g, Pool *p, int depth)
{
    for (int n = 0; n < INSTRUCTIONS; n++) {
        Value x = get(g, p), y = get(g, p);
        switch (any(g, depth < DEPTH ? 14 : 13)) {
        case 0:
            put(g, p, unary(g, x));
            break;
        case 1:
        case 2:
        case 3:
            put(g, p, binary(g, x, y));
            break;
        case 4:
            put(g, p, choose(g, x, y));
            break;
        case 5:
            put(g, p, reduce(g, x));
            break;
        case 6:
            put(g, p, normalize(g, x));
            break;
        case 7:
            put(g, p, product(g, x, y));
            break;
        case 8:
            put(g, p, turn(g, x));
            break;
        case 9:
        case 11:
        case 12:
            put(g, p, view(g, x));
            break;
        case 10:
            put(g, p, any(g, 3) ? constant(g, x) : look_up(g, x));
            break;
        default:
            loop(g, p, depth);
        }
    }
}

const int64_t graph_small[GRAPH_DIMS] = {2, 3, 4, 6, 1};

void graph_sizes(uint64_t *rng, int64_t sizes[GRAPH_DIMS])
{
    for (int i = 0; i < GRAPH_DIMS; i++)
        sizes[i] = 1 + draw_int(rng, 3);
    int at = draw_int(rng, GRAPH_DIMS);
    if (draw_int(rng, 2)) {
        sizes[at] = 4000 + draw_int(rng, 1200);
    } else {
        sizes[at] = 1 + draw_int(rng, 150);
        sizes[(at + 1) % GRAPH_DIMS] = 1 + draw_int(rng, 70);
    }
}

void random_graph(Model *t, uint64_t seed, DType f, const int64_t sizes[GRAPH_DIMS])
{
    static const char *const names[DIMS] = {"a", "b", "c", "d", "e"};
    Graph g = {.t = t, .b = &t->b, .rng = seed * 0x9e3779b97f4a7c15u, .f = f};
    Pool p = {0};
    for (int i = 0; i < DIMS; i++)
        g.dim[i] = dim_of(t, names[i], sizes[i]);
    for (int i = 0; i < 4; i++)
        put(&g, &p, param(&g, random_type(&g, 3)));
    instructions(&g, &p, 0);
    Value loss = 0;
    for (int i = 0; i < p.n; i++) {
        if (type_of(t->m, p.v[i])->dtype != f || any(&g, 3) == 0)
            continue;
        Value s = build1(&t->b, OP_tanh, sum_all(&t->b, p.v[i]));
        loss = loss ? build2(&t->b, OP_add, loss, s) : s;
    }
    loss = loss ? loss : sum_all(&t->b, p.v[0]);
    add_loss(t, f == DT_f64 ? loss : build_cast(&t->b, loss, DT_f64));
    t->m->train.compute = f;
}
