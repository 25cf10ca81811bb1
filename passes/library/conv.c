/* conv.c - matches strided tensors to a convolution; see conv.h. */
#include "passes/library/conv.h"

#include <string.h>

#include "passes/library/product.h"

enum { BATCH, ROWS, COLUMNS, TERMS, GROUPS };

static bool is_tapped(const Attrs *a, Name d)
{
    for (int i = 0; i < a->taps->n; i++)
        if (a->taps->tap[i].dim.name == d)
            return true;
    return false;
}

static bool counts(const Attrs *a, Name d)
{
    for (int i = 0; i < a->taps->n; i++)
        for (int k = 0; k < a->taps->tap[i].n; k++)
            if (a->taps->tap[i].over[k].name == d)
                return true;
    return false;
}

/* Has x, as its taps show it, the dim? */
static bool shown(const Attrs *a, const Type *x, Name d)
{
    return counts(a, d) || (type_find(x, d) >= 0 && !is_tapped(a, d));
}

static int group_of(const Attrs *a, const Type *x, const Type *w, Name d)
{
    const bool in_x = shown(a, x, d), in_w = type_find(w, d) >= 0;
    if (dims_have(&a->over, d))
        return in_x && in_w ? TERMS : GROUPS;
    if (in_x && in_w)
        return counts(a, d) ? GROUPS : BATCH;
    return in_x ? ROWS : in_w ? COLUMNS : GROUPS;
}

Type conv_result(const Attrs *a, const Type *x, const Type *w, const Type *like)
{
    Type t = *like;
    t.rank = 0;
    for (int g = BATCH; g <= COLUMNS; g++)
        for (int i = 0; i < like->rank; i++)
            if (group_of(a, x, w, like->dims[i].name) == g)
                t.dims[t.rank++] = like->dims[i];
    return t;
}

/* The dims of a group, the outermost of y first; terms as they are listed. */
static int dims_of(const Attrs *a, const Type *x, const Type *w, const Strided *y, int group,
                   Dim *to)
{
    int n = 0;
    int64_t stride[MAX_RANK];
    if (group == TERMS) {
        for (int i = 0; i < a->over.n; i++)
            if (a->over.dim[i].size > 1)
                to[n++] = a->over.dim[i];
        return n;
    }
    for (int i = 0; i < y->type->rank; i++) {
        const Dim d = y->type->dims[i];
        if (d.size == 1 || group_of(a, x, w, d.name) != group)
            continue;
        int k = n++;
        for (; k > 0 && stride[k - 1] < y->stride[i]; k--) {
            stride[k] = stride[k - 1];
            to[k] = to[k - 1];
        }
        stride[k] = y->stride[i];
        to[k] = d;
    }
    return n;
}

/* Are these the innermost dims of y, one after the other? */
static bool contiguous(const Strided *y, const Dim *dim, int n)
{
    int64_t run = 1;
    for (int i = n - 1; i >= 0; i--) {
        if (stride_of(y->type, y->stride, dim[i].name) != run)
            return false;
        run *= dim[i].size;
    }
    return true;
}

static void axes_of(const Attrs *a, const Strided *x, const Dim *dim, int n, mg_conv_desc *d)
{
    for (int i = 0; i < a->taps->n; i++) {
        const Tap *t = &a->taps->tap[i];
        mg_conv_axis *axis = &d->axis[d->axes++];
        *axis = (mg_conv_axis){.size = t->dim.size, .at = t->at, .every = t->every};
        axis->stride = stride_of(x->type, x->stride, t->dim.name);
        for (int k = 0; k < t->n; k++)
            for (int j = 0; j < n; j++)
                if (dim[j].name == t->over[k].name)
                    axis->by[j] = t->by[k];
    }
}

bool conv_match(const Attrs *a, const Strided *x, const Strided *w, const Strided *y,
                mg_conv_desc *d)
{
    Dim dim[4 * MAX_RANK];
    int n = 0, of[GROUPS];
    *d = (mg_conv_desc){.dtype = abi_dtype(x->type->dtype), .out = abi_dtype(y->type->dtype)};
    for (int i = 0; i < y->type->rank; i++)
        if (group_of(a, x->type, w->type, y->type->dims[i].name) > COLUMNS)
            return false;
    for (int i = 0; i < a->over.n; i++)
        if (group_of(a, x->type, w->type, a->over.dim[i].name) != TERMS)
            return false;
    for (int g = 0; g < GROUPS; g++) {
        of[g] = dims_of(a, x->type, w->type, y, g, dim + n);
        if (g == COLUMNS && !contiguous(y, dim + n, of[g]))
            return false;
        n += of[g];
        if (g == TERMS && !of[g]) { /* a sum of one */
            dim[n++] = (Dim){.size = 1};
            of[g] = 1;
        }
    }
    if (n > MG_CONV_DIMS || a->taps->n > MG_CONV_AXES)
        return false;
    d->batch = of[BATCH];
    d->rows = of[ROWS];
    d->columns = of[COLUMNS];
    d->terms = of[TERMS];
    for (int i = 0; i < n; i++) {
        const Name name = dim[i].name;
        d->size[i] = dim[i].size;
        if (!name)
            continue;
        d->x[i] = is_tapped(a, name) ? 0 : stride_of(x->type, x->stride, name);
        d->w[i] = stride_of(w->type, w->stride, name);
        d->y[i] = stride_of(y->type, y->stride, name);
    }
    axes_of(a, x, dim, n, d);
    return true;
}
