/* interp_ops.c - the reference meaning of the ops that kernels/ implements. */
#include "ir/interpret.h"
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Type *in_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->in[k]);
}

static const Type *out_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->out[k]);
}

/* ---- random --------------------------------------------------------------------------------- */

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011). */
static void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = n0;
        c[1] = (uint32_t)p1;
        c[2] = n2;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Element e is word e % 4 of counter (e / 4, step), 24 bits of it, under the key seed ^ key. */
double ir_random(uint64_t seed, uint64_t step, uint64_t key, uint64_t element)
{
    uint64_t k = seed ^ key, block = element / 4;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step,
                     (uint32_t)(step >> 32)};
    philox(c, (uint32_t)k, (uint32_t)(k >> 32));
    return (double)(c[element % 4] >> 8) * 0x1p-24;
}

/* FNV-1a, as mg_key in kernels/. */
uint64_t ir_key(const char *s)
{
    uint64_t h = 14695981039346656037u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

void interp_random(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    uint64_t n = (uint64_t)type_elements(out_type(in, i, 0));
    uint64_t seed = (uint64_t)(int64_t)interp_in(in, i, 0)[0];
    uint64_t step = (uint64_t)(int64_t)interp_in(in, i, 1)[0];
    uint64_t slot = (uint64_t)(int64_t)interp_in(in, i, 2)[0];
    uint64_t key = ir_key(name_str(in->m->names, i->attrs.key));
    const Type *t = out_type(in, i, 0);
    uint64_t first = slot * n;
    if (t->rank && t->dims[0].axes) { /* rows of a tensor that lies over ranks */
        const uint64_t row = n / (uint64_t)t->dims[0].size;
        first = slot * row * (uint64_t)dim_whole(in->m, t->dims[0]) +
                row * (uint64_t)interp_position(in, t->dims[0], 0);
    }
    for (uint64_t e = 0; e < n; e++)
        y[e] = ir_random(seed, step, key, first + e);
}

uint32_t ir_round_bits(uint64_t seed, uint64_t step, uint64_t key, uint32_t row, uint32_t col,
                       int at)
{
    const uint64_t k = seed ^ key;
    uint32_t c[4] = {col / 4, row, (uint32_t)step, (uint32_t)(step >> 32)};
    philox(c, (uint32_t)k, (uint32_t)(k >> 32));
    return c[col % 4] >> 16 * at & 0xffff;
}

/* x, a float, with the bits added below those that a bf16 has, and cut off there. */
static double round_by(double x, uint32_t bits)
{
    float f = (float)x;
    uint32_t b;
    if (isnan(x))
        return x;
    memcpy(&b, &f, sizeof b);
    b = (b + bits) & 0xffff0000u;
    memcpy(&f, &b, sizeof f);
    return (double)f;
}

/* In double nothing is rounded. */
void interp_stochastic_round(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0), *row = interp_in(in, i, 1), *col = interp_in(in, i, 2);
    const uint64_t seed = (uint64_t)(int64_t)interp_in(in, i, 3)[0];
    const uint64_t step = (uint64_t)(int64_t)interp_in(in, i, 4)[0];
    const uint64_t key = ir_key(name_str(in->m->names, i->attrs.key));
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i, 0));
    walk_tensor(&w, out_type(in, i, 0));
    for (uint32_t k = 0; k < 3; k++)
        walk_tensor(&w, in_type(in, i, k));
    do {
        const uint32_t bits = ir_round_bits(seed, step, key, (uint32_t)(int32_t)row[w.at[2]],
                                            (uint32_t)(int32_t)col[w.at[3]], (int)i->attrs.at);
        y[w.at[0]] = in->round ? round_by(x[w.at[1]], bits) : x[w.at[1]];
    } while (walk_next(&w));
}

/* ---- gather --------------------------------------------------------------------------------- */

/* Position of an index of the whole dim within the rank's part; -1: another rank has it. */
static int64_t place_here(const Interp *in, Dim d, int64_t index)
{
    int64_t at = d.axes ? mesh_below(in->m, in->rank, d, index) : index;
    bool here = !d.axes || mesh_below(in->m, in->rank, d, index + 1) > at;
    return here && at < d.size ? at : -1;
}

void interp_gather(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *table = interp_in(in, i, 0), *index = interp_in(in, i, 1);
    Type rest = *in_type(in, i, 0);
    int d = type_find(&rest, i->attrs.dim.name);
    int64_t stride = type_stride(&rest, d), n = rest.dims[d].size;
    rest.dims[d].name = 0; /* walked by the index, not by name */
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i, 0));
    walk_tensor(&w, out_type(in, i, 0));
    walk_tensor(&w, &rest);
    walk_tensor(&w, in_type(in, i, 1));
    do {
        int64_t at = place_here(in, i->attrs.dim, (int64_t)index[w.at[2]]);
        bool elsewhere = i->attrs.dim.axes && at < 0; /* another rank has it */
        y[w.at[0]] = elsewhere ? 0 : at >= 0 && at < n ? table[w.at[1] + at * stride] : NAN;
    } while (walk_next(&w));
}

/* The result begins as the operand that rows go into. */
static double *begin_table(Interp *in, const Ins *i, uint32_t k)
{
    double *y = interp_out(in, i, 0);
    const double *c = interp_in(in, i, k);
    Walk w = walk_start();
    walk_dims(&w, out_type(in, i, 0));
    walk_tensor(&w, out_type(in, i, 0));
    walk_tensor(&w, in_type(in, i, k));
    do
        y[w.at[0]] = c[w.at[1]];
    while (walk_next(&w));
    return y;
}

/* Rows that are added to the table y, or take the places of its own. */
static void rows_into(Interp *in, const Ins *i, double *y, bool add)
{
    const double *g = interp_in(in, i, 0), *index = interp_in(in, i, 1);
    Type rest = *out_type(in, i, 0);
    int d = type_find(&rest, i->attrs.dim.name);
    int64_t stride = type_stride(&rest, d), n = rest.dims[d].size;
    rest.dims[d].name = 0;
    Walk w = walk_start();
    walk_dims(&w, in_type(in, i, 0));
    walk_tensor(&w, in_type(in, i, 0));
    walk_tensor(&w, &rest);
    walk_tensor(&w, in_type(in, i, 1));
    do {
        int64_t at = place_here(in, i->attrs.dim, (int64_t)index[w.at[2]]);
        double *to = y + w.at[1] + at * stride;
        if (at >= 0 && at < n)
            *to = g[w.at[0]] + (add ? *to : 0);
    } while (walk_next(&w));
}

void interp_scatter_add(Interp *in, const Ins *i)
{
    rows_into(in, i, i->nin > 2 ? begin_table(in, i, 2) : interp_out(in, i, 0), true);
}

void interp_put(Interp *in, const Ins *i)
{
    rows_into(in, i, begin_table(in, i, 2), false);
}

/* ---- cross-entropy -------------------------------------------------------------------------- */

/* A copy of an operand in the dims and order of `t`, so that one set of offsets serves. */
static double *in_order(const Interp *in, const Ins *i, uint32_t k, const Type *t)
{
    const double *x = interp_in(in, i, k);
    double *y = interp_alloc(type_elements(t), sizeof *y);
    Walk w = walk_start();
    walk_dims(&w, t);
    walk_tensor(&w, t);
    walk_tensor(&w, in_type(in, i, k));
    do
        y[w.at[0]] = x[w.at[1]];
    while (walk_next(&w));
    return y;
}

static void put_in_order(Interp *in, const Ins *i, uint32_t k, const double *x, const Type *t)
{
    double *y = interp_out(in, i, k);
    Walk w = walk_start();
    walk_dims(&w, t);
    walk_tensor(&w, t);
    walk_tensor(&w, out_type(in, i, k));
    do
        y[w.at[1]] = x[w.at[0]];
    while (walk_next(&w));
}

/* log sum exp over the first n of strided z. */
static double log_sum_exp(const double *z, int64_t n, int64_t stride)
{
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < n; c++)
        if (!(z[c * stride] <= top))
            top = z[c * stride];
    for (int64_t c = 0; c < n; c++)
        sum += exp(z[c * stride] - top);
    return top + log(sum);
}

/* A target that is none of the valid classes has no loss: NaN, as gather without such an index. */
static bool is_class(int64_t target, int64_t valid)
{
    return target >= 0 && target < valid;
}

typedef struct Classes {
    int64_t n, valid, stride;
    Walk w; /* targets, logits at class 0, then what the caller adds */
} Classes;

static Classes classes_start(Interp *in, const Ins *i)
{
    const Type *z = in_type(in, i, 0), *t = in_type(in, i, 1);
    int d = type_find(z, i->attrs.over.dim[0].name);
    Classes c = {.n = z->dims[d].size, .valid = i->attrs.valid, .stride = type_stride(z, d)};
    Type z0 = *z;
    z0.dims[d].name = 0;
    c.w = walk_start();
    walk_dims(&c.w, t);
    walk_tensor(&c.w, t);
    walk_tensor(&c.w, &z0);
    return c;
}

void interp_cross_entropy(Interp *in, const Ins *i)
{
    Classes c = classes_start(in, i);
    const double *z = interp_in(in, i, 0), *target = interp_in(in, i, 1);
    double *loss = interp_out(in, i, 0), *lse = interp_out(in, i, 1);
    walk_tensor(&c.w, out_type(in, i, 0));
    walk_tensor(&c.w, out_type(in, i, 1));
    do {
        const double *row = z + c.w.at[1];
        double l = log_sum_exp(row, c.valid, c.stride);
        lse[c.w.at[3]] = l;
        int64_t t = (int64_t)target[c.w.at[0]];
        loss[c.w.at[2]] = is_class(t, c.valid) ? l - row[t * c.stride] : NAN;
    } while (walk_next(&c.w));
}

void interp_cross_entropy_grad(Interp *in, const Ins *i)
{
    Classes c = classes_start(in, i);
    const double *z = interp_in(in, i, 0), *target = interp_in(in, i, 1);
    const double *lse = interp_in(in, i, 2), *g = interp_in(in, i, 3);
    const Type *zt = in_type(in, i, 0);
    double *dz = interp_alloc(type_elements(zt), sizeof *dz);
    walk_tensor(&c.w, in_type(in, i, 2));
    walk_tensor(&c.w, in_type(in, i, 3));
    do {
        int64_t at = c.w.at[1], t = (int64_t)target[c.w.at[0]];
        for (int64_t k = 0; k < c.n; k++) {
            double p = k < c.valid ? exp(z[at + k * c.stride] - lse[c.w.at[2]]) : 0;
            dz[at + k * c.stride] = is_class(t, c.valid) ? g[c.w.at[3]] * (p - (k == t)) : NAN;
        }
    } while (walk_next(&c.w));
    put_in_order(in, i, 0, dz, zt);
    free(dz);
}

/* ---- head ----------------------------------------------------------------------------------- */

/* Halves are stored between the product and the cross-entropy. */
static void stored(const Interp *in, double *z, int64_t n, DType t)
{
    for (int64_t i = 0; i < n && in->round && dtype_is_half(t); i++)
        z[i] = interp_rounded(z[i], t);
}

/* The product and the cross-entropy of a row at a time; if dx is not NULL, with gradients, which
 * are added to dx and, unless it is NULL, dw, laid out as x and w. */
static void head(Interp *in, const Ins *i, double *loss, double *dx, double *dw)
{
    const Type *xt = in_type(in, i, 0), *wt = in_type(in, i, 1), *tt = in_type(in, i, 2);
    const double *x = interp_in(in, i, 0), *wm = interp_in(in, i, 1), *t = interp_in(in, i, 2);
    int d = type_find(wt, i->attrs.dim.name);
    int64_t classes = wt->dims[d].size, cstride = type_stride(wt, d), valid = i->attrs.valid;
    Type none = {0};
    const Type *gt = dx ? in_type(in, i, 3) : &none;
    const double *g = dx ? interp_in(in, i, 3) : NULL;
    double *z = interp_alloc(classes, sizeof *z);
    Walk row = walk_start();
    walk_dims(&row, tt);
    walk_tensor(&row, tt);
    walk_tensor(&row, xt);
    walk_tensor(&row, out_type(in, i, 0));
    walk_tensor(&row, gt);
    do {
        Walk h = walk_start();
        for (int k = 0; k < i->attrs.over.n; k++)
            walk_dim(&h, xt->dims[type_find(xt, i->attrs.over.dim[k].name)]);
        walk_tensor(&h, xt);
        walk_tensor(&h, wt);
        for (int64_t c = 0; c < classes; c++)
            z[c] = 0;
        do
            for (int64_t c = 0; c < classes; c++)
                z[c] += x[row.at[1] + h.at[0]] * wm[h.at[1] + c * cstride];
        while (walk_next(&h));
        stored(in, z, classes, xt->dtype);
        int64_t target = (int64_t)t[row.at[0]];
        double lse = log_sum_exp(z, valid, 1);
        bool known = is_class(target, valid);
        loss[row.at[2]] = known ? lse - z[target] : NAN;
        if (!dx)
            continue;
        for (int64_t c = 0; c < classes; c++)
            z[c] = known ? g[row.at[3]] * ((c < valid ? exp(z[c] - lse) : 0) - (c == target)) : NAN;
        stored(in, z, classes, xt->dtype);
        do /* h starts again after its last index */
            for (int64_t c = 0; c < classes; c++) {
                dx[row.at[1] + h.at[0]] += z[c] * wm[h.at[1] + c * cstride];
                if (dw)
                    dw[h.at[1] + c * cstride] += z[c] * x[row.at[1] + h.at[0]];
            }
        while (walk_next(&h));
    } while (walk_next(&row));
    free(z);
}

void interp_head(Interp *in, const Ins *i)
{
    const Type *x = in_type(in, i, 0), *w = in_type(in, i, 1);
    double *dx = interp_alloc(type_elements(x), sizeof *dx);
    double *dw = i->nin > 4 ? in_order(in, i, 4, w) : interp_alloc(type_elements(w), sizeof *dw);
    head(in, i, interp_out(in, i, 0), dx, dw);
    put_in_order(in, i, 1, dx, x);
    put_in_order(in, i, 2, dw, w);
    free(dx), free(dw);
}

void interp_head_frozen(Interp *in, const Ins *i)
{
    const Type *x = in_type(in, i, 0);
    double *dx = interp_alloc(type_elements(x), sizeof *dx);
    head(in, i, interp_out(in, i, 0), dx, NULL);
    put_in_order(in, i, 1, dx, x);
    free(dx);
}

void interp_head_loss(Interp *in, const Ins *i)
{
    head(in, i, interp_out(in, i, 0), NULL, NULL);
}
