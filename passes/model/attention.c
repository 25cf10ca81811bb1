/* attention.c - attention that is written out becomes the operation, as if it had been called.
 *
 *   before:  %s = dot %q, %k {over=[head]}           after:  %o, %lse = attention %q, %k0, %v0
 *            %m = mul %s, %scale                             {along=seq, scale, causal}
 *            %x = select %before, %m, %hidden
 *            %p = exp(%x - rmax %x) / sum            with %k0, %v0 along seq, as they were before
 *            %o = dot %p, %v {over=[t=4]}                 they were renamed to t
 *
 * written.c says what is recognised. The operation gives dims in the order of the queries, the
 * product in that of the probabilities; what is computed from the result gets the order that it
 * would have had after a call. */
#include "passes/model/written.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

typedef struct Rewrite {
    Module *m;
    Arena *tmp;
    Uses uses;
    ValueMap map;
    const Type **was; /* per value as it was: its type, where that has got another order; or NULL */
    size_t values;
    bool changed;
} Rewrite;

/* The type that whoever uses v was made for. */
static const Type *type_before(const Rewrite *r, Value v)
{
    return v < r->values && r->was[v] ? r->was[v] : type_of(r->m, v);
}

/* Keys or values along the dim of the queries, if they are of one sequence. */
static Value along_queries(Builder *b, const Written *w, Value v)
{
    if (w->cross || type_find(type_of(b->m, v), w->query.name) >= 0)
        return v;
    const Attrs a = {.dim = w->key, .to = {.name = w->query.name, .size = w->key.size}};
    return build(b, OP_rename, &a, 1, &v);
}

/* The sum of what is added to the scores; 0: nothing is. */
static Value bias_of(Builder *b, const Written *w)
{
    const DType t = dtype_wide(type_of(b->m, w->q)->dtype);
    Value sum = 0;
    for (int n = 0; n < w->biases; n++) {
        const Added *a = &w->bias[n];
        Value x = a->by;
        if (a->kind == ADDED_value) {
            x = build_cast(b, x, t);
            if (a->factor < 1 || a->factor > 1)
                x = build2(b, OP_mul, x, build_const(b, t, a->factor));
        } else {
            const Value seen = build_const(b, t, 0), hidden = build_const(b, t, -1e30);
            const bool shows = a->kind == ADDED_shows;
            x = build(b, OP_select, NULL, 3,
                      (Value[]){x, shows ? seen : hidden, shows ? hidden : seen});
        }
        sum = sum ? build2(b, OP_add, sum, x) : x;
    }
    return sum;
}

/* The result of the operation; 0 if it does not take the operands, or gives other dims than `was`.
 */
static Value attention(Builder *b, const Written *w, const Type *was)
{
    Attrs a = {.along = w->query,
               .over = w->head,
               .causal = w->causal,
               .scale = w->scale,
               .window = w->window,
               .cap = w->cap,
               .sunk = w->sink != 0,
               .biased = w->biases > 0,
               .within = w->start != 0};
    Value in[6] = {w->q, along_queries(b, w, w->k), along_queries(b, w, w->v), w->sink};
    Type out[2];
    if (w->cross)
        a.keys = w->key;
    in[0] = attention_queries(b, &a, in[0], in[1]);
    int nin = 3 + a.sunk;
    if (a.biased)
        in[nin++] = bias_of(b, w);
    if (w->start)
        in[nin++] = build_cast(b, w->start, DT_i32);
    const DimList values = attention_value_head(&a, type_of(b->m, in[1]), type_of(b->m, in[2]));
    if (values.n != 1 || type_check(b->m, OP_attention, &a, nin, in, 2, out) ||
        !type_same_dims(&out[0], was))
        return 0;
    return build(b, OP_attention, &a, nin, in);
}

/* Is the order of i's dims that of its operands' dims? */
static bool follows(const Ins *i)
{
    return (op_is(i->op, POINTWISE) && i->op != OP_copy) ||
           OP_AMONG(i->op, OP_dot, OP_sum, OP_rmax, OP_cast, OP_rename, OP_pick, OP_rotate);
}

static void order_sums(const Module *m, Ins *i)
{
    const Type *t = type_of(m, i->in[0]);
    DimList in_order = {0};
    for (int k = 0; k < t->rank && OP_AMONG(i->op, OP_dot, OP_sum); k++)
        if (dims_have(&i->attrs.over, t->dims[k].name))
            in_order.dim[in_order.n++] = t->dims[k];
    if (in_order.n == i->attrs.over.n)
        i->attrs.over = in_order;
}

/* Users of values that are now others, or have another order of dims. */
static void adapt(Rewrite *r, Builder *b, Ins *i)
{
    bool other = false;
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *before = type_before(r, i->in[k]);
        i->in[k] = map_get(&r->map, i->in[k]);
        if (type_equal(before, type_of(r->m, i->in[k])))
            continue;
        if (follows(i))
            other = true;
        else
            i->in[k] = build_as(b, i->in[k], *before);
    }
    if (!other)
        return;
    Type t = *type_of(r->m, i->in[0]);
    order_sums(r->m, i);
    if (i->op != OP_cast && type_check(r->m, i->op, &i->attrs, (int)i->nin, i->in, 1, &t))
        ir_broken(r->m, i, "its operands have other dims than before");
    ValueInfo *out = &r->m->values.data[i->out[0]];
    t.dtype = out->type.dtype;
    if (type_equal(&t, &out->type))
        return;
    Type *before = NEW(r->tmp, Type);
    *before = out->type;
    r->was[i->out[0]] = before;
    out->type = t;
}

static void region(Rewrite *r, Region *of)
{
    Ins **old = of->ins.data;
    const size_t n = of->ins.n;
    of->ins.data = NULL;
    of->ins.n = of->ins.cap = 0;
    Builder end = {.m = r->m, .region = of};
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = end = builder_at(r->m, of, i);
        Written w;
        adapt(r, &b, i);
        if (i->body)
            region(r, i->body);
        Value o = 0;
        if (i->nout == 1 && written_attention(r->m, i, &r->uses, r->tmp, &w))
            o = attention(&b, &w, type_of(r->m, i->out[0]));
        if (o) {
            const Name name = r->m->values.data[i->out[0]].name;
            if (name != name_intern(r->m->names, op_info[i->op].name)) /* a program gave it */
                r->m->values.data[o].name = name;
            map_set(r->m, &r->map, i->out[0], o);
            r->changed = true;
        } else {
            vec_push(r->m->arena, &of->ins, i);
        }
    }
    for (size_t k = 0; k < of->results.n; k++) {
        const Value v = of->results.data[k];
        of->results.data[k] = build_as(&end, map_get(&r->map, v), *type_before(r, v));
    }
}

PassStatus pass_attention(Job *j)
{
    Module *m = j->m;
    for (size_t f = 0; f < m->fns.n; f++) {
        Fn *fn = m->fns.data[f];
        Rewrite r = {
            .m = m, .tmp = j->tmp, .uses = ir_uses(m, fn->body, j->tmp), .values = m->values.n};
        r.was = NEW_ARRAY(j->tmp, const Type *, m->values.n);
        region(&r, fn->body);
        if (r.changed)
            simplify_dce(m, fn, j->tmp);
    }
    return PASS_ok;
}
