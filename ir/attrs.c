/* attrs.c - when two instructions of one op have the same attributes. */
#include "ir/ir.h"

#include <string.h>

static bool same_DIM(Dim a, Dim b)
{
    return a.name == b.name && a.size == b.size && dim_lies_as(a, b);
}
static bool same_DIMS(DimList a, DimList b)
{
    bool same = a.n == b.n;
    for (int i = 0; same && i < a.n; i++)
        same = same_DIM(a.dim[i], b.dim[i]);
    return same;
}
static bool same_INT(int64_t a, int64_t b)
{
    return a == b;
}
static bool same_REAL(double a, double b)
{
    return !memcmp(&a, &b, sizeof a); /* 0 and -0 differ */
}
static bool same_SHARE(double a, double b)
{
    return same_REAL(a, b);
}
static bool same_COUNT(int64_t a, int64_t b)
{
    return a == b;
}
static bool same_OTHER(Dim a, Dim b)
{
    return same_DIM(a, b);
}
static bool same_FACTORS(Factors a, Factors b)
{
    return a.n == b.n && !memcmp(a.by, b.by, (size_t)a.n * sizeof *a.by);
}
static bool same_TAPS(const Taps *a, const Taps *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++) {
        const Tap *x = &a->tap[i], *y = &b->tap[i];
        same = same_DIM(x->dim, y->dim) && x->n == y->n && x->at == y->at && x->every == y->every;
        for (int k = 0; same && k < x->n; k++)
            same = same_DIM(x->over[k], y->over[k]) && x->by[k] == y->by[k];
    }
    return same;
}
static bool same_FLAG(bool a, bool b)
{
    return a == b;
}
static bool same_MARK(bool a, bool b)
{
    return a == b;
}
static bool same_NAME(Name a, Name b)
{
    return a == b;
}
static bool same_AXES(Axes a, Axes b)
{
    return a == b;
}

bool attrs_equal(Op op, const Attrs *a, const Attrs *b)
{
#define ATTR(name, kind)                                                                           \
    if (op_info[op].attrs >> ATTR_##name & 1 && !same_##kind(a->name, b->name))                    \
        return false;
#include "ir/attrs.def"
    return true;
}
