/* rounded.c - I13: the copy of a parameter is the rounding of the parameter, before and after each
 * function.
 *
 *   between two functions     copy[e] = round(master[e]) for each element e
 *   @round                    has a new value for each copy, and it is that of the parameter's
 *   a new value of a master   comes with one of its copy, which is its rounding
 *   nothing else              writes a copy
 *
 * A value is the rounding of another if it is a cast of it, computed from the same operands by the
 * same instructions; kernels are looked through, for fusion may compute one thing in two of them.
 * How the two lie over ranks may differ: a rounding is by elements, so moving elements before it or
 * after it is all the same. Where each element then is, the types say up to pass local. Nor does it
 * matter on which level of memory they are, and whether they are rounded a piece at a time: an
 * iteration's slices, or windows that are joined. */
#include "ir/ir.h"

typedef struct Pairs {
    const Module *m;
    Value *equal; /* per value: one that was found to be equal, or 0 */
} Pairs;

/* The value that v is inside of the kernel that makes it; of a kernel's argument the operand. */
static Value through_kernels(const Module *m, Value v)
{
    for (;;) {
        const ValueInfo *x = &m->values.data[v];
        const Ins *owner = x->def ? NULL : x->home->owner;
        uint32_t k = 0;
        if (x->def && x->def->op == OP_fused) {
            while (x->def->out[k] != v)
                k++;
            v = x->def->body->results.data[k];
        } else if (owner && owner->op == OP_fused) {
            while (x->home->args.data[k] != v)
                k++;
            v = owner->in[k];
        } else {
            return v;
        }
    }
}

/* ... and through what only moves elements, among ranks and levels of memory or to another order of
 * dims. */
static Value through_moves(const Module *m, Value v)
{
    for (;;) {
        v = through_kernels(m, v);
        const Ins *def = m->values.data[v].def;
        if (!def || !(OP_AMONG(def->op, OP_all_gather, OP_shard, OP_all_to_all, OP_transfer) ||
                      (def->op == OP_copy && type_of(m, def->in[0])->rank == type_of(m, v)->rank)))
            return v;
        v = def->in[0];
    }
}

static bool same_value(Pairs *p, Value a, Value b)
{
    const Module *m = p->m;
    a = through_kernels(m, a);
    b = through_kernels(m, b);
    if (a == b || p->equal[a] == b)
        return true;
    const Ins *x = m->values.data[a].def, *y = m->values.data[b].def;
    if (!x || !y || x->op != y->op || x->nin != y->nin || x->body || x->nout != 1 ||
        op_is(x->op, EFFECT) || !attrs_equal(x->op, &x->attrs, &y->attrs) ||
        type_of(m, a)->dtype != type_of(m, b)->dtype)
        return false;
    for (uint32_t k = 0; k < x->nin; k++)
        if (!same_value(p, x->in[k], y->in[k]))
            return false;
    p->equal[a] = b;
    return true;
}

static bool is_rounding(Pairs *p, Value copy, Value of);

/* Does a loop stack the roundings of what it stacks, or is handed slices of? */
static bool rounds_slices(Pairs *p, const Ins *loop, Value copy, Value of)
{
    const Module *m = p->m;
    const Region *b = loop->body;
    const uint32_t carried = (uint32_t)loop->attrs.carried;
    uint32_t k = 0;
    while (loop->out[k] != copy)
        k++;
    for (uint32_t n = carried; k >= carried && n < loop->nout; n++)
        if (loop->out[n] == of)
            return is_rounding(p, b->results.data[k], b->results.data[n]);
    for (uint32_t n = carried; k >= carried && n < loop->nin; n++)
        if (through_moves(m, loop->in[n]) == of)
            return is_rounding(p, b->results.data[k], b->args.data[n]);
    return false;
}

/* Is part of the rounding that of what `of` has along a dim from `at` on? */
static bool rounds_window(const Module *m, Value part, Dim dim, int64_t at, Value of)
{
    const Ins *cast = m->values.data[through_moves(m, part)].def;
    const Ins *window =
        cast && cast->op == OP_cast ? m->values.data[through_moves(m, cast->in[0])].def : NULL;
    return window && window->op == OP_window && window->attrs.along.name == dim.name &&
           window->attrs.at == at && through_moves(m, window->in[0]) == of;
}

static bool rounds_parts(Pairs *p, const Ins *join, Value of)
{
    const Module *m = p->m;
    const Ins *parts = m->values.data[of].def;
    int64_t at = 0;
    for (uint32_t k = 0; k < join->nin; k++) {
        const Type *t = type_of(m, join->in[k]);
        const int dim = type_find(t, join->attrs.dim.name);
        if (dim < 0)
            return false;
        if (parts && parts->op == OP_join
                ? parts->nin != join->nin || parts->attrs.dim.name != join->attrs.dim.name ||
                      !type_same_dims(t, type_of(m, parts->in[k])) ||
                      !is_rounding(p, join->in[k], parts->in[k])
                : !rounds_window(m, join->in[k], join->attrs.dim, at, of))
            return false;
        at += t->dims[dim].size;
    }
    return true;
}

static bool is_rounding(Pairs *p, Value copy, Value of)
{
    copy = through_moves(p->m, copy);
    of = through_moves(p->m, of);
    const Ins *cast = p->m->values.data[copy].def;
    const Ins *view = p->m->values.data[of].def;
    if (cast && cast->op == OP_merge && view && view->op == OP_merge &&
        attrs_equal(OP_merge, &cast->attrs, &view->attrs))
        return is_rounding(p, cast->in[0], view->in[0]);
    if (cast && cast->op == OP_repeat)
        return rounds_slices(p, cast, copy, of);
    if (cast && cast->op == OP_join)
        return rounds_parts(p, cast, of);
    return cast && cast->op == OP_cast && dtype_is_half(type_of(p->m, copy)->dtype) &&
           same_value(p, through_moves(p->m, cast->in[0]), of);
}

/* The new value of a tensor, or 0. */
static Value update_of(const Fn *f, uint32_t tensor)
{
    for (size_t k = 0; k < f->results.n; k++)
        if (f->results.data[k].role == RES_update && f->results.data[k].tensor == tensor)
            return f->body->results.data[k];
    return 0;
}

static Value given(const Fn *f, uint32_t tensor)
{
    for (size_t k = 0; k < f->args.n; k++)
        if (f->args.data[k].role == ARG_param && f->args.data[k].tensor == tensor)
            return f->body->args.data[k];
    return 0;
}

static const char *wrong(Pairs *p, const Fn *f, uint32_t copy, bool makes)
{
    const uint32_t master = p->m->tensors.data[copy].parameter;
    Value to = update_of(f, copy), from = update_of(f, master);
    if (makes && (from || !to))
        return from ? "has a new value" : "is not rounded";
    if (!makes && !from)
        return to ? "has a new copy, but no new value" : NULL;
    if (!to)
        return "has a new value, and its copy has none";
    from = from ? from : given(f, master);
    return from && is_rounding(p, to, from) ? NULL : "is not what its copy is rounded from";
}

bool ir_rounded_holds(const Module *m, const char **why)
{
    Arena *tmp = arena_new();
    Pairs p = {m, NULL};
    const Fn *round = module_fn(m, "round");
    bool holds = true;
    for (uint32_t t = 0; t < m->tensors.n && holds; t++) {
        if (!tensor_is_rounded(&m->tensors.data[t]))
            continue;
        const char *says = round ? NULL : "has a copy, and there is no @round";
        const char *in = "";
        for (size_t f = 0; f < m->fns.n && !says; f++) {
            p.equal = p.equal ? p.equal : NEW_ARRAY(tmp, Value, m->values.n);
            says = wrong(&p, m->fns.data[f], t, m->fns.data[f] == round);
            in = name_str(m->names, m->fns.data[f]->name);
        }
        holds = !says;
        if (says)
            *why =
                arena_printf(m->arena, "parameter '%s' %s%s%s",
                             name_str(m->names, m->tensors.data[m->tensors.data[t].parameter].name),
                             says, *in ? " in @" : "", in);
    }
    arena_free(tmp);
    return holds;
}
