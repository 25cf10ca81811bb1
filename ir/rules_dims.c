/* rules_dims.c - the rules of ops that change which dims there are, and no element; see rules.h. */
#include "ir/rules.h"

#include <math.h>
#include <string.h>

const char *type_rename(Rule *r)
{
    const Type *t = r->in[0];
    const char *wrong = rule_has_dim(r, t, r->attrs->dim, "the operand");
    if (wrong)
        return wrong;
    int i = type_find(t, r->attrs->dim.name);
    if (type_find(t, r->attrs->to.name) >= 0)
        WRONG(r, "there is a dim '%s' already", rule_dim(r, r->attrs->to.name));
    if (t->dims[i].size != r->attrs->to.size)
        WRONG(r, "dim '%s' is %lld and '%s' is %lld", rule_dim(r, r->attrs->dim.name),
              (long long)t->dims[i].size, rule_dim(r, r->attrs->to.name),
              (long long)r->attrs->to.size);
    r->out[0] = *t;
    r->out[0].dims[i] = r->attrs->to;
    return NULL;
}

/* t with its dim i, of s * k elements, as two. */
static Type split_dim(const Type *t, int i, Dim outer, Dim inner)
{
    Type r = *t;
    memmove(&r.dims[i + 1], &t->dims[i], (size_t)(t->rank - i) * sizeof t->dims[0]);
    r.dims[i] = outer;
    r.dims[i + 1] = inner;
    r.rank++;
    return r;
}

const char *type_split(Rule *r)
{
    Dim inner = r->attrs->dim, outer = r->attrs->to;
    int i = type_find(r->in[0], inner.name);
    if (i < 0)
        WRONG(r, "there is no dim '%s' to split", rule_dim(r, inner.name));
    if (type_find(r->in[0], outer.name) >= 0)
        WRONG(r, "there is a dim '%s' already", rule_dim(r, outer.name));
    if (r->in[0]->rank == MAX_RANK)
        WRONG(r, "the result would have more than %d dims", MAX_RANK);
    int64_t n = r->in[0]->dims[i].size;
    if (outer.size < 1 || inner.size < 1 || n % outer.size || n / outer.size != inner.size)
        WRONG(r, "dim '%s' of %lld is not %lld times %lld", rule_dim(r, inner.name), (long long)n,
              (long long)outer.size, (long long)inner.size);
    const Dim d = r->in[0]->dims[i];
    if (!dim_lies_as(d, outer))
        WRONG(r, "dim '%s' does not lie over the mesh as '%s'", rule_dim(r, inner.name),
              rule_dim(r, outer.name));
    r->out[0] = split_dim(r->in[0], i, outer, inner);
    return NULL;
}

const char *type_merge(Rule *r)
{
    Dim inner = r->attrs->dim, outer = r->attrs->to;
    const char *wrong = rule_has_dim(r, r->in[0], inner, "the operand");
    if (!wrong)
        wrong = rule_has_dim(r, r->in[0], outer, "the operand");
    if (wrong)
        return wrong;
    int i = type_find(r->in[0], outer.name), rank = r->in[0]->rank;
    if (i + 1 == rank || r->in[0]->dims[i + 1].name != inner.name)
        WRONG(r, "dim '%s' does not follow '%s'", rule_dim(r, inner.name), rule_dim(r, outer.name));
    r->out[0] = *r->in[0];
    memmove(&r->out[0].dims[i], &r->in[0]->dims[i + 1],
            (size_t)(rank - i - 1) * sizeof r->out[0].dims[0]);
    r->out[0].rank--;
    r->out[0].dims[i].size = outer.size * inner.size;
    r->out[0].dims[i] = dim_lying_as(r->out[0].dims[i], outer);
    return NULL;
}

/* t without its dim d, and how many indices of d it has: one, where it lacks it. */
static Type part_without(const Type *t, Name d, int64_t *n)
{
    Type rest = *t;
    rest.rank = 0;
    *n = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i].name == d)
            *n = t->dims[i].size;
        else
            rest.dims[rest.rank++] = t->dims[i];
    }
    for (int i = rest.rank; i < t->rank; i++)
        rest.dims[i] = (Dim){0};
    return rest;
}

const char *type_join(Rule *r)
{
    const Dim d = r->attrs->dim;
    const Type *t = r->in[0];
    const int at = type_find(t, d.name);
    int64_t all = 0, n;
    const Type first = part_without(t, d.name, &n);
    for (int k = 0; k < r->nin; k++) {
        const Type part = part_without(r->in[k], d.name, &n);
        if (part.dtype != first.dtype || part.indexes != first.indexes ||
            part.partial != first.partial || part.max != first.max || part.level != first.level ||
            !type_same_dims(&part, &first))
            WRONG(r, "part %d is of another type than the first", k + 1);
        all += n;
    }
    if (all != d.size)
        WRONG(r, "the parts are %lld long, and '%s' is %lld", (long long)all, rule_dim(r, d.name),
              (long long)d.size);
    if (first.rank == MAX_RANK)
        WRONG(r, "the result would have more than %d dims", MAX_RANK);
    r->out[0] = *t;
    if (at < 0) {
        memmove(&r->out[0].dims[1], &t->dims[0], (size_t)t->rank * sizeof t->dims[0]);
        r->out[0].dims[0] = d;
        r->out[0].rank++;
    } else {
        r->out[0].dims[at].size = all;
    }
    return NULL;
}

const char *type_reindex(Rule *r)
{
    const Attrs *a = r->attrs;
    const Type *t = r->in[0];
    const char *wrong = rule_has_dim(r, t, a->dim, "the operand");
    if (wrong)
        return wrong;
    if (!a->over.n || a->factors.n != a->over.n || a->every < 1)
        WRONG(r, "%d dims are counted by %d factors, over %lld", a->over.n, a->factors.n,
              (long long)a->every);
    double reach = fabs((double)a->at);
    r->out[0] = (Type){.dtype = t->dtype, .indexes = t->indexes};
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i].name != a->dim.name) {
            r->out[0].dims[r->out[0].rank++] = t->dims[i];
            continue;
        }
        for (int k = 0; k < a->over.n; k++) { /* those that the operand lacks */
            const Dim d = a->over.dim[k];
            if (d.name != a->dim.name && type_find(t, d.name) >= 0)
                continue;
            if (r->out[0].rank + t->rank - i > MAX_RANK)
                WRONG(r, "the result would have more than %d dims", MAX_RANK);
            r->out[0].dims[r->out[0].rank++] = d;
        }
    }
    for (int k = 0; k < a->over.n; k++) {
        const Dim d = a->over.dim[k];
        for (int j = 0; j < k; j++)
            if (a->over.dim[j].name == d.name)
                WRONG(r, "dim '%s' is listed twice", rule_dim(r, d.name));
        if (d.name != a->dim.name && type_find(t, d.name) >= 0 &&
            (wrong = rule_has_dim(r, t, d, "the operand")))
            return wrong;
        if (!a->factors.by[k])
            WRONG(r, "the factor of dim '%s' is 0", rule_dim(r, d.name));
        reach += fabs((double)a->factors.by[k]) * (double)d.size;
    }
    if (reach + (double)a->dim.size * (double)a->every > INT32_MAX)
        WRONG(r, "its indices would be beyond 2^31");
    return NULL;
}

static void drop_dim(Type *t, int i)
{
    memmove(&t->dims[i], &t->dims[i + 1], (size_t)(t->rank - i - 1) * sizeof t->dims[0]);
    t->dims[--t->rank] = (Dim){0};
}

const char *type_pick(Rule *r)
{
    const char *wrong = rule_has_dim(r, r->in[0], r->attrs->dim, "the operand");
    if (wrong)
        return wrong;
    int i = type_find(r->in[0], r->attrs->dim.name);
    if (r->attrs->at < 0 || r->attrs->at >= r->in[0]->dims[i].size)
        WRONG(r, "index %lld is outside dim '%s' of %lld", (long long)r->attrs->at,
              rule_dim(r, r->attrs->dim.name), (long long)r->in[0]->dims[i].size);
    r->out[0] = *r->in[0];
    drop_dim(&r->out[0], i);
    return NULL;
}

const char *type_window(Rule *r)
{
    Dim d = r->attrs->along;
    int i = type_find(r->in[0], d.name);
    if (i < 0)
        WRONG(r, "there is no dim '%s' to cut a window from", rule_dim(r, d.name));
    if (r->attrs->at < 0 || r->attrs->at > r->in[0]->dims[i].size - d.size)
        WRONG(r, "a window of %lld from %lld is outside dim '%s' of %lld", (long long)d.size,
              (long long)r->attrs->at, rule_dim(r, d.name), (long long)r->in[0]->dims[i].size);
    r->out[0] = *r->in[0];
    r->out[0].dims[i].size = d.size;
    return NULL;
}
