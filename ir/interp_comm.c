/* interp_comm.c - what ranks do together, in the reference interpreter: the value as it is on all
 * ranks of a group is put together, and each takes from it what its type says. */
#include "ir/interp.h"

#include <stdlib.h>
#include <string.h>

int64_t interp_first(const Interp *in, Dim d)
{
    return mesh_place(in->m, in->rank, d.axes) * d.size;
}

/* Do two ranks differ on these axes alone? */
static bool same_group(const Module *m, int64_t a, int64_t b, Axes axes)
{
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (!(axes >> i & 1) && mesh_coordinate(m, a, (int)i) != mesh_coordinate(m, b, (int)i))
            return false;
    return true;
}

/* Where element e of the operand of `rank` lies in the value of its group, whose dims are whole on
 * `axes`; -1: `of` has no such element. */
typedef struct View {
    const Interp *in;
    Type type;       /* of the part */
    const Type *all; /* of the value */
    Axes axes;
} View;

/* Offset in `all` of an element of the part that a rank has. */
static int64_t offset_of(const View *v, int64_t e)
{
    int64_t at = 0, stride = 1, index[MAX_RANK];
    for (int i = v->type.rank - 1; i >= 0; i--) {
        index[i] = e % v->type.dims[i].size;
        e /= v->type.dims[i].size;
    }
    for (int i = v->all->rank - 1; i >= 0; i--) {
        Axes mine = v->type.dims[i].axes & v->axes;
        at += (index[i] + mesh_place(v->in->m, v->in->rank, mine) * v->type.dims[i].size) * stride;
        stride *= v->all->dims[i].size;
    }
    return at;
}

/* The type with all dims whole on some axes. */
static Type whole_on(const Module *m, const Type *t, Axes axes)
{
    Type all = *t;
    for (int i = 0; i < all.rank; i++) {
        all.dims[i].size *= mesh_size(m, all.dims[i].axes & axes);
        all.dims[i].axes &= ~axes;
    }
    return all;
}

/* The value of the group of `rank`. Ranks that have the same part write the same numbers. */
static double *group_value(Interp *in, int64_t ranks, int64_t rank, const Ins *i, const Type *all)
{
    const Module *m = in->m;
    const Type *t = type_of(m, i->in[0]);
    Axes axes = i->attrs.axes;
    bool sum = (t->partial & axes) != 0, most = (t->most & axes) != 0;
    int64_t n = type_elements(t);
    double *value = interp_alloc(type_elements(all), sizeof *value);
    bool *seen = interp_alloc(type_elements(all), sizeof *seen);
    for (int64_t r = 0; r < ranks; r++) {
        if (!same_group(m, r, rank, axes))
            continue;
        const double *x = interp_in(&in[r], i, 0);
        View v = {&in[r], *t, all, axes};
        for (int64_t e = 0; e < n; e++) {
            int64_t at = offset_of(&v, e);
            if (!seen[at])
                value[at] = x[e];
            else if (sum)
                value[at] += x[e];
            else if (most)
                value[at] = x[e] > value[at] ? x[e] : value[at];
            seen[at] = true;
        }
    }
    free(seen);
    return value;
}

void interp_comm(Interp *in, int64_t ranks, const Ins *i)
{
    const Module *m = in->m;
    Type all = whole_on(m, type_of(m, i->in[0]), i->attrs.axes);
    const Type *out = type_of(m, i->out[0]);
    for (int64_t r = 0; r < ranks; r++) {
        double *value = group_value(in, ranks, r, i, &all), *y = interp_out(&in[r], i, 0);
        View v = {&in[r], *out, &all, i->attrs.axes};
        for (int64_t e = 0; e < type_elements(out); e++)
            y[e] = value[offset_of(&v, e)];
        free(value);
    }
}
