/* interp_dims.c - what ops mean that change dims or places and no element; see interp.h. */
#include "ir/interp.h"

#include <string.h>

static const Type *in_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->in[k]);
}

static const Type *out_type(const Interp *in, const Ins *i)
{
    return type_of(in->m, i->out[0]);
}

/* Same elements under other names: `t` is the operand's type with its dims called as the result's.
 */
static void copy_as(Interp *in, const Ins *i, const Type *t, int64_t from)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0) + from;
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i));
    walk_tensor(&w, out_type(in, i));
    walk_tensor(&w, t);
    do
        y[w.at[0]] = x[w.at[1]];
    while (walk_next(&w));
}

void interp_rename(Interp *in, const Ins *i)
{
    Type t = *in_type(in, i, 0);
    t.dims[type_find(&t, i->attrs.dim.name)].name = i->attrs.to.name;
    copy_as(in, i, &t, 0);
}

void interp_pick(Interp *in, const Ins *i)
{
    const Type *t = in_type(in, i, 0);
    copy_as(in, i, t, i->attrs.at * type_stride(t, type_find(t, i->attrs.dim.name)));
}

void interp_window(Interp *in, const Ins *i)
{
    const Type *t = in_type(in, i, 0);
    copy_as(in, i, t, i->attrs.at * type_stride(t, type_find(t, i->attrs.along.name)));
}

/* The same elements in the same order: the dims are next to each other. */
static void copy_all(Interp *in, const Ins *i)
{
    memcpy(interp_out(in, i, 0), interp_in(in, i, 0),
           (size_t)type_elements(out_type(in, i)) * sizeof(double));
}
void interp_split(Interp *in, const Ins *i)
{
    copy_all(in, i);
}

void interp_merge(Interp *in, const Ins *i)
{
    copy_all(in, i);
}

void interp_join(Interp *in, const Ins *i)
{
    const Type *t = out_type(in, i);
    const int d = type_find(t, i->attrs.dim.name);
    double *y = interp_out(in, i, 0);
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *u = in_type(in, i, k);
        const double *x = interp_in(in, i, k);
        const int at = type_find(u, i->attrs.dim.name);
        Walk w = walk_start();
        walk_dims(&w, u);
        walk_tensor(&w, t);
        walk_tensor(&w, u);
        do
            y[w.at[0]] = x[w.at[1]];
        while (walk_next(&w));
        y += (at < 0 ? 1 : u->dims[at].size) * type_stride(t, d);
    }
}

void interp_reindex(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0);
    const Attrs *a = &i->attrs;
    const Type *t = in_type(in, i, 0);
    const int d = type_find(t, a->dim.name);
    const int64_t stride = type_stride(t, d);
    Type others = *t; /* where the index along dim is 0, if its name stays */
    others.dims[d].name = 0;
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i));
    walk_tensor(&w, out_type(in, i));
    walk_tensor(&w, &others);
    do {
        int64_t at = a->at;
        for (int k = 0; k < a->over.n; k++)
            at += a->factors.by[k] * walk_index(&w, a->over.dim[k].name);
        const bool there = at >= 0 && at % a->every == 0 && at / a->every < a->dim.size;
        y[w.at[0]] = there ? x[w.at[1] + at / a->every * stride] : 0;
    } while (walk_next(&w));
}

void interp_rotate(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0);
    const Type *t = in_type(in, i, 0);
    int d = type_find(t, i->attrs.dim.name);
    int64_t half = t->dims[d].size / 2, stride = type_stride(t, d);
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i));
    walk_tensor(&w, out_type(in, i));
    walk_tensor(&w, t);
    do {
        bool low = walk_index(&w, i->attrs.dim.name) < half;
        y[w.at[0]] = low ? -x[w.at[1] + half * stride] : x[w.at[1] - half * stride];
    } while (walk_next(&w));
}
