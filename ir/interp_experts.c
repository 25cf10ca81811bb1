/* interp_experts.c - the reference meaning of the ops that send positions to experts. */
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>

static const Type *in_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->in[k]);
}

static const Type *out_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->out[k]);
}

static Dim own_dim(const Type *t, Name d)
{
    return t->dims[type_find(t, d)];
}

/* t, walked along its other dims; *stride: between neighbours along d. */
static Type standing(const Type *t, Name d, int64_t *stride)
{
    Type r = *t;
    int at = type_find(t, d);
    *stride = type_stride(t, at);
    r.dims[at].name = 0;
    return r;
}

/* ---- top ------------------------------------------------------------------------------------ */

/* The largest of x that is not taken; NaN is below all numbers. */
static int64_t largest(const double *x, int64_t stride, int64_t n, const bool *taken)
{
    int64_t best = -1;
    for (int64_t k = 0; k < n; k++)
        if (!taken[k] && (best < 0 || x[k * stride] > x[best * stride] ||
                          (isnan(x[best * stride]) && !isnan(x[k * stride]))))
            best = k;
    return best;
}

void interp_top(Interp *in, const Ins *i)
{
    const Type *xt = in_type(in, i, 0), *yt = out_type(in, i, 0);
    const double *x = interp_in(in, i, 0);
    double *y = interp_out(in, i, 0);
    int64_t xs, ys, n = own_dim(xt, i->attrs.dim.name).size, max = i->attrs.to.size;
    Type rows = standing(xt, i->attrs.dim.name, &xs), top = standing(yt, i->attrs.to.name, &ys);
    bool *taken = interp_alloc(n, sizeof *taken);
    Walk w = walk_start();
    for (int k = 0; k < xt->rank; k++)
        if (xt->dims[k].name != i->attrs.dim.name)
            walk_dim(&w, xt->dims[k]);
    walk_tensor(&w, &rows);
    walk_tensor(&w, &top);
    do {
        for (int64_t k = 0; k < n; k++)
            taken[k] = false;
        for (int64_t k = 0; k < max; k++) {
            int64_t best = largest(x + w.at[0], xs, n, taken);
            taken[best] = true;
            y[w.at[1] + k * ys] = (double)best;
        }
    } while (walk_next(&w));
    free(taken);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static bool is_group(const Ins *i, Name d)
{
    return d != i->attrs.along.name && !dims_have(&i->attrs.over, d);
}

/* Experts of which neighbours share what slots are counted in. */
static int64_t experts_together(const Attrs *a)
{
    return a->sorted ? a->dim.size : a->each ? a->each : 1;
}

static int64_t all_experts(const Attrs *a)
{
    return a->sorted ? a->dim.size : a->dim.size * experts_together(a);
}

/* The first slot of each expert in the group whose `each` choices w goes through next: that behind
 * all slots of the experts before it, of those that are together with it. */
static void first_slots(const Ins *i, Walk w, const double *choice, int64_t each, int64_t *first)
{
    const int64_t experts = all_experts(&i->attrs), together = experts_together(&i->attrs);
    for (int64_t k = 0; k < experts; k++)
        first[k] = 0;
    for (int64_t c = 0; together > 1 && c < each; c++) {
        for (int64_t k = 0; k < experts; k++)
            first[k] +=
                choice[w.at[0]] < (double)k && choice[w.at[0]] >= (double)(k / together * together);
        walk_next(&w);
    }
}

void interp_slots(Interp *in, const Ins *i)
{
    const Type *ct = in_type(in, i, 0), *st = out_type(in, i, 0);
    const double *choice = interp_in(in, i, 0);
    double *slot = interp_out(in, i, 0);
    int64_t experts = all_experts(&i->attrs), *next = interp_alloc(experts, sizeof *next);
    int64_t each = own_dim(ct, i->attrs.along.name).size;
    Walk w = walk_start();
    for (int k = 0; k < ct->rank; k++)
        if (is_group(i, ct->dims[k].name))
            walk_dim(&w, ct->dims[k]);
    walk_dim(&w, own_dim(ct, i->attrs.along.name));
    for (int k = 0; k < i->attrs.over.n; k++) {
        walk_dim(&w, own_dim(ct, i->attrs.over.dim[k].name));
        each *= own_dim(ct, i->attrs.over.dim[k].name).size;
    }
    walk_tensor(&w, ct);
    walk_tensor(&w, st);
    int64_t seen = 0;
    do {
        if (seen++ % each == 0)
            first_slots(i, w, choice, each, next);
        int64_t e = (int64_t)choice[w.at[0]];
        bool known = e >= 0 && e < experts;
        slot[w.at[1]] = known && next[e] < i->attrs.to.size ? (double)next[e]++ : -1;
    } while (walk_next(&w));
    free(next);
}

void interp_ends(Interp *in, const Ins *i)
{
    const Type *ct = in_type(in, i, 0), *et = out_type(in, i, 0);
    const double *choice = interp_in(in, i, 0);
    double *end = interp_out(in, i, 0);
    const bool homes = i->attrs.keys.name != 0;
    int64_t stride, home_stride = 0;
    Type group = standing(et, i->attrs.dim.name, &stride);
    if (homes)
        group = standing(&group, i->attrs.keys.name, &home_stride);
    Walk w = walk_start();
    walk_dims(&w, ct);
    walk_tensor(&w, ct);
    walk_tensor(&w, &group);
    do
        for (int64_t h = 0; h < (homes ? i->attrs.keys.size : 1); h++)
            for (int64_t e = 0; e < i->attrs.dim.size; e++) {
                const double of = choice[w.at[0]] - (double)(h * i->attrs.dim.size);
                double *to = &end[w.at[1] + h * home_stride + e * stride];
                if (of >= 0 && of <= (double)e && *to < (double)i->attrs.to.size)
                    *to += 1;
            }
    while (walk_next(&w));
}

/* ---- there and back ------------------------------------------------------------------------- */

/* A walk over what positions and slots have in common, choice by choice. Tensors: 0 that of the
 * positions, 1 that of the slots (at expert 0, slot 0), 2 choices, 3 slots, 4 weights. */
typedef struct Sent {
    Walk w;
    const double *choice, *slot;
    int64_t home_stride, slot_stride, experts, together, slots;
    double first; /* expert of what this rank has of them, before pass local */
} Sent;

static Sent sent_start(Interp *in, const Ins *i, const Type *rows, const Type *z, uint32_t choice,
                       const Type *weight)
{
    const Attrs *a = &i->attrs;
    Sent s = {.choice = interp_in(in, i, choice), .slot = interp_in(in, i, choice + 1)};
    Type here = *z;
    if (!a->sorted)
        here = standing(&here, a->dim.name, &s.home_stride);
    here = standing(&here, a->to.name, &s.slot_stride);
    s.experts = all_experts(a);
    s.together = experts_together(a);
    if (a->dim.axes)
        s.first = (double)(mesh_index(in->m, in->rank, a->dim, 0) * s.together);
    s.slots = own_dim(z, a->to.name).size;
    s.w = walk_start();
    walk_dims(&s.w, in_type(in, i, choice));
    walk_dims(&s.w, rows);
    walk_tensor(&s.w, rows);
    walk_tensor(&s.w, &here);
    walk_tensor(&s.w, in_type(in, i, choice));
    walk_tensor(&s.w, in_type(in, i, choice + 1));
    if (weight)
        walk_tensor(&s.w, weight);
    return s;
}

/* Index of the choice in the slots' tensor; -1: it has no slot. */
static int64_t sent_to(const Sent *s)
{
    int64_t e = (int64_t)(s->choice[s->w.at[2]] - s->first), k = (int64_t)s->slot[s->w.at[3]];
    bool there = e >= 0 && e < s->experts && k >= 0 && k < s->slots;
    return there ? s->w.at[1] + e / s->together * s->home_stride + k * s->slot_stride : -1;
}

void interp_dispatch(Interp *in, const Ins *i)
{
    const double *x = interp_in(in, i, 0), *weight = i->nin > 3 ? interp_in(in, i, 3) : NULL;
    double *z = interp_out(in, i, 0);
    Sent s = sent_start(in, i, in_type(in, i, 0), out_type(in, i, 0), 1,
                        weight ? in_type(in, i, 3) : NULL);
    do {
        int64_t at = sent_to(&s);
        if (at >= 0)
            z[at] += x[s.w.at[0]] * (weight ? weight[s.w.at[4]] : 1);
    } while (walk_next(&s.w));
}

void interp_combine(Interp *in, const Ins *i)
{
    const double *z = interp_in(in, i, 0), *weight = i->nin > 3 ? interp_in(in, i, 3) : NULL;
    double *y = interp_out(in, i, 0);
    Sent s = sent_start(in, i, out_type(in, i, 0), in_type(in, i, 0), 1,
                        weight ? in_type(in, i, 3) : NULL);
    do {
        int64_t at = sent_to(&s);
        if (at >= 0)
            y[s.w.at[0]] += z[at] * (weight ? weight[s.w.at[4]] : 1);
    } while (walk_next(&s.w));
}

void interp_combine_weight(Interp *in, const Ins *i)
{
    const double *z = interp_in(in, i, 0), *y = interp_in(in, i, 1);
    double *weight = interp_out(in, i, 0);
    Sent s = sent_start(in, i, in_type(in, i, 1), in_type(in, i, 0), 2, out_type(in, i, 0));
    do {
        int64_t at = sent_to(&s);
        if (at >= 0)
            weight[s.w.at[4]] += z[at] * y[s.w.at[0]];
    } while (walk_next(&s.w));
}

/* ---- grouped products ----------------------------------------------------------------------- */

/* Calls a walk over z, y and the matrices at once: tensors 0 (z, or the first operand), 1 (the
 * matrices, at the first expert), 2 (y, or the second operand), 3 (ends, at the first expert). */
typedef struct Grouped {
    Walk w;
    const double *ends;
    Name rows, homes; /* homes: 0, if there are none */
    int64_t experts, matrix_stride, end_stride;
} Grouped;

static Grouped grouped_start(Interp *in, const Ins *i, const Type *z, const Type *y,
                             const Type *matrices)
{
    Grouped g = {.ends = interp_in(in, i, 2),
                 .rows = i->attrs.along.name,
                 .homes = i->attrs.keys.name,
                 .experts = i->attrs.to.size};
    const Type matrix = standing(matrices, i->attrs.dim.name, &g.matrix_stride);
    const Type ends = standing(in_type(in, i, 2), i->attrs.to.name, &g.end_stride);
    g.w = walk_start();
    walk_dims(&g.w, z);
    walk_dims(&g.w, y);
    walk_tensor(&g.w, z);
    walk_tensor(&g.w, &matrix);
    walk_tensor(&g.w, y);
    walk_tensor(&g.w, &ends);
    return g;
}

/* Index of the element of the row's expert; -1: behind the rows of all experts. */
static int64_t matrix_at(const Grouped *g)
{
    const double row = (double)walk_index(&g->w, g->rows);
    const int64_t first = g->homes ? walk_index(&g->w, g->homes) * g->experts : 0;
    for (int64_t e = 0; e < g->experts; e++)
        if (row < g->ends[g->w.at[3] + e * g->end_stride])
            return g->w.at[1] + (first + e) * g->matrix_stride;
    return -1;
}

void interp_grouped(Interp *in, const Ins *i)
{
    const double *z = interp_in(in, i, 0), *w = interp_in(in, i, 1);
    double *y = interp_out(in, i, 0);
    Grouped g = grouped_start(in, i, in_type(in, i, 0), out_type(in, i, 0), in_type(in, i, 1));
    do {
        const int64_t at = matrix_at(&g);
        if (at >= 0)
            y[g.w.at[2]] += z[g.w.at[0]] * w[at];
    } while (walk_next(&g.w));
}

void interp_grouped_weight(Interp *in, const Ins *i)
{
    const double *z = interp_in(in, i, 0), *y = interp_in(in, i, 1);
    const double *c = i->nin > 3 ? interp_in(in, i, 3) : NULL;
    double *w = interp_out(in, i, 0);
    Grouped g = grouped_start(in, i, in_type(in, i, 0), in_type(in, i, 1), out_type(in, i, 0));
    do {
        const int64_t at = matrix_at(&g);
        if (at >= 0)
            w[at] += z[g.w.at[0]] * y[g.w.at[2]];
    } while (walk_next(&g.w));
    if (!c)
        return;
    Walk all = walk_start();
    walk_dims(&all, out_type(in, i, 0));
    walk_tensor(&all, out_type(in, i, 0));
    walk_tensor(&all, in_type(in, i, 3));
    do
        w[all.at[0]] += c[all.at[1]];
    while (walk_next(&all));
}
