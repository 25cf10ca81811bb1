/* view.c - strides through views and slices; last uses; see view.h. */
#include "passes/view.h"

#include <string.h>

Strided strided_of(const Module *m, Value v)
{
    Strided s = {.type = type_of(m, v)};
    const View w = view_of(m, v);
    memcpy(s.stride, w.stride, sizeof s.stride);
    return s;
}

int64_t stride_of(const Type *t, const int64_t *stride, Name d)
{
    int at = type_find(t, d);
    return at < 0 ? 0 : stride[at];
}

void strides_dense(const Type *t, int64_t *stride)
{
    int64_t s = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = s;
        s *= t->dims[i].size;
    }
}

bool strides_are_dense(const Type *t, const int64_t *stride)
{
    int64_t s = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i].size != 1 && stride[i] != s)
            return false;
        s *= t->dims[i].size;
    }
    return true;
}

void strides_of_view(const Ins *view, const Type *t, const Type *of, const int64_t *from,
                     int64_t *stride)
{
    const Attrs *a = &view->attrs;
    for (int i = 0; i < t->rank; i++) {
        Name d = t->dims[i].name;
        if (view->op == OP_rename && d == a->to.name)
            d = a->dim.name;
        if (view->op == OP_split && d == a->to.name)
            stride[i] = from[type_find(of, a->dim.name)] * a->dim.size;
        else
            stride[i] = from[type_find(of, d)];
    }
}

bool strides_behind_view(const Ins *view, const Type *t, const int64_t *from, const Type *of,
                         int64_t *stride)
{
    const Attrs *a = &view->attrs;
    if (!OP_AMONG(view->op, OP_rename, OP_split, OP_merge))
        return false;
    if (view->op == OP_split && a->to.size > 1 &&
        stride_of(t, from, a->to.name) != stride_of(t, from, a->dim.name) * a->dim.size)
        return false;
    for (int i = 0; i < of->rank; i++) {
        const Name d = of->dims[i].name;
        if (view->op == OP_rename && d == a->dim.name)
            stride[i] = stride_of(t, from, a->to.name);
        else if (view->op == OP_merge && d == a->to.name)
            stride[i] = stride_of(t, from, a->dim.name) * a->dim.size;
        else
            stride[i] = stride_of(t, from, d);
    }
    return true;
}

int64_t strides_of_part(const Module *m, const Ins *join, uint32_t k, const Strided *whole,
                        int64_t *stride)
{
    const Name d = join->attrs.dim.name;
    const Type *part = type_of(m, join->in[k]);
    int64_t before = 0;
    for (uint32_t n = 0; n < k; n++) {
        const Type *one = type_of(m, join->in[n]);
        const int at = type_find(one, d);
        before += at < 0 ? 1 : one->dims[at].size;
    }
    for (int i = 0; i < part->rank; i++)
        stride[i] = stride_of(whole->type, whole->stride, part->dims[i].name);
    return before * stride_of(whole->type, whole->stride, d);
}

Value view_root(const Module *m, Value v)
{
    for (const Ins *def; (def = m->values.data[v].def) && op_is(def->op, VIEW);)
        v = def->in[0];
    return v;
}

View view_of(const Module *m, Value v)
{
    const Type *t = type_of(m, v);
    const Ins *def = m->values.data[v].def;
    View r = {.root = v};
    Value stacked;
    if (def && op_is(def->op, VIEW)) {
        View inner = view_of(m, def->in[0]);
        const Type *it = type_of(m, def->in[0]);
        const Attrs *a = &def->attrs;
        r.root = inner.root;
        r.offset = inner.offset;
        strides_of_view(def, t, it, inner.stride, r.stride);
        if (def->op == OP_pick)
            r.offset += a->at * inner.stride[type_find(it, a->dim.name)];
        else if (def->op == OP_window)
            r.offset += a->at * inner.stride[type_find(it, a->along.name)];
    } else if (slice_loop(m, v, &stacked)) {
        View outer = view_of(m, stacked);
        for (int i = 0; i < t->rank; i++)
            r.stride[i] = outer.stride[type_find(type_of(m, stacked), t->dims[i].name)];
    } else {
        strides_dense(t, r.stride);
    }
    return r;
}

static void add_depth(const Region *r, DimList *l)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        if (ins->op != OP_repeat)
            continue;
        if (!ins->attrs.scan && !dims_have(l, ins->attrs.dim.name) && l->n < MAX_RANK)
            l->dim[l->n++] = ins->attrs.dim;
        add_depth(ins->body, l);
    }
}

DimList depth_dims(const Module *m)
{
    DimList l = {0};
    for (size_t i = 0; i < m->fns.n; i++)
        add_depth(m->fns.data[i]->body, &l);
    return l;
}

int64_t elements_per_iteration(const Type *t, const DimList *depth)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= dims_have(depth, t->dims[i].name) ? 1 : t->dims[i].size;
    return n;
}

static void use_at(const Module *m, int *last, Value v, int at)
{
    for (;;) {
        if (last[v] < at)
            last[v] = at;
        const Ins *def = m->values.data[v].def;
        if (!def || !op_is(def->op, VIEW))
            return;
        v = def->in[0];
    }
}

static void use_inside(const Module *m, int *last, const Ins *i, int at)
{
    for (uint32_t k = 0; k < i->nin; k++)
        use_at(m, last, i->in[k], at);
    if (!i->body || i->op == OP_fused)
        return;
    for (size_t k = 0; k < i->body->ins.n; k++)
        use_inside(m, last, i->body->ins.data[k], at);
    for (size_t k = 0; k < i->body->results.n; k++)
        use_at(m, last, i->body->results.data[k], at);
}

int *last_uses(const Module *m, const Region *r, Arena *a)
{
    int *last = NEW_ARRAY(a, int, m->values.n);
    for (size_t i = 0; i < m->values.n; i++)
        last[i] = -1;
    for (size_t i = 0; i < r->ins.n; i++)
        use_inside(m, last, r->ins.data[i], (int)i);
    for (size_t i = 0; i < r->results.n; i++)
        use_at(m, last, r->results.data[i], (int)r->ins.n);
    return last;
}
